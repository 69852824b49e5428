"""A module as a graph: for Graphviz, or as one HTML page that needs nothing else."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from hlorun._hlorun import HloComputation, HloInstruction, HloModule, Shape

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
}  # fmt: skip
"""Opcodes by the colour they get; collectives and elementwise opcodes are the rest."""

_COLLECTIVES = (
    "all-",
    "collective-",
    "reduce-scatter",
    "send",
    "recv",
    "ragged-all-to-all",
    "infeed",
    "outfeed",
)

WIDEST = 24
"""Most instructions side by side; wider layers take several rows."""

COLOURS = {
    "input": "#dbe7f5",
    "product": "#f6d5c3",
    "call": "#e2d9f3",
    "move": "#e9ecef",
    "reduce": "#fbe8a6",
    "tuple": "#ffffff",
    "collective": "#f5c6d6",
    "elementwise": "#d3ecd5",
}
"""Fill of each family."""


def family(opcode: str) -> str:
    """The family of an opcode."""
    if opcode.startswith(_COLLECTIVES):
        return "collective"
    return next((name for name, opcodes in FAMILIES.items() if opcode in opcodes), "elementwise")


def _shape(shape: Shape) -> str:
    if shape.is_tuple:
        return f"({len(shape.tuple_shapes)} values)"
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
            label = f"{i.name}\n{i.opcode} {_shape(i.shape)}".replace("\n", "\\n")
            pen = ", penwidth=2" if i.is_root else ""
            colour = COLOURS[family(i.opcode)]
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


def _layers(computation: HloComputation) -> list[list[HloInstruction]]:
    """Instructions by their distance from the inputs; what is free stands right before its first user."""
    depth: dict[HloInstruction, int] = {}
    for i in computation.instructions:
        depth[i] = 1 + max((depth.get(operand, 0) for operand in i.operands), default=-1)
    for i in reversed(computation.instructions):
        if i.users and (not i.operands or i.opcode == "get-tuple-element"):
            below = [depth[user] - 1 for user in i.users if user in depth]
            depth[i] = max(depth[i], min(below, default=0))
    layers: list[list[HloInstruction]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for i in computation.instructions:
        layers[depth[i]].append(i)
    at: dict[HloInstruction, float] = {}
    for sweep in range(4):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            for n, i in enumerate(layer):
                near = i.operands if sweep % 2 == 0 else i.users
                places = [at[other] for other in near if other in at]
                at[i] = sum(places) / len(places) if places else at.get(i, n / max(1, len(layer)))
            layer.sort(key=lambda i: at[i])
            for n, i in enumerate(layer):
                at[i] = (n + 1) / (len(layer) + 1)
    return [layer[n : n + WIDEST] for layer in layers for n in range(0, len(layer), WIDEST)]


def _nodes(computation: HloComputation, number: dict[HloInstruction, int]) -> list[dict[str, Any]]:
    places = {i: (x, y) for y, layer in enumerate(_layers(computation)) for x, i in enumerate(layer)}
    nodes = []
    for i in computation.instructions:
        node: dict[str, Any] = {
            "i": number[i],
            "n": i.name,
            "o": i.custom_call_target or i.opcode,
            "f": family(i.opcode),
            "s": _shape(i.shape),
            "b": i.shape.nbytes,
            "p": places[i],
            "u": [number[operand] for operand in i.operands],
            "c": [callee.name for callee in i.called_computations],
            "m": i.metadata.op_name,
            "l": f"{i.metadata.source_file}:{i.metadata.source_line}" if i.metadata.source_file else "",
        }
        if i.is_root:
            node["r"] = 1
        nodes.append(node)
    return nodes


def to_html(module: HloModule) -> str:
    """One page with a graph per computation, folded but for the entry; no network, no other files."""
    number = {i: n for n, i in enumerate(i for c in module.computations for i in c.instructions)}
    data = {
        "colours": COLOURS,
        "computations": [
            {"name": c.name, "entry": c.is_entry, "nodes": _nodes(c, number)}
            for c in sorted(module.computations, key=lambda c: not c.is_entry)
        ],
    }
    # "</script" would end the script, and "<!--<script" keep it from ending.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    title = escape(module.name)
    about = f"{len(module.computations):,} computations, {module.instruction_count:,} instructions"
    page = files("hlorun.report").joinpath("graph.html").read_text(encoding="utf-8")
    return page.replace("@TITLE@", title).replace("@ABOUT@", about).replace("@DATA@", text)


@dataclass(frozen=True)
class Graph:
    """A module as a picture."""

    module: HloModule = field(repr=False)

    def html(self, path: str | os.PathLike[str] | None = None) -> str:
        """One page that needs nothing else; written to `path` if there is one."""
        return self._write(to_html(self.module), path)

    def dot(self, path: str | os.PathLike[str] | None = None) -> str:
        """The same in Graphviz's language."""
        return self._write(to_dot(self.module), path)

    @staticmethod
    def _write(text: str, path: str | os.PathLike[str] | None) -> str:
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{escape(self.html(), quote=True)}" width="100%" height="600"></iframe>'


def graph(module: HloModule) -> Graph:
    """Draw a module: one graph for each computation.

    Args:
        module: The module.

    Returns:
        A `Graph`; notebooks show it, `html` and `dot` write it.

    Examples:
        >>> hlorun.graph(module).html("module.html")  # doctest: +SKIP
    """
    return Graph(module)
