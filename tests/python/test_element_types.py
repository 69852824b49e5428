"""Every opcode with every element type: it computes, or a typed error says that it does not.

Memory that a kernel left unwritten shows as a difference between two runs, because blocks of the sizes in use are
filled with another pattern before each.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hlorun

TYPES = [
    "pred",
    "s1",
    "s2",
    "s4",
    "s8",
    "s16",
    "s32",
    "s64",
    "u1",
    "u2",
    "u4",
    "u8",
    "u16",
    "u32",
    "u64",
    "f4e2m1fn",
    "f8e3m4",
    "f8e4m3",
    "f8e4m3fn",
    "f8e4m3fnuz",
    "f8e4m3b11fnuz",
    "f8e5m2",
    "f8e5m2fnuz",
    "f8e8m0fnu",
    "f16",
    "bf16",
    "f32",
    "f64",
    "c64",
    "c128",
]
UNARY = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atanh",
    "cbrt",
    "ceil",
    "cosine",
    "cosh",
    "count-leading-zeros",
    "erf",
    "exponential",
    "exponential-minus-one",
    "floor",
    "imag",
    "is-finite",
    "log",
    "log-plus-one",
    "logistic",
    "negate",
    "not",
    "popcnt",
    "real",
    "round-nearest-afz",
    "round-nearest-even",
    "rsqrt",
    "sign",
    "sine",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "copy",
]
BINARY = [
    "add",
    "and",
    "atan2",
    "complex",
    "divide",
    "maximum",
    "minimum",
    "mulhi",
    "multiply",
    "or",
    "power",
    "remainder",
    "shift-left",
    "shift-right-arithmetic",
    "shift-right-logical",
    "subtract",
    "xor",
]
REDUCERS = {
    "add": "f { a = T[] parameter(0)\n b = T[] parameter(1)\n ROOT c = T[] add(a, b)\n}\n",
    "second": "f { a = T[] parameter(0)\n ROOT b = T[] parameter(1)\n}\n",
}
LESS = "f { a = T[] parameter(0)\n b = T[] parameter(1)\n ROOT c = pred[] compare(a, b), direction=LT\n}\n"
ONE = "f { a = T[] parameter(0)\n ROOT b = T[] negate(a)\n}\n"
SUM = REDUCERS["add"]
# What an instruction on `x` and `y`, two T[8], a T[2,4] `m`, a T[] `s` and an s32[] `i` may be: its shape, itself, and
# the computation it calls. `R` is the result's type where that is not T.
CASES: dict[str, tuple[str, str, str]] = {
    **{op: ("R[8]", f"{op}(x)", "") for op in UNARY},
    **{op: ("R[8]", f"{op}(x, y)", "") for op in BINARY},
    **{
        f"convert-{to}": (f"{to}[8]", "convert(x)", "")
        for to in ("pred", "s4", "s32", "u8", "f16", "f32", "c64")
    },
    "iota": ("T[8]", "iota(), iota_dimension=0", ""),
    "iota-rows": ("T[4,8]", "iota(), iota_dimension=0", ""),
    "compare": ("pred[8]", "compare(x, y), direction=LE", ""),
    "select": ("T[8]", "select(p, x, y)", ""),
    "clamp": ("T[8]", "clamp(x, y, x)", ""),
    "reduce-precision": ("T[8]", "reduce-precision(x), exponent_bits=3, mantissa_bits=2", ""),
    "broadcast": ("T[3,8]", "broadcast(x), dimensions={1}", ""),
    "reshape": ("T[4,2]", "reshape(m)", ""),
    "transpose": ("T[4,2]", "transpose(m), dimensions={1,0}", ""),
    "reverse": ("T[8]", "reverse(x), dimensions={0}", ""),
    "slice": ("T[3]", "slice(x), slice={[1:7:2]}", ""),
    "concatenate": ("T[16]", "concatenate(x, y), dimensions={0}", ""),
    "pad": ("T[13]", "pad(x, s), padding=2_3", ""),
    "pad-interior": ("T[15]", "pad(x, s), padding=0_0_1", ""),
    "dynamic-slice": ("T[3]", "dynamic-slice(x, i), dynamic_slice_sizes={3}", ""),
    "dynamic-update-slice": ("T[8]", "dynamic-update-slice(x, t, i)", ""),
    "gather": (
        "T[2,1]",
        "gather(x, v), offset_dims={1}, collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=1, "
        "slice_sizes={1}",
        "",
    ),
    **{
        f"scatter-{name}": (
            "T[8]",
            "scatter(x, v, t), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
            "index_vector_dim=1, to_apply=f",
            body,
        )
        for name, body in REDUCERS.items()
    },
    **{
        f"reduce-{name}": ("T[4]", "reduce(m, s), dimensions={0}, to_apply=f", f)
        for name, f in REDUCERS.items()
    },
    **{
        f"reduce-rows-{name}": ("T[2]", "reduce(m, s), dimensions={1}, to_apply=f", f)
        for name, f in REDUCERS.items()
    },
    **{
        f"reduce-window-{name}": ("T[7]", "reduce-window(x, s), window={size=2}, to_apply=f", f)
        for name, f in REDUCERS.items()
    },
    "dot": ("T[]", "dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}", ""),
    "dot-matrix": ("T[2]", "dot(m, r), lhs_contracting_dims={1}, rhs_contracting_dims={0}", ""),
    "convolution": ("T[1,7,1]", "convolution(image, kernel), window={size=2}, dim_labels=b0f_0io->b0f", ""),
    "map": ("T[8]", "map(x), dimensions={0}, to_apply=f", ONE),
    "sort": ("T[8]", "sort(x), dimensions={0}, to_apply=f", LESS),
    "topk": ("(T[3], s32[3])", "topk(x), k=3, largest=true", ""),
    "while": (
        "(T[8], s32[])",
        "while(w), condition=c, body=b",
        "c { a = (T[8], s32[]) parameter(0)\n n = s32[] get-tuple-element(a), index=1\n k = s32[] constant(3)\n "
        "ROOT l = pred[] compare(n, k), direction=LT\n}\n"
        "b { a = (T[8], s32[]) parameter(0)\n n = s32[] get-tuple-element(a), index=1\n k = s32[] constant(1)\n "
        "z = T[8] get-tuple-element(a), index=0\n h = s32[] add(n, k)\n q = T[8] reverse(z), dimensions={0}\n "
        "ROOT l = (T[8], s32[]) tuple(q, h)\n}\n",
    ),
    "fft": ("T[8]", "fft(x), fft_type=FFT, fft_length={8}", ""),
    "cholesky": ("T[2,2]", "cholesky(square), lower=true", ""),
    "rng": ("T[8]", "rng(s, s), distribution=rng_uniform", ""),
    "rng-bit-generator": ("(u64[2], T[8])", "rng-bit-generator(key), algorithm=rng_three_fry", ""),
    "constant": ("T[2]", "constant({1, 0})", ""),
    "get-dimension-size": ("s32[]", "get-dimension-size(x), dimensions={0}", ""),
}
PRELUDE = """  x = T[8] parameter(0)
  y = T[8] parameter(1)
  i = s32[] constant(2)
  p = pred[8] constant({1,0,1,1,0,0,1,0})
  v = s32[2,1] constant({{5},{1}})
  key = u64[2] constant({3, 9})
  m = T[2,4] reshape(x)
  one = T[1] slice(y), slice={[2:3]}
  s = T[] reshape(one)
  t = T[2] slice(y), slice={[0:2]}
  r = T[4] slice(y), slice={[0:4]}
  q = T[4] slice(x), slice={[1:5]}
  square = T[2,2] reshape(q)
  image = T[1,8,1] reshape(x)
  kernel = T[2,1,1] reshape(t)
  w = (T[8], s32[]) tuple(x, i)
