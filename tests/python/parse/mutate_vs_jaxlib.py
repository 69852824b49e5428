"""Damages texts that jaxlib and hlorun both accept, and stores jaxlib's verdict on each.

    python tests/python/parse/mutate_vs_jaxlib.py           # compare hlorun with the stored verdicts
    python tests/python/parse/mutate_vs_jaxlib.py --bless   # make the texts and ask jaxlib again

The texts are inputs of `tests/data/print` with one or two words, lines or characters changed, by a fixed seed. To
jaxlib a text is wrong when its parser refuses it, or the conversion to StableHLO, or the compilation for the CPU; it
is asked in child processes, because it aborts on some. To hlorun it is wrong when it does not parse with `strict=True`
or breaks a rule of `verify()`. `mutated.json.gz` keeps the texts as edits of their originals.
"""

# mypy: disable-error-code="no-untyped-call,import-not-found,import-untyped"
from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parents[2] / "data"
STORE = DATA / "mutated.json.gz"
COUNT = 300
SEED = 20
WORD = re.compile(r"-?\d+(?:\.\d+)?|[A-Za-z_][\w.\-]*|[^\s\w]")
TYPES = ["pred", "s8", "s32", "s64", "u8", "u32", "f16", "bf16", "f32", "f64", "c64"]


def originals() -> dict[str, str]:
    """Short inputs of the printer's goldens, by name."""
    found = {}
    for path in sorted((DATA / "print").glob("*.golden")):
        text = path.read_text().removeprefix("//// input\n").split("\n//// ", 1)[0]
        if 200 < len(text) < 4000 and "{...}" not in text:
            found[path.stem] = text
    return found


def edits(text: str, chance: random.Random) -> list[tuple[int, int, str]]:
    """One or two changes, each (start, end, by what)."""
    made: list[tuple[int, int, str]] = []
    # Damage to metadata says little; the language is elsewhere.
    quiet = [m.span() for m in re.finditer(r"metadata=\{[^}]*\}|\"[^\"]*\"", text)]
    words = [m for m in WORD.finditer(text) if not any(a <= m.start() < b for a, b in quiet)]
    lines = [m.span() for m in re.finditer(r"[^\n]*\n", text)]
    for _ in range(chance.choice((1, 1, 1, 2))):
        word = chance.choice(words)
        start, end = word.span()
        old = word.group()
        kind = chance.random()
        if kind < 0.08:
            start, end = chance.choice(lines)
            by = ""
        elif kind < 0.14:
            start, end = chance.choice(lines)
            by = text[start:end] * 2
        elif kind < 0.22:
            by = ""
        elif kind < 0.30:
            end, by = start, chance.choice(list("{}[](),=%") + ["1", "x", " "])
        elif old in TYPES:
            by = chance.choice([t for t in TYPES if t != old])
        elif re.fullmatch(r"-?\d+", old):
            by = str(chance.choice([0, 1, 2, 3, 5, -1, 17, int(old) + 1]))
        else:
            # Another word of its kind: a name for a name, an opcode for an opcode.
            follows = text[end : end + 1]
            like = [m.group() for m in words if m.group() != old and text[m.end() : m.end() + 1] == follows]
            by = chance.choice(like or ["x"])
        if all(end <= a or start >= b for a, b, _ in made):
            made.append((start, end, by))
    return sorted(made)


def edited(text: str, changes: list[Any]) -> str:
    """The text with the changes made."""
    for start, end, by in sorted(changes, reverse=True):
        text = text[:start] + by + text[end:]
    return text


def judge(text: str) -> None:
    """In this process, which XLA may end: says which stage is reached, then raises or returns."""
    import jax
    from jax._src.lib import xla_client
    from jaxlib import _hlo

    print("parse", flush=True)
    module = _hlo.hlo_module_from_text(text)
    print("convert", flush=True)
    computation = _hlo.XlaComputation(module.as_serialized_hlo_module_proto())
    mlir = xla_client._xla.mlir.xla_computation_to_mlir_module(computation)
    print("compile", flush=True)
    device = jax.devices("cpu")[0]
    device.client.compile_and_load(mlir, xla_client.DeviceList((device,)), xla_client.CompileOptions())
    print("accepted", flush=True)


def serve() -> None:
    """Judges the texts of standard input, a JSON string per line."""
    for line in sys.stdin:
        try:
            judge(json.loads(line))
        except Exception as error:  # noqa: BLE001  whatever XLA raises is its verdict
            print("error", " ".join(str(error).split())[:160], flush=True)


