"""The same inputs give the same bits in every run: docs/determinism.md says whatever may differ between two."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hlorun
from hlorun._inputs import random_inputs
from streams import Stream

HERE = Path(__file__).resolve().parent
for folder in (HERE, HERE / "ops", HERE / "programs", HERE / "sweep"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

import cases  # noqa: E402
import store  # noqa: E402

import processors  # noqa: E402
import sweep  # noqa: E402

THREADS = (1, 2, 3, 7)


def leaves(result: object) -> list[bytes]:
    """Bytes of all arrays of a result."""
    if isinstance(result, (tuple, list)):
        return [data for part in result for data in leaves(part)]
    return [np.ascontiguousarray(np.asarray(result)).tobytes()]


COLLECTIVES = (
    "all-",
    "reduce-scatter",
    "collective-",
    "ragged-all",
    "send",
    "recv",
    "replica-id",
    "partition-id",
)


def moved(value: object, by: int) -> object:
    """The same array `by` bytes further from where arrays begin."""
    if isinstance(value, tuple):
        return tuple(moved(part, by) for part in value)
    x = np.asarray(value)
    room = np.zeros(x.nbytes + 128, np.uint8)
    start = -room.ctypes.data % 64 + by
    there: Any = np.ndarray(x.shape, x.dtype, room.data, start)
    np.copyto(there, x)
    return there


def differing(module: hlorun.HloModule, inputs: list[object]) -> str | None:
    """None when any number of threads, place of the inputs, memory and number of replicas give the same bits."""
    want = leaves(hlorun.compile(module, threads=1)(*inputs))

    def check(result: object, how: str) -> None:
        bad = [k for k, (x, y) in enumerate(zip(leaves(result), want, strict=True)) if x != y]
        if bad:
            raise AssertionError(f"{how}: results {bad[:8]} of {len(want)} differ")

    try:
        for threads in THREADS:
            executable = hlorun.compile(module, threads=threads)
            # The second run finds the memory of the first one. A component is aligned, and then not even that.
            for by in (0, 16, 13):
                here = [moved(x, by) for x in inputs]
                check(executable(*here), f"{threads} threads, inputs {by} bytes off")
        # Replicas that meet compute something else than one alone.
        meets = any(i.opcode.startswith(COLLECTIVES) for c in module.computations for i in c.instructions)
        if meets:
            return None
        for result in hlorun.compile(module, threads=3, replicas=2).run_replicas([inputs, inputs]):
            check(result, "2 replicas")
    except AssertionError as error:
        return str(error)
    return None


@pytest.mark.parametrize("number", ["001", "003"])
def test_dumps(modules: dict[str, hlorun.HloModule], number: str) -> None:
    module = modules[number]
    assert differing(module, list(random_inputs(module, 0))) is None


@pytest.mark.parametrize("suite", store.suites())
def test_programs(suite: str) -> None:
    failed = []
    for program in store.read(suite):
        why = differing(hlorun.parse(program.texts["lowered"]), list(program.inputs))
        if why:
            failed.append(f"{program.name}: {why}")
    assert not failed, "\n".join(failed)


ROWS = """HloModule rows
plus {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY main {
  p = f32[SHAPE] parameter(0)
  e = f32[SHAPE] exponential(p)
  z = f32[] constant(0)
  ROOT r = f32[KEPT] reduce(e, z), dimensions={DIMS}, to_apply=plus
}
"""


@pytest.mark.parametrize(
    ("shape", "dims"),
    [
        ((257, 333), (1,)),
        ((333, 257), (0,)),
        ((5, 40001), (1,)),
        ((40001, 5), (0,)),
        ((300007,), (0,)),
        ((7, 33, 999), (0, 2)),
        ((31, 9, 777), (1,)),
        ((3, 70001, 3), (0, 1, 2)),
    ],
)
def test_reductions(shape: tuple[int, ...], dims: tuple[int, ...]) -> None:
    """Rows that no number of threads divides, longer and shorter than a tile."""

    def csv(numbers: object) -> str:
        return ",".join(str(n) for n in numbers)  # type: ignore[attr-defined]

    kept = [n for k, n in enumerate(shape) if k not in dims]
    text = ROWS.replace("SHAPE", csv(shape)).replace("KEPT", csv(kept)).replace("DIMS", csv(dims))
    x = Stream("reductions").uniform(-3, 3, shape, np.float32)
    assert differing(hlorun.parse(text), [x]) is None


FOLD = """HloModule fold
HEAD
ENTRY main {
BODY
}
"""
PAIR = """both {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] parameter(2)
  d = f32[] parameter(3)
  s = f32[] add(a, c)
  q = f32[] add(b, d)
  ROOT t = (f32[], f32[]) tuple(s, q)
}"""
PLUS = """plus {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}"""
PICK = """larger {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=GE
}"""


@pytest.mark.parametrize("seed", range(24))
def test_reducers_of_several_operands(seed: int) -> None:
    """Any sizes: the order of the sums may depend on them alone, not on where a thread's share ends."""
    stream = Stream("several operands", seed)
    kept, row, outer = (int(stream.integers(*bounds)) for bounds in ((1, 2500), (1, 700), (1, 5)))
    dims, over = [((kept, row), "1"), ((outer, kept, row), "0,2"), ((row, kept), "0"), ((kept * row,), "0")][
        seed % 4
    ]
    shape = ",".join(map(str, dims))
    out = "f32[]" if len(dims) == 1 else f"f32[{kept}]"
    text = FOLD.replace("HEAD", PAIR).replace(
        "BODY",
        f"x = f32[{shape}] parameter(0)\ny = f32[{shape}] multiply(x, x)\nz = f32[] constant(0.1)\n"
        f"ROOT r = ({out}, {out}) reduce(x, y, z, z), dimensions={{{over}}}, to_apply=both",
    )
    assert differing(hlorun.parse(text), [stream.uniform(-3, 3, dims, np.float32)]) is None


