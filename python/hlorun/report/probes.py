"""Programs whose times give the rates of classes of operations, one program for each class and type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hlorun._hlorun import HloModule


@dataclass(frozen=True)
class Probe:
    """A program that takes most of its time for one class of operations.

    Attributes:
        kind: The class, as the plan counts it.
        element_type: The element type, as the plan counts it.
        lines: The instructions of the entry computation, in order; the last one is the root.
        before: Text of other computations.
    """

    kind: str
    element_type: str
    lines: tuple[str, ...]
    before: str = ""

    @property
    def text(self) -> str:
        """The module as HLO text."""
        *lines, last = self.lines
        return f"HloModule probe\n{self.before}ENTRY e {{\n" + "\n".join([*lines, f"ROOT {last}"]) + "\n}"


N = 1 << 17
"""Elements of most probes: enough for several threads, few enough for the second-level cache."""

_MATH = (
    ("sqrt", "sqrt"), ("rsqrt", "rsqrt"), ("exp", "exponential"), ("expm1", "exponential-minus-one"),
    ("log", "log"), ("log1p", "log-plus-one"), ("logistic", "logistic"), ("tanh", "tanh"), ("sin", "sine"),
    ("cos", "cosine"), ("erf", "erf"), ("cbrt", "cbrt"), ("tan", "tan"),
)  # fmt: skip
"""Functions of one operand: the class and XLA's opcode."""


def fold(element_type: str, opcode: str, name: str = "f", direction: str = "GE") -> str:
    """Text of a computation of two scalars: a reducer or a comparator."""
    result = "pred" if opcode == "compare" else element_type
    more = f", direction={direction}" if opcode == "compare" else ""
    ty = element_type
    return (
        f"{name} {{ x = {ty}[] parameter(0)\n y = {ty}[] parameter(1)\n"
        f" ROOT z = {result}[] {opcode}(x, y){more} }}\n"
    )


def _parameters(*shapes: str) -> tuple[str, ...]:
    return tuple(f"p{k} = {shape} parameter({k})" for k, shape in enumerate(shapes))


def rows() -> Iterator[Probe]:
    """Steps over the same rows, which pass more bytes to each other than they read and write."""
    shape, row = "f32[2048,256]", "f32[2048]"
    lines = [*_parameters(shape), "z = f32[] constant(0)", f"v0 = {shape} negate(p0)"]
    for k in range(4):
        lines += [
            f"s{k} = {row} reduce(v{k}, z), dimensions={{1}}, to_apply=f",
            f"b{k} = {shape} broadcast(s{k}), dimensions={{0}}",
            f"v{k + 1} = {shape} subtract(v{k}, b{k})",
        ]
    yield Probe("scratch", "pred", tuple(lines), fold("f32", "add"))


def _chain(element_type: str, opcodes: tuple[str, ...], count: int = 32) -> tuple[str, ...]:
    shape = f"{element_type}[{N // 2}]"
    lines = [f"v0 = {shape} parameter(0)", f"q = {shape} parameter(1)"]
    for k in range(count):
        lines.append(f"v{k + 1} = {shape} {opcodes[k % len(opcodes)]}(v{k}, q)")
    return tuple(lines)


def elementwise() -> Iterator[Probe]:
    """Elementwise operations: chains of cheap ones, then one function each."""
    yield Probe("cheap", "f32", _chain("f32", ("multiply", "add", "subtract")))
    for ty in ("f64", "bf16", "c64"):
        yield Probe("cheap", ty, _chain(ty, ("multiply", "add", "subtract")))
    for ty in ("u32", "u64"):
        yield Probe("cheap", ty, _chain(ty, ("xor", "add", "or")))
    for ty in ("f32", "f64"):
        shape = f"{ty}[{N // 2}]"
        for kind, opcode in _MATH:
            yield Probe(kind, ty, (*_parameters(shape), f"r = {shape} {opcode}(p0)"))
        for opcode in ("divide", "power", "atan2", "remainder"):
            yield Probe(opcode, ty, (*_parameters(shape, shape), f"r = {shape} {opcode}(p0, p1)"))
    for ty in ("s32", "u64", "f32"):
        yield Probe("iota", ty, (f"i = {ty}[{N}] iota(), iota_dimension=0", f"r = {ty}[{N}] add(i, i)"))
    yield Probe("abs", "c64", (*_parameters(f"c64[{N}]"), f"r = f32[{N}] abs(p0)"))


