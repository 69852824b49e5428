"""How commands run several devices: here, or one or more in each process of an MPI job."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hlorun.cli.common import fail, plural

if TYPE_CHECKING:
    from types import TracebackType

    from hlorun import Executable, HloInstruction, HloModule
    from hlorun.mpi import Group


def devices_text(replicas: int, partitions: int) -> str:
    """`4 replicas`, `4 partitions`, `2 replicas of 4 partitions each`."""
    if partitions == 1:
        return plural(replicas, "replica")
    of = plural(partitions, "partition")
    return of if replicas == 1 else f"{plural(replicas, 'replica')} of {of} each"


class Devices:
    """The replicas and partitions that run, and which of them run in this process."""

    def __init__(self, replicas: int | None, partitions: int | None, *, mpi: bool = False) -> None:
        """Join the other processes, if there are any. What is not given is the module's."""
        self.group: Group | None = None
        if mpi:
            from hlorun.mpi import Group

            self.group = Group()
        self._asked = replicas, partitions
        self.replicas = self.partitions = 1
        self.local = range(1)

    def __enter__(self) -> Devices:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the whole job when this process cannot go on."""
        if error is None or self.group is None:
            return
        text = str(error) if isinstance(error, (Exception, KeyboardInterrupt)) else repr(error)
        fail(f"rank {self.group.rank} of {self.group.size}: {text or kind}")
        self.group.abort()

    @property
    def is_quiet(self) -> bool:
        """Whether another process prints the report."""
        return self.group is not None and self.group.rank > 0

    @property
    def count(self) -> int:
        """How many there are in all."""
        return self.replicas * self.partitions

    def __str__(self) -> str:
        """`4 replicas`, `2 replicas of 4 partitions each`."""
        return devices_text(self.replicas, self.partitions)

    def name(self, device: int) -> str:
        """What a device is called in names of arrays."""
        if self.partitions == 1:
            return f"replica_{device}"
        return f"replica_{device // self.partitions}_partition_{device % self.partitions}"

    def compile(
        self, module: HloModule, threads: int | None = None, constants: dict[str, Any] | None = None
    ) -> Executable:
        """Compile for all devices. Processes of one machine share its CPUs."""
        import hlorun

        replicas, partitions = self._asked
        if self.group is not None:
            if threads is None:
                has_affinity = hasattr(os, "sched_getaffinity")
                cpus = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
                threads = max(1, cpus // self.group.size)
            # A module for one device runs on one in each process.
            if replicas is None and module.replica_count * (partitions or module.num_partitions) == 1:
                replicas = self.group.size
        executable = hlorun.compile(
            module, replicas=replicas, partitions=partitions, threads=threads, constants=constants or None
        )
        self.replicas, self.partitions = executable.replicas, executable.partitions
        self.local = range(self.count) if self.group is None else self.group.devices(executable)
        return executable

    def run(
        self,
        executable: Executable,
        arguments: list[list[Any]],
        *,
        observer: Callable[[HloInstruction, Any, int], object] | None = None,
        timeout: float | None = None,
    ) -> list[Any]:
        """Results of the devices that run here."""
        if self.group is not None:
            return self.group.run(executable, arguments, timeout=timeout)
        if self.count > 1:
            return executable.run_replicas(arguments, observer=observer, timeout=timeout)
        if observer is None:
            return [executable(*arguments[0], timeout=timeout)]
        return [executable(*arguments[0], observer=lambda i, value: observer(i, value, 0), timeout=timeout)]

    def arguments(self, make: Callable[[int], list[Any]], *, differ: bool) -> list[list[Any]]:
        """Values of each device that runs here; the same objects where they do not differ."""
        if differ:
            return [make(device) for device in self.local]
        return [make(0)] * len(self.local)

    def write(self, out: Path, results: list[list[Any]]) -> Path:
        """Write the outputs of the devices that run here; returns the file's name."""
        import numpy as np

        if self.group is not None:
            out = out.with_suffix(f".rank{self.group.rank}{out.suffix}")
        names = ["" if self.count == 1 else f"{self.name(device)}_" for device in self.local]
        arrays = {
            f"{name}output_{number}": value
            for name, values in zip(names, results, strict=True)
            for number, value in enumerate(values)
        }
        # To a name, NumPy would append .npz.
        with out.open("wb") as file:
            np.savez(file, **arrays)
        return out


def require_memory(module: HloModule, executable: Executable, devices: Devices) -> None:
    """Refuse a run that needs more memory than is left, before the kernel ends it.

    Raises:
        HloExecutionError: With what is needed, what is left, and what takes the most.
    """
    from hlorun._memory_left import memory_left
    from hlorun.cli.common import bytes_text
    from hlorun.errors import HloExecutionError

    left = memory_left()
    kinds = {"arguments": "argument_bytes", "outputs": "output_bytes", "temporaries": "temp_bytes"}
    taken = {kind: int(executable.memory[key]) * len(devices.local) for kind, key in kinds.items()}
    needed = sum(taken.values())
    if left is None or needed <= left:
        return
    parts = ", ".join(f"{bytes_text(count)} of {kind}" for kind, count in taken.items())
    instructions = [i for i in module.instructions if i.shape.is_array and i.opcode != "constant"]
    largest = sorted(instructions, key=lambda i: i.shape.nbytes or 0, reverse=True)[:3]
    names = ", ".join(f"{i.name} {i.shape} with {bytes_text(i.shape.nbytes)}" for i in largest)
    on = f" on {devices}" if devices.count > 1 else ""
    raise HloExecutionError(
        f"running {module.name}{on} needs {bytes_text(needed)} and {bytes_text(left)} are left: {parts}; "
        f"the largest values are {names}; --force runs it all the same"
    )
