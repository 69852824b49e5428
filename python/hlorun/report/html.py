"""Modules and computations as HTML, for notebooks."""

from __future__ import annotations

from html import escape

from hlorun._hlorun import HloComputation, HloModule
from hlorun.report.summary import summary

_MOST_ROWS = 200


def module_html(module: HloModule) -> str:
    """A module as `hlorun.summary` describes it."""
    return summary(module)._repr_html_()


def computation_html(computation: HloComputation) -> str:
    """A computation as a row per instruction; of a long one the first."""
    instructions = list(computation.instructions)
    shown = instructions[:_MOST_ROWS]
    left_out = len(instructions) - len(shown)
    rows = [
        _row(
            instruction.name,
            instruction.opcode,
            str(instruction.shape),
            ", ".join(operand.name for operand in instruction.operands),
            instruction.metadata.op_name,
        )
        for instruction in shown
    ]
    if left_out:
        rows.append(f"<tr><td colspan=5>{left_out} more instructions</td></tr>")
    head = "".join(f"<th>{name}</th>" for name in ("name", "opcode", "shape", "operands", "op_name"))
    return f"<table><caption>{escape(computation.name)}</caption><tr>{head}</tr>{''.join(rows)}</table>"


def _row(*cells: str) -> str:
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
