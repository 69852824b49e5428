"""Random loops of small steps, as HLO text.

In: a seed. Out: a module whose entry takes `s32[]`, `f32[]`, `u32[]`, `s32[6]` and `f32[6]` and returns them after
loops have worked on them. Everything a body computes is defined: integers wrap, indices are clamped, divisors may be
zero.
"""

from __future__ import annotations

import random

STATE = ["s32[]", "s32[]", "f32[]", "u32[]", "s32[6]", "f32[6]"]
TUPLE = f"({', '.join(STATE)})"
INTEGER = ["add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum", "and", "or", "xor"]
SHIFTS = ["shift-left", "shift-right-logical", "shift-right-arithmetic"]
FLOAT = ["add", "subtract", "multiply", "maximum", "minimum", "divide"]
DIRECTIONS = ["EQ", "NE", "LT", "LE", "GT", "GE"]


class Body:
    """The instructions of one computation over the state."""

    def __init__(self, rng: random.Random, depth: int, module: Module) -> None:
        self.rng, self.depth, self.module = rng, depth, module
        self.lines = [f"p = {TUPLE} parameter(0)"]
        self.values: dict[str, list[str]] = {}
        self.count = 0
        self.state = [
            self.add(shape, f"{shape} get-tuple-element(p), index={k}") for k, shape in enumerate(STATE)
        ]

    def add(self, shape: str, text: str) -> str:
        name = f"v{self.count}"
        self.count += 1
        self.lines.append(f"{name} = {text}")
        self.values.setdefault(shape, []).append(name)
        return name

    def pick(self, shape: str) -> str:
        return self.rng.choice(self.values[shape])

    def constant(self, shape: str) -> str:
        numbers: dict[str, list[float]] = {
            "s32[]": [-3, -1, 0, 1, 2, 4, 5, 7, 1000003, -2147483648],
            "u32[]": [0, 1, 2, 7, 1664525, 4294967295],
            "f32[]": [-1.5, -0.0, 0.5, 0.99, 2.0, 3.25],
        }
        return self.add(shape, f"{shape} constant({self.rng.choice(numbers[shape])})")

    def truth(self) -> str:
        shape = self.rng.choice(["s32[]", "f32[]", "u32[]"])
        direction = self.rng.choice(DIRECTIONS)
        return self.add(
            "pred[]", f"pred[] compare({self.pick(shape)}, {self.pick(shape)}), direction={direction}"
        )

    def step(self) -> None:
        """Adds a few instructions."""
        rng = self.rng
        kind = rng.randrange(14)
        shape = rng.choice(["s32[]", "u32[]"])
        if kind < 3:
            op = rng.choice(INTEGER + SHIFTS)
            other = self.constant(shape) if rng.random() < 0.5 else self.pick(shape)
            self.add(shape, f"{shape} {op}({self.pick(shape)}, {other})")
        elif kind < 5:
            op = rng.choice(FLOAT)
            other = self.constant("f32[]") if rng.random() < 0.5 else self.pick("f32[]")
            self.add("f32[]", f"f32[] {op}({self.pick('f32[]')}, {other})")
        elif kind == 5:
            shape = rng.choice(["s32[]", "u32[]", "f32[]", "f32[6]", "s32[6]"])
            truth = self.truth()
            self.add(shape, f"{shape} select({truth}, {self.pick(shape)}, {self.pick(shape)})")
        elif kind == 6:
            to, source = rng.sample(["s32[]", "u32[]"], 2)
            self.add(to, f"{to} convert({self.pick(source)})")
            self.add("f32[]", f"f32[] convert({self.pick('s32[]')})")
        elif kind == 7:
            low, high = self.constant("s32[]"), self.constant("s32[]")
            self.add("s32[]", f"s32[] clamp({low}, {self.pick('s32[]')}, {high})")
            self.add("f32[]", f"f32[] {rng.choice(['abs', 'negate', 'sign', 'floor'])}({self.pick('f32[]')})")
        elif kind < 10:
            ty = rng.choice(["s32", "f32"])
            index = self.pick(rng.choice(["s32[]", "u32[]"]))
            part = self.add(
                f"{ty}[1]",
                f"{ty}[1] dynamic-slice({self.pick(f'{ty}[6]')}, {index}), dynamic_slice_sizes={{1}}",
            )
            self.add(f"{ty}[]", f"{ty}[] reshape({part})")
        elif kind < 12:
            ty = rng.choice(["s32", "f32"])
            size = rng.choice([1, 1, 2])
            part = self.add(
                f"{ty}[{size}]", f"{ty}[{size}] broadcast({self.pick(f'{ty}[]')}), dimensions={{}}"
            )
            index = self.pick("s32[]")
            whole = self.pick(f"{ty}[6]")
            self.add(f"{ty}[6]", f"{ty}[6] dynamic-update-slice({whole}, {part}, {index})")
        elif kind == 12:
            a, b = self.pick("s32[6]"), self.pick("s32[6]")
            self.add("s32[6]", f"s32[6] {rng.choice(INTEGER)}({a}, {b})")
            self.add("f32[6]", f"f32[6] reverse({self.pick('f32[6]')}), dimensions={{0}}")
        elif self.depth < 2:
            self.inner()
        else:
            self.outside()

    def outside(self) -> None:
        """Something that is no small step."""
        self.add("f32[6]", f"f32[6] sort({self.pick('f32[6]')}), dimensions={{0}}, to_apply=less")
        zero = self.add("s32[]", "s32[] constant(0)")
        self.add("s32[]", f"s32[] reduce({self.pick('s32[6]')}, {zero}), dimensions={{0}}, to_apply=plus")

    def late(self, shape: str) -> str:
        """An element of a computed array, at a place that the state names."""
        ty = shape[:-2]
        whole = self.add(f"{ty}[6]", f"{ty}[6] negate({self.pick(f'{ty}[6]')})")
        index = self.rng.choice([self.state[0], self.state[1], self.state[3]])
        part = self.add(f"{ty}[1]", f"{ty}[1] dynamic-slice({whole}, {index}), dynamic_slice_sizes={{1}}")
        return self.add(shape, f"{shape} reshape({part})")

    def results(self) -> list[str]:
        """A value for every leaf but the counter."""
        is_late = [shape in ("s32[]", "f32[]") and self.rng.random() < 0.2 for shape in STATE[1:]]
        return [
            self.late(shape) if late else self.pick(shape)
            for shape, late in zip(STATE[1:], is_late, strict=True)
        ]

    def inner(self) -> None:
        """A loop or a choice over all of the state."""
        if self.rng.random() < 0.5:
            start = self.add("s32[]", f"s32[] constant({self.rng.randrange(3)})")
            state = self.add(TUPLE, f"{TUPLE} tuple({start}, {', '.join(self.results())})")
            condition, body = self.module.loop(self.depth + 1)
            after = self.add(TUPLE, f"{TUPLE} while({state}), condition={condition}, body={body}")
        else:
            state = self.add(TUPLE, f"{TUPLE} tuple({self.pick('s32[]')}, {', '.join(self.results())})")
            branches = [self.module.branch(self.depth + 1) for _ in range(self.rng.choice([2, 2, 3]))]
            if len(branches) == 2 and self.rng.random() < 0.5:
                text = f"conditional({self.truth()}, {state}, {state}), true_computation={branches[0]}, "
                text += f"false_computation={branches[1]}"
            else:
                selector = self.pick("s32[]")
                text = f"conditional({selector}{f', {state}' * len(branches)}), "
                text += f"branch_computations={{{', '.join(branches)}}}"
            after = self.add(TUPLE, f"{TUPLE} {text}")
        for k, shape in enumerate(STATE):
            if k:
                self.add(shape, f"{shape} get-tuple-element({after}), index={k}")


