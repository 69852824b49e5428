"""The BLAS library: what a process shares with others stays as it was."""

import glob
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

# Prints, before and after a large product and a factorization, the process's environment as C sees
# it and the number of threads of every OpenBLAS that is loaded, by path.
PROBE = """
import ctypes, json, re, sys
import numpy as np
np.ones((300, 300)) @ np.ones((300, 300))

def environment():
    block = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
    found, at = [], 0
    while block[at] is not None:
        found.append(block[at].decode(errors="replace"))
        at += 1
    return sorted(found)

def threads():
    found = {}
    for path in set(re.findall(r"/\\S*blas\\S*", open("/proc/self/maps").read())):
        library = ctypes.CDLL(path)
        for name in ("openblas", "scipy_openblas"):
            for suffix in ("", "64_"):
                if hasattr(library, f"{name}_get_num_threads{suffix}"):
                    found[path] = getattr(library, f"{name}_get_num_threads{suffix}")()
    return found

before = environment(), threads()
import hlorun
text = '''
HloModule m
ENTRY e {
  a = c64[200,200] parameter(0)
  b = f64[60,60] parameter(1)
  d = c64[200,200] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f64[60,60] cholesky(b), lower=true
  ROOT r = (c64[200,200], f64[60,60]) tuple(d, c)
}
'''
run = hlorun.compile(hlorun.parse(text))
a = np.full((200, 200), 1 + 1j, np.complex64)
product, factor = run(a, np.eye(60))
assert (product == 400j).all() and (factor == np.eye(60)).all()
json.dump([before, (environment(), threads())], sys.stdout)
"""


def probe(**variables: str) -> Any:
    import json

    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        check=True,
    )
    before, after = json.loads(done.stdout)
    return before, after


pytestmark = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="reads Linux's /proc")


def test_neither_the_environment_nor_other_libraries_change() -> None:
    (environment, threads), (environment_after, threads_after) = probe()
    assert environment_after == environment
    assert {path: threads_after[path] for path in threads} == threads


def test_a_library_shared_with_numpy_keeps_its_threads() -> None:
    folder = Path(np.__file__).parent.parent / "numpy.libs"
    libraries = glob.glob(str(folder / "libscipy_openblas*"))
    if not libraries:
        pytest.skip("this NumPy brings no OpenBLAS")
    (_, threads), (_, threads_after) = probe(HLORUN_BLAS=libraries[0])
    assert list(threads) == libraries
    assert threads_after == threads
