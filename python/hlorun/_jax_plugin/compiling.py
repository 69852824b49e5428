"""From JAX's programs to plans; the plugin calls this when JAX compiles.

In: StableHLO as a portable artifact. Out: an `Executable`, and what belongs to it.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from hlorun import _hlorun
from hlorun._hlorun import Executable, HloModule
from hlorun._jax_plugin.lowering import FUNCTIONS
from hlorun.errors import HloUnsupportedError

READER = "HLORUN_STABLEHLO"
"""Names the environment variable that chooses who makes HLO of StableHLO."""

_NOTHING = "module @nothing { func.func public @main() { return } }"
"""A program that does nothing."""


def stablehlo_versions() -> tuple[list[int], list[int]]:
    """The newest and the oldest version of StableHLO that jaxlib can read."""
    hlo: Any = import_module("jax._src.lib.mlir.dialects").hlo
    newest, oldest = hlo.get_current_version(), hlo.get_minimum_version()
    return [int(part) for part in newest.split(".")], [int(part) for part in oldest.split(".")]


def _hlo_of(artifact: bytes) -> bytes:
    """The serialized HLO module of a StableHLO artifact."""
    computation = import_module("jax._src.lib")._jax.mlir.mlir_module_to_xla_computation(artifact)
    return bytes(computation.as_serialized_hlo_module_proto())


def _module_of(artifact: bytes) -> HloModule:
    """The module of a StableHLO artifact: jaxlib converts what hlorun's own reader does not know."""
    if os.environ.get(READER) != "jaxlib":
        read = _hlorun._read_stablehlo(artifact)
        if isinstance(read, HloModule):
            return read
        if os.environ.get(READER) == "hlorun":
            raise HloUnsupportedError(f"hlorun's reader of StableHLO leaves the program to jaxlib: {read}")
    return _hlorun.parse(_hlo_of(artifact))


def _xla_client() -> Any:
    """The module of XLA's classes in jaxlib."""
    return import_module("jax._src.lib").xla_client


@functools.cache
def _partitioner(devices: int) -> Any:
    """XLA's compiler for so many devices of this CPU, which run nothing."""
    return _xla_client().make_cpu_client(num_devices=devices)


def _compiled_by_xla(artifact: bytes | str, replicas: int, partitions: int, chosen: Any) -> Any:
    """The program as XLA compiles it for so many devices of this CPU."""
    import numpy as np

    xla_client = _xla_client()
    client = _partitioner(replicas * partitions)
    build = chosen.executable_build_options
    numbers = np.arange(replicas * partitions).reshape(replicas, partitions)
    build.device_assignment = xla_client.DeviceAssignment.create(numbers)
    # The module is what is wanted, and no code.
    build.debug_options.xla_backend_optimization_level = 0
    build.debug_options.xla_llvm_disable_expensive_passes = True
    devices = xla_client.DeviceList(tuple(client.devices()))
    return client.compile_and_load(artifact, devices, chosen)


def _partitioned(artifact: bytes, replicas: int, partitions: int, options: bytes) -> bytes:
    """The serialized HLO module of one partition: XLA's passes divide the program."""
    chosen = _xla_client().CompileOptions.ParseFromString(options)
    (module,) = _compiled_by_xla(artifact, replicas, partitions, chosen).hlo_modules()
    return bytes(module.as_serialized_hlo_module_proto())


def _check_options(options: bytes, replicas: int) -> None:
    """Lets XLA look at the `compiler_options` of a program that is not partitioned, where they mean nothing.

    Raises:
        jax.errors.JaxRuntimeError: XLA has no such option, or an option no such value.
    """
    chosen = _xla_client().CompileOptions.ParseFromString(options)
    if chosen.env_option_overrides:
        _compiled_by_xla(_NOTHING, replicas, 1, chosen)


Planned = tuple[Executable, Mapping[int, Any] | None]
"""An executable, and the functions of its host callbacks."""


def compile_program(form: str, code: bytes, replicas: int, partitions: int, options: bytes) -> Planned:
    """Plan a program.

    Args:
        form: What `code` is: "mlir", a StableHLO artifact as JAX compiles it, or "hlo", the serialized HLO
            module of one partition.
        code: The program.
        replicas: Replicas that run together.
        partitions: Partitions of each.
        options: JAX's serialized compile options.

    Returns:
        What is planned.

    Raises:
        HloError: The program does not run here.
        jax.errors.JaxRuntimeError: XLA cannot read the program, or does not know its options.
    """
    from hlorun.jax._lapack import follow_jax

    if form == "mlir" and partitions == 1:
        _check_options(options, replicas)
        module = _module_of(code)
    elif form == "mlir":
        module = _hlorun.parse(_partitioned(code, replicas, partitions, options))
    elif form == "hlo":
        module = _hlorun.parse(code)
    else:
        raise HloUnsupportedError(f"a program in the form {form!r}; JAX's are in the form 'mlir'")
    follow_jax()
    executable = _hlorun.compile(module, replicas=replicas, partitions=partitions)
    return executable, _attach_functions(executable.module)


def _attach_functions(module: HloModule) -> Mapping[int, Any] | None:
    """Gives the module's host callbacks their functions."""
    from hlorun.jax._callbacks import attach, numbered_calls

    numbers = [number for number, _ in numbered_calls(module)]
    functions = {number: FUNCTIONS[number] for number in numbers if number in FUNCTIONS}
    attach(module, functions)
    return functions or None
