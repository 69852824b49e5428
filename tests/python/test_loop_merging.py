"""Neighbouring loops that become one, and concatenations that loops read piece by piece: random programs over a few arrays,
alone and as the body of a loop."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import hlorun
from streams import Stream

COMPUTATIONS = """HloModule m
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}
"""

CONSTANTS = """  zero = f32[] constant(0)
  first = s32[] constant(0)
  one = s32[] constant(1)
"""


class Lines:
    """Instructions that compute arrays of one shape from each other."""

    def __init__(self, rng: random.Random, rows: int, columns: int, inputs: list[str]) -> None:
        self.rng, self.rows, self.columns = rng, rows, columns
        self.shape = f"f32[{rows},{columns}]"
        self.values, self.truths, self.lines = list(inputs), list[str](), list[str]()

    def add(self, text: str) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def joined(
        self, arrays: tuple[str, str], first: tuple[int, int], second: tuple[int, int], opcode: str
    ) -> str:
        """Columns `first` of one array and `second` of another side by side, each computed by `opcode` if any."""
        parts = []
        for name, (start, end) in zip(arrays, (first, second), strict=True):
            shape = f"f32[{self.rows},{end - start}]"
            part = self.add(f"{shape} slice({name}), slice={{[0:{self.rows}],[{start}:{end}]}}")
            parts.append(self.add(f"{shape} {opcode}({part})") if opcode else part)
        return f"concatenate({parts[0]}, {parts[1]}), dimensions={{1}}"

    def step(self) -> None:
        """Adds a value, computed element by element or by another operation."""
        rng, shape, columns = self.rng, self.shape, self.columns
        x, y = rng.choice(self.values), rng.choice(self.values)
        match rng.choice(
            ["binary"] * 5
            + ["unary", "truth", "select", "reverse", "row", "sort", "update", "flat"]
            + ["roll", "halves"]
        ):
            case "binary":
                made = f"{rng.choice(['add', 'subtract', 'multiply', 'maximum'])}({x}, {y})"
            case "unary":
                made = f"{rng.choice(['negate', 'abs', 'tanh', 'floor'])}({x})"
            case "truth":
                kind = shape.replace("f32", "pred")
                self.truths.append(
                    self.add(f"{kind} compare({x}, {y}), direction={rng.choice(['LT', 'GE'])}")
                )
                return
            case "select" if self.truths:
                made = f"select({rng.choice(self.truths)}, {x}, {y})"
            case "reverse":
                made = f"reverse({x}), dimensions={{{rng.choice([0, 1])}}}"
            case "row":
                row = self.add(f"f32[{columns}] reduce({x}, zero), dimensions={{0}}, to_apply=sum")
                made = f"broadcast({row}), dimensions={{1}}"
            case "sort":
                made = f"sort({x}), dimensions={{0}}, to_apply=less"
            case "roll":
                at = rng.randint(1, columns - 1) if columns > 1 else 0
                made = self.joined((x, x), (at, columns), (0, at), "") if at else f"copy({x})"
            case "halves":
                at = columns // 2
                made = self.joined((x, y), (0, at), (at, columns), "negate") if at else f"copy({x})"
            case "update":
                row = self.add(f"f32[1,{columns}] slice({x}), slice={{[0:1],[0:{columns}]}}")
                made = f"dynamic-update-slice({y}, {row}, one, first)"
            case _:
                flat = self.add(f"f32[{self.rows * columns}] reshape({x})")
                flat = self.add(f"f32[{self.rows * columns}] negate({flat})")
                made = f"reshape({flat})"
        self.values.append(self.add(f"{shape} {made}"))


def text_of(seed: int) -> tuple[str, int, tuple[int, int]]:
    """A module, the number of its inputs, and their shape."""
    rng = random.Random(seed)
    rows, columns = rng.choice([(50, 60), (64, 64), (3, 1000), (2100, 1), (70, 71)])
    count = rng.randint(2, 4)
    names = [f"x{k}" for k in range(count)]
    lines = Lines(rng, rows, columns, names)
    for _ in range(rng.randint(4, 14)):
        lines.step()
    results = [rng.choice(lines.values) for _ in names]
    shape, body = lines.shape, CONSTANTS + "\n".join(lines.lines) + "\n"
    parameters = "".join(f"  {name} = {shape} parameter({k})\n" for k, name in enumerate(names))
    arrays = ", ".join([shape] * count)
    if rng.random() < 0.4:
        root = f"  ROOT t = ({arrays}) tuple({', '.join(results)})\n"
        return f"{COMPUTATIONS}ENTRY e {{\n{parameters}{body}{root}}}\n", count, (rows, columns)
    state = f"(s32[], {arrays})"
    parts = "".join(
        f"  {name} = {shape} get-tuple-element(p), index={k + 1}\n" for k, name in enumerate(names)
    )
    start = f"  p = {state} parameter(0)\n  i = s32[] get-tuple-element(p), index=0\n"
    root = f"  j = s32[] add(i, one)\n  ROOT t = {state} tuple(j, {', '.join(results)})\n"
    limit = f"  n = s32[] constant({rng.randint(1, 5)})\n  ROOT c = pred[] compare(i, n), direction=LT\n"
    entry = f"{parameters}  s = s32[] constant(0)\n  t = {state} tuple(s, {', '.join(names)})\n"
    entry += f"  ROOT w = {state} while(t), condition=cond, body=body\n"
    text = f"body {{\n{start}{parts}{body}{root}}}\ncond {{\n{start}{limit}}}\nENTRY e {{\n{entry}}}\n"
    return COMPUTATIONS + text, count, (rows, columns)


def arrays_of(result: Any) -> list[Any]:
    return [np.asarray(x) for x in (result if isinstance(result, (list, tuple)) else [result])]


@pytest.mark.parametrize("part", range(8))
def test_random_loops_compute_the_same_as_one(part: int) -> None:
    joined = 0
    for seed in range(part * 40, part * 40 + 40):
        text, count, dims = text_of(seed)
        module = hlorun.parse(text)
        inputs = [Stream("neighbouring loops", seed, k).normal(dims) for k in range(count)]
        apart = hlorun.compile(module, disable=["loop-merging", "joined-inputs"])
        wanted = arrays_of(apart(*inputs))
        executable = hlorun.compile(module)
        joined += sum(record.changes for record in executable.passes if record.name == "loop-merging")
        for got in (executable(*inputs), hlorun.compile(module, check="shadow")(*inputs)):
            for a, b in zip(arrays_of(got), wanted, strict=True):
                np.testing.assert_array_equal(a, b, err_msg=f"seed {seed}")
    assert joined > 5


def test_loops_of_many_steps_stay_apart() -> None:
    """Each join builds all steps anew, so that a long chain as one loop would take its length squared to plan."""
    lines = ["x = f32[5000] parameter(0)", "v0 = f32[5000] negate(x)"]
    for k in range(3000):
        lines.append(f"c{k} = f32[] constant({k + 0.5})")
        lines.append(f"b{k} = f32[5000] broadcast(c{k}), dimensions={{}}")
        lines.append(f"v{k + 1} = f32[5000] add(v{k}, b{k})")
    lines[-1] = "ROOT " + lines[-1]
    executable = hlorun.compile(hlorun.parse("ENTRY e {\n" + "\n".join(lines) + "\n}"))
    assert sum(record.changes for record in executable.passes if record.name == "loop-merging") == 0


def test_parts_of_many_rows_are_proved_apart() -> None:
    """Two columns of more rows than the checker counts one by one."""
    rows = (1 << 16) + 1
    lines = [
        f"x = f32[{rows},2] parameter(0)",
        f"a = f32[{rows},1] slice(x), slice={{[0:{rows}],[0:1]}}",
        f"b = f32[{rows},1] slice(x), slice={{[0:{rows}],[1:2]}}",
        f"p = f32[{rows},1] add(a, b)",
        f"q = f32[{rows},1] subtract(a, b)",
        f"ROOT r = f32[{rows},2] concatenate(p, q), dimensions={{1}}",
    ]
    module = hlorun.parse("ENTRY e {\n" + "\n".join(lines) + "\n}")
    executable = hlorun.compile(module, check=True)
    assert [record.changes for record in executable.passes if record.name == "loop-merging"] == [1]
    x = Stream("many rows", rows).normal((rows, 2))
    np.testing.assert_array_equal(executable(x), np.stack([x[:, 0] + x[:, 1], x[:, 0] - x[:, 1]], 1))
