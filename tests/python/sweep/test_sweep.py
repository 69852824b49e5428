"""Random modules of every kind of operation run, and agree with XLA:CPU where it is installed."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from hlorun._inputs import random_inputs

HERE = Path(__file__).resolve().parent
for folder in (HERE, HERE.parent, HERE.parent / "ops"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

import oracle
from hlorun import _smith
import sweep

RUN, COMPARED, CHANGED = 120, 30, 150
MOST_BYTES = 1 << 22


def test_random_graphs_run() -> None:
    """They are well typed, so none is refused."""
    pytest.importorskip("hlorun")
    for seed in range(RUN):
        graph = sweep.make(seed)
        if graph.nodes:
            sweep.ours(graph.module(graph.nodes), graph.inputs)


def test_changed_graphs_run_or_are_refused() -> None:
    """With words of the text changed they give results or a typed error."""
    hlorun = pytest.importorskip("hlorun")
    for seed in range(CHANGED):
        graph = sweep.make(seed)
        text = _smith.exchange(graph.module(graph.nodes[:8]), random.Random(seed)) if graph.nodes else ""
        try:
            module = hlorun.parse(text)
            entry = module.entry_computation
            shapes = [p.shape for p in entry.parameters] if entry is not None else []
            if all(s.nbytes is not None and s.nbytes <= MOST_BYTES for s in shapes):
                executable = hlorun.compile(module)
                if executable.memory.get("temp", 0) <= 16 * MOST_BYTES:
                    executable(*random_inputs(module))
        except hlorun.HloError:
            pass


@pytest.mark.skipif(not oracle.available(), reason="needs jaxlib")
def test_random_graphs_agree() -> None:
    """The first array that differs is named with its module."""
    pytest.importorskip("hlorun")
    xla = oracle.Oracle()
    try:
        for seed in range(COMPARED):
            graph = sweep.make(seed)
            try:
                found = sweep.wrong(graph, graph.nodes, xla) if graph.nodes else None
            except oracle.Refused:
                continue
            assert found is None, f"seed {seed}: {found[1]}\n{graph.module([found[0]])}"
    finally:
        xla.close()
