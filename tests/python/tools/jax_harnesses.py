"""Hold `hlorun.jax.jit`, or hlorun as a platform of JAX, against JAX's own harness.

  python tests/python/tools/jax_harnesses.py [WORD] [--plugin] [--shard I/N] [--out FILE]

`jax._src.internal_test_util.test_harnesses` has a function and inputs for every primitive, dtype and parameter; those
whose name contains WORD run through `jax.jit` and `hlorun.jax.jit`, and results are compared with the tolerances JAX
declares by dtype, or with `--plugin` through `jax.jit` on the CPU and on hlorun's device: vectors of decompositions up to their sign, sorts without a promise about equal keys in any order of
these. What JAX declares as unimplemented on the CPU, and what `jax.jit` refuses, is left out. Prints the share that
passes and the others by cause:

* `error`: hlorun refuses or fails; the class of the error and its message
* `type`: another structure, dtype or shape
* `rounding`: off by less than a thousand tolerances
* `value`: further off

FILE gets a JSON line for each that does not pass, with its HLO text. JAX_ENABLE_X64=1 runs all dtypes. Exit 1 when the
share is below 99 %.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu,hlorun" if "--plugin" in sys.argv else "cpu")
os.environ.setdefault("HLORUN_CHECK", "1")

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import jax
import numpy as np
from jax._src.internal_test_util import test_harnesses
from jax._src.public_test_util import tolerance

import hlorun.jax
from streams import legacy

ROUNDING = 1000
"""How many tolerances a result may be off and still count as rounded otherwise."""
SHARE = 0.99


def plain(leaf: Any) -> np.ndarray[Any, Any]:
    """A result as an array of NumPy's own kinds, wide enough to subtract."""
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.extended):
        leaf = jax.random.key_data(leaf)
    array = np.asarray(leaf)
    if array.dtype.kind in "biu":
        return array
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    # The small floats and integers of ml_dtypes, too.
    return array.astype(np.float64)


def declared(harness: Any) -> float | None:
    """The tolerance that JAX's own test of the harness has instead of the one of the dtype."""
    is_convolution = harness.group_name == "conv_general_dilated" and harness.dtype == np.float32
    return 1e-4 if is_convolution else None


def distance(ours: Any, theirs: Any, allowed: float | None = None) -> float:
    """How many tolerances two results of the same type are apart at most."""
    a, b = plain(ours), plain(theirs)
    if a.size == 0 or np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"):
        return 0.0
    allowed = 0.0 if a.dtype.kind in "biu" else tolerance(ours.dtype, allowed)
    if allowed == 0:
        return float("inf")
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        apart = np.where(same, 0.0, np.abs(a - b) / (allowed * (1 + np.abs(b))))
    return float("inf") if np.isnan(apart).any() else float(apart.max())


def turned(ours: Any, theirs: Any, axis: int) -> Any:
    """Our vectors along an axis, each times the sign or phase that brings it next to theirs."""
    product = np.sum(np.conj(ours) * theirs, axis=axis, keepdims=True)
    size = np.abs(product)
    return (ours * np.where(size > 0, product / np.where(size > 0, size, 1), 1)).astype(ours.dtype)


def vectors(ours: Any, theirs: Any) -> float:
    """The distance of singular vectors or eigenvectors, whose sign or phase nobody promises."""
    a, b = np.asarray(ours), np.asarray(theirs)
    return min(distance(turned(a, b, axis), b) for axis in (-1, -2))


def any_order(results: list[Any]) -> list[Any]:
    """What was sorted without a promise about equal keys, in one order of all of it."""
    arrays = [np.asarray(x) for x in results]
    if arrays[0].ndim != 1:
        return results
    order = np.lexsort(arrays[::-1])
    return [x[order] for x in arrays]


