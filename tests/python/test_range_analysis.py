"""Integer graphs mean the same with `range-analysis` and without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hlorun
from streams import Stream

TYPES: dict[str, Any] = {
    "s8": np.int8,
    "u8": np.uint8,
    "s16": np.int16,
    "s32": np.int32,
    "u32": np.uint32,
    "s64": np.int64,
}
TWO = ["add", "subtract", "multiply", "minimum", "maximum", "and", "or", "remainder", "divide"]
DIRECTIONS = ["LT", "LE", "GT", "GE", "EQ", "NE"]
GRAPHS = 40


class Graph:
    """A random module of one integer parameter, iotas, constants and what is computed of them."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.type = str(stream.choice(list(TYPES), (1,))[0])
        self.size = int(stream.integers(2, 9))
        self.lines = [f"  p = {self.type}[{self.size}] parameter(0)"]
        self.numbers = ["p"]
        self.truths: list[str] = []
        self.number("iota(), iota_dimension=0")
        for _ in range(3):
            self.number(f"constant({{{', '.join(map(str, self.values()))}}})")
        self.number(f"compare({self.any()}, {self.any()}), direction=LT", is_truth=True)
        for _ in range(int(stream.integers(5, 25))):
            self.step(int(stream.integers(0, 8)))

    def values(self) -> list[int]:
        """Small numbers, sizes and limits of the type; the same for all elements, or not."""
        info = np.iinfo(TYPES[self.type])
        some = [0, 1, 2, 3, 7, self.size - 1, self.size, 100, info.min, info.max, max(info.min, -1)]
        drawn = [int(value) for value in self.stream.choice(np.array(some, object), (self.size,))]
        return drawn if self.stream.integers(0, 2) else [drawn[0]] * self.size

    def number(self, operation: str, *, is_truth: bool = False) -> None:
        """Add an instruction."""
        name = f"v{len(self.lines)}"
        kind = "pred" if is_truth else self.type
        self.lines.append(f"  {name} = {kind}[{self.size}] {operation}")
        (self.truths if is_truth else self.numbers).append(name)

    def any(self, names: list[str] | None = None) -> str:
        """The name of an operand."""
        names = names or self.numbers
        return names[int(self.stream.integers(0, len(names)))]

    def step(self, kind: int) -> None:
        """Add an instruction of a kind."""
        if kind < 3:
            self.number(f"{self.stream.choice(TWO, (1,))[0]}({self.any()}, {self.any()})")
        elif kind == 3:
            self.number(f"clamp({self.any()}, {self.any()}, {self.any()})")
        elif kind == 4:
            direction = self.stream.choice(DIRECTIONS, (1,))[0]
            self.number(f"compare({self.any()}, {self.any()}), direction={direction}", is_truth=True)
        elif kind == 5:
            self.number(f"select({self.any(self.truths)}, {self.any()}, {self.any()})")
        elif kind == 6:
            word = self.stream.choice(["and", "or"], (1,))[0]
            self.number(f"{word}({self.any(self.truths)}, {self.any(self.truths)})", is_truth=True)
        else:
            other = self.stream.choice(list(TYPES), (1,))[0]
            name = f"w{len(self.lines)}"
            self.lines.append(f"  {name} = {other}[{self.size}] convert({self.any()})")
            self.number(f"convert({self.any([name, *self.truths])})")

    def text(self) -> str:
        """The module; its result is all that was computed."""
        shapes = [f"{self.type}[{self.size}]"] * len(self.numbers) + [f"pred[{self.size}]"] * len(self.truths)
        root = f"  ROOT t = ({', '.join(shapes)}) tuple({', '.join(self.numbers + self.truths)})"
        return "\n".join(["HloModule m", "ENTRY e {", *self.lines, root, "}"])


@pytest.mark.parametrize("seed", range(8))
def test_random_graphs_mean_the_same(seed: int) -> None:
    stream = Stream("range-analysis", seed)
    decided = 0
    for _ in range(GRAPHS):
        graph = Graph(stream)
        module = hlorun.parse(graph.text())
        executable = hlorun.compile(module)
        plain = hlorun.compile(module, disable=["range-analysis"])
        decided += sum(done.changes > 0 for done in executable.passes if done.name == "range-analysis")
        info = np.iinfo(TYPES[graph.type])
        for limit in (info.min, info.max):
            x = stream.integers(info.min, info.max, (graph.size,), TYPES[graph.type])
            x[0] = limit
            for got, wanted in zip(executable(x), plain(x), strict=True):
                assert got.tobytes() == wanted.tobytes(), graph.text()
    assert decided > 1
