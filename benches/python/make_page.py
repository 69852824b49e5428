#!/usr/bin/env python3
"""Measure everything and write docs/benchmarks.md.

  python benches/python/make_page.py [--results DIR] [--measure dumps,machine,products,fusions,profile] [--render]

Each part is measured by a process of its own and kept as DIR/PART.json (default: build/benchmarks), so parts can be
measured one by one, when the machine is quiet; `--render` only writes the page from what is there. Needs jax and
matplotlib. The parser has a page of its own, docs/benchmarks-parse.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
IMAGE = ROOT / "docs" / "images" / "roofline.png"
Part = dict[str, Any]

# Of dump 004, as `hlorun cost` counts it.
ARITHMETIC = 492.0

COMMANDS = {
    "dumps": ["vs_xla_dumps.py", "--json"],
    "fusions": ["vs_xla_fusions.py", "--json"],
    "products": ["vs_xla_products.py", "--json"],
    "machine": ["measure_machine.py", "--json"],
    "profile": ["profile_dump.py", "004", "--json"],
}


def measure(part: str, file: Path) -> None:
    """Runs the program of a part."""
    program, *options = COMMANDS[part]
    if not (HERE / program).exists():
        print(f"{program} is not here; {part} is left out")
        return
    subprocess.run([sys.executable, str(HERE / program), *options, str(file)], check=True)


def table(head: str, rows: list[list[str]]) -> Iterator[str]:
    names = [name.strip() for name in head.split("|")]
    yield "| " + " | ".join(names) + " |"
    yield "|" + "|".join(["---"] + ["---:"] * (len(names) - 1)) + "|"
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


def seconds_text(seconds: float) -> str:
    """A duration with three digits: 1.69 s, 25.8 ms, 34.7 µs."""
    # The limits are what three digits round up to.
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= 0.9995 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def megabytes_text(megabytes: float) -> str:
    """A size with three digits: 1.05 GB, 44.1 MB."""
    return f"{megabytes / 1e3:.3g} GB" if megabytes >= 999.5 else f"{megabytes:.3g} MB"


def dumps_part(part: Part) -> Iterator[str]:
    yield "## Dumps"
    yield ""
    yield "Fresh processes in turn (`vs_xla_dumps.py`); medians of the processes. A ratio below 1 means less than XLA:CPU needs."
    yield ""
    rows = []
    for case in part["cases"]:
        ours, theirs, ratios = case["hlorun"], case["xla"], case["ratios"]
        for key, label, text in (
            ("compile_s", "compile", seconds_text),
            ("run_s", "run", seconds_text),
            ("rss_mb", "peak memory", megabytes_text),
        ):
            values = [text(v[key]) for v in (ours, theirs)]
            rows.append([f"{case['name']} {label}", *values, f"{ratios[key]:.3f}"])
        if "first_s" in ratios:
            values = [seconds_text(case[f"{e}_first"]["first_s"]) for e in ("hlorun", "xla")]
            rows.append([f"{case['name']} first result", *values, f"{ratios['first_s']:.3f}"])
    yield from table("dump | hlorun | XLA:CPU | ratio", rows)
    yield "*First result* is the time from the start of a process to the result of one run: interpreter, imports, parsing, compilation, run."
    yield ""
    yield "### Threads"
    yield ""
    rows = [
        [
            case["name"],
            seconds_text(case["one_thread"]["run_s"]),
            seconds_text(case["hlorun"]["run_s"]),
            f"{case['speedup_two_threads']:.2f}x",
        ]
        for case in part["cases"]
    ]
    yield from table("dump | one thread | all | faster by", rows)


def machine_part(part: Part) -> Iterator[str]:
    yield "## The machine, and what a call costs"
    yield ""
    yield from table(
        "measure | value",
        [
            ["import of hlorun, beyond NumPy's", f"{part['import_ms']:.1f} ms"],
            ["add of two arrays of 8 `f32`, a call from Python", f"{part['call_us']:.2f} µs"],
            ["the same into an array of the caller's", f"{part['call_out_us']:.2f} µs"],
            ["copy, all threads, read and written bytes", f"{part['copy_gbps']:.1f} GB/s"],
            ["`f32` product 2048³, one thread", f"{part['product_one_thread_gflops']:.0f} GFLOP/s"],
            ["`f32` product 2048³, all threads", f"{part['product_gflops']:.0f} GFLOP/s"],
        ],
    )


def fusions_part(part: Part) -> Iterator[str]:
    yield "## Fusions"
    yield ""
    yield "Medians, in turn in one process (`vs_xla_fusions.py`). *Share of copy*: useful traffic as a part of the bandwidth of a copy."
    yield ""
    rows = [
        [
            case["name"],
            f"{case['hlorun_ms']:.2f}",
            f"{case['xla_ms']:.2f}",
            f"{case['ratio']:.2f}",
            f"{case['gbps']:.1f}",
            f"{case['copy_share']:.2f}",
        ]
        for case in part["cases"]
    ]
    yield from table("fusion | hlorun ms | XLA:CPU ms | ratio | GB/s | share of copy", rows)


def products_part(part: Part) -> Iterator[str]:
    yield "## Matrix products"
    yield ""
    blas = part["versions"].get("openblas", "OpenBLAS")
    yield (
        f"GFLOP/s, in turn in one process on all cores (`vs_xla_products.py`), m x k x n; `t` marks an operand stored "
        f"transposed. OpenBLAS is {blas}. *Share*: of the better of the two."
    )
    yield ""
    rows = []
    for case in part["cases"]:
        cells = [case[f"gflops_{engine}"] for engine in ("hlorun", "openblas", "xla")]
        shown = ["" if cell is None else f"{cell:.1f}" for cell in cells]
        rows.append([f"{case['name']} {case['dtype']}", *shown, f"{case['share']:.2f}"])
    yield from table("product | hlorun | OpenBLAS | XLA:CPU | share", rows)


def profile_part(part: Part) -> Iterator[str]:
    yield f"## Where the time of {part['name']} goes"
    yield ""
    total = part["seconds"]
    kinds = {row["kind"]: row["seconds"] for row in part["kinds"]}
    product_s = kinds.get("matrix product", 0.0)
    loops = sum(v for k, v in kinds.items() if k.startswith("fused"))
    rest = total - product_s - loops
    floor = ARITHMETIC / part["peak_gflops"]
    yield (
        f"A profile (`hlorun run --profile`) of a run of {total:.2f} s. The program is {ARITHMETIC:.0f} GFLOP, almost all of it "
        f"matrix products; at the {part['peak_gflops']:.0f} GFLOP/s that a large product reaches here they need {floor:.2f} s "
        f"and take {product_s:.2f} s: those inside the loops have 16 rows, and each reads 32 MB of weights that do not stay "
        f"in a cache. Packing the weights, once per loop, takes {kinds.get('matrix packing', 0.0):.2f} s; fused loops and "
        f"reductions, among them optimizer updates that read and write hundreds of megabytes once, {loops:.2f} s; everything "
        f"else {rest:.2f} s. What separates the run from pure arithmetic is {product_s - floor:.2f} s of products below their "
        f"peak and {total - product_s:.2f} s of steps that are no products."
    )
    yield ""
    rows = [
        [row["kind"], str(row["runs"]), f"{row['seconds'] * 1e3:.1f}", f"{row['seconds'] / total:.1%}"]
        for row in part["kinds"]
    ]
    yield from table("kind of step | runs | ms | share", rows)


def roofline(parts: dict[str, Part]) -> bool:
    """Draws what products and fusions reach against what the machine allows."""
    if "machine" not in parts or "products" not in parts:
        return False
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    machine = parts["machine"]
    peak, copy = machine["product_gflops"], machine["copy_gbps"]
    figure, axes = plt.subplots(figsize=(8, 5), dpi=110)
    bounds = [0.05, 1000.0]
    steps = [bounds[0] * (bounds[1] / bounds[0]) ** (i / 200) for i in range(201)]
    axes.plot(steps, [min(peak, x * copy) for x in steps], color="black", lw=1.2)
    axes.annotate(f"{peak:.0f} GFLOP/s", (bounds[1], peak), ha="right", va="bottom", fontsize=8)
    axes.annotate(f"{copy:.0f} GB/s from memory", (0.12, 0.12 * copy * 1.25), rotation=33, fontsize=8)
    width = {"f32": 4, "f64": 8, "bf16": 2, "f16": 2}
    for engine, marker, color in (("hlorun", "o", "C0"), ("xla", "x", "C1")):
        points = []
        for case in parts["products"]["cases"]:
            if case["dtype"] != "f32":
                continue
            batch, m, k, n = case["shape"]
            size = width[case["dtype"]] * batch * (m * k + k * n + m * n)
            points.append((2.0 * batch * m * k * n / size, case[f"gflops_{engine}"]))
        label = {"hlorun": "hlorun", "xla": "XLA:CPU"}[engine]
        x, y = zip(*points, strict=True)
        axes.scatter(x, y, marker=marker, color=color, s=26, label=f"products f32, {label}")
        points = [
            (case["flops"] / case["bytes"], case["flops"] / case[f"{engine}_ms"] / 1e6)
            for case in parts.get("fusions", {"cases": []})["cases"]
            if case.get("flops")
        ]
        if points:
            x, y = zip(*points, strict=True)
            axes.scatter(
                x,
                y,
                marker="s" if marker == "o" else "+",
                color=color,
                s=22,
                alpha=0.7,
                label=f"fusions, {label}",
            )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("operations per byte of operands and results")
    axes.set_ylabel("GFLOP/s")
    axes.set_title("Roofline: points above the slope are served by caches", fontsize=10)
    axes.grid(True, which="major", alpha=0.3)
    axes.legend(fontsize=8, loc="lower right")
    figure.tight_layout()
    IMAGE.parent.mkdir(exist_ok=True)
    figure.savefig(IMAGE)
    return True


PARTS: dict[str, Callable[[Part], Iterator[str]]] = {
    "dumps": dumps_part,
    "machine": machine_part,
    "products": products_part,
    "fusions": fusions_part,
    "profile": profile_part,
}


def page(parts: dict[str, Part]) -> Iterator[str]:
    from machine import describe, versions

    machine = describe()
    yield "# Benchmarks"
    yield ""
    yield "Written by `python benches/python/make_page.py`. [Benchmarks of the parser](benchmarks-parse.md) are on a page of their own."
    yield ""
    vectors = ", ".join(machine["vectors"]) or "no wide vectors"
    yield f"Machine: {machine['cpu']}, {machine['cores']} cores, {vectors}, {machine['memory_gib']} GiB; {machine['system']}."
    yield "Versions: " + ", ".join(f"{name} {version}" for name, version in versions().items()) + "."
    yield ""
    for name, render in PARTS.items():
        if name in parts:
            yield from render(parts[name])
        if name == "machine" and roofline(parts):
            yield f"![What products and fusions reach of what the machine allows](images/{IMAGE.name})"
            yield ""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "benchmarks")
    parser.add_argument("--measure", default=",".join(COMMANDS))
    parser.add_argument("--render", action="store_true", help="measure nothing")
    arguments = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    arguments.results.mkdir(parents=True, exist_ok=True)
    if not arguments.render:
        for part in arguments.measure.split(","):
            measure(part, arguments.results / f"{part}.json")
    parts = {
        name: json.loads(file.read_text())
        for name in PARTS
        if (file := arguments.results / f"{name}.json").exists()
    }
    (ROOT / "docs" / "benchmarks.md").write_text("\n".join(page(parts)).rstrip() + "\n")


if __name__ == "__main__":
    main()
