"""Random small modules from a table of operations, and texts with words exchanged for others.

`Generator` and `exchange` make text of which nobody knows whether it is legal; `smith` and `mutate` try
until the verifier finds nothing.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hlorun._hlorun import HloModule

UNARY = [
    "abs",
    "negate",
    "sign",
    "floor",
    "ceil",
    "round-nearest-even",
    "exponential",
    "log",
    "logistic",
    "sqrt",
    "rsqrt",
    "cbrt",
    "sine",
    "cosine",
    "tanh",
]
UNARY += [
    "not",
    "popcnt",
    "count-leading-zeros",
    "exponential-minus-one",
    "log-plus-one",
    "tan",
    "erf",
    "real",
    "imag",
    "copy",
]
BINARY = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "remainder",
    "maximum",
    "minimum",
    "power",
    "atan2",
    "and",
    "or",
    "xor",
]
BINARY += ["shift-left", "shift-right-arithmetic", "shift-right-logical", "mulhi"]
ORDERED = {"maximum", "minimum", "remainder"}
"""Opcodes that need an order: the verifier accepts them for complex types, but they do not run."""
TYPES = [
    "pred",
    "s2",
    "s4",
    "s8",
    "s16",
    "s32",
    "s64",
    "u2",
    "u4",
    "u8",
    "u16",
    "u32",
    "u64",
    "f16",
    "bf16",
    "f32",
    "f64",
    "c64",
    "c128",
    "f8e4m3fn",
    "f8e5m2",
    "f4e2m1fn",
]
DIRECTIONS = ["EQ", "NE", "LT", "LE", "GT", "GE"]


@dataclass(frozen=True)
class Node:
    """An instruction so far."""

    name: str
    dtype: str
    dims: tuple[int, ...]


def of_type(dtype: str, opcodes: list[str]) -> list[str]:
    """Those of `opcodes` that a value of the type can have."""
    return [word for word in opcodes if not (dtype in ("c64", "c128") and word in ORDERED)]


def shape(dtype: str, dims: tuple[int, ...]) -> str:
    """f32[2,3]."""
    return f"{dtype}[{','.join(map(str, dims))}]"


def braces(numbers: object) -> str:
    """{1,0}."""
    return "{" + ",".join(str(n) for n in numbers) + "}"  # type: ignore[attr-defined]


class Generator:
    """Builds one module."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.nodes: list[Node] = []
        self.lines: list[str] = []
        self.computations: dict[str, str] = {}

    def add(self, dtype: str, dims: tuple[int, ...], text: str) -> Node:
        """One more instruction."""
        node = Node(f"v{len(self.lines)}", dtype, dims)
        self.lines.append(f"{node.name} = {shape(dtype, dims)} {text}")
        self.nodes.append(node)
        return node

    def dims(self) -> tuple[int, ...]:
        """Small sizes, zero among them."""
        return tuple(self.rng.choice([0, 1, 1, 2, 3, 4, 5, 8]) for _ in range(self.rng.randint(0, 3)))

    def like(self, node: Node) -> Node:
        """Any instruction of the same shape."""
        same = [n for n in self.nodes if (n.dtype, n.dims) == (node.dtype, node.dims)]
        return self.rng.choice(same)

    def combiner(self, op: str, dtype: str) -> str:
        """The name of a computation of two scalars."""
        name = f"{op.replace('-', '_')}_{dtype}"
        s = shape(dtype, ())
        self.computations[name] = (
            f"{name} {{\n  x = {s} parameter(0)\n  y = {s} parameter(1)\n  ROOT z = {s} {op}(x, y)\n}}\n"
        )
        return name

    def step(self) -> None:
        """One random operation on what there is."""
        rng = self.rng
        x = rng.choice(self.nodes)
        rank = len(x.dims)
        kind = rng.randint(0, 17)
        if kind == 0:
            self.add(x.dtype, x.dims, f"{rng.choice(UNARY)}({x.name})")
        elif kind <= 3:
            self.add(
                x.dtype, x.dims, f"{rng.choice(of_type(x.dtype, BINARY))}({x.name}, {self.like(x).name})"
            )
        elif kind == 4:
            self.add(
                "pred", x.dims, f"compare({x.name}, {self.like(x).name}), direction={rng.choice(DIRECTIONS)}"
            )
        elif kind == 5:
            self.add(dtype := rng.choice(TYPES), x.dims, f"convert({x.name})")
            del dtype
        elif kind == 6:
            new = tuple(rng.sample(range(rank), rank))
            self.add(x.dtype, tuple(x.dims[d] for d in new), f"transpose({x.name}), dimensions={braces(new)}")
        elif kind == 7:
            count = 1
            for n in x.dims:
                count *= n
            self.add(x.dtype, (count,), f"reshape({x.name})")
        elif kind == 8:
            front = self.dims()[:2]
            at = range(len(front), len(front) + rank)
            self.add(x.dtype, (*front, *x.dims), f"broadcast({x.name}), dimensions={braces(at)}")
        elif kind == 9:
            some = [d for d in range(rank) if rng.random() < 0.5]
            self.add(x.dtype, x.dims, f"reverse({x.name}), dimensions={braces(some)}")
        elif kind == 10 and rank:
            d = rng.randrange(rank)
            y = self.like(x)
            dims = tuple(n * 2 if k == d else n for k, n in enumerate(x.dims))
            self.add(x.dtype, dims, f"concatenate({x.name}, {y.name}), dimensions={{{d}}}")
        elif kind == 11:
            parts: list[str] = []
            sizes: list[int] = []
            for n in x.dims:
                start, stride = rng.randint(0, n), rng.randint(1, 3)
                limit = rng.randint(start, n)
                parts.append(f"[{start}:{limit}:{stride}]")
                sizes.append(-(-(limit - start) // stride))
            self.add(x.dtype, tuple(sizes), f"slice({x.name}), slice={{{', '.join(parts)}}}")
        elif kind == 12:
            z = self.add(x.dtype, (), f"constant({'true' if x.dtype == 'pred' else self.zero(x.dtype)})")
            some = [d for d in range(rank) if rng.random() < 0.6]
            left = tuple(n for d, n in enumerate(x.dims) if d not in some)
            words = of_type(x.dtype, ["add", "multiply", "maximum", "minimum", "and"])
            name = self.combiner(rng.choice(words), x.dtype)
            self.add(x.dtype, left, f"reduce({x.name}, {z.name}), dimensions={braces(some)}, to_apply={name}")
        elif kind == 13 and rank:
            y = self.like(x)
            d = rng.randrange(rank)
            free = tuple(n for k, n in enumerate(x.dims) if k != d)
            if len(free) < 3:
                more = f"lhs_contracting_dims={{{d}}}, rhs_contracting_dims={{{d}}}"
                self.add(x.dtype, (*free, *free), f"dot({x.name}, {y.name}), {more}")
        elif kind == 14:
            z = self.add(x.dtype, (), f"constant({'false' if x.dtype == 'pred' else self.zero(x.dtype)})")
            parts, sizes = [], []
            for n in x.dims:
                low, high, inner = rng.randint(-2, 2), rng.randint(-2, 2), rng.randint(0, 2)
                parts.append(f"{low}_{high}_{inner}")
                sizes.append(max(0, n + low + high + inner * max(0, n - 1)))
            if rank:
                self.add(x.dtype, tuple(sizes), f"pad({x.name}, {z.name}), padding={'x'.join(parts)}")
        elif kind == 15 and rank:
            d = rng.randrange(rank)
            direction = rng.choice(["LT", "GT"])
            name = f"less_{x.dtype}_{direction}"
            s = shape(x.dtype, ())
            self.computations[name] = (
                f"{name} {{\n  x = {s} parameter(0)\n  y = {s} parameter(1)\n"
                f"  ROOT z = pred[] compare(x, y), direction={direction}\n}}\n"
            )
            self.add(x.dtype, x.dims, f"sort({x.name}), dimensions={{{d}}}, to_apply={name}")
        elif kind == 16 and rank:
            self.add(
                rng.choice(["s32", "f32", "u8", "bf16"]),
                x.dims,
                f"iota(), iota_dimension={rng.randrange(rank)}",
            )
        elif kind == 17 and rank:
            starts = [self.add("s32", (), f"constant({rng.randint(-9, 9)})").name for _ in range(rank)]
            cut = tuple(rng.randint(0, n) for n in x.dims)
            text = f"dynamic-slice({x.name}, {', '.join(starts)}), dynamic_slice_sizes={braces(cut)}"
            self.add(x.dtype, cut, text)

    def zero(self, dtype: str) -> str:
        """A literal."""
        return "(0, 0)" if dtype.startswith("c") else "0"

    def module(self, steps: int | None = None) -> str:
        """The text of a module of that many operations, or of a few."""
        for k in range(self.rng.randint(1, 3)):
            self.add(self.rng.choice(TYPES), self.dims(), f"parameter({k})")
        for _ in range(self.rng.randint(1, 12) if steps is None else steps):
            self.step()
        return self.text(self.rng.sample(self.nodes, min(len(self.nodes), self.rng.randint(1, 3))))

    def text(self, kept: list[Node] | None = None) -> str:
        """What there is as a module; its results are `kept`, or all that nothing uses."""
        if kept is None:
            used = {word for line in self.lines for word in re.findall(r"\bv\d+\b", line.partition("=")[2])}
            kept = [node for node in self.nodes if node.name not in used]
        parts = ", ".join(shape(n.dtype, n.dims) for n in kept)
        root = f"ROOT r = ({parts}) tuple({', '.join(n.name for n in kept)})"
        body = "\n".join(f"  {line}" for line in [*self.lines, root])
        return "HloModule random\n" + "".join(self.computations.values()) + "ENTRY main {\n" + body + "\n}\n"


WORD = re.compile(r"-?\d+|[a-z][a-z0-9_-]*")
NUMBERS = [
    "0",
    "1",
    "2",
    "3",
    "-1",
    "7",
    "64",
    "4294967295",
    "9223372036854775807",
    "-9223372036854775808",
    "65537",
]


def exchange(text: str, rng: random.Random) -> str:
    """Changes one to three words: a number, an element type, an opcode, any word for another of the text."""
    for _ in range(rng.randint(1, 3)):
        found = list(WORD.finditer(text))
        if not found:
            return text
        at = rng.choice(found)
        word = at.group()
        if word.lstrip("-").isdigit():
            new = rng.choice([*NUMBERS, str(int(word) + rng.choice([-1, 1, 2]))])
        elif word in TYPES:
            new = rng.choice(TYPES)
        elif word in UNARY:
            new = rng.choice(UNARY)
        elif word in BINARY:
            new = rng.choice(BINARY)
        else:
            new = rng.choice(found).group()
        text = text[: at.start()] + new + text[at.end() :]
    return text


MOST_TRIES = 10_000
"""After how many illegal modules there is no hope for a legal one."""


def smith(seed: int = 0, size: int = 12) -> HloModule:
    """A random legal module: to hunt for what a compiler, or hlorun, gets wrong.

    Args:
        seed: Another seed, another module; the same seed and size give the same one.
        size: Number of operations, about the number of instructions.

    Returns:
        A module that the verifier finds nothing in. Its arrays are small, and some are empty.

    Raises:
        ValueError: `size` is below 1 or above 1,000.

    Examples:
        >>> module = hlorun.smith(seed=7)
        >>> outputs = hlorun.run(module, *hlorun.make_inputs(module))
    """
    if not 1 <= size <= 1000:
        raise ValueError(f"size is from 1 to 1,000, not {size}")
    rng = random.Random(f"smith {seed} {size}")
    # Steps that break a rule are dropped, so that large modules come to an end too.
    return _legal(lambda: _grown(rng, size), f"seed {seed}")


def mutate(module: HloModule | str, seed: int = 0) -> HloModule:
    """The module with one to three words of its text exchanged: numbers, types, opcodes, names.

    Args:
        module: A module, or HLO text.
        seed: Of the changes.

    Returns:
        A legal module that differs in its text.

    Raises:
        HloParseError: The text is no HLO.
        HloVerifyError: The module is not legal.
        ValueError: No legal change was found.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> hlorun.mutate(module, seed=3) == module
        False
    """
    from hlorun._hlorun import parse

    before = parse(module) if isinstance(module, str) else module
    before.verify()
    text = str(before)
    rng = random.Random(f"mutate {seed}")
    # What is exchanged may be a comment, or a name for itself.
    return _legal(lambda: exchange(text, rng), f"seed {seed}", before)


def _grown(rng: random.Random, size: int) -> str:
    """A module grown in pieces, each of which is legal."""
    from hlorun._hlorun import parse
    from hlorun.errors import HloError

    generator = Generator(rng)
    text = generator.module(0)
    for _ in range(MOST_TRIES):
        if len(generator.lines) >= size + 1:
            return text
        kept = len(generator.nodes), len(generator.lines), dict(generator.computations)
        generator.step()
        grown = generator.text()
        try:
            parse(grown).verify()
            text = grown
        except HloError:
            del generator.nodes[kept[0] :], generator.lines[kept[1] :]
            generator.computations = kept[2]
    return text


def _legal(make: Callable[[], str], of: str, other_than: HloModule | None = None) -> HloModule:
    """The first of many texts that is a legal module, and another one."""
    from hlorun._hlorun import parse
    from hlorun.errors import HloError

    for _ in range(MOST_TRIES):
        try:
            module = parse(make())
            module.verify()
        except HloError:
            continue
        if other_than is None or module != other_than:
            return module
    raise ValueError(f"no legal module of {of} in {MOST_TRIES:,} tries")
