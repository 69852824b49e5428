"""The page of `hlorun graph`: its data, and the scripts that lay out and draw it."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from hlorun._hlorun import HloComputation, HloInstruction, HloModule
from hlorun.errors import HloArgumentError, HloError
from hlorun.find.nan import NanReport
from hlorun.report.diff import Diff
from hlorun.report.graph import COLOURS, family, shape_text
from hlorun.report.graph_marks import COLOURS as MARK_COLOURS
from hlorun.report.graph_marks import Marks, diff_marks, nan_marks
from hlorun.report.profile import CONTAINERS
from hlorun.report.result import Place
from hlorun.report.units import plural

WORDS = {
    "time": "time",
    "flops": "FLOPs, all trips",
    "bytes": "bytes accessed, all trips",
    "size": "size of the value",
    "peak": "bytes live at the peak",
    "nan": "NaN and Inf",
    "diff": "difference",
}
"""What the page can colour by, and how it says so."""

_SCRIPTS = ("graph_model.js", "graph_layout.js", "graph_view.js", "graph_page.js")


_MOST_FOR_PEAK = 20_000
"""Instructions of a module whose peak is found: the time it takes grows faster than their number."""


class _Numbers(dict[Any, int]):
    """Things by number, in the order in which they are first asked for."""

    def __missing__(self, thing: Any) -> int:
        self[thing] = len(self)
        return self[thing]


def read_times(path: Path) -> dict[str, float]:
    """Read the times of a profile, to colour the page of `hlorun.graph`.

    Args:
        path: A file that `hlorun run --profile` wrote.

    Returns:
        Seconds by the name of the instruction; those of loops and branches are at what is in them.

    Raises:
        HloArgumentError: The file is no such profile.
        OSError: It cannot be read.

    Examples:
        >>> from pathlib import Path
        >>> from hlorun.report.graph_page import read_times
        >>> from hlorun.report.profile import write_trace
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> outputs, steps = hlorun.compile(module).profile(np.ones(2, np.float32))
        >>> write_trace(Path("trace.json"), module.name, steps)
        >>> list(read_times(Path("trace.json")))
        ['a']
    """
    seconds: dict[str, float] = defaultdict(float)
    try:
        for event in json.loads(path.read_text(encoding="utf-8"))["traceEvents"]:
            if event["ph"] == "X" and event["cat"] not in CONTAINERS:
                seconds[event["name"]] += event["dur"] / 1e6
    except (ValueError, KeyError, TypeError):
        raise HloArgumentError(f"{path} is no profile that `hlorun run --profile` wrote") from None
    return dict(seconds)


def _operations(instruction: HloInstruction, runs: int) -> Iterator[tuple[HloInstruction, float]]:
    """FLOPs of what runs, and of all that is fused in it."""
    yield instruction, max(instruction.cost_analysis()["flops"], 0.0) * runs
    if instruction.opcode == "fusion":
        for callee in instruction.called_computations:
            for inner in callee.instructions:
                yield from _operations(inner, runs)


def _live_at_peak(module: HloModule) -> dict[str, float]:
    """Bytes by instruction at the moment with most of them; empty where it is not known or takes long."""
    from hlorun.report.memory import memory_report

    if module.instruction_count > _MOST_FOR_PEAK:
        return {}
    try:
        report = memory_report(module.buffer_assignment(), module)
    except HloError:
        # A module that cannot be assigned memory can still be looked at.
        return {}
    return {value["name"]: float(value["size"]) for value in report["values"] if value["at_peak"]}


def _overlays(
    module: HloModule, times: Mapping[str, float] | None, marks: Mapping[str, Marks]
) -> dict[str, dict[HloInstruction, float]]:
    found: dict[str, dict[HloInstruction, float]] = {kind: {} for kind in (*WORDS, *marks)}
    for kind, of in marks.items():
        found[kind] = dict.fromkeys(of.of, 1.0)
    peak = _live_at_peak(module)
    for i in module.instructions:
        if times and i.name in times:
            found["time"][i] = times[i.name]
        if i.name in peak:
            found["peak"][i] = peak[i.name]
        found["size"][i] = float(i.shape.nbytes or 0)
        if (runs := i.runs) is not None:
            for inner, flops in _operations(i, runs):
                found["flops"][inner] = found["flops"].get(inner, 0.0) + flops
            found["bytes"][i] = max(i.cost_analysis()["bytes accessed"], 0.0) * runs
    if times and not found["time"]:
        raise HloArgumentError(f"the profile is of another module: it names no instruction of {module.name}")
    return found


def _number(instruction: HloInstruction) -> int:
    """What a parameter or an element of a tuple is counted by."""
    if instruction.opcode == "parameter":
        return instruction.parameter_number or 0
    return instruction.tuple_index or 0


def _columns(instructions: list[HloInstruction], computations: list[HloComputation]) -> dict[str, Any]:
    """The instructions, a list for each of their properties; texts and opcodes by their number."""
    number = {i: n for n, i in enumerate(instructions)}
    place = {c: n for n, c in enumerate(computations)}
    texts, opcodes = _Numbers(), _Numbers()
    made: dict[str, Any] = {
        "name": [i.name for i in instructions],
        "op": [opcodes[i.custom_call_target or i.opcode, family(i), i.opcode] for i in instructions],
        "shape": [texts[shape_text(i.shape)] for i in instructions],
        "size": [i.shape.nbytes or 0 for i in instructions],
        "opname": [texts[i.metadata.op_name] for i in instructions],
        "source": [texts[Place.of(i).source] for i in instructions],
        "operands": [[number[operand] for operand in i.operands] for i in instructions],
        "number": [_number(i) for i in instructions],
        "calls": {
            n: [place[callee] for callee in called]
            for n, i in enumerate(instructions)
            if (called := i.called_computations)
        },
        "body": {
            n: body.name
            for n, i in enumerate(instructions)
            if i.opcode == "while" and (body := i.attributes.get("body")) is not None
        },
    }
    return made | {"strings": list(texts), "ops": list(opcodes)}


def _data(module: HloModule, times: Mapping[str, float] | None, marks: Mapping[str, Marks]) -> dict[str, Any]:
    computations = sorted(module.computations, key=lambda c: not c.is_entry)
    instructions = [i for c in computations for i in c.instructions]
    number = {i: n for n, i in enumerate(instructions)}
    overlays = {
        kind: {number[i]: int(f) if (f := float(f"{value:.6g}")) >= 1 and f == int(f) else f
               for i, value in of.items() if value}
        for kind, of in _overlays(module, times, marks).items()
    }  # fmt: skip
    start, listed = 0, []
    for c in computations:
        listed.append(
            {"name": c.name, "s": start, "c": len(c), "r": -1 if c.root is None else number[c.root]}
        )
        start += len(c)
    return {
        **_columns(instructions, computations),
        "comps": listed,
        "colours": list(COLOURS),
        "words": WORDS,
        # An overlay of marks is there also without any: that nothing is marked is what it says.
        "overlays": {kind: of for kind, of in overlays.items() if of or kind in marks},
        "first": next(iter(marks), "kind"),
        "marks": {
            kind: {
                "words": of.words,
                "of": {number[i]: mark for i, mark in of.of.items()},
                "others": of.others,
            }
            for kind, of in marks.items()
        },
    }


def to_html(
    module: HloModule,
    times: Mapping[str, float] | None = None,
    *,
    nan: NanReport | None = None,
    diff: Diff | None = None,
) -> str:
    """One page of the whole module; no network, no other files.

    Args:
        module: The module.
        times: Seconds by the name of the instruction.
        nan: What `hlorun.find_nan` says of the module.
        diff: What `hlorun.diff` says of another module and this one, in this order.

    Raises:
        HloArgumentError: No instruction has one of the names in `times`, `nan` or `diff` is of other modules,
            or the module has no entry.
    """
    if module.entry_computation is None:
        raise HloArgumentError(f"module {module.name} has no entry computation to draw")
    # "</script" would end the script, and "<!--<script" keep it from ending.
    marks: dict[str, Marks] = {}
    if nan is not None:
        marks["nan"] = nan_marks(module, nan)
    if diff is not None:
        marks["diff"] = diff_marks(module, diff)
    text = json.dumps(_data(module, times, marks), ensure_ascii=False, separators=(",", ":")).replace(
        "<", "\\u003c"
    )
    folder = files("hlorun.report").joinpath("page")
    page, *scripts = (folder.joinpath(name).read_text(encoding="utf-8") for name in ("graph.html", *_SCRIPTS))
    colours = COLOURS | MARK_COLOURS
    parts = {
        "@TITLE@": escape(module.name),
        "@ABOUT@": ", ".join(
            (plural(len(module.computations), "computation"), plural(module.instruction_count, "instruction"))
        ),
        "@LIGHT@": " ".join(f"--k-{kind}: {light};" for kind, (light, _) in colours.items()),
        "@DARK@": " ".join(f"--k-{kind}: {dark};" for kind, (_, dark) in colours.items()),
        "@CODE@": "\n".join(scripts),
        "@DATA@": text,
    }
    return re.sub("@[A-Z]+@", lambda mark: parts[mark[0]], page)
