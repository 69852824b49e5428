"""`hlorun graph`."""

from __future__ import annotations

import json
import re
from pathlib import Path

from conftest import dump_path
from test_cli import hlorun


def test_the_page_holds_every_instruction_and_needs_no_network(tmp_path: Path) -> None:
    out = tmp_path / "g.html"
    hlorun("graph", dump_path("001"), "--html", out)
    page = out.read_text()
    assert not re.search(r"(src|href)=|https?://(?!www\.w3\.org/2000/svg)", page)
    text = page.split('type="application/json">')[1].split("</script>")[0]
    data = json.loads(text)
    assert sum(len(c["nodes"]) for c in data["computations"]) == 133
    assert data["computations"][0]["entry"]
    for computation in data["computations"]:
        # No two instructions in one place.
        assert len({tuple(n["p"]) for n in computation["nodes"]}) == len(computation["nodes"])


def test_names_cannot_end_the_script(tmp_path: Path) -> None:
    dump, out = tmp_path / "m.txt", tmp_path / "g.html"
    dump.write_text(
        'HloModule m\nENTRY e { p = f32[] parameter(0), metadata={op_name="</script><!--<script>x"}\n'
        " ROOT r = f32[] negate(p) }"
    )
    hlorun("graph", dump, "--html", out)
    assert out.read_text().count("</script>") == 2
    assert "<!--<script>" not in out.read_text()


def test_graphviz() -> None:
    text = hlorun("graph", dump_path("001"), "--dot", "-").stdout
    assert text.startswith("digraph") and text.count("subgraph") == 12
    assert text.count("{") == text.count("}")
