"""What a lowering for hlorun costs, of which JAX asks no plugin.

In: `jax.jit(f).lower(…).cost_analysis()`. Out: the costs of its module. Promise: lowerings for other
platforms are asked as before.
"""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Any

from hlorun._jax_plugin import PLATFORM


def register() -> None:
    """Puts the answer in front of JAX's.

    Raises:
        ImportError: JAX is not the one whose inner names these are.
        AttributeError: As above.
    """
    pxla: Any = import_module("jax._src.interpreters.pxla")
    costs = pxla.MeshComputation.cost_analysis

    @functools.wraps(costs)
    def cost_analysis(lowering: Any) -> Any:
        if lowering.compile_args["backend"].platform != PLATFORM:
            return costs(lowering)
        from hlorun import _hlorun

        module = lowering.hlo().as_serialized_hlo_module_proto()
        return _hlorun.parse(module).cost_analysis()

    pxla.MeshComputation.cost_analysis = cost_analysis
