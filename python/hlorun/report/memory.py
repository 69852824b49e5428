"""What fills the memory of an assignment: when, with what, for whom, and what is wasted."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from hlorun._hlorun import HloInstruction
from hlorun.errors import HloArgumentError
from hlorun.report.rollup import check, key_of, shares

if TYPE_CHECKING:
    from hlorun._hlorun import BufferAllocation, BufferAssignment, BufferLiveRanges, HloModule

ALIGNMENT = 64
"""Gaps below this many bytes are padding; larger ones are fragmentation."""

KINDS = ("temporary", "output", "donated", "argument", "constant", "thread-local")
"""Kinds of allocations, as the picture stacks them."""

_METADATA = re.compile(r'\b(op_name|source_file|source_line)=(?:"((?:[^"\\]|\\.)*)"|(\d+))')
_SHAPE = re.compile(r"\{[^{}]*\}")


def _donated(module: HloModule | None) -> set[tuple[int, str]]:
    """The parameters a module's header gives away, and the parts of them."""
    if module is None:
        return set()
    given = [(number, index) for _, number, index, _ in module.input_output_alias]
    given += module.buffer_donor
    return {(number, "{" + ",".join(map(str, index)) + "}") for number, index in given}


def _kind(allocation: BufferAllocation, donated: set[tuple[int, str]]) -> str:
    if allocation.is_thread_local:
        return "thread-local"
    if allocation.is_constant:
        return "constant"
    if allocation.parameter_number is not None:
        is_given = (allocation.parameter_number, allocation.parameter_index or "{}") in donated
        return "donated" if is_given or allocation.maybe_live_out else "argument"
    return "output" if allocation.maybe_live_out else "temporary"


def _sources(assignment: BufferAssignment, module: HloModule | None) -> dict[str, dict[str, str]]:
    """Opcode, op_name and source line by instruction."""
    found: dict[str, dict[str, str]] = {}
    for value in assignment.values:
        text = value.from_instruction
        fields = {m[1]: m[2] or m[3] for m in _METADATA.finditer(text)}
        opcode = re.search(r"([a-z][\w-]*)\(", text.partition(" = ")[2])
        found[value.instruction] = _entry(
            opcode[1] if opcode else "",
            fields.get("op_name", ""),
            fields.get("source_file", ""),
            fields.get("source_line", ""),
        )
    if module is not None:
        for computation in module.computations:
            for instruction in computation.instructions:
                metadata = instruction.metadata
                found[instruction.name] = _entry(
                    instruction.opcode,
                    metadata.op_name,
                    metadata.source_file,
                    str(metadata.source_line or ""),
                )
    return found


def _entry(opcode: str, op_name: str, file: str, line: str) -> dict[str, str]:
    source = file.rpartition("/")[2] + (f":{line}" if line else "") if file else ""
    return {"opcode": opcode, "op_name": " ".join((op_name or "").split()), "source": source}


def origin_of(name: str) -> str:
    """The instruction that a value of hlorun's own plan is named after."""
    return re.sub(r"\.plan\d+$", "", name)


def _union(ranges: list[tuple[int, int]]) -> int:
    """Bytes that at least one range covers."""
    total, top = 0, 0
    for start, end in sorted(ranges):
        total += max(0, end - max(top, start))
        top = max(top, end)
    return total


def _curve(values: list[dict[str, Any]], moments: int) -> list[list[int]]:
    """Live bytes from each moment at which they change: bytes shared by several values count once."""
    starts: dict[int, list[dict[str, Any]]] = {}
    ends: dict[int, list[dict[str, Any]]] = {}
    for value in values:
        starts.setdefault(value["start"], []).append(value)
        ends.setdefault(value["end"] + 1, []).append(value)
    live: dict[int, dict[int, tuple[int, int]]] = {}
    sums: dict[int, int] = {}
    curve: list[list[int]] = []
    for moment in sorted({0, moments, *starts, *ends}):
        touched = set()
        for value in ends.get(moment, ()):
            live[value["allocation"]].pop(value["row"], None)
            touched.add(value["allocation"])
        for value in starts.get(moment, ()):
            place = (value["offset"], value["offset"] + value["size"])
            live.setdefault(value["allocation"], {})[value["row"]] = place
            touched.add(value["allocation"])
        for allocation in touched:
            sums[allocation] = _union(list(live[allocation].values()))
        total = sum(sums.values())
        if moment < moments and (not curve or curve[-1][1] != total):
            curve.append([moment, total])
    return curve or [[0, 0]]


