"""All that is asked of JAX below its documented interface, in one place.

In: the installed JAX. Out: the names the rest of the package uses. Promise: where JAX is missing, or does not
have them, importing raises an `ImportError` that says what to install.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_KNOWN = "0.10"
"""The JAX whose inner names these are."""

try:
    jax: Any = import_module("jax")
except ImportError as error:
    raise ImportError(f"hlorun.jax needs JAX {_KNOWN}: pip install 'jax=={_KNOWN}.*'") from error

try:
    _core: Any = import_module("jax._src.core")
    _config: Any = import_module("jax._src.config")
    _jaxlib: Any = import_module("jax._src.lib")

    ArrayImpl: Any = import_module("jax._src.array").ArrayImpl
    KeyArray: Any = import_module("jax._src.random.prng").PRNGKeyArray
    ShapedArray: Any = jax.core.ShapedArray
    Tracer: Any = jax.core.Tracer
    batched_device_put: Any = _jaxlib._jax.batched_device_put
    default_device: Any = _config.default_device
    disable_jit: Any = _config.disable_jit
    flatten: Any = jax.tree_util.default_registry.flatten
    eval_trace: Any = _core.eval_trace
    current_trace: Any = _core.trace_state_strong_ref
    trace_context: Any = _config.trace_context
except (ImportError, AttributeError) as error:
    raise ImportError(
        f"hlorun.jax does not know the inside of JAX {jax.__version__} ({error}): "
        f"pip install 'jax=={_KNOWN}.*'"
    ) from error


class Facts:
    """What a lowering of JAX says beside its module.

    Attributes:
        avals: Shapes and types of the results.
        callbacks: The functions that custom calls name by their number.
        constants: Arrays that the module takes before the arguments.
        devices: The devices it is for.
        is_committed: Whether an argument ties it to its device.
        kept: The numbers of the arguments the module takes, in order.
        has_references: Whether arguments or closures are mutable references.
        tokens: How many tokens come first among parameters and results.
    """

    def __init__(self, lowered: Any) -> None:
        lowering = lowered._lowering
        given = lowering.compile_args
        self.avals: list[Any] = list(given["global_out_avals"])
        self.callbacks: list[Any] = list(given["host_callbacks"])
        self.constants: list[Any] = list(lowering.const_args)
        self.devices: list[Any] = list(lowering._device_list)
        self.is_committed: bool = given["committed"]
        # The numbers count the constants, too.
        first = len(self.constants)
        self.kept: list[int] = [k - first for k in sorted(given["kept_var_idx"]) if k >= first]
        self.has_references: bool = given["mut"] is not None
        self.tokens: int = len(given["ordered_effects"])
