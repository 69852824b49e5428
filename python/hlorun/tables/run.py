"""A run of one module among many: with random inputs, on one device, within limits."""

from __future__ import annotations

import os
from time import perf_counter
from typing import Any

from hlorun._hlorun import HloModule, compile
from hlorun._inputs import make_inputs
from hlorun._statistics import leaves, statistics
from hlorun.tables.parts import Options


def run_once(module: HloModule, options: Options, share: int) -> dict[str, Any]:
    """Compile a module for one device and run it once.

    Args:
        module: The module.
        options: `seed` of the inputs, `timeout` of the run, and whether to `check` the plan.
        share: How many runs share the memory of this machine.

    Returns:
        "compile_seconds", "run_seconds", and how many "output_nan" and "output_inf" there are.

    Raises:
        HloError: The module does not compile or run.
        MemoryError: It needs more than its share of the memory.
    """
    start = perf_counter()
    executable = compile(
        module,
        replicas=1,
        partitions=1,
        threads=max(1, (os.cpu_count() or 1) // share),
        check=options.check or None,
    )
    compiled = perf_counter() - start
    needed = sum(executable.memory.values())
    # Half, since inputs are made of numbers of other types, and statistics need copies.
    limit = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (2 * share)
    if needed > limit:
        raise MemoryError(f"a run needs {needed:,} bytes, more than the {limit:,} that it may have")
    arguments = make_inputs(module, options.seed)
    start = perf_counter()
    result = executable(*arguments, timeout=options.timeout)
    seconds = perf_counter() - start
    counts = [statistics(array) for array in leaves(result) if array is not None]
    return {
        "compile_seconds": compiled,
        "run_seconds": seconds,
        "output_nan": sum(found["nan"] for found in counts),
        "output_inf": sum(found["inf"] for found in counts),
    }
