"""The `while` loops around an instruction, by name."""

from __future__ import annotations

from hlorun._hlorun import HloComputation, HloModule

_RUN = ("while", "fusion", "call", "conditional", "async-start")
"""Opcodes that run the computations they call, instead of applying them per element."""


def loop_paths(module: HloModule) -> dict[HloComputation, str]:
    """The loops that each computation runs in, the outermost first: "while.7 / while.2".

    A computation that is called in several places is given the first of them. "" is outside of all loops;
    computations that nothing runs are left out, those applied per element as well.
    """
    entry = module.entry_computation
    if entry is None:
        return {}
    paths = {entry: ""}
    pending = [entry]
    for computation in pending:
        for instruction in computation.instructions:
            if instruction.opcode not in _RUN:
                continue
            path = paths[computation]
            if instruction.opcode == "while":
                path = f"{path} / {instruction.name}" if path else instruction.name
            for callee in instruction.called_computations:
                if callee not in paths:
                    paths[callee] = path
                    pending.append(callee)
    return paths
