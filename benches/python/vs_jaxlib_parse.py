#!/usr/bin/env python3
"""Time `hlorun.parse` against jaxlib's HLO parser on the same texts, in alternation, one thread each.

  python benches/python/vs_jaxlib_parse.py [DUMP…] [--seconds 1.0] [--json]

Texts: every DUMP given (by default those of tests/data/dumps), and a transformer,
a ResNet and an RNN made with JAX here, each as lowered and as compiled for the CPU. Prints, per text: its size, the
median and best time of each parser, hlorun's speed in MB/s, and the ratios of the medians and of the bests, which
other work on the machine disturbs less. Needs jax and jaxlib.
A dump that this jaxlib refuses (old dialects) is shown without a ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# One thread each: set before either library starts its pool.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
for _name in ("OMP_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

ROOT = Path(__file__).resolve().parents[2]


def transformer() -> tuple[Callable[..., Any], list[Any]]:
    """The gradient of 4 blocks, width 128, 4 heads, 32 tokens."""
    import jax
    import jax.numpy as jnp

    def block(x: Any, p: Any) -> Any:
        def norm(v: Any) -> Any:
            m = v.mean(-1, keepdims=True)
            return (v - m) * jax.lax.rsqrt(((v - m) ** 2).mean(-1, keepdims=True) + 1e-5)

        b, t, d = x.shape
        q, k, v = (y.reshape(b, t, 4, d // 4) for y in jnp.split(norm(x) @ p[0], 3, -1))
        w = jnp.einsum("bqhd,bkhd->bhqk", q, k) / (d // 4) ** 0.5
        w = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((t, t), bool)), w, -1e9))
        x = x + jnp.einsum("bhqk,bkhd->bqhd", w, v).reshape(b, t, d) @ p[1]
        return x + jax.nn.gelu(norm(x) @ p[2]) @ p[3]

    def loss(params: Any, e: Any, tokens: Any) -> Any:
        x = e[tokens]
        for p in params:
            x = block(x, p)
        logits = jax.nn.log_softmax(x @ e.T)
        return -jnp.take_along_axis(logits[:, :-1], tokens[:, 1:, None], -1).mean()

    def step(params: Any, e: Any, tokens: Any) -> Any:
        value, g = jax.value_and_grad(loss)(params, e, tokens)
        return value, jax.tree.map(lambda a, b: a - 0.1 * b, params, g)

    d = 128
    layer = [jnp.zeros((d, 3 * d)), jnp.zeros((d, d)), jnp.zeros((d, 4 * d)), jnp.zeros((4 * d, d))]
    return step, [[layer] * 4, jnp.zeros((256, d)), jnp.zeros((2, 32), jnp.int32)]


def resnet() -> tuple[Callable[..., Any], list[Any]]:
    """The gradient of ResNet-18's body on 32 x 32 images."""
    import jax
    import jax.numpy as jnp

    def conv(x: Any, k: Any, s: int) -> Any:
        return jax.lax.conv_general_dilated(x, k, (s, s), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def norm(x: Any) -> Any:
        m = x.mean((0, 1, 2))
        return (x - m) * jax.lax.rsqrt(x.var((0, 1, 2)) + 1e-5)

    plan = [(16, 1), (16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), (128, 1)]

    def loss(params: Any, x: Any, y: Any) -> Any:
        x = jax.nn.relu(norm(conv(x, params[0], 1)))
        for (_, stride), (a, b, p) in zip(plan, params[1:-1], strict=True):
            h = jax.nn.relu(norm(conv(x, a, stride)))
            x = jax.nn.relu(norm(conv(h, b, 1)) + conv(x, p, stride))
        logits = jax.nn.log_softmax(x.mean((1, 2)) @ params[-1])
        return -jnp.take_along_axis(logits, y[:, None], 1).mean()

    def step(params: Any, x: Any, y: Any) -> Any:
        value, g = jax.value_and_grad(loss)(params, x, y)
        return value, jax.tree.map(lambda a, b: a - 0.1 * b, params, g)

    params: list[Any] = [jnp.zeros((3, 3, 3, 16))]
    width = 16
    for n, _ in plan:
        params.append((jnp.zeros((3, 3, width, n)), jnp.zeros((3, 3, n, n)), jnp.zeros((1, 1, width, n))))
        width = n
    params.append(jnp.zeros((width, 10)))
    return step, [params, jnp.zeros((4, 32, 32, 3)), jnp.zeros((4,), jnp.int32)]


def rnn() -> tuple[Callable[..., Any], list[Any]]:
    """The gradient of 3 LSTM layers over 20 steps."""
    import jax
    import jax.numpy as jnp

    def layer(x: Any, p: Any) -> Any:
        def cell(s: Any, v: Any) -> Any:
            h, c = s
            i, f, g, o = jnp.split(v @ p[0] + h @ p[1] + p[2], 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zero = jnp.zeros((x.shape[1], p[1].shape[0]))
        return jax.lax.scan(cell, (zero, zero), x)[1]

    def loss(params: Any, x: Any) -> Any:
        y = x
        for p in params:
            y = layer(y, p)
        return ((y - x) ** 2).mean()

    def step(params: Any, x: Any) -> Any:
        value, g = jax.value_and_grad(loss)(params, x)
        return value, jax.tree.map(lambda a, b: a - 0.1 * b, params, g)

    n = 64
    return step, [
        [(jnp.zeros((n, 4 * n)), jnp.zeros((n, 4 * n)), jnp.zeros(4 * n))] * 3,
        jnp.zeros((20, 8, n)),
    ]


def made_texts() -> dict[str, str]:
    """The three models, lowered and compiled."""
    import jax

    texts = {}
    for name, model in (("transformer", transformer), ("resnet", resnet), ("rnn", rnn)):
        function, arguments = model()
        lowered = jax.jit(function).lower(*arguments)
        texts[f"{name} lowered"] = str(lowered.as_text(dialect="hlo"))
        texts[f"{name} compiled"] = str(lowered.compile().as_text())
    return texts


def dump_texts(paths: list[Path]) -> dict[str, str]:
    """The dumps; by default what tests/data has."""
    import hlorun

    paths = paths or sorted((ROOT / "tests" / "data" / "dumps").iterdir())
    texts = {}
    for path in paths:
        try:
            # Unpacks what is packed.
            texts[path.name] = hlorun.load(path).source.decode()
        except hlorun.HloParseError:
            # Buffer assignments lie there too.
            print(f"{path.name} holds no module", file=sys.stderr)
    return texts


def once(function: Callable[[str], Any], text: str) -> float:
    """Seconds of one call; freeing the result is not counted."""
    begin = time.perf_counter()
    result = function(text)
    seconds = time.perf_counter() - begin
    del result
    return seconds


def alternate(
    ours: Callable[[str], Any], theirs: Callable[[str], Any] | None, text: str, seconds: float
) -> Any:
    """Times of both, taken in turns until the time is up, at least 5 each."""
    once(ours, text)
    if theirs is not None:
        once(theirs, text)
    a: list[float] = []
    b: list[float] = []
    end = time.perf_counter() + seconds
    while len(a) < 5 or (time.perf_counter() < end and len(a) < 2000):
        a.append(once(ours, text))
        if theirs is not None:
            b.append(once(theirs, text))
    return a, b


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dumps", nargs="*", type=Path)
    parser.add_argument("--seconds", type=float, default=1.0, help="per text")
    parser.add_argument("--json", action="store_true", help="one JSON object per line instead of the table")
    arguments = parser.parse_args()
    from jaxlib import _hlo

    import hlorun

    texts = {**dump_texts(arguments.dumps), **made_texts()}
    if not arguments.json:
        print(
            f"{'text':<34} {'size KB':>9} {'hlorun ms':>10} {'best':>8} {'MB/s':>7} {'jaxlib ms':>10} {'best':>8} {'ratio':>7} {'of bests':>9}"
        )
    ratios = []
    for name, text in texts.items():
        theirs: Callable[[str], Any] | None = _hlo.hlo_module_from_text
        try:
            _hlo.hlo_module_from_text(text)
        except Exception:
            theirs = None
        a, b = alternate(hlorun.parse, theirs, text, arguments.seconds)
        ours = statistics.median(a)
        row: dict[str, Any] = {
            "text": name,
            "bytes": len(text.encode()),
            "hlorun_s": ours,
            "hlorun_best_s": min(a),
            "runs": len(a),
        }
        if b:
            row |= {
                "jaxlib_s": statistics.median(b),
                "jaxlib_best_s": min(b),
                "ratio": statistics.median(b) / ours,
            }
            ratios.append(row["ratio"])
        if arguments.json:
            print(json.dumps(row))
            continue
        line = f"{name[:34]:<34} {row['bytes'] / 1e3:>9.1f} {ours * 1e3:>10.3f} {min(a) * 1e3:>8.3f} {row['bytes'] / ours / 1e6:>7.0f}"
        if b:
            line += f" {row['jaxlib_s'] * 1e3:>10.3f} {min(b) * 1e3:>8.3f} {row['ratio']:>6.1f}x {min(b) / min(a):>8.1f}x"
        else:
            line += f" {'refused':>10}"
        print(line, flush=True)
    if ratios and not arguments.json:
        print(
            f"least ratio {min(ratios):.1f}x, geometric mean {statistics.geometric_mean(ratios):.1f}x over {len(ratios)} texts"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
