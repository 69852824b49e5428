"""The map of offsets over time as PNG or SVG, drawn by matplotlib (the extra `hlorun[plot]`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hlorun.errors import HloUnsupportedError
from hlorun.report.memory import KINDS
from hlorun.report.units import bytes_text

COLORS = {
    "temporary": "#1c7eb0",
    "output": "#3a945c",
    "donated": "#7a5ab4",
    "argument": "#969fa8",
    "constant": "#ce922a",
    "thread-local": "#bebebe",
}


def memory_plot(report: dict[str, Any], path: Path, *, thread_local: bool = False) -> None:
    """Draw a report to a file; the suffix says in which format.

    Args:
        report: What `memory_report` returns.
        path: A .png, .svg or .pdf file.
        thread_local: Whether to draw what each thread has of its own.

    Raises:
        HloUnsupportedError: matplotlib is not installed.
        OSError: The file cannot be written.
        ValueError: matplotlib does not know the suffix.

    Examples:
        >>> from pathlib import Path
        >>> from hlorun.report.memory import memory_report
        >>> from hlorun.report.memory_plot import memory_plot
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> report = memory_report(module.buffer_assignment(), module)
        >>> memory_plot(report, Path("memory.png"))  # doctest: +SKIP
    """
    try:
        import matplotlib
    except ImportError:
        raise HloUnsupportedError("drawing needs matplotlib: pip install 'hlorun[plot]'") from None
    matplotlib.use("Agg")
    from matplotlib.collections import PatchCollection
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch, Rectangle
    from matplotlib.ticker import FuncFormatter

    figure = Figure(figsize=(12, 7.2), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    kinds = [k for k in KINDS if report["kinds"][k]["bytes"] and (thread_local or k != "thread-local")]
    base: dict[int, int] = {}
    top = 0
    for kind in kinds:
        held = [a for a in report["allocations"] if a["kind"] == kind]
        for allocation in sorted(held, key=lambda a: -a["size"]):
            base[allocation["index"]] = top
            top += allocation["size"]
    boxes, colors = [], []
    for value in report["values"]:
        if value["allocation"] in base:
            y = base[value["allocation"]] + value["offset"]
            width = value["end"] + 1 - value["start"]
            boxes.append(Rectangle((value["start"], y), width, value["size"]))
            colors.append(COLORS[value["kind"]])
            if value["size"] > top * 0.035 and width > report["moments"] * 0.08:
                upper.text(
                    value["start"] + report["moments"] * 0.006,
                    y + value["size"] / 2,
                    f"{value['name']}  {bytes_text(value['size'])}",
                    va="center",
                    fontsize=8,
                    color="white",
                    clip_on=True,
                )
    collection = PatchCollection(
        boxes, facecolor=colors, edgecolor="white", linewidth=0.4 if len(boxes) < 300 else 0
    )
    upper.add_collection(collection)
    upper.set_ylim(0, top or 1)
    upper.set_xlim(0, report["moments"])
    upper.set_ylabel("allocations, stacked")
    handles = [Patch(color=COLORS[k], label=f"{k} {bytes_text(report['kinds'][k]['bytes'])}") for k in kinds]
    upper.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, 1.1), ncols=6, frameon=False)
    times = [point[0] for point in report["curve"]] + [report["moments"]]
    live = [point[1] for point in report["curve"]]
    lower.stairs(live, times, fill=True, color=COLORS["temporary"], alpha=0.3)
    lower.stairs(live, times, color=COLORS["temporary"])
    lower.set_ylim(0, (report["peak"]["bytes"] or 1) * 1.18)
    lower.set_ylabel("live bytes")
    lower.set_xlabel("moment")
    moment = report["peak"]["moment"] + 0.5
    for axes in (upper, lower):
        axes.axvline(moment, color="#c2304a", linestyle="--", linewidth=1.1)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: bytes_text(int(y))))
        axes.spines[["top", "right"]].set_visible(False)
    right = moment > report["moments"] / 2
    lower.annotate(
        f"peak {bytes_text(report['peak']['bytes'])} at moment {report['peak']['moment']}",
        (moment, report["peak"]["bytes"] * 1.08),
        xytext=(-5 if right else 5, 0),
        textcoords="offset points",
        ha="right" if right else "left",
        va="center",
        color="#c2304a",
        fontsize=9,
    )
    figure.suptitle(f"{report['title']}: {bytes_text(report['total_bytes'])} allocated")
    figure.savefig(path, dpi=130)
