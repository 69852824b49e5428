"""What a search for NaN, or another module, says of the instructions of a graph page."""

from __future__ import annotations

from dataclasses import dataclass, field

from hlorun._hlorun import HloInstruction, HloModule
from hlorun.errors import HloArgumentError
from hlorun.find.nan import NanReport
from hlorun.report.diff import Diff

COLOURS = {
    "makes": ("#ff8a65", "#b3421b"),
    "carries": ("#ffe0b8", "#6b4a1f"),
    "given": ("#c5d5f0", "#33496b"),
    "added": ("#9bd8a0", "#2c6b33"),
    "changed": ("#f7d774", "#71590f"),
}
"""Fill of each mark on light and on dark ground; those of one overlay from the gravest on."""


@dataclass
class Marks:
    """The marks of one overlay.

    Attributes:
        words: Those it has.
        of: For an instruction its word, and what there is to say about it.
        others: What is only in the other module: the computation, and a line of HLO.
    """

    words: tuple[str, ...]
    of: dict[HloInstruction, tuple[str, str]] = field(default_factory=dict)
    others: list[tuple[str, str]] = field(default_factory=list)


def nan_marks(module: HloModule, report: NanReport) -> Marks:
    """Where NaN and Inf are made, and what carries them on.

    Raises:
        HloArgumentError: The report is of another module.
    """
    marks = Marks(("makes", "carries", "given"))

    by_place = {(i.computation.name, i.name): i for i in module.instructions}
    entry = module.entry_computation.name if module.entry_computation is not None else ""

    def find(name: str, computation: str) -> HloInstruction:
        if (computation, name) not in by_place:
            raise HloArgumentError(f"the report of NaN is of another module: {module.name} has no {name}")
        return by_place[computation, name]

    for carrier in report.carriers:
        marks.of[find(carrier.name, carrier.computation)] = "carries", ""
    for name in report.inputs:
        marks.of[find(name, entry)] = "given", "holds NaN or Inf"
    for origin in report.origins:
        place = find(origin.place.name, origin.place.computation)
        before = marks.of.get(place, ("", ""))
        text = str(origin) if before[0] != "makes" else f"{before[1]}; {origin}"
        marks.of[place] = "makes", text
    return marks


def diff_marks(module: HloModule, difference: Diff) -> Marks:
    """What of a module is not in another.

    Args:
        module: The second of the two.
        difference: What `hlorun.diff` says of the two.

    Raises:
        HloArgumentError: The module is not the second of the two.
    """
    marks = Marks(("added", "changed"))
    computations = {computation.name: computation for computation in module.computations}
    for item in difference.differences:
        if item.get("only_in") == "A":
            text = f"computation of {item['instructions']:,} instructions"
            marks.others.append((item["name"], text))
            continue
        name = item["name"] if "only_in" in item else item["other"]
        if name not in computations:
            raise HloArgumentError(_not_of(module, name))
        inside = {i.name: i for i in computations[name].instructions}
        if "only_in" in item:
            marks.of.update((i, ("added", "its computation is only in this module")) for i in inside.values())
            continue
        gone = {c["name"]: c["text"] for c in item["changes"] if c["side"] == "-"}
        for change in item["changes"]:
            if change["side"] == "-":
                if change["partner"] is None:
                    marks.others.append((name, change["text"]))
                continue
            if change["name"] not in inside:
                raise HloArgumentError(_not_of(module, change["name"]))
            partner = change["partner"]
            mark = ("added", "") if partner is None else ("changed", f"was {gone[partner]}")
            marks.of[inside[change["name"]]] = mark
    return marks


def _not_of(module: HloModule, name: str) -> str:
    return f"the difference is not hlorun.diff(other, {module.name}): {module.name} has no {name}"
