"""Writes THIRD_PARTY_LICENSES.md, the licences of the crates in a wheel: `python tools/licences.py`.

Of a crate that may be had under several licences the one that asks for least text is taken: Apache-2.0, which
stands in LICENSE, before those whose notice has to be repeated.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "THIRD_PARTY_LICENSES.md"
TARGETS = (ROOT / "tools" / "targets.txt").read_text(encoding="utf-8").split()

# In order of preference, with what the name of the file of its text begins with.
FILES = {
    "Apache-2.0": (),
    "Apache-2.0 WITH LLVM-exception": ("LICENSE",),
    "MIT": ("LICENSE-MIT", "LICENSE.md", "LICENSE"),
    "BSD-2-Clause": ("LICENSE",),
    "ISC": ("LICENSE",),
    "Zlib": ("LICENSE",),
}

# Their text names no holder of rights, so one copy speaks for every crate.
IMPERSONAL = ("Apache-2.0 WITH LLVM-exception",)


def cargo(*arguments: str) -> str:
    """What a cargo command prints."""
    return subprocess.run(
        ["cargo", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, encoding="utf-8"
    ).stdout


def linked(target: str) -> set[tuple[str, str]]:
    """Name and version of every crate whose code is in the extension module on a target."""
    command = "tree --locked --package hlorun-python --edges normal,no-proc-macro --prefix none --format {p}"
    lines = cargo(*command.split(), "--target", target).splitlines()
    crates = (line.split() for line in lines if "(/" not in line and line.strip())
    return {(name, version.removeprefix("v")) for name, version, *_ in crates}


def taken(expression: str) -> str:
    """The licence that is taken of those that an SPDX expression offers."""
    offered = set(re.split(r" OR |/", expression))
    for licence in FILES:
        if licence in offered:
            return licence
    raise SystemExit(f"no licence of {expression!r} is known: add it to FILES")


def text_of(folder: Path, licence: str) -> str | None:
    """The text of the licence in the folder of a crate, where it has one."""
    for start in FILES[licence]:
        for path in sorted(folder.glob(f"{start}*")):
            return "\n".join(line.rstrip() for line in path.read_text(encoding="utf-8").strip().splitlines())
    return None


def notices(packages: list[tuple[str, Path]]) -> list[str]:
    """The notices of crates, which Apache-2.0 has everyone repeat."""
    blocks = []
    for name, folder in packages:
        for path in sorted(folder.glob("NOTICE*")):
            text = path.read_text(encoding="utf-8").strip()
            blocks.append(f"## Notice of {name}\n\n````text\n{text}\n````\n")
    return blocks


def document() -> str:
    """The whole page."""
    metadata = json.loads(cargo("metadata", "--locked", "--format-version", "1"))
    packages = {(package["name"], package["version"]): package for package in metadata["packages"]}
    rows: list[str] = []
    folders: list[tuple[str, Path]] = []
    texts: dict[tuple[str, str | None], list[str]] = {}
    for key in sorted(set().union(*map(linked, TARGETS))):
        package = packages[key]
        licence = taken(package["license"])
        rows.append(f"| {key[0]} | {key[1]} | {package['license']} | {licence} |")
        folder = Path(package["manifest_path"]).parent
        folders.append((key[0], folder))
        if FILES[licence]:
            text = text_of(folder, licence)
            texts.setdefault((licence, text), []).append(key[0])
    shared = {licence: text for licence, text in texts if licence in IMPERSONAL and text is not None}
    for licence, text in [key for key in texts if key[1] is None]:
        if licence not in shared:
            raise SystemExit(f"no text of {licence}: {', '.join(texts[licence, text])}")
        texts[licence, shared[licence]] += texts.pop((licence, text))
    head = (
        "# Licences of what a wheel holds\n\n"
        "hlorun's own code is under the Apache License 2.0 in LICENSE, and so are the crates that it\n"
        "is taken for below. The wheel also holds Rust's standard library (MIT OR Apache-2.0, the\n"
        "latter taken).\n"
        "This page is made by `tools/licences.py`.\n\n"
        "| crate | version | offered under | taken |\n|---|---|---|---|\n"
    )
    blocks = [
        f"## {licence}: {', '.join(sorted(names))}\n\n````text\n{text}\n````\n"
        for (licence, text), names in sorted(texts.items(), key=lambda item: (item[0][0], item[1]))
    ]
    return head + "\n".join(rows) + "\n\n" + "\n".join(blocks + notices(folders))


if __name__ == "__main__":
    PAGE.write_text(document(), encoding="utf-8")
