"""`hlorun cost --roofline` and `--collectives`: what bounds a module on a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlorun.cli.common import bytes_text, console, plural, print_json, scaled, seconds_text
from hlorun.cli.screen import groups, middles, row, short, table

if TYPE_CHECKING:
    from rich.console import Console

    from hlorun import Collectives, Device, HloModule, Roofline


_LEAST = "launches, latency, caches, padding to tiles, transcendentals, overlap: a real run takes longer"
_ESTIMATED = "other work on this machine, and what depends on data: branches, places at indices, trips"


def _device(out: Console, on: Device) -> None:
    products = ", ".join(f"{kind} {scaled(peak)}FLOP/s" for kind, peak in on.products.items())
    link = f", links {scaled(on.link)}B/s" if on.link else ""
    row(out, "device", f"{on.name}: {products}; memory {scaled(on.memory)}B/s{link} ({on.about})")


def roofline(module: HloModule, on: str, by: str, top: int, *, json: bool) -> None:
    """Print the estimate of a module on a device."""
    from hlorun.report.roofline import roofline

    found = roofline(module, on, by)
    if json:
        print_json(found.to_dict())
        return
    out = console()
    row(out, "module", found.module)
    _device(out, found.device)
    row(out, "about" if found.device.rates else "at least", _total(found))
    if found.communication:
        hidden = (
            "; without a schedule it is unknown how much of it overlaps with other steps"
            if found.exposed is None
            else f", {seconds_text(found.exposed)} of it exposed"
        )
        row(out, "collectives", seconds_text(found.communication) + hidden)
    if found.unknown_custom_calls:
        calls = plural(found.unknown_custom_calls, "custom call")
        row(out, "unknown", f"FLOPs of {calls}, which count by the bytes of operands and results")
    if found.unknown_loops:
        row(out, "unknown", f"trips of {plural(found.unknown_loops, 'loop')}, counted as one")
    row(out, "left out", _ESTIMATED if found.device.rates else _LEAST)
    rows = [
        (
            group.key,
            [
                seconds_text(group.seconds),
                f"{100 * group.share:.1f} %",
                group.bound if group.seconds else "",
                f"{scaled(group.flops)}FLOP",
                bytes_text(int(group.bytes_accessed)),
                "" if group.intensity is None else f"{group.intensity:.3g}",
            ],
        )
        for group in found.groups
    ]
    columns = ["time", "share", "bound by", "flops", "bytes", "FLOP/B"]
    title = "time, all trips" if found.device.rates else "least time, all trips"
    groups(out, found.by, title, columns, rows, top)


def _total(found: Roofline) -> str:
    parts = {"compute": found.compute, "memory": found.memory, "interconnect": found.interconnect}
    said = [
        f"{name} {100 * seconds / found.seconds:.1f} %"
        for name, seconds in sorted(parts.items(), key=lambda item: -item[1])
        if seconds
    ]
    return f"{seconds_text(found.seconds)}" + (f", bound by {', '.join(said)}" if said else "")


def collectives(module: HloModule, on: str | None, top: int, *, json: bool) -> None:
    """Print what devices send each other."""
    from hlorun.report.collectives import collectives

    found = collectives(module, on)
    if json:
        print_json(found.to_dict())
        return
    out = console()
    row(out, "module", found.module)
    if found.device is not None:
        _device(out, found.device)
    if not found.collectives:
        row(out, "collectives", "none")
        return
    _print(out, found, top)


def _time(seconds: float | None) -> str:
    return "" if seconds is None else seconds_text(seconds)


def _print(out: Console, found: Collectives, top: int) -> None:
    numbers = [("bytes", "right"), ("sent", "right"), ("time", "right")]
    table(
        out,
        "by kind, per device, all trips",
        [("kind", "left"), ("count", "right"), ("runs", "right"), *numbers],
        [
            [
                kind.kind,
                f"{kind.count:,}",
                f"{kind.runs:,}",
                bytes_text(kind.bytes),
                bytes_text(int(kind.sent)),
                _time(kind.seconds),
            ]
            for kind in found.kinds
        ],
    )
    shown = found.collectives[:top]
    origins = middles([one.place.source or one.place.op_name for one in shown], 60)
    more = (
        f", the first {len(shown)} of {len(found.collectives):,}"
        if len(shown) < len(found.collectives)
        else ""
    )
    table(
        out,
        f"collectives, one run{more}",
        [
            *numbers,
            ("runs", "right"),
            ("groups", "right"),
            ("of", "right"),
            ("kind", "left"),
            ("name", "left"),
            ("from", "left"),
        ],
        [
            [
                bytes_text(one.bytes),
                bytes_text(int(one.sent)),
                _time(one.seconds),
                f"{one.runs:,}",
                f"{one.groups:,}",
                f"{one.group_size:,}",
                one.kind,
                short(one.place.name, 32),
                origin,
            ]
            for one, origin in zip(shown, origins, strict=True)
        ],
    )
    for one in shown:
        out.print(f"{one.place.name}: {one.reason}", markup=False, soft_wrap=True)