class Module:
    """The computations so far."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.texts = [
            "less { a = f32[] parameter(0)\nb = f32[] parameter(1)\nROOT r = pred[] compare(a, b), direction=LT, type=TOTALORDER }",
            "plus { a = s32[] parameter(0)\nb = s32[] parameter(1)\nROOT r = s32[] add(a, b) }",
        ]

    def put(self, lines: list[str], root: str) -> str:
        name = f"c{len(self.texts)}"
        self.texts.append("\n".join([f"{name} {{", *lines, f"ROOT {root}", "}"]))
        return name

    def body(self, depth: int, is_loop: bool) -> str:
        body = Body(self.rng, depth, self)
        for _ in range(self.rng.randrange(2, 12)):
            body.step()
        counter = body.state[0]
        if is_loop:
            one = body.add("s32[]", "s32[] constant(1)")
            counter = body.add("s32[]", f"s32[] add({counter}, {one})")
        results = body.results()
        return self.put(body.lines, f"r = {TUPLE} tuple({counter}, {', '.join(results)})")

    def branch(self, depth: int) -> str:
        return self.body(depth, is_loop=False)

    def loop(self, depth: int) -> tuple[str, str]:
        body = self.body(depth, is_loop=True)
        lines = [f"p = {TUPLE} parameter(0)", "i = s32[] get-tuple-element(p), index=0"]
        limit = "s32[] get-tuple-element(p), index=1" if self.rng.random() < 0.2 else None
        lines.append(f"limit = {limit or f's32[] constant({self.rng.randrange(9)})'}")
        if limit:
            # Any number, but few trips.
            lines += [
                "low = s32[] constant(0)",
                "high = s32[] constant(7)",
                "n = s32[] clamp(low, limit, high)",
            ]
        root = f"q = pred[] compare(i, {'n' if limit else 'limit'}), direction=LT"
        if self.rng.random() < 0.2:
            # What is left at a place between the counter and the state.
            lines += [
                root,
                "all = pred[6] broadcast(q), dimensions={}",
                "a = s32[6] get-tuple-element(p), index=4",
                "b = s32[6] broadcast(i), dimensions={}",
                f"c = pred[6] compare(a, b), direction={self.rng.choice(DIRECTIONS)}",
                "k = s32[] get-tuple-element(p), index=1",
                "at = s32[] add(i, k)",
                "both = pred[6] and(all, c)",
                "part = pred[1] dynamic-slice(both, at), dynamic_slice_sizes={1}",
            ]
            root = "r = pred[] reshape(part)"
        return self.put(lines, root), body


def text(seed: int) -> str:
    """The module of a seed."""
    module = Module(seed)
    condition, body = module.loop(0)
    lines = [f"a{k} = {shape} parameter({k})" for k, shape in enumerate(STATE[1:])]
    lines.append("zero = s32[] constant(0)")
    lines.append(f"t = {TUPLE} tuple(zero, {', '.join(f'a{k}' for k in range(len(STATE) - 1))})")
    lines.append(f"w = {TUPLE} while(t), condition={condition}, body={body}")
    results = []
    for k, shape in enumerate(STATE):
        lines.append(f"o{k} = {shape} get-tuple-element(w), index={k}")
        results.append(f"o{k}")
    entry = "\n".join(["ENTRY main {", *lines, f"ROOT r = {TUPLE} tuple({', '.join(results)})", "}"])
    return "HloModule loops\n\n" + "\n\n".join([*module.texts, entry]) + "\n"
