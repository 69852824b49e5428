#!/usr/bin/env python3
"""Time image nets on hlorun, XLA:CPU, ONNX Runtime and OpenVINO, in turn in one process, all on all cores.

  python benches/python/vs_nets.py [--only PATTERN] [--batches 1,8] [--weights {constants,arguments}] [--seconds 20]
                                   [--engines hlorun,xla,onnxruntime,openvino] [--disable PASSES] [--json OUT] [--text FOLDER]

The nets (`image_nets`) are ResNet-50, MobileNetV2, EfficientNet-B0, ConvNeXt-Tiny and a U-Net, with random f32 weights.
hlorun and XLA:CPU run the HLO that JAX makes of them, the other two an ONNX model with the same weights. Those hold
their weights as constants, which they lay out beforehand; `--weights arguments` hands ours over with each call instead.
Results are compared before they are timed. Before each call, outside the time, is a pause of 20 ms in which threads of the
other engines stop to wait for work. Printed: the best times, and the median and best times of hlorun over each
other's. `--text` also writes hlorun's HLO. Needs jax, onnx, onnxruntime, openvino.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(Path(__file__).parent))

import jax
import numpy as np
from image_nets import NETS, Net, OnJax, Weights, onnx_model
from machine import describe, versions
from timing import Call, DifferentResultsError, alternate, compare

import hlorun

THREADS = len(os.sched_getaffinity(0))
ENGINES = ("hlorun", "xla", "onnxruntime", "openvino")
PAUSE = 0.02


def on_jax(net: Net, seed: int, image: Any, constants: bool) -> tuple[Any, tuple[Any, ...]]:
    """The lowered function, and its arguments."""
    weights = Weights(seed)
    jax.eval_shape(lambda x: net(OnJax(weights), x), image)
    if constants:
        return jax.jit(lambda x: net(OnJax(Weights(seed)), x)).lower(image), (image,)
    arguments = (image, weights.drawn)
    return jax.jit(lambda x, known: net(OnJax(Weights(seed, known)), x)).lower(*arguments), arguments


def ours(lowered: Any, arguments: tuple[Any, ...], disable: list[str]) -> Call:
    module = lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()
    executable = hlorun.compile(hlorun.parse(module), disable=disable)
    leaves = jax.tree.leaves(arguments)
    return lambda: executable(*leaves)


def xla(lowered: Any, arguments: tuple[Any, ...]) -> Call:
    compiled, buffers = lowered.compile(), jax.device_put(arguments)
    return lambda: jax.block_until_ready(compiled(*buffers))


def onnxruntime(model: bytes, image: Any) -> Call:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.inter_op_num_threads = 1
    # Its idle threads would otherwise occupy the cores for a while after each call.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"image": image})[0]


def openvino(model: bytes, image: Any) -> Call:
    import openvino

    core = openvino.Core()
    options = {
        "INFERENCE_NUM_THREADS": THREADS,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    compiled = core.compile_model(core.read_model(model), "CPU", options)
    request = compiled.create_infer_request()
    return lambda: np.array(request.infer({"image": image}, share_inputs=True)[0])


def calls_of(name: str, batch: int, options: argparse.Namespace) -> dict[str, Call]:
    """Each engine's call, after comparing what they return."""
    net, side = NETS[name]
    image = np.random.default_rng(1).standard_normal((batch, side, side, 3), np.float32)
    lowered, arguments = on_jax(net, options.seed, image, options.weights == "constants")
    if options.text:
        options.text.mkdir(parents=True, exist_ok=True)
        text = hlorun.parse(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()).to_string()
        (options.text / f"{name}_{batch}.hlo").write_text(text)
    model = onnx_model(net, Weights(options.seed), image.shape)
    first = np.ascontiguousarray(image.transpose(0, 3, 1, 2))
    disable = [name for name in options.disable.split(",") if name]
    makers = {
        "hlorun": lambda: ours(lowered, arguments, disable),
        "xla": lambda: xla(lowered, arguments),
        "onnxruntime": lambda: onnxruntime(model, first),
        "openvino": lambda: openvino(model, first),
    }
    calls = {engine: makers[engine]() for engine in options.engines.split(",")}
    results = {engine: np.asarray(call()) for engine, call in calls.items()}
    if not np.isfinite(results["hlorun"]).all():
        raise DifferentResultsError("the results are not finite")
    for engine, result in results.items():
        theirs = result.transpose(0, 2, 3, 1) if result.ndim == 4 and engine.startswith("o") else result
        compare([results["hlorun"]], [theirs], 1e-3)
    return calls


def rested(call: Call) -> Call:
    """The call when the threads of another engine have stopped to wait for work."""

    def run() -> Any:
        time.sleep(PAUSE)
        return call()

    return run


def measure(name: str, batch: int, options: argparse.Namespace) -> dict[str, Any]:
    calls = calls_of(name, batch, options)
    # A pause before each call, which its time does not contain.
    taken = alternate({engine: rested(call) for engine, call in calls.items()}, options.seconds, samples=5)
    row: dict[str, Any] = {"name": name, "batch": batch}
    for engine, times in taken.items():
        row[f"{engine}_ms"] = [1e3 * (statistics.median(times) - PAUSE), 1e3 * (min(times) - PAUSE)]
    return row


def line(row: dict[str, Any], engines: list[str]) -> str:
    ours = row["hlorun_ms"]
    cells = [f"{row['name']:16s} {row['batch']:5d}", *(f"{row[f'{e}_ms'][1]:12.2f}" for e in engines)]
    for engine in engines[1:]:
        median, best = (a / b for a, b in zip(ours, row[f"{engine}_ms"], strict=True))
        cells.append(f"{median:7.2f} {best:5.2f}")
    return " ".join(cells)


def main() -> None:
    """Runs the nets and prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", default="*", help="names, as shell patterns, separated by commas")
    parser.add_argument("--batches", default="1")
    parser.add_argument("--weights", choices=["constants", "arguments"], default="constants")
    parser.add_argument("--engines", default=",".join(ENGINES), help="separated by commas, hlorun first")
    parser.add_argument("--seconds", type=float, default=20, help="of each net")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--disable", default="", help="passes to switch off, separated by commas")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--text", type=Path)
    options = parser.parse_args()
    engines = options.engines.split(",")
    chosen = [n for n in NETS if any(fnmatch.fnmatch(n, p) for p in options.only.split(","))]
    heading = [
        f"{'net':16s} batch",
        *(f"{e + ' ms':>12s}" for e in engines),
        *(f"{'/' + e:>13s}" for e in engines[1:]),
    ]
    print(" ".join(heading), flush=True)
    rows = []
    for batch in map(int, options.batches.split(",")):
        for name in chosen:
            rows.append(measure(name, batch, options))
            print(line(rows[-1], engines), flush=True)
    if options.json:
        page = {"machine": describe(), "versions": versions(), "weights": options.weights, "cases": rows}
        options.json.write_text(json.dumps(page, indent=1) + "\n")


if __name__ == "__main__":
    main()