def judge(harness: Any, arguments: Any, ours: Any, theirs: Any) -> tuple[str, str]:
    """Whether two results agree: the cause if not, and its words."""
    leaves, tree = jax.tree.flatten(ours)
    wanted, wanted_tree = jax.tree.flatten(theirs)
    if tree != wanted_tree:
        return "type", f"{tree} for {wanted_tree}"
    for leaf, want in zip(leaves, wanted, strict=True):
        if jax.typeof(leaf) != jax.typeof(want):
            return "type", f"{jax.typeof(leaf)} for {jax.typeof(want)}"
    if harness.group_name == "sort" and not harness.params["is_stable"]:
        leaves, wanted = any_order(leaves), any_order(wanted)
    if harness.group_name == "approx_top_k":
        # Which of equal elements is chosen nobody promises; that it is one of them is compared.
        found = np.take_along_axis(np.asarray(arguments[0]), np.asarray(leaves[1]), -1)
        leaves, wanted = [leaves[0], found], [wanted[0], wanted[0]]
    worst = 0.0
    for leaf, want in zip(leaves, wanted, strict=True):
        apart = distance(leaf, want, declared(harness))
        if apart > 1 and leaf.ndim > 1 and harness.group_name in {"eig", "eigh", "svd"}:
            apart = vectors(leaf, want)
        worst = max(worst, apart)
    if worst <= 1:
        return "", ""
    return ("rounding" if worst < ROUNDING else "value"), f"{worst:.3g} tolerances apart"


def on_device(function: Any, arguments: Any) -> Any:
    """What `jax.jit` gives on hlorun's device."""
    (device,) = jax.devices("hlorun")
    moved = jax.tree.map(lambda x: jax.device_put(x, device) if isinstance(x, jax.Array) else x, arguments)
    with jax.default_device(device):
        results = jax.jit(function)(*moved)
    assert all(leaf.devices() == {device} for leaf in jax.tree.leaves(results)), "on another device"
    return results


def outcome(harness: Any, is_plugin: bool) -> tuple[str, str, str] | None:
    """Cause, words and HLO text of one harness; None where JAX itself does not run it."""
    arguments = harness.dyn_args_maker(legacy(zlib.crc32(harness.fullname.encode())))
    try:
        lowered = jax.jit(harness.dyn_fun).lower(*arguments)
        theirs = lowered.compile()(*arguments)
    except Exception:
        return None
    try:
        if is_plugin:
            ours = on_device(harness.dyn_fun, arguments)
        else:
            ours = hlorun.jax.jit(harness.dyn_fun)(*arguments)
        cause, words = judge(harness, arguments, ours, theirs)
    except Exception as error:
        cause, words = "error", f"{type(error).__name__}: {str(error)[:300]}"
    return cause, words, lowered.as_text("hlo") if cause else ""


def chosen(word: str, shard: str) -> Iterator[Any]:
    """The harnesses to run."""
    index, count = (int(part) for part in shard.split("/"))
    every = [h for h in test_harnesses.all_harnesses if h.filter("cpu") and word in h.fullname]
    yield from every[index::count]


def main() -> int:
    """Exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("word", nargs="?", default="")
    parser.add_argument("--plugin", action="store_true")
    parser.add_argument("--shard", default="0/1")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    counts: collections.Counter[str] = collections.Counter()
    lines = []
    for number, harness in enumerate(chosen(options.word, options.shard)):
        got = outcome(harness, options.plugin)
        if got is None:
            counts["left out"] += 1
            continue
        cause, words, text = got
        counts[cause or "pass"] += 1
        if cause:
            print(f"{cause:8} {harness.fullname}: {words}", flush=True)
            lines.append(json.dumps({"name": harness.fullname, "cause": cause, "words": words, "hlo": text}))
        if number % 200 == 199:
            print(f"# {number + 1} run: {dict(counts)}", file=sys.stderr, flush=True)
            jax.clear_caches()
    if options.out:
        options.out.write_text("\n".join(lines), encoding="utf-8")
    ran = sum(counts.values()) - counts["left out"]
    if not ran:
        print(f"no harness is called {options.word!r}", file=sys.stderr)
        return 1
    print(f"{counts['pass']} of {ran} pass, {100 * counts['pass'] / ran:.2f} %: {dict(counts)}")
    return int(counts["pass"] < SHARE * ran)


if __name__ == "__main__":
    sys.exit(main())
