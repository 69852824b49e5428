"""Writes HLO modules that JAX makes, one file each, into a directory outside the repository.

    XLA_FLAGS=--xla_force_host_platform_device_count=8 python make_corpus.py DIRECTORY [--limit N]

Every case of `corpus_cases.py` gives up to three texts: lowered (`NAME.lowered.hlo`), lowered with
its metadata (`NAME.debug.hlo`) and compiled for the CPU (`NAME.compiled.hlo`); some are lowered for
other platforms as well (`NAME.cuda.hlo`, `NAME.tpu.hlo`). A text that another case gave already is
left out. What JAX cannot lower or compile is counted and skipped.
"""

# mypy: disable-error-code="no-untyped-call,import-not-found,import-untyped"
from __future__ import annotations

import argparse
import collections
import hashlib
import pathlib
import site
from collections.abc import Iterator

import jax

import corpus_cases

try:
    from jaxlib._hlo import HloPrintOptions as PrintOptions
except ImportError:  # before 2026
    from jaxlib.xla_extension import HloPrintOptions as PrintOptions


def texts(case: corpus_cases.Case, index: int, lost: collections.Counter[str]) -> Iterator[tuple[str, str]]:
    """The kinds of text of one case, with their names."""
    try:
        lowered = case.lower()
        yield "lowered", lowered.as_text("hlo")
    except Exception as error:  # noqa: BLE001  anything JAX refuses is no case
        lost[f"lower: {type(error).__name__}"] += 1
        return
    if index % 4 == 0:
        try:
            yield "debug", lowered.as_text("hlo", debug_info=True)
        except TypeError:  # before 2024
            lost["debug"] += 1
    try:
        options = PrintOptions()
        options.print_large_constants = True
        for module in lowered.compile().runtime_executable().hlo_modules():
            yield "compiled", module.to_string(options)
    except Exception as error:  # noqa: BLE001
        lost[f"compile: {type(error).__name__}"] += 1
    if index % 3 == 0:
        for platform in ("cuda", "tpu"):
            try:
                yield platform, case.lower(platform).as_text("hlo")
            except Exception as error:  # noqa: BLE001
                lost[f"{platform}: {type(error).__name__}"] += 1


def main() -> None:
    """Writes the corpus."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--limit", type=int, default=None, help="only the first N cases")
    arguments = parser.parse_args()
    arguments.directory.mkdir(parents=True, exist_ok=True)
    jax.config.update("jax_enable_x64", True)
    seen: set[bytes] = set()
    lost: collections.Counter[str] = collections.Counter()
    written = 0
    for index, case in enumerate(corpus_cases.all_cases()):
        if arguments.limit is not None and index >= arguments.limit:
            break
        for kind, text in texts(case, index, lost):
            for folder in (*site.getsitepackages(), str(pathlib.Path(__file__).parent)):
                text = text.replace(folder, "")
            digest = hashlib.sha256(text.encode()).digest()
            if digest in seen:
                continue
            seen.add(digest)
            (arguments.directory / f"{case.name}.{kind}.hlo").write_text(text)
            written += 1
    print(f"{written} modules, without: {dict(lost)}")


if __name__ == "__main__":
    main()
