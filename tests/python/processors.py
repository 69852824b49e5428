"""What this CPU can pass for: instruction sets of the kernels, and cores of the matrix-product library.

`python tests/python/processors.py` prints `run HLORUN_ISA=avx2` for each that it can run, `skip HLORUN_ISA=avx512` for
each that it cannot, and `same HLORUN_ISA=avx512` for the one that the kernels choose by themselves.
"""

from __future__ import annotations

import os

AVX2 = ("AVX2", "FMA3", "F16C")
AVX512 = (*AVX2, "AVX512F", "AVX512BW", "AVX512DQ", "AVX512VL")
NEEDS: dict[str, dict[str, tuple[str, ...]]] = {
    "HLORUN_ISA": {"portable": (), "avx2": AVX2, "avx512": AVX512, "neon": ("ASIMD",)},
    # A library does not ask whether the CPU has what the core it was told to be needs.
    "OPENBLAS_CORETYPE": {"Sandybridge": ("AVX",), "Haswell": AVX2, "Zen": AVX2, "SkylakeX": AVX512},
}


def core() -> object:
    """NumPy's module of compiled parts, which knows the CPU."""
    try:
        from numpy._core import _multiarray_umath  # type: ignore[attr-defined]
    except ImportError:
        from numpy.core import _multiarray_umath
    return _multiarray_umath


def features() -> frozenset[str]:
    """What the CPU has, by NumPy's names."""
    return frozenset(name for name, has in core().__cpu_features__.items() if has)  # type: ignore[attr-defined]


def dispatched() -> list[str]:
    """Instruction sets that NumPy chooses among when it runs, and finds here."""
    return [name for name in core().__cpu_dispatch__ if name in features()]  # type: ignore[attr-defined]


def runnable(variable: str) -> list[str]:
    """The values of the variable that this CPU can run."""
    return [name for name, needs in NEEDS[variable].items() if features().issuperset(needs)]


def pose(variable: str, name: str) -> str:
    """What a run of the tests with the variable at this value would be: `run`, `skip` or `same`."""
    here = runnable(variable)
    if name not in here:
        return "skip"
    # Instruction sets are listed slowest first, and the kernels take the last unless they are told otherwise.
    is_own = variable == "HLORUN_ISA" and name == here[-1] and variable not in os.environ
    return "same" if is_own else "run"


if __name__ == "__main__":
    for variable, names in NEEDS.items():
        for name in names:
            print(pose(variable, name), f"{variable}={name}")
