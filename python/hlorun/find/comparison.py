"""Two modules on the same inputs: equal, different by rounding, or different programs.

The verdict rests on a third and a fourth run. Both modules are rewritten to compute in f64: where two
programs mean the same, their exact results agree, however far rounding takes them apart in f32 or bf16.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from hlorun import _hlorun
from hlorun._hlorun import HloInstruction, HloModule, compile
from hlorun._statistics import as_numbers, leaves
from hlorun.errors import HloError
from hlorun.report.result import Place, Result

MAX_KEPT = 1 << 30
"""Bytes of intermediates that are kept of each run."""

EXACT = 1e-4
"""Part of a difference that may be left between the exact results of equal programs."""

LARGE = 1e4
"""Roundings of the type in use that are taken for a difference where the exact results are not known."""

ULPS = 8
"""Roundings of the type in use that constants folded beforehand may differ by."""

BUCKETS = (0, 1, 2, 4, 16, 256, 65536)
"""Least numbers of ulps of the classes of a histogram."""


@dataclass(frozen=True)
class Gap(Result):
    """How far two arrays are apart.

    `ulps` counts representable numbers between the worst two elements, `absolute` and `relative` are the
    greatest differences, `index` is where the absolute one is, with the values there; `histogram` counts
    elements by ulps from 0, 1, 2, 4, 16, 256, 65,536. `exact` is the greatest difference of the results in
    f64, and `error_a`, `error_b` the distances of both sides from them; None where that is not known. NaN
    on one side, and other shapes, count as infinite.
    """

    verdict: str
    ulps: float
    absolute: float
    relative: float
    index: tuple[int, ...]
    a: str
    b: str
    histogram: tuple[int, ...]
    exact: float | None
    error_a: float | None
    error_b: float | None

    def __str__(self) -> str:
        """As a person reads it."""
        if self.verdict == "equal":
            return "equal"
        at = f" at [{','.join(map(str, self.index))}]" if self.index else ""
        text = (
            f"{self.verdict}: {self.a} and {self.b}{at}, {self.ulps:.3g} ulps, relative {self.relative:.3g}"
        )
        if self.exact is not None:
            text += f"; in f64 they are {self.exact:.3g} apart"
            text += f", A is {self.error_a:.3g} and B {self.error_b:.3g} from that"
        return text


@dataclass(frozen=True)
class Match(Result):
    """An intermediate that both modules compute, how it was matched, and its gap."""

    a: Place
    b: Place
    by: str
    gap: Gap

    def __str__(self) -> str:
        """As a person reads it."""
        return f"{self.a} and {self.b.name} (by {self.by}): {self.gap}"


@dataclass(frozen=True)
class Comparison(Result):
    """What a comparison found.

    `verdict` is `"equal"` where all results have the same bits, `"rounding"` where the programs mean the
    same, else `"different"`. `is_certain` is false where f64 could not judge, because of calls that know
    their types: the verdict then rests on the size of the differences. `suspect` is the first instruction of
    B whose value A does not have and from which nothing follows that A has. `first` is the first matched
    intermediate that is different, `unmatched` counts intermediates of B without a partner.
    """

    verdict: str
    is_certain: bool
    outputs: tuple[Gap, ...]
    matches: tuple[Match, ...] = field(repr=False)
    suspect: Place | None
    first: Match | None
    unmatched: int

    def __str__(self) -> str:
        """As a person reads it."""
        sure = "" if self.is_certain else " (by size alone: f64 could not judge)"
        lines = [f"{self.verdict}{sure}"]
        lines += [f"output {k}: {gap}" for k, gap in enumerate(self.outputs) if gap.verdict != "equal"]
        lines.append(f"{len(self.matches):,} intermediates matched, {self.unmatched:,} not")
        if self.suspect is not None:
            lines.append(f"suspect: {self.suspect}")
        if self.first is not None:
            lines.append(f"first different: {self.first}")
        return "\n".join(lines)


def _ordered(array: Any) -> Any:
    """Floating-point numbers as integers in the same order."""
    width = array.dtype.itemsize * 8
    bits = array.view(f"i{array.dtype.itemsize}").astype(np.int64 if width < 64 else object)
    return np.where(bits < 0, -(2 ** (width - 1)) - bits, bits)


def _ulps(x: Any, y: Any) -> Any:
    """Representable numbers between elements, infinite where one is NaN."""
    if x.dtype.kind in "biu" or x.dtype.itemsize > 4 or x.dtype.kind == "c":
        scale = np.spacing(np.maximum(np.abs(x), np.abs(y)).astype(np.float64))
        with np.errstate(invalid="ignore", over="ignore"):
            found = np.abs(x - y).astype(np.float64) / scale if x.dtype.kind not in "biu" else None
        if found is None:
            return np.abs(x.astype(np.float64) - y.astype(np.float64))
        return np.where(x == y, 0, np.where(np.isnan(found), np.inf, found))
    distance = np.abs(_ordered(x) - _ordered(y)).astype(np.float64)
    odd = np.isnan(x) | np.isnan(y)
    both = np.isnan(x) & np.isnan(y)
    return np.where(both | (x == y), 0, np.where(odd, np.inf, distance))


def _worst(gap: Any) -> float:
    return float(np.max(gap, initial=0))


def _distance(x: Any, y: Any) -> Any:
    with np.errstate(invalid="ignore", over="ignore"):
        found = np.abs(x - y)
    same = (x == y) | ((x != x) & (y != y))
    return np.where(same, 0, np.where(np.isnan(found), np.inf, found)).astype(np.float64)


def gap(a: Any, b: Any, exact_a: Any = None, exact_b: Any = None) -> Gap:
    """Compare two arrays, with what they are in f64 where that is known."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return _unlike(*(f"{x.dtype}{list(x.shape)}" for x in (a, b)))
    x, y = _numbers(a), _numbers(b)
    far = _distance(x, y)
    ulps = _ulps(*((a, b) if a.dtype.kind == "f" and a.dtype.itemsize == 2 else (x, y)))
    at = int(np.argmax(far)) if far.size else 0
    index = tuple(int(i) for i in np.unravel_index(at, far.shape)) if far.size else ()
    scale = _scale(x, y)
    histogram = tuple(
        int(((ulps >= low) & ((ulps < high) | (high == np.inf))).sum())
        for low, high in pairwise((*BUCKETS, np.inf))
    )
    worst = _worst(far)
    exact = error_a = error_b = None
    if exact_a is not None and exact_b is not None and exact_a.shape == exact_b.shape == x.shape:
        p, q = _numbers(exact_a), _numbers(exact_b)
        exact, error_a, error_b = _worst(_distance(p, q)), _worst(_distance(x, p)), _worst(_distance(y, q))
    return Gap(
        verdict=_verdict(worst, exact, scale, a.dtype),
        ulps=_worst(ulps),
        absolute=worst,
        relative=worst / scale if scale else (0.0 if worst == 0 else float("inf")),
        index=index,
        a=str(a.reshape(-1)[at]) if a.size else "",
        b=str(b.reshape(-1)[at]) if b.size else "",
        histogram=histogram,
        exact=exact,
        error_a=error_a,
        error_b=error_b,
    )


