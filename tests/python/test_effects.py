"""Calls with side effects run as often and in the order that the text says, wherever they stand."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import hlorun

MARK = "tests.mark"
Log = list[tuple[int, int]]


@pytest.fixture
def log() -> Iterator[Log]:
    seen: Log = []

    def mark(number: Any, value: Any) -> Any:
        seen.append((int(number), int(value)))
        return np.int32(value + 1)

    hlorun.register_custom_call(MARK, mark)
    yield seen
    hlorun.register_custom_call(MARK, None)


def wrapped(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


class Program:
    """A random module of computations from one `s32` to another, and what a run of it does."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.text: list[str] = []
        self.names = 0
        self.marks = 0
        self.entry = self.computation(depth=3, name="entry")

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def module(self) -> str:
        return "HloModule random_effects\n\n" + "\n\n".join(self.text) + "\n"

    def computation(self, depth: int, name: str = "") -> tuple[str, Callable[[int, Log], int]]:
        """Adds a computation; its name, and a function that does what it does."""
        is_entry = bool(name)
        name = name or self.name("c")
        lines = ["  x = s32[] parameter(0)"]
        steps: list[Callable[[list[int], Log], int]] = []
        values = ["x"]
        for _ in range(self.random.randint(1, 5)):
            k = self.random.randrange(len(values))
            result = self.name("v")
            new, step = self.statement(result, values[k], k, depth)
            lines += new
            steps.append(step)
            values.append(result)
        root = self.random.randrange(len(values))
        lines.append(f"  ROOT {self.name('r')} = s32[] copy({values[root]})")
        head = "ENTRY " if is_entry else ""
        self.text.append(f"{head}{name} {{\n" + "\n".join(lines) + "\n}")

        def run(x: int, log: Log) -> int:
            known = [x]
            for step in steps:
                known.append(step(known, log))
            return known[root]

        return name, run

    def statement(
        self, result: str, of: str, k: int, depth: int
    ) -> tuple[list[str], Callable[[list[int], Log], int]]:
        kinds = ["mark", "mark", "pure"]
        if depth > 0:
            kinds += ["call", "fusion", "async", "conditional", "switch", "while"]
        made: tuple[list[str], Callable[[list[int], Log], int]]
        made = getattr(self, self.random.choice(kinds))(result, of, k, depth)
        return made

    def mark(self, result: str, of: str, k: int, depth: int) -> Any:
        self.marks += 1
        number, constant = self.marks, self.name("k")
        lines = [
            f"  {constant} = s32[] constant({number})",
            f'  {result} = s32[] custom-call({constant}, {of}), custom_call_target="{MARK}", custom_call_has_side_effect=true',
        ]

        def step(known: list[int], log: Log) -> int:
            log.append((number, known[k]))
            return wrapped(known[k] + 1)

        return lines, step

    def pure(self, result: str, of: str, k: int, depth: int) -> Any:
        add = self.random.randint(-3, 3)
        constant = self.name("k")
        lines = [f"  {constant} = s32[] constant({add})", f"  {result} = s32[] add({of}, {constant})"]
        return lines, lambda known, log: wrapped(known[k] + add)

    def call(self, result: str, of: str, k: int, depth: int) -> Any:
        callee, run = self.computation(depth - 1)
        return [f"  {result} = s32[] call({of}), to_apply={callee}"], lambda known, log: run(known[k], log)

    def fusion(self, result: str, of: str, k: int, depth: int) -> Any:
        callee, run = self.computation(depth - 1)
        line = f"  {result} = s32[] fusion({of}), kind=kLoop, calls={callee}"
        return [line], lambda known, log: run(known[k], log)

    def async_(self, result: str, of: str, k: int, depth: int) -> Any:
        callee, run = self.computation(depth - 1)
        start = self.name("start")
        lines = [
            f"  {start} = ((s32[]), s32[], u32[]) async-start({of}), calls={callee}",
            f"  {result} = s32[] async-done({start}), calls={callee}",
        ]
        return lines, lambda known, log: run(known[k], log)

    def conditional(self, result: str, of: str, k: int, depth: int) -> Any:
        limit = self.random.randint(-2, 4)
        (yes, on_true), (no, on_false) = self.computation(depth - 1), self.computation(depth - 1)
        constant, choice = self.name("k"), self.name("p")
        lines = [
            f"  {constant} = s32[] constant({limit})",
            f"  {choice} = pred[] compare({of}, {constant}), direction=LT",
            f"  {result} = s32[] conditional({choice}, {of}, {of}), true_computation={yes}, false_computation={no}",
        ]
        return lines, lambda known, log: (on_true if known[k] < limit else on_false)(known[k], log)

    def switch(self, result: str, of: str, k: int, depth: int) -> Any:
        branches = [self.computation(depth - 1) for _ in range(3)]
        names = ", ".join(name for name, _ in branches)
        line = f"  {result} = s32[] conditional({of}, {of}, {of}, {of}), branch_computations={{{names}}}"

        def step(known: list[int], log: Log) -> int:
            at = known[k] if 0 <= known[k] < 3 else 2
            return branches[at][1](known[k], log)

        return [line], step

    def while_(self, result: str, of: str, k: int, depth: int) -> Any:
        """The counter starts at 0; condition and body call what may have effects."""
        trips = self.random.randint(0, 3)
        checked, check = self.computation(depth - 1)
        called, trip = self.computation(depth - 1)
        condition, body = self.name("condition"), self.name("body")
        self.text.append(f"""{condition} {{
  t = (s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  x = s32[] get-tuple-element(t), index=1
  unused = s32[] call(x), to_apply={checked}
  n = s32[] constant({trips})
  ROOT less = pred[] compare(i, n), direction=LT
}}""")
        self.text.append(f"""{body} {{
  t = (s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  x = s32[] get-tuple-element(t), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  y = s32[] call(x), to_apply={called}
  ROOT r = (s32[], s32[]) tuple(next, y)
}}""")
        zero, start, loop = self.name("k"), self.name("s"), self.name("w")
        lines = [
            f"  {zero} = s32[] constant(0)",
            f"  {start} = (s32[], s32[]) tuple({zero}, {of})",
            f"  {loop} = (s32[], s32[]) while({start}), condition={condition}, body={body}",
            f"  {result} = s32[] get-tuple-element({loop}), index=1",
        ]

        def step(known: list[int], log: Log) -> int:
            x = known[k]
            check(x, log)
            for _ in range(trips):
                x = trip(x, log)
                check(x, log)
            return x

        return lines, step

    def __getattr__(self, name: str) -> Any:
        if name in ("async", "while"):
            return getattr(self, name + "_")
        raise AttributeError(name)


