"""Running out of memory is an error that names it, wherever memory is asked for."""

import os
import subprocess
import sys

import pytest

resource = pytest.importorskip("resource")

REDUCERS = """
add { a = f32[] parameter(0); b = f32[] parameter(1); ROOT c = f32[] add(a, b) }
less { a = f32[] parameter(0); b = f32[] parameter(1); ROOT c = pred[] compare(a, b), direction=LT }
"""

# Entry computations over one or two parameters; each needs some tens of megabytes beyond its arrays.
CASES = {
    "dot of low floats": "p = f16[1500,2000] parameter(0); q = f16[2000,1500] parameter(1); "
    "ROOT r = f32[1500,1500] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "dot of complex numbers": "p = c64[900,1100] parameter(0); q = c64[1100,900] parameter(1); "
    "ROOT r = c64[900,900] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "dot of integers": "p = s32[1200,1100] parameter(0); q = s32[1100,1200] parameter(1); "
    "ROOT r = s32[1200,1200] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "convolution": "p = f32[2,200,200,16] parameter(0); q = f32[5,5,16,32] parameter(1); "
    "ROOT r = f32[2,200,200,32] convolution(p, q), window={size=5x5 pad=2_2x2_2}, dim_labels=b01f_01io->b01f",
    "sort": "p = f32[3000000] parameter(0); ROOT r = f32[3000000] sort(p), dimensions={0}, to_apply=less",
    "fft": "p = c64[3000017] parameter(0); ROOT r = c64[3000017] fft(p), fft_type=FFT, fft_length={3000017}",
    "cholesky": "p = f32[1200,1200] parameter(0); ROOT r = f32[1200,1200] cholesky(p), lower=true",
    "triangular-solve": "p = f32[1000,1000] parameter(0); q = f32[1000,1000] parameter(1); "
    "ROOT r = f32[1000,1000] triangular-solve(p, q), left_side=true, lower=true, transpose_a=NO_TRANSPOSE",
    "reduce-window": "p = f32[1500,2000] parameter(0); z = f32[] constant(0); "
    "ROOT r = f32[1500,2000] reduce-window(p, z), window={size=301x301 pad=150_150x150_150}, to_apply=add",
    "scatter": "p = f32[3000000] parameter(0); i = s32[3000000,1] iota(), iota_dimension=0; "
    "ROOT r = f32[3000000] scatter(p, i, p), update_window_dims={}, inserted_window_dims={0}, "
    "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
    "rng": "a = f32[] constant(0); b = f32[] constant(1); "
    "ROOT r = f32[6000000] rng(a, b), distribution=rng_uniform",
    "batch norm": "p = f32[1000,3000] parameter(0); s = f32[3000] parameter(1); "
    "ROOT r = (f32[1000,3000], f32[3000], f32[3000]) "
    "batch-norm-training(p, s, s), epsilon=0.001, feature_index=1",
}

# Runs a small module so that all is loaded and started, then the case with more and more room. What
# comes out is a result, or an error that says what is missing.
PROBE = """
import re, resource, sys
import numpy as np
import hlorun

def ready(text):
    module = hlorun.parse(text)
    shapes = [p.shape for p in module.entry_computation.parameters]
    return hlorun.compile(module), [np.ones(s.dims, s.dtype) for s in shapes]

small, given = ready(sys.argv[1])
# A BLAS asks for memory of its own when two threads first call it at a time, and ends the process without it.
for _ in range(50):
    small(*given)
run, given = ready(sys.argv[2])
failures = 0
for room in (1, 4, 12, 24, 48, 96):
    used = int(re.search(r"VmSize:\\s*(\\d+)", open("/proc/self/status").read())[1]) << 10
    resource.setrlimit(resource.RLIMIT_AS, (used + (room << 20), resource.RLIM_INFINITY))
    try:
        run(*given)
    except hlorun.HloExecutionError as error:
        failures += 1
        if "out of memory" not in str(error):
            raise
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(failures)
"""

SMALL = """HloModule m
ENTRY e {
  p = c64[256,256] parameter(0)
  d = c64[256,256] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  a = c64[256,256] multiply(p, p)
  ROOT r = (c64[256,256], c64[256,256]) tuple(d, a)
}
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="reads Linux's /proc")
@pytest.mark.parametrize("case", CASES)
def test_a_run_without_room_is_an_error(case: str) -> None:
    text = (
        f"HloModule m\n{REDUCERS}\nENTRY e {{\n{CASES[case]}\n}}\n".replace("; ", "\n")
        .replace("{ a =", "{\na =")
        .replace(") }", ")\n}")
        .replace("LT }", "LT\n}")
    )
    done = subprocess.run(
        [sys.executable, "-c", PROBE, SMALL, text], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, f"{done.returncode}: {done.stderr[-2000:]}"
    assert int(done.stdout) > 0, "there was room for all"
