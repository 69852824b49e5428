"""Random well-typed modules of every kind of operation, with inputs: what the sweep runs on both sides.

In: a `random.Random`. Out: `Graph.module()` and `Graph.inputs`. Floats are small integers, so that sums and products
are exact in any order and a difference is a wrong element, not a rounding. Every shape has a layout of its own;
`plain` takes the layouts away for XLA:CPU, whose front door drops them.
"""

from __future__ import annotations

import math
import random
import re
from dataclasses import dataclass, field

import cases as c
import numpy as np
from hlorun import _smith
from streams import paired

Dims = tuple[int, ...]
DTYPES = [dtype for dtype in _smith.TYPES if not re.fullmatch(r"[su][24]|f[48]e.*", dtype)]
RARE = ["s4", "u4", *c.TINY_FLOATS[:-1]]
FLOATS = {"f16", "bf16", "f32", "f64", *c.TINY_FLOATS}
MOST = 3000


@dataclass(frozen=True)
class Node:
    """An array so far. `after` are the nodes it is made from, `own` the names of computations it needs."""

    name: str
    dtype: str
    dims: Dims
    after: tuple[str, ...] = ()


@dataclass
class Graph:
    """A module that grows. Nested computations are graphs with `depth` and no parameters of their own."""

    rng: random.Random
    depth: int = 0
    prefix: str = "v"
    nodes: list[Node] = field(default_factory=list)
    lines: dict[str, str] = field(default_factory=dict)
    sources: dict[str, tuple[str, ...]] = field(default_factory=dict)
    computations: dict[str, str] = field(default_factory=dict)
    inputs: list[c.Array] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    counter: list[int] = field(default_factory=lambda: [0])

    # -- parts ----------------------------------------------------------------------------------------------------

    def fresh(self, stem: str = "") -> str:
        """A name nobody has."""
        self.counter[0] += 1
        return f"{stem or self.prefix}{self.counter[0]}"

    def shape(self, dtype: str, dims: Dims) -> str:
        """A shape with any layout."""
        order = list(range(len(dims)))[::-1]
        if self.rng.random() < 0.35:
            self.rng.shuffle(order)
        return c.sh(dtype, dims, order)

    def emit(
        self, dtype: str, dims: Dims, text: str, *operands: Node, keep: bool = True, name: str = ""
    ) -> Node:
        """One more instruction; with `keep` others may read it."""
        node = Node(name or self.fresh(), dtype, tuple(dims), tuple(o.name for o in operands))
        self.lines[node.name] = f"{node.name} = {self.shape(dtype, node.dims)} {text}"
        self.sources[node.name] = node.after
        if keep:
            self.nodes.append(node)
        return node

    def raw(self, shape: str, text: str, *operands: str) -> str:
        """An instruction that is no array."""
        name = self.fresh()
        self.lines[name] = f"{name} = {shape} {text}"
        self.sources[name] = operands
        return name

    def dims(self, low: int = 0, high: int = 4) -> Dims:
        """Small sizes, zero now and then."""
        sizes = [1, 2, 3, 4, 5, 7] if self.rng.random() < 0.93 else [0, 1, 3]
        while True:
            dims = tuple(self.rng.choice(sizes) for _ in range(self.rng.randint(low, high)))
            if math.prod(dims) <= MOST:
                return dims

    def dtype(self, *kinds: str) -> str:
        """Any element type, or one of those."""
        if kinds:
            return self.rng.choice(kinds)
        return self.rng.choice(RARE) if self.rng.random() < 0.12 else self.rng.choice(DTYPES)

    def values(self, dtype: str, dims: Dims) -> c.Array:
        """Small integers of any type; now and then what is special of it."""
        seed = c.Stream(self.rng.randrange(1 << 31))
        bits = c.BITS[dtype]
        if dtype in c.INTEGERS and bits >= 8 and self.rng.random() < 0.2:
            return np.resize(seed.permutation(c.specials(dtype)), dims)
        if dtype in c.WIDE_FLOATS and self.rng.random() < 0.12:
            odd = [np.nan, np.inf, -np.inf, -0.0, 0.0, 0.5, -2.5, 1.5, 3.0, -4.0]
            return seed.choice(odd, dims).astype(c.np_dtype(dtype))
        return self.small(dtype, dims)

    def small(self, dtype: str, dims: Dims) -> c.Array:
        """Small integers of any type."""
        seed = c.Stream(self.rng.randrange(1 << 31))
        if dtype == "pred":
            return np.asarray(seed.integers(0, 2, dims)).astype(bool)
        bits = c.BITS[dtype]
        low, high = (0, 8) if dtype.startswith("u") else (-5, 6)
        if dtype in c.INTEGERS and bits < 8:
            low, high = (0, 1 << bits) if dtype.startswith("u") else (-(1 << bits - 1), 1 << bits - 1)
        if dtype in c.TINY_FLOATS:
            low, high = -2, 3
        out = np.asarray(seed.integers(low, high, dims))
        if dtype in c.COMPLEX:
            return paired(out, seed.integers(low, high, dims)).astype(c.np_dtype(dtype))
        return out.astype(np.float32).astype(c.np_dtype(dtype))

    def parameter(self, dtype: str, dims: Dims, values: c.Array | None = None) -> Node:
        """A new argument; in a nested computation a constant."""
        x = self.values(dtype, dims) if values is None else values
        if self.depth:
            return self.constant(dtype, dims, x)
        node = self.emit(dtype, dims, f"parameter({len(self.inputs)})")
        self.inputs.append(x)
        self.parameters.append(node.name)
        return node

    def constant(self, dtype: str, dims: Dims, x: c.Array | None = None) -> Node:
        """A literal; a broadcast scalar where the array is not small."""
        x = self.values(dtype, dims) if x is None else x
        if math.prod(dims) > 24 or 0 in dims:
            flat = np.resize(np.asarray(x).reshape(-1), (1,)) if np.size(x) else self.values(dtype, (1,))
            one = self.constant(dtype, (), flat.reshape(()))
            return self.emit(dtype, dims, f"broadcast({one.name}), dimensions={{}}", one)
        return self.emit(dtype, dims, f"constant({literal(dtype, np.asarray(x))})")

    def index(self, value: int, dtype: str = "s32") -> Node:
        """A scalar integer that is sometimes an argument."""
        x = np.asarray(value).astype(c.np_dtype(dtype))
        if self.rng.random() < 0.6 and not self.depth:
            return self.parameter(dtype, (), x)
        return self.constant(dtype, (), x)

    def any(self, *kinds: str, rank: int = 0, most: int = 5) -> Node:
        """An array there is, or a new one."""
        fits = [n for n in self.nodes if (not kinds or n.dtype in kinds) and rank <= len(n.dims) <= most]
        if fits and self.rng.random() < 0.75:
            # Late ones more often: chains are what goes wrong.
            return fits[min(int(self.rng.betavariate(2, 1) * len(fits)), len(fits) - 1)]
        return self.parameter(self.dtype(*kinds), self.dims(rank, min(most, max(rank, 4))))

    def like(self, dtype: str, dims: Dims) -> Node:
        """An array of that shape."""
        fits = [n for n in self.nodes if n.dtype == dtype and n.dims == dims]
        if fits and self.rng.random() < 0.6:
            return self.rng.choice(fits)
        return self.parameter(dtype, dims)

    def combine(self, name: str, lines: str) -> str:
        """A computation, once."""
        self.computations[name] = c.computation(name, lines)
        return name

    # -- the whole ------------------------------------------------------------------------------------------------

    def needed(self, names: list[str]) -> list[str]:
        """Those instructions and all they are made from, in order."""
        wanted: set[str] = set()
        stack = list(names)
        while stack:
            name = stack.pop()
            if name not in wanted:
                wanted.add(name)
                stack.extend(self.sources[name])
        return [name for name in self.lines if name in wanted]

    def module(self, results: list[Node]) -> str:
        """The text with those results; all parameters stay."""
        kept = self.needed([n.name for n in results] + self.parameters)
        body = [self.lines[name] for name in kept]
        shapes = ", ".join(self.shape(n.dtype, n.dims) for n in results)
        body.append(f"ROOT root_ = ({shapes}) tuple({', '.join(n.name for n in results)})")
        entry = "ENTRY main {\n" + "".join(f"  {line}\n" for line in body) + "}\n"
        return "HloModule sweep\n\n" + "\n".join(called(entry, self.computations)) + "\n" + entry


