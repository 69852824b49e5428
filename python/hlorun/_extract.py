"""Parts of a module as modules of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hlorun._hlorun import HloComputation, HloInstruction, HloModule

_CONTROL = re.compile(r",\s*control-predecessors=\{[^}]*\}")
_ROOT = re.compile(r"^ROOT\s+")


def _line(instruction: HloInstruction) -> str:
    """The instruction as the text has it, without what refers to others by more than operands."""
    text = _ROOT.sub("", " ".join(instruction.text.split("\n")).strip())
    return _CONTROL.sub("", text)


def _name(instruction: HloInstruction) -> str:
    """The name as the text writes it, with or without `%`."""
    return _line(instruction).split("=", 1)[0].strip()


def _parameter(instruction: HloInstruction, number: int) -> str:
    return f"{_name(instruction)} = {instruction.shape} parameter({number})"


def _callees(roots: list[HloInstruction]) -> list[HloComputation]:
    """Every computation that instructions call, callees first."""
    order: list[HloComputation] = []
    done: set[HloComputation] = set()
    first = [callee for root in roots for callee in root.called_computations]
    stack: list[tuple[HloComputation | None, Iterator[HloComputation]]] = [(None, iter(first))]
    while stack:
        computation, rest = stack[-1]
        for callee in rest:
            if callee not in done:
                done.add(callee)
                inner = [c for i in callee.instructions for c in i.called_computations]
                stack.append((callee, iter(inner)))
                break
        else:
            stack.pop()
            if computation is not None:
                order.append(computation)
    return order


def _block(name: str, lines: list[str], root: int, *, entry: bool) -> str:
    marked = [f"  {'ROOT ' if at == root else ''}{line}" for at, line in enumerate(lines)]
    return f"{'ENTRY ' if entry else ''}{name} {{\n" + "\n".join(marked) + "\n}\n"


def _computation(computation: HloComputation, *, entry: bool) -> str:
    instructions = list(computation.instructions)
    lines = [_line(instruction) for instruction in instructions]
    prefix = "%" if lines and lines[0].startswith("%") else ""
    root = instructions.index(computation.root) if computation.root is not None else len(lines) - 1
    return _block(prefix + computation.name, lines, root, entry=entry)


def _slice(root: HloInstruction, depth: int | None) -> tuple[list[HloInstruction], set[HloInstruction]]:
    """What `root` depends on, in the order of the text, and those of them that become parameters."""
    distance = {root: 0}
    level = [root]
    cut: set[HloInstruction] = set()
    while level:
        following = []
        for instruction in level:
            # A constant is no operand worth a parameter.
            if depth is not None and distance[instruction] >= depth and instruction.opcode != "constant":
                cut.add(instruction)
                continue
            for operand in instruction.operands:
                if operand not in distance:
                    distance[operand] = distance[instruction] + 1
                    following.append(operand)
        level = following
    cut |= {instruction for instruction in distance if instruction.opcode == "parameter"}
    return [i for i in root.computation.instructions if i in distance], cut


def extract(module: HloModule, name: str, depth: int | None = None) -> str:
    """The text of a module that holds only one computation, or what one instruction needs.

    Args:
        module: Where it is.
        name: A computation or an instruction, with or without `%`.
        depth: For an instruction, how many steps of operands to take along; what they need becomes
            parameters. All of them by default.

    Returns:
        HLO text. Parameters are those of the computation, or the ones that are needed, in their order.

    Raises:
        KeyError: When nothing is called so.
    """
    found = module[name]
    title = re.sub(r"[^A-Za-z0-9_.-]", "_", f"{module.name}.{found.name}")
    if isinstance(found, HloComputation):
        callees = _callees(list(found.instructions))
        body = _computation(found, entry=True)
    else:
        needed, cut = _slice(found, depth)
        callees = _callees([i for i in needed if i not in cut])
        lines = []
        number = 0
        for instruction in needed:
            if instruction in cut:
                lines.append(_parameter(instruction, number))
                number += 1
            else:
                lines.append(_line(instruction))
        prefix = "%" if lines[0].startswith("%") else ""
        body = _block(prefix + "main", lines, needed.index(found), entry=True)
    blocks = [_computation(callee, entry=False) for callee in callees]
    return f"HloModule {title}\n\n" + "\n".join([*blocks, body])
