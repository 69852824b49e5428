"""Picks a compact selection of goldens that together show everything the whole corpus shows.

    python select_goldens.py CORPUS... --into tests/data/print [--bytes N]

What a golden shows: opcodes with their attributes, element types with the kind of constant, header
attributes, forms of shardings and replica groups. The smallest goldens that show something new are
taken first, until the size is reached.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import shutil


def shown(text: str) -> set[str]:
    """What a golden shows, from its default section."""
    features: set[str] = set()
    header = text[: text.find("\n")]
    features.update(f"header {key}" for key in re.findall(r"(\w+)=", header))
    for line in text.split("\n"):
        match = re.match(r"\s+(?:ROOT )?%?[\w.-]+ = (\(?\w+).*? ([a-z][\w-]*)\((.*)", line)
        if not match:
            continue
        kind, opcode, rest = match.groups()
        features.add(f"{opcode} {kind}" if opcode in ("constant", "convert", "compare", "dot") else opcode)
        tail = re.sub(r'"(?:[^"\\]|\\.)*"', '""', rest)
        features.update(f"{opcode} {key}" for key in re.findall(r", ([\w-]+)=", tail))
        features.update(f"sharding {word}" for word in re.findall(r"sharding=\{+(\w+)", tail))
        features.update(f"groups {form}" for form in re.findall(r"replica_groups=(\W*\w)", tail))
        features.update(f"target {target}" for target in re.findall(r'custom_call_target="([^"]*)"', rest))
        if opcode == "constant":
            features.add(
                f"constant rank {rest.count('{') > 1} {'nan' in rest} {'inf' in rest} {'{...}' in rest} {'-0,' in rest}"
            )
        if "/*index=5*/" in line:
            features.add("index comment")
    return features


def main() -> None:
    """Copies the selection."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", type=pathlib.Path, nargs="+")
    parser.add_argument("--into", type=pathlib.Path, required=True)
    parser.add_argument("--bytes", type=int, default=1_500_000)
    arguments = parser.parse_args()
    paths = [path for corpus in arguments.corpora for path in corpus.glob("*.golden")]
    seen: set[str] = set()
    taken = 0
    arguments.into.mkdir(parents=True, exist_ok=True)
    for path in sorted(paths, key=lambda path: (path.stat().st_size, path.name)):
        text = path.read_text()
        new = shown(text[text.find("\n") + 1 : text.find("\n//// short_parsable")]) - seen
        size = path.stat().st_size
        if new and taken + size <= arguments.bytes:
            seen |= new
            taken += size
            shutil.copy(path, arguments.into / path.name)
    print(f"{len(list(arguments.into.glob('*.golden')))} goldens, {taken} bytes, {len(seen)} features")


if __name__ == "__main__":
    main()