def _unlike(a: str, b: str) -> Gap:
    """The gap of what cannot be compared."""
    return Gap("different", np.inf, np.inf, np.inf, (), a, b, (), None, None, None)


def _numbers(array: Any) -> Any:
    """The array in a type that can be subtracted."""
    return array.astype(np.int8) if array.dtype.kind == "b" else as_numbers(array)


def _scale(x: Any, y: Any) -> float:
    """The largest finite element."""
    sizes = [
        np.abs(v[np.isfinite(v)]) if v.dtype.kind in "fc" else np.abs(v.astype(np.float64)) for v in (x, y)
    ]
    return max((float(s.max(initial=0)) for s in sizes), default=0.0)


def epsilon(dtype: Any) -> float:
    """The distance of 1 to the next number of a type; 0 for integers."""
    if dtype.kind in "biu":
        return 0.0
    try:
        return float(np.finfo(dtype).eps)
    except ValueError:
        import ml_dtypes

        finfo: Any = ml_dtypes.finfo
        return float(finfo(dtype).eps)


def _verdict(worst: float, exact: float | None, scale: float, dtype: Any) -> str:
    if worst == 0:
        return "equal"
    if dtype.kind in "biu":
        # Rounding may turn a comparison over, as in argmax.
        return "rounding" if exact == 0 else "different"
    unit = epsilon(dtype)
    if exact is None:
        return "rounding" if worst <= LARGE * unit * scale else "different"
    if not np.isfinite(exact):
        return "different"
    return "rounding" if exact <= max(EXACT * worst, ULPS * unit * scale) else "different"