def called(entry: str, computations: dict[str, str]) -> list[str]:
    """Texts of the computations that are used, callees first."""
    wanted: set[str] = set()
    stack = [entry]
    while stack:
        words = set(re.findall(r"[\w.]+", stack.pop()))
        for name in words & computations.keys():
            if name not in wanted:
                wanted.add(name)
                stack.append(computations[name].split("{", 1)[1])
    return [text for name, text in computations.items() if name in wanted]


def literal(dtype: str, x: c.Array) -> str:
    """Nested braces."""
    if x.ndim:
        return "{" + ", ".join(literal(dtype, row) for row in x) + "}"
    if dtype == "pred":
        return "true" if x else "false"
    if dtype in c.COMPLEX:
        return f"({x.real:g}, {x.imag:g})"
    return str(int(x)) if dtype in c.INTEGERS else f"{float(x):g}"


LAYOUT = re.compile(r"(\b(?:pred|token|bf16|[sufc]\d+\w*)\[[^\]]*\])\{[\d,]*\}")


FUSION = re.compile(r"fusion\((.*)\), kind=\w+, calls=(\w+)")
START = re.compile(r"^ *(\w+) = .* async-start\((.*)\), calls=(\w+)\n", re.MULTILINE)


def plain(text: str) -> str:
    """The text for XLA:CPU: without layouts, with calls for fusions and for async pairs."""
    text = FUSION.sub(r"call(\1), to_apply=\2", text)
    for start, operands, computation in START.findall(text):
        text = text.replace(f"async-done({start})", f"call({operands}), to_apply={computation}")
    return LAYOUT.sub(r"\1", START.sub("", text))
