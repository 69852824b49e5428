"""Modules in which devices meet: every collective, every form of groups, every kind of element.

Values are small multiples of a quarter, so that sums are exact in every type and the order in which
a device combines them cannot be seen; `noise` cases hold numbers that round.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from streams import Stream, paired

DTYPES = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "f8e4m3fn": ml_dtypes.float8_e4m3fn,
    "s8": np.int8,
    "s16": np.int16,
    "s32": np.int32,
    "s64": np.int64,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "pred": np.bool_,
    "c64": np.complex64,
    "c128": np.complex128,
}


@dataclass(frozen=True)
class Case:
    """One module and the devices that run it."""

    name: str
    body: str
    """The entry's instructions; `@` stands at the end of each."""
    parameters: tuple[tuple[str, tuple[int, ...]], ...]
    replicas: int = 8
    partitions: int = 1
    combiner: tuple[str, str] | None = None
    synchronous: str | None = None
    """A body that means the same, for XLA:CPU, which runs no asynchronous pairs."""
    noise: bool = False

    @property
    def devices(self) -> int:
        """Devices that run."""
        return self.replicas * self.partitions

    def text(self, *, oracle: bool = False) -> str:
        """The module; `oracle` writes it the way XLA:CPU runs it."""
        body = self.synchronous if oracle and self.synchronous else self.body
        manual = ", sharding={manual}" if oracle and self.partitions > 1 else ""
        parameters = "".join(
            f"  p{k} = {shape(ty, dims)} parameter({k})@\n" for k, (ty, dims) in enumerate(self.parameters)
        )
        called = ""
        if self.combiner:
            op, ty = self.combiner
            called = (
                f"combine {{\n  a = {ty}[] parameter(0)\n  b = {ty}[] parameter(1)\n"
                f"  ROOT c = {ty}[] {op}(a, b)\n}}\n\n"
            )
        lines = "\n".join("  " + line.strip() for line in body.strip().splitlines())
        entry = f"ENTRY entry {{\n{parameters}{lines}\n}}\n".replace("@", manual)
        header = f"HloModule {self.name.replace('-', '_')}"
        if self.partitions > 1:
            header += f", replica_count={self.replicas}, num_partitions={self.partitions}"
        return f"{header}\n\n{called}{entry}"

    def inputs(self) -> list[list[Any]]:
        """The arrays of each device."""
        stream = Stream(self.name)
        return [[self._array(stream, ty, dims) for ty, dims in self.parameters] for _ in range(self.devices)]

    def _array(self, stream: Stream, ty: str, dims: tuple[int, ...]) -> Any:
        dtype = np.dtype(DTYPES[ty])
        if ty == "pred":
            return stream.integers(0, 2, dims).astype(dtype)
        if self.noise:
            return stream.normal(dims, dtype)
        if self.combiner and self.combiner[0] == "multiply":
            return stream.choice([1, 2, 1, 1] if ty[0] == "u" else [-1, 1, 2, -1, 1, 1], dims).astype(dtype)
        if ty[0] in "su":
            low = 0 if ty[0] == "u" else -8
            return stream.integers(low, 9, dims).astype(dtype)
        values = stream.integers(-8, 9, dims) / (1 if ty.startswith("f8") else 4)
        if ty[0] == "c":
            values = paired(values, stream.integers(-8, 9, dims) / 4)
        return values.astype(dtype)


def shape(ty: str, dims: tuple[int, ...]) -> str:
    """A shape in HLO syntax."""
    return f"{ty}[{','.join(map(str, dims))}]"


GROUPS = {
    "all": "replica_groups={}",
    "absent": "",
    "one": "replica_groups={{0,1,2,3,4,5,6,7}}",
    "two": "replica_groups={{0,2,4,6},{1,3,5,7}}",
    "mixed-up": "replica_groups={{7,0,3,2},{1,4,6,5}}",
    "pairs": "replica_groups={{0,1},{2,3},{4,5},{6,7}}",
    "alone": "replica_groups={{0},{1},{2},{3},{4},{5},{6},{7}}",
    "iota": "replica_groups=[2,4]<=[8]",
    "iota-transposed": "replica_groups=[2,4]<=[4,2]T(1,0)",
    "iota-3d": "replica_groups=[4,2]<=[2,2,2]T(0,2,1)",
    "channel": "channel_id=1, replica_groups={{0,1,2,3,4,5,6,7}}",
    "global": "channel_id=3, replica_groups={{0,1,4,5},{6,7,2,3}}, use_global_device_ids=true",
    "global-iota": "channel_id=3, replica_groups=[2,4]<=[4,2]T(1,0), use_global_device_ids=true",
}
SIZES = {
    "all": 8, "absent": 8, "one": 8, "two": 4, "mixed-up": 4, "pairs": 2, "alone": 1, "iota": 4,
    "iota-transposed": 4, "iota-3d": 2, "channel": 8, "global": 4, "global-iota": 4,
}  # fmt: skip

