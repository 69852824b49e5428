"""Replicas and partitions in one process, against what XLA:CPU gave on eight devices."""

from __future__ import annotations

import os
import re
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hlorun
from conftest import dump_path
from replicas.collective_cases import CASES, DTYPES, Case
from streams import Stream

GOLDENS = np.load(Path(__file__).parents[1] / "data" / "replicas" / "goldens.npz")


def leaves(value: Any) -> list[Any]:
    """The arrays of a result."""
    return [leaf for part in value for leaf in leaves(part)] if isinstance(value, tuple) else [value]


def run(case: Case, threads: int | None = None) -> list[list[Any]]:
    """What each device gives."""
    executable = hlorun.compile(
        hlorun.parse(case.text()), replicas=case.replicas, partitions=case.partitions, threads=threads
    )
    return [leaves(result) for result in executable.run_replicas(case.inputs())]


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 60
    assert {key.split("/")[0] for key in GOLDENS.files} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_xla(name: str) -> None:
    case = CASES[name]
    for device, results in enumerate(run(case)):
        for k, got in enumerate(results):
            want = GOLDENS[f"{name}/{k}"][device].view(got.dtype).reshape(got.shape)
            if case.noise:
                bits = 7 if got.dtype == DTYPES["bf16"] else np.finfo(got.dtype).nmant
                np.testing.assert_allclose(
                    got.astype(np.float64), want.astype(np.float64), rtol=2.0**-bits, atol=8 * 2.0**-bits
                )
            else:
                np.testing.assert_array_equal(got, want, f"device {device}, output {k}")


def test_the_number_of_threads_changes_no_bit() -> None:
    case = CASES["all-reduce-noise-f32"]
    first = run(case, threads=1)
    for threads in (2, 16):
        for _ in range(3):
            for a, b in zip(first, run(case, threads=threads), strict=True):
                assert a[0].tobytes() == b[0].tobytes()
    assert len({device[0].tobytes() for device in first}) == 1


def module(body: str, *, called: str = "") -> hlorun.HloModule:
    """A module of an entry."""
    return hlorun.parse(
        "HloModule m\nadd { a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT c = s32[] add(a, b) }\n"
        f"{called}ENTRY entry {{\n{body}\n}}\n"
    )


def test_broadcast_sends_the_first_of_each_group() -> None:
    text = "p = s32[3] parameter(0)\nROOT r = s32[3] collective-broadcast(p), replica_groups={{2,0},{1,3}}"
    inputs = [[np.arange(3, dtype=np.int32) + 10 * r] for r in range(6)]
    got = hlorun.compile(module(text), replicas=6).run_replicas(inputs)
    for device, source in enumerate((2, 1, 2, 1)):
        np.testing.assert_array_equal(got[device], inputs[source][0])
    for device in (4, 5):
        np.testing.assert_array_equal(got[device], np.zeros(3, np.int32))


