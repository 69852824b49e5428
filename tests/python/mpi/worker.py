"""What each rank of a test's job does: `mpirun -n N python worker.py TASK FOLDER`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

import hlorun
from hlorun.mpi import Group

sys.path.insert(0, str(Path(__file__).parents[1]))
from replicas.collective_cases import CASES, DTYPES

GOLDENS = Path(__file__).parents[2] / "data" / "replicas" / "goldens.npz"
FOREVER = """HloModule forever
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
always { s = f32[1000] parameter(0)
  ROOT t = pred[] constant(true) }
turn { s = f32[1000] parameter(0)
  ROOT r = f32[1000] all-reduce(s), replica_groups={}, to_apply=add }
ENTRY e { p = f32[1000] parameter(0)
  ROOT w = f32[1000] while(p), condition=always, body=turn }
"""


def leaves(value: Any) -> list[Any]:
    """The arrays of a result."""
    return [leaf for part in value for leaf in leaves(part)] if isinstance(value, tuple) else [value]


def cases(group: Group) -> None:
    """Every case agrees with what XLA:CPU gave, on the devices of every rank."""
    goldens = np.load(GOLDENS)
    for name, case in CASES.items():
        executable = hlorun.compile(
            hlorun.parse(case.text()), replicas=case.replicas, partitions=case.partitions, threads=1
        )
        local = group.devices(executable)
        inputs = case.inputs()
        results = group.run(executable, [inputs[device] for device in local])
        for device, result in zip(local, results, strict=True):
            for k, got in enumerate(leaves(result)):
                want = goldens[f"{name}/{k}"][device].view(got.dtype).reshape(got.shape)
                if case.noise:
                    bits = 7 if got.dtype == DTYPES["bf16"] else np.finfo(got.dtype).nmant
                    assert np.allclose(
                        got.astype(np.float64), want.astype(np.float64), 2.0**-bits, 8 * 2.0**-bits
                    ), name
                else:
                    assert np.array_equal(got, want), f"{name} on device {device}"
    print(f"rank {group.rank}: {len(CASES)} cases agree", flush=True)


def large(group: Group) -> None:
    """Arrays of more than one packet."""
    count = 40_000_000
    text = f"p = f32[{count}] parameter(0)\nROOT r = f32[{count}] collective-permute(p), source_target_pairs={{{{0,1}},{{1,0}}}}"
    executable = hlorun.compile(hlorun.parse(f"HloModule m\nENTRY e {{\n{text}\n}}"), replicas=2)
    (result,) = group.run(executable, [[np.arange(count, dtype=np.float32) + group.rank]])
    assert np.array_equal(result, np.arange(count, dtype=np.float32) + (1 - group.rank))
    print(f"rank {group.rank}: right", flush=True)


def forever(group: Group) -> None:
    """Meet until somebody dies."""
    folder = Path(sys.argv[2])
    (folder / f"{group.rank}.part").write_text(str(os.getpid()))
    (folder / f"{group.rank}.part").rename(folder / f"{group.rank}.pid")
    executable = hlorun.compile(hlorun.parse(FOREVER), replicas=group.size, threads=1)
    group.run(executable, [[np.zeros(1000, np.float32)]])


def failing(group: Group) -> None:
    """One rank's device fails; every rank learns why."""
    text = """p = s32[8] parameter(0)
      k = s32[4] parameter(1)
      ROOT r = s32[8] ragged-all-to-all(p, p, k, k, k, k), replica_groups={{0,1,2,3}}"""
    executable = hlorun.compile(hlorun.parse(f"HloModule m\nENTRY e {{\n{text}\n}}"), replicas=4)
    offset = 99 if group.rank == 2 else 0
    try:
        group.run(executable, [[np.zeros(8, np.int32), np.full(4, offset, np.int32)]])
    except hlorun.HloExecutionError as error:
        print(f"rank {group.rank} says: {error}", flush=True)
    # The next run is not disturbed by what the failed one left behind.
    (result,) = group.run(executable, [[np.arange(8, dtype=np.int32), np.zeros(4, np.int32)]])
    assert np.array_equal(result, np.arange(8))


def late(group: Group) -> None:
    """One rank's time is up; it raises that, the others raise that it failed."""
    executable = hlorun.compile(hlorun.parse(FOREVER), replicas=group.size, threads=1)
    try:
        group.run(executable, [[np.zeros(1000, np.float32)]], timeout=1.0 if group.rank == 1 else None)
    except hlorun.HloExecutionError as error:
        print(f"rank {group.rank} says: {type(error).__name__}: {error}", flush=True)
    # The next run is not disturbed by what the one that was ended left behind.
    text = FOREVER.replace(
        "w = f32[1000] while(p), condition=always, body=turn", "w = f32[1000] call(p), to_apply=turn"
    )
    executable = hlorun.compile(hlorun.parse(text), replicas=group.size, threads=1)
    (result,) = group.run(executable, [[np.ones(1000, np.float32)]])
    assert (result == group.size).all()


RING = """HloModule ring
ENTRY e {
  p = f32[40] parameter(0)
  after = token[] after-all()
  recv = (f32[40], u32[], token[]) recv(after), channel_id=3, frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,2},{2,3},{3,0}}}
  send = (f32[40], u32[], token[]) send(p, after), channel_id=3, frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,2},{2,3},{3,0}}}
  got = (f32[40], token[]) recv-done(recv), channel_id=3
  sent = token[] send-done(send), channel_id=3
  ROOT r = f32[40] get-tuple-element(got), index=0
}
"""


def transfers(group: Group) -> None:
    """A ring of transfers; then everybody waits for everybody."""
    executable = hlorun.compile(hlorun.parse(RING), replicas=4, threads=1)
    local = group.devices(executable)
    results = group.run(executable, [[np.full(40, device, np.float32)] for device in local])
    for device, result in zip(local, results, strict=True):
        assert (result == (device + 3) % 4).all(), device
    lines = RING.splitlines()
    send, sent = (next(line for line in lines if f" {word}(" in line) for word in ("send", "send-done"))
    stuck = [line.replace("ROOT r", "r") for line in lines if line not in (send, sent)][:-1]
    stuck += [send.replace("send(p,", "send(r,"), sent, "  ROOT c = f32[40] copy(r)", "}"]
    executable = hlorun.compile(hlorun.parse("\n".join(stuck)), replicas=4, threads=1)
    try:
        group.run(executable, [[np.zeros(40, np.float32)] for _ in local])
    except hlorun.HloExecutionError as error:
        print(f"rank {group.rank} says: {error}", flush=True)


def main() -> None:
    """Run the task; end the job when it fails."""
    group = Group()
    try:
        tasks = (cases, large, forever, failing, late, transfers)
        {task.__name__: task for task in tasks}[sys.argv[1]](group)
    except BaseException as error:
        print(f"rank {group.rank}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        group.abort()


main()