@pytest.mark.parametrize("seed", range(150))
def test_random_nesting(seed: int, log: Log) -> None:
    program = Program(seed)
    module = hlorun.parse(program.module())
    module.verify()
    for x in (0, 3):
        expected: Log = []
        value = program.entry[1](x, expected)
        for executable in (
            hlorun.compile(module),
            hlorun.compile(module, disable=["fusion", "row-tiling", "scalar-bytecode"]),
        ):
            log.clear()
            assert int(executable(np.int32(x))) == value
            assert log == expected
        log.clear()
        assert int(hlorun.compile(module)(np.int32(x), observer=lambda i, v: None)) == value
        assert log == expected
    log.clear()
    hlorun.compile(module, replicas=2).run_replicas([[np.int32(3)], [np.int32(3)]])
    assert sorted(log) == sorted(expected * 2)


UNUSED = """HloModule unused

double {{
  a = s32[] parameter(0)
  k = s32[] constant(7)
  m = s32[] custom-call(k, a), custom_call_target="tests.mark"{effect}
  ROOT d = s32[] add(a, a)
}}

same {{
  ROOT a = s32[] parameter(0)
}}

ENTRY e {{
  x = s32[] parameter(0)
  p = pred[] constant(true)
  {call}
  ROOT y = s32[] add(x, x)
}}"""
CALLS = {
    "branch": "c = s32[] conditional(p, x, x), true_computation=double, false_computation=same",
    "call": "c = s32[] call(x), to_apply=double",
    "fusion": "c = s32[] fusion(x), kind=kLoop, calls=double",
    "async": "s = ((s32[]), s32[], u32[]) async-start(x), calls=double\n  c = s32[] async-done(s), calls=double",
}


@pytest.mark.parametrize("place", CALLS)
@pytest.mark.parametrize("has_effect", [True, False])
def test_only_effects_keep_an_unused_call(place: str, has_effect: bool, log: Log) -> None:
    effect = ", custom_call_has_side_effect=true" if has_effect else ""
    text = UNUSED.format(effect=effect, call=CALLS[place])
    assert int(hlorun.compile(hlorun.parse(text))(np.int32(4))) == 8
    assert log == ([(7, 4)] if has_effect else [])


ELEMENTS = {
    "map": "c = s32[4] map(v), dimensions={0}, to_apply=one",
    "reduce": "c = s32[] reduce(v, x), dimensions={0}, to_apply=two",
    "sort": "c = s32[4] sort(v), dimensions={0}, to_apply=less",
}


