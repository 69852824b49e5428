"""What devices can do at best: the table of peaks, a user's own file, and this machine, measured."""

from __future__ import annotations

import functools
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hlorun._names import UnknownWordError
from hlorun.errors import HloArgumentError
from hlorun.report.planned import Rates
from hlorun.report.result import Result

THIS = "this"
"""The name of the machine that this runs on."""


@dataclass(frozen=True)
class Device(Result):
    """Peaks of a device.

    Attributes:
        name: Its name.
        products: FLOP/s of matrix products by element type.
        vector: FLOP/s of elementwise operations in f32; None where nobody publishes them.
        memory: Bytes/s of memory.
        link: Bytes/s that one device can send to others over all its links; None where it has none.
        about: Where the figures are from.
        rates: Measured rates of this machine; None for a device that is known by its peaks alone.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> device = hlorun.Device("mine", {"f32": 2e13}, vector=1e13, memory=9e11, link=None)
        >>> hlorun.roofline(module, device).groups[0].bound
        'memory'
    """

    name: str
    products: dict[str, float]
    vector: float | None
    memory: float
    link: float | None
    about: str = field(default="", repr=False)
    rates: Rates | None = field(default=None, repr=False)

    def product_peak(self, element_type: str, *, exact: bool) -> float:
        """FLOP/s of products of an element type.

        Without a peak of its own f8 counts as bf16, f64 and bf16 as f32, s8 as bf16; all other types count as
        f32. Where the device has no f32 peak, its lowest peak counts.

        Args:
            element_type: XLA's name of it, "bf16".
            exact: Whether the precision is HIGH or HIGHEST.

        Returns:
            FLOP/s.

        Raises:
            ValueError: The device has no peaks at all.

        Examples:
            >>> device = hlorun.Device("mine", {"f32": 2e13}, vector=1e13, memory=9e11, link=None)
            >>> device.product_peak("bf16", exact=False)
            20000000000000.0
        """
        if element_type.startswith(("f8", "f4")):
            order = ["f8", "bf16"]
        elif element_type in ("bf16", "f16"):
            order = ["bf16"]
        elif element_type in ("s8", "u8", "s4", "u4"):
            order = ["s8", "bf16"]
        elif element_type in ("f64", "c128"):
            order = ["f64"]
        else:
            order = ["f32"] if exact else ["tf32"]
        return next((self.products[key] for key in [*order, "f32"] if key in self.products), self.least)

    @property
    def least(self) -> float:
        """The lowest of the peaks of products."""
        return min(self.products.values())


def _device(name: str, products: dict[str, float], vector: float | None, *rates: float, about: str) -> Device:
    memory, link = rates
    return Device(name, {key: value * 1e12 for key, value in products.items()}, vector and vector * 1e12,
                  memory * 1e9, link * 1e9, about)  # fmt: skip


_HOPPER = {"f64": 66.9, "f32": 66.9, "tf32": 494.7, "bf16": 989.4, "f8": 1978.9, "s8": 1978.9}
"""H100 and H200 differ in memory only."""

