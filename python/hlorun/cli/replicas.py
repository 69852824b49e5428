"""How `hlorun run` runs several replicas: here, or one or more in each process of an MPI job."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hlorun.cli.common import fail

if TYPE_CHECKING:
    from types import TracebackType

    from hlorun import Executable, HloModule
    from hlorun.mpi import Group


class Devices:
    """The replicas that run, and which of them run in this process."""

    def __init__(self, replicas: int | None, *, mpi: bool) -> None:
        """Join the other processes, if there are any."""
        self.group: Group | None = None
        if mpi:
            from hlorun.mpi import Group

            self.group = Group()
        self.replicas = replicas or (self.group.size if self.group else 1)
        self.local = range(self.replicas)

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

    def compile(self, module: HloModule, threads: int | None) -> Executable:
        """Compile for all replicas. Processes of one machine share its CPUs."""
        import hlorun

        if self.group is not None and threads is None:
            cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
            threads = max(1, cpus // self.group.size)
        executable = hlorun.compile(module, replicas=self.replicas, threads=threads)
        if self.group is not None:
            self.local = self.group.devices(executable)
        return executable

    def run(self, executable: Executable, arguments: list[list[Any]]) -> list[Any]:
        """Results of the replicas that run here."""
        if self.group is not None:
            return self.group.run(executable, arguments)
        if self.replicas == 1:
            return [executable(*arguments[0])]
        return executable.run_replicas(arguments)

    def arguments(self, make: Callable[[int], list[Any]], *, differ: bool) -> list[list[Any]]:
        """Values of each replica that runs here; the same objects where they do not differ."""
        if differ:
            return [make(replica) for replica in self.local]
        return [make(0)] * len(self.local)

    def write(self, out: Path, results: list[list[Any]]) -> Path:
        """Write the outputs of the replicas that run here; returns the file's name."""
        import numpy as np

        if self.group is not None:
            out = out.with_suffix(f".rank{self.group.rank}{out.suffix}")
        names = ["" if self.replicas == 1 else f"replica_{replica}_" for replica in self.local]
        np.savez(
            out,
            **{
                f"{name}output_{number}": value
                for name, values in zip(names, results, strict=True)
                for number, value in enumerate(values)
            },
        )
        return out
