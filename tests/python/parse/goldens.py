"""Writes beside each HLO text of a directory what jaxlib prints for it under every preset.

    python goldens.py DIRECTORY

`NAME.hlo` gives `NAME.golden`: the input and jaxlib's outputs, each after a line `//// SECTION`. An
output that equals an earlier section says so in place of the text: `//// canonical = default`. Texts
that jaxlib refuses, or that crash it, get no golden; they are listed.
"""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys

PRESETS = ("default", "short_parsable", "canonical", "fingerprint")


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


def golden(path: pathlib.Path) -> None:
    """Writes the golden of one text."""
    from jaxlib import _hlo

    text = path.read_text()
    module = _hlo.hlo_module_from_text(text)
    texts = {"input": text}
    for preset in PRESETS:
        options = _hlo.HloPrintOptions() if preset == "default" else getattr(_hlo.HloPrintOptions, preset)()
        texts[preset] = module.to_string(options)
    path.with_suffix(".golden").write_text(sections(texts))


def work(paths: list[pathlib.Path]) -> None:
    """Writes goldens, naming each text before it is read, so that a crash can be told."""
    for path in paths:
        print(path, flush=True)
        try:
            golden(path)
        except (RuntimeError, ValueError) as error:
            print(f"refused {path}: {str(error).splitlines()[:2]}", file=sys.stderr, flush=True)


def main() -> None:
    """Goes through the directory in a child process that is started again when jaxlib crashes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        work([pathlib.Path(line) for line in sys.stdin.read().split("\n") if line])
        return
    paths = sorted(p for p in arguments.directory.glob("*.hlo") if not p.with_suffix(".golden").exists())
    while paths:
        names = "\n".join(map(str, paths))
        child = subprocess.run(
            [sys.executable, __file__, "--child", str(arguments.directory)], input=names, stdout=subprocess.PIPE, text=True, check=False
        )
        done = child.stdout.split()
        if child.returncode:
            print(f"crashed on {done[-1] if done else '?'}", file=sys.stderr)
        paths = paths[max(len(done), 1) :]
    made = len(list(arguments.directory.glob("*.golden")))
    print(f"{made} goldens")


if __name__ == "__main__":
    main()