"""
RESULTS = {"real": {"c64": "f32", "c128": "f64"}, "imag": {"c64": "f32", "c128": "f64"}}
RESULTS["abs"] = RESULTS["real"]
RESULTS["complex"] = {"f32": "c64", "f64": "c128"}
BLOCKS = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 4096)


def numpy_type(name: str) -> np.dtype[Any]:
    """NumPy's or ml_dtypes' type of a name of HLO."""
    plain = {"pred": "bool", "bf16": "bfloat16", "c64": "complex64", "c128": "complex128"}
    kinds = {"s": "int", "u": "uint", "f": "float"}
    name = plain.get(name) or (
        f"float{name[1]}_{name[2:]}" if name[1:2] in "48" and "e" in name else kinds[name[0]] + name[1:]
    )
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def program(case: str, dtype: str) -> str:
    """The module of a case with an element type."""
    shape, call, computation = CASES[case]
    result = RESULTS.get(case, {}).get(dtype, "pred" if case == "is-finite" else dtype)
    body = f"{computation}ENTRY e {{\n{PRELUDE}  ROOT z = {shape} {call}\n}}\n"
    return "HloModule types\n\n" + body.replace("R[", f"{result}[").replace("T[", f"{dtype}[")


def arguments(dtype: str) -> list[np.ndarray[Any, Any]]:
    """Two small arrays whose elements every type has, but for the bits that narrow ones lose."""
    x = np.array([1, 0, 1, 1, 2, 1, 3, 1])
    return [a.astype(numpy_type(dtype)) for a in (x, x[::-1])]


def dirty(byte: int) -> None:
    """Leaves blocks full of `byte` behind for the next allocations."""
    for size in BLOCKS:
        kept = [np.full(size, byte, np.uint8) for _ in range(32)]
        del kept


def outcome(run: Callable[..., Any], values: list[Any], byte: int) -> list[bytes]:
    """The bytes of every result of a run on dirty memory."""
    dirty(byte)
    result = run(*values)
    results = result if isinstance(result, tuple) else (result,)
    return [np.asarray(part).tobytes() for part in results]


@pytest.mark.parametrize("dtype", TYPES)
def test_it_runs_or_is_refused(dtype: str) -> None:
    if dtype in ("s1", "u1") and not hasattr(ml_dtypes, "int1"):
        pytest.skip("this ml_dtypes has no numbers of one bit")
    values = arguments(dtype)
    ran = 0
    for case in CASES:
        try:
            run = hlorun.compile(hlorun.parse(program(case, dtype)))
        except (hlorun.HloParseError, hlorun.HloVerifyError, hlorun.HloUnsupportedError):
            continue
        ran += 1
        assert outcome(run, values, 0xA5) == outcome(run, values, 0x5A), case
    assert (ran == 0) == (dtype in ("s1", "u1"))


def test_types_without_kernels_are_refused_wherever_they_stand() -> None:
    for text in (
        "ENTRY e {\n  ROOT x = u1[8] parameter(0)\n}\n",
        "ENTRY e {\n  x = (f32[], (s1[8], f32[])) parameter(0)\n  ROOT y = f32[] get-tuple-element(x), index=0\n}\n",
        "ENTRY e {\n  x = s1[2] iota(), iota_dimension=0\n  ROOT y = s32[2] convert(x)\n}\n",
    ):
        with pytest.raises(hlorun.HloUnsupportedError, match=r"x: arrays of [us]1 do not run"):
            hlorun.compile(hlorun.parse("HloModule m\n\n" + text))


SIMPLE: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "multiply": operator.mul,
    "maximum": np.maximum,
    "copy": lambda x, _: x,
    "reverse": lambda x, _: x[::-1],
    "transpose": lambda x, _: x.reshape(2, 4).T,
    "concatenate": lambda x, y: np.concatenate([x, y]),
    "slice": lambda x, _: x[1:7:2],
    "compare": lambda x, y: x <= y,
    "convert-f32": lambda x, _: x.astype(np.float32),
    "dynamic-slice": lambda x, _: x[2:5],
    "select": lambda x, y: np.where([1, 0, 1, 1, 0, 0, 1, 0], x, y),
    "iota": lambda x, _: np.arange(8).astype(np.float32).astype(x.dtype),
}


@pytest.mark.parametrize(
    "dtype", [t for t in TYPES if t not in ("pred", "s1", "u1", "s2", "u2", "c64", "c128")]
)
def test_simple_operations_are_those_of_numpy(dtype: str) -> None:
    values = arguments(dtype)
    for case, reference in SIMPLE.items():
        if case == "iota" and dtype in ("s4", "f4e2m1fn", "f8e8m0fnu"):
            continue  # The last indices are none of the type's values.
        try:
            run = hlorun.compile(hlorun.parse(program(case, dtype)))
        except hlorun.HloUnsupportedError:
            continue
        with np.errstate(all="ignore"):
            want = np.asarray(reference(*values))
        np.testing.assert_array_equal(
            np.asarray(run(*values)).astype(np.float64), want.astype(np.float64), err_msg=case
        )
