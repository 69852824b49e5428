"""A module as a graph: for Graphviz, or as one HTML page that needs nothing else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from hlorun._hlorun import HloInstruction, HloModule, Shape
from hlorun.report.units import plural

if TYPE_CHECKING:
    from hlorun.find.nan import NanReport
    from hlorun.report.diff import Diff

FAMILIES = {
    "input": ("parameter", "constant", "iota", "rng", "rng-bit-generator", "replica-id", "partition-id"),
    "product": ("dot", "convolution", "custom-call", "fft", "cholesky", "triangular-solve", "ragged-dot"),
    "call": ("fusion", "call", "while", "conditional", "async-start", "async-done", "map"),
    "move": (
        "bitcast", "broadcast", "concatenate", "copy", "dynamic-slice", "dynamic-update-slice", "gather",
        "pad", "reshape", "reverse", "scatter", "slice", "transpose", "copy-start", "copy-done",
    ),
    "reduce": ("reduce", "reduce-window", "select-and-scatter", "sort", "topk", "scan"),
    "tuple": ("tuple", "get-tuple-element", "after-all", "opt-barrier", "domain", "add-dependency"),
    "collective": ("send", "send-done", "recv", "recv-done", "infeed", "outfeed"),
}  # fmt: skip
"""Opcodes by the colour they get; what begins or ends a collective, and elementwise opcodes, are the rest."""

COLOURS = {
    "input": ("#dbe7f5", "#28405c"),
    "product": ("#f6d5c3", "#6b3a1f"),
    "call": ("#e2d9f3", "#45356b"),
    "move": ("#e9ecef", "#3a4048"),
    "reduce": ("#fbe8a6", "#5e4c10"),
    "tuple": ("#ffffff", "#24282d"),
    "collective": ("#f5c6d6", "#6b2541"),
    "elementwise": ("#d3ecd5", "#26502b"),
}
"""Fill of each family on light and on dark ground."""


def family(instruction: HloInstruction) -> str:
    """The family of an instruction."""
    opcode = instruction.opcode
    begins = instruction.operands[0] if opcode.endswith("-done") and instruction.operands else instruction
    if begins.collective is not None:
        return "collective"
    return next((name for name, opcodes in FAMILIES.items() if opcode in opcodes), "elementwise")


def shape_text(shape: Shape) -> str:
    """A shape without layouts; of a tuple, how many values it has."""
    if shape.is_tuple:
        return f"({plural(len(shape.tuple_shapes), 'value')})"
    if not shape.is_array:
        return shape.element_type
    return f"{shape.element_type}[{','.join(map(str, shape.dims))}]"


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def to_dot(module: HloModule) -> str:
    """The module in Graphviz's language, a cluster per computation."""
    number = {i: n for n, i in enumerate(i for c in module.computations for i in c.instructions)}
    lines = [
        f"digraph {_quote(module.name)} {{",
        '  node [shape=box, style=filled, fontname="Helvetica", fontsize=10];',
        "  compound=true;",
    ]
    clusters = {computation: n for n, computation in enumerate(module.computations)}
    for computation, cluster in clusters.items():
        entry = " (entry)" if computation.is_entry else ""
        lines.append(f"  subgraph cluster_{cluster} {{ label={_quote(computation.name + entry)};")
        for i in computation.instructions:
            label = f"{i.name}\n{i.opcode} {shape_text(i.shape)}".replace("\n", "\\n")
            pen = ", penwidth=2" if i.is_root else ""
            colour = COLOURS[family(i)][0]
            text = label.replace('"', '\\"')
            lines.append(f'    n{number[i]} [label="{text}", fillcolor="{colour}"{pen}];')
        lines.append("  }")
    for i, n in number.items():
        lines += [f"  n{number[operand]} -> n{n};" for operand in i.operands]
        for callee in i.called_computations:
            if callee.root is not None:
                lines.append(
                    f"  n{number[callee.root]} -> n{n} "
                    f"[style=dashed, color=gray, ltail=cluster_{clusters[callee]}];"
                )
    return "\n".join([*lines, "}", ""])


@dataclass(frozen=True)
class Graph:
    """A module as a picture; notebooks show it.

    Attributes:
        module: The module.
        times: Seconds by the names of instructions, or None.
        nan: What `hlorun.find_nan` says of it, or None.
        diff: What `hlorun.diff` says of another module and this one, or None.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> page = hlorun.graph(module).html("module.html")
    """

    module: HloModule = field(repr=False)
    times: Mapping[str, float] | None = field(default=None, repr=False)
    nan: NanReport | None = field(default=None, repr=False)
    diff: Diff | None = field(default=None, repr=False)

    def html(self, path: str | os.PathLike[str] | None = None) -> str:
        """One page that needs nothing else.

        Args:
            path: A file that it is written to as well.

        Returns:
            The text.

        Raises:
            HloArgumentError: The times, the report of NaN or the difference name instructions that the module
                does not have.
            OSError: The file cannot be written.

        Examples:
            >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
            >>> page = hlorun.graph(module).html("module.html")
            >>> page[:15]
            '<!doctype html>'
        """
        from hlorun.report.graph_page import to_html

        return self._write(to_html(self.module, self.times, nan=self.nan, diff=self.diff), path)

    def dot(self, path: str | os.PathLike[str] | None = None) -> str:
        """The module in Graphviz's language.

        Args:
            path: A file that it is written to as well.

        Returns:
            The text.

        Raises:
            OSError: The file cannot be written.

        Examples:
            >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
            >>> text = hlorun.graph(module).dot("module.dot")
            >>> text.startswith("digraph")
            True
        """
        return self._write(to_dot(self.module), path)

    @staticmethod
    def _write(text: str, path: str | os.PathLike[str] | None) -> str:
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{escape(self.html(), quote=True)}" width="100%" height="600"></iframe>'


def graph(
    module: HloModule,
    times: Mapping[str, float] | None = None,
    *,
    nan: NanReport | None = None,
    diff: Diff | None = None,
) -> Graph:
    """Draw a module: groups by op_name, loops and fusions that open in place.

    Args:
        module: The module.
        times: Seconds by the name of the instruction, which the page can colour by; `hlorun run --profile`
            writes them, and `hlorun.report.graph_page.read_times` reads that file.
        nan: What `hlorun.find_nan` says of the module: the page marks what makes NaN and Inf, what carries
            them on, and which parameters hold some.
        diff: What `hlorun.diff(other, module)` says: the page marks what is added or changed, and lists what
            is only in the other module.

    Returns:
        A `Graph`; notebooks show it, `html` and `dot` write it.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> page = hlorun.graph(module).html("module.html")
    """
    return Graph(module, times, nan, diff)
