"""Run HLO text on XLA:CPU through jaxlib, in child processes.

XLA aborts, and sometimes hangs, on inputs it does not like. Here every module is compiled and run in a worker
process: its death or silence becomes a `Refused` for that one module, and a new worker takes the next.

In: HLO text and NumPy arrays. Out: the flat list of result arrays, logical row-major. Promise: never ends the
calling process, whatever XLA does. Needs jax and jaxlib in the environment.

XLA:CPU takes modules through StableHLO, which drops layouts; give it texts whose meaning does not depend on them.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import pickle
import select
import struct
import subprocess
import sys
import time
from importlib import import_module
from typing import IO, Any

import numpy as np

Arrays = list[np.ndarray[Any, Any]]


class Refused(Exception):
    """XLA:CPU raised, aborted or hung on a module. The message is its reason, shortened."""


def available() -> bool:
    """Whether jaxlib can be imported here."""
    return importlib.util.find_spec("jaxlib") is not None and importlib.util.find_spec("jax") is not None


class Oracle:
    """One worker process, started when first needed and again after each death."""

    def __init__(self, timeout: float = 120.0) -> None:
        self.timeout = timeout
        self.process: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)

    def run(self, text: str, inputs: Arrays) -> Arrays:
        """Results of the module's entry computation, tuples flattened one level. Raises `Refused`."""
        reply = self._ask(("run", text, [_pack(x) for x in inputs]))
        return [_unpack(x) for x in reply]

    def parse(self, text: str) -> None:
        """Only read the text. Raises `Refused` when it is no module to this jaxlib."""
        self._ask(("parse", text, []))

    def close(self) -> None:
        """End the worker."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for pipe in (self.process.stdin, self.process.stdout):
                if pipe is not None:
                    pipe.close()
            self.process = None

    def _start(self) -> subprocess.Popen[bytes]:
        if self.process is None:
            env = dict(os.environ, JAX_PLATFORMS="cpu", JAX_ENABLE_X64="1", TF_CPP_MIN_LOG_LEVEL="3")
            env.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=1")
            self.process = subprocess.Popen(
                [sys.executable, os.path.abspath(__file__)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=env,
            )
        return self.process

    def _ask(self, request: object) -> list[Any]:
        process = self._start()
        assert process.stdin is not None and process.stdout is not None
        try:
            _send(process.stdin, request)
            kind, value = _receive_within(process.stdout, self.timeout)
        except TimeoutError:
            self.close()
            raise Refused(f"no answer within {self.timeout:.0f} s") from None
        except (EOFError, OSError):
            code = process.wait()
            self.close()
            raise Refused(f"aborted ({code})") from None
        if kind != "ok":
            raise Refused(str(value))
        return list(value)


def _pack(x: np.ndarray[Any, Any]) -> tuple[str, tuple[int, ...], bytes]:
    return x.dtype.name, x.shape, np.ascontiguousarray(x).tobytes()


def _unpack(packed: tuple[str, tuple[int, ...], bytes]) -> np.ndarray[Any, Any]:
    name, dims, data = packed
    return np.frombuffer(data, dtype_of(name)).reshape(dims)


def dtype_of(name: str) -> np.dtype[Any]:
    """The NumPy or ml_dtypes dtype of that name."""
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        small: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return small


def _send(pipe: IO[bytes], value: object) -> None:
    data = pickle.dumps(value)
    pipe.write(struct.pack("<Q", len(data)) + data)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> Any:
    head = pipe.read(8)
    if len(head) < 8:
        raise EOFError
    (size,) = struct.unpack("<Q", head)
    data = pipe.read(size)
    if len(data) < size:
        raise EOFError
    return pickle.loads(data)


def _receive_within(pipe: IO[bytes], seconds: float) -> Any:
    end = time.monotonic() + seconds
    while not select.select([pipe], [], [], max(0.0, end - time.monotonic()))[0]:
        if time.monotonic() >= end:
            raise TimeoutError
    return _receive(pipe)


def parse_here(text: str) -> None:
    """Read the text in this process, which XLA may end."""
    _hlo: Any = import_module("jaxlib._hlo")
    _hlo.hlo_module_from_text(text)


def run_here(text: str, inputs: Arrays) -> Arrays:
    """Compile and run in this process, which XLA may end."""
    import jax

    # No stubs: what they are differs from version to version.
    xla_client: Any = import_module("jax._src.lib").xla_client
    _hlo: Any = import_module("jaxlib._hlo")
    lapack: Any = import_module("jaxlib.lapack")
    # The LAPACK calls find their routines in SciPy only after this.
    lapack._lapack.initialize()
    module = _hlo.hlo_module_from_text(text)
    computation = _hlo.XlaComputation(module.as_serialized_hlo_module_proto())
    mlir = xla_client._xla.mlir.xla_computation_to_mlir_module(computation)
    device = jax.devices("cpu")[0]
    devices = xla_client.DeviceList((device,))
    executable = device.client.compile_and_load(mlir, devices, xla_client.CompileOptions())
    buffers = [jax.device_put(x, device) for x in inputs]
    return [np.asarray(x) for x in executable.execute(buffers)]


def _serve() -> None:
    # Replies go to the pipe alone: what XLA prints on standard output goes nowhere.
    out = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    while True:
        try:
            what, text, inputs = _receive(sys.stdin.buffer)
        except EOFError:
            return
        try:
            if what == "parse":
                parse_here(text)
                _send(out, ("ok", []))
                continue
            results = run_here(text, [_unpack(x) for x in inputs])
            reply: tuple[str, object] = ("ok", [_pack(x) for x in results])
        except Exception as error:
            first = " ".join(str(error).split())
            reply = ("error", first[:200] or type(error).__name__)
        _send(out, reply)


if __name__ == "__main__":
    _serve()
