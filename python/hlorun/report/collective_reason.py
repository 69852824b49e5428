"""Why a collective is there: which sharding meets which.

The partitioner leaves no reason in the text. What is told is read from what a collective takes and gives, and
from the shardings that instructions still have; where that does not settle it, it says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from hlorun._hlorun import HloComputation, HloInstruction, HloModule, _tiles
from hlorun.report.graph import family
from hlorun.report.result import Place, Result

_CALLS = ("fusion", "call", "async-start")
_WHOLE = ("copy", "bitcast", "convert", "copy-start", "copy-done", "async-done", "opt-barrier")
_MOVED = ("reshape", "transpose", "slice", "reverse", "reduce-precision")
_SUMS = ("dot", "convolution", "reduce", "ragged-dot")
_PROGRAM = {
    "psum", "psum_invariant", "pmax", "pmin", "pmean", "all_gather", "all_gather_invariant", "all_to_all",
    "ppermute", "pshuffle", "psum_scatter", "reduce_scatter", "pbroadcast", "ragged_all_to_all",
}  # fmt: skip
"""Last parts of the op_names of collectives that the program itself asks for."""
_MOST = 1000
"""Instructions that are looked at on the way from or to one collective."""
_MOST_PLACES = 4


@dataclass(frozen=True)
class ShardedValue(Result):
    """A value whose sharding the text has.

    Attributes:
        place: The instruction.
        sharding: As the text has it.
        tiles: In how many parts each dimension is cut; empty where every device holds all of it, None where
            the text does not say where the parts are.
        side: "producer" for a value that the collective's operand is computed from, "consumer" for another
            operand of a user of its result.

    Examples:
        >>> text = (
        ...     "HloModule m, num_partitions=2 "
        ...     "ENTRY e { p = f32[8] parameter(0), sharding={devices=[2]<=[2]} "
        ...     "ROOT g = f32[16] all-gather(p), dimensions={0}, channel_id=1, replica_groups={{0,1}} }"
        ... )
        >>> hlorun.collectives(hlorun.parse(text)).collectives[0].reason.shardings[0].tiles
        (2,)
    """

    place: Place
    sharding: str
    tiles: tuple[int, ...] | None
    side: str

    def __str__(self) -> str:
        """As a person reads it."""
        return f"{self.place.op_name or self.place.name} {self.sharding}"


@dataclass(frozen=True)
class CollectiveReason(Result):
    """Why a collective is there.

    Attributes:
        kind: "program" where the program asks for it; "partial sums" where each device has summed up its part
            of a dimension, and "partial results" where it has reduced it otherwise; "gathered" where a
            dimension that is cut is needed whole; "moved" where other devices need other parts; "unknown".
        text: A line that says so.
        producer: What computes the value that it takes; None where that is not found.
        consumers: What takes its result, the first four; empty where it is the result of the module.
        shardings: Of the values on both sides, those that the text has.

    Examples:
        >>> text = (
        ...     "HloModule m, num_partitions=2 "
        ...     "ENTRY e { p = f32[8] parameter(0), sharding={devices=[2]<=[2]} "
        ...     "ROOT g = f32[16] all-gather(p), dimensions={0}, channel_id=1, replica_groups={{0,1}} }"
        ... )
        >>> print(hlorun.collectives(hlorun.parse(text)).collectives[0].reason)
        dimension 0 is cut in 2 and the result of the module needs it whole; p {devices=[2]<=[2]}
    """

    kind: str
    text: str
    producer: Place | None
    consumers: tuple[Place, ...]
    shardings: tuple[ShardedValue, ...]

    def __str__(self) -> str:
        """As a person reads it."""
        return "; ".join([self.text, *dict.fromkeys(map(str, self.shardings))])


class Flow:
    """Follows values through what only hands them on or moves them, into fusions and calls."""

    def __init__(self, module: HloModule) -> None:
        self.module = module
        self.known: dict[HloInstruction, list[HloInstruction]] = {}
        self.callers: dict[HloComputation, list[HloInstruction]] = defaultdict(list)
        for instruction in module.instructions:
            for callee in instruction.called_computations:
                self.callers[callee].append(instruction)

    def _before(self, i: HloInstruction) -> list[HloInstruction] | None:
        """What hands its value on to an instruction; None where it computes its own."""
        if i.opcode in _CALLS and i.collective is None:
            roots = [callee.root for callee in i.called_computations if callee.root is not None]
            return roots or None
        if i.opcode == "get-tuple-element":
            return self._element(i.operands[0], i.tuple_index or 0)
        if i.opcode in (*_WHOLE, *_MOVED) and i.operands:
            return [i.operands[0]]
        if i.opcode == "parameter":
            callers = self.callers.get(i.computation, [])
            if callers and all(caller.opcode in _CALLS for caller in callers):
                return [caller.operands[i.parameter_number or 0] for caller in callers]
        return None

    @staticmethod
    def _element(of: HloInstruction, index: int) -> list[HloInstruction]:
        if of.opcode in _CALLS and of.collective is None and of.called_computations:
            root = of.called_computations[0].root
            if root is not None and root.opcode == "tuple":
                return [root.operands[index]]
        if of.opcode == "tuple":
            return [of.operands[index]]
        return [of]

    def sources(self, start: HloInstruction) -> Iterator[HloInstruction]:
        """What computes a value, behind all that moves it."""
        rest, seen = [start], {start}
        for i in rest:
            before = self._before(i) if len(seen) < _MOST else None
            if before is None:
                yield i
                continue
            fresh = [j for j in before if j not in seen]
            seen.update(fresh)
            rest += fresh

    def sharded(self, start: HloInstruction, side: str) -> list[ShardedValue]:
        """Values with a sharding that a value is made from element by element."""
        if start not in self.known:
            self.known[start] = list(self._with_sharding(start))
        return [self._sharded_value(i, side) for i in self.known[start]]

    def _with_sharding(self, start: HloInstruction) -> Iterator[HloInstruction]:
        rest, seen = [start], {start}
        for i in rest:
            if "sharding=" in i.text and i.collective is None and i.attributes.get("sharding") is not None:
                yield i
                continue
            before = self._before(i)
            if before is None and family(i) == "elementwise":
                before = list(i.operands)
            fresh = [j for j in before or () if j not in seen]
            if len(seen) < _MOST:
                seen.update(fresh)
                rest += fresh

    def _sharded_value(self, i: HloInstruction, side: str) -> ShardedValue:
        tiles, text = None, str(i.attributes["sharding"])
        try:
            (leaf,) = _tiles(text, self.module.num_partitions)
            tiles = tuple(leaf[0])
        except ValueError:
            # A tuple, or one that does not say where the parts are: its text stands for itself.
            pass
        return ShardedValue(Place.of(i), text, tiles, side)

    def users(self, start: HloInstruction) -> list[HloInstruction]:
        """What takes a value, behind all that moves it."""
        rest, seen, found = [start], {start}, []
        for i in rest:
            after: list[HloInstruction] = []
            for user in i.users:
                if user.opcode in _CALLS:
                    numbers = [n for n, operand in enumerate(user.operands) if operand == i]
                    for callee in user.called_computations:
                        after += [callee.parameters[n] for n in numbers if n < len(callee.parameters)]
                elif user.opcode in (*_WHOLE, *_MOVED, "get-tuple-element"):
                    after.append(user)
                elif user not in found:
                    found.append(user)
            callers = self.callers.get(i.computation, []) if i.is_root else []
            after += [caller for caller in callers if caller.opcode in _CALLS]
            fresh = [j for j in after if j not in seen]
            if len(seen) < _MOST:
                seen.update(fresh)
                rest += fresh
        return found


def _named(place: Place) -> str:
    what = " ".join(place.op_name.split()) or place.name
    return f"{what} ({place.source})" if place.source else what


def _program(instruction: HloInstruction) -> bool:
    return instruction.metadata.op_name.rsplit("/", 1)[-1].split("[", 1)[0] in _PROGRAM


def _gathered(instruction: HloInstruction) -> str | None:
    """Which dimension a gather makes whole, and in how many parts it was."""
    dimensions = instruction.attributes.get("dimensions")
    shape, operand = instruction.collective_shape, instruction.operands[0].shape
    if not dimensions or shape is None:
        return None
    shape = shape.tuple_shapes[0] if shape.is_tuple else shape
    if not shape.is_array or not operand.is_array or not operand.dims[dimensions[0]]:
        return None
    parts = shape.dims[dimensions[0]] // operand.dims[dimensions[0]]
    return f"dimension {dimensions[0]} is cut in {parts}"


def _done(instruction: HloInstruction) -> HloInstruction:
    """Where the result of a collective is there."""
    ends = [user for user in instruction.users if user.opcode.endswith("-done")]
    return ends[0] if ends and instruction.opcode.endswith("-start") else instruction


def reason(instruction: HloInstruction, flow: Flow) -> CollectiveReason:
    """Why a collective is there.

    Args:
        instruction: The collective.
        flow: How values flow in its module.
    """
    sources = [i for operand in instruction.operands for i in flow.sources(operand)]
    known = [
        i for i in dict.fromkeys(sources) if i.opcode != "parameter" or not flow.callers.get(i.computation)
    ]
    sums = [i for i in known if i.opcode in _SUMS]
    producer = next(iter(sums or known), None)
    users = [user for user in flow.users(_done(instruction)) if not _is_result(user)]
    consumers = tuple(Place.of(user) for user in users[:_MOST_PLACES])
    names = list(dict.fromkeys(_named(Place.of(user)) for user in users)) or ["the result of the module"]
    takes = ", ".join(names[:_MOST_PLACES])
    if len(names) > _MOST_PLACES:
        takes += f" and {len(names) - _MOST_PLACES} more"
    takes += " needs" if len(names) == 1 else " need"
    made = _named(Place.of(producer)) if producer is not None else "a value whose origin is not found"
    behind = [o for i in (sums or known) for o in (i.operands if i.opcode in _SUMS else (i,))]
    shardings = [value for i in behind for value in flow.sharded(i, "producer")]
    beside = [o for user in users for o in user.operands if not _is_from(o, instruction, flow)]
    shardings += [value for i in beside for value in flow.sharded(i, "consumer")]
    kind, text = _kind(instruction, bool(sums), made, takes)
    place = Place.of(producer) if producer is not None else None
    return CollectiveReason(kind, text, place, consumers, tuple(dict.fromkeys(shardings)))


def _is_result(user: HloInstruction) -> bool:
    """Whether it is the tuple of the module's results."""
    computation = user.computation
    return user.opcode == "tuple" and computation.is_entry and computation.root == user


def _is_from(value: HloInstruction, collective: HloInstruction, flow: Flow) -> bool:
    return any(source in (collective, _done(collective)) for source in flow.sources(value))


def _kind(instruction: HloInstruction, is_sum: bool, made: str, takes: str) -> tuple[str, str]:
    opcode = instruction.collective
    if _program(instruction):
        return "program", f"the program asks for it: {_named(Place.of(instruction))}"
    if opcode in ("all-reduce", "reduce-scatter"):
        combined = instruction.called_computations[0].root if instruction.called_computations else None
        if is_sum and combined is not None and combined.opcode == "add":
            return "partial sums", f"each device has summed up its part of {made}; {takes} the sum"
        if is_sum and combined is not None:
            said = f"each device has the {combined.opcode} of its part of {made}; {takes} that of all"
            return "partial results", said
        return "unknown", f"not known: it combines {made}, which is no sum over a dimension; {takes} it"
    if opcode == "all-gather" and (cut := _gathered(instruction)) is not None:
        return "gathered", f"{cut} and {takes} it whole"
    if opcode in ("all-to-all", "collective-permute"):
        return "moved", f"{takes} parts of {made} that lie on other devices"
    return "unknown", f"not known: it moves {made}; {takes} it"
