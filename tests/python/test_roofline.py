"""Least times on devices, what bounds them, and collectives: every expectation worked out by hand."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

import hlorun
from conftest import dump_path
from hlorun.report.collectives import SENT
from hlorun.report.devices import DEVICES, device
from hlorun.report.planned import CLASSES, Planned
from hlorun.report.probes import probes
from hlorun.report.rollup import BY
from test_cli import hlorun as command
from test_graph import GATHER

DEVICE = hlorun.Device("d", {"f32": 1e9, "tf32": 4e9, "bf16": 1e10}, 1e8, 1e9, 1e6)
ADD = "a { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT t = f32[] add(x, y) }\n"
LOOP = """HloModule m
f { a = f32[64,64] parameter(0)
 d = f32[64,64] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={source_file="n.py" source_line=1}
 ROOT e = f32[64,64] negate(d), metadata={source_file="n.py" source_line=2} }
b { t = (s32[], f32[64,64]) parameter(0)
 i = s32[] get-tuple-element(t), index=0
 v = f32[64,64] get-tuple-element(t), index=1
 o = s32[] constant(1)
 j = s32[] add(i, o)
 w = f32[64,64] fusion(v), kind=kOutput, calls=f, metadata={source_file="n.py" source_line=2}
 ROOT r = (s32[], f32[64,64]) tuple(j, w) }
c { t = (s32[], f32[64,64]) parameter(0)
 i = s32[] get-tuple-element(t), index=0
 n = s32[] constant(10)
 ROOT l = pred[] compare(i, n), direction=LT }
ENTRY e { p = f32[64,64] parameter(0)
 z = s32[] constant(0)
 t = (s32[], f32[64,64]) tuple(z, p)
 w = (s32[], f32[64,64]) while(t), condition=c, body=b
 ROOT y = f32[64,64] get-tuple-element(w), index=1 }
