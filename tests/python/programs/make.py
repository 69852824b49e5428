"""Make tests/data/programs again: `python tests/python/programs/make.py [SUITE…]`. Needs JAX.

For each program: the lowered HLO, the module XLA:CPU compiled from it, for some what JAX lowers for CUDA (which needs
no GPU), its inputs, and the outputs JAX computed on the CPU.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import jax
import numpy as np
import registry
import store
from jaxlib import _hlo


def tidy(text: str) -> str:
    """Source paths as they would be anywhere: relative to the repository, or to the packages."""
    text = text.replace(str(HERE.parents[2]) + "/", "")
    return re.sub(r'"[^"\n]*?/(?:site-packages|lib/python[\d.]+)/', '"', text)


def compiled_text(compiled: Any) -> str:
    """What `as_text` gives, with large constants in full where it would leave them out."""
    text = str(compiled.as_text())
    if "{...}" not in text:
        return text
    options = _hlo.HloPrintOptions()
    options.print_large_constants = True
    return str(compiled.runtime_executable().hlo_modules()[0].to_string(options))


def cuda_text(program: registry.Program, inputs: list[registry.Array]) -> str:
    """What JAX lowers for a GPU, with its random-bits kernel as a custom call: most dumps have it so."""
    before = jax.config.jax_threefry_gpu_kernel_lowering
    jax.config.update("jax_threefry_gpu_kernel_lowering", True)
    try:
        # A function of its own, or the trace made for the CPU would be used again.
        function = jax.jit(lambda *x: program.function(*x), keep_unused=True)
        lowered = function.trace(*inputs).lower(lowering_platforms=("cuda",))
        return str(lowered.as_text(dialect="hlo"))
    finally:
        jax.config.update("jax_threefry_gpu_kernel_lowering", before)


def make(program: registry.Program) -> store.Stored:
    """Lower, compile and run one program."""
    inputs = program.inputs()
    with jax.enable_x64(program.x64):
        function = jax.jit(program.function, keep_unused=True)
        lowered = function.lower(*inputs)
        texts = {"lowered": lowered.as_text(dialect="hlo")}
        compiled = lowered.compile()
        texts["compiled"] = compiled_text(compiled)
        if program.cuda:
            texts["cuda"] = cuda_text(program, inputs)
        outputs = [np.asarray(x) for x in jax.tree.leaves(compiled(*inputs))]
    texts = {form: tidy(text) for form, text in texts.items()}
    for form, text in texts.items():
        if "{...}" in text:
            raise ValueError(f"{program.name}: {form} text elides a constant")
    return store.Stored(program.name, texts, inputs, outputs, program.rel)


def main() -> int:
    """Make the suites named on the command line, or all."""
    wanted = sys.argv[1:] or registry.SUITES
    programs = registry.programs()
    failed = 0
    for suite in wanted:
        made = []
        for program in programs:
            if program.suite != suite:
                continue
            try:
                made.append(make(program))
            except Exception as error:  # noqa: BLE001 - the others are still made
                failed += 1
                print(
                    f"  {suite}/{program.name}: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
                )
        size = store.write(suite, made)
        forms = sum(len(p.texts) for p in made)
        print(f"{suite}: {len(made)} programs, {forms} texts, {size} bytes", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
