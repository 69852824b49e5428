"""Which pass, or which instruction, makes the difference."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hlorun import _hlorun
from hlorun._hlorun import HloInstruction, HloModule, compile
from hlorun._statistics import leaves
from hlorun.errors import HloArgumentError, HloError
from hlorun.find.comparison import Comparison, compare
from hlorun.report.result import Place, Result
from hlorun.report.units import plural

if TYPE_CHECKING:
    from hlorun._scan import DumpModule


@dataclass(frozen=True)
class Bisection(Result):
    """What a bisection found.

    `kind` says what was searched: `"passes"` of hlorun, `"stages"` of a dump folder, or `"instructions"` of
    two modules. `culprit` is the pass or the instruction, None where nothing differs; `number` its position.
    `comparison` holds the results before and after it. `module` is the instruction at fault, alone and
    runnable, with `inputs` for it, where it is known.
    """

    kind: str
    culprit: str | None
    number: int | None
    runs: int
    comparison: Comparison | None
    module: HloModule | None = field(repr=False)
    inputs: tuple[Any, ...] = field(repr=False)

    def __str__(self) -> str:
        """As a person reads it."""
        if self.culprit is None:
            return f"nothing differs ({self.runs} runs)"
        where = f"{self.culprit}, number {self.number} of the {self.kind}"
        text = f"{where}, makes the difference ({self.runs} runs)"
        return text if self.comparison is None else f"{text}\n{self.comparison}"

    def to_dict(self) -> dict[str, Any]:
        """The fields in the types of JSON, without arrays."""
        made = super().to_dict()
        made["inputs"] = [f"{np.asarray(x).dtype}{list(np.shape(x))}" for x in self.inputs]
        return made


def _first(count: int, is_bad: Callable[[int], bool]) -> int | None:
    """The least number from 1 on for which `is_bad`, if it is for `count`, as it is from there on."""
    if count < 1 or not is_bad(count):
        return None
    good, bad = 0, count
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (good, middle) if is_bad(middle) else (middle, bad)
    return bad


def _own_passes(module: HloModule, arguments: list[Any], is_bad: Callable[[Any], bool] | None) -> Bisection:
    def run(limit: int) -> tuple[Any, list[str]]:
        executable = compile(module, pass_limit=limit)
        return executable(*arguments), [record.name for record in executable.passes]

    want, required = run(0)
    count = len(compile(module).passes) - len(required)
    runs = 1

    def differs(limit: int) -> bool:
        nonlocal runs
        runs += 1
        got, _ = run(limit)
        if is_bad is not None:
            return is_bad(got)
        return any(
            np.asarray(x).tobytes() != np.asarray(y).tobytes()
            for x, y in zip(leaves(want), leaves(got), strict=True)
        )

    number = _first(count, differs)
    if number is None:
        return Bisection("passes", None, None, runs, None, None, ())
    name = run(number)[1][-1]
    stages = _around(module, number, name)
    if stages is None:
        return Bisection("passes", name, number, runs, None, None, ())
    found = compare(*stages, *arguments)
    part, inputs = _part(stages[1], _culprit(found) or _first_gap(found), arguments)
    return Bisection("passes", name, number, runs, found, part, inputs)


def _around(module: HloModule, limit: int, name: str) -> tuple[HloModule, HloModule] | None:
    """The module before and after the last pass that a limit allows; None of one that works on no HLO."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            compile(module, pass_limit=limit, dump=folder)
        except HloError:
            return None
        files = sorted(path for path in Path(folder).glob("*.hlo"))
        if len(files) < 2 or files[-1].stem.partition("-")[2] != name:
            return None
        before, after = (_hlorun.load(path) for path in files[-2:])
        return before, after


def _first_gap(found: Comparison) -> Place | None:
    """The first intermediate whose bits differ."""
    return next((match.b for match in found.matches if match.gap.verdict != "equal"), None)


