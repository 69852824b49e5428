"""How fast this machine computes: short programs of one class of operations each, timed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from hlorun.report.planned import Rates, planned, total

BYTES = (1 << 16, 1 << 18, 1 << 20, 1 << 21, 1 << 22, 1 << 23, 1 << 25, 1 << 26, 1 << 27)
"""Working sets that memory is measured with."""


@dataclass(frozen=True)
class Probe:
    """A program whose time is mostly that of one class of operations."""

    kind: str
    element_type: str
    text: str
    inputs: tuple[Any, ...]


def best(run: Callable[[], object], least: float = 0.006) -> float:
    """Seconds of the fastest of several runs."""
    run()
    found, start = float("inf"), perf_counter()
    for times in range(1000):
        before = perf_counter()
        run()
        now = perf_counter()
        found = min(found, now - before)
        if times >= 3 and now - start > least:
            break
    return found


def _module(*lines: str, before: str = "") -> str:
    return before + "ENTRY e {\n" + "\n".join(lines) + "\n}"


_FOLD = "f {{ x = {0}[] parameter(0)\n y = {0}[] parameter(1)\n ROOT z = {0}[] {1}(x, y) }}\n"


def _elementwise(np: Any) -> Iterator[Probe]:
    n = 1 << 16
    near = np.linspace(0.1, 0.9, n)
    for ty, dtype in (("f32", np.float32), ("f64", np.float64), ("u32", np.uint32), ("bf16", None)):
        if dtype is None:
            continue
        x = (near * (1000 if ty == "u32" else 1)).astype(dtype)
        lines = [f"v0 = {ty}[{n}] parameter(0)"]
        for step in range(32):
            opcode = (("multiply", "add") if ty != "u32" else ("xor", "add"))[step % 2]
            lines.append(f"v{step + 1} = {ty}[{n}] {opcode}(v{step}, v0)")
        lines[-1] = "ROOT " + lines[-1]
        yield Probe("cheap", ty, _module(*lines), (x,))
        yield Probe("register", "pred", _module(f"p = {ty}[{n}] parameter(0)", f"ROOT r = {ty}[{n}] add(p, p)"), (x,)) if ty == "f32" else None
        if ty == "u32":
            continue
        for opcode, name in OPERATIONS:
            yield Probe(name, ty, _module(f"p = {ty}[{n}] parameter(0)", f"ROOT r = {ty}[{n}] {opcode}(p)"), (x,))
        for opcode in ("divide", "power", "atan2", "remainder"):
            yield Probe(opcode, ty, _module(f"p = {ty}[{n}] parameter(0)", f"q = {ty}[{n}] parameter(1)", f"ROOT r = {ty}[{n}] {opcode}(p, q)"), (x, x[::-1].copy()))


OPERATIONS = (
    ("exponential", "exp"), ("log", "log"), ("exponential-minus-one", "expm1"), ("log-plus-one", "log1p"),
    ("logistic", "logistic"), ("tanh", "tanh"), ("sine", "sin"), ("cosine", "cos"), ("erf", "erf"), ("sqrt", "sqrt"),
    ("rsqrt", "rsqrt"), ("cbrt", "cbrt"), ("tan", "tan"),
)  # fmt: skip


def _moves(np: Any) -> Iterator[Probe]:
    n = 1 << 16
    x = np.ones(n, np.float32)
    yield Probe("short-row", "pred", _module("p = f32[8192,16] parameter(0)", "ROOT r = f32[8192,8] slice(p), slice={[0:8192], [4:12]}"), (np.ones((8192, 16), np.float32),))
    yield Probe("repeated", "f32", _module("p = f32[256] parameter(0)", "b = f32[256,1024] broadcast(p), dimensions={0}", "ROOT r = f32[256,1024] negate(b)"), (x[:256],))
    yield Probe("strided", "f32", _module("p = f32[262144] parameter(0)", "ROOT r = f32[65536] slice(p), slice={[0:262144:4]}"), (np.ones(1 << 18, np.float32),))
    yield Probe("reversed", "f32", _module(f"p = f32[{n}] parameter(0)", f"ROOT r = f32[{n}] reverse(p), dimensions={{0}}"), (x,))
    yield Probe("transposed", "f32", _module("p = f32[256,256] parameter(0)", "ROOT r = f32[256,256] transpose(p), dimensions={1,0}"), (x.reshape(256, 256),))
    yield Probe("iota", "f32", _module(f"ROOT r = f32[{n}] iota(), iota_dimension=0"), ())


def _folds(np: Any) -> Iterator[Probe]:
    for ty, dtype in (("f32", np.float32), ("f64", np.float64)):
        x = np.ones((256, 512), dtype)
        body = _FOLD.format(ty, "add")
        zero = f"z = {ty}[] constant(0)"
        yield Probe("fold-rows", ty, _module(f"p = {ty}[4,32768] parameter(0)", zero, f"ROOT r = {ty}[4] reduce(p, z), dimensions={{1}}, to_apply=f", before=body), (x.reshape(4, -1),))
        yield Probe("folded-row", ty, _module(f"p = {ty}[8192,16] parameter(0)", zero, f"ROOT r = {ty}[8192] reduce(p, z), dimensions={{1}}, to_apply=f", before=body), (x.reshape(8192, 16),))
        yield Probe("fold-columns", ty, _module(f"p = {ty}[256,512] parameter(0)", zero, f"ROOT r = {ty}[512] reduce(p, z), dimensions={{0}}, to_apply=f", before=body), (x,))
    general = """f { a = f32[] parameter(0)
 i = s32[] parameter(1)
 b = f32[] parameter(2)
 j = s32[] parameter(3)
 c = pred[] compare(a, b), direction=GE
 x = f32[] select(c, a, b)
 y = s32[] select(c, i, j)
 ROOT t = (f32[], s32[]) tuple(x, y) }
