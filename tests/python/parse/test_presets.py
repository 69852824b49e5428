"""`module.to_string(preset)` has jaxlib's bytes: the goldens of tests/data/print, and any directory of goldens that
HLORUN_PRINT_CORPUS names (see goldens.py)."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import hlorun

PRESETS = ("default", "short_parsable", "canonical", "fingerprint")
ELIDED = "constant({...})"


def sections(text: str) -> dict[str, str]:
    """The texts of a golden, by their names."""
    found: dict[str, str] = {}
    for part in text.removeprefix("//// ").split("\n//// "):
        head, _, body = part.partition("\n")
        name, _, same = head.partition(" = ")
        found[name] = found[same] if same else body
    return found


def same(ours: str, theirs: str) -> bool:
    """The same bytes, but for values that the text left out: jaxlib makes some up, hlorun keeps `{...}`."""
    a, b = ours.rstrip("\n").split("\n"), theirs.rstrip("\n").split("\n")
    return len(a) == len(b) and all(
        x == y or (ELIDED in x and "constant(" in y) for x, y in zip(a, b, strict=True)
    )


def different(folder: Path, tally: Counter[str]) -> list[str]:
    """Which goldens differ under which preset."""
    found = []
    for path in sorted(folder.glob("*.golden")):
        texts = sections(path.read_text())
        module = hlorun.parse(texts["input"])
        for preset in PRESETS:
            options = {"print_large_constants": False} if preset == "default" else {}
            if preset in texts:
                tally[preset] += 1
                if not same(module.to_string(preset, **options), texts[preset]):
                    found.append(f"{path.name} {preset}")
    return found


def test_presets_have_jaxlibs_bytes() -> None:
    tally: Counter[str] = Counter()
    folders = [Path(__file__).resolve().parents[2] / "data" / "print"]
    if extra := os.environ.get("HLORUN_PRINT_CORPUS"):
        folders.append(Path(extra))
    wrong = [line for folder in folders for line in different(folder, tally)]
    print(dict(tally))
    assert not wrong
    assert min(tally[preset] for preset in PRESETS) > 200
