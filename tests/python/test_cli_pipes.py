"""The command line among other programs: standard input, and findings in forms that machines read."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import hlorun
from hlorun.cli import app
from hlorun.cli.common import standard_input

BROKEN = "HloModule m\nENTRY e { p = f32[2] parameter(0)\n ROOT a = f32[3] add(p,p) }\n"


def test_a_dump_on_standard_input() -> None:
    text = "HloModule piped\nENTRY e { ROOT p = f32[2] parameter(0) }\n"
    for data in (text.encode(), gzip.compress(text.encode()), hlorun.parse(text).to_proto()):
        standard_input.cache_clear()
        shown = CliRunner().invoke(app, ["show", "-"], input=data)
        assert shown.exit_code == 0 and "piped" in shown.output, shown.output
    standard_input.cache_clear()
    refused = CliRunner().invoke(app, ["check", "-"], input=BROKEN)
    assert refused.exit_code == 1 and "<stdin>:3" in refused.output
    standard_input.cache_clear()


def test_a_dash_is_standard_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.hlo").write_text("HloModule piped\nENTRY e { ROOT p = f32[2] parameter(0) }\n")
    for command, start in (
        (["graph", "m.hlo", "--html", "-"], "<!doctype html>"),
        (["graph", "m.hlo", "--dot", "-"], "digraph"),
        (["extract", "m.hlo", "p", "--out", "-"], "HloModule"),
        (["fmt", "m.hlo", "--out", "-"], "HloModule piped"),
        (["smith", "--out", "-"], "HloModule"),
    ):
        shown = CliRunner().invoke(app, command)
        assert shown.exit_code == 0 and shown.stdout.startswith(start), (command, shown.output)
    assert [path.name for path in tmp_path.iterdir()] == ["m.hlo"]


def test_check_speaks_to_machines(tmp_path: Path) -> None:
    path = tmp_path / "a,b.hlo"
    path.write_text(BROKEN)
    annotated = CliRunner().invoke(app, ["check", str(path), "--output-format", "github"])
    assert annotated.exit_code == 1
    assert annotated.output.startswith(
        f"::error file={str(path).replace(',', '%2C')},line=3,col=2,title=HloVerifyError::%25a"
    )
    log = json.loads(CliRunner().invoke(app, ["check", str(path), "--output-format", "sarif"]).output)
    (result,) = log["runs"][0]["results"]
    assert (
        log["version"] == "2.1.0"
        and result["level"] == "error"
        and "declares f32[3]" in result["message"]["text"]
    )
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == str(path) and place["region"] == {
        "startLine": 3,
        "startColumn": 2,
    }
    assert CliRunner().invoke(app, ["check", str(path), "--output-format", "xml"]).exit_code == 2
