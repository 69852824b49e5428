"""Runs every case on XLA:CPU with 8 host devices and stores what it gives.

python -m replicas.bless in tests/python, in an environment with jax.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import numpy as np

from replicas.collective_cases import CASES, Case

# Not in every environment, and untyped.
jax: Any = import_module("jax")
sharding: Any = import_module("jax.sharding")
xla_client: Any = import_module("jax._src.lib").xla_client
hlo: Any = import_module("jaxlib")._hlo

jax.config.update("jax_enable_x64", True)
GOLDEN = Path(__file__).parents[2] / "data" / "replicas" / "goldens.npz"


def run(case: Case) -> list[list[Any]]:
    """What XLA:CPU gives on each device."""
    module = hlo.hlo_module_from_text(case.text(oracle=True))
    computation = hlo.XlaComputation(module.as_serialized_hlo_module_proto())
    program = xla_client._xla.mlir.xla_computation_to_mlir_module(computation)
    devices = jax.devices("cpu")[: case.devices]
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = case.replicas, case.partitions
    options.executable_build_options.num_replicas = case.replicas
    options.executable_build_options.num_partitions = case.partitions
    options.executable_build_options.use_spmd_partitioning = case.partitions > 1
    grid = np.arange(case.devices).reshape(case.replicas, case.partitions)
    options.device_assignment = xla_client.DeviceAssignment.create(grid)
    executable = devices[0].client.compile_and_load(program, xla_client.DeviceList(tuple(devices)), options)
    mesh = sharding.Mesh(np.array(devices), ("d",))
    split = sharding.NamedSharding(mesh, sharding.PartitionSpec("d"))
    inputs = case.inputs()
    arguments = []
    for k, first in enumerate(inputs[0]):
        whole = (case.devices * first.shape[0], *first.shape[1:])
        local = [jax.device_put(inputs[d][k], device) for d, device in enumerate(devices)]
        arguments.append(jax.make_array_from_single_device_arrays(whole, split, local))
    results = executable.execute_sharded(arguments).disassemble_into_single_device_arrays()
    return [[np.asarray(result[d]) for result in results] for d in range(case.devices)]


def main() -> None:
    """Store the results of all cases."""
    stored: dict[str, Any] = {}
    for name, case in CASES.items():
        try:
            results = run(case)
        except Exception as error:
            print(f"{name}: {str(error)[:400]}", file=sys.stderr)
            continue
        for k in range(len(results[0])):
            # Bytes: NumPy's files know no bfloat16.
            rows = np.stack([np.ascontiguousarray(device[k]) for device in results])
            stored[f"{name}/{k}"] = (
                rows.view(np.uint8).reshape(rows.shape[0], -1)
                if rows.size
                else np.zeros((rows.shape[0], 0), np.uint8)
            )
    GOLDEN.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(GOLDEN, **stored)
    print(f"{len({key.split('/')[0] for key in stored})} of {len(CASES)} cases")


if __name__ == "__main__":
    main()
