"""Why collectives are there: hand-written modules, and some that JAX partitions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

import hlorun
from hlorun import CollectiveReason

SUM = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
MOST = SUM.replace("ROOT c = f32[] add", "ROOT c = f32[] maximum").replace("add {", "most {")
HEADER = "HloModule m, num_partitions=4\n"
ALL = "channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true"


def why(text: str) -> CollectiveReason:
    (found,) = hlorun.collectives(hlorun.parse(text)).collectives
    return found.reason


def test_partial_sums_of_a_product_name_it_and_both_shardings() -> None:
    found = why(
        HEADER + SUM + "ENTRY e { x = f32[8,4] parameter(0), sharding={devices=[1,4]<=[4]}\n"
        " w = f32[4,2] parameter(1), sharding={devices=[4,1]<=[4]}\n"
        " n = f32[8,4] negate(x)\n"
        " d = f32[8,2] dot(n, w), lhs_contracting_dims={1}, rhs_contracting_dims={0},"
        ' metadata={op_name="jit(f)/dot" source_file="m.py" source_line=3}\n'
        f" r = f32[8,2] all-reduce(d), to_apply=add, {ALL}\n ROOT t = f32[8,2] tanh(r) }}"
    )
    assert found.kind == "partial sums"
    assert found.producer is not None and (found.producer.name, found.producer.source) == ("d", "m.py:3")
    assert [place.name for place in found.consumers] == ["t"]
    assert [(v.place.name, v.tiles, v.side) for v in found.shardings] == [
        ("x", (1, 4), "producer"),
        ("w", (4, 1), "producer"),
    ]
    assert "its part of jit(f)/dot (m.py:3); t needs the sum" in str(found)


def test_the_largest_of_a_part_is_no_sum() -> None:
    found = why(
        HEADER + MOST + "ENTRY e { x = f32[8,4] parameter(0)\n z = f32[] constant(0)\n"
        " m = f32[8] reduce(x, z), dimensions={1}, to_apply=most\n"
        f" ROOT r = f32[8] all-reduce(m), to_apply=most, {ALL} }}"
    )
    assert found.kind == "partial results" and "the maximum of its part of m" in found.text
    assert found.consumers == () and "the result of the module" in found.text


def test_what_is_gathered_names_the_shardings_that_meet() -> None:
    found = why(
        HEADER + "f { q = f32[2,8] parameter(0)\n u = f32[8,3] parameter(1)\n"
        " ROOT d = f32[2,3] dot(q, u), lhs_contracting_dims={1}, rhs_contracting_dims={0} }\n"
        "ENTRY e { x = f32[2,2] parameter(0), sharding={devices=[1,4]<=[4]}\n"
        " w = f32[8,3] parameter(1), sharding={replicated}\n"
        f" g = f32[2,8] all-gather(x), dimensions={{1}}, {ALL}\n"
        " c = f32[2,8] copy(g)\n ROOT d2 = f32[2,3] fusion(c, w), kind=kLoop, calls=f }"
    )
    assert found.kind == "gathered" and found.text.startswith("dimension 1 is cut in 4 and d needs it whole")
    assert [(v.place.name, v.tiles, v.side) for v in found.shardings] == [
        ("x", (1, 4), "producer"),
        ("w", (), "consumer"),
    ]


def test_what_is_not_known_says_so() -> None:
    found = why(
        HEADER + SUM + f"ENTRY e {{ x = f32[8] parameter(0)\n n = f32[8] negate(x)\n"
        f" ROOT r = f32[8] all-reduce(n), to_apply=add, {ALL} }}"
    )
    assert found.kind == "unknown" and found.text.startswith("not known") and found.shardings == ()


def test_the_state_of_a_loop_has_no_origin() -> None:
    found = why(
        HEADER + SUM + "body { s = (s32[], f32[8]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
        " v = f32[8] get-tuple-element(s), index=1\n one = s32[] constant(1)\n j = s32[] add(i, one)\n"
        f" r = f32[8] all-reduce(v), to_apply=add, {ALL}\n ROOT o = (s32[], f32[8]) tuple(j, r) }}\n"
        "cond { s = (s32[], f32[8]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
        " k = s32[] constant(3)\n ROOT c = pred[] compare(i, k), direction=LT }\n"
        "ENTRY e { p = f32[8] parameter(0)\n zero = s32[] constant(0)\n"
        " t = (s32[], f32[8]) tuple(zero, p)\n ROOT w = (s32[], f32[8]) while(t), condition=cond, body=body }"
    )
    assert found.kind == "unknown" and found.producer is None and "origin is not found" in found.text


def test_groups_along_axes_of_a_mesh_have_the_size_of_the_axes() -> None:
    text = HEADER + SUM + "ENTRY e { x = f32[8] parameter(0)\n ROOT r = f32[8] all-reduce(x), to_apply=add,"
    for groups, count, size in (
        ("mesh['a'=2,'b'=2] {'b'}", 2, 2),
        ("mesh['a'=2,'b'=2] {'a','b'}", 1, 4),
        ("mesh['a'=4] {'a':(2)2}", 2, 2),
    ):
        module = hlorun.parse(f"{text} channel_id=1, replica_groups={groups}, use_global_device_ids=true }}")
        (found,) = hlorun.collectives(module).collectives
        assert (found.groups, found.group_size) == (count, size), groups


PROGRAMS = """
import json, os
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(2, 4), ("x", "y"))
def compiled(f, shapes, specs, out):
    args = [jax.ShapeDtypeStruct(s, jnp.float32, sharding=NamedSharding(mesh, p)) for s, p in zip(shapes, specs)]
    return jax.jit(f, out_shardings=NamedSharding(mesh, out)).lower(*args).compile().as_text()
