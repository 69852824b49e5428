"""send, recv and their -done between devices."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import hlorun
from streams import Stream

RING = "{{0,1},{1,2},{2,3},{3,0}}"


def attributes(pairs: str, **more: str) -> str:
    """Frontend attributes as XLA writes them."""
    entries = {"_xla_send_recv_source_target_pairs": pairs, **more}
    return "frontend_attributes={" + ",".join(f"{k}={v}" for k, v in entries.items()) + "}"


def shift(pairs: str, *, order: str = "rRsS", channel: int = 1, control: bool = False, **more: str) -> str:
    """A pair of transfers; `order` is recv, recv-done, send, send-done as r, R, s, S."""
    where = attributes(pairs, **more)
    lines = {
        "r": f"  recv = (f32[2], u32[], token[]) recv(after), channel_id={channel}, {where}",
        "R": f"  recv-done = (f32[2], token[]) recv-done(recv), channel_id={channel}, {where}",
        "s": f"  send = (f32[2], u32[], token[]) send(p, after), channel_id={channel}, {where}"
        + (", control-predecessors={recv}" if control else ""),
        "S": f"  send-done = token[] send-done(send), channel_id={channel}, {where}",
    }
    body = "\n".join(lines[letter] for letter in order)
    return f"""HloModule m