def verdicts(texts: list[str]) -> list[str]:
    """Jaxlib's verdict on each: "accepted", or the stage that refuses and its first words."""
    found: list[str] = []
    environment = dict(os.environ, JAX_PLATFORMS="cpu", TF_CPP_MIN_LOG_LEVEL="3", JAX_ENABLE_X64="1")
    while len(found) < len(texts):
        with tempfile.TemporaryFile("w+") as log:
            child = subprocess.run(
                [sys.executable, __file__, "--serve"],
                input="".join(json.dumps(t) + "\n" for t in texts[len(found) :]),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
                check=False,
            )
            log.seek(0)
            last = [line for line in log.read().splitlines() if "Check failed" in line or "F0000" in line]
        stage = ""
        for line in child.stdout.splitlines():
            if line == "accepted":
                found.append(line)
                stage = ""
            elif line.startswith("error"):
                found.append(f"{stage}: {line[6:]}")
                stage = ""
            else:
                stage = line
        if stage:
            reason = last[-1].partition("] ")[2][:160] if last else f"status {child.returncode}"
            found.append(f"{stage}: aborts, {reason}")
    return found


def bless() -> None:
    """Makes the texts anew."""
    texts = originals()
    accepted = [
        name
        for name, verdict in zip(texts, verdicts(list(texts.values())), strict=True)
        if verdict == "accepted"
    ]
    accepted = [name for name in accepted if ours(texts[name]) == "accepted"]
    print(f"{len(accepted)} of {len(texts)} originals are accepted by both")
    chance = random.Random(SEED)
    made: list[dict[str, Any]] = []
    seen = set(texts.values())
    while len(made) < COUNT:
        name = chance.choice(accepted)
        changes = edits(texts[name], chance)
        text = edited(texts[name], changes)
        if text not in seen:
            seen.add(text)
            made.append({"of": name, "edits": changes, "text": text})
    for entry, verdict in zip(made, verdicts([entry.pop("text") for entry in made]), strict=True):
        entry["jaxlib"] = verdict
    used = {entry["of"]: texts[entry["of"]] for entry in made}
    data = json.dumps({"texts": used, "mutated": made}, separators=(",", ":")).encode()
    STORE.write_bytes(gzip.compress(data, 9, mtime=0))
    wrong = sum(entry["jaxlib"] != "accepted" for entry in made)
    print(f"{len(made)} texts, {wrong} wrong to jaxlib, {STORE.stat().st_size} bytes")


def stored() -> list[tuple[str, str, str]]:
    """(name, text, jaxlib's verdict) of every stored text."""
    data = json.loads(gzip.decompress(STORE.read_bytes()))
    return [
        (f"{number}:{entry['of']}", edited(data["texts"][entry["of"]], entry["edits"]), entry["jaxlib"])
        for number, entry in enumerate(data["mutated"])
    ]


def ours(text: str) -> str:
    """hlorun's verdict."""
    import hlorun

    try:
        hlorun.parse(text, strict=True).verify()
    except hlorun.HloParseError as error:
        return f"parse: {str(error).splitlines()[0]}"
    except hlorun.HloVerifyError as error:
        return f"verify: {str(error).splitlines()[0]}"
    return "accepted"


def disagreements() -> list[tuple[str, str, str, str]]:
    """(name, text, jaxlib's verdict, hlorun's) where one accepts and the other does not."""
    found = []
    for name, text, theirs in stored():
        mine = ours(text)
        if (mine == "accepted") != (theirs == "accepted"):
            found.append((name, text, theirs, mine))
    return found


def main() -> int:
    """Compares, or makes the texts anew."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bless", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve()
        return 0
    if arguments.bless:
        bless()
    entries = stored()
    found = disagreements()
    data = json.loads(gzip.decompress(STORE.read_bytes()))
    for name, _, theirs, mine in found:
        entry = data["mutated"][int(name.split(":")[0])]
        base = data["texts"][entry["of"]]
        print(name)
        for start, end, by in entry["edits"]:
            line = base.rfind("\n", 0, start) + 1
            print(f"  {base[line : base.find(chr(10), start)].strip()[:150]}")
            print(f"    {base[start:end]!r} -> {by[:60]!r}")
        print(f"  jaxlib: {theirs}\n  hlorun: {mine}")
    wrong = sum(theirs != "accepted" for _, _, theirs in entries)
    print(f"{len(entries)} texts, {wrong} wrong to jaxlib, {len(found)} disagreements")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