# TFLOP/s without sparsity, TFLOP/s of f32 outside of products, GB/s of memory, GB/s sent over all links: half
# of what sources give for both ways.
DEVICES = {
    device.name.lower(): device
    for device in (
        _device(
            "H100", _HOPPER,
            66.9, 3350, 450, about="NVIDIA H100 Tensor Core GPU datasheet, SXM5; NVLink 900 GB/s",
        ),
        _device(
            "H200", _HOPPER,
            66.9, 4800, 450, about="NVIDIA H200 Tensor Core GPU datasheet, SXM; NVLink 900 GB/s",
        ),
        _device(
            "A100", {"f64": 19.5, "f32": 19.5, "tf32": 156, "bf16": 312, "s8": 624},
            19.5, 2039, 300, about="NVIDIA A100 Tensor Core GPU datasheet, 80 GB SXM; NVLink 600 GB/s",
        ),
        _device(
            "L4", {"f32": 30.3, "tf32": 60, "bf16": 121, "f8": 242.5, "s8": 242.5},
            30.3, 300, 32, about="NVIDIA L4 Tensor Core GPU datasheet, sparsity taken out; PCIe 4 x16",
        ),
        _device(
            "MI300X", {"f64": 163.4, "f32": 163.4, "tf32": 653.7, "bf16": 1307.4, "f8": 2614.9, "s8": 2614.9},
            163.4, 5300, 448, about="AMD Instinct MI300X data sheet; 7 links of 128 GB/s",
        ),
        _device(
            "v4", {"tf32": 275, "bf16": 275, "s8": 275},
            None, 1200, 300, about="Cloud TPU documentation, TPU v4; 2400 Gbit/s of interconnect",
        ),
        _device(
            "v5e", {"tf32": 197, "bf16": 197, "s8": 393},
            None, 819, 200, about="Cloud TPU documentation, TPU v5e; 1600 Gbit/s of interconnect",
        ),
        _device(
            "v5p", {"tf32": 459, "bf16": 459, "s8": 918},
            None, 2765, 600, about="Cloud TPU documentation, TPU v5p; 4800 Gbit/s of interconnect",
        ),
        _device(
            "v6e", {"tf32": 918, "bf16": 918, "s8": 1836},
            None, 1600, 400, about="Cloud TPU documentation, TPU v6e; 3200 Gbit/s of interconnect",
        ),
    )
}  # fmt: skip
"""Devices by their names in small letters; docs/roofline.md shows the table."""


def device(name: str | Device) -> Device:
    """A device by its name, from the JSON file at a path, or this machine.

    Args:
        name: A name of `DEVICES` ("H100", also "TPU v5e"), "this" to measure this machine, which takes a
            few seconds, or the path of a file that holds "name", "products", "vector", "memory" and "link" as
            `Device` has them.

    Raises:
        HloArgumentError: There is no such device or file, or the file does not say what a device can do.
    """
    if isinstance(name, Device):
        return name
    key = name.lower().removeprefix("tpu").strip(" -")
    if key == THIS:
        return measured()
    if key in DEVICES:
        return DEVICES[key]
    if name.endswith(".json"):
        return _from_file(Path(name))
    known = ", ".join(device.name for device in DEVICES.values())
    raise UnknownWordError(f"no device is called {name!r}: known are {known}, {THIS}, and .json files")


def _from_file(path: Path) -> Device:
    def rate(value: Any) -> float:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not 0 < value <= sys.float_info.max:
            raise ValueError(f"{value!r} is no rate")
        return float(value)

    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        products = {str(key): rate(value) for key, value in said["products"].items()}
        if not products:
            raise ValueError("products are empty")
        vector, link = (None if said.get(key) is None else rate(said[key]) for key in ("vector", "link"))
        return Device(
            str(said.get("name", path.stem)), products, vector, rate(said["memory"]), link, str(path)
        )
    except OSError as error:
        raise HloArgumentError(f"{path}: {error.strerror}") from None
    except KeyError as error:
        raise HloArgumentError(f"{path} has no {error}") from None
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise HloArgumentError(
            f'{path} is no device, which is {{"products": {{"f32": FLOP/s}}, "memory": bytes/s}} with '
            f'perhaps "name", "vector" and "link": {error}'
        ) from None


@functools.cache
def measured(rounds: int = 2) -> Device:
    """This machine with rates and peaks that hlorun reaches, measured once in a process in a few seconds.

    Args:
        rounds: How often everything is measured; the fastest run counts.

    Returns:
        The device.
    """
    from hlorun.report.rates import measure

    rates = measure(rounds)
    products = {ty: 1 / rates.of("product", ty) for ty in ("f32", "f64")}
    # The speed of a sum of two arrays: of three bytes that it moves, one is written.
    memory = 3 / (2 * rates.read[-1][1] + rates.written[-1][1])
    # Devices of one process exchange values through memory.
    return Device(
        "this machine", products, 1 / rates.of("cheap", "f32"), memory, memory, "measured just now", rates
    )