def _stages(folder: DumpModule, arguments: list[Any], is_bad: Callable[[Any], bool] | None) -> Bisection:
    stages = [stage for stage in folder.stages if stage.text or stage.proto]
    if len(stages) < 2:
        has = plural(len(stages), "stage")
        raise HloArgumentError(
            f"{folder.name} has {has}; --xla_dump_hlo_pass_re=.* dumps one after each pass"
        )
    first = stages[0].load()
    given = arguments or _inputs(first)
    runs = 0

    def differs(number: int) -> bool:
        nonlocal runs
        runs += 1
        module = stages[number].load()
        if is_bad is not None:
            return is_bad(compile(module)(*given))
        return compare(first, module, *given).verdict == "different"

    number = _first(len(stages) - 1, differs)
    if number is None:
        return Bisection("stages", None, None, runs, None, None, ())
    before, after = stages[number - 1].load(), stages[number].load()
    found = compare(before, after, *given)
    part, inputs = _part(after, _culprit(found), given)
    stage = stages[number]
    name = f"{stage.pipeline}/{stage.after}" if stage.after else stage.name
    return Bisection("stages", name, number, runs, found, part, inputs)


def _inputs(module: HloModule) -> list[Any]:
    from hlorun._inputs import make_inputs

    return make_inputs(module)


def _culprit(found: Comparison) -> Place | None:
    """The instruction that a comparison blames."""
    return found.suspect or (found.first.b if found.first is not None else None)


def _part(
    module: HloModule, place: Place | None, arguments: list[Any]
) -> tuple[HloModule | None, tuple[Any, ...]]:
    """The instruction at a place alone, and values of its operands in a run."""
    if place is None or place.name not in module:
        return None, ()
    part = _hlorun.extract(module, place.name, 1)
    entry = part.entry_computation
    wanted = {parameter.name for parameter in entry.parameters} if entry is not None else set()
    found: dict[str, Any] = {}

    def keep(instruction: HloInstruction, value: Any) -> None:
        if instruction.name in wanted and instruction.computation.name == place.computation:
            found.setdefault(instruction.name, value)

    compile(module)(*arguments, observer=keep)
    own = module.entry_computation
    for parameter, value in zip(own.parameters if own is not None else (), arguments, strict=False):
        found.setdefault(parameter.name, value)
    names = [parameter.name for parameter in entry.parameters] if entry is not None else []
    if any(name not in found for name in names):
        return part, ()
    return part, tuple(found[name] for name in names)


def bisect(
    target: HloModule | str | os.PathLike[str],
    *arrays: Any,
    against: HloModule | None = None,
    is_bad: Callable[[Any], bool] | None = None,
) -> Bisection:
    """Find the pass or the instruction from which on results differ.

    Args:
        target: A module, whose compilation by hlorun is searched pass by pass, or whose instructions
            are searched where `against` is given; or a folder that `--xla_dump_to` filled with one module
            after each pass (`--xla_dump_hlo_pass_re=.*`).
        *arrays: One value per parameter; without any, the random ones of `hlorun.make_inputs`.
        against: The module that is right; `target` is the one that differs.
        is_bad: Says of the results of a run whether they are wrong. Without it they are compared with those
            before the first pass: bit for bit for hlorun's passes, but for rounding for a folder.

    Returns:
        A `Bisection`; its `culprit` is None where nothing differs.

    Raises:
        HloArgumentError: The folder holds no module, several, or one stage only.

    Examples:
        >>> hlorun.bisect("dumps/").culprit
        'simplification/algsimp'
    """
    arguments = list(arrays)
    if isinstance(target, HloModule):
        if against is None:
            return _own_passes(target, arguments or _inputs(target), is_bad)
        given = arguments or _inputs(against)
        found = compare(against, target, *given)
        place = _culprit(found)
        part, inputs = _part(target, place, given)
        culprit = place.name if place is not None else None
        if culprit is None and found.verdict == "different":
            culprit = "the result"
        all_names = [i.name for i in target.instructions]
        number = all_names.index(culprit) if culprit in all_names else None
        return Bisection("instructions", culprit, number, 4, found, part, inputs)
    from hlorun._scan import scan

    folder = scan(Path(target))
    modules = [module for module in folder.modules if len(module.stages) > 1] or list(folder.modules)
    if len(modules) != 1:
        names = ", ".join(module.name for module in modules[:8]) or "none"
        raise HloArgumentError(f"{target}: expected the dump of one module, found {names}")
    return _stages(modules[0], arguments, is_bad)
