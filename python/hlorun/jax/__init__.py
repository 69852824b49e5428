"""Functions of JAX, planned and run by hlorun instead of compiled by XLA.

    import hlorun.jax

    step = hlorun.jax.jit(step, donate_argnums=0)
    state = step(state, batch)

JAX traces and lowers as it does for `jax.jit`; the module it makes is planned in milliseconds and runs on the
CPU. Arrays come in and go out without copies. Needs `pip install hlorun[jax]`.
"""

from __future__ import annotations

from hlorun.jax._stages import Compiled, Lowered, compile
from hlorun.jax._transform import Jitted, jit

__all__ = ["Compiled", "Jitted", "Lowered", "compile", "jit"]
