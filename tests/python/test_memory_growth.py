"""Memory after the second run of an executable stays what it is, whatever the operations."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

N = 300
COUNT = 1 << 18

CALLED = """
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
most { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b) }
more { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=GT }
less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT }
again { s = (s32[], f32[262144]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT }
turn { s = (s32[], f32[262144]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = f32[262144] get-tuple-element(s), index=1
  y = f32[262144] sort(x), dimensions={0}, to_apply=less
  ROOT t = (s32[], f32[262144]) tuple(j, y) }
"""

VECTOR = f"x = f32[{COUNT}] parameter(0)"
MATRIX = f"x = f32[{N},{N}] parameter(0)"
WINDOW = "size=1x3x3x1 stride=1x2x2x1"
IMAGE = "x = f32[4,64,64,16] parameter(0)"
INTEGERS = f"{VECTOR}\ni = s32[{COUNT},1] iota(), iota_dimension=0"


def call(target: str, result: str, config: str = "") -> str:
    """A matrix that is not singular, and a call on it."""
    options = f", backend_config={config}" if config else ""
    return (
        f"{MATRIX}\na = s32[{N},{N}] iota(), iota_dimension=0\nb = s32[{N},{N}] iota(), iota_dimension=1\n"
        f"e = pred[{N},{N}] compare(a, b), direction=EQ\nc = f32[] constant(1000)\n"
        f"d = f32[{N},{N}] broadcast(c), dimensions={{}}\nz = f32[{N},{N}] select(e, d, x)\n"
        f'ROOT r = {result} custom-call(z), custom_call_target="{target}", '
        f"api_version=API_VERSION_TYPED_FFI{options}"
    )


M = f"f32[{N},{N}]{{0,1}}"
V = f"f32[{N}]"
FAMILIES = {
    "elementwise": f"{VECTOR}\nt = f32[{COUNT}] tanh(x)\nROOT r = f32[{COUNT}] power(t, x)",
    "convert": f"{VECTOR}\nh = f16[{COUNT}] convert(x)\nROOT r = s8[{COUNT}] convert(h)",
    "bitcast-convert": f"{VECTOR}\nROOT r = u8[{COUNT},4] bitcast-convert(x)",
    "reduce": f"{MATRIX}\nc = f32[] constant(0)\nROOT r = f32[{N}] reduce(x, c), dimensions={{0}}, to_apply=add",
    "dot": f"{MATRIX}\nROOT r = f32[{N},{N}] dot(x, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
    "half dot": (
        f"{MATRIX}\nh = bf16[{N},{N}] convert(x)\n"
        f"ROOT r = bf16[{N},{N}] dot(h, h), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}"
    ),
    "convolution": (
        f"{IMAGE}\nc = f32[] constant(1)\nk = f32[3,3,16,16] broadcast(c), dimensions={{}}\n"
        "ROOT r = f32[4,64,64,16] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"
    ),
    "reduce-window": (
        f"{IMAGE}\nc = f32[] constant(0)\n"
        f"ROOT r = f32[4,31,31,16] reduce-window(x, c), window={{{WINDOW}}}, to_apply=most"
    ),
    "select-and-scatter": (
        f"{IMAGE}\nc = f32[] constant(0)\ny = f32[4,31,31,16] reduce-window(x, c), window={{{WINDOW}}}, to_apply=most\n"
        f"ROOT r = f32[4,64,64,16] select-and-scatter(x, y, c), window={{{WINDOW}}}, select=more, scatter=add"
    ),
    "sums": f"{VECTOR}\nc = f32[] constant(0)\nROOT r = f32[{COUNT}] reduce-window(x, c), window={{size={COUNT} pad={COUNT - 1}_0}}, to_apply=add",
    "gather": (
        f"{INTEGERS}\nROOT r = f32[{COUNT}] gather(x, i), offset_dims={{}}, collapsed_slice_dims={{0}}, "
        "start_index_map={0}, index_vector_dim=1, slice_sizes={1}"
    ),
    "scatter": (
        f"{INTEGERS}\nROOT r = f32[{COUNT}] scatter(x, i, x), update_window_dims={{}}, inserted_window_dims={{0}}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"
    ),
    "sort": f"{VECTOR}\nROOT r = f32[{COUNT}] sort(x), dimensions={{0}}, to_apply=less",
    "topk": f'{VECTOR}\nROOT r = (f32[{COUNT // 2}], s32[{COUNT // 2}]) custom-call(x), custom_call_target="TopK", called_computations={{more}}',
    "fft": f"{VECTOR}\nROOT r = c64[{COUNT // 2 + 1}] fft(x), fft_type=RFFT, fft_length={{{COUNT}}}",
    "odd fft": "x = f32[99991] parameter(0)\nc = c64[99991] complex(x, x)\nROOT r = c64[99991] fft(c), fft_type=FFT, fft_length={99991}",
    "movement": (
        f"{MATRIX}\nt = f32[{N},{N}] transpose(x), dimensions={{1,0}}\n"
        f"v = f32[{N},{N}] reverse(t), dimensions={{0}}\nROOT r = f32[{2 * N},{N}] concatenate(v, x), dimensions={{0}}"
    ),
    "random": f"s = u64[2] parameter(0)\nROOT r = (u64[2], u32[{COUNT}]) rng-bit-generator(s), algorithm=rng_three_fry",
    "batch-norm": (
        f"{IMAGE}\nc = f32[] constant(1)\ns = f32[16] broadcast(c), dimensions={{}}\n"
        "ROOT r = (f32[4,64,64,16], f32[16], f32[16]) batch-norm-training(x, s, s), epsilon=0.001, feature_index=3"
    ),
    "while": (
        f"{VECTOR}\nz = s32[] constant(0)\nt = (s32[], f32[{COUNT}]) tuple(z, x)\n"
        f"ROOT w = (s32[], f32[{COUNT}]) while(t), condition=again, body=turn"
    ),
    "cholesky": f"{MATRIX}\nROOT r = f32[{N},{N}] cholesky(x), lower=true",
    "triangular-solve": (
        f"{MATRIX}\nROOT r = f32[{N},{N}] triangular-solve(x, x), left_side=true, lower=true, "
        "unit_diagonal=true, transpose_a=NO_TRANSPOSE"
    ),
    "getrf": call("lapack_sgetrf_ffi", f"({M}, s32[{N}], s32[])"),
    "geqrf": call("lapack_sgeqrf_ffi", f"({M}, {V})"),
    "syevd": call("lapack_ssyevd_ffi", f"({M}, {V}, s32[])", "{mode = 86 : ui8, uplo = 76 : ui8}"),
    "gesdd": call("lapack_sgesdd_ffi", f"({M}, {V}, {M}, {M}, s32[])", "{mode = 65 : ui8}"),
}

TOGETHER = {
    "all-reduce": f"{VECTOR}\nROOT r = f32[{COUNT}] all-reduce(x), replica_groups={{}}, to_apply=add",
    "all-gather": f"{VECTOR}\nROOT r = f32[{2 * COUNT}] all-gather(x), dimensions={{0}}, replica_groups={{}}",
    "exchange": f"{VECTOR}\nROOT r = f32[{COUNT}] collective-permute(x), source_target_pairs={{{{0,1}},{{1,0}}}}",
}


def measure(name: str) -> tuple[int, int]:
    """Bytes of this process after a few runs, and after many more."""
    import numpy as np

    import hlorun

    replicas = 2 if name in TOGETHER else 1
    body = {**FAMILIES, **TOGETHER}[name]
    module = hlorun.parse(f"HloModule m\n{CALLED}\nENTRY e {{\n{body}\n}}")
    executable = hlorun.compile(module, replicas=replicas)
    entry = module.entry_computation
    assert entry is not None

    def value(shape: Any) -> Any:
        count = int(np.prod(shape.dims, dtype=np.int64))
        return (np.arange(count) * 7919 % 1009 / 1024).reshape(shape.dims).astype(shape.dtype)

    values = [value(p.shape) for p in entry.parameters]

    def size_after(runs: int) -> int:
        for _ in range(runs):
            executable.run_replicas([values] * replicas)
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    size_after(2)
    return size_after(3), size_after(50)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="measures through /proc")
@pytest.mark.parametrize("name", [*FAMILIES, *TOGETHER])
def test_runs_keep_nothing(name: str) -> None:
    """One block of 256 KB per run would be 12 MB."""
    done = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    before, after = map(int, done.stdout.split())
    assert after - before < 6_000_000, f"{before:,} bytes became {after:,}"


if __name__ == "__main__":
    print(*measure(sys.argv[1]))