ENTRY e {{
  p = f32[2] parameter(0)
  after = token[] after-all()
{body}
  ROOT r = f32[2] get-tuple-element(recv-done), index=0
}}"""


def run(text: str, devices: int = 4, *, partitions: bool = False) -> list[Any]:
    """Each device has its number, once and tenfold."""
    module = hlorun.parse(text)
    if partitions:
        executable = hlorun.compile(module, partitions=devices)
    else:
        executable = hlorun.compile(module, replicas=devices)
    inputs = [[np.array([d + 1, 10 * (d + 1)], np.float32)] for d in range(devices)]
    if devices == 1:
        return [executable(*inputs[0])]
    return executable.run_replicas(inputs)


def firsts(results: list[Any]) -> list[float]:
    """The first number of each device."""
    assert all(result[1] == 10 * result[0] for result in results)
    return [float(result[0]) for result in results]


@pytest.mark.parametrize("order", ["rRsS", "rsRS", "rsSR", "srRS", "sSrR"])
@pytest.mark.parametrize("partitions", [False, True])
@pytest.mark.parametrize("control", [False, True])
def test_a_ring_shifts(order: str, partitions: bool, control: bool) -> None:
    control = control and order.index("r") < order.index("s")
    text = shift(RING, order=order, control=control)
    assert firsts(run(text, partitions=partitions)) == [4, 1, 2, 3]


@pytest.mark.parametrize("pairs", ["{{0,1},{1,2}}", '"{{0,1},{1,2}}"', "{ {0, 1}, {1, 2} }"])
def test_who_receives_nothing_gets_zeros(pairs: str) -> None:
    assert firsts(run(shift(pairs, order="rsRS"))) == [0, 1, 2, 0]


def test_absent_devices_send_zeros_and_explain_says_so() -> None:
    text = shift(RING, order="rsRS")
    assert firsts(run(text, 1)) == [0]
    assert firsts(run(text, 2)) == [0, 1]
    plan = hlorun.compile(hlorun.parse(text)).explain()
    assert "recv-done: 4 of its pairs name devices that do not run" in plan
    assert "do not run" not in hlorun.compile(hlorun.parse(text), replicas=4).explain()


def test_partitions_of_each_replica() -> None:
    text = shift("{{0,1}}", order="rsRS")
    executable = hlorun.compile(hlorun.parse(text), replicas=2, partitions=2)
    inputs = [[np.full(2, d + 1, np.float32)] for d in range(4)]
    assert [float(out[0]) for out in executable.run_replicas(inputs)] == [0, 1, 0, 3]
    text = shift("{{0,1}}", order="rsRS", channel=0)
    executable = hlorun.compile(hlorun.parse(text), replicas=2, partitions=2)
    assert [float(out[0]) for out in executable.run_replicas(inputs)] == [0, 0, 1, 2]


PIPELINE = """HloModule pipeline
cond {
  s = (u32[], f32[2], (f32[2], u32[], token[])) parameter(0)
  i = u32[] get-tuple-element(s), index=0
  n = u32[] constant(TRIPS)
  ROOT lt = pred[] compare(i, n), direction=LT
}
body {
  s = (u32[], f32[2], (f32[2], u32[], token[])) parameter(0)
  i = u32[] get-tuple-element(s), index=0
  v = f32[2] get-tuple-element(s), index=1
  r = (f32[2], u32[], token[]) get-tuple-element(s), index=2
  done = (f32[2], token[]) recv-done(r), channel_id=1, ATTRIBUTES
  got = f32[2] get-tuple-element(done), index=0
  w = f32[2] add(v, got)
  after = token[] after-all()
  recv = (f32[2], u32[], token[]) recv(after), channel_id=1, ATTRIBUTES
  send = (f32[2], u32[], token[]) send(w, after), channel_id=1, ATTRIBUTES, control-predecessors={recv}
  send-done = token[] send-done(send), channel_id=1
  one = u32[] constant(1)
  j = u32[] add(i, one)
  ROOT t = (u32[], f32[2], (f32[2], u32[], token[])) tuple(j, w, recv)
}
ENTRY e {
  p = f32[2] parameter(0)
  zero = u32[] constant(0)
  after = token[] after-all()
  recv = (f32[2], u32[], token[]) recv(after), channel_id=1, ATTRIBUTES
  send = (f32[2], u32[], token[]) send(p, after), channel_id=1, ATTRIBUTES, control-predecessors={recv}
  send-done = token[] send-done(send), channel_id=1
  s = (u32[], f32[2], (f32[2], u32[], token[])) tuple(zero, p, recv)
  w = (u32[], f32[2], (f32[2], u32[], token[])) while(s), condition=cond, body=body
  r = (f32[2], u32[], token[]) get-tuple-element(w), index=2
  done = (f32[2], token[]) recv-done(r), channel_id=1, ATTRIBUTES
  last = f32[2] get-tuple-element(done), index=0
  v = f32[2] get-tuple-element(w), index=1
  ROOT out = (f32[2], f32[2]) tuple(v, last)
}
"""


@pytest.mark.parametrize("trips", [0, 1, 5])
@pytest.mark.parametrize("bare", [False, True])
def test_a_pipelined_loop(trips: int, bare: bool) -> None:
    pairs = attributes("{{0,1},{1,2},{2,3}}")
    text = PIPELINE.replace("TRIPS", str(trips)).replace("ATTRIBUTES", pairs)
    if bare:
        # A recv-done may leave its pairs to the recv of its channel.
        text = "\n".join(
            line.replace(", " + pairs, "") if "recv-done(" in line else line for line in text.splitlines()
        )
    values = [np.array([d + 1, 10 * (d + 1)], np.float32) for d in range(4)]
    zero = np.zeros(2, np.float32)
    incoming = [zero, *values[:-1]]
    for _ in range(trips):
        values = [a + b for a, b in zip(values, incoming, strict=True)]
        incoming = [zero, *values[:-1]]
    for got, value, last in zip(run(text), values, incoming, strict=True):
        np.testing.assert_array_equal(got[0], value)
        np.testing.assert_array_equal(got[1], last)


LOOP = """HloModule bounded
cond {
  s = (u32[], f32[2], f32[2]) parameter(0)
  i = u32[] get-tuple-element(s), index=0
  n = u32[] constant(6)
  ROOT lt = pred[] compare(i, n), direction=LT
}
body {
  s = (u32[], f32[2], f32[2]) parameter(0)
  i = u32[] get-tuple-element(s), index=0
  p = f32[2] get-tuple-element(s), index=1
  sum = f32[2] get-tuple-element(s), index=2
  after = token[] after-all()
  recv = (f32[2], u32[], token[]) recv(after), channel_id=2, ATTRIBUTES
  send = (f32[2], u32[], token[]) send(p, after), channel_id=2, ATTRIBUTES
  recv-done = (f32[2], token[]) recv-done(recv), channel_id=2, ATTRIBUTES
  send-done = token[] send-done(send), channel_id=2, ATTRIBUTES
  got = f32[2] get-tuple-element(recv-done), index=0
  more = f32[2] add(sum, got)
  one = u32[] constant(1)
  j = u32[] add(i, one)
  ROOT t = (u32[], f32[2], f32[2]) tuple(j, p, more)
}
ENTRY e {
  p = f32[2] parameter(0)
  zero = u32[] constant(0)
  none = f32[] constant(0)
  start = f32[2] broadcast(none), dimensions={}
  s = (u32[], f32[2], f32[2]) tuple(zero, p, start)
  w = (u32[], f32[2], f32[2]) while(s), condition=cond, body=body
  ROOT r = f32[2] get-tuple-element(w), index=2
}
"""


@pytest.mark.parametrize(
    ("validation", "want"),
    [(None, [24, 6, 12, 18]), ("{{0,5},{1,5},{2,3},{5,9}}", [4, 6, 10, 6]), ('"invalid"', [0, 0, 0, 0])],
)
def test_bounds_say_in_which_executions_a_pair_sends(validation: str | None, want: list[float]) -> None:
    more = {} if validation is None else {"_xla_send_recv_validation": validation}
    text = LOOP.replace("ATTRIBUTES", attributes(RING, **more))
    assert firsts(run(text)) == want


def test_messages_of_one_channel_stay_in_order() -> None:
    where = attributes("{{0,1}}")
    text = f"""HloModule m