class _Kept:
    """An observer that keeps the last value of each instruction."""

    def __init__(self) -> None:
        self.values: dict[HloInstruction, list[Any]] = {}
        self.bytes = 0

    def __call__(self, instruction: HloInstruction, value: Any) -> None:
        arrays = leaves(value)
        if instruction not in self.values:
            size = sum(array.nbytes for array in arrays if array is not None)
            if self.bytes + size > MAX_KEPT:
                return
            self.bytes += size
        self.values[instruction] = arrays


class _Side:
    """One module, run as it is and in f64."""

    def __init__(self, module: HloModule, arguments: list[Any], timeout: float | None) -> None:
        self.module = module
        self.kept = _Kept()
        entry = module.entry_computation
        for parameter, value in zip(entry.parameters if entry is not None else (), arguments, strict=False):
            if parameter.shape.is_array:
                self.kept(parameter, np.asarray(value))
        self.result = leaves(compile(module)(*arguments, observer=self.kept, timeout=timeout))
        self.exact: list[Any] = []
        self.exact_values: dict[str, list[Any]] = {}
        try:
            wide = _hlorun._widen(module)
            if wide is None:
                return
            kept = _Kept()
            self.exact = leaves(compile(wide)(*arguments, observer=kept, timeout=timeout))
        except HloError:
            return
        self.exact_values = {_name(i): arrays for i, arrays in kept.values.items()}

    def exact_of(self, instruction: HloInstruction) -> Any:
        """What it is in f64; None where that is not known."""
        if instruction.opcode == "parameter":
            return self.kept.values[instruction][0]
        found = self.exact_values.get(_name(instruction), [])
        return found[0] if len(found) == 1 else None


def _name(instruction: HloInstruction) -> str:
    return f"{instruction.computation.name}/{instruction.name}"


def _arrays(side: _Side) -> dict[HloInstruction, Any]:
    """Intermediates that are one array of several elements, in the order of the run.

    The root of a fusion stands for nothing that the fusion itself does not.
    """
    fused = {called for i in side.module.find(opcode="fusion") for called in i.called_computations}
    return {
        i: arrays[0]
        for i, arrays in side.kept.values.items()
        if len(arrays) == 1 and arrays[0] is not None and arrays[0].size > 1
        if not (i.is_root and i.computation in fused)
    }


def _features(array: Any) -> Any:
    """Numbers that no transposition, reshape or layout changes."""
    numbers = as_numbers(array)
    if numbers.dtype.kind not in "fc":
        numbers = numbers.astype(np.float64)
    sizes = np.abs(numbers).astype(np.float64)
    plain = numbers.real.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.array([plain.mean(), sizes.mean(), np.sqrt((sizes**2).mean()), plain.min(), plain.max()])


