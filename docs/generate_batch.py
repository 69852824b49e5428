"""Writes the tables of docs/batch.md from the schema itself: `python docs/generate_batch.py`."""

from __future__ import annotations

from pathlib import Path

import hlorun

PAGE = Path(__file__).parent / "batch.md"
MARK = "<!-- The rest of this page is written by generate_batch.py. -->\n"


def document() -> str:
    """The page: what stands before the mark, and the schema."""
    schema = hlorun.batch_schema()
    lines = [f"## Schema, version {schema['version']}", ""]
    for name, table in schema["tables"].items():
        lines += [f"### {name}", "", table["about"], "", "| column | type | |", "|---|---|---|"]
        lines += [f"| `{column}` | {kind} | {meaning} |" for column, kind, meaning in table["columns"]]
        lines.append("")
    names = ", ".join(f"`{name}`" for name in schema["features"])
    lines += [
        "### Features of a node",
        "",
        f"In this order; -1 is for what a node does not have: {names}.",
        "",
    ]
    before = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    return before + MARK + "\n" + "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(document(), encoding="utf-8")