"""
    yield Probe("fold-general", "f32", _module("p = f32[256,512] parameter(0)", "i = s32[256,512] iota(), iota_dimension=1", "z = f32[] constant(-1)", "o = s32[] constant(0)", "ROOT r = (f32[256], s32[256]) reduce(p, i, z, o), dimensions={1}, to_apply=f", before=general), (np.ones((256, 512), np.float32),))


def _products(np: Any) -> Iterator[Probe]:
    dot = "ROOT r = {0}[{1},{2}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
    for ty, dtype, size in (("f32", np.float32, 768), ("f64", np.float64, 512)):
        def product(kind: str, m: int, n: int, k: int, ty: str = ty, dtype: Any = dtype) -> Probe:
            text = _module(f"a = {ty}[{m},{k}] parameter(0)", f"b = {ty}[{k},{n}] parameter(1)", dot.format(ty, m, n))
            return Probe(kind, ty, text, (np.ones((m, k), dtype), np.ones((k, n), dtype)))

        yield product("product", size, size, size)
        yield product("result", 512, 512, 32)
        yield product("operand", 64, 64, 2048)
        yield product("product", size, size, size)
        yield product("matrix-vector", 512, 1, 512)
    yield Probe("matrix", "f32", _module("a = f32[256,16,16] parameter(0)", "ROOT r = f32[256,16,16] dot(a, a), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}"), (np.ones((256, 16, 16), np.float32),))


def _windows(np: Any) -> Iterator[Probe]:
    x = np.ones((4, 32, 32, 32), np.float32)
    conv = "ROOT r = f32[4,32,32,{1}] convolution(x, w), window={{size=3x3 pad=1_1x1_1}}, dim_labels=b01f_01io->b01f{2}"
    def convolution(kind: str, inputs: int, outputs: int, more: str = "") -> Probe:
        text = _module("x = f32[4,32,32,32] parameter(0)", f"w = f32[3,3,{inputs},{outputs}] parameter(1)", conv.format(inputs, outputs, more))
        return Probe(kind, "f32", text, (x, np.ones((3, 3, inputs, outputs), np.float32)))

    yield convolution("patch", 32, 32)
    yield convolution("depthwise", 1, 32, ", feature_group_count=32")
    yield convolution("narrow-convolution", 32, 4)
    body = _FOLD.format("f32", "maximum")
    yield Probe("window", "f32", _module("p = f32[4,64,64,32] parameter(0)", "z = f32[] constant(-1)", "ROOT r = f32[4,32,32,32] reduce-window(p, z), window={size=1x2x2x1 stride=1x2x2x1}, to_apply=f", before=body), (np.ones((4, 64, 64, 32), np.float32),))
    body = _FOLD.format("f32", "add")
    yield Probe("running-window", "f32", _module("p = f32[256,512] parameter(0)", "z = f32[] constant(0)", "ROOT r = f32[256,512] reduce-window(p, z), window={size=1x512 pad=0_0x511_0}, to_apply=f", before=body), (np.ones((256, 512), np.float32),))
    select = "g { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = pred[] compare(x, y), direction=GE }\n" + body
    yield Probe("selected-window", "f32", _module("p = f32[4,64,64,32] parameter(0)", "s = f32[4,32,32,32] parameter(1)", "z = f32[] constant(0)", "ROOT r = f32[4,64,64,32] select-and-scatter(p, s, z), window={size=1x2x2x1 stride=1x2x2x1}, select=g, scatter=f", before=select), (np.ones((4, 64, 64, 32), np.float32), x))


def _indexed(np: Any) -> Iterator[Probe]:
    rng = np.random.default_rng(0)
    at = rng.integers(0, 1024, (1 << 15, 1), np.int32)
    table = np.ones((1024, 64), np.float32)
    gather = "ROOT r = f32[{0},{1}] gather(p, i), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,{1}}}"
    yield Probe("gathered", "f32", _module("p = f32[1024,64] parameter(0)", "i = s32[4096,1] parameter(1)", gather.format(4096, 64)), (table, at[:4096]))
    yield Probe("gather", "f32", _module("p = f32[1024,1] parameter(0)", "i = s32[32768,1] parameter(1)", gather.format(32768, 1)), (table[:, :1].copy(), at))
    body = _FOLD.format("f32", "add")
    scatter = "ROOT r = f32[1024,{1}] scatter(p, i, u), update_window_dims={{1}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=f"
    yield Probe("scattered", "f32", _module("p = f32[1024,64] parameter(0)", "i = s32[4096,1] parameter(1)", "u = f32[4096,64] parameter(2)", scatter.format(4096, 64), before=body), (table, at[:4096], np.ones((4096, 64), np.float32)))
    yield Probe("scatter", "f32", _module("p = f32[1024,1] parameter(0)", "i = s32[32768,1] parameter(1)", "u = f32[32768,1] parameter(2)", scatter.format(32768, 1), before=body), (table[:, :1].copy(), at, np.ones((32768, 1), np.float32)))
    compare = "f { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = pred[] compare(x, y), direction=LT }\n"
    values = rng.standard_normal(1 << 16, np.float32)
    for kind, rows, n in (("sort-rows", 1024, 64), ("sort-row", 1, 4096), ("sort-rows-levels", 16, 4096), ("sort-row-levels", 1, 65536)):
        yield Probe(kind, "f32", _module(f"p = f32[{rows},{n}] parameter(0)", f"ROOT r = f32[{rows},{n}] sort(p), dimensions={{1}}, to_apply=f", before=compare), (values[: rows * n].reshape(rows, n),))
    yield Probe("top-k", "f32", _module("p = f32[32,2048] parameter(0)", 'ROOT r = (f32[32,8], s32[32,8]) topk(p), k=8, largest=true'), (values.reshape(32, 2048),))


def _others(np: Any) -> Iterator[Probe]:
    z = np.ones((64, 1024), np.complex64)
    yield Probe("fft", "c64", _module("p = c64[64,1024] parameter(0)", "ROOT r = c64[64,1024] fft(p), fft_type=FFT, fft_length={1024}"), (z,))
    yield Probe("fft-real", "c64", _module("p = f32[64,1024] parameter(0)", "ROOT r = c64[64,513] fft(p), fft_type=RFFT, fft_length={1024}"), (np.ones((64, 1024), np.float32),))
    yield Probe("fft-columns", "c64", _module("p = c64[256,256] parameter(0)", "ROOT r = c64[256,256] fft(p), fft_type=FFT, fft_length={256,256}"), (z.reshape(256, 256),))
    n = 256
    spd = (np.eye(n) * 2 + 0.001).astype(np.float32)
    yield Probe("potrf", "f32", _module(f"p = f32[{n},{n}] parameter(0)", f"ROOT r = f32[{n},{n}] cholesky(p), lower=true"), (spd,))
    yield Probe("trsm", "f32", _module(f"p = f32[{n},{n}] parameter(0)", "b = f32[256,64] parameter(1)", f"ROOT r = f32[{n},64] triangular-solve(p, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE"), (spd, np.ones((n, 64), np.float32)))
    small = np.broadcast_to(np.eye(8, dtype=np.float32) * 2, (1024, 8, 8)).copy()
    yield Probe("potrf-small", "f32", _module("p = f32[1024,8,8] parameter(0)", "ROOT r = f32[1024,8,8] cholesky(p), lower=true"), (small,))
    yield Probe("trsm-small", "f32", _module("p = f32[1024,8,8] parameter(0)", "ROOT r = f32[1024,8,8] triangular-solve(p, p), left_side=true, lower=true, transpose_a=NO_TRANSPOSE"), (small,))
    state = np.array([1, 2], np.uint64)
    for name, kind in (("rng_philox", "philox"), ("rng_three_fry", "threefry")):
        yield Probe(kind, "u32", _module("p = u64[2] parameter(0)", f"ROOT r = (u64[2], u32[65536]) rng-bit-generator(p), algorithm={name}"), (state,))


def measure(show: bool = False) -> Rates:
    """Measure this machine."""
    import numpy as np

    import hlorun

    def made(text: str) -> Any:
        return hlorun.compile(hlorun.parse("HloModule probe\n" + text))

    seconds: dict[tuple[str, str], float] = {}
    threads = os.cpu_count() or 1
    one = np.ones(1, np.float32)
    run = made(_module("p = f32[1] parameter(0)", "ROOT r = f32[1] add(p, p)"))
    seconds["call", ""] = best(lambda: run(one))
    seconds["small-step", ""] = 5e-8
    lines = ["p = f32[8,8] parameter(0)", "v0 = f32[8,8] negate(p)"]
    for k in range(32):
        lines.append(f"v{k + 1} = f32[8,8] dot(v{k}, p), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}")
    lines[-1] = "ROOT " + lines[-1]
    run = made(_module(*lines))
    eye = np.eye(8, dtype=np.float32)
    seconds["step", ""] = (best(lambda: run(eye)) - seconds["call", ""]) / 32
    read, written = [], []
    body = _FOLD.format("f32", "add")
    buffer = np.ones(max(BYTES) // 4, np.float32)
    for size in BYTES:
        n = size // 4
        run = made(_module(f"p = f32[{n}] parameter(0)", "z = f32[] constant(0)", "ROOT r = f32[] reduce(p, z), dimensions={0}, to_apply=f", before=body))
        read.append((float(size), max(best(lambda: run(buffer[:n])) - seconds["call", ""], 1e-9) / size))
        run = made(_module("p = f32[] parameter(0)", f"ROOT r = f32[{n}] broadcast(p), dimensions={{}}"))
        written.append((float(size), max(best(lambda: run(one[0])) - seconds["call", ""], 1e-9) / size))
    rates = Rates(seconds, tuple(read), tuple(written), threads)
    groups = (_elementwise, _moves, _folds, _products, _windows, _indexed, _others)
    for probe in (probe for group in groups for probe in group(np)):
        if probe is None:
            continue
        solve(probe, rates, made(probe.text), show=show)
    return rates


def solve(probe: Probe, rates: Rates, run: Any, *, show: bool) -> None:
    """Set the rate of the probe's class so that the model takes as long as the machine."""
    key = (probe.kind, probe.element_type)
    took = best(lambda: run(*probe.inputs))
    amount = sum(a for *_, counts, _, _ in run._work() for name, ty, a in counts if _is(name, ty, key))
    low, high = 0.0, took / max(amount, 1.0)
    for _ in range(40):
        middle = (low + high) / 2
        rates.seconds[key] = middle
        if total(planned(run, rates)) < took:
            low = middle
        else:
            high = middle
    if show:
        print(f"{probe.kind:20s} {probe.element_type:5s} {took*1e6:9.1f}us  {high*1e9:10.4f} ns each, amount {amount:.0f}", [w[4] for w in run._work()] if not amount else "")


def _is(name: str, ty: str, key: tuple[str, str]) -> bool:
    from hlorun.report.planned import ALIASES

    return ty == key[1] and key[0] in (name, ALIASES.get(name))
