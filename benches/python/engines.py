"""A JAX function on hlorun and on XLA:CPU, from the same HLO and with the same arguments."""

from __future__ import annotations

import argparse
import fnmatch
import json
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxlib import _hlo
from machine import describe, versions
from timing import Call, DifferentResultsError, alternate, compare, heading, line, summary

import hlorun


@dataclass(frozen=True)
class Timed:
    """Something to time: `make` gives its function and arguments."""

    name: str
    group: str
    make: Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]
    tolerance: float


def text_of(function: Callable[..., Any], arguments: tuple[Any, ...], form: str) -> str:
    """The function's HLO: `before` XLA's passes, as JAX writes it, or `after` them, as a dump holds it."""
    lowered = jax.jit(function, keep_unused=True).lower(*arguments)
    if form == "before":
        return str(lowered.as_text("hlo"))
    options = _hlo.HloPrintOptions()
    options.print_large_constants = True
    [module] = lowered.compile().runtime_executable().hlo_modules()
    return str(module.to_string(options))


def outputs_of(result: Any) -> list[Any]:
    """The results of an executable as a list."""
    return list(result) if isinstance(result, (list, tuple)) else [result]


def both(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    form: str = "before",
    disable: list[str] | None = None,
) -> dict[str, Call]:
    """The function's call on either engine, ready to be timed; XLA:CPU's waits for its results."""
    leaves = [np.asarray(x) for x in jax.tree.leaves(arguments)]
    executable = hlorun.compile(hlorun.parse(text_of(function, arguments, form)), disable=disable or [])
    reference = jax.jit(function, keep_unused=True)
    buffers = jax.device_put(arguments)
    return {
        "hlorun": lambda: executable(*leaves),
        "xla": lambda: jax.block_until_ready(reference(*buffers)),
    }


def alternating_row(
    name: str, group: str, calls: dict[str, Call], seconds: float, tolerance: float
) -> dict[str, Any]:
    """Compares the results of both engines, then times them in turn.

    Returns:
        The median times in microseconds, their ratio, and that of the best times (`best`), which says more where
        other work disturbs the machine.

    Raises:
        timing.DifferentResultsError: if they disagree.
    """
    compare(outputs_of(calls["hlorun"]()), jax.tree.leaves(calls["xla"]()), tolerance)
    calls["hlorun"]()
    taken = alternate(calls, seconds)
    ours, theirs = (statistics.median(taken[engine]) for engine in ("hlorun", "xla"))
    return {
        "name": name,
        "group": group,
        "hlorun_us": ours * 1e6,
        "xla_us": theirs * 1e6,
        "ratio": ours / theirs,
        "best": min(taken["hlorun"]) / min(taken["xla"]),
    }


def add_options(parser: argparse.ArgumentParser, seconds: float = 0.6) -> None:
    """The options of a benchmark that a seed draws."""
    parser.add_argument("--only", default="*", help="names, as shell patterns, separated by commas")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--form", choices=["before", "after"], default="before")
    parser.add_argument("--seconds", type=float, default=seconds, help="of each case")
    parser.add_argument("--disable", default="", help="passes to switch off, separated by commas")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--list", action="store_true", help="print the names and stop")


def run(cases: list[Timed], options: argparse.Namespace) -> None:
    """Times the cases that `options` choose, prints each and the summary, and exits with an error if one failed."""
    patterns = options.only.split(",")
    chosen = [case for case in cases if any(fnmatch.fnmatch(case.name, p) for p in patterns)]
    if not chosen:
        sys.exit(f"no case is called {options.only}")
    if options.list:
        print("\n".join(case.name for case in chosen))
        return
    disable = [name for name in options.disable.split(",") if name]
    rows: list[dict[str, Any]] = []
    failed: list[str] = []
    print(heading())
    for case in chosen:
        try:
            calls = both(*case.make(), options.form, disable)
            row = alternating_row(case.name, case.group, calls, options.seconds, case.tolerance)
        except (DifferentResultsError, hlorun.HloError) as error:
            failed.append(f"{case.name}: {error}")
            print(failed[-1], flush=True)
            continue
        rows.append(row)
        print(line(row), flush=True)
    if rows:
        print("\n" + summary(rows))
    if options.json:
        page = {"machine": describe(), "versions": versions(), "seed": options.seed, "form": options.form}
        options.json.write_text(json.dumps({**page, "cases": rows, "failed": failed}, indent=1) + "\n")
    if failed:
        sys.exit("\n".join(["failed:", *failed]))
