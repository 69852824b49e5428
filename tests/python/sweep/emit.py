"""One random step: which operation comes next."""

from __future__ import annotations

import bitcasts
import control
import movement
import operations
from graph import Graph

DEEPEST = 2


def step(g: Graph) -> None:
    """Adds one operation, or nothing when the draw does not fit."""
    table = bitcasts.ALL + movement.ALL + operations.ALL + (control.ALL if g.depth < DEEPEST else [])
    weights = [weight for weight, _ in table]
    _, make = g.rng.choices(table, weights)[0]
    make(g)