ENTRY e {{
  p = f32[2] parameter(0)
  q = f32[2] add(p, p)
  after = token[] after-all()
  s1 = (f32[2], u32[], token[]) send(p, after), channel_id=7, {where}
  s2 = (f32[2], u32[], token[]) send(q, after), channel_id=7, {where}
  r1 = (f32[2], u32[], token[]) recv(after), channel_id=7, {where}
  d1 = (f32[2], token[]) recv-done(r1), channel_id=7, {where}
  r2 = (f32[2], u32[], token[]) recv(after), channel_id=7, {where}
  d2 = (f32[2], token[]) recv-done(r2), channel_id=7, {where}
  t1 = token[] send-done(s1), channel_id=7
  t2 = token[] send-done(s2), channel_id=7
  a = f32[2] get-tuple-element(d1), index=0
  b = f32[2] get-tuple-element(d2), index=0
  ROOT r = (f32[2], f32[2]) tuple(a, b)
}}"""
    first, second = run(text, 2)[1]
    assert (first[0], second[0]) == (1, 2)


def test_a_send_nobody_receives_is_an_error() -> None:
    where = attributes("{{0,1}}")
    text = f"""HloModule m
ENTRY e {{
  p = f32[2] parameter(0)
  after = token[] after-all()
  s = (f32[2], u32[], token[]) send(p, after), channel_id=5, {where}
  d = token[] send-done(s), channel_id=5, {where}
  ROOT c = f32[2] copy(p)
}}"""
    message = "replica 0 has sent on channel 5 what replica 1 never received"
    with pytest.raises(hlorun.HloExecutionError, match=message):
        run(text, 2)


def test_a_receive_nobody_sends_is_an_error_in_time() -> None:
    where = attributes("{{0,1}}")
    text = f"""HloModule m
ENTRY e {{
  p = f32[2] parameter(0)
  after = token[] after-all()
  recv = (f32[2], u32[], token[]) recv(after), channel_id=1, {where}
  done = (f32[2], token[]) recv-done(recv), channel_id=1, {where}
  ROOT r = f32[2] get-tuple-element(done), index=0
}}"""
    start = time.monotonic()
    # Replica 0 may have ended by then, or not.
    with pytest.raises(hlorun.HloExecutionError, match=r"recv-done done.* replica (1 waits|0 has ended)"):
        run(text, 2)
    assert time.monotonic() - start < 5


def test_a_circle_of_waiting_devices_is_an_error_in_time() -> None:
    # Each sends what it has received: nobody can begin.
    text = shift("{{0,1},{1,0}}", order="rRsS").replace("send(p,", "send(got,")
    text = text.replace("  send =", "  got = f32[2] get-tuple-element(recv-done), index=0\n  send =")
    with pytest.raises(hlorun.HloExecutionError, match="waits in recv-done"):
        run(text, 2)


def test_shapes_of_both_sides_must_agree() -> None:
    where = attributes("{{0,1}}")
    text = f"""HloModule m
