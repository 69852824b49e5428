"""Every operation agrees with XLA:CPU: one test per family, which names all the cases that fail."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
for folder in (HERE, HERE.parent):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

import cases
import goldens
import numpy as np
import oracle
import runner

FAMILIES = cases.family_names()
SHOWN = 200


@pytest.mark.parametrize("name", FAMILIES)
def test_family(name: str) -> None:
    """All cases of a family."""
    pytest.importorskip("hlorun")
    xla = runner.live()
    try:
        results = runner.run_family(name, xla)
    finally:
        if xla is not None:
            xla.close()
    failed = [r for r in results if r.error is not None]
    lines = [f"{r.case.name}: {r.error}" for r in failed[:SHOWN]]
    if len(failed) > SHOWN:
        lines.append(f"… and {len(failed) - SHOWN} more")
    assert not failed, f"{len(failed)} of {len(results)} cases of {name} fail:\n" + "\n".join(lines)


@pytest.mark.parametrize("name", FAMILIES)
def test_goldens_are_current(name: str) -> None:
    """Every case has a golden made from its present text and inputs, and no golden is left over."""
    stored = goldens.read(name)
    now = {case.name: case.digest() for case in cases.family(name)}
    assert {k: g.digest for k, g in stored.items()} == now


def test_there_are_enough_cases() -> None:
    """The suite covers at least 3,000 cases."""
    assert sum(len(cases.family(name)) for name in FAMILIES) >= 3000


HOST = {
    "infeed": "k = token[] after-all()\ni = (f32[3], token[]) infeed(k)\nr = f32[3] get-tuple-element(i), index=0",
    "outfeed": "p = f32[3] parameter(0)\nk = token[] after-all()\nr = token[] outfeed(p, k), outfeed_shape=f32[3]",
    "send": "p = f32[3] parameter(0)\nk = token[] after-all()\n"
    "s = (f32[3], u32[], token[]) send(p, k), channel_id=1, is_host_transfer=true\n"
    "r = token[] send-done(s), channel_id=1, is_host_transfer=true",
    "recv": "k = token[] after-all()\ns = (f32[3], u32[], token[]) recv(k), channel_id=1, is_host_transfer=true\n"
    "d = (f32[3], token[]) recv-done(s), channel_id=1, is_host_transfer=true\nr = f32[3] get-tuple-element(d), index=0",
    "custom-call": 'p = f32[3] parameter(0)\nr = f32[3] custom-call(p), custom_call_target="nobody_knows_this"',
}


@pytest.mark.parametrize("opcode", HOST)
def test_host_transfers_are_refused_by_name(opcode: str) -> None:
    """What needs the host or an unknown target is a typed error that names the instruction's opcode or target."""
    hlorun = pytest.importorskip("hlorun")
    text = cases.module(HOST[opcode])
    inputs = [cases.random("f32", (3,))] if "parameter" in text else []
    with pytest.raises(
        hlorun.HloUnsupportedError, match="nobody_knows_this" if opcode == "custom-call" else opcode
    ):
        hlorun.compile(hlorun.parse(text))(*inputs)


# Computed by nothing: inputs, and what the host or another device must answer.
NO_CASES = {"parameter", "infeed", "outfeed", "send", "send-done", "recv", "recv-done"}
# These always come in pairs with a `-start` that has cases.
DONE = {
    "all-gather-done",
    "all-reduce-done",
    "async-done",
    "async-update",
    "collective-permute-done",
    "copy-done",
}


@pytest.mark.skipif(not oracle.available(), reason="needs jaxlib for the list of opcodes")
def test_every_opcode_has_cases() -> None:
    """No opcode that jaxlib knows is left out."""
    from jaxlib import _hlo

    short = {"clz": "count-leading-zeros", "cos": "cosine", "sin": "sine", "exp": "exponential"}
    short |= {"expm1": "exponential-minus-one", "log1p": "log-plus-one", "population-count": "popcnt"}
    short |= {"optimization-barrier": "opt-barrier", "top-k": "topk", "all-reduce": "all-reduce"}
    known = set()
    for name in dir(_hlo.HloOpcode):
        if name.startswith("k"):
            words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name[1:]).lower()
            known.add(short.get(words, words))
    covered = {case.opcode for _, case in cases.all_cases()}
    assert not known - covered - NO_CASES - DONE


@pytest.mark.parametrize(
    ("got", "want", "tolerance", "fits"),
    [
        (np.float32([1, np.nan]), np.float32([1, -np.nan]), cases.EXACT, True),
        (np.float32([0.0]), np.float32([-0.0]), cases.EXACT, False),
        (np.float32([0.0]), np.float32([-0.0]), cases.Tolerance(ulps=4), False),
        (np.float32([0.0]), np.float32([-0.0]), cases.Tolerance(rel=1e-6, zero_sign=False), True),
        (np.float32([1.0]), np.nextafter(np.float32([1.0]), np.float32(2)), cases.EXACT, False),
        (np.float32([1.0]), np.nextafter(np.float32([1.0]), np.float32(2)), cases.Tolerance(ulps=1), True),
        (np.float32([np.inf]), np.float32([np.nan]), cases.Tolerance(ulps=4, abs=1.0), False),
        (np.float32([np.inf]), np.float32([3e38]), cases.Tolerance(rel=1.0), False),
        (np.int32([1]), np.int32([2]), cases.Tolerance(abs=5.0), False),
        (np.int32([1]), np.int64([1]), cases.EXACT, False),
        (np.complex64([1 + 2j]), np.complex64([1 + 2j]), cases.EXACT, True),
        (np.complex64([1 + 2j]), np.complex64([1 - 2j]), cases.Tolerance(rel=0.1), False),
    ],
)
def test_comparison(got: cases.Array, want: cases.Array, tolerance: cases.Tolerance, fits: bool) -> None:
    """The comparison itself can say no."""
    assert (cases.difference(got, want, tolerance) is None) is fits


@pytest.mark.skipif(not oracle.available(), reason="needs jaxlib")
def test_oracle_survives_an_abort() -> None:
    """A worker that dies is a refusal, and the next module runs."""
    xla = oracle.Oracle()
    two_bits = cases.module("p = s2[3] parameter(0)\nr = s2[6] concatenate(p, p), dimensions={0}")
    with pytest.raises(oracle.Refused):
        xla.run(two_bits, [cases.random("s2", (3,))])
    with pytest.raises(oracle.Refused):
        xla.run("no module", [])
    (one,) = xla.run(cases.module("r = f32[] constant(1)"), [])
    assert one == 1
    xla.close()
