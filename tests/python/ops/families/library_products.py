"""cuBLASLt products with epilogues and scales, and block-scaled products, by their definition in double precision."""

from __future__ import annotations

import json
from collections.abc import Iterator

import cases as c
import numpy as np
from cases import Case

EPILOGUES = [
    "BIAS",
    "RELU",
    "BIAS_RELU",
    "GELU",
    "BIAS_GELU",
    "GELU_AUX",
    "BIAS_GELU_AUX",
    "SILU",
    "BIAS_SILU",
]
SATURATION = {"f8e4m3fn": 448.0, "f8e5m2": 57344.0}


def config(epilogue: str, alpha: float, beta: float, rank: int = 2, lhs: int = 1, rhs: int = 0) -> str:
    """A backend_config as XLA writes it."""
    batch = [str(k) for k in range(rank - 2)]
    numbers = {
        "lhs_contracting_dimensions": [str(rank - 2 + lhs)],
        "rhs_contracting_dimensions": [str(rank - 2 + rhs)],
        "lhs_batch_dimensions": batch,
        "rhs_batch_dimensions": batch,
    }
    gemm = {
        "alpha_real": alpha,
        "alpha_imag": 0,
        "beta": beta,
        "dot_dimension_numbers": numbers,
        "epilogue": epilogue,
    }
    return json.dumps({"gemm_backend_config": gemm})


def activate(x: c.Array, name: str) -> c.Array:
    """The epilogue's function."""
    if name == "RELU":
        return np.maximum(x, 0)
    if name == "GELU":
        return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))
    return np.asarray(x / (1 + np.exp(-x))) if name == "SILU" else x


def wide(x: c.Array) -> c.Array:
    """Double precision."""
    return x.astype(np.float64)


def epilogues() -> Iterator[Case]:
    """Every epilogue, with and without C, in one and three dimensions of batch and free sizes."""
    for dtype in ("f32", "f64", "bf16", "f16"):
        for epilogue in EPILOGUES:
            for beta in (0.0, 1.0, 0.5):
                for lead in ((), (2,)):
                    if beta == 0.5 and lead:
                        continue
                    yield epilogue_case(dtype, epilogue, beta, lead)


def epilogue_case(dtype: str, epilogue: str, beta: float, lead: tuple[int, ...]) -> Case:
    """One product."""
    m, k, n = 5, 7, 3
    shapes = [
        (*lead, m, k),
        (*lead, k, n),
        *([(*lead, m, n)] if beta else []),
        *([(n,)] if "BIAS" in epilogue else []),
    ]
    inputs = [c.random(dtype, dims, "lt", at, scale=1.5) for at, dims in enumerate(shapes)]
    lines = "".join(f"p{at} = {c.sh(dtype, dims)} parameter({at})\n" for at, dims in enumerate(shapes))
    out = c.sh(dtype, (*lead, m, n))
    result = f"({out}, {out}, s8[16])" if "AUX" in epilogue else f"({out}, s8[16])"
    operands = ", ".join(f"p{at}" for at in range(len(shapes)))
    lines += (
        f'd = {result} custom-call({operands}), custom_call_target="__cublas$lt$matmul", '
        f"backend_config={config(epilogue, 1.25, beta, 2 + len(lead))}\ny = {out} get-tuple-element(d), index=0\n"
    )
    if "AUX" in epilogue:
        lines += f"a = {out} get-tuple-element(d), index=1\nr = ({out}, {out}) tuple(y, a)"
    else:
        lines += f"r = {out} copy(y)"

    def run(*arrays: c.Array) -> list[c.Array]:
        rest = [wide(x) for x in arrays]
        x = 1.25 * (rest[0] @ rest[1])
        if beta:
            x = x + beta * rest[2]
        if "BIAS" in epilogue:
            x = x + rest[-1]
        name = epilogue.removesuffix("_AUX").removeprefix("BIAS_").removeprefix("BIAS")
        both = [activate(x, name), x] if "AUX" in epilogue else [activate(x, name)]
        return [v.astype(c.np_dtype(dtype)) for v in both]

    name = f"lt-matmul-{epilogue}-{dtype}-{beta}-{len(lead)}"
    close = c.sums(dtype, 2.0)
    text = c.module(lines)
    return Case(name, "custom-call", dtype, text, inputs, close, reference=run, prefer_reference=True)


