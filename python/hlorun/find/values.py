"""Values of a run by instruction, those that an observer is not shown included."""

from __future__ import annotations

from typing import Any

from hlorun._hlorun import HloComputation, HloInstruction, HloModule


class Values:
    """What each instruction last computed; to be told of every value in the order of the run.

    Parameters, constants and tuple elements are looked up where they come from: an argument, the
    operand of a caller, the state of a loop at the beginning of its trip.
    """

    def __init__(self, module: HloModule, arguments: list[Any]) -> None:
        """Begin a run of `module` on `arguments`."""
        self.arguments = arguments
        self.latest: dict[HloInstruction, Any] = {}
        self.states: dict[HloInstruction, Any] = {}
        self.callers: dict[HloComputation, HloInstruction | None] = {}
        self.entry = module.entry_computation
        for instruction in module.instructions:
            for called in instruction.called_computations:
                # Of several callers nobody says which one it is.
                self.callers[called] = None if called in self.callers else instruction

    def note(self, instruction: HloInstruction, value: Any) -> None:
        """Take a value down."""
        self.latest[instruction] = value
        caller = self.callers.get(instruction.computation)
        if caller is None or caller.opcode != "while" or not instruction.is_root:
            return
        if caller.attributes.get("condition") == instruction.computation:
            self._begin_trip(caller, bool(value))

    def _begin_trip(self, loop: HloInstruction, goes_on: bool) -> None:
        body = loop.attributes["body"]
        if not goes_on:
            self.states.pop(loop, None)
        elif loop not in self.states:
            self.states[loop] = self.of(loop.operands[0])
        elif body.root is not None:
            self.states[loop] = self.of(body.root)

    def of(self, instruction: HloInstruction) -> Any:
        """The value of an instruction; None where it is not known."""
        if instruction in self.latest:
            return self.latest[instruction]
        opcode = instruction.opcode
        if opcode == "constant":
            return instruction.literal
        if opcode == "tuple":
            return tuple(self.of(operand) for operand in instruction.operands)
        if opcode == "get-tuple-element":
            whole = self.of(instruction.operands[0])
            index = instruction.tuple_index
            known = isinstance(whole, tuple) and index is not None and index < len(whole)
            return whole[index] if known else None
        if opcode in ("bitcast", "copy", "opt-barrier") and instruction.operands:
            return self.of(instruction.operands[0])
        if opcode == "parameter":
            return self._parameter(instruction)
        return None

    def _parameter(self, parameter: HloInstruction) -> Any:
        number = parameter.parameter_number or 0
        if parameter.computation == self.entry:
            return self.arguments[number] if number < len(self.arguments) else None
        caller = self.callers.get(parameter.computation)
        if caller is None:
            return None
        if caller.opcode == "while":
            return self.states.get(caller)
        if caller.opcode == "conditional":
            branch = caller.called_computations.index(parameter.computation)
            return self.of(caller.operands[1 + branch])
        if caller.opcode in ("call", "fusion", "async-start"):
            return self.of(caller.operands[number])
        return None
