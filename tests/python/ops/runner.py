"""Run cases on hlorun and compare them with their goldens, and with live XLA:CPU when asked to.

`HLORUN_ORACLE=1` with jaxlib installed also runs every case on XLA:CPU here and now, which shows a golden that a newer
jaxlib no longer agrees with.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import cases
import goldens
import oracle


@dataclass(frozen=True)
class Result:
    """One case's verdict: `error` is None when it passed. `source` is where its golden comes from."""

    case: cases.Case
    source: str
    error: str | None


def compare(got: list[cases.Array], want: list[cases.Array], tolerance: cases.Tolerance) -> str | None:
    """The first output that is wrong."""
    if len(got) != len(want):
        return f"{len(got)} results instead of {len(want)}"
    for k, (x, y) in enumerate(zip(got, want, strict=True)):
        wrong = cases.difference(x, y, tolerance)
        if wrong:
            return f"result {k}: {wrong}" if len(want) > 1 else wrong
    return None


def on_hlorun(case: cases.Case) -> list[cases.Array]:
    """Parse, compile and run."""
    import hlorun

    return cases.flatten(hlorun.compile(hlorun.parse(case.text))(*case.inputs))


def live() -> oracle.Oracle | None:
    """An XLA:CPU worker when the environment asks for one and has it."""
    return oracle.Oracle() if os.environ.get("HLORUN_ORACLE") == "1" and oracle.available() else None


def run_family(name: str, xla: oracle.Oracle | None = None) -> list[Result]:
    """Every case of a family. An exception is a verdict, not an end."""
    stored = goldens.read(name)
    results = []
    for case in cases.family(name):
        golden = stored.get(case.name)
        if golden is None or golden.digest != case.digest():
            state = "missing" if golden is None else "stale"
            results.append(Result(case, "none", f"{state} golden: run tests/python/ops/bless.py {name}"))
            continue
        try:
            got = on_hlorun(case)
        except Exception as error:  # noqa: BLE001
            text = " ".join(str(error).split())[:200]
            results.append(Result(case, golden.source, f"{type(error).__name__}: {text}"))
            continue
        error_text = compare(got, golden.outputs, case.tolerance)
        if error_text is None and xla is not None and golden.source == "xla":
            try:
                error_text = compare(got, xla.run(case.oracle_text or case.text, case.inputs), case.tolerance)
                error_text = error_text and f"live: {error_text}"
            except oracle.Refused as refusal:
                error_text = f"live: XLA:CPU no longer takes it: {refusal}"
        results.append(Result(case, golden.source, error_text))
    return results