def _pairs(a: _Side, b: _Side) -> list[tuple[HloInstruction, HloInstruction, str]]:
    """Instructions of both modules that compute the same value."""
    ours, theirs = _arrays(a), _arrays(b)
    pairs: list[tuple[HloInstruction, HloInstruction, str]] = []
    taken: set[HloInstruction] = set()
    by_name = {_name(i): i for i in theirs}
    origin: dict[Any, list[HloInstruction]] = defaultdict(list)
    for i in theirs:
        if i.metadata.op_name:
            origin[i.opcode, i.metadata.op_name, i.shape.dims].append(i)
    for i, value in ours.items():
        found = by_name.get(_name(i))
        how = "name"
        if found is None or not _is_same(i, found) or theirs[found].shape != value.shape:
            same = origin.get((i.opcode, i.metadata.op_name, i.shape.dims), [])
            found, how = (same[0], "op_name") if len(same) == 1 else (None, "")
        if found is not None and found not in taken:
            taken.add(found)
            pairs.append((i, found, how))
    rest = {i: v for i, v in theirs.items() if i not in taken and i.opcode != "parameter"}
    pairs += _by_value(ours, rest)
    order = {i: k for k, i in enumerate(ours)}
    return sorted(pairs, key=lambda pair: order[pair[0]])


def _is_same(a: HloInstruction, b: HloInstruction) -> bool:
    """Whether two instructions of one name are likely one; a pass, or a fault, may change an opcode."""
    if a.opcode == b.opcode or a.metadata.op_name == b.metadata.op_name != "":
        return True
    return [o.name for o in a.operands] == [o.name for o in b.operands] != []


def _by_value(
    ours: dict[HloInstruction, Any], theirs: dict[HloInstruction, Any]
) -> list[tuple[HloInstruction, HloInstruction, str]]:
    """Matches by what the values are, whatever order their elements have: to each of B the closest of A."""
    buckets: dict[int, list[tuple[HloInstruction, Any]]] = defaultdict(list)
    for i, value in ours.items():
        buckets[value.size].append((i, _features(value)))
    pairs = []
    for other, value in theirs.items():
        features = _features(value)
        scale = np.abs(features).max(initial=0)
        if not np.isfinite(features).all() or scale == 0:
            continue
        near = [
            (float(np.abs(mine - features).max()), k, i)
            for k, (i, mine) in enumerate(buckets.get(value.size, []))
            if np.allclose(mine, features, rtol=1e-3, atol=1e-5 * scale)
        ]
        if near:
            pairs.append((min(near)[2], other, "value"))
    return pairs


def _suspect(
    b: _Side,
    good: set[HloInstruction],
    bad: set[HloInstruction],
    ours: dict[HloInstruction, list[Any]],
) -> HloInstruction | None:
    """The first instruction of B that is wrong as far as values tell.

    What a right value is computed from is right too, as seen from there, unless much of it is lost on
    the way.
    """
    callers: dict[Any, list[HloInstruction]] = defaultdict(list)
    for i in b.module.instructions:
        for called in i.called_computations:
            callers[called].append(i)
    right = (good | _known_scalars(b, ours)) - bad
    open_ = list(right)
    while open_:
        i = open_.pop()
        if i.opcode in _LOSSY:
            continue
        before = list(i.operands)
        before += [called.root for called in i.called_computations if called.root is not None]
        if i.opcode == "parameter":
            before += [o for caller in callers[i.computation] for o in caller.operands]
        for other in before:
            if other not in right and other not in bad:
                right.add(other)
                open_.append(other)
    wrong = [i for i in b.kept.values if i not in right and i.opcode not in _CONTROL and not _is_fixed(i)]
    return next((i for i in [*(i for i in wrong if i.opcode not in _COPIES), *wrong]), None)


def _is_fixed(instruction: HloInstruction) -> bool:
    """Whether it is computed of constants alone: one step of arithmetic at most, as masks and ranges are."""
    return all(
        operand.opcode in ("constant", "iota", "broadcast")
        and all(o.opcode == "constant" for o in operand.operands)
        for operand in instruction.operands
    )


_COPIES = ("bitcast", "broadcast", "convert", "copy", "iota", "reshape", "transpose")
_LOSSY = (
    *(
        "and",
        "ceil",
        "clamp",
        "compare",
        "dynamic-slice",
        "floor",
        "gather",
        "is-finite",
        "maximum",
        "minimum",
    ),
    *("or", "round-nearest-afz", "round-nearest-even", "select", "sign", "slice"),
)
_CONTROL = ("while", "call", "conditional", "fusion", "async-start", "async-done")


