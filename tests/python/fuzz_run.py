"""Parse, report on, verify, compile and run changed texts until time is up, in a child process that may die.

`python tests/python/fuzz_run.py SECONDS [SEED]`. Texts are random modules, the cases of `ops` and the small dumps, with
words changed or with a lie about an instruction; buffer assignments, likewise changed, are read, printed, reported on and checked.
What kills the child, hangs it, or escapes as anything but a typed error is printed with its text and saved under
`fuzz-found/`. Exit 1 when anything was found.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOUND = HERE.parents[1] / "fuzz-found"
MOST_BYTES = 1 << 23
SILENCE = 60.0
MEMORY = 6 << 30


def text_of(seed: int, corpus: list[str]) -> str:
    """The module of a seed."""
    from hlorun import _smith
    from lies import lie

    rng = random.Random(seed)
    text = _smith.Generator(rng).module() if rng.random() < 0.3 or not corpus else rng.choice(corpus)
    choice = rng.random()
    return text if choice < 0.1 else lie(text, rng) if choice < 0.5 else _smith.exchange(text, rng)


def load_corpus() -> list[str]:
    """Texts of the differential cases that are not long, and many times those of the dumps."""
    for folder in (HERE, HERE / "ops"):
        sys.path.insert(0, str(folder))
    import cases

    import hlorun
    from conftest import dump_path

    texts = [case.text for _, case in cases.all_cases() if len(case.text) < 6000]
    modules = [hlorun.load(dump_path(start)).source.decode() for start in ("001", "003")]
    assignments = [str(hlorun.load_buffer_assignment(dump_path(start))) for start in ("000", "002")]
    return texts + (modules + assignments) * (len(texts) // 8)


def look_at(text: str) -> bool:
    """Everything but a run, of what need not be legal; whether the text may be a module."""
    import hlorun
    from conftest import dump_path
    from hlorun.report.cost import costs
    from hlorun.report.graph import to_dot, to_html
    from hlorun.report.memory import memory_report
    from hlorun.report.summary import summarize

    if text.startswith("BufferAssignment"):
        assignment = hlorun.parse_buffer_assignment(text)
        memory_report(assignment)
        hlorun.parse_buffer_assignment(str(assignment))
        module = hlorun.load(dump_path("001"))
        assignment.check(module)
        hlorun.compile(module, buffer_assignment=assignment)
        return False
    module = hlorun.parse(text)
    for report in (summarize, costs, to_dot, to_html):
        # Some reports refuse what is not legal; the others come all the same.
        with contextlib.suppress(hlorun.HloError):
            report(module)
    for preset in ("default", "short_parsable", "canonical", "fingerprint"):
        module.to_string(preset)
    return True


def child(first: int) -> None:
    """Runs seeds from `first` on, one line before and after each."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    import numpy as np

    import hlorun
    from hlorun._inputs import random_inputs

    corpus = load_corpus()
    np.seterr(all="ignore")
    print("ready", flush=True)
    seed = first
    while True:
        text = text_of(seed, corpus)
        print(f"begin {seed}", flush=True)
        verdict = "ran"
        try:
            if not look_at(text):
                print("end looked", flush=True)
                seed += 1
                continue
            module = hlorun.parse(text)
            entry = module.entry_computation
            parameters = entry.parameters if entry is not None else ()
            arrays = [p.shape for p in parameters]
            if all(s.is_array and s.nbytes is not None and s.nbytes <= MOST_BYTES for s in arrays):
                executable = hlorun.compile(module, threads=1)
                if executable.memory.get("temp", 0) <= 64 * MOST_BYTES:
                    executable(*random_inputs(module))
            else:
                verdict = "large"
        except (hlorun.HloError, MemoryError) as error:
            verdict = type(error).__name__
        except BaseException as error:
            verdict = f"escaped {type(error).__name__}: {error}"
        print(f"end {verdict}", flush=True)
        seed += 1


def main() -> int:
    """Watches children until time is up."""
    seconds, seed = float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    end = time.monotonic() + seconds
    corpus = load_corpus()
    counts: dict[str, int] = {}
    bad = 0
    while time.monotonic() < end:
        command = [sys.executable, __file__, "--child", str(seed)]
        environment = {**os.environ, "RUST_BACKTRACE": "1"}
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            buffer, why = b"", ""
            while time.monotonic() < end and not why:
                ready, _, _ = select.select([process.stdout], [], [], SILENCE)
                data = os.read(process.stdout.fileno(), 1 << 16) if ready else b""
                if not data:
                    process.kill()
                    errors = process.stderr.read().decode(errors="replace")[-1500:]
                    why = f"died: {errors}" if ready else "hangs"
                    break
                buffer += data
                *lines, buffer = buffer.split(b"\n")
                for line in lines:
                    word, _, rest = line.decode().partition(" ")
                    if word == "begin":
                        seed = int(rest)
                    elif word == "end":
                        counts[rest.split()[0]] = counts.get(rest.split()[0], 0) + 1
                        if rest.startswith("escaped"):
                            why = rest
                            break
            process.kill()
        if why == "hangs" and "while(" in text_of(seed, corpus):
            # A loop whose condition never fails is endless by its meaning.
            counts["endless"] = counts.get("endless", 0) + 1
        elif why:
            bad += 1
            FOUND.mkdir(exist_ok=True)
            (FOUND / f"{seed}.hlo").write_text(text_of(seed, corpus))
            (FOUND / f"{seed}.txt").write_text(why)
            print(f"seed {seed}: {why[:300]}", flush=True)
        seed += 1
    print(f"{sum(counts.values())} modules, {bad} found: {counts}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    if sys.argv[1] == "--child":
        child(int(sys.argv[2]))
    sys.exit(main())