PARTITIONED = {
    "replicas": ("replica_groups={{1,0},{2,3}}", 2),
    "replicas-and-partitions": ("channel_id=1, replica_groups={{2,0},{1,3}}", 4),
    "everybody": ("channel_id=1, replica_groups={}", 8),
    "flattened": ("channel_id=1, replica_groups={{7,0,3,2},{1,4,6,5}}, use_global_device_ids=true", 4),
}
"""Forms of groups over 4 replicas of 2 partitions, for the reductions and all-gather."""


def join(*parts: str) -> str:
    """Attributes, without empty ones."""
    return ", ".join(part for part in parts if part)


def reductions() -> Iterator[Case]:
    for form in GROUPS:
        attributes = join(GROUPS[form], "to_apply=combine")
        yield Case(
            f"all-reduce-{form}",
            f"ROOT r = f32[3,5] all-reduce(p0), {attributes}@",
            (("f32", (3, 5)),),
            combiner=("add", "f32"),
        )
        if SIZES[form] > 1 and form != "absent":
            n = SIZES[form]
            yield Case(
                f"reduce-scatter-{form}",
                f"ROOT r = f32[3,2] reduce-scatter(p0), {join(GROUPS[form], 'dimensions={1}, to_apply=combine')}@",
                (("f32", (3, 2 * n)),),
                combiner=("add", "f32"),
            )
    for form, (groups, n) in PARTITIONED.items():
        attributes = join(groups, "to_apply=combine")
        yield Case(
            f"all-reduce-partitions-{form}",
            f"ROOT r = s32[70] all-reduce(p0), {attributes}@",
            (("s32", (70,)),),
            4,
            2,
            ("add", "s32"),
        )
        yield Case(
            f"reduce-scatter-partitions-{form}",
            f"ROOT r = s32[3,2] reduce-scatter(p0), {attributes}, dimensions={{0}}@",
            (("s32", (3 * n, 2)),),
            4,
            2,
            ("add", "s32"),
        )
    for op, types in {
        "add": ("f64", "f16", "bf16", "s8", "s16", "s64", "u8", "u16", "u32", "u64", "c64", "c128"),
        "multiply": ("f32", "s32", "bf16"),
        "maximum": ("f32", "s8", "u32", "bf16", "f64"),
        "minimum": ("f16", "s64", "u8", "f32"),
        "and": ("pred",),
        "or": ("pred",),
    }.items():
        for ty in types:
            dims = (2, 67)
            attributes = join(GROUPS["mixed-up"], "to_apply=combine")
            yield Case(
                f"all-reduce-{op}-{ty}",
                f"ROOT r = {shape(ty, dims)} all-reduce(p0), {attributes}@",
                ((ty, dims),),
                combiner=(op, ty),
            )
    for ty in ("bf16", "s32", "f64", "u8"):
        yield Case(
            f"reduce-scatter-{ty}",
            f"ROOT r = {shape(ty, (9, 3))} reduce-scatter(p0), {join(GROUPS['iota'], 'dimensions={1}, to_apply=combine')}@",
            ((ty, (9, 12)),),
            combiner=("add", ty),
        )
    for ty in ("f32", "f64", "bf16"):
        yield Case(
            f"all-reduce-noise-{ty}",
            f"ROOT r = {ty}[515] all-reduce(p0), {join(GROUPS['all'], 'to_apply=combine')}@",
            ((ty, (515,)),),
            combiner=("add", ty),
            noise=True,
        )
    yield Case(
        "all-reduce-several",
        "ROOT r = (f32[4,3], f32[7], f32[0], f32[2,130]) all-reduce(p0, p1, p2, p3), "
        + join(GROUPS["two"], "to_apply=combine")
        + "@",
        (("f32", (4, 3)), ("f32", (7,)), ("f32", (0,)), ("f32", (2, 130))),
        combiner=("add", "f32"),
    )
    yield Case(
        "all-reduce-layouts",
        "t = f32[3,4] transpose(p0), dimensions={1,0}@\nROOT r = f32[3,4] all-reduce(t), "
        + join(GROUPS["two"], "to_apply=combine")
        + "@",
        (("f32", (4, 3)),),
        combiner=("add", "f32"),
    )
    one = join(GROUPS["one"], "to_apply=combine")
    yield Case(
        "all-reduce-async",
        f"s = f32[4] all-reduce-start(p0), {one}@\nm = f32[4] negate(p0)@\nd = f32[4] all-reduce-done(s)@\nROOT r = f32[4] add(d, m)@",
        (("f32", (4,)),),
        combiner=("add", "f32"),
        synchronous=f"d = f32[4] all-reduce(p0), {one}@\nm = f32[4] negate(p0)@\nROOT r = f32[4] add(d, m)@",
    )
    yield Case(
        "all-reduce-chain",
        f"a = f32[40] all-reduce(p0), {join(GROUPS['pairs'], 'to_apply=combine')}@\nb = f32[40] multiply(a, p0)@\n"
        f"c = f32[40] all-reduce(b), {join(GROUPS['iota-transposed'], 'to_apply=combine')}@\nROOT r = f32[40] subtract(c, a)@",
        (("f32", (40,)),),
        combiner=("add", "f32"),
    )