def eight_bits() -> Iterator[Case]:
    """Scaled products of 8-bit floats: results in f32 and bf16, in 8 bits with a scale, with the largest magnitude."""
    m, k, n = 4, 16, 6
    for left, right in (("f8e4m3fn", "f8e4m3fn"), ("f8e5m2", "f8e4m3fn")):
        for out in ("f32", "bf16", "f8e4m3fn"):
            for amax in (False, True):
                for bias in (False, True):
                    shapes = [(left, (m, k)), (right, (n, k)), ("f32", ()), ("f32", ())]
                    narrow = out in SATURATION
                    if bias:
                        shapes.append(("bf16" if narrow else out, (n,)))
                    if narrow:
                        shapes.append(("f32", ()))
                    inputs = [c.random(t, dims, "f8", at) for at, (t, dims) in enumerate(shapes)]
                    lines = "".join(
                        f"p{at} = {c.sh(t, d)} parameter({at})\n" for at, (t, d) in enumerate(shapes)
                    )
                    o = c.sh(out, (m, n))
                    result = f"({o}, f32[], s8[16])" if amax else f"({o}, s8[16])"
                    operands = ", ".join(f"p{at}" for at in range(len(shapes)))
                    lines += (
                        f'd = {result} custom-call({operands}), custom_call_target="__cublas$lt$matmul$f8", '
                        f"backend_config={config('BIAS' if bias else 'DEFAULT', 1.0, 0.0, 2, 1, 1)}\n"
                        f"y = {o} get-tuple-element(d), index=0\n"
                    )
                    if amax:
                        lines += f"a = f32[] get-tuple-element(d), index=1\nr = ({o}, f32[]) tuple(y, a)"
                    else:
                        lines += f"r = {o} copy(y)"

                    def run(
                        *x: c.Array, amax: bool = amax, bias: bool = bias, out: str = out
                    ) -> list[c.Array]:
                        y = wide(x[0]) @ wide(x[1]).T * wide(x[2]) * wide(x[3])
                        if bias:
                            y = y + wide(x[4])
                        largest = np.asarray(np.abs(y).max(), np.float32)
                        if out in SATURATION:
                            y = np.clip(y * wide(x[-1]), -SATURATION[out], SATURATION[out]).astype(np.float32)
                        return [y.astype(c.np_dtype(out)), *([largest] if amax else [])]

                    name = f"lt-matmul-f8-{left}-{right}-{out}-{amax}-{bias}"
                    yield Case(
                        name,
                        "custom-call",
                        left,
                        c.module(lines),
                        inputs,
                        c.sums(out, 2.0),
                        reference=run,
                        prefer_reference=True,
                    )


def blocks() -> Iterator[Case]:
    """`__op$block_scaled_dot`: a scale for each block of 8 or 32 along the last dimension."""
    for block, lead in ((32, ()), (8, (2,))):
        a, s = (*lead, 4, 64), (*lead, 4, 64 // block)
        b, t = (*lead, 6, 64), (*lead, 6, 64 // block)
        types = ["f8e4m3fn", "f8e4m3fn", "f8e8m0fnu", "f8e8m0fnu"]
        arrays = list(zip(types, (a, b, s, t), strict=True))
        inputs = [c.random(k, d, "block", at) for at, (k, d) in enumerate(arrays)]
        lines = "".join(f"p{at} = {c.sh(k, d)} parameter({at})\n" for at, (k, d) in enumerate(arrays))
        lines += f'r = {c.sh("f32", (*lead, 4, 6))} custom-call(p0, p1, p2, p3), custom_call_target="__op$block_scaled_dot"'

        def run(x: c.Array, y: c.Array, u: c.Array, v: c.Array, block: int = block) -> c.Array:
            x, y = wide(x) * np.repeat(wide(u), block, -1), wide(y) * np.repeat(wide(v), block, -1)
            return np.asarray(x @ np.swapaxes(y, -1, -2)).astype(np.float32)

        yield Case(
            f"block-scaled-dot-{block}",
            "custom-call",
            "f8e4m3fn",
            c.module(lines),
            inputs,
            c.sums("f32", 2.0),
            reference=run,
            prefer_reference=True,
        )


def cases() -> Iterator[Case]:
    """All of them."""
    yield from epilogues()
    yield from eight_bits()
    yield from blocks()
