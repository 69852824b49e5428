"""Which pass, or which instruction, makes the difference."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hlorun import _hlorun
from hlorun._hlorun import HloInstruction, HloModule, compile
from hlorun._inputs import make_inputs, require_same_parameters
from hlorun._statistics import leaves
from hlorun.errors import HloArgumentError, HloError
from hlorun.find.comparison import Comparison, compare_sides, outputs_of
from hlorun.find.deadline import Deadline
from hlorun.find.sides import Side, results_of
from hlorun.find.values import Values
from hlorun.report.result import Place, Result
from hlorun.report.units import plural

if TYPE_CHECKING:
    from hlorun._scan import DumpModule, DumpStage


@dataclass(frozen=True)
class Bisection(Result):
    """What a bisection found.

    Attributes:
        kind: What was searched: "passes" of hlorun, "stages" of a dump folder, or "instructions" of two
            modules.
        culprit: The pass or the instruction; None where nothing differs.
        number: Its position; None where nothing differs.
        runs: How often modules were run.
        comparison: The `Comparison` of the results before and after it, or None.
        module: The instruction at fault, alone and runnable, where it is known.
        inputs: Arrays for the parameters of `module`, of their dtypes and sizes.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> other = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] subtract(p, p) }")
        >>> bisection = hlorun.bisect(other, against=module)
        >>> bisection.kind, bisection.culprit, bisection.inputs[0].shape
        ('instructions', 'a', (2,))
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
            return f"nothing differs ({plural(self.runs, 'run')})"
        where = f"{self.culprit}, number {self.number} of the {self.kind}"
        text = f"{where}, makes the difference ({plural(self.runs, 'run')})"
        return text if self.comparison is None else f"{text}\n{self.comparison}"

    def to_dict(self) -> dict[str, Any]:
        """The fields in the types of JSON; of arrays only dtype and sizes.

        Examples:
            >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
            >>> other = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] subtract(p, p) }")
            >>> hlorun.bisect(other, against=module).to_dict()["inputs"]
            ['float32[2]']
        """
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


def _own_passes(
    module: HloModule, arguments: list[Any], is_bad: Callable[[Any], bool] | None, deadline: Deadline
) -> Bisection:
    def run(limit: int) -> tuple[Any, list[str]]:
        executable = compile(module, pass_limit=limit)
        if executable.replicas * executable.partitions == 1:
            result = deadline.run(lambda seconds: executable(*arguments, timeout=seconds))
        else:
            result = tuple(results_of(executable, arguments, None, deadline))
        return result, [record.name for record in executable.passes]

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
    found = _compared(*stages, arguments, deadline)
    part, inputs = _part(stages[1], _culprit(found) or _first_gap(found), arguments, deadline)
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


def _stages(
    folder: DumpModule, arguments: list[Any], is_bad: Callable[[Any], bool] | None, deadline: Deadline
) -> Bisection:
    stages = stages_of(folder)
    first = stages[0].load()
    given = arguments or make_inputs(first)
    runs = 0
    reference = cache(lambda: Side(first, given, deadline))

    def differs(number: int) -> bool:
        nonlocal runs
        runs += 1
        module = stages[number].load()
        if is_bad is not None:
            executable = compile(module)
            return is_bad(deadline.run(lambda seconds: executable(*given, timeout=seconds)))
        require_same_parameters(first, module)
        return outputs_of(reference(), Side(module, given, deadline))[0] == "different"

    number = _first(len(stages) - 1, differs)
    if number is None:
        return Bisection("stages", None, None, runs, None, None, ())
    before, after = stages[number - 1].load(), stages[number].load()
    found = _compared(before, after, given, deadline)
    part, inputs = _part(after, _culprit(found), given, deadline)
    stage = stages[number]
    name = f"{stage.pipeline}/{stage.after}" if stage.after else stage.name
    return Bisection("stages", name, number, runs, found, part, inputs)


def _compared(a: HloModule, b: HloModule, arguments: list[Any], deadline: Deadline) -> Comparison:
    require_same_parameters(a, b)
    return compare_sides(Side(a, arguments, deadline), Side(b, arguments, deadline))


def _culprit(found: Comparison) -> Place | None:
    """The instruction that a comparison blames."""
    return found.suspect or (found.first.b if found.first is not None else None)


