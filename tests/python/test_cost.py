"""Cost analysis: XLA's counts, written down from XLA 0.10.2's own analysis, and the command."""

from __future__ import annotations

import json
from typing import Any

import pytest

import hlorun
from conftest import dump_path
from test_cli import hlorun as command

P = "ENTRY e { p = f32[4,6] parameter(0)\n"
ADD = "a { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT s = f32[] add(x, y) }\n"
LESS = "l { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT s = pred[] compare(x, y), direction=LT }\n"
FUSED = """f { x = f32[4,6] parameter(0)
 k = f32[6] constant({1,2,3,4,5,6})
 b = f32[4,6] broadcast(k), dimensions={1}
 ROOT s = f32[4,6] add(b, x) }
"""
UPDATE = """f { p = f32[4,6] parameter(0)
 u = f32[2,6] parameter(1)
 i = s32[] parameter(2)
 n = f32[2,6] negate(u)
 ROOT r = f32[4,6] dynamic-update-slice(p, n, i, i) }
"""
LOOP = """c { x = s32[] parameter(0)
 k = s32[] constant(9)
 ROOT s = pred[] compare(x, k), direction=LT }
b { x = s32[] parameter(0)
 k = s32[] constant(1)
 ROOT s = s32[] add(x, k) }
"""
CASES: list[tuple[str, str, dict[str, float]]] = [
    ("", P + "ROOT r = f32[4,6] negate(p) }", {"flops": 24, "bytes accessed": 192}),
    ("", P + "ROOT r = f32[4,6] tanh(p) }", {"transcendentals": 24, "bytes accessed": 192}),
    ("", P + "ROOT r = f32[24] bitcast(p) }", {"bytes accessed": 0}),
    ("", P + "ROOT r = f32[6,4] transpose(p), dimensions={1,0} }", {"bytes accessed": 192}),
    ("", P + "ROOT r = f32[6,4]{0,1} transpose(p), dimensions={1,0} }", {"bytes accessed": 0}),
    (
        "",
        P + "ROOT r = f32[2,6] slice(p), slice={[0:2],[0:6]} }",
        {"bytes accessed": 96, "utilization0{}": 0.5, "bytes accessedout{}": 48},
    ),
    (
        "",
        P + "q = f32[6,7] parameter(1)\n"
        "ROOT r = f32[4,7] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
        {"flops": 336, "bytes accessed": 376, "bytes accessed1{}": 168},
    ),
    (
        ADD,
        P + "z = f32[] constant(0)\nROOT r = f32[4] reduce(p, z), dimensions={1}, to_apply=a }",
        {"flops": 20, "bytes accessed": 116},
    ),
    (
        ADD,
        P + "z = f32[] constant(0)\n"
        "ROOT r = f32[4,6] reduce-window(p, z), window={size=1x11 pad=0_0x5_5}, to_apply=a }",
        {"flops": 9},
    ),
    (LESS, P + "ROOT r = f32[4,6] sort(p), dimensions={1}, to_apply=l }", {"flops": 120}),
    (FUSED, P + "ROOT r = f32[4,6] fusion(p), kind=kLoop, calls=f }", {"flops": 24, "bytes accessed": 216}),
    (
        UPDATE,
        P + "i = s32[] parameter(1)\nu = f32[2,6] parameter(2)\n"
        "ROOT r = f32[4,6] fusion(p, u, i), kind=kLoop, calls=f }",
        {"flops": 12, "bytes accessed": 100, "bytes accessedout{}": 48},
    ),
    (
        LOOP,
        "ENTRY e { p = s32[] parameter(0)\n ROOT r = s32[] while(p), condition=c, body=b }",
        {"flops": 2, "bytes accessed": 21},
    ),
    (
        "",
        'ENTRY e { p = f32[4] parameter(0)\n ROOT r = f32[4] custom-call(p), custom_call_target="x" }',
        {"flops": -1, "bytes accessed": -1, "optimal_seconds": -1},
    ),
    (
        "",
        "ENTRY e { p = f32[2,8,8,4] parameter(0)\n q = f32[3,3,2,4] parameter(1)\n"
        "ROOT r = f32[2,4,4,4] convolution(p, q), window={size=3x3 stride=2x2 pad=1_1x1_1}, "
        "dim_labels=b01f_01io->b01f, feature_group_count=2 }",
        {"flops": 3872, "bytes accessed": 2848},
    ),
]


@pytest.mark.parametrize(("callees", "entry", "expected"), CASES)
def test_counts_are_xlas(callees: str, entry: str, expected: dict[str, float]) -> None:
    costs = hlorun.parse(f"HloModule m\n{callees}{entry}").cost_analysis()
    assert {key: costs.get(key, 0.0) for key in expected} == expected


def test_instructions_have_costs_of_their_own(modules: dict[str, hlorun.HloModule]) -> None:
    product = modules["001"]["cublas-gemm.3"]
    # XLA:GPU's definition: two operations per product of elements.
    assert product.cost_analysis()["flops"] == 2 * 32 * 784 * 128
    assert modules["001"]["arg3.4"].cost_analysis()["bytes accessed"] == 0


def test_the_command_counts_trips() -> None:
    report: dict[str, Any] = json.loads(command("cost", dump_path("004"), "--json").stdout)
    assert report["xla"]["flops"] < 4e10 < 4.9e11 < report["run"]["flops"] < 5.1e11
    assert report["opcodes"]["custom-call"]["flops"] > 4.9e11
    text = command("cost", dump_path("001")).stdout
    assert "6.515 MFLOP" in text and "cublas-gemm.3" in text