# Modules that are worth several threads, of every kind of operation that combines numbers.
LARGE: dict[str, tuple[str, str, list[tuple[int, ...]]]] = {
    "dot": ("", "ROOT r = f32[201,307] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
            [(201, 613), (613, 307)]),
    "dot-few-rows": ("", "ROOT r = f32[3,2001] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
                     [(3, 515), (515, 2001)]),
    "dot-columns": ("", "ROOT r = f32[5,2001] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
                    [(5, 515), (2001, 515)]),
    "dot-vector": ("", "ROOT r = f32[3001] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
                   [(3001, 333), (333,)]),
    "dot-narrow": ("", "ROOT r = f32[29,21] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
                   [(29, 9001), (9001, 21)]),
    "dot-batch": ("", "ROOT r = f32[301,9,11] dot(p0, p1), lhs_batch_dims={0}, rhs_batch_dims={0}, "
                  "lhs_contracting_dims={2}, rhs_contracting_dims={1}", [(301, 9, 77), (301, 77, 11)]),
    "convolution": ("", "ROOT r = f32[2,37,41,24] convolution(p0, p1), window={size=3x3 pad=1_1x1_1}, "
                    "dim_labels=b01f_01io->b01f", [(2, 37, 41, 16), (3, 3, 16, 24)]),
    "reduce-window": (PLUS, "z = f32[] constant(0)\nROOT r = f32[91,401] reduce-window(p0, z), "
                      "window={size=7x3 stride=2x1 pad=0_0x1_1}, to_apply=plus", [(187, 401)]),
    "running-sum": (PLUS, "z = f32[] constant(0)\nROOT r = f32[41,4001] reduce-window(p0, z), "
                    "window={size=1x4001 pad=0_0x4000_0}, to_apply=plus", [(41, 4001)]),
    "select-and-scatter": (PICK + "\n" + PLUS, "z = f32[] constant(0)\nROOT r = f32[302,301] select-and-scatter("
                           "p0, p1, z), window={size=3x3 stride=2x2}, select=larger, scatter=plus",
                           [(302, 301), (150, 150)]),
    "scatter": (PLUS, "i = s32[9001,1] iota(), iota_dimension=0\nm = s32[] constant(37)\n"
                "mb = s32[9001,1] broadcast(m), dimensions={}\nk = s32[9001,1] remainder(i, mb)\n"
                "ROOT r = f32[37,21] scatter(p0, k, p1), update_window_dims={1}, inserted_window_dims={0}, "
                "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=plus", [(37, 21), (9001, 21)]),
    "fft": ("", "ROOT r = c64[301,129] fft(p0), fft_type=RFFT, fft_length={256}", [(301, 256)]),
    "fft of planes": ("", "z = f32[9,94,75] negate(p0)\nc = c64[9,94,75] complex(p0, z)\n"
                      "ROOT r = c64[9,94,75] fft(c), fft_type=IFFT, fft_length={94,75}", [(9, 94, 75)]),
    "fft of few lines": ("", "z = f32[900,47,6] negate(p0)\nc = c64[900,47,6] complex(p0, z)\n"
                         "ROOT r = c64[900,47,6] fft(c), fft_type=IFFT, fft_length={47,6}", [(900, 47, 6)]),
    "triangular-solve": ("", "e = f32[201,201] multiply(p0, p0)\ni = s32[201,201] iota(), iota_dimension=0\n"
                         "j = s32[201,201] iota(), iota_dimension=1\nd = pred[201,201] compare(i, j), direction=EQ\n"
                         "big = f32[] constant(900)\nbb = f32[201,201] broadcast(big), dimensions={}\n"
                         "a = f32[201,201] select(d, bb, e)\nROOT r = f32[201,99] triangular-solve(a, p1), "
                         "left_side=true, lower=true, unit_diagonal=false, transpose_a=NO_TRANSPOSE",
                         [(201, 201), (201, 99)]),
    "batch-norm": ("", "ROOT r = (f32[64,33,35], f32[33], f32[33]) batch-norm-training(p0, p1, p2), epsilon=0.001, "
                   "feature_index=1", [(64, 33, 35), (33,), (33,)]),
    "elementwise": ("", "a = f32[301,333] exponential(p0)\nb = f32[301,333] tanh(a)\nc = f32[301,333] power(a, b)\n"
                    "d = f32[301,333] divide(c, a)\nROOT r = f32[301,333] logistic(d)", [(301, 333)]),
    "softmax": (PLUS, "a = f32[601,333] exponential(p0)\nz = f32[] constant(0)\ns = f32[601] reduce(a, z), "
                "dimensions={1}, to_apply=plus\nsb = f32[601,333] broadcast(s), dimensions={0}\n"
                "ROOT r = f32[601,333] divide(a, sb)", [(601, 333)]),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
@pytest.mark.parametrize("name", LARGE)
def test_large_operations(name: str, dtype: str) -> None:
    if dtype == "bf16" and name.startswith(("fft", "triangular-solve")):
        pytest.skip("not of this type")
    head, body, shapes = LARGE[name]
    lines = "".join(f"p{k} = f32[{','.join(map(str, d))}] parameter({k})\n" for k, d in enumerate(shapes))
    text = FOLD.replace("HEAD", head).replace("BODY", lines + body).replace("f32[", f"{dtype}[")
    if dtype == "f64":
        text = text.replace("c64[", "c128[")
    inputs: list[object] = [
        Stream(name, k).uniform(-2, 2, d, cases.np_dtype(dtype)) for k, d in enumerate(shapes)
    ]
    assert differing(hlorun.parse(text), inputs) is None


@pytest.mark.parametrize("family", cases.family_names())
def test_every_operation(family: str) -> None:
    """Some of the cases of every opcode."""
    seen: dict[str, int] = {}
    failed = []
    for case in cases.family(family):
        seen[case.opcode] = seen.get(case.opcode, 0) + 1
        if seen[case.opcode] % 11 != 1:
            continue
        if family == "parallel" or any(x.dtype.itemsize == 0 for x in case.inputs):
            continue
        why = differing(hlorun.parse(case.text), list(case.inputs))
        if why:
            failed.append(f"{case.name}: {why}")
    assert not failed, "\n".join(failed)


def test_random_graphs() -> None:
    """With numbers whose sums round."""
    for seed in range(40):
        made: Any = sweep
        graph = made.make(seed)
        if not graph.nodes:
            continue
        inputs: list[object] = [
            Stream("graphs", seed, k).uniform(-3, 3, x.shape, x.dtype) if x.dtype.kind == "f" else x
            for k, x in enumerate(graph.inputs)
        ]
        why = differing(hlorun.parse(graph.module(graph.nodes)), inputs)
        assert why is None, f"seed {seed}: {why}"


MODES = {"upwards": 0x4000, "towards zero": 0x6000, "subnormals are zero": 0x8040}


class FloatMode:
    """Sets bits of the register with which this thread computes; glibc keeps it at the end of its environment."""

    def __init__(self, bits: int) -> None:
        self.bits, self.library = bits, ctypes.CDLL(None)

    def __enter__(self) -> None:
        self.before = (ctypes.c_uint32 * 8)()
        self.library.fegetenv(ctypes.byref(self.before))
        odd = (ctypes.c_uint32 * 8)(*self.before)
        odd[7] |= self.bits
        self.library.fesetenv(ctypes.byref(odd))

    def __exit__(self, *_: object) -> None:
        self.library.fesetenv(ctypes.byref(self.before))


@pytest.mark.skipif(
    platform.machine() != "x86_64" or platform.libc_ver()[0] != "glibc",
    reason="other registers, other libraries",
)
@pytest.mark.parametrize("mode", MODES)
def test_the_mode_of_the_callers_thread(mode: str) -> None:
    """Neither constants of the text, nor what is computed while compiling, nor the run depends on it."""
    text = """HloModule modes
ENTRY main {
  p = f32[65536] parameter(0)
  k = f32[2] constant({0.1, 1e-41})
  e = f32[2] exponential(k)
  third = f32[] constant(0.3333333)
  t = f32[65536] broadcast(third), dimensions={}
  m = f32[65536] multiply(p, t)
  x = f32[65536] exponential(m)
  tiny = f32[] constant(1e-38)
  b = f32[65536] broadcast(tiny), dimensions={}
  s = f32[65536] multiply(x, b)
  ROOT r = (f32[2], f32[2], f32[65536], f32[65536]) tuple(k, e, x, s)
}
"""
    x = Stream("modes").uniform(-8, 1, 65536, np.float32)
    want = leaves(hlorun.compile(hlorun.parse(text), threads=1)(x))
    for threads in (1, 2):
        with FloatMode(MODES[mode]):
            module = hlorun.parse(text)
            executable = hlorun.compile(module, threads=threads)
            result = executable(x)
            # A product of the caller's own shows that the mode is as it was.
            odd = np.float64(1) / np.float64(3) > 1 / 3 or np.float64(5e-324) * 1 == 0
        assert leaves(result) == want
        assert odd or mode == "towards zero"


@pytest.mark.skipif("avx512" not in processors.runnable("HLORUN_ISA"), reason="this CPU has no AVX-512")
def test_avx2_and_avx512() -> None:
    """Every large operation, and every case with sums, gives the same bits on both."""
    script = """if True:
        import hashlib, sys, test_determinism as t, hlorun
        sys.path.insert(0, str(t.HERE / "ops"))
        import cases, runner
        for name, (head, body, shapes) in t.LARGE.items():
            lines = "".join(f"p{k} = f32[{','.join(map(str, d))}] parameter({k})\\n" for k, d in enumerate(shapes))
            text = t.FOLD.replace("HEAD", head).replace("BODY", lines + body)
            inputs = [t.Stream(name, k).uniform(-2, 2, d, "f4") for k, d in enumerate(shapes)]
            bits = b"".join(t.leaves(hlorun.compile(hlorun.parse(text))(*inputs)))
            print(name, hashlib.sha256(bits).hexdigest())
        for family in ("contraction", "linear_algebra", "reduction"):
            for case in cases.family(family):
                bits = b"".join(x.tobytes() for x in runner.on_hlorun(case))
                print(case.name, hashlib.sha256(bits).hexdigest())
    """

    def run(tier: str) -> str:
        environment = {**os.environ, "HLORUN_ISA": tier, "PYTHONPATH": str(HERE)}
        return subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        ).stdout

    assert run("avx2").splitlines() == run("avx512").splitlines()