"""


def collective(text: str, header: str = "replica_count=8") -> hlorun.Collective:
    module = hlorun.parse(f"HloModule m, {header}\n{ADD}ENTRY e {{ p = f32[1024] parameter(0)\n {text} }}")
    (found,) = hlorun.collectives(module, DEVICE).collectives
    return found


def step(text: str) -> Any:
    module = hlorun.parse(f"HloModule m\nENTRY e {{ p = {text} }}")
    return hlorun.roofline(module, DEVICE).steps[0]


def test_a_loop_of_a_fusion_by_hand() -> None:
    found = hlorun.roofline(hlorun.parse(LOOP), DEVICE)
    product, negation = 2 * 64**3 / 4e9, 64 * 64 / 1e8
    groups = {group.key: group for group in found.groups}
    assert groups["n.py:1"].seconds == pytest.approx(10 * product)
    assert groups["n.py:2"].seconds == pytest.approx(10 * negation)
    assert groups["n.py:2"].bytes_accessed == 10 * 2 * 4 * 64 * 64
    assert {groups["n.py:1"].bound, groups["n.py:2"].bound} == {"compute"}
    assert found.seconds == pytest.approx(sum(group.seconds for group in found.groups))
    assert found.seconds == pytest.approx(found.compute + found.memory + found.interconnect)


@pytest.mark.parametrize(
    ("text", "bound", "seconds"),
    [
        ("f32[1000] parameter(0)\n ROOT r = f32[1000] negate(p)", "compute", 1000 / 1e8),
        ("f32[1000] parameter(0)\n ROOT r = f32[1000] reverse(p), dimensions={0}", "memory", 8000 / 1e9),
        (
            "bf16[8,8] parameter(0)\n ROOT r = bf16[8,8] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
            "memory",
            3 * 128 / 1e9,
        ),
        (
            "f32[64,64] parameter(0)\n ROOT r = f32[64,64] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
            "operand_precision={highest,highest}",
            "compute",
            2 * 64**3 / 1e9,
        ),
    ],
)
def test_steps_by_hand(text: str, bound: str, seconds: float) -> None:
    found = step(text)
    assert (found.bound, found.seconds) == (bound, pytest.approx(seconds))


def test_custom_calls_nobody_knows_move_their_operands_and_results() -> None:
    text = 'f32[1000] parameter(0)\n ROOT r = f32[500] custom-call(p), custom_call_target="x"'
    module = hlorun.parse(f"HloModule m\nENTRY e {{ p = {text} }}")
    found = hlorun.roofline(module, DEVICE)
    assert found.unknown_custom_calls == 1 and found.seconds == pytest.approx(6000 / 1e9)


@pytest.mark.parametrize(
    ("text", "kind", "groups", "size", "sent"),
    [
        ("ROOT r = f32[1024] all-reduce(p), to_apply=a, replica_groups={{0,1,2,3},{4,5,6,7}}", "all-reduce", 2, 4, 2 * 3 / 4 * 4096),
        ("ROOT r = f32[1024] all-reduce(p), to_apply=a, replica_groups={}", "all-reduce", 1, 8, 2 * 7 / 8 * 4096),
        ("ROOT r = f32[8192] all-gather(p), dimensions={0}, replica_groups=[1,8]<=[8]", "all-gather", 1, 8, 7 * 4096),
        ("ROOT r = f32[128] reduce-scatter(p), dimensions={0}, to_apply=a, replica_groups=[1,8]<=[8]", "reduce-scatter", 1, 8, 7 / 8 * 4096),
        ("ROOT r = f32[1024] all-to-all(p), dimensions={0}, replica_groups={{0,1},{2,3},{4,5},{6,7}}", "all-to-all", 4, 2, 2048),
        ("ROOT r = f32[1024] collective-permute(p), source_target_pairs={{0,1},{1,2}}", "collective-permute", 1, 3, 4096),
        ("ROOT r = f32[1024] all-reduce(p), to_apply=a, replica_groups={{0},{1},{2},{3},{4},{5},{6},{7}}", "all-reduce", 8, 1, 0),
    ],
)  # fmt: skip
def test_collectives_by_hand(text: str, kind: str, groups: int, size: int, sent: float) -> None:
    found = collective(text)
    assert (found.kind, found.groups, found.group_size) == (kind, groups, size)
    assert found.sent == pytest.approx(sent) and found.seconds == pytest.approx(sent / 1e6)


def test_groups_of_replicas_with_their_partitions() -> None:
    text = "ROOT r = f32[1024] all-reduce(p), to_apply=a, channel_id=1, replica_groups="
    header = "replica_count=2, num_partitions=4"
    assert collective(text + "{{0,1}}", header).group_size == 8
    assert collective(text + "{{0},{1}}", header).group_size == 4
    assert collective(text + "{}", header).group_size == 8
    assert collective(text + "{{0,1,2,3},{4,5,6,7}}, use_global_device_ids=true", header).group_size == 4


def test_a_start_counts_its_result_alone() -> None:
    module = hlorun.parse(GATHER.replace("HloModule m", "HloModule m, replica_count=2, is_scheduled=true"))
    (found,) = hlorun.collectives(module).collectives
    assert (found.bytes, found.sent, found.runs, found.seconds) == (32, 16, 1, None)
    assert hlorun.summary(module).collectives[0]["bytes"] == 32
    estimate = hlorun.roofline(module, DEVICE)
    assert estimate.interconnect == estimate.communication == estimate.exposed == pytest.approx(16 / 1e6)


def test_what_runs_between_start_and_end_hides_a_collective() -> None:
    text = GATHER.replace("HloModule m", "HloModule m, is_scheduled=true, replica_count=2").replace(
        "  ROOT d = f32[8] all-gather-done(s)",
        "  q = f32[512] parameter(1)\n  n = f32[512] negate(q)\n  d = f32[8] all-gather-done(s)\n"
        "  ROOT r = (f32[8], f32[512]) tuple(d, n)",
    )
    found = hlorun.roofline(hlorun.parse(text), DEVICE)
    assert found.communication == pytest.approx(16e-6)
    assert found.exposed == pytest.approx(16e-6 - 512 / 1e8)


def test_a_wrapped_collective_runs_as_often_as_its_wrapper() -> None:
    module = hlorun.parse(
        "HloModule m, replica_count=2\nw { q = f32[4] parameter(0)\n"
        " ROOT s = f32[8] all-gather(q), dimensions={0}, replica_groups={{0,1}} }\n"
        "ENTRY e { p = f32[4] parameter(0)\n a = ((f32[4]), f32[8]) async-start(p), calls=w\n"
        " ROOT d = f32[8] async-done(a), calls=w }"
    )
    (found,) = hlorun.collectives(module).collectives
    assert (found.runs, found.bytes, found.sent) == (1, 32, 16)
    estimate = hlorun.roofline(module, DEVICE)
    assert estimate.interconnect == estimate.communication == pytest.approx(16e-6)
    assert estimate.exposed is None


WRAPPED = """HloModule m, is_scheduled=true, replica_count=2
w {
  q = f32[4] parameter(0)
  ROOT s = f32[8] all-gather(q), dimensions={0}, replica_groups={{0,1}}
}
ENTRY e {
  p = f32[4] parameter(0)
  z = f32[512] parameter(1)
  a = ((f32[4]), f32[8]) async-start(p), calls=w
  u = ((f32[4]), f32[8]) async-update(a)
  b = ((f32[4]), f32[8]) async-start(p), calls=v
  n = f32[512] negate(z)
  d = f32[8] async-done(u)
  c = f32[8] async-done(b)
  ROOT r = (f32[8], f32[8], f32[512]) tuple(d, c, n)
}
"""
WRAPPED = WRAPPED.replace(
    "ENTRY", WRAPPED[WRAPPED.index("w {") : WRAPPED.index("ENTRY")].replace("w {", "v {") + "ENTRY"
)


def test_wrapped_collectives_count_once_and_share_what_hides_them() -> None:
    found = hlorun.roofline(hlorun.parse(WRAPPED), DEVICE)
    assert found.interconnect == found.communication == pytest.approx(2 * 16e-6)
    assert found.exposed == pytest.approx(2 * 16e-6 - 512 / 1e8)


@pytest.mark.parametrize(
    ("algorithm", "seconds"),
    [
        ("", 1 / 494.7e12),
        ("dot_f32_f32_f32", 1 / 66.9e12),
        ("dot_tf32_tf32_f32_x3", 3 / 494.7e12),
        ("dot_bf16_bf16_f32", 1 / 989.4e12),
        ("dot_any_f8_any_f8_f32", 1 / 1978.9e12),
    ],
)
def test_the_algorithm_of_a_product_says_what_is_multiplied(algorithm: str, seconds: float) -> None:
    said = f", algorithm={algorithm}" if algorithm else ""
    module = hlorun.parse(
        "ENTRY e { p = f32[8,8] parameter(0)\n"
        f" ROOT d = f32[8,8] dot(p, p), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}{said} }}"
    )
    (step,) = (step for step in hlorun.roofline(module, "H100").steps if step.flops)
    assert step.compute == pytest.approx(2 * 8**3 * seconds)


@pytest.mark.parametrize("by", BY)
def test_groups_add_up(modules: dict[str, hlorun.HloModule], by: str) -> None:
    found = hlorun.roofline(modules["003"], "A100", by)
    assert sum(group.seconds for group in found.groups) == pytest.approx(found.seconds)
    assert sum(group.share for group in found.groups) == pytest.approx(1)
    assert sum(group.flops for group in found.groups) == pytest.approx(
        hlorun.cost(modules["003"]).run["flops"]
    )


def test_devices_from_names_files_and_measurement(tmp_path: Path) -> None:
    assert device("TPU v5e") is device("V5E") is DEVICES["v5e"]
    assert device("H100").product_peak("f8e4m3fn", exact=False) == 1978.9e12
    assert device("A100").product_peak("f8e4m3fn", exact=False) == 312e12
    assert device("A100").product_peak("f32", exact=True) == 19.5e12
    assert device("v5e").product_peak("f64", exact=False) == 197e12
    file = tmp_path / "mine.json"
    file.write_text('{"products": {"f32": 2e9}, "memory": 1e9}')
    assert device(str(file)) == hlorun.Device("mine", {"f32": 2e9}, None, 1e9, None, str(file))
    for text in ("[]", "{", '{"products": {}, "memory": 1}', '{"products": {"f32": 1}, "memory": -1}'):
        file.write_text(text)
        with pytest.raises(hlorun.HloArgumentError, match="is no device"):
            device(str(file))
    for rate in ("1" + "0" * 400, "Infinity", "NaN", "true"):
        file.write_text(f'{{"products": {{"f32": 1}}, "memory": {rate}}}')
        with pytest.raises(hlorun.HloArgumentError, match="is no device"):
            device(str(file))
    file.write_text('{"products": {"f32": 1}}')
    with pytest.raises(hlorun.HloArgumentError, match="has no 'memory'"):
        device(str(file))
    for name in ("H900", str(tmp_path / "none.json")):
        with pytest.raises(hlorun.HloArgumentError):
            device(name)
    here = device("this")
    assert (
        here.vector and here.link and min(*here.products.values(), here.vector, here.memory, here.link) > 1e6
    )


RATES = hlorun.Rates(
    {"exp f32": 1e-9, "product f32": 1e-12, "cheap f32": 1e-10},
    read=((1e4, 1e-11), (1e6, 1e-10)),
    written=((1e4, 2e-11), (1e6, 2e-10)),
    threads=2,
    step=1e-6,
    shared=2e-6,
    call=5e-6,
)
HERE = hlorun.Device("here", {"f32": 1e12}, 1e10, 1e10, 1e10, "", RATES)
N = 1 << 18


def planned(text: str) -> hlorun.Roofline:
    return hlorun.roofline(hlorun.parse(f"HloModule m\n{text}"), HERE)


def test_planned_steps_by_hand() -> None:
    found = planned(f"ENTRY e {{ p = f32[{N}] parameter(0)\n ROOT r = f32[{N}] exponential(p) }}")
    (step,) = found.steps
    # The reuse distance of either array is the size of both, which is beyond the largest measured one.
    memory = 4 * N * (1e-10 + 2e-10)
    assert step.compute == pytest.approx(N * 1e-9) and step.memory == pytest.approx(memory)
    assert step.seconds == pytest.approx(3e-6 + (step.compute**2 + memory**2) ** 0.5)
    assert found.seconds == pytest.approx(5e-6 + step.seconds)
    assert (found.call, found.unknown_loops, step.bound) == (5e-6, 0, "memory")
    assert sum(group.seconds for group in found.groups) == pytest.approx(found.seconds - found.call)


def test_a_fused_step_moves_its_inputs_and_results_only() -> None:
    found = planned(
        f"ENTRY e {{ p = f32[{N}] parameter(0)\n a = f32[{N}] exponential(p)\n b = f32[{N}] add(a, p)\n"
        f" ROOT r = f32[{N}] multiply(b, b) }}"
    )
    (step,) = found.steps
    assert step.bytes_accessed == 2 * 4 * N and step.flops == 3 * N


def test_a_step_reads_from_the_cache_what_the_last_one_left() -> None:
    product = "dot({0}, {0}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
    found = planned(
        f"ENTRY e {{ p = f32[16,16] parameter(0)\n a = f32[16,16] {product.format('p')}\n"
        f" ROOT b = f32[16,16] {product.format('a')} }}"
    )
    assert [step.memory for step in found.steps] == [pytest.approx(1024 * 3e-11)] * 2
    assert [step.compute for step in found.steps] == [pytest.approx(2 * 2 * 16**3 * 1e-12)] * 2


def test_trips_of_planned_loops() -> None:
    found = planned(LOOP.replace("HloModule m\n", "").replace("64", "128"))
    products = [step for step in found.steps if step.flops > 1e6]
    assert sum(step.runs for step in products) == 10
    unknown = planned(
        "c { t = (f32[]) parameter(0)\n a = f32[] get-tuple-element(t), index=0\n z = f32[] constant(3)\n"
        " ROOT l = pred[] compare(a, z), direction=LT }\n"
        "b { t = (f32[]) parameter(0)\n a = f32[] get-tuple-element(t), index=0\n s = f32[] sine(a)\n"
        " ROOT r = (f32[]) tuple(s) }\n"
        "ENTRY e { p = f32[] parameter(0)\n t = (f32[]) tuple(p)\n ROOT w = (f32[]) while(t), condition=c, body=b }"
    )
    assert unknown.unknown_loops == 1


def test_windows_at_indices_cost_by_reuse_distance() -> None:
    text = (
        "ENTRY e { p = f32[ROWS,1] parameter(0)\n i = s32[4096,1] parameter(1)\n"
        " ROOT r = f32[4096,1] gather(p, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
        "index_vector_dim=1, slice_sizes={1,1} }"
    )
    rates = dataclasses.replace(RATES, window=((1e4, 0.0), (1e6, 1e-8)))
    near, far = (
        hlorun.roofline(hlorun.parse(text.replace("ROWS", rows)), dataclasses.replace(HERE, rates=rates)).steps[0]
        for rows in ("1024", "1048576")
    )
    assert far.memory - near.memory > 4096 * 5e-9


def test_a_module_without_a_plan_is_estimated_as_on_other_devices() -> None:
    text = "HloModule m\nENTRY e { p = s1[8] parameter(0)\n ROOT r = s1[8] negate(p) }"
    found = hlorun.roofline(hlorun.parse(text), HERE)
    assert found.call == 0 and len(found.steps) > 0


def test_rates_of_what_was_not_measured() -> None:
    assert RATES.of("exp", "f32") == 1e-9
    assert RATES.of("add", "f64") == pytest.approx(2 * RATES.of("cheap", "f32"))
    assert RATES.of("nothing", "f32") == 0
    rates = dataclasses.replace(RATES, operations={"getrf f32": 3.0, "gesdd-vectors f32": 5.0})
    assert rates.of("getrf-small", "f32") == rates.of("lu-small", "f32") == 3.0
    assert rates.of("geev-vectors-small", "f32") == rates.of("geev", "f32") == 5.0


def test_the_machine_is_measured_once_and_every_probe_has_its_class() -> None:
    here = device("this")
    assert here is device("this") and here.rates is not None
    assert all(rate >= 0 for rate in here.rates.operations.values())
    assert here.rates.operations["exp f64"] > here.rates.operations["exp f32"] / 2
    for curve in (here.rates.read, here.rates.written, here.rates.window):
        assert [seconds for _, seconds in curve] == sorted(seconds for _, seconds in curve)
    found = {
        (name, ty)
        for probe in probes()
        for step in hlorun.compile(hlorun.parse(probe.text))._work()
        for name, ty, _ in step[4]
    }
    classes = found | {(CLASSES.get(name, name), ty) for name, ty in found}
    assert not [probe for probe in probes() if (probe.kind, probe.element_type) not in classes]


def test_the_page_has_the_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "roofline.md").read_text(encoding="utf-8")
    for known in DEVICES.values():
        (row,) = [line for line in page.splitlines() if line.startswith(f"| {known.name} |")]
        numbers = {cell.strip() for cell in row.split("|")}
        peaks = [
            known.memory / 1e9,
            (known.link or 0) / 1e9,
            *(peak / 1e12 for peak in known.products.values()),
        ]
        assert {f"{peak:g}" for peak in peaks} <= numbers, known.name
    assert all(f"`{kind}`" in page for kind in SENT)


def test_the_commands() -> None:
    text = command("cost", dump_path("003"), "--roofline", "H100").stdout
    assert "mnist.py:242" in text and "interconnect" in text and "left out" in text
    report = json.loads(
        command("cost", dump_path("003"), "--roofline", "v5e", "--by", "loop", "--json").stdout
    )
    assert report["by"] == "loop" and report["groups"][0]["key"] == "no loop"
    text = command("cost", dump_path("004"), "--collectives", "--roofline", "H100").stdout
    assert "all-reduce" in text and "ops.py:347" in text and "791.2 MB" in text
    assert "none" in command("cost", dump_path("001"), "--collectives").stdout
    command("cost", dump_path("003"), "--roofline", "H900", status=2)


def nested_loops(depth: int) -> str:
    """Loops of three trips, one in the other."""
    state, text = "(s32[], f32[8])", ""
    for k in range(depth):
        inner = "y = f32[8] sine(x)"
        if k:
            inner = f"w = {state} while(q), condition=c, body=b{k - 1}\n y = f32[8] get-tuple-element(w), index=1"
        text += f"""b{k} {{ p = {state} parameter(0)
 i = s32[] get-tuple-element(p), index=0
 x = f32[8] get-tuple-element(p), index=1
 o = s32[] constant(1)
 j = s32[] add(i, o)
 z = s32[] constant(0)
 q = {state} tuple(z, x)
 {inner}
 ROOT t = {state} tuple(j, y) }}