def _part(
    module: HloModule, place: Place | None, arguments: list[Any], deadline: Deadline
) -> tuple[HloModule | None, tuple[Any, ...]]:
    """The instruction at a place alone, and its operands when a run first comes to it."""
    if place is None or place.name not in module:
        return None, ()
    part = _hlorun.extract(module, place.name, 1)
    entry = part.entry_computation
    names = [parameter.name for parameter in entry.parameters] if entry is not None else []
    values = Values(module, arguments)
    found: dict[str, Any] = {}

    def look(instruction: HloInstruction, value: Any) -> None:
        if instruction.name == place.name and instruction.computation.name == place.computation:
            found.update((operand.name, values.of(operand)) for operand in instruction.operands)
            raise _Reached
        values.note(instruction, value)

    with suppress(_Reached):
        results_of(compile(module), arguments, look, deadline)
    if any(found.get(name) is None for name in names):
        return part, ()
    return part, tuple(found[name] for name in names)


class _Reached(Exception):
    """Ends a run at the instruction whose operands are wanted."""


def bisect(
    target: HloModule | DumpModule | str | os.PathLike[str],
    *arrays: Any,
    against: HloModule | None = None,
    is_bad: Callable[[Any], bool] | None = None,
    timeout: float | None = None,
) -> Bisection:
    """Find the pass or the instruction from which on results differ.

    Args:
        target: A module, whose compilation by hlorun is searched pass by pass, or whose instructions are
            searched where `against` is given; or a folder that `--xla_dump_to` filled with one module after
            each pass (`--xla_dump_hlo_pass_re=.*`), or one of the modules that `hlorun.scan` found in it.
        *arrays: An array per parameter of the entry computation, of its dtype and sizes; nested tuples for
            tuples; without any, the random ones of `hlorun.make_inputs`.
        against: The module that is right; `target` is the one that differs.
        is_bad: Says of the results of a run whether they are wrong. Without it they are compared with those
            before the first pass: bit for bit for hlorun's passes, but for rounding for a folder.
        timeout: Seconds that all of it may take.

    Returns:
        A `Bisection`; its `culprit` is None where nothing differs.

    Raises:
        HloArgumentError: The folder holds no module, several, or one stage only; or the modules have other
            parameters.
        HloError: A module breaks rules of HLO, or does not run here.
        HloTimeoutError: It took longer than `timeout`.
        ValueError: `timeout` is negative or NaN.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> other = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] subtract(p, p) }")
        >>> hlorun.bisect(other, against=module).culprit
        'a'
    """
    deadline = Deadline(timeout)
    arguments = list(arrays)
    if isinstance(target, HloModule):
        if against is None:
            return _own_passes(target, arguments or make_inputs(target), is_bad, deadline)
        given = arguments or make_inputs(against)
        found = _compared(against, target, given, deadline)
        place = _culprit(found)
        part, inputs = _part(target, place, given, deadline)
        culprit = place.name if place is not None else None
        if culprit is None and found.verdict == "different":
            culprit = "the result"
        all_names = [i.name for i in target.instructions]
        number = all_names.index(culprit) if culprit in all_names else None
        return Bisection("instructions", culprit, number, 6, found, part, inputs)
    from hlorun._scan import DumpModule

    dumped = target if isinstance(target, DumpModule) else only_module(Path(target))
    return _stages(dumped, arguments, is_bad, deadline)


def only_module(folder: Path, wanted: str | None = None) -> DumpModule:
    """The module that a folder is the dump of, or of several the one of a name or number.

    Raises:
        HloArgumentError: It holds none, or several, or none that is wanted.
    """
    from hlorun._scan import scan

    scanned = scan(folder)
    modules = scanned.named(wanted) if wanted is not None else []
    if wanted is None:
        modules = [module for module in scanned if len(module.stages) > 1] or list(scanned)
    if len(modules) == 1:
        return modules[0]
    names = ", ".join(f"{module.number} {module.name}" for module in (modules or list(scanned))[:8]) or "none"
    if wanted is None:
        raise HloArgumentError(
            f"{folder}: expected the dump of one module, found {names}; --module chooses one"
        )
    what = "several modules" if modules else "no module"
    raise HloArgumentError(f"{folder} has {what} called {wanted}; it has {names}")


def stages_of(module: DumpModule) -> list[DumpStage]:
    """The stages of a dump that hold a module.

    Raises:
        HloArgumentError: There are fewer than two.
    """
    stages = [stage for stage in module.stages if stage.text or stage.proto]
    if len(stages) < 2:
        raise HloArgumentError(
            f"{module.name} has {plural(len(stages), 'stage')}; "
            "--xla_dump_hlo_pass_re=.* dumps one after each pass"
        )
    return stages
