"""What fills the memory: reports, pages, pictures, dumps and differences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import hlorun
from conftest import browser_page, dump_path
from hlorun.cli import app
from hlorun.report.assignment_diff import diff_assignments
from hlorun.report.memory import memory_report
from hlorun.report.memory_html import memory_html


def report_002() -> dict[str, Any]:
    assignment = hlorun.load_buffer_assignment(dump_path("002"))
    return memory_report(assignment, hlorun.load(dump_path("001")), title="002")


def test_the_report_adds_up() -> None:
    report = report_002()
    assert report["total_bytes"] == 525_448
    assert sum(a["size"] for a in report["allocations"]) == 525_448
    assert report["peak"]["xla_moment"] == 6
    assert max(b for _, b in report["curve"]) == report["peak"]["bytes"] <= report["total_bytes"]
    assert sum(entry["live_at_peak"] for entry in report["kinds"].values()) == report["peak"]["bytes"]
    live = {v["name"]: v for v in report["values"] if v["at_peak"]}
    assert live["fusion.3"]["op_name"] == "sequential/dense/Relu"
    assert "copy" not in live
    json.dumps(report)


def test_holes_padding_and_donations_are_counted() -> None:
    text = (
        "HloModule m, is_scheduled=true\n\nENTRY e {\n"
        "  a = f32[100] parameter(0)\n  b = f32[100] negate(a)\n  c = f32[100] add(a, b)\n"
        "  d = f32[100] multiply(b, c)\n  ROOT e = f32[100] add(c, d)\n}\n"
    )
    report = memory_report(hlorun.parse(text).buffer_assignment())
    assert report["waste"]["missed_donation_bytes"] == 400
    assert report["waste"]["missed_donations"][0]["parameter"] == 0
    assert report["kinds"]["argument"]["bytes"] == 400
    assert report["advice"]


@pytest.mark.parametrize(
    "header", ["input_output_alias={ {}: (0, {}, may-alias) }", "buffer_donor={ (0, {}) }"]
)
def test_what_is_given_away_is_no_advice(header: str) -> None:
    text = "HloModule m, is_scheduled=true\nENTRY e {\n  a = f32[100] parameter(0)\n  ROOT b = f32[100] negate(a)\n}\n"
    assert memory_report(hlorun.parse(text).buffer_assignment())["waste"]["missed_donations"]
    module = hlorun.parse(text.replace("is_scheduled=true", f"is_scheduled=true, {header}"))
    for assignment in (module.buffer_assignment(), hlorun.compile(module).buffer_assignment()):
        report = memory_report(assignment, module)
        assert not report["waste"]["missed_donations"]
        assert not any("donating" in entry["what"] for entry in report["advice"])


def test_the_sums_have_the_names_of_jax(modules: dict[str, hlorun.HloModule]) -> None:
    stats = hlorun.load_buffer_assignment(dump_path("002")).memory_analysis()
    assert stats.temp_size_in_bytes == 17808
    assert stats.argument_size_in_bytes == 507_472
    assert stats.alias_size_in_bytes == 0
    own = modules["001"].memory_analysis()
    assert own.argument_size_in_bytes == stats.argument_size_in_bytes
    assert own.peak_memory_in_bytes is not None and own.peak_memory_in_bytes > 0
    assert own.generated_code_size_in_bytes == own.host_temp_size_in_bytes == 0


def test_live_ranges_of_a_module_are_those_xla_writes(modules: dict[str, hlorun.HloModule]) -> None:
    ranges = modules["001"].live_ranges()
    assert ranges is not None
    assert ranges.max >= 33
    assert any(name == "cublas-gemm.3" for name, _, _, _ in ranges.buffer_live_ranges)


@pytest.mark.parametrize("number", ["001", "003", "004"])
def test_a_plan_is_written_as_a_dump(modules: dict[str, hlorun.HloModule], number: str) -> None:
    executable = hlorun.compile(modules[number])
    dump = executable.buffer_assignment()
    assert str(hlorun.parse_buffer_assignment(str(dump))) == str(dump)
    temporary = sum(a.size for a in dump.allocations if a.is_preallocated_temp)
    assert temporary == executable.memory["temp_bytes"]
    assert memory_report(dump)["peak"]["bytes"] > 0


def test_two_assignments_are_compared(modules: dict[str, hlorun.HloModule]) -> None:
    theirs = hlorun.load_buffer_assignment(dump_path("002"))
    assert diff_assignments(theirs, theirs)["equal"]
    moved = hlorun.parse_buffer_assignment(
        str(theirs).replace(
            "<42 fusion.1 @0> (size=128,offset=128)", "<42 fusion.1 @0> (size=128,offset=256)"
        )
    )
    difference = diff_assignments(theirs, moved)
    assert not difference["equal"]
    assert difference["changed"] == [{"name": "fusion.1", "bytes": 128, "offset": (128, 256)}]
    assert diff_assignments(theirs, modules["001"].buffer_assignment())["totals"]["argument"]


def test_the_command(tmp_path: Path) -> None:
    run = CliRunner().invoke
    shown = run(app, ["memory", str(dump_path("002")), str(dump_path("001"))])
    assert shown.exit_code == 0, shown.output
    assert "525.4 kB" in shown.output
    assert "sequential/dense/Relu" in shown.output
    page = tmp_path / "m.html"
    result = run(app, ["memory", str(dump_path("001")), "--json", "--html", str(page), "--plan", "xla"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["total_bytes"] > 500_000
    assert page.stat().st_size > 10_000
    dumped = run(app, ["memory", str(dump_path("001")), "--as-dump"])
    assert hlorun.parse_buffer_assignment(dumped.output).total_bytes > 0
    assert run(app, ["memory", str(tmp_path / "absent")]).exit_code == 1
    assert run(app, ["memory", str(dump_path("001")), "--plan", "x"]).exit_code == 2
    assert run(app, ["memory", str(dump_path("001")), "--png", str(tmp_path / "m.bmp")]).exit_code == 2


def test_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need hlorun[plot]")
    from hlorun.report.memory_plot import memory_plot

    for suffix, start in ((".png", b"\x89PNG"), (".svg", b"<?xml")):
        path = tmp_path / f"m{suffix}"
        memory_plot(report_002(), path)
        assert path.read_bytes().startswith(start)


def test_the_page_asks_for_nothing() -> None:
    page = memory_html({**report_002(), "title": "</script><b>&"})
    assert "http://" not in page
    assert "https://" not in page
    assert page.count("</script>") == 2
    assert "<title>&lt;/script&gt;" in page


def test_a_browser_drives_the_page(tmp_path: Path) -> None:
    page_file = tmp_path / "m.html"
    page_file.write_text(memory_html(report_002()), encoding="utf-8")
    with browser_page(page_file, viewport={"width": 1300, "height": 1000}) as (page, problems):

        def column(number: int) -> list[str]:
            return [str(t) for t in page.locator(f"#rows tr td:nth-child({number})").all_inner_texts()]

        assert len(column(1)) == 51
        assert column(1)[0] == "arg3.4"
        page.locator("#head th[data-key=name]").click()
        names = column(1)
        assert names[0].startswith("add")
        page.locator("#head th[data-key=name]").click()
        assert column(1)[0] != names[0]
        page.locator("#filter").fill("gemm")
        assert set(column(1)) == {n for n in names if "gemm" in n} | set(column(1))
        assert 0 < len(column(1)) < 51
        page.locator("#filter").fill("")
        page.locator("#atpeak").check()
        assert 0 < len(column(1)) < 51
        page.locator("#atpeak").uncheck()
        for kind in ("argument", "constant", "output"):
            box = page.locator(f"#legend input[data-kind={kind}]")
            if box.count() and box.is_checked():
                box.uncheck()
        page.locator("#legend input[data-kind=temporary]").check()
        canvas = page.locator("#map")
        size = canvas.bounding_box()
        assert size is not None
        seen = set()
        for k in range(12):
            canvas.hover(position={"x": 90 + (size["width"] - 110) * k / 12, "y": size["height"] * 0.8})
            tip = page.locator("#tip")
            if tip.is_visible():
                seen.add(tip.inner_text().splitlines()[0])
        assert len(seen) >= 2, seen
        assert seen <= set(names)
        assert not problems


def test_sizes_beyond_all_memory_are_summed_without_wrapping() -> None:
    huge = "f32[2305843009213693951]"
    module = hlorun.parse(
        f"ENTRY e {{ a = {huge} parameter(0) b = {huge} parameter(1) c = {huge} add(a, b) "
        f"d = {huge} multiply(c, b) ROOT r = {huge} add(d, c) }}"
    )
    stats = module.memory_analysis()
    assert stats.argument_size_in_bytes == 2**64 - 8 and stats.peak_memory_in_bytes == 2**64 - 1
