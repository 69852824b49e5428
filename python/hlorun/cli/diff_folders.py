"""`hlorun diff DIR DIR`: the modules of two folders, pair by pair."""

from __future__ import annotations

import errno
from collections import Counter
from pathlib import Path
from typing import Any

from hlorun.cli.common import console, describe_file, load, plural
from hlorun.cli.screen import row


def modules_by_label(folder: Path) -> dict[str, Path]:
    """The files of a folder's modules by what two folders have in common: module and stage, or file name.

    Numbers of modules are those of a process, and count only among modules of one name.
    """
    from hlorun._scan import looks_like_hlo, scan

    scanned = scan(folder)
    found: dict[str, Path] = {}
    seen: Counter[str] = Counter()
    for module in scanned:
        seen[module.name] += 1
        name = module.name if seen[module.name] == 1 else f"{module.name} ({seen[module.name]})"
        for stage in module.stages:
            if (path := stage.text or stage.proto) is not None:
                found[f"{name} {stage.name}"] = path
    for path in scanned.unknown:
        if looks_like_hlo(path.name):
            found[path.relative_to(folder).as_posix()] = path
    if not found:
        raise FileNotFoundError(errno.ENOENT, "no HLO in this folder", str(folder))
    return found


def compare_folders(a: Path, b: Path) -> dict[str, Any]:
    """How the modules of two folders differ.

    Returns:
        "identical", "only_in_a" and "only_in_b", names of modules; "modules", for each that both have its
        "name", "A" and "B", its files, and what `compare_modules` says, or an "error".
    """
    from hlorun.errors import HloError
    from hlorun.report.diff import compare_modules

    left, right = modules_by_label(a), modules_by_label(b)
    modules: list[dict[str, Any]] = []
    for name in left:
        if name not in right:
            continue
        pair: dict[str, Any] = {"name": name, "A": str(left[name]), "B": str(right[name])}
        try:
            pair |= compare_modules(load(left[name]), load(right[name]))
        except (HloError, OSError) as error:
            text = describe_file(error) if isinstance(error, OSError) else str(error)
            pair |= {"identical": False, "error": text}
        modules.append(pair)
    only = [name for name in left if name not in right], [name for name in right if name not in left]
    same = not any(only) and all(pair["identical"] for pair in modules)
    return {"identical": same, "only_in_a": only[0], "only_in_b": only[1], "modules": modules}


def show_folders(found: dict[str, Any], limit: int) -> None:
    """Print what `compare_folders` says."""
    out = console()
    pairs = found["modules"]
    same = [pair for pair in pairs if pair["identical"]]
    if same:
        elided = sum(max(pair["elided_constants"]) for pair in same)
        but = (
            f", but for the values of {plural(elided, 'constant')} that the texts leave out" if elided else ""
        )
        row(out, "the same", plural(len(same), "module") + but)
    different = [pair for pair in pairs if not pair["identical"]]
    for pair in different[:limit]:
        if "error" in pair:
            row(out, "not compared", f"{pair['name']}: {pair['error']}")
            continue
        x, y = pair["instructions"]
        counts = plural(x, "instruction") if x == y else f"{x:,} → {plural(y, 'instruction')}"
        row(out, "different", f"{pair['name']}, {counts}: hlorun diff {pair['A']} {pair['B']}")
    if len(different) > limit:
        row(out, "", f"… {len(different) - limit:,} more; --limit shows them")
    for key, label in (("only_in_a", "only in A"), ("only_in_b", "only in B")):
        for name in found[key][:limit]:
            row(out, label, name)
        if len(found[key]) > limit:
            row(out, "", f"… {len(found[key]) - limit:,} more; --limit shows them")