def movements() -> Iterator[Case]:
    for form in GROUPS:
        n = SIZES[form]
        yield Case(
            f"all-gather-{form}",
            f"ROOT r = f32[2,{3 * n}] all-gather(p0), {join(GROUPS[form], 'dimensions={1}')}@",
            (("f32", (2, 3)),),
        )
        if "channel" not in GROUPS[form] and form != "alone":
            if form not in ("all", "absent"):
                # XLA wants groups here.
                yield Case(
                    f"all-to-all-{form}",
                    f"ROOT r = s32[3,{2 * n}] all-to-all(p0), {join(GROUPS[form], 'dimensions={1}')}@",
                    (("s32", (3, 2 * n)),),
                )
            # Without groups, XLA takes the number of operands for the number of devices.
            operands = ", ".join(f"p{k}" for k in range(n))
            results = ", ".join(["f32[2,3]"] * n)
            yield Case(
                f"all-to-all-tuple-{form}",
                f"ROOT r = ({results}) all-to-all({operands}), {GROUPS[form]}@".replace("), @", ")@"),
                (("f32", (2, 3)),) * n,
            )
    for form, (groups, n) in PARTITIONED.items():
        yield Case(
            f"all-gather-partitions-{form}",
            f"ROOT r = s32[{3 * n},2] all-gather(p0), {groups}, dimensions={{0}}@",
            (("s32", (3, 2)),),
            4,
            2,
        )
    for ty in ("bf16", "f16", "f64", "s8", "pred", "u16", "c64", "s64", "f8e5m2", "f8e4m3fn"):
        yield Case(
            f"all-gather-{ty}",
            f"ROOT r = {shape(ty, (12, 2))} all-gather(p0), {GROUPS['mixed-up']}, dimensions={{0}}@",
            ((ty, (3, 2)),),
        )
        yield Case(
            f"permute-{ty}",
            f"ROOT r = {shape(ty, (3, 2))} collective-permute(p0), source_target_pairs={{{{0,3}},{{3,1}},{{1,0}},{{5,5}},{{6,2}}}}@",
            ((ty, (3, 2)),),
        )
    for ty in ("bf16", "s8", "f64", "c64"):
        yield Case(
            f"all-to-all-{ty}",
            f"ROOT r = {shape(ty, (8, 3))} all-to-all(p0), {GROUPS['mixed-up']}, dimensions={{0}}@",
            ((ty, (8, 3)),),
        )
    for name, pairs in {
        "ring": "{{0,1},{1,2},{2,3},{3,4},{4,5},{5,6},{6,7},{7,0}}",
        "few": "{{2,6}}",
        "swap": "{{0,7},{7,0}}",
    }.items():
        yield Case(
            f"permute-{name}",
            f"ROOT r = f32[5] collective-permute(p0), source_target_pairs={pairs}@",
            (("f32", (5,)),),
        )
    yield Case(
        "permute-partitions",
        "ROOT r = f32[5] collective-permute(p0), channel_id=2, source_target_pairs={{0,1},{1,0}}@",
        (("f32", (5,)),),
        4,
        2,
    )
    yield Case(
        "permute-partitioned-replicas",
        "ROOT r = f32[5] collective-permute(p0), source_target_pairs={{0,1},{1,0},{2,3}}@",
        (("f32", (5,)),),
        4,
        2,
    )
    yield Case(
        "all-to-all-partitions",
        "ROOT r = f32[4] all-to-all(p0), channel_id=2, replica_groups={{1,0}}, dimensions={0}@",
        (("f32", (4,)),),
        4,
        2,
    )
    ring = "source_target_pairs={{0,1},{1,2},{2,3},{3,0}}"
    yield Case(
        "permute-async",
        f"s = (f32[5], f32[5], u32[], u32[]) collective-permute-start(p0), {ring}@\nROOT r = f32[5] collective-permute-done(s)@",
        (("f32", (5,)),),
        synchronous=f"ROOT r = f32[5] collective-permute(p0), {ring}@",
    )
    yield Case(
        "all-gather-async",
        f"s = (f32[1,5], f32[4,5]) all-gather-start(p0), {GROUPS['two']}, dimensions={{0}}@\nROOT r = f32[4,5] all-gather-done(s)@",
        (("f32", (1, 5)),),
        synchronous=f"ROOT r = f32[4,5] all-gather(p0), {GROUPS['two']}, dimensions={{0}}@",
    )
    yield Case(
        "ids",
        "a = u32[] replica-id()@\nb = u32[] partition-id()@\nc = u32[1] reshape(a)@\nd = u32[1] reshape(b)@\n"
        "e = u32[2] concatenate(c, d), dimensions={0}@\nROOT r = u32[2] add(e, p0)@",
        (("u32", (2,)),),
        4,
        2,
    )


CASES = {case.name: case for family in (reductions, movements) for case in family()}
