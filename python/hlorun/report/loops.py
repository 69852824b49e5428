"""How often each computation runs: calls, and `while` loops with their trip counts."""

from __future__ import annotations

from collections.abc import Iterator

from hlorun._hlorun import HloComputation, HloInstruction, HloModule

MOST_RUNS = 10**18
"""Counts end here: nothing can run more often, and texts can ask for any number."""


def _through_copies(instruction: HloInstruction) -> HloInstruction:
    while instruction.opcode in ("copy", "bitcast", "reshape") and len(instruction.operands) == 1:
        instruction = instruction.operands[0]
    return instruction


def _integer(instruction: HloInstruction) -> int | None:
    """The value of an integer constant of one element."""
    instruction = _through_copies(instruction)
    dtype = instruction.shape.dtype
    if instruction.opcode != "constant" or dtype is None or dtype.kind not in "iu":
        return None
    value = instruction.literal
    return int(value) if value is not None and value.size == 1 else None


def _state_element(instruction: HloInstruction) -> int | None:
    """Which element of the loop's state an instruction of its condition or body reads."""
    instruction = _through_copies(instruction)
    if instruction.opcode != "get-tuple-element" or not instruction.operands:
        return None
    return instruction.tuple_index if instruction.operands[0].opcode == "parameter" else None


def _counted(loop: HloInstruction) -> int | None:
    """Trips of a loop that counts a constant number of times, by the form of its code."""
    condition = loop.attributes.get("condition")
    body = loop.attributes.get("body")
    if not isinstance(condition, HloComputation) or not isinstance(body, HloComputation):
        return None
    test, next_state = condition.root, body.root
    # A module that was not verified may lack operands.
    if test is None or next_state is None or not loop.operands:
        return None
    state = loop.operands[0]
    if test.opcode != "compare" or len(test.operands) != 2:
        return None
    if next_state.opcode != "tuple" or state.opcode != "tuple":
        return None
    element, limit = _state_element(test.operands[0]), _integer(test.operands[1])
    if element is None or limit is None:
        return None
    if not element < min(len(state.operands), len(next_state.operands)):
        return None
    start = _integer(state.operands[element])
    step = _through_copies(next_state.operands[element])
    if start is None or step.opcode != "add":
        return None
    by = next((n for n in map(_integer, step.operands) if n is not None), None)
    if by is None or by <= 0 or element not in map(_state_element, step.operands):
        return None
    match test.attributes.get("direction"):
        case "LT":
            return max(0, -((start - limit) // by))
        case "LE":
            return max(0, (limit - start) // by + 1)
        case _:
            return None


def trip_count(loop: HloInstruction) -> int | None:
    """How often the body of a `while` runs; None where the text does not say."""
    config = loop.backend_config
    if isinstance(config, dict):
        known = config.get("known_trip_count")
        if isinstance(known, dict):
            try:
                trips = int(known["n"])
            except (KeyError, TypeError, ValueError, OverflowError):
                trips = -1
            if 0 <= trips < 2**63:
                return trips
    return _counted(loop)


def _calls(computation: HloComputation) -> Iterator[tuple[HloComputation, int]]:
    """The computations a computation runs, with how often per run; loops of unknown length count once."""
    for instruction in computation.instructions:
        if instruction.opcode == "while":
            trips = trip_count(instruction)
            for callee in instruction.called_computations:
                yield callee, 1 if trips is None else trips
        elif instruction.opcode in ("fusion", "call", "conditional", "async-start"):
            for callee in instruction.called_computations:
                yield callee, 1


def run_counts(module: HloModule) -> dict[HloComputation, int]:
    """How often each computation runs in one run of the module.

    Computations applied per element (`to_apply` of reduce and its kin) are left out. A branch of a
    conditional counts as taken. Modules whose calls form a cycle run nothing twice.
    """
    entry = module.entry_computation
    if entry is None:
        return {}
    calls = {computation: list(_calls(computation)) for computation in module.computations}
    order: list[HloComputation] = []
    done: set[HloComputation] = set()
    stack = [(entry, iter(calls[entry]))]
    done.add(entry)
    while stack:
        computation, rest = stack[-1]
        for callee, _ in rest:
            if callee not in done:
                done.add(callee)
                stack.append((callee, iter(calls[callee])))
                break
        else:
            order.append(computation)
            stack.pop()
    counts = dict.fromkeys(reversed(order), 0)
    counts[entry] = 1
    for computation in reversed(order):
        for callee, times in calls[computation]:
            counts[callee] = min(counts[callee] + counts[computation] * times, MOST_RUNS)
    return counts