@pytest.mark.parametrize("per_peer", [1, 2])
def test_ragged_all_to_all(per_peer: int) -> None:
    n, rows = 4, 24
    count = n * per_peer
    text = f"""
      p0 = f32[{rows},3] parameter(0)
      p1 = f32[{rows},3] parameter(1)
      p2 = s32[{count}] parameter(2)
      p3 = s32[{count}] parameter(3)
      p4 = s32[{count}] parameter(4)
      p5 = s32[{count}] parameter(5)
      ROOT r = f32[{rows},3] ragged-all-to-all(p0, p1, p2, p3, p4, p5), replica_groups={{{{0,2,1,3}}}}"""
    stream = Stream("ragged", per_peer)
    order = [0, 2, 1, 3]
    inputs: list[list[Any]] = []
    for device in range(n):
        sizes = stream.integers(0, 3, count).astype(np.int32)
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int32)
        place = order.index(device)
        targets = np.array([place * 6 + 3 * (i % per_peer) for i in range(count)], np.int32)
        data = stream.normal((rows, 3))
        inputs.append([data, np.full((rows, 3), device, np.float32), starts, sizes, targets, sizes])
    want = [inputs[device][1].copy() for device in range(n)]
    for sender in order:
        data, _, starts, sizes, targets, _ = inputs[sender]
        for i in range(count):
            rows_sent = data[starts[i] : starts[i] + sizes[i]]
            want[order[i // per_peer]][targets[i] : targets[i] + sizes[i]] = rows_sent
    got = hlorun.compile(module(text), replicas=n).run_replicas(inputs)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)
    inputs[1][2] = np.full(count, rows, np.int32)
    inputs[1][3] = np.ones(count, np.int32)
    with pytest.raises(hlorun.HloExecutionError, match=r"ragged-all-to-all r: rows 24 to 25 are sent"):
        hlorun.compile(module(text), replicas=n).run_replicas(inputs)


def test_any_computation_combines_in_the_order_of_the_group() -> None:
    called = "f { x = s32[] parameter(0)\n y = s32[] parameter(1)\n k = s32[] constant(10)\n m = s32[] multiply(x, k)\n ROOT s = s32[] add(m, y) }\n"
    text = (
        "p = s32[70] parameter(0)\nROOT r = s32[70] all-reduce(p), replica_groups={{3,1},{0,2}}, to_apply=f"
    )
    inputs = [[np.full(70, r + 1, np.int32)] for r in range(4)]
    got = hlorun.compile(module(text, called=called), replicas=4).run_replicas(inputs)
    assert [int(device[0]) for device in got] == [13, 42, 13, 42]
    assert all((device == device[0]).all() for device in got)


def test_collectives_in_loops_and_branches() -> None:
    called = """
cond { s = (s32[], s32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT t = pred[] compare(i, n), direction=LT }
yes { v = s32[4] parameter(0)
  ROOT a = s32[4] all-reduce(v), replica_groups={}, to_apply=add }
no { v = s32[4] parameter(0)
  ROOT n = s32[4] negate(v) }
body { s = (s32[], s32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = s32[4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  two = s32[] constant(2)
  m = s32[] remainder(i, two)
  zero = s32[] constant(0)
  even = pred[] compare(m, zero), direction=EQ
  w = s32[4] conditional(even, v, v), true_computation=yes, false_computation=no
  ROOT r = (s32[], s32[4]) tuple(j, w) }
"""
    text = """p = s32[4] parameter(0)
      z = s32[] constant(0)
      s = (s32[], s32[4]) tuple(z, p)
      w = (s32[], s32[4]) while(s), condition=cond, body=body
      ROOT r = s32[4] get-tuple-element(w), index=1"""
    got = hlorun.compile(module(text, called=called), replicas=3).run_replicas(
        [[np.arange(4, dtype=np.int32) + r] for r in range(3)]
    )
    total = sum(np.arange(4) + r for r in range(3))
    for device in got:
        np.testing.assert_array_equal(device, total * 9)


DIVERGENT = """
yes { v = s32[4] parameter(0)
  ROOT a = s32[4] all-reduce(v), replica_groups={}, to_apply=add }
no { v = s32[4] parameter(0)
  ROOT n = s32[4] NO }
"""
CHOICE = """p = s32[4] parameter(0)
  q = pred[] parameter(1)
  ROOT w = s32[4] conditional(q, p, p), true_computation=yes, false_computation=no"""


def test_a_device_that_never_comes_is_an_error() -> None:
    called = DIVERGENT.replace("NO", "negate(v)")
    executable = hlorun.compile(module(CHOICE, called=called), replicas=3)
    p = np.ones(4, np.int32)
    with pytest.raises(hlorun.HloExecutionError, match=r"all-reduce a.*replica 1.*has ended its run without"):
        executable.run_replicas([[p, True], [p, False], [p, True]])
    got = executable.run_replicas([[p, False]] * 3)
    np.testing.assert_array_equal(got[2], -p)


def test_devices_that_wait_for_each_other_are_an_error() -> None:
    called = DIVERGENT.replace("NO", "all-reduce(v), replica_groups={}, to_apply=add")
    executable = hlorun.compile(module(CHOICE, called=called), replicas=2)
    p = np.ones(4, np.int32)
    with pytest.raises(hlorun.HloExecutionError, match=r"waits in all-reduce [an].*waits in all-reduce [na]"):
        executable.run_replicas([[p, True], [p, False]])


def test_a_failing_device_ends_the_others() -> None:
    called = """
forever { s = s32[] parameter(0)
  ROOT t = pred[] constant(true) }
same { s = s32[] parameter(0)
  ROOT c = s32[] copy(s) }
spin { v = s32[8,1] parameter(0)
  z = s32[] constant(0)
  w = s32[] while(z), condition=forever, body=same
  b = s32[8,1] broadcast(w), dimensions={}
  ROOT r = s32[8,1] add(v, b) }
fail { v = s32[8,1] parameter(0)
  k = s32[2] constant({99, 99})
  ROOT r = s32[8,1] ragged-all-to-all(v, v, k, k, k, k), replica_groups={{0},{1}} }
"""
    called = called.replace("s32[2] constant({99, 99})", "s32[1] constant({99})")
    text = """p = s32[8,1] parameter(0)
      q = pred[] parameter(1)
      ROOT w = s32[8,1] conditional(q, p, p), true_computation=spin, false_computation=fail"""
    executable = hlorun.compile(module(text, called=called), replicas=2)
    p = np.ones((8, 1), np.int32)
    with pytest.raises(hlorun.HloExecutionError, match="rows 99 to 198 are sent"):
        executable.run_replicas([[p, True], [p, False]])


@pytest.mark.parametrize("name", ["all-reduce-async", "all-gather-async", "permute-async"])
def test_asynchronous_pairs_stay_apart(name: str) -> None:
    case = CASES[name]
    plan = hlorun.compile(hlorun.parse(case.text()), replicas=8).explain()
    assert "1 x collective start" in plan
    assert "1 x collective," in plan or "1 x collective\n" in plan


def test_a_start_that_is_read_is_finished_at_once() -> None:
    text = """p = s32[4] parameter(0)
      s = s32[4] all-reduce-start(p), replica_groups={}, to_apply=add
      d = s32[4] all-reduce-done(s)
      e = s32[4] all-reduce-done(s)
      ROOT r = s32[4] add(d, e)"""
    p = np.arange(4, dtype=np.int32)
    for got in hlorun.compile(module(text), replicas=3).run_replicas([[p]] * 3):
        np.testing.assert_array_equal(got, 6 * p)


def test_groups_that_do_not_run_are_errors() -> None:
    gather = "p = f32[1] parameter(0)\nROOT r = f32[8] all-gather(p), dimensions={0}, replica_groups={{0,1,2,3,4,5,6,7}}"
    with pytest.raises(hlorun.HloUnsupportedError, match="groups of 8 devices, but 2"):
        hlorun.compile(module(gather), replicas=2)
    one = "p = s32[1] parameter(0)\nROOT r = s32[1] all-reduce(p), replica_groups={{0,1}}, to_apply=add"
    p = np.ones(1, np.int32)
    with pytest.raises(hlorun.HloExecutionError, match="all-reduce r: replica 2 is in none of its groups"):
        hlorun.compile(module(one), replicas=3).run_replicas([[p]] * 3)


@pytest.mark.parametrize(
    ("axes", "groups"),
    [
        ("mesh['x'=2,'y'=2] {'y'}", [[0, 1], [2, 3]]),
        ("mesh['x'=2,'y'=2] {'x'}", [[0, 2], [1, 3]]),
        ("mesh['x'=2,'y'=2], device_ids=(3,1,2,0) {'y'}", [[3, 1], [2, 0]]),
        ("mesh['x'=4] {'x':(1)2}", [[0, 2], [1, 3]]),
    ],
)
def test_groups_of_mesh_axes(axes: str, groups: list[list[int]]) -> None:
    text = f"p = s32[1] parameter(0)\nROOT r = s32[2] all-gather(p), dimensions={{0}}, replica_groups={axes}"
    inputs = [[np.array([r], np.int32)] for r in range(4)]
    got = hlorun.compile(module(text), replicas=4).run_replicas(inputs)
    for group in groups:
        for device in group:
            assert got[device].tolist() == group


def test_a_program_for_more_replicas_spans_those_that_run() -> None:
    text = "p = s32[1] parameter(0)\nROOT r = s32[1] all-reduce(p), replica_groups={{0,1,2,3},{4,5,6,7}}, to_apply=add"
    p = np.ones(1, np.int32)
    assert hlorun.compile(module(text))(p) == 1
    assert [int(r[0]) for r in hlorun.compile(module(text), replicas=6).run_replicas([[p]] * 6)] == [
        4
    ] * 4 + [2] * 2


def test_arguments_are_checked() -> None:
    text = "p = s32[1] parameter(0)\nROOT r = s32[1] negate(p)"
    executable = hlorun.compile(module(text), replicas=2)
    p = np.ones(1, np.int32)
    assert (executable.replicas, executable.partitions) == (2, 1)
    for wrong, message in (
        ([[p]], "expects 2 lists of values, got 1"),
        ([[p], [p, p]], "expects 1 argument "),
        ([p, p], "a list of values for each replica"),
        ([[p], [np.ones(2, np.int32)]], "replica 1: argument 0"),
    ):
        with pytest.raises(hlorun.HloArgumentError, match=message):
            executable.run_replicas(wrong)
    with pytest.raises(hlorun.HloArgumentError, match="compiled for 2 replicas"):
        executable(p)
    wrong_counts: list[dict[str, Any]] = [
        {"replicas": 0},
        {"partitions": 0},
        {"replicas": 1 << 31, "partitions": 1 << 31},
    ]
    for counts in wrong_counts:
        with pytest.raises(ValueError, match="replicas"):
            hlorun.compile(
                module(text), replicas=counts.get("replicas", 1), partitions=counts.get("partitions", 1)
            )


def test_shared_inputs_are_held_once() -> None:
    import resource

    text = "p = f32[6000000] parameter(0)\nz = f32[] constant(0)\ns = f32[2] slice(p), slice={[0:2]}\nROOT r = f32[2] negate(s)"
    executable = hlorun.compile(hlorun.parse(f"HloModule m\nENTRY e {{\n{text}\n}}"), replicas=8)
    # Not contiguous, so that it must be copied: once, not eight times.
    p = np.ones(12_000_000, np.float32)[::2]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    executable.run_replicas([[p]] * 8)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 3 * p.nbytes / 1024


STEP = """HloModule step
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e {
  weights = f32[300,400] parameter(0)
  x = f32[10,300] parameter(1)
  y = f32[10,400] dot(x, weights), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  g = f32[300,400] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  sum = f32[300,400] all-reduce(g), replica_groups={}, to_apply=add
  next = f32[300,400] subtract(weights, sum)
  ROOT r = (f32[300,400], f32[10,400]) tuple(next, y)
}
"""


def test_what_is_the_same_everywhere_is_one_read_only_array() -> None:
    n = 4
    stream = Stream("step")
    weights = stream.normal((300, 400))
    batches = [stream.normal((10, 300)) for _ in range(n)]
    module = hlorun.parse(STEP)
    shared = hlorun.compile(module, replicas=n)
    each = hlorun.compile(module, replicas=n, disable=["replicated-values"])
    a = shared.run_replicas([[weights, batch] for batch in batches])
    b = each.run_replicas([[weights, batch] for batch in batches])
    c = shared.run_replicas([[weights.copy(), batch] for batch in batches])
    for device in range(n):
        for x, y, z in zip(a[device], b[device], c[device], strict=True):
            assert x.tobytes() == y.tobytes() == z.tobytes()
        assert a[device][0] is a[0][0]
        assert not a[device][0].flags.writeable
        assert a[device][1].flags.writeable
        assert b[device][0].flags.writeable
        assert device == 0 or not np.shares_memory(b[device][0], b[0][0])
        assert device == 0 or not np.shares_memory(c[device][0], c[0][0])
    with pytest.raises(ValueError, match="read-only"):
        a[0][0][0, 0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        a[0][0].flags.writeable = True
    # The next step finds one array for all again.
    d = shared.run_replicas([[a[device][0], batches[device]] for device in range(n)])
    assert d[0][0] is d[1][0]


def test_runs_overlap() -> None:
    case = CASES["all-reduce-chain"]
    executable = hlorun.compile(hlorun.parse(case.text()), replicas=8)
    want = [leaves(r)[0].tobytes() for r in executable.run_replicas(case.inputs())]
    wrong: list[int] = []

    def work() -> None:
        for _ in range(20):
            got = [leaves(r)[0].tobytes() for r in executable.run_replicas(case.inputs())]
            wrong.extend(k for k in range(8) if got[k] != want[k])

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_more_replicas_than_cores() -> None:
    text = "p = s32[3] parameter(0)\na = s32[3] all-reduce(p), to_apply=add\nROOT r = s32[3] all-reduce(a), to_apply=add"
    p = np.ones(3, np.int32)
    start = time.monotonic()
    got = hlorun.compile(module(text), replicas=64).run_replicas([[p]] * 64)
    assert all((r == 64 * 64).all() for r in got)
    assert time.monotonic() - start < 30


def returning_sums(source: hlorun.HloModule) -> tuple[hlorun.HloModule, list[str], list[str]]:
    """The module with all results of its all-reduces as its result, their names, and those of them
    that no other one feeds."""
    entry = source.entry_computation
    assert entry is not None
    sums = [i for i in entry.instructions if i.opcode == "all-reduce"]
    names = {i.name for i in sums}
    unfed = []
    for found in sums:
        work, seen = list(found.operands), set()
        while work:
            instruction = work.pop()
            if instruction.name not in seen:
                seen.add(instruction.name)
                work.extend(instruction.operands)
        if not seen & names:
            unfed.append(found.name)
    lines = source.source.decode().split("\n")
    start = next(n for n, line in enumerate(lines) if line.startswith("ENTRY"))
    end = next(n for n in range(start, len(lines)) if lines[n].startswith("}"))
    lines[start] = lines[start].split(" (")[0] + " {"
    root = next(n for n in range(start, end) if lines[n].lstrip().startswith("ROOT"))
    lines[root] = lines[root].replace("ROOT ", "", 1)
    shapes = ", ".join(str(i.shape) for i in sums)
    operands = ", ".join(f"%{i.name}" for i in sums)
    lines.insert(end, f"  ROOT %sums = ({shapes}) tuple({operands})")
    lines[0] = re.match(r"HloModule [^,]*", lines[0])[0]  # type: ignore[index]
    return hlorun.parse("\n".join(lines)), [i.name for i in sums], unfed


@pytest.mark.parametrize("number", ["003", "004"])
def test_sums_over_equal_replicas_are_eight_times_one(number: str) -> None:
    if number == "004" and not os.environ.get("HLORUN_TEST_LARGE"):
        pytest.skip("takes 9 GB and a minute: set HLORUN_TEST_LARGE=1")
    from hlorun._inputs import random_inputs

    source, names, unfed = returning_sums(hlorun.load(dump_path(number)))
    assert unfed
    inputs = random_inputs(source, 1)
    one = hlorun.compile(source)(*inputs)
    eight = hlorun.compile(source, replicas=8).run_replicas([inputs] * 8)
    for k, name in enumerate(names):
        for device in eight[1:]:
            for a, b in zip(leaves(eight[0][k]), leaves(device[k]), strict=True):
                assert a.tobytes() == b.tobytes(), name
        if name in unfed:
            for a, b in zip(leaves(one[k]), leaves(eight[0][k]), strict=True):
                np.testing.assert_allclose(b, 8 * a, rtol=1e-5, atol=1e-6 * np.abs(8 * a).max())


def test_reducing_in_place_keeps_what_is_read_twice() -> None:
    # Sums of sums, of a value that is used again, and of one value twice.
    text = """p = s32[70] parameter(0)
      a = s32[70] add(p, p)
      x = s32[70] all-reduce(a), replica_groups={}, to_apply=add
      y = s32[70] all-reduce(x), replica_groups={}, to_apply=add
      z = (s32[70], s32[70]) all-reduce(x, x), replica_groups={}, to_apply=add
      z0 = s32[70] get-tuple-element(z), index=0
      z1 = s32[70] get-tuple-element(z), index=1
      ROOT r = (s32[70], s32[70], s32[70], s32[70], s32[70]) tuple(a, x, y, z0, z1)"""
    base = [np.arange(70, dtype=np.int32) + 100 * r for r in range(3)]
    for r, got in enumerate(hlorun.compile(module(text), replicas=3).run_replicas([[b] for b in base])):
        total = 2 * sum(base)
        for value, want in zip(got, (2 * base[r], total, 3 * total, 3 * total, 3 * total), strict=True):
            np.testing.assert_array_equal(value, want)