"""
    return f"""c {{ p = {state} parameter(0)
 i = s32[] get-tuple-element(p), index=0
 n = s32[] constant(3)
 ROOT c = pred[] compare(i, n), direction=LT }}
{text}ENTRY e {{ x = f32[8] parameter(0)
 z = s32[] constant(0)
 q = {state} tuple(z, x)
 w = {state} while(q), condition=c, body=b{depth - 1}
 ROOT y = f32[8] get-tuple-element(w), index=1 }}
"""


def test_visits_of_a_step_grow_with_the_depth_of_its_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = hlorun.Rates({"sin f32": 1e-10}, read=((1e6, 1e-11),), written=((1e6, 2e-11),))
    depth, visits = 20, dict[int, int]()
    step = Planned._step

    def counted(self: Planned, work: Any, *arguments: Any, **words: Any) -> None:
        visits[id(work)] = visits.get(id(work), 0) + 1
        # A call is gone through twice.
        assert visits[id(work)] <= 2 * (depth + 1)
        step(self, work, *arguments, **words)

    monkeypatch.setattr(Planned, "_step", counted)
    work = hlorun.compile(hlorun.parse(nested_loops(depth)))._work()
    planned = Planned(work, rates)
    assert max(step.runs for step in planned.steps) == 3.0**depth


def test_what_cannot_be_planned_takes_the_least_time_on_this_machine() -> None:
    text = "HloModule m, replica_count=100000\nENTRY e { x = f32[8] parameter(0)\n ROOT y = f32[8] negate(x) }"
    rates = hlorun.Rates({}, read=((1e6, 1e-11),), written=((1e6, 2e-11),))
    found = hlorun.roofline(hlorun.parse(text), dataclasses.replace(DEVICE, rates=rates))
    assert found.seconds > 0
    assert found.device.rates is None
