"""Writes beside each HLO text of a directory what jaxlib prints for it under every preset.

    python goldens.py DIRECTORY

`NAME.hlo` gives `NAME.golden`: the input and jaxlib's outputs, each after a line `//// SECTION`. An
output that equals an earlier section says so in place of the text: `//// canonical = default`. Texts
that jaxlib refuses, or that crash it, get no golden; they are listed.
"""

# mypy: disable-error-code="no-untyped-call,import-not-found,import-untyped"
from __future__ import annotations

import argparse
import pathlib
import random
import re
import subprocess
import sys

PRESETS = ("default", "short_parsable", "canonical", "fingerprint")
SWITCHES = (
    "canonicalize_computations",
    "compact_operands",
    "include_layout_in_shapes",
    "print_backend_config",
    "print_control_dependencies",
    "print_extra_attributes",
    "print_ids",
    "print_large_constants",
    "print_metadata",
    "print_operand_names",
    "print_operand_shape",
    "print_percent",
    "print_program_shape",
    "print_result_shape",
)


def sections(texts: dict[str, str]) -> str:
    """The texts in one file, each of them once."""
    out = []
    names: dict[str, str] = {}
    for name, text in texts.items():
        if text in names:
            out.append(f"//// {name} = {names[text]}\n")
        else:
            names[text] = name
            out.append(f"//// {name}\n{text}\n")
    return "".join(out)


def golden(path: pathlib.Path, count: int) -> None:
    """Writes the golden of one text, with `count` random sets of options besides the presets."""
    from jaxlib import _hlo

    text = path.read_text()
    # jaxlib reads `-0` as a whole number and loses the sign that it wrote itself.
    module = _hlo.hlo_module_from_text(re.sub(r"(?<=[ {(])-0(?=[,} )])", "-0.0", text))
    texts = {"input": text}
    chance = random.Random(path.name)
    variants = [[], *([name for name in SWITCHES if chance.random() < 0.3] for _ in range(count))]
    for preset in PRESETS:
        for variant in variants:
            options = (
                _hlo.HloPrintOptions() if preset == "default" else getattr(_hlo.HloPrintOptions, preset)()
            )
            if options.canonicalize_instruction_names and "print_percent" in variant:
                continue
            for name in variant:
                setattr(options, name, not getattr(options, name))
            changed = [f"+{name}={getattr(options, name)}" for name in variant]
            texts[preset + "".join(changed)] = module.to_string(options)
    path.with_suffix(".golden").write_text(sections(texts))


def work(paths: list[pathlib.Path], count: int) -> None:
    """Writes goldens, naming each text before it is read, so that a crash can be told."""
    for path in paths:
        print(path, flush=True)
        try:
            golden(path, count)
        except (RuntimeError, ValueError) as error:
            print(f"refused {path}: {str(error).splitlines()[:2]}", file=sys.stderr, flush=True)


def main() -> None:
    """Goes through the directory in a child process that is started again when jaxlib crashes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--variants", type=int, default=0, help="random sets of options besides the presets")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        work([pathlib.Path(line) for line in sys.stdin.read().split("\n") if line], arguments.variants)
        return
    paths = sorted(p for p in arguments.directory.glob("*.hlo") if not p.with_suffix(".golden").exists())
    while paths:
        names = "\n".join(map(str, paths))
        child = subprocess.run(
            [
                sys.executable,
                __file__,
                "--child",
                f"--variants={arguments.variants}",
                str(arguments.directory),
            ],
            input=names,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        done = child.stdout.split()
        if child.returncode:
            print(f"crashed on {done[-1] if done else '?'}", file=sys.stderr)
        paths = paths[max(len(done), 1) :]
    made = len(list(arguments.directory.glob("*.golden")))
    print(f"{made} goldens")


if __name__ == "__main__":
    main()