ENTRY e {{
  p = f32[2] parameter(0)
  after = token[] after-all()
  send = (f32[2], u32[], token[]) send(p, after), channel_id=1, {where}
  recv = (f32[3], u32[], token[]) recv(after), channel_id=1, {where}
  done = (f32[3], token[]) recv-done(recv), channel_id=1, {where}
  sent = token[] send-done(send), channel_id=1
  ROOT r = f32[3] get-tuple-element(done), index=0
}}"""
    with pytest.raises(hlorun.HloExecutionError, match="replica 0 sent 8 bytes where 12 are received"):
        run(text, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda t: t.replace("channel_id=1,", "channel_id=1, is_host_transfer=true,"),
            "is_host_transfer=true",
        ),
        (
            lambda t: t.replace(
                "frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,0}}}",
                'frontend_attributes={a="b"}',
            ),
            "_xla_send_recv_source_target_pairs",
        ),
        (lambda t: t.replace("{{0,1},{1,0}}", "{{0,1},{1}}"), "cannot be read"),
        (lambda t: t.replace("{{0,1},{1,0}}", "{{0,1},{2,1},{3,1},{1,1}}"), "receives twice"),
        (
            lambda t: t.replace("{{0,1},{1,0}}", "{{0,1},{1,0}},_xla_send_recv_validation={{0,1}}"),
            "1 bounds for 2 pairs",
        ),
    ],
)
def test_what_cannot_be_is_named(change: Any, message: str) -> None:
    text = change(shift("{{0,1},{1,0}}", order="rsRS"))
    with pytest.raises(hlorun.HloUnsupportedError, match=message):
        hlorun.compile(hlorun.parse(text), replicas=2)


SLICES = """HloModule m
ENTRY e {
  input = f32[4,6] parameter(0)
  output = f32[4,8] parameter(1)
  a = s32[] parameter(2)
  b = s32[] parameter(3)
  from = (s32[], s32[]) tuple(a, b)
  to = (s32[], s32[]) tuple(b, a)
  ROOT r = f32[4,8] collective-permute(input, output, from, to), source_target_pairs={{0,1},{1,2}}, slice_sizes={{2,3}}
}"""


@pytest.mark.parametrize("devices", [1, 3])
@pytest.mark.parametrize("is_async", [False, True])
def test_slices_permute_in_place(devices: int, is_async: bool) -> None:
    text = SLICES
    if is_async:
        text = text.replace(
            "ROOT r = f32[4,8] collective-permute(",
            "s = (f32[4,6], f32[4,8], u32[], u32[]) collective-permute-start(",
        )
        text = text[:-1] + "  ROOT r = f32[4,8] collective-permute-done(s)\n}"
    stream = Stream("slices permute")
    inputs: list[list[Any]] = []
    for d in range(devices):
        big = [stream.normal(s) for s in ((4, 6), (4, 8))]
        # The last device's are beyond the end, and are clamped.
        inputs.append([*big, np.int32(1 + 5 * (d == 2)), np.int32(d)])
    executable = hlorun.compile(hlorun.parse(text), replicas=devices)
    got = executable.run_replicas(inputs) if devices > 1 else [executable(*inputs[0])]
    for d in range(devices):
        want = inputs[d][1].copy()
        if d > 0:
            data, _, a, b = inputs[d - 1]
            row, column = min(int(inputs[d][3]), 2), min(int(inputs[d][2]), 5)
            want[row : row + 2, column : column + 3] = data[a : a + 2, b : b + 3]
        np.testing.assert_array_equal(got[d], want)


def test_several_slices_permute_in_place() -> None:
    text = """HloModule m
ENTRY e {
  a = f32[4] parameter(0)
  b = s32[6] parameter(1)
  one = s32[] constant(1)
  two = s32[] constant(2)
  input = (f32[4], s32[6]) tuple(a, b)
  from1 = (s32[]) tuple(one)
  from2 = (s32[]) tuple(two)
  from = ((s32[]), (s32[])) tuple(from1, from2)
  to = ((s32[]), (s32[])) tuple(from2, from1)
  ROOT r = (f32[4], s32[6]) collective-permute(input, input, from, to), source_target_pairs={{0,1},{1,0}}, slice_sizes={{2},{3}}
}"""
    inputs = [
        [np.arange(4, dtype=np.float32) + 10 * d, np.arange(6, dtype=np.int32) + 100 * d] for d in range(2)
    ]
    got = hlorun.compile(hlorun.parse(text), replicas=2).run_replicas(inputs)
    np.testing.assert_array_equal(got[0][0], [0, 1, 11, 12])
    np.testing.assert_array_equal(got[0][1], [0, 102, 103, 104, 4, 5])
    np.testing.assert_array_equal(got[1][0], [10, 11, 1, 2])
    np.testing.assert_array_equal(got[1][1], [100, 2, 3, 4, 104, 105])
