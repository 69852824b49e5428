"""Random loops over arrays of one length, as HLO text.

In: a seed. Out: a module whose entry takes arrays of one dimension and returns them after a loop has worked on them:
elementwise operations on all kinds of types, slices, reversals, transposes, repeats, folds, products, windows at places
that change.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from streams import Array, Stream

TYPES = ["f32", "f32", "f64", "bf16", "s32", "s32", "u32", "s64", "s8", "pred"]
DTYPES = {
    "f32": np.float32,
    "f64": np.float64,
    "bf16": ml_dtypes.bfloat16,
    "pred": np.bool_,
    "s8": np.int8,
    "s32": np.int32,
    "s64": np.int64,
    "u32": np.uint32,
}
LENGTHS = [5, 8, 9, 10, 12, 13, 16, 17, 20, 24, 31, 32, 33, 36, 40, 47, 48, 63, 64, 65, 70]
FLOATS = {"f32", "f64", "bf16"}
BINARY = {
    "pred": ["and", "or", "xor"],
    "float": ["add", "subtract", "multiply", "divide", "maximum", "minimum"],
    "integer": [
        *("add", "subtract", "multiply", "and", "or", "xor", "maximum", "minimum", "divide", "remainder"),
        *("shift-left", "shift-right-logical", "shift-right-arithmetic"),
    ],
}
UNARY = {
    "pred": ["not"],
    "float": [
        "abs",
        "negate",
        "sqrt",
        "rsqrt",
        "floor",
        "ceil",
        "round-nearest-even",
        "sign",
        "exponential",
        "tanh",
    ],
    "integer": ["negate", "not"],
}
LITERALS = {
    "pred": ["true", "false"],
    "float": ["0", "-0", "1", "2", "-1.5", "0.5", "nan", "inf", "-inf", "3e-3"],
    "integer": ["0", "1", "7", "100"],
}
DIRECTIONS = ["EQ", "NE", "LT", "LE", "GT", "GE"]
ARGMAX = """arg_TYPE {
  a = TYPE[] parameter(0)
  i = s32[] parameter(1)
  b = TYPE[] parameter(2)
  j = s32[] parameter(3)
  more = pred[] compare(a, b), direction=GT
  is_nan = pred[] compare(a, a), direction=NE
  first = pred[] or(more, is_nan)
  most = TYPE[] select(first, a, b)
  same = pred[] compare(a, b), direction=EQ
  before = pred[] compare(i, j), direction=LT
  tie = pred[] and(same, before)
  taken = pred[] or(first, tie)
  at = s32[] select(taken, i, j)
  ROOT r = (TYPE[], s32[]) tuple(most, at)
}
"""


def kind(ty: str) -> str:
    """Which operations a type has."""
    return "pred" if ty == "pred" else "float" if ty in FLOATS else "integer"


@dataclass
class Made:
    """A module, and the types and the length of its arrays."""

    text: str
    types: list[str]
    length: int

    def inputs(self, *key: object) -> list[Array]:
        """Arrays with some of everything: NaN, infinities, zeros of both signs."""
        stream = Stream("array loops", *key)
        made = []
        for ty in self.types:
            if ty in FLOATS:
                x = stream.normal(self.length, np.float64)
                special = stream.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0], self.length)
                x = np.where(stream.integers(0, 6, self.length) == 0, special, x)
            else:
                x = (
                    stream.integers(-100, 100, self.length)
                    if ty != "pred"
                    else stream.integers(0, 2, self.length)
                )
            made.append(x.astype(DTYPES[ty]))
        return made


class Loop:
    """The lines of a body so far."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.length = self.rng.choice(LENGTHS)
        rows = self.rng.choice([n for n in range(1, self.length + 1) if self.length % n == 0])
        self.rows = [rows, self.length // rows]
        self.lines: list[str] = []
        self.helpers: dict[str, str] = {}
        self.values: dict[tuple[str, tuple[int, ...]], list[str]] = {}

    def name(self) -> str:
        return f"v{len(self.lines)}"

    def line(self, shape: str, text: str) -> str:
        name = self.name()
        self.lines.append(f"  {name} = {shape} {text}")
        return name

    def add(self, ty: str, text: str, dims: list[int] | None = None) -> str:
        dims = [self.length] if dims is None else dims
        name = self.line(f"{ty}[{','.join(map(str, dims))}]", text)
        self.values.setdefault((ty, tuple(dims)), []).append(name)
        return name

    def pick(self, ty: str) -> str:
        values = self.values.get((ty, (self.length,)))
        if not values:
            return self.add(ty, f"broadcast({self.constant(ty)}), dimensions={{}}")
        return self.rng.choice(values[-6:] if self.rng.random() < 0.7 else values)

    def constant(self, ty: str) -> str:
        return self.line(f"{ty}[]", f"constant({self.rng.choice(LITERALS[kind(ty)])})")

    def matrix(self, ty: str) -> str:
        return self.add(ty, f"reshape({self.pick(ty)})", self.rows)

    def spread(self, ty: str, row: str, reduced: int) -> None:
        """What is left of a matrix without a dimension, repeated along it."""
        whole = self.add(ty, f"broadcast({row}), dimensions={{{1 - reduced}}}", self.rows)
        self.add(ty, f"reshape({whole})")

    def elementwise(self, ty: str) -> None:
        choice, of = self.rng.randrange(7), kind(ty)
        if choice < 2:
            self.add(ty, f"{self.rng.choice(BINARY[of])}({self.pick(ty)}, {self.pick(ty)})")
        elif choice == 2:
            self.add(ty, f"{self.rng.choice(UNARY[of])}({self.pick(ty)})")
        elif choice == 3:
            direction = self.rng.choice(DIRECTIONS)
            self.add("pred", f"compare({self.pick(ty)}, {self.pick(ty)}), direction={direction}")
        elif choice == 4:
            self.add(ty, f"select({self.pick('pred')}, {self.pick(ty)}, {self.pick(ty)})")
        elif choice == 5 and of != "pred":
            self.add(ty, f"clamp({self.pick(ty)}, {self.pick(ty)}, {self.pick(ty)})")
        else:
            to = self.rng.choice(sorted(FLOATS | {"pred"}) if of == "float" else TYPES)
            self.add(to, f"convert({self.pick(ty)})")

    def moved(self, ty: str) -> None:
        choice = self.rng.randrange(5)
        if choice == 0:
            self.add(ty, f"reverse({self.pick(ty)}), dimensions={{0}}")
        elif choice == 1:
            cut = self.rng.randrange(1, self.length)
            parts = [
                self.add(ty, f"slice({self.pick(ty)}), slice={{[{a}:{b}]}}", [b - a])
                for a, b in ((self.length - cut, self.length), (0, self.length - cut))
            ]
            self.add(ty, f"concatenate({', '.join(parts)}), dimensions={{0}}")
        elif choice == 2:
            turned = self.add(ty, f"transpose({self.matrix(ty)}), dimensions={{1,0}}", self.rows[::-1])
            self.add(ty, f"reshape({turned})")
        else:
            size = self.rng.randrange(1, self.length + 1)
            window = self.add(
                ty, f"dynamic-slice({self.pick(ty)}, i), dynamic_slice_sizes={{{size}}}", [size]
            )
            at = self.rng.choice(["i", "two"])
            self.add(ty, f"dynamic-update-slice({self.pick(ty)}, {window}, {at})")

    def folded(self, ty: str) -> None:
        op = self.rng.choice(["and", "or"] if ty == "pred" else ["add", "maximum", "minimum"])
        self.helpers[f"{op}_{ty}"] = (
            f"{op}_{ty} {{\n  a = {ty}[] parameter(0)\n  b = {ty}[] parameter(1)\n"
            f"  ROOT r = {ty}[] {op}(a, b)\n}}\n"
        )
        start = self.constant(ty)
        if self.rng.random() < 0.5:
            all_ = self.add(ty, f"reduce({self.pick(ty)}, {start}), dimensions={{0}}, to_apply={op}_{ty}", [])
            self.add(ty, f"broadcast({all_}), dimensions={{}}")
            return
        reduced = self.rng.randrange(2)
        text = f"reduce({self.matrix(ty)}, {start}), dimensions={{{reduced}}}, to_apply={op}_{ty}"
        self.spread(ty, self.add(ty, text, [self.rows[1 - reduced]]), reduced)

    def selected(self, ty: str) -> None:
        """The largest elements of rows or columns, and where they are."""
        self.helpers[f"arg_{ty}"] = ARGMAX.replace("TYPE", ty)
        reduced = self.rng.randrange(2)
        count = self.rows[1 - reduced]
        index = self.add("s32", f"iota(), iota_dimension={reduced}", self.rows)
        starts = f"{self.constant(ty)}, {self.constant('s32')}"
        text = f"reduce({self.matrix(ty)}, {index}, {starts}), dimensions={{{reduced}}}, to_apply=arg_{ty}"
        pair = self.line(f"({ty}[{count}], s32[{count}])", text)
        for k, of in enumerate((ty, "s32")):
            self.spread(of, self.add(of, f"get-tuple-element({pair}), index={k}", [count]), reduced)

    def product(self) -> None:
        rows, columns = self.rows
        other = self.add("f32", f"reshape({self.pick('f32')})", [columns, rows])
        text = f"dot({self.matrix('f32')}, {other}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
        product = self.add("f32", text, [rows, rows])
        first = self.add("f32", f"slice({product}), slice={{[0:{rows}],[0:1]}}", [rows, 1])
        self.spread("f32", self.add("f32", f"reshape({first})", [rows]), 1)

    def step(self) -> None:
        ty, choice = self.rng.choice(TYPES), self.rng.randrange(16)
        if choice < 10:
            self.elementwise(ty)
        elif choice < 13:
            self.moved(ty)
        elif choice == 13:
            self.folded(ty)
        elif choice == 14 and ty in {"f32", "f64", "s32"}:
            self.selected(ty)
        else:
            self.product()


def made(seed: int, trips: int) -> Made:
    """The module of a seed; its loop has `trips` trips."""
    loop = Loop(seed)
    types = [loop.rng.choice(TYPES) for _ in range(loop.rng.randrange(2, 7))]
    shapes = [f"{ty}[{loop.length}]" for ty in types]
    state = f"(s32[], {', '.join(shapes)})"
    for k, ty in enumerate(types):
        loop.add(ty, f"get-tuple-element(p), index={k + 1}")
    for _ in range(loop.rng.randrange(5, 40)):
        loop.step()
    results = [loop.pick(ty) for ty in types]
    arguments = [f"a{k}" for k in range(len(types))]
    lines = [
        *("HloModule arrays\n", *loop.helpers.values()),
        *("body {", f"  p = {state} parameter(0)", "  i = s32[] get-tuple-element(p), index=0"),
        *("  one = s32[] constant(1)", "  two = s32[] constant(2)", *loop.lines),
        *("  j = s32[] add(i, one)", f"  ROOT t = {state} tuple(j, {', '.join(results)})", "}\n"),
        *("condition {", f"  p = {state} parameter(0)", "  i = s32[] get-tuple-element(p), index=0"),
        *(f"  n = s32[] constant({trips})", "  ROOT c = pred[] compare(i, n), direction=LT", "}\n"),
        *("ENTRY main {", "  zero = s32[] constant(0)"),
        *(
            f"  {name} = {shape} parameter({k})"
            for k, (name, shape) in enumerate(zip(arguments, shapes, strict=True))
        ),
        f"  t = {state} tuple(zero, {', '.join(arguments)})",
        *(f"  ROOT w = {state} while(t), condition=condition, body=body", "}"),
    ]
    return Made("\n".join(lines) + "\n", types, loop.length)