def _gaps(values: list[dict[str, Any]], size: int, moment: int) -> tuple[int, int]:
    """Bytes of an allocation that nothing needs at a moment: small gaps, and large ones."""
    live = sorted((v["offset"], v["offset"] + v["size"]) for v in values if v["start"] <= moment <= v["end"])
    small = large = top = 0
    for start, end in [*live, (size, size)]:
        gap = start - top
        if 0 < gap < ALIGNMENT:
            small += gap
        elif gap > 0:
            large += gap
        top = max(top, end)
    return small, large


def _missed_donations(allocations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Parameters as large and of the same type as a result that has memory of its own."""
    arguments: dict[str, list[dict[str, Any]]] = {}
    for allocation in allocations:
        if allocation["kind"] == "argument":
            arguments.setdefault(allocation["shape"], []).append(allocation)
    found = []
    for allocation in allocations:
        if allocation["kind"] != "output" or allocation["is_table"]:
            continue
        for shape in allocation["value_shapes"]:
            if arguments.get(shape):
                argument = arguments[shape].pop()
                found.append(
                    {
                        "parameter": argument["parameter"],
                        "name": argument["name"],
                        "output": allocation["name"],
                        "shape": shape,
                        "bytes": allocation["size"],
                    }
                )
                break
    return sorted(found, key=lambda entry: -entry["bytes"])


def _nothing_found(assignment: BufferAssignment) -> str:
    """What a file without allocations has instead, and where they may be."""
    found = [
        f"a usage report of {sum(space.total_bytes for space in assignment.usage):,} bytes"
        if assignment.usage
        else "",
        "live ranges" if assignment.live_range is not None else "",
        f"{len(assignment.values):,} values" if assignment.values else "",
    ]
    has = " and ".join(filter(None, found)) or "a total" * (assignment.total_bytes > 0) or "nothing"
    name = assignment.files[0] if assignment.files else "the text"
    return (
        f"{name} holds {has}, but no allocations; they stand in the file that ends in "
        "-buffer-assignment.txt, which belongs beside it"
    )


def _live_ranges(
    assignment: BufferAssignment, module: HloModule | None
) -> tuple[BufferLiveRanges | None, str]:
    """When values are live, and who says so."""
    if assignment.live_range is not None and assignment.live_range.buffer_live_ranges:
        return assignment.live_range, "the assignment"
    if module is None or not module.is_scheduled:
        return None, ""
    ranges = module.live_ranges()
    if ranges is None:
        return None, ""
    known = {(name, "" if index == "{}" else index) for name, index, _, _ in ranges.buffer_live_ranges}
    # What each thread has of its own is in no schedule, and constants are there all the time.
    needed = (a for a in assignment.allocations if not (a.is_thread_local or a.is_constant))
    for value in (value for allocation in needed for value in allocation.values):
        if (value.instruction, "" if value.index == "{}" else value.index) not in known:
            return None, ""
    return ranges, "the schedule of the module"


def _by_kind(allocations: list[dict[str, Any]], at_peak: list[dict[str, Any]] | None) -> dict[str, Any]:
    return {
        kind: {
            "bytes": sum(a["size"] for a in allocations if a["kind"] == kind),
            "allocations": sum(a["kind"] == kind for a in allocations),
            "live_at_peak": None
            if at_peak is None
            else _live_bytes([v for v in at_peak if v["kind"] == kind]),
        }
        for kind in KINDS
    }


def _common(
    assignment: BufferAssignment,
    module: HloModule | None,
    title: str,
    allocations: list[dict[str, Any]],
    values: list[dict[str, Any]],
) -> dict[str, Any]:
    """What is known whether or not live ranges are."""
    statistics = assignment.memory_analysis()
    return {
        "title": title,
        "files": list(assignment.files),
        "module": module.name if module is not None else "",
        "total_bytes": assignment.total_bytes,
        "usage": _usage(assignment),
        "memory_analysis": {
            name: getattr(statistics, name) for name in dir(statistics) if name.endswith("_in_bytes")
        },
        "allocations": [
            {key: a[key] for key in ("index", "size", "kind", "parameter", "name", "shape", "values")}
            for a in allocations
        ],
        "values": values,
    }


def _usage(assignment: BufferAssignment) -> dict[str, Any] | None:
    """The memory-usage report, and whether its sums are those of the allocations."""
    if not assignment.usage:
        return None
    spaces = []
    for space in assignment.usage:
        held = [a.size for a in assignment.allocations if a.color == space.color]
        spaces.append(
            {
                "memory_space": space.memory_space,
                "color": space.color,
                "total_bytes": space.total_bytes,
                "allocations": space.allocations,
                "assigned_bytes": sum(held),
            }
        )
    agrees = all(space["total_bytes"] == space["assigned_bytes"] for space in spaces)
    return {"spaces": spaces, "agrees": agrees}


def _without_ranges(
    assignment: BufferAssignment,
    module: HloModule | None,
    title: str,
    allocations: list[dict[str, Any]],
    values: list[dict[str, Any]],
) -> dict[str, Any]:
    """The report when nothing says which values are live together."""
    for value in values:
        value.update(start=None, end=None, at_peak=False)
    donations = _missed_donations(allocations)
    return {
        **_common(assignment, module, title, allocations, values),
        "live_ranges_from": "",
        "unknown": "which values are live together, hence the peak and the holes: there are no live ranges, "
        "and no scheduled module of these values",
        "moments": None,
        "peak": dict.fromkeys(("moment", "bytes", "instruction", "xla_moment", "live_values")),
        "kinds": _by_kind(allocations, None),
        "waste": {
            "fragmentation_bytes": None,
            "padding_bytes": None,
            "missed_donation_bytes": sum(entry["bytes"] for entry in donations),
            "missed_donations": donations,
        },
        "advice": _donation_advice(donations),
        "curve": [],
        "curves": {},
        "sequence": [],
    }


def memory_report(
    assignment: BufferAssignment, module: HloModule | None = None, *, title: str = ""
) -> dict[str, Any]:
    """Everything `hlorun memory` shows, as plain data.

    Args:
        assignment: The assignment, of XLA or of hlorun.
        module: Its module, for op_names and source lines the assignment does not have.
        title: What it is called.

    Returns:
        A dictionary that JSON can hold. Sizes are bytes; moments count scheduled instructions. Where
        neither the assignment nor a scheduled module says when values are live, what depends on it
        is None, and "unknown" says what is missing.

    Raises:
        HloArgumentError: The assignment has no allocations.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> report = memory_report(module.buffer_assignment(), module)
        >>> report["total_bytes"], report["memory_analysis"]["temp_size_in_bytes"]
        (16, 0)
    """
    if not assignment.allocations:
        raise HloArgumentError(_nothing_found(assignment))
    ranges, ranges_from = _live_ranges(assignment, module)
    sources = _sources(assignment, module)
    bounds: dict[tuple[str, str], tuple[int, int]] = {}
    last = 0
    sequence: list[str] = []
    if ranges is not None:
        sequence = [name for _, name in ranges.instruction_sequence]
        last = max(0, ranges.max - 1)
        for name, index, start, end in ranges.buffer_live_ranges:
            # A broken dump may end a range before it begins.
            end = max(start, end)
            bounds[name, "" if index == "{}" else index] = (start, end)
            last = max(last, end)
    allocations: list[dict[str, Any]] = []
    values: list[dict[str, Any]] = []
    donated = _donated(module)
    for allocation in assignment.allocations:
        kind = _kind(allocation, donated)
        held: list[dict[str, Any]] = []
        for value in allocation.values:
            index = "" if value.index == "{}" else value.index
            start, end = bounds.get((value.instruction, index), (0, last))
            if kind in ("argument", "donated") and value is allocation.values[0]:
                start = 0
            entry = sources.get(origin_of(value.instruction), {"opcode": "", "op_name": "", "source": ""})
            held.append(
                {
                    "row": len(values) + len(held),
                    "id": value.id,
                    "name": value.instruction + index,
                    "allocation": allocation.index,
                    "offset": value.offset,
                    "size": value.size,
                    "shape": value.shape,
                    "kind": kind,
                    "start": start,
                    "end": end,
                    **entry,
                }
            )
        values += held
        shapes = [_SHAPE.sub("", value["shape"]) for value in held]
        allocations.append(
            {
                "index": allocation.index,
                "size": allocation.size,
                "kind": kind,
                "parameter": allocation.parameter_number,
                "name": held[0]["name"] if held else "",
                "shape": _SHAPE.sub("", allocation.shape or (shapes[0] if shapes else "")),
                "value_shapes": shapes,
                "is_table": bool(shapes) and shapes[0].startswith("("),
                "values": len(held),
            }
        )
    if ranges is None:
        return _without_ranges(assignment, module, title, allocations, values)
    counted = [value for value in values if value["kind"] != "thread-local"]
    curve = _curve(counted, last + 1)
    peak_moment, peak_bytes = max(curve, key=lambda point: (point[1], -point[0]))
    at_peak = [v for v in counted if v["start"] <= peak_moment <= v["end"]]
    for row in values:
        row["at_peak"] = row["kind"] != "thread-local" and row["start"] <= peak_moment <= row["end"]
    by_kind = _by_kind(allocations, at_peak)
    padding = fragmentation = 0
    for block in allocations:
        if block["kind"] == "temporary" and block["values"] > 1:
            held = [v for v in values if v["allocation"] == block["index"]]
            busiest = max(_curve(held, last + 1), key=lambda point: point[1])[0]
            small, large = _gaps(held, block["size"], busiest)
            padding, fragmentation = padding + small, fragmentation + large
    donations = _missed_donations(allocations)
    instruction = sequence[peak_moment] if peak_moment < len(sequence) else ""
    return {
        **_common(assignment, module, title, allocations, values),
        "live_ranges_from": ranges_from,
        "unknown": "",
        "moments": last + 1,
        "peak": {
            "moment": peak_moment,
            "bytes": peak_bytes,
            "instruction": instruction,
            "xla_moment": assignment.peak,
            "live_values": len(at_peak),
        },
        "kinds": by_kind,
        "waste": {
            "fragmentation_bytes": fragmentation,
            "padding_bytes": padding,
            "missed_donation_bytes": sum(entry["bytes"] for entry in donations),
            "missed_donations": donations,
        },
        "advice": _advice(at_peak, curve, peak_bytes, donations, fragmentation),
        "curve": curve,
        "curves": {
            kind: _curve([v for v in values if v["kind"] == kind], last + 1)
            for kind in KINDS
            if by_kind[kind]["bytes"]
        },
        "sequence": sequence,
    }


def _live_bytes(values: list[dict[str, Any]]) -> int:
    by_allocation: dict[int, list[tuple[int, int]]] = {}
    for v in values:
        by_allocation.setdefault(v["allocation"], []).append((v["offset"], v["offset"] + v["size"]))
    return sum(map(_union, by_allocation.values()))


def _advice(
    at_peak: list[dict[str, Any]],
    curve: list[list[int]],
    peak: int,
    donations: list[dict[str, Any]],
    fragmentation: int,
) -> list[dict[str, Any]]:
    """What would lower the need for memory most, best first."""
    starts = [point[0] for point in curve]
    found: list[dict[str, Any]] = []
    for value in sorted(at_peak, key=lambda v: -v["size"])[:40]:
        if value["kind"] not in ("temporary", "output"):
            continue
        first = max(0, bisect_right(starts, value["start"]) - 1)
        until = bisect_right(starts, value["end"])
        inside = max((point[1] for point in curve[first:until]), default=0) - value["size"]
        outside = max((p[1] for p in (*curve[:first], *curve[until:])), default=0)
        saved = peak - max(inside, outside)
        if saved > 0:
            span = f"moments {value['start']}-{value['end']}"
            found.append(
                {
                    "saves_bytes": saved,
                    "what": f"not keeping {value['name']} {value['shape']} ({span})",
                    "name": value["name"],
                    "op_name": value["op_name"],
                    "source": value["source"],
                }
            )
    found += _donation_advice(donations)
    if fragmentation:
        found.append(
            {
                "saves_bytes": fragmentation,
                "what": "packing the temporaries without holes",
                "name": "",
                "op_name": "",
                "source": "",
            }
        )
    return sorted(found, key=lambda entry: -entry["saves_bytes"])[:8]


def _donation_advice(donations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "saves_bytes": entry["bytes"],
            "what": f"donating parameter {entry['parameter']} ({entry['name']}) "
            f"to the result {entry['output']}",
            "name": entry["name"],
            "op_name": "",
            "source": "",
        }
        for entry in donations[:10]
    ]


def memory_by(report: dict[str, Any], module: HloModule | None, by: str) -> list[dict[str, Any]]:
    """Whose values fill the memory at the peak, the largest first; at any time, where no peak is known.

    Values that share bytes count once in a group, and in each group that they are in.

    Args:
        report: What `memory_report` returned.
        module: The module of the assignment.
        by: One of `rollup.BY`.

    Returns:
        Rows of "key", "values", "bytes" and "share", which is of the sum of all groups.

    Raises:
        HloArgumentError: `by` is another word, or cannot be known without the module.
    """
    check(by)
    if module is None and by in ("loop", "computation"):
        raise HloArgumentError(f"by={by!r} needs the module of the assignment")
    of_instruction = key_of(module, by) if module is not None else None

    def key(value: dict[str, Any]) -> str:
        name = origin_of(value["name"].partition("{")[0])
        if module is not None and of_instruction is not None and name in module:
            found = module[name]
            if isinstance(found, HloInstruction):
                return of_instruction(found)
        return name if by == "instruction" else value.get(by) or f"no {by}"

    groups: dict[str, list[dict[str, Any]]] = {}
    for value in report["values"]:
        if value["at_peak"] or (report["unknown"] and value["kind"] != "thread-local"):
            groups.setdefault(key(value), []).append(value)
    sizes: dict[str, dict[str, float]] = {
        name: {"values": len(held), "bytes": _live_bytes(held)} for name, held in groups.items()
    }
    return shares(sizes, "bytes")