def _known_scalars(b: _Side, ours: dict[HloInstruction, list[Any]]) -> set[HloInstruction]:
    """Instructions of B with one element that is also some scalar of A."""

    def scalars(values: dict[HloInstruction, list[Any]]) -> list[tuple[HloInstruction, Any]]:
        return [
            (i, as_numbers(x[0]).reshape(-1)[0])
            for i, x in values.items()
            if len(x) == 1 and x[0] is not None and x[0].size == 1
        ]

    known = [value for _, value in scalars(ours)]
    return {
        i
        for i, value in scalars(b.kept.values)
        if any(bool(np.isclose(value, other, rtol=1e-5, atol=0)) for other in known)
    }


def _gap_of(a: _Side, b: _Side, x: HloInstruction, y: HloInstruction, by: str) -> Gap:
    values = [a.kept.values[x][0], b.kept.values[y][0], a.exact_of(x), b.exact_of(y)]
    if values[0].dtype != values[1].dtype:
        wide = np.complex128 if any(v.dtype.kind == "c" for v in values[:2]) else np.float64
        values[:2] = [as_numbers(v).astype(wide) for v in values[:2]]
    if values[0].shape == values[1].shape:
        found = gap(*values)
        if by != "value" or found.verdict != "different":
            return found
    # The same elements may stand in another order.
    return gap(*(None if v is None else np.sort(as_numbers(v).reshape(-1)) for v in values))


def compare(
    a: HloModule, b: HloModule, *arrays: Any, seed: int = 0, timeout: float | None = None
) -> Comparison:
    """Run two modules on the same inputs, and tell rounding from a difference of the programs.

    Intermediates are matched by name, by opcode and op_name, and by value; the first one whose exact
    values differ is named.

    Args:
        a: A module of one device.
        b: Another, with the same parameters: after a pass, of another year.
        *arrays: One value per parameter; without any, the random ones of `hlorun.make_inputs` of `a`.
        seed: Of the random ones.
        timeout: Seconds that each run may take.

    Returns:
        A `Comparison`.

    Raises:
        HloArgumentError: The inputs do not fit one of the modules.

    Examples:
        >>> hlorun.compare(before, after).verdict
        'rounding'
    """
    from hlorun._inputs import make_inputs

    arguments = list(arrays) if arrays else make_inputs(a, seed)
    first, second = _Side(a, arguments, timeout), _Side(b, arguments, timeout)
    exact = [
        side.exact if len(side.exact) == len(side.result) else [None] * len(side.result)
        for side in (first, second)
    ]
    outputs = []
    for number in range(max(len(first.result), len(second.result))):
        if number >= min(len(first.result), len(second.result)):
            outputs.append(_unlike("", ""))
            continue
        outputs.append(gap(first.result[number], second.result[number], exact[0][number], exact[1][number]))
    pairs = _pairs(first, second)
    matches = [Match(Place.of(x), Place.of(y), by, _gap_of(first, second, x, y, by)) for x, y, by in pairs]
    verdicts = {found.verdict for found in outputs}
    verdict = next((v for v in ("different", "rounding") if v in verdicts), "equal")
    differing = [match for match in matches if match.gap.verdict == "different"]
    suspect = None
    if verdict == "different":
        good = {y for (_, y, _), m in zip(pairs, matches, strict=True) if m.gap.verdict != "different"}
        bad = {y for (_, y, _), m in zip(pairs, matches, strict=True) if m.gap.verdict == "different"}
        suspect = _suspect(second, good, bad, first.kept.values)
    is_certain = verdict == "equal" or all(
        found.exact is not None or found.verdict == "equal" or np.isinf(found.absolute) for found in outputs
    )
    return Comparison(
        verdict,
        is_certain,
        tuple(outputs),
        tuple(matches),
        Place.of(suspect) if suspect is not None else None,
        differing[0] if differing and verdict == "different" else None,
        len(_arrays(second)) - len({y for _, y, _ in pairs}),
    )