def movement() -> Iterator[Probe]:
    """Moves of elements that do not lie side by side."""
    yield Probe(
        "tiny-row",
        "pred",
        (*_parameters("f32[32768,8]"), "r = f32[32768,3] slice(p0), slice={[0:32768],[4:7]}"),
    )
    yield Probe(
        "short-row",
        "pred",
        (*_parameters("f32[8192,32]"), "r = f32[8192,16] slice(p0), slice={[0:8192],[4:20]}"),
    )
    wide = "f32[512,256]"
    yield Probe(
        "repeated",
        "f32",
        (
            *_parameters("f32[512]", wide),
            f"b = {wide} broadcast(p0), dimensions={{0}}",
            f"r = {wide} add(b, p1)",
        ),
    )
    yield Probe(
        "strided", "f32", (*_parameters("f32[524288]"), f"r = f32[{N}] slice(p0), slice={{[0:524288:4]}}")
    )
    yield Probe("reversed", "f32", (*_parameters(f"f32[{N}]"), f"r = f32[{N}] reverse(p0), dimensions={{0}}"))
    yield Probe(
        "transposed",
        "f32",
        (*_parameters("f32[256,512]"), "r = f32[512,256] transpose(p0), dimensions={1,0}"),
    )


def folds() -> Iterator[Probe]:
    """Reductions."""
    for ty in ("f32", "f64"):
        add = fold(ty, "add")
        for kind, rows, columns, dim in (
            ("fold-rows", 4, N // 4, 1),
            ("folded-row", N // 64, 64, 1),
            ("fold-short", N // 16, 16, 1),
            ("fold-columns", 1024, N // 128, 0),
        ):
            lines = (*_parameters(f"{ty}[{rows},{columns}]"), f"z = {ty}[] constant(0)")
            result = (columns, rows)[dim]
            last = f"r = {ty}[{result}] reduce(p0, z), dimensions={{{dim}}}, to_apply=f"
            yield Probe(kind, ty, (*lines, last), add)
    best = (
        "f { a = f32[] parameter(0)\n i = s32[] parameter(1)\n b = f32[] parameter(2)\n"
        " j = s32[] parameter(3)\n c = pred[] compare(a, b), direction=GE\n x = f32[] select(c, a, b)\n"
        " y = s32[] select(c, i, j)\n ROOT t = (f32[], s32[]) tuple(x, y) }\n"
    )
    for kind, rows, columns in (("fold-general", 32, 4096), ("folded-row-general", 2048, 64)):
        shape = f"[{rows},{columns}]"
        lines = (*_parameters(f"f32{shape}"), f"i = s32{shape} iota(), iota_dimension=1")
        lines = (*lines, "z = f32[] constant(-1)", "o = s32[] constant(0)")
        last = f"r = (f32[{rows}], s32[{rows}]) reduce(p0, i, z, o), dimensions={{1}}, to_apply=f"
        yield Probe(kind, "f32", (*lines, last), best)


def _product(kind: str, ty: str, m: int, n: int, k: int) -> Probe:
    dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    return Probe(
        kind, ty, (*_parameters(f"{ty}[{m},{k}]", f"{ty}[{k},{n}]"), f"r = {ty}[{m},{n}] dot(p0, p1), {dims}")
    )


def products() -> Iterator[Probe]:
    """Matrix products: their operations, copying of operands, results, and the matrices of a batch."""
    for ty, size in (("f32", 768), ("f64", 512)):
        yield _product("product", ty, size, size, size)
        yield _product("result", ty, 512, 512, 32)
        yield _product("operand", ty, 64, 64, 2048)
        yield _product("matrix-vector", ty, 512, 1, 512)
    dims = "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}"
    small = "f32[1024,16,16]"
    yield Probe("matrix", "f32", (*_parameters(small), f"r = {small} dot(p0, p0), {dims}"))


def windows() -> Iterator[Probe]:
    """Convolutions, pooling and running sums."""
    image, weights = "f32[4,32,32,32]", "f32[32,32,3,3]"
    call = f"r = {image} convolution(p0, p1), window={{size=3x3 pad=1_1x1_1}}, dim_labels=bf01_oi01->bf01"
    yield Probe("patch-apart", "f32", (*_parameters(image, weights), call))
    for kind, inputs, outputs, more in (
        ("patch", 32, 32, ""),
        ("depthwise", 1, 32, ", feature_group_count=32"),
        ("narrow-convolution", 32, 4, ""),
    ):
        shapes = _parameters("f32[4,32,32,32]", f"f32[3,3,{inputs},{outputs}]")
        call = f"r = f32[4,32,32,{outputs}] convolution(p0, p1), window={{size=3x3 pad=1_1x1_1}}"
        yield Probe(kind, "f32", (*shapes, f"{call}, dim_labels=b01f_01io->b01f{more}"))
    large, small, zero = "f32[4,64,64,32]", "f32[4,32,32,32]", "z = f32[] constant(0)"
    pool = "window={size=1x2x2x1 stride=1x2x2x1}"
    lines = (*_parameters(large), zero, f"r = {small} reduce-window(p0, z), {pool}, to_apply=f")
    yield Probe("window", "f32", lines, fold("f32", "maximum"))
    select = f"r = {large} select-and-scatter(p0, p1, z), {pool}, select=g, scatter=f"
    lines = (*_parameters(large, small), zero, select)
    yield Probe("selected-window", "f32", lines, fold("f32", "compare", "g") + fold("f32", "add"))
    run = "r = f32[256,512] reduce-window(p0, z), window={size=1x512 pad=0_0x511_0}, to_apply=f"
    yield Probe("running-window", "f32", (*_parameters("f32[256,512]"), zero, run), fold("f32", "add"))


def indexed() -> Iterator[Probe]:
    """Gathers, scatters, sorts and top-k."""
    for (take, put), windows_, width in (
        (("gathered", "scattered"), 4096, 64),
        (("gather", "scatter"), 1 << 15, 1),
    ):
        table, rows = f"f32[1024,{width}]", f"f32[{windows_},{width}]"
        shapes = _parameters(table, f"s32[{windows_},1]")
        dims = "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1"
        yield Probe(take, "f32", (*shapes, f"r = {rows} gather(p0, p1), {dims}, slice_sizes={{1,{width}}}"))
        shapes = _parameters(table, f"s32[{windows_},1]", rows)
        dims = "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}"
        last = f"r = {table} scatter(p0, p1, p2), {dims}, index_vector_dim=1, to_apply=f"
        yield Probe(put, "f32", (*shapes, last), fold("f32", "add"))
    for kind, rows_, columns in (
        ("sort-rows", 1024, 64),
        ("sort-row", 1, 4096),
        ("sort-rows-levels", 16, 4096),
        ("sort-row-levels", 1, 1 << 16),
    ):
        shape = f"f32[{rows_},{columns}]"
        lines = (*_parameters(shape), f"r = {shape} sort(p0), dimensions={{1}}, to_apply=f")
        yield Probe(kind, "f32", lines, fold("f32", "compare", direction="LT"))
    yield Probe(
        "top-k",
        "f32",
        (*_parameters("f32[32,2048]"), "r = (f32[32,8], s32[32,8]) topk(p0), k=8, largest=true"),
    )


def others() -> Iterator[Probe]:
    """Transforms and random bits."""
    line, image = "c64[128,1024]", "c64[512,512]"
    yield Probe("fft", "c64", (*_parameters(line), f"r = {line} fft(p0), fft_type=FFT, fft_length={{1024}}"))
    yield Probe(
        "fft-real",
        "c64",
        (*_parameters("f32[128,1024]"), "r = c64[128,513] fft(p0), fft_type=RFFT, fft_length={1024}"),
    )
    yield Probe(
        "fft-columns",
        "c64",
        (*_parameters(image), f"r = {image} fft(p0), fft_type=FFT, fft_length={{512,512}}"),
    )
    for kind, name in (("philox", "rng_philox"), ("threefry", "rng_three_fry")):
        bits = f"rng-bit-generator(p0), algorithm={name}"
        yield Probe(kind, "u32", (*_parameters("u64[2]"), f"r = (u64[2], u32[65536]) {bits}"))


_LAPACK = (
    ("potrf", "spotrf", "({0}{{0,1}}, s32[])", "uplo = 76 : ui8"),
    ("getrf", "sgetrf", "({0}{{0,1}}, s32[{1}], s32[])", ""),
    ("geqrf", "sgeqrf", "({0}{{0,1}}, f32[{1}])", ""),
    ("syevd-vectors", "ssyevd", "({0}{{0,1}}, f32[{1}], s32[])", "mode = 86 : ui8, uplo = 76 : ui8"),
    ("gesdd-vectors", "sgesdd", "({0}{{0,1}}, f32[{1}], {0}{{0,1}}, {0}{{0,1}}, s32[])", "mode = 65 : ui8"),
)
"""Routines of LAPACK: class, LAPACK's name, shapes of the results, options."""


def factorizations() -> Iterator[Probe]:
    """Factorizations and solves: small matrices for the rate of elements, larger ones for multiplications."""
    for kind, routine, results, options in _LAPACK:
        sizes = (48, 192) if "vectors" in kind else (128, 448)
        for suffix, n in zip(("-elements", ""), sizes, strict=True):
            shape = f"f32[{n},{n}]"
            call = f'custom-call(c), custom_call_target="lapack_{routine}_ffi", operand_layout_constraints='
            call += f"{{{shape}{{0,1}}}}, api_version=API_VERSION_TYPED_FFI, backend_config={{{options}}}"
            lines = (
                *_parameters(shape),
                f"c = {shape}{{0,1}} copy(p0)",
                f"r = {results.format(shape, n)} {call}",
            )
            yield Probe(f"{kind}{suffix}", "f32", lines)
    solve = "triangular-solve(p0, p1), left_side=true, lower=true, transpose_a=NO_TRANSPOSE"
    for kind, shape, right in (
        ("trsm", "f32[256,256]", "f32[256,64]"),
        ("trsm-small", "f32[1024,12,12]", "f32[1024,12,4]"),
    ):
        yield Probe(kind, "f32", (*_parameters(shape, right), f"r = {right} {solve}"))
    small = "f32[1024,12,12]"
    yield Probe("potrf-small", "f32", (*_parameters(small), f"r = {small} cholesky(p0), lower=true"))


def probes() -> list[Probe]:
    """All probes, in the order in which rates are fitted: classes that occur in other probes come first."""
    groups = (elementwise, movement, folds, rows, products, windows, indexed, others, factorizations)
    return [probe for group in groups for probe in group()]


def arguments(module: HloModule) -> list[object]:
    """Arguments of a probe: floats from 0.1 to 0.9, integers below 1024, well-conditioned matrices."""
    import numpy as np

    rng = np.random.default_rng(0)
    made: list[object] = []
    for parameter in module.find(opcode="parameter"):
        if parameter.computation != module.entry_computation:
            continue
        dims, ty = parameter.shape.dims, parameter.shape.element_type
        drawn = rng.integers(0, 1024, N) if ty in ("s32", "u32", "u64") else rng.uniform(0.1, 0.9, N)
        values: Any = np.resize(drawn.astype(parameter.shape.dtype), dims)
        if len(dims) > 1 and dims[-1] == dims[-2] and ty == "f32":
            values = (values / dims[-1] + 2 * np.eye(dims[-1])).astype(np.float32)
        made.append(values)
    return made
