"""What differs between two buffer assignments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hlorun._hlorun import BufferAssignment


def diff_assignments(a: BufferAssignment, b: BufferAssignment) -> dict[str, Any]:
    """Compare totals, kinds, values, places and live ranges of two assignments.

    Args:
        a: One.
        b: The other.

    Returns:
        A dictionary JSON can hold: "equal"; "totals" with (a, b) pairs by name, in bytes but for
        "moments" and "peak_moment"; "only_in_a" and "only_in_b", names with sizes; "changed", one entry
        per value that differs, largest first, with (a, b) pairs of what does.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> assignment = module.buffer_assignment()
        >>> diff_assignments(assignment, assignment)["equal"]
        True
    """
    sides = [_facts(a), _facts(b)]
    totals = {
        key: (sides[0]["totals"][key], sides[1]["totals"][key])
        for key in {**sides[0]["totals"], **sides[1]["totals"]}
    }
    left, right = sides[0]["values"], sides[1]["values"]
    changed = []
    for name in left.keys() & right.keys():
        pairs = {key: (left[name][key], right[name][key]) for key in left[name]}
        differing = {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}
        if differing:
            changed.append({"name": name, "bytes": max(pairs["size"]), **differing})
    changed.sort(key=lambda entry: (-entry["bytes"], entry["name"]))

    def only(mine: dict[str, Any], other: dict[str, Any]) -> list[dict[str, Any]]:
        found = [{"name": name, "bytes": mine[name]["size"]} for name in mine.keys() - other.keys()]
        return sorted(found, key=lambda entry: (-entry["bytes"], entry["name"]))

    only_a, only_b = only(left, right), only(right, left)
    equal = not (changed or only_a or only_b) and all(x == y for x, y in totals.values())
    return {"equal": equal, "totals": totals, "only_in_a": only_a, "only_in_b": only_b, "changed": changed}


def _facts(assignment: BufferAssignment) -> dict[str, Any]:
    from hlorun.report.memory import memory_report

    report = memory_report(assignment)
    totals = {
        "total": report["total_bytes"],
        "peak": report["peak"]["bytes"],
        "peak_moment": report["peak"]["moment"],
        "moments": report["moments"],
        "allocations": len(report["allocations"]),
        "fragmentation": report["waste"]["fragmentation_bytes"],
        **{kind: entry["bytes"] for kind, entry in report["kinds"].items()},
    }
    values = {
        value["name"]: {
            "size": value["size"],
            "kind": value["kind"],
            "allocation": value["allocation"],
            "offset": value["offset"],
            "live": (value["start"], value["end"]),
            "shape": value["shape"],
        }
        for value in report["values"]
    }
    return {"totals": totals, "values": values}