s, whole = P("x", "y"), P("x", None)
psum = jax.shard_map(lambda a: jax.lax.psum(a, "y"), mesh=mesh, in_specs=P("x", "y"), out_specs=P("x", None))
print(json.dumps({
    "contract": compiled(lambda a, b: jnp.tanh(a @ b), [(16, 32), (32, 64)], [s, P("y", None)], whole),
    "gather": compiled(lambda a, b: jnp.sin(a) @ b, [(16, 32), (32, 64)], [s, P(None, None)], whole),
    "sum": compiled(lambda a: jnp.sum(a * 2, axis=1), [(16, 32)], [P("x", "y")], P("x")),
    "moved": compiled(lambda a: jnp.sin(a) + 1, [(64, 64)], [P("y", None)], P(None, "y")),
    "program": compiled(psum, [(16, 32)], [P("x", "y")], P("x", None)),
}))
"""


@pytest.fixture(scope="module")
def partitioned() -> dict[str, CollectiveReason]:
    """The reasons in modules that JAX partitions for 8 devices, in a process that has so many."""
    if find_spec("jax") is None:
        pytest.skip("NO JAX: pip install '.[jax]' to partition modules")
    flags = "--xla_force_host_platform_device_count=8"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAMS],
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=True,
    )
    return {name: why(text) for name, text in json.loads(done.stdout).items()}


def test_jax_partial_sums(partitioned: dict[str, CollectiveReason]) -> None:
    found = partitioned["contract"]
    assert found.kind == "partial sums" and found.producer is not None
    assert found.producer.op_name.endswith("dot_general")
    assert [v.tiles for v in found.shardings] == [(2, 4), (4, 1)]
    assert [place.op_name.rsplit("/", 1)[-1] for place in found.consumers] == ["tanh"]
    found = partitioned["sum"]
    assert found.kind == "partial sums" and found.producer is not None
    assert found.producer.op_name.endswith("reduce_sum")


def test_jax_gathers_and_moves(partitioned: dict[str, CollectiveReason]) -> None:
    found = partitioned["gather"]
    assert found.kind == "gathered" and found.text.startswith("dimension 1 is cut in 4")
    assert [v.tiles for v in found.shardings] == [(2, 4), ()]
    assert partitioned["moved"].kind == "moved"


def test_jax_what_the_program_asks_for(partitioned: dict[str, CollectiveReason]) -> None:
    assert partitioned["program"].kind == "program"
