"""Replicas across processes and machines, over MPI.

    mpirun -n 8 python train.py

    import hlorun, hlorun.mpi

    executable = hlorun.compile(module, replicas=8)
    group = hlorun.mpi.Group()
    results = group.run(executable, [inputs_of(d) for d in group.devices(executable)])

Every process runs an equal share of the devices and calls `run` the same number of times. Needs
`pip install hlorun[mpi]` and an MPI library with its `mpirun`.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Sequence
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from hlorun._hlorun import Executable, _Network
from hlorun.errors import HloArgumentError, HloExecutionError, HloUnsupportedError

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["Group"]

TAG = 4711
"""All messages have one tag, so that MPI keeps them in order."""
SILENCE = 60.0
"""Seconds after which a process that says nothing counts as dead; `HLORUN_MPI_TIMEOUT` overrides it."""
PAUSE = (20e-6, 1e-3)
"""Seconds between two looks for a message, at first and at most."""


class _Transport:
    """Messages between the processes of a communicator. One lock guards all calls of MPI."""

    def __init__(self, comm: MPI.Comm) -> None:
        from mpi4py import MPI

        self._mpi = MPI
        self._comm = comm
        self._lock = threading.Lock()
        self._sends: deque[tuple[Any, bytes]] = deque()
        self.rank: int = comm.Get_rank()
        self.size: int = comm.Get_size()

    def send(self, rank: int, message: bytes) -> None:
        """Begin to send; the message is kept until MPI has it."""
        with self._lock:
            try:
                request = self._comm.Isend([message, self._mpi.BYTE], dest=rank, tag=TAG)
            except self._mpi.Exception as error:
                raise HloExecutionError(f"rank {self.rank} cannot send to rank {rank}: {error}") from None
            self._sends.append((request, message))
            self._forget()

    def _forget(self) -> None:
        # In order: a later message may be through first, which keeps it a little longer.
        while self._sends and self._sends[0][0].Test():
            self._sends.popleft()

    def receive(self, patience: float) -> tuple[int, bytes] | None:
        """The next message, or None when there is none for `patience` seconds."""
        deadline = monotonic() + patience
        pause = PAUSE[0]
        status = self._mpi.Status()
        while True:
            with self._lock:
                try:
                    message = self._comm.Improbe(self._mpi.ANY_SOURCE, TAG, status)
                    if message is not None:
                        buffer = bytearray(status.Get_count(self._mpi.BYTE))
                        request = message.Irecv([buffer, self._mpi.BYTE])
                        break
                    self._forget()
                except self._mpi.Exception as error:
                    raise HloExecutionError(f"rank {self.rank} cannot receive: {error}") from None
            if monotonic() >= deadline:
                return None
            sleep(pause)
            pause = min(2 * pause, PAUSE[1])
        # The data may need this process's help to come; senders must not wait for it.
        while True:
            with self._lock:
                try:
                    if request.Test():
                        return status.Get_source(), bytes(buffer)
                except self._mpi.Exception as error:
                    rank = status.Get_source()
                    raise HloExecutionError(
                        f"rank {rank} stopped in the middle of a message: {error}"
                    ) from None
            sleep(PAUSE[0])

    def flush(self, patience: float) -> None:
        """Wait until all messages have left."""
        deadline = monotonic() + patience
        while monotonic() < deadline:
            with self._lock:
                self._forget()
                if not self._sends:
                    return
            sleep(PAUSE[0])


class Group:
    """The processes that run the devices of an executable together.

    Args:
        comm: The processes, a communicator of mpi4py; all that were started together by default.
        timeout: Seconds after which a process that says nothing counts as dead; by default those of
            HLORUN_MPI_TIMEOUT, or else 60.

    Raises:
        HloUnsupportedError: There is no mpi4py, or no MPI library.

    Examples:
        >>> group = hlorun.mpi.Group()
        >>> group.rank, group.size
        (0, 8)
    """

    def __init__(self, comm: MPI.Comm | None = None, *, timeout: float | None = None) -> None:
        """Join the others."""
        try:
            from mpi4py import MPI
        except ImportError as error:
            raise HloUnsupportedError(
                f"replicas across processes need MPI: pip install 'hlorun[mpi]' ({error})"
            ) from None
        except RuntimeError as error:
            raise HloUnsupportedError(f"the MPI library cannot be loaded: {error}") from None
        if timeout is None:
            text = os.environ.get("HLORUN_MPI_TIMEOUT", SILENCE)
            try:
                timeout = float(text)
            except ValueError:
                raise HloArgumentError(f"HLORUN_MPI_TIMEOUT is a number of seconds, not {text!r}") from None
        # A communicator of its own: no message of the user's can be taken for one of these.
        self._comm = (MPI.COMM_WORLD if comm is None else comm).Dup()
        self._comm.Set_errhandler(MPI.ERRORS_RETURN)
        self._transport = _Transport(self._comm)
        self._network = _Network(self._transport, timeout)
        self._timeout = timeout

    @property
    def rank(self) -> int:
        """Number of this process."""
        return self._transport.rank

    @property
    def size(self) -> int:
        """Number of processes."""
        return self._transport.size

    def devices(self, executable: Executable) -> range:
        """Numbers of the devices that run here: `replica * partitions + partition`.

        Args:
            executable: The same in every process.

        Returns:
            As many in every process.

        Raises:
            HloArgumentError: The devices cannot be divided among the processes.

        Examples:
            >>> group.devices(hlorun.compile(module, replicas=8))
            range(0, 1)
        """
        return range(*self._network.local(executable.replicas, executable.partitions))

    def run(
        self, executable: Executable, arrays: Sequence[Sequence[Any]], *, timeout: float | None = None
    ) -> list[Any]:
        """Run all devices; every process calls this.

        Args:
            executable: The same in every process.
            arrays: One list of values for each of this process's `devices`: an array per parameter of the
                entry computation, of its dtype and sizes.
            timeout: Seconds after which this process ends the run for all with `HloTimeoutError`; the
                others raise `HloExecutionError`.

        Returns:
            The results of this process's devices, each as a call of the executable returns it.

        Raises:
            HloArgumentError: There are not as many lists as devices, or a value does not fit.
            HloExecutionError: The run failed, here or in another process.
            HloTimeoutError: The time is over.

        Examples:
            >>> executable = hlorun.compile(module, replicas=8)
            >>> group.run(executable, [[np.ones(2, np.float32)] for device in group.devices(executable)])
            [array([2., 2.], dtype=float32)]
        """
        return executable._run_devices(arrays, self._network, timeout=timeout)

    def abort(self, status: int = 1) -> None:
        """End the whole job: for a process that cannot go on.

        Args:
            status: The exit status of the job.

        Examples:
            >>> group.abort(1)
        """
        self._transport.flush(min(self._timeout, 2.0))
        self._comm.Abort(status)
