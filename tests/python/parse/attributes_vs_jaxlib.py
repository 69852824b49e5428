"""What jaxlib's parser says of attributes: which ones an opcode has, and which words and counts they take.

    python tests/python/parse/attributes_vs_jaxlib.py --bless   # store the attributes of every opcode
    python tests/python/parse/attributes_vs_jaxlib.py 2000      # so many changed texts: where the verdicts differ

The changed texts are those of `tests/hlo/{parse,verify,print}` with one word in capitals or misspelled, one attribute
under the name of another, or one number of a list dropped or repeated. jaxlib judges each in a process of its own,
because it aborts on some.
"""

# mypy: disable-error-code="no-untyped-call,import-not-found,import-untyped"
from __future__ import annotations

import argparse
import collections
import json
import os
import random
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STORE = ROOT / "data" / "attributes.json"
WORD = re.compile(r"(?<=[, ])([a-z_-]+)=(\{[^{}\n]*\}|[A-Za-z_]\w*)")
SEED = 11


def theirs(text: str) -> str:
    """Empty where jaxlib's parser accepts, else its first words."""
    from jaxlib import _hlo

    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            _hlo.hlo_module_from_text(text)
            answer = "accepted"
        except Exception as error:  # noqa: BLE001  whatever it raises is its verdict
            answer = str(error)
        os.write(write, answer.encode()[:60_000])
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answer = pipe.read().decode()
    os.waitpid(child, 0)
    return "" if answer == "accepted" else answer.rpartition("error: ")[2].strip() or "aborts"


def ours(text: str) -> str:
    """Empty where hlorun accepts, else its first line."""
    import hlorun

    try:
        hlorun.parse(text, strict=True).verify()
    except (hlorun.HloParseError, hlorun.HloVerifyError) as error:
        return str(error).splitlines()[0]
    return ""


def bless() -> None:
    """Stores the attributes of every opcode, from what jaxlib says of one that it does not know."""
    opcodes = re.findall(r' "([a-z0-9-]+)" \d', (ROOT.parent / "rust/hlorun/module/opcode.rs").read_text())
    found = {}
    for opcode in opcodes:
        for count in (1, 2, 0, 3, 4, 5):
            operands = {"parameter": "1", "constant": "{1,2,3,4}"}.get(opcode, ", ".join(["x"] * count))
            text = f"HloModule m\n\nENTRY e {{\n  x = f32[4] parameter(0)\n  ROOT r = f32[4] {opcode}({operands}), no_such={{0}}\n}}\n"
            allowed = re.search(r"Allowed attributes: ([a-z_, -]+)", theirs(text))
            if allowed:
                found[opcode] = sorted(allowed[1].strip().split(", "))
                break
    common = sorted(set.intersection(*map(set, found.values())))
    lines = [
        f"  {json.dumps(k)}: {json.dumps([a for a in v if a not in common])}"
        for k, v in sorted(found.items())
    ]
    STORE.write_text(
        f'{{\n "common": {json.dumps(common)},\n "opcodes": {{\n' + ",\n".join(lines) + "\n }\n}\n"
    )


def changed(text: str, chance: random.Random) -> tuple[str, str] | None:
    """The text with one attribute changed, and how."""
    places = list(WORD.finditer(text))
    if not places:
        return None
    place = chance.choice(places)
    key, value = place.groups()
    kind = chance.choice(["word", "capitals", "name", "count"])
    if kind == "name":
        key = chance.choice(places)[1]
    elif kind == "capitals":
        value = value.swapcase()
    elif kind == "word":
        value = re.sub(r"[A-Za-z_]\w*", lambda word: word[0] + "x", value, count=1)
    elif value.startswith("{") and value != "{}":
        numbers = value[1:-1].split(",")
        value = "{" + ",".join(chance.choice([numbers[:-1], [*numbers, numbers[-1]]])) + "}"
    new = f"{key}={value}"
    return (
        None
        if new == place[0]
        else (text[: place.start()] + new + text[place.end() :], f"{kind}: {place[0]} -> {new}")
    )


def compare(count: int) -> int:
    """Prints the differences by kind; how many there are."""
    files = [
        p for folder in ("parse", "verify", "print") for p in sorted((ROOT / "hlo" / folder).glob("*.hlo"))
    ]
    texts = [part.strip() + "\n" for p in files for part in re.split(r"(?m)^// -----.*$", p.read_text())]
    texts = [text for text in texts if not ours(text) and not theirs(text)]
    chance = random.Random(SEED)
    differences: collections.Counter[str] = collections.Counter()
    for _ in range(count):
        change = changed(chance.choice(texts), chance)
        if change is None:
            continue
        text, what = change
        mine, other = ours(text), theirs(text)
        if bool(mine) != bool(other):
            differences[f"{'hlorun' if mine else 'jaxlib'} refuses: {what}: {(mine or other)[:100]!r}"] += 1
    for what, times in differences.most_common():
        print(times, what)
    print(f"{len(texts)} texts, {count} changes, {sum(differences.values())} differences")
    return sum(differences.values())


def main() -> int:
    """Compares, or stores the attributes anew."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("count", nargs="?", type=int, default=1000)
    parser.add_argument("--bless", action="store_true")
    arguments = parser.parse_args()
    if arguments.bless:
        bless()
        return 0
    return int(compare(arguments.count) > 0)


if __name__ == "__main__":
    sys.exit(main())
