"""What makes hlorun a platform of JAX: `JAX_PLATFORMS=hlorun python script.py`.

In: JAX's discovery of plugins, which calls `initialize`. Out: a backend "hlorun", beside the CPU's and below
it in priority. Promise: a JAX that is not as expected is warned about and goes on without it.
"""

from __future__ import annotations

import os
import re
import warnings
from importlib import import_module
from typing import Any

PLATFORM = "hlorun"
"""The platform's name."""
DEVICES = "HLORUN_JAX_DEVICES"
"""The environment variable that says how many devices there are."""
_XLA_DEVICES = re.compile(r"--xla_force_host_platform_device_count[= ](\d+)")
"""How a program says to XLA's CPU how many devices there are; the last one counts."""
_PRIORITY = -100
"""Below the CPU's 0: JAX takes hlorun only where it is asked to."""


def _device_count() -> int:
    """How many devices the user wants.

    Raises:
        ValueError: The environment variable says no number.
    """
    given = os.environ.get(DEVICES, "")
    if given:
        try:
            return int(given)
        except ValueError:
            raise ValueError(f"{DEVICES} is a number of devices, not {given!r}") from None
    told = _XLA_DEVICES.findall(os.environ.get("XLA_FLAGS", ""))
    return max(int(import_module("jax").config.jax_num_cpu_devices), *map(int, told[-1:]), 1)


def _make_client() -> Any:
    """The backend, which JAX makes when it is first used."""
    from hlorun import _hlorun
    from hlorun._jax_plugin import kernels
    from hlorun._jax_plugin.compiling import stablehlo_versions

    xla_bridge: Any = import_module("jax._src.xla_bridge")
    jaxlib: Any = import_module("jax._src.lib")
    xla_client = jaxlib.xla_client
    if not xla_client.pjrt_plugin_loaded(PLATFORM):
        _hlorun._set_stablehlo_versions(*stablehlo_versions())
        kernels.register()
        api = xla_client.load_pjrt_plugin_dynamically(PLATFORM, _hlorun.__file__)
        jaxlib._profiler.register_plugin_profiler(api)
    return xla_bridge.make_pjrt_c_api_client(PLATFORM, options={"devices": _device_count()})


def _add_cpu() -> None:
    """Adds the CPU to the platforms that JAX makes, where hlorun is one of a list without it.

    JAX runs host callbacks outside of `jit` on a device of that platform.
    """
    jax: Any = import_module("jax")
    platforms = (jax.config.jax_platforms or "").split(",")
    if PLATFORM in platforms and "cpu" not in platforms:
        jax.config.update("jax_platforms", ",".join([*platforms, "cpu"]))


def initialize() -> None:
    """Tell JAX of the platform; JAX calls this when it looks for plugins.

    Nothing is loaded before JAX makes the backend. What does not fit the installed JAX is a warning.
    """
    try:
        from hlorun._jax_plugin import costs, exchange, lowering

        lowering.register()
        costs.register()
        exchange.register()
        xla_bridge: Any = import_module("jax._src.xla_bridge")
        xla_bridge.register_backend_factory(
            PLATFORM, _make_client, priority=_PRIORITY, fail_quietly=True, experimental=False
        )
        _add_cpu()
    except Exception as error:
        version = import_module("jax").__version__
        warnings.warn(
            f"hlorun is no platform of JAX {version}: {type(error).__name__}: {error}; "
            "hlorun[jax] knows JAX 0.10",
            stacklevel=2,
        )
