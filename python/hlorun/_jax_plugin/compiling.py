"""From JAX's programs to plans; the plugin calls this when JAX compiles.

In: StableHLO as a portable artifact. Out: an `Executable`, and what has to live as long as it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hlorun import _hlorun
from hlorun._hlorun import Executable, HloModule
from hlorun._jax_plugin.lowering import FUNCTIONS
from hlorun.errors import HloUnsupportedError


def stablehlo_versions() -> tuple[list[int], list[int]]:
    """The newest and the oldest version of StableHLO that jaxlib can read."""
    from jax._src.lib.mlir.dialects import hlo

    newest, oldest = hlo.get_current_version(), hlo.get_minimum_version()
    return [int(part) for part in newest.split(".")], [int(part) for part in oldest.split(".")]


def _hlo_of(artifact: bytes) -> bytes:
    """The serialized HLO module of a StableHLO artifact."""
    from jax._src.lib import _jax

    computation = _jax.mlir.mlir_module_to_xla_computation(artifact)
    return bytes(computation.as_serialized_hlo_module_proto())


def compile_program(
    form: str, code: bytes, replicas: int, partitions: int
) -> tuple[Executable, Mapping[int, Any] | None]:
    """Plan a program of JAX.

    Args:
        form: What `code` is: "mlir", a StableHLO artifact.
        code: The program.
        replicas: Replicas that run together.
        partitions: Partitions of each.

    Returns:
        The executable, and the functions of its host callbacks, None where it has none.

    Raises:
        HloError: The program does not run here.
    """
    if form != "mlir":
        raise HloUnsupportedError(f"a program in the form {form!r}; JAX's are in the form 'mlir'")
    return load_program("hlo", _hlo_of(code), replicas, partitions)


def load_program(
    form: str, code: bytes, replicas: int, partitions: int
) -> tuple[Executable, Mapping[int, Any] | None]:
    """Plan an HLO module.

    Args:
        form: Always "hlo".
        code: The serialized module.
        replicas: Replicas that run together.
        partitions: Partitions of each.

    Returns:
        As `compile_program` does.

    Raises:
        HloError: The module does not run here.
    """
    module = _hlorun.parse(code)
    executable = _hlorun.compile(module, replicas=replicas, partitions=partitions)
    return executable, _attach_functions(executable.module)


def _attach_functions(module: HloModule) -> Mapping[int, Any] | None:
    """Gives the module's host callbacks their functions."""
    from hlorun.jax._callbacks import attach, numbered_calls

    numbers = [number for number, _ in numbered_calls(module)]
    functions = {number: FUNCTIONS[number] for number in numbers if number in FUNCTIONS}
    attach(module, functions)
    return functions or None
