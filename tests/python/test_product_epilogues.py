"""What follows products and convolutions element by element: the same bits as without the pass, on any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

import hlorun

PASS = "product-epilogues"
# Steps on a value `v` of the shape `S`; `c` has a number for each column, `a` for each element, `s` is one number.
STEPS = {
    "bias": ["add(v, c0)"],
    "bounds": ["maximum(v, zero)", "minimum(v, six)"],
    "clamp": ["clamp(zero, v, six)"],
    "normalized": ["subtract(v, c0)", "multiply(c1, v)", "add(v, c2)", "maximum(zero, v)"],
    "residual": ["multiply(v, c0)", "add(a0, v)"],
    "step": ["multiply(v, s0)", "subtract(a0, v)"],
    "turned": ["subtract(six, v)", "add(v, a0)", "multiply(a1, v)"],
}
PRODUCTS = [
    (1, 40, 9),
    (3, 70, 300),
    (12, 64, 100),
    (33, 17, 40),
    (64, 130, 12),
    (90, 64, 257),
    (40, 5, 70),
    (200, 130, 64),
]
# Images, size, input features, output features, window, groups.
CONVOLUTIONS = [
    (1, 9, 8, 24, 3, 1),
    (2, 7, 16, 130, 1, 1),
    (3, 8, 12, 48, 3, 2),
    (1, 12, 3, 64, 5, 1),
    (2, 5, 300, 33, 1, 1),
]


def body(steps: list[str], dtype: str, shape: str, columns: int, first: int) -> str:
    """The parameters and lines of some steps."""
    last = shape.count(",")
    lines = []
    number = first
    for name, size in [("c0", columns), ("c1", columns), ("c2", columns), ("s0", 0)]:
        if any(name in step for step in steps):
            dims = str(size) if size else ""
            lines.append(f"  p{name} = {dtype}[{dims}] parameter({number})")
            where = last if size else ""
            lines.append(f"  {name} = {dtype}[{shape}] broadcast(p{name}), dimensions={{{where}}}")
            number += 1
    for name in ("a0", "a1"):
        if any(name in step for step in steps):
            lines.append(f"  {name} = {dtype}[{shape}] parameter({number})")
            number += 1
    for name, constant in [("zero", 0), ("six", 6)]:
        lines.append(f"  {name}0 = {dtype}[] constant({constant})")
        lines.append(f"  {name} = {dtype}[{shape}] broadcast({name}0), dimensions={{}}")
    value = "v"
    for at, step in enumerate(steps):
        root = "ROOT " if at == len(steps) - 1 else ""
        operands = step[step.index("(") + 1 : -1].split(", ")
        used = ", ".join(value if operand == "v" else operand for operand in operands)
        lines.append(f"  {root}v{at} = {dtype}[{shape}] {step[: step.index('(')]}({used})")
        value = f"v{at}"
    return "\n".join(lines)


def check(text: str, *, whole: bool = False, part: bool = False) -> None:
    """`whole`: no loop is left; `part`: something has an epilogue."""
    module = hlorun.parse(text)
    inputs = hlorun.make_inputs(module)
    plain = hlorun.compile(module, disable=[PASS])
    wanted = plain(*inputs)
    for threads in (1, 2):
        executable = hlorun.compile(module, threads=threads)
        listing = executable.listing()
        if whole or part:
            assert "; then " in listing, text
        if whole:
            assert "fused loop" not in listing, text
        got = executable(*inputs)
        assert np.asarray(got).tobytes() == np.asarray(wanted).tobytes(), f"{threads} threads\n{text}"


def between(dtype: str, shape: str, columns: int) -> str:
    """The last of some steps between two arrays, as operands of a concatenation that reads them across its last dimension."""
    rows = shape.rsplit(",", 1)[0]
    whole = f"{dtype}[{rows},{columns + 12}]"
    return f"""
  l0 = {dtype}[] constant(0.5)
  left = {dtype}[{rows},5] broadcast(l0), dimensions={{}}
  r0 = {dtype}[] constant(-2)
  right = {dtype}[{rows},7] broadcast(r0), dimensions={{}}
  ROOT c = {whole} concatenate(left, last, right), dimensions={{{shape.count(",")}}}"""


def inside(text: str, concatenation: str) -> str:
    """`text` with its root as an operand of a concatenation."""
    before, _, root = text.rpartition("ROOT ")
    name = root.split(" ", 1)[0]
    return before + root.replace("\n}", concatenation.replace("last", name) + "\n}")


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_products(steps: str, dtype: str) -> None:
    for m, n, k in PRODUCTS:
        text = f"""HloModule m
ENTRY e {{
  x = {dtype}[{m},{k}] parameter(0)
  y = {dtype}[{k},{n}] parameter(1)
  v = {dtype}[{m},{n}] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
{body(STEPS[steps], dtype, f"{m},{n}", n, 2)}
}}"""
        check(text)
        check(inside(text, between(dtype, f"{m},{n}", n)))


# Images, size, input features, output features, window, base dilation, padding on both sides, groups.
TRANSPOSED = [
    (1, 9, 8, 24, 2, 2, 1, 1),
    (2, 17, 16, 33, 3, 2, 2, 1),
    (2, 5, 12, 48, 4, 3, 3, 2),
    (1, 12, 3, 64, 5, 2, 1, 1),
    (3, 9, 20, 12, 1, 2, 0, 1),
    (1, 30, 6, 130, 2, 3, 1, 1),
]


@pytest.mark.parametrize("is_part", [False, True])
@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_transposed_convolutions(steps: str, dtype: str, is_part: bool) -> None:
    for images, size, depth, features, window, dilation, pad, groups in TRANSPOSED:
        out = (size - 1) * dilation + 1 + 2 * pad - window + 1
        shape = f"{images},{out},{out},{features}"
        text = f"""HloModule m
ENTRY e {{
  x = {dtype}[{images},{size},{size},{depth}] parameter(0)
  y = {dtype}[{window},{window},{depth // groups},{features}] parameter(1)
  v = {dtype}[{shape}] convolution(x, y), window={{size={window}x{window} pad={pad}_{pad}x{pad}_{pad} lhs_dilate={dilation}x{dilation}}}, dim_labels=b01f_01io->b01f, feature_group_count={groups}
{body(STEPS[steps], dtype, shape, features, 2)}
}}"""
        whole = not is_part
        check(text if whole else inside(text, between(dtype, shape, features)), whole=whole, part=True)


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_convolutions(steps: str, dtype: str) -> None:
    for images, size, depth, features, window, groups in CONVOLUTIONS:
        out = size - window + 1
        shape = f"{images},{out},{out},{features}"
        text = f"""HloModule m
ENTRY e {{
  x = {dtype}[{images},{size},{size},{depth}] parameter(0)
  y = {dtype}[{window},{window},{depth // groups},{features}] parameter(1)
  v = {dtype}[{shape}] convolution(x, y), window={{size={window}x{window}}}, dim_labels=b01f_01io->b01f,
    feature_group_count={groups}
{body(STEPS[steps], dtype, shape, features, 2)}
}}"""
        check(text, whole=True)
        check(inside(text, between(dtype, shape, features)), part=True)
