"""The smallest module that still shows something.

Delta debugging (Zeller and Hildebrandt, Simplifying and isolating failure-inducing input, 2002) over edits
that keep a module legal: outputs and instructions go, values become operands, zeros or parameters, numbers
and dimensions shrink.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hlorun import _hlorun
from hlorun._hlorun import HloInstruction, HloModule
from hlorun.errors import HloError
from hlorun.report.result import Result
from hlorun.report.units import plural

Edit = tuple[str, HloInstruction, int]
Predicate = Callable[[HloModule], bool]


@dataclass(frozen=True)
class Reduction(Result):
    """The smallest module found, and what it took.

    Attributes:
        module: The module.
        before: How many instructions there were.
        after: How many are left.
        tries: How many modules were tried.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> reduction = hlorun.reduce(module, lambda m: len(m.find(opcode="parameter")) > 0)
        >>> reduction.before, reduction.after
        (2, 1)
    """

    module: HloModule = field(repr=False)
    before: int
    after: int
    tries: int

    def __str__(self) -> str:
        """As a person reads it."""
        tries = plural(self.tries, "try", "tries")
        return f"{plural(self.before, 'instruction')} became {self.after:,} in {tries}"


class _Reducer:
    def __init__(
        self,
        module: HloModule,
        predicate: Predicate,
        out: Path | None,
        progress: Callable[[str], None] | None,
        pool: Executor | None,
        jobs: int,
    ) -> None:
        self.best = module
        self.predicate = predicate
        self.out = out
        self.progress = progress
        self.pool = pool
        self.jobs = jobs
        self.tries = 0
        self.seen = {_key(module)}

    def accepts(self, module: HloModule | None) -> bool:
        """Whether a module is legal and still shows it; it is the best one then."""
        return self.first([module]) is not None

    def first(self, modules: list[HloModule | None]) -> int | None:
        """The number of the first that is legal and still shows it, which is the best one then.

        Those of one call are tried at once.
        """
        fresh = [(number, module) for number, module in enumerate(modules) if self._is_new(module)]
        tried = [module for _, module in fresh if module is not None]
        self.tries += len(tried)
        shown = map(self.predicate, tried) if self.pool is None else self.pool.map(self.predicate, tried)
        found = None
        for (number, _), module, shows in zip(fresh, tried, shown, strict=True):
            if not shows:
                self.seen.add(_key(module))
            elif found is None:
                found = number
                self._take(module)
        return found

    def _is_new(self, module: HloModule | None) -> bool:
        """Whether it is worth a try."""
        if module is None or (key := _key(module)) in self.seen:
            return False
        try:
            module.verify()
        except HloError:
            self.seen.add(key)
            return False
        return True

    def _take(self, module: HloModule) -> None:
        """Make a module the best one, in the file too."""
        self.seen.add(_key(module))
        self.best = module
        if self.out is not None:
            # Whole or not at all: someone may read it, or end this, at any moment.
            part = self.out.with_name(self.out.name + ".part")
            part.write_text(str(module), encoding="utf-8")
            part.replace(self.out)
        if self.progress is not None:
            size = plural(module.instruction_count, "instruction")
            self.progress(f"{size} after {plural(self.tries, 'try', 'tries')}")

    def edits(self, name: str) -> bool:
        """Does as many edits of a kind as the predicate allows; whether any."""
        candidates = list(_EDITS[name](self.best))
        size, changed = max(1, len(candidates)), False
        while candidates:
            at = 0
            while at < len(candidates):
                starts = range(at, min(len(candidates), at + size * self.jobs), size)
                hit = self.first([_edited(self.best, candidates[k : k + size]) for k in starts])
                if hit is None:
                    at = starts[-1] + size
                    continue
                changed = True
                # Instructions are those of the module before.
                tried = _again(self.best, candidates[: starts[hit]])
                candidates = tried + _again(self.best, candidates[starts[hit] + size :])
                at = len(tried)
            if size == 1:
                break
            size = max(1, min(size, len(candidates)) // 2)
        return changed

    def outputs(self) -> bool:
        """Returns fewer results."""
        entry = self.best.entry_computation
        root = entry.root if entry is not None else None
        if root is None or root.opcode != "tuple":
            return False
        kept, changed, size = list(root.operands), False, len(root.operands)
        while size >= 1:
            at = 0
            while at < len(kept) and len(kept) > 1:
                rest = kept[:at] + kept[at + size :]
                made = _edited(self.best, [("output", output, 0) for output in rest]) if rest else None
                if self.accepts(made):
                    changed = True
                    kept = [output for _, output, _ in _again(self.best, [("", o, 0) for o in rest])]
                else:
                    at += size
            size //= 2
        return changed

    def roots(self) -> bool:
        """Returns an operand of the result instead, or an instruction in the middle."""
        changed = False
        while True:
            entry = self.best.entry_computation
            if entry is None or entry.root is None:
                return changed
            instructions = entry.instructions
            middle = [instructions[len(instructions) * k // 8] for k in range(1, 8)]
            for output in [*entry.root.operands, *middle]:
                if output != entry.root and self.accepts(_edited(self.best, [("output", output, 0)])):
                    changed = True
                    break
            else:
                return changed

    def computations(self) -> bool:
        """A called computation alone."""
        for computation in sorted(self.best.computations, key=len):
            if not computation.is_entry and self.accepts(_hlorun.extract(self.best, computation.name, None)):
                return True
        return False

    def sizes(self) -> bool:
        """Smaller dimensions, each everywhere at once."""
        changed = False
        sizes = {dim for i in self.best.instructions for dim in _dims(i) if dim > 1}
        for size in sorted(sizes, reverse=True):
            for smaller in _smaller(size):
                try:
                    made = _hlorun._resize(self.best, size, smaller)
                except HloError:
                    continue
                if self.accepts(made):
                    changed = True
                    break
        return changed

    def metadata(self) -> bool:
        """No metadata and no configurations."""
        text = self.best.to_string(print_metadata=False, print_backend_config=False)
        if text == str(self.best):
            return False
        return self.accepts(_hlorun.parse(text))


def _key(module: HloModule) -> str:
    return str(module)


def _dims(instruction: HloInstruction) -> tuple[int, ...]:
    return instruction.shape.dims if instruction.shape.is_array else ()


def _smaller(size: int) -> list[int]:
    """Sizes to try instead, smallest first."""
    return sorted({other for other in (1, 2, 3, math.isqrt(size), size // 2) if 0 < other < size})


def _edited(module: HloModule, edits: list[Edit]) -> HloModule | None:
    try:
        return _hlorun._edit(module, edits)
    except HloError:
        return None


def _again(module: HloModule, edits: list[Edit]) -> list[Edit]:
    """The same edits of the instructions of those names."""
    return [
        (kind, found, number)
        for kind, old, number in edits
        if old.name in module and isinstance(found := module[old.name], HloInstruction)
        and found.opcode == old.opcode
    ]  # fmt: skip


def _to_operands(module: HloModule) -> Iterator[Edit]:
    """Values become operands of their shapes, the last instructions first."""
    for instruction in reversed(module.instructions):
        for number, operand in enumerate(instruction.operands):
            if operand.shape == instruction.shape or str(operand.shape) == str(instruction.shape):
                yield "operand", instruction, number
                break


def _to_parameters(module: HloModule) -> Iterator[Edit]:
    entry = module.entry_computation
    for instruction in reversed(entry.instructions if entry is not None else ()):
        if instruction.opcode not in ("parameter", "constant") and not instruction.is_root:
            yield "parameter", instruction, 0


def _to_zeros(module: HloModule) -> Iterator[Edit]:
    for instruction in reversed(module.instructions):
        is_constant = instruction.opcode in ("constant", "parameter", "broadcast")
        if instruction.shape.is_array and not is_constant:
            yield "zero", instruction, 0


def _constants_to_zeros(module: HloModule) -> Iterator[Edit]:
    for instruction in module.find(opcode="constant"):
        if instruction.shape.is_array and instruction.shape.size != 1:
            yield "zero", instruction, 0


def _loops(module: HloModule) -> Iterator[Edit]:
    """Loops run their bodies once."""
    for loop in module.find(opcode="while"):
        yield "once", loop, 0


def _to_numbers(module: HloModule) -> Iterator[Edit]:
    """Trip counts and other numbers shrink."""
    for constant in module.find(opcode="constant"):
        value = constant.literal
        if (
            value is not None
            and value.size == 1
            and value.dtype.kind in "iu"
            and int(value.reshape(-1)[0]) > 1
        ):
            yield "number", constant, 1


_EDITS: dict[str, Callable[[HloModule], Iterator[Edit]]] = {
    "operands": _to_operands,
    "parameters": _to_parameters,
    "zeros": _to_zeros,
    "constants": _constants_to_zeros,
    "loops": _loops,
    "numbers": _to_numbers,
}


def reduce(
    module: HloModule,
    predicate: Predicate,
    *,
    out: Path | str | None = None,
    progress: Callable[[str], None] | None = None,
    jobs: int = 1,
) -> Reduction:
    """Find a small legal module for which `predicate` still holds.

    Ctrl-C ends the search with `KeyboardInterrupt`; what was found so far is in the file `out`, from which
    the search can be taken up again.

    Args:
        module: A module for which it holds.
        predicate: Takes a module that verifies; true where it shows what is looked for. It may raise
            `HloError`, which counts as false. A loop may have lost its end: give runs a `timeout`.
        out: A file for the smallest module so far.
        progress: Is told in words whenever a smaller one was found.
        jobs: Modules that are tried at once, each in a thread; what is found does not depend on it much.

    Returns:
        A `Reduction` with the module.

    Raises:
        ValueError: `predicate` does not hold for `module` itself, or `jobs` is less than 1.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> hlorun.reduce(module, lambda m: len(m.find(opcode="parameter")) > 0).after
        1
    """

    def holds(candidate: HloModule) -> bool:
        try:
            return bool(predicate(candidate))
        except HloError:
            return False

    if jobs < 1:
        raise ValueError(f"jobs is {jobs}, and at least one is needed")
    if not holds(module):
        raise ValueError("the predicate does not hold for the module itself: there is nothing to reduce")
    path = Path(out) if out is not None else None
    if jobs == 1:
        return _searched(_Reducer(module, holds, path, progress, None, 1))
    with ThreadPoolExecutor(jobs) as pool:
        return _searched(_Reducer(module, holds, path, progress, pool, jobs))


def _searched(reducer: _Reducer) -> Reduction:
    """Try all kinds of steps until none helps."""
    before = reducer.best.instruction_count
    steps: list[Callable[[], Any]] = [
        reducer.computations,
        reducer.outputs,
        reducer.roots,
        lambda: reducer.edits("parameters"),
        lambda: reducer.edits("operands"),
        lambda: reducer.edits("zeros"),
        lambda: reducer.edits("constants"),
        lambda: reducer.edits("loops"),
        lambda: reducer.edits("numbers"),
        reducer.sizes,
        reducer.metadata,
    ]
    changed = True
    while changed:
        changed = False
        for step in steps:
            changed |= bool(step())
    return Reduction(reducer.best, before, reducer.best.instruction_count, reducer.tries)
