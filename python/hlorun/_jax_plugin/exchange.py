"""DLPack for arrays on hlorun's devices, which jaxlib hands out from the CPU's and GPUs' devices alone.

In: an array of JAX that is asked for a DLPack tensor. Out: the tensor of a copy of it on JAX's CPU device;
for JAX itself, which is to make an array of it, the array. Promise: arrays on other devices are exchanged
as before.
"""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Any

from hlorun._jax_plugin import PLATFORM


def _is_ours(array: Any) -> bool:
    return any(device.platform == PLATFORM for device in array.devices())


def register() -> None:
    """Puts the export in front of JAX's.

    Raises:
        ImportError: JAX is not the one whose inner names these are.
        AttributeError: As above.
    """
    jax: Any = import_module("jax")
    public: Any = import_module("jax.dlpack")
    array: Any = import_module("jax._src.array")
    dlpack: Any = import_module("jax._src.dlpack")
    export, device_of = dlpack.to_dlpack, array.ArrayImpl.__dlpack_device__
    take = public.from_dlpack

    @functools.wraps(export)
    def to_dlpack(x: Any, *args: Any, copy: bool | None = None, **kwargs: Any) -> Any:
        if not isinstance(x, array.ArrayImpl) or not _is_ours(x):
            return export(x, *args, copy=copy, **kwargs)
        if copy is False:
            raise ValueError("arrays on hlorun's devices are copied for DLPack: numpy.asarray copies nothing")
        (cpu, *_) = jax.local_devices(backend="cpu")
        if "src_device" in kwargs:
            kwargs["src_device"] = cpu
        return export(jax.device_put(x, cpu), *args, **kwargs)

    @functools.wraps(device_of)
    def dlpack_device(x: Any) -> Any:
        if _is_ours(x) and len(x.devices()) == 1:
            return dlpack.DLDeviceType.kDLCPU, 0
        return device_of(x)

    @functools.wraps(take)
    def from_dlpack(external_array: Any, device: Any = None, copy: bool | None = None) -> Any:
        x = external_array
        if not isinstance(x, array.ArrayImpl) or not _is_ours(x) or len(x.devices()) != 1:
            return take(x, device=device, copy=copy)
        wanted = getattr(device, "device_set", x.devices() if device is None else {device})
        if wanted != x.devices():
            return take(x, device=device, copy=copy)
        (place,) = wanted
        return jax.device_put(x, place, may_alias=not copy)

    public.from_dlpack = dlpack.from_dlpack = from_dlpack
    dlpack.to_dlpack = to_dlpack
    array.ArrayImpl.__dlpack_device__ = dlpack_device
