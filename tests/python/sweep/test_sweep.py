"""Random modules of every kind of operation run, and agree with XLA:CPU where it is installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
for folder in (HERE, HERE.parent, HERE.parent / "ops"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

import oracle
import sweep

RUN, COMPARED = 150, 40


def test_random_graphs_run() -> None:
    """They are well typed, so none is refused."""
    pytest.importorskip("hlorun")
    for seed in range(RUN):
        graph = sweep.make(seed)
        if graph.nodes:
            sweep.ours(graph.module(graph.nodes), graph.inputs)


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
