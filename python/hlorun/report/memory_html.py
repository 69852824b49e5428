"""The report of `hlorun memory` as one HTML file that needs nothing else."""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files
from typing import Any


def memory_html(report: dict[str, Any]) -> str:
    """A page with the map of offsets over time, the curve of live bytes and a table of values."""
    template = files("hlorun.report").joinpath("memory.html").read_text(encoding="utf-8")
    # "</script>" and "<!--" inside data would end the script early.
    data = json.dumps(report, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    title = escape(report["title"] or report["module"] or "memory")
    return template.replace("@TITLE@", title).replace("@DATA@", data)