@pytest.mark.parametrize("opcode", ELEMENTS)
def test_effects_of_computations_over_elements_are_refused(opcode: str) -> None:
    """The text does not say how often and in which order such a computation runs."""
    mark = 'custom_call_target="tests.mark", custom_call_has_side_effect=true'
    text = f"""HloModule m

one {{
  a = s32[] parameter(0)
  m = s32[] custom-call(a, a), {mark}
  ROOT r = s32[] negate(a)
}}

two {{
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  m = s32[] custom-call(a, b), {mark}
  ROOT r = s32[] add(a, b)
}}

less {{
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  m = s32[] custom-call(a, b), {mark}
  ROOT r = pred[] compare(a, b), direction=LT
}}

ENTRY e {{
  x = s32[] parameter(0)
  v = s32[4] broadcast(x), dimensions={{}}
  {ELEMENTS[opcode]}
  ROOT y = s32[] add(x, x)
}}"""
    with pytest.raises(hlorun.HloUnsupportedError, match=rf"has side effects; {opcode} does not say"):
        hlorun.compile(hlorun.parse(text))


LATER = """HloModule later

yes {{
  a = {shape} parameter(0)
  ROOT m = {shape} {call}, metadata={{op_name="jit(f)/cond/check"}}
}}

no {{
  ROOT a = {shape} parameter(0)
}}

ENTRY e {{
  x = {shape} parameter(0)
  p = pred[] parameter(1)
  ROOT c = {shape} conditional(p, x, x), true_computation=yes, false_computation=no
}}"""
SQUARE = np.eye(2, dtype=np.float32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            'custom-call(a), custom_call_target="xla_ffi_python_cpu_callback"',
            'jit\\(f\\)/cond/check.*"xla_ffi_python_cpu_callback"',
        ),
        ('custom-call(a), custom_call_target="__cublas$gemm"', "m: .*backend_config"),
    ],
)
def test_a_call_nobody_can_run_is_an_error_when_it_is_reached(call: str, message: str) -> None:
    executable = hlorun.compile(hlorun.parse(LATER.format(call=call, shape="f32[2,2]")))
    np.testing.assert_array_equal(executable(SQUARE, np.False_), SQUARE)
    with pytest.raises(hlorun.HloUnsupportedError, match=message) as error:
        executable(SQUARE, np.True_)
    assert error.value.instruction == "m"


def test_a_function_registered_after_compilation_is_called(log: Log) -> None:
    text = LATER.format(call=f'custom-call(a, a), custom_call_target="{MARK}"', shape="s32[]")
    hlorun.register_custom_call(MARK, None)
    executable = hlorun.compile(hlorun.parse(text))
    with pytest.raises(hlorun.HloUnsupportedError, match=MARK):
        executable(np.int32(1), np.True_)
    hlorun.register_custom_call(MARK, lambda a, b: np.int32(a + 41))
    assert int(executable(np.int32(1), np.True_)) == 42


def test_transfers_do_not_let_effects_pass_each_other(log: Log) -> None:
    """What does not wait for a `recv-done` goes first, but effects keep their order."""
    pairs = 'frontend_attributes={_xla_send_recv_source_target_pairs="{{0,0}}"}'
    text = f"""HloModule transfers

ENTRY e {{
  x = s32[] parameter(0)
  t = token[] after-all()
  s = (s32[], u32[], token[]) send(x, t), channel_id=1, {pairs}
  sd = token[] send-done(s), channel_id=1
  r = (s32[], u32[], token[]) recv(t), channel_id=1, {pairs}
  rd = (s32[], token[]) recv-done(r), channel_id=1
  y = s32[] get-tuple-element(rd), index=0
  one = s32[] constant(1)
  two = s32[] constant(2)
  a = s32[] custom-call(one, y), custom_call_target="{MARK}", custom_call_has_side_effect=true
  b = s32[] custom-call(two, x), custom_call_target="{MARK}", custom_call_has_side_effect=true
  ROOT z = s32[] copy(y)
}}"""
    received = int(hlorun.compile(hlorun.parse(text))(np.int32(5)))
    assert log == [(1, received), (2, 5)]


def test_instructions_tell_of_their_effects() -> None:
    module = hlorun.parse(
        "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
        "f { x = f32[2] parameter(0) ROOT r = f32[2] all-reduce(x), replica_groups={}, to_apply=sum }\n"
        "g { x = f32[2] parameter(0) ROOT n = f32[2] negate(x) }\n"
        "ENTRY e { p = f32[2] parameter(0) q = f32[2] call(p), to_apply=f w = f32[2] call(q), to_apply=g\n"
        'c = f32[2] custom-call(w), custom_call_target="t", custom_call_has_side_effect=true\n'
        'd = f32[2] custom-call(c), custom_call_target="t" z = f32[] constant(0)\n'
        "u = f32[2] rng(z, z), distribution=rng_uniform ROOT t = f32[2] add(d, u) }"
    )
    entry = module.entry_computation
    assert entry is not None
    assert [i.name for i in entry.instructions if i.has_side_effect] == ["q", "c", "u"]
