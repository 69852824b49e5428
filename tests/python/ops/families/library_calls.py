"""`__onednn$*` calls of CPU dumps and `__cudnn$fmha*` calls of GPU dumps, by their definition in double precision."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import cases as c
import numpy as np
from cases import Case


def wide(x: c.Array) -> c.Array:
    """Double precision."""
    return x.astype(np.float64)


def bits(value: float) -> int:
    """A float as the integer of its bits."""
    return int(np.float32(value).view(np.int32))


def erf(x: c.Array) -> c.Array:
    """The error function."""
    return np.vectorize(math.erf)(x)


def call(
    name: str,
    target: str,
    config: object,
    shapes: list[tuple[str, tuple[int, ...]]],
    out: list[tuple[str, tuple[int, ...]]],
    reference: Callable[..., Any],
    workspace: bool = False,
    inputs: list[c.Array] | None = None,
    quoted: bool = False,
    workspace_at: int | None = None,
) -> Case:
    """A module of one call; the reference gives all results in double precision.

    A workspace is behind the results, or at `workspace_at` among them.
    """
    if inputs is None:
        inputs = [c.random(t, dims, name, at, scale=1.5) for at, (t, dims) in enumerate(shapes)]
    lines = "".join(f"p{at} = {c.sh(t, dims)} parameter({at})\n" for at, (t, dims) in enumerate(shapes))
    operands = ", ".join(f"p{at}" for at in range(len(shapes)))
    parts = [c.sh(t, dims) for t, dims in out]
    text = json.dumps(config)
    options = "backend_config=" + (json.dumps(text) if quoted else text)
    made = f'custom-call({operands}), custom_call_target="{target}", {options}\n'
    if len(out) == 1 and not workspace:
        lines += f"r = {parts[0]} {made}"
    else:
        at = len(parts) if workspace_at is None else workspace_at
        whole = [*parts[:at], *(["u8[64]"] if workspace else []), *parts[at:]]
        lines += f"w = ({', '.join(whole)}) {made}"
        places = [k + (workspace and k >= at) for k in range(len(parts))]
        lines += "".join(
            f"e{k} = {part} get-tuple-element(w), index={place}\n"
            for k, (part, place) in enumerate(zip(parts, places, strict=True))
        )
        lines += f"r = ({', '.join(parts)}) tuple({', '.join(f'e{k}' for k in range(len(parts)))})"

    def run(*arrays: c.Array) -> list[c.Array]:
        results = reference(*[wide(x) for x in arrays])
        results = results if isinstance(results, list) else [results]
        return [np.asarray(x).astype(c.np_dtype(t)) for x, (t, _) in zip(results, out, strict=True)]

    close = c.sums(out[0][0], 4.0)
    text = c.module(lines)
    return Case(name, "custom-call", out[0][0], text, inputs, close, reference=run, prefer_reference=True)


FUSIONS: dict[str, Callable[[c.Array], c.Array]] = {
    "RELU": lambda x: np.maximum(x, 0),
    "TANH": np.tanh,
    "GELU_ERF": lambda x: 0.5 * x * (1 + erf(x / np.sqrt(2))),
    "GELU_TANH": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "LINEAR": lambda x: 0.25 * x,
    "ELU": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "RELU6": lambda x: np.clip(x, 0, 6),
    "SIGMOID": lambda x: 1 / (1 + np.exp(-x)),
    "SWISH": lambda x: x / (1 + np.exp(-x)),
}


def fused(x: c.Array, ops: list[str], more: list[c.Array]) -> c.Array:
    """What follows a product."""
    rest = list(more)
    for op in ops:
        x = x + rest.pop(0) if op in ("BIAS", "BINARY_ADD") else FUSIONS[op](x)
    return x


def onednn_matmul() -> Iterator[Case]:
    """Transposes, layouts, fusions of every kind, old and new options, workspaces."""
    m, k, n = 5, 7, 3
    chains: list[list[str]] = [
        [],
        ["BIAS"],
        ["BINARY_ADD"],
        ["BIAS", "BINARY_ADD"],
        ["BIAS", "GELU_ERF", "BINARY_ADD"],
    ]
    chains += [[op] for op in FUSIONS]
    for dtype in ("f32", "bf16", "f16"):
        for ops in chains:
            for lead in ((), (2, 3)):
                for a, b in ((False, False), (True, True)):
                    if (a or dtype != "f32") and len(ops) != 1 and lead:
                        continue
                    left = (*lead, k, m) if a else (*lead, m, k)
                    right = (*lead, n, k) if b else (*lead, k, n)
                    shapes = [(dtype, left), (dtype, right)]
                    shapes += [
                        (dtype, (n,) if op == "BIAS" else (*lead, m, n))
                        for op in ops
                        if op in ("BIAS", "BINARY_ADD")
                    ]
                    fusions = {"ops": ops, "alpha_typecast": bits(0.25)}
                    options: dict[str, Any] = {"fusions": fusions} if ops else {}
                    options |= {"transpose_a": True} if a else {}
                    options |= {"transpose_b": True} if b else {}

                    def run(*x: c.Array, a: bool = a, b: bool = b, ops: list[str] = ops) -> c.Array:
                        p = np.swapaxes(x[0], -1, -2) if a else x[0]
                        q = np.swapaxes(x[1], -1, -2) if b else x[1]
                        return fused(p @ q, ops, list(x[2:]))

                    config = {"outer_dimension_partitions": [], "onednn_matmul_config": options}
                    name = f"onednn-matmul-{'-'.join(ops)}-{dtype}-{len(lead)}-{a}"
                    out = [(dtype, (*lead, m, n))]
                    yield call(name, "__onednn$matmul", config, shapes, out, run, workspace=a, quoted=b)
    # Options of 2023, and operands whose dimensions are in another order.
    old = {"onednn_matmul_config": {"fused_ops": ["BIAS", "RELU"], "bias_broadcast": True}}
    shapes = [("f32", (m, k)), ("f32", (k, n)), ("f32", (1, n))]
    yield call(
        "onednn-matmul-old", "__onednn$matmul", old, shapes, [("f32", (m, n))],
        lambda x, y, z: np.maximum(x @ y + z, 0),
    )  # fmt: skip
    layout = lambda *dims: {"dims": "4", "tensor": {"dimensions": [str(d) for d in dims]}}
    options = {"lhs": layout(1, 3, 2, 4), "rhs": layout(1, 3, 4, 2), "result": layout(1, 3, 2, 4)}
    config = {"onednn_matmul_config": options}
    yield call(
        "onednn-matmul-layouts", "__onednn$matmul", config, [("f32", (2, m, 4, k)), ("f32", (2, n, 4, k))],
        [("f32", (2, m, 4, n))], lambda x, y: np.einsum("bmhk,bnhk->bmhn", x, y),
    )  # fmt: skip


def onednn_others() -> Iterator[Case]:
    """Convolutions, layer norms and softmaxes."""
    for groups in (1, 2):
        for stride, pad, dilation in ((1, 0, 1), (2, 1, 1), (1, 2, 2)):
            size = (6 + 2 * pad - ((3 - 1) * dilation + 1)) // stride + 1
            config = {
                "onednn_conv_config": {
                    "dims": "4",
                    "input": {"dims": "4", "data": {"feature_dim": "3", "spatial_dims": ["2", "3"]}},
                    "kernel": {
                        "dims": "4",
                        "filter": {
                            "input_feature_dim": "2",
                            "output_feature_dim": "3",
                            "spatial_dims": ["1", "2"],
                        },
                    },
                    "output": {"dims": "4", "data": {"feature_dim": "3", "spatial_dims": ["2", "3"]}},
                    "window": {
                        "size": ["3", "3"],
                        "pad_left": [str(pad + 1)] * 2,
                        "pad_right": [str(pad + 1)] * 2,
                        "strides": [str(stride + 1)] * 2,
                        "window_dilations": [str(dilation + 1)] * 2,
                    },
                    "fusions": {"ops": ["BIAS", "RELU"]},
                    "feature_groups": str(groups),
                }
            }

            def run(
                x: c.Array,
                w: c.Array,
                b: c.Array,
                g: int = groups,
                s: int = stride,
                p: int = pad,
                d: int = dilation,
                n: int = size,
            ) -> c.Array:
                x = np.pad(x, ((0, 0), (p, p), (p, p), (0, 0)))
                y = np.zeros((x.shape[0], n, n, 4))
                inputs, outputs = 4 // g, 4 // g
                for i in range(3):
                    for j in range(3):
                        part = x[
                            :, i * d : i * d + s * (n - 1) + 1 : s, j * d : j * d + s * (n - 1) + 1 : s, :
                        ]
                        for k in range(g):
                            put = slice(k * outputs, (k + 1) * outputs)
                            y[..., put] += part[..., k * inputs : (k + 1) * inputs] @ w[i, j, :, put]
                return np.maximum(y + b, 0)

            shapes = [("f32", (2, 6, 6, 4)), ("f32", (3, 3, 4 // groups, 4)), ("f32", (4,))]
            name = f"onednn-convolution-{groups}-{stride}-{pad}-{dilation}"
            out = [("f32", (2, size, size, 4))]
            yield call(name, "__onednn$convolution", config, shapes, out, run, workspace=groups == 2)
    for dtype in ("f32", "bf16"):
        config = {"onednn_layer_norm_config": {"rescale": "SCALE_AND_SHIFT", "epsilon_typecast": bits(1e-3)}}

        def norm(x: c.Array, gamma: c.Array, beta: c.Array) -> c.Array:
            mean = x.mean(-1, keepdims=True)
            factor = 1 / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + np.float64(np.float32(1e-3)))
            return (x - mean) * factor * gamma + beta

        shapes = [(dtype, (3, 4, 6)), (dtype, (6,)), (dtype, (6,))]
        yield call(f"onednn-layernorm-{dtype}", "__onednn$layernorm", config, shapes, [shapes[0]], norm)
        for axis in (0, 2):

            def softmax(x: c.Array, axis: int = axis) -> c.Array:
                e = np.exp(x - x.max(axis, keepdims=True))
                return e / e.sum(axis, keepdims=True)

            options = {"onednn_softmax_config": {"softmax_axis": axis} if axis else {}}
            name = f"onednn-softmax-{axis}-{dtype}"
            yield call(name, "__onednn$softmax", options, [(dtype, (3, 4, 6))], [(dtype, (3, 4, 6))], softmax)


B, N, T, S, H = 2, 4, 5, 6, 8
MASKS = {
    "NO_MASK": (False, False),
    "CAUSAL": (True, False),
    "PADDING": (False, True),
    "PADDING_CAUSAL": (True, True),
}


def numbers(lc: int, rc: int, lb: tuple[int, ...], rb: tuple[int, ...]) -> dict[str, list[str]]:
    """Dimension numbers of one product."""
    names = ("lhs_contracting", "rhs_contracting", "lhs_batch", "rhs_batch")
    values = ((lc,), (rc,), lb, rb)
    return {f"{name}_dimensions": [str(d) for d in dims] for name, dims in zip(names, values, strict=True)}


def attention_config(btnh: bool, backward: bool, mask: str, window: int) -> dict[str, Any]:
    """As JAX writes it."""
    own = (0, 2) if btnh else (0, 1)
    seq = 1 if btnh else 2
    p = (0, 1)
    products = {
        "bmm1": numbers(3, 3, own, own),
        "bmm2": numbers(3, seq, p, own),
        "bmm1_grad_gemm1": numbers(2, seq, p, own),
        "bmm1_grad_gemm2": numbers(3, seq, p, own),
        "bmm2_grad_gemm1": numbers(2, seq, p, own),
        "bmm2_grad_gemm2": numbers(3, 3, own, own),
    }
    config: dict[str, Any] = {
        "fmha_scale": 0.5, "is_flash_attention": True, "mask_type": mask, "dropout_rate": 0, "seed": 42,
        "sliding_window_length": window, "max_seg_per_batch": 1, "is_paged_attention": False,
    }  # fmt: skip
    config |= {f"{k}_dot_dimension_numbers": v for k, v in products.items() if ("grad" in k) == backward}
    return {"operation_queue_id": "0", "cudnn_fmha_backend_config": config}


def scores(
    q: c.Array, k: c.Array, bias: c.Array | None, lengths: list[c.Array], causal: bool, window: int
) -> c.Array:
    """Minus infinity where a column is not seen; arrays are [batch, heads, rows, columns]."""
    s = 0.5 * np.einsum("bnth,bnsh->bnts", q, k)
    s = s if bias is None else s + bias
    row, column = np.arange(s.shape[2])[:, None], np.arange(s.shape[3])[None, :]
    seen = np.ones(s.shape, bool)
    seen &= (column <= row) | (not causal)
    seen &= (column > row - window) | (window == 0)
    for length, index in zip(lengths, (row, column), strict=False):
        seen &= index < length[:, None, None, None]
    return np.where(seen, s, -np.inf)


def softmax(s: c.Array) -> tuple[c.Array, c.Array]:
    """Weights and logarithms of the sums."""
    most = s.max(-1, keepdims=True)
    e = np.exp(s - np.where(np.isfinite(most), most, 0))
    total = e.sum(-1, keepdims=True)
    return e / np.where(total == 0, 1, total), (np.where(np.isfinite(most), most, 0) + np.log(total))[..., 0]


def attention() -> Iterator[Case]:
    """Forward and backward; both orders of dimensions, all masks, windows, biases, fewer heads of keys."""
    for btnh in (False, True):
        for mask, (causal, padded) in MASKS.items():
            for window in (0, 3):
                for bias in ((), (1, 1, T, S), (B, N, T, S)):
                    for heads in (N, 2):
                        if window and not causal:
                            continue
                        if (bias and heads == 2) or (bias and btnh and len(set(bias)) > 3):
                            continue
                        yield attend(btnh, mask, causal, padded, window, bias, heads, False)
                        yield attend(btnh, mask, causal, padded, window, bias, heads, True)
            for dtype in ("f32", "bf16"):
                for kept in ("sums", "weights"):
                    yield attend(btnh, mask, causal, padded, 0, (), N, False, dtype, kept)


def attend(
    btnh: bool,
    mask: str,
    causal: bool,
    padded: bool,
    window: int,
    bias: tuple[int, ...],
    heads: int,
    backward: bool,
    dtype: str = "f32",
    kept: str = "",
) -> Case:
    """One of them. The backward pass is given statistics that are near the logarithms of the sums, and exact.

    The forward pass keeps the sums in f32, or what `kept` names in the type of the operands.
    """
    name = f"fmha-{'backward' if backward else 'forward'}-{'BTNH' if btnh else 'BNTH'}-{mask}-{window}-{len(set(bias))}-{heads}"
    name += f"-{dtype}-{kept}" if kept else ""
    turn = (0, 2, 1, 3) if btnh else (0, 1, 2, 3)
    flip = lambda x: np.transpose(x, turn)
    dims = lambda n, t: (B, t, n, H) if btnh else (B, n, t, H)
    own = [
        c.random(dtype, d, name, at, scale=1.0)
        for at, d in enumerate((dims(N, T), dims(heads, S), dims(heads, S)))
    ]
    extra = [c.random("f32", bias, name, "bias", scale=1.0)] if bias else []
    lengths = [np.array([3, 5], np.int32), np.array([4, 6], np.int32)] if padded else []

    def parts(x: list[c.Array]) -> tuple[c.Array, c.Array, c.Array]:
        q, k, v = (flip(wide(y)) for y in x)
        return q, np.repeat(k, N // heads, 1), np.repeat(v, N // heads, 1)

    q, k, v = parts(own)
    seen = scores(q, k, wide(extra[0]) if extra else None, lengths, causal, window)
    target = f"__cudnn$fmha{'ScaleBias' if bias else ''}Softmax{'Backward' if backward else ''}"
    config = attention_config(btnh, backward, mask, window)
    if not backward:
        inputs = [*own, *extra, *lengths]
        more = (dtype if kept else "f32", (B, N, T, S) if kept == "weights" else (B, N, T))
        out = [(dtype, (B, N, T, H))] + ([] if bias else [more])

        def forward(*x: c.Array) -> list[c.Array]:
            with np.errstate(all="ignore"):
                weights, sums = softmax(seen)
            saved = weights if kept == "weights" else sums
            return [np.einsum("bnts,bnsh->bnth", weights, v), saved][: len(out)]

        function: Callable[..., Any] = forward
    else:
        gradient = c.random("f32", dims(N, T), name, "gradient", scale=1.0)
        statistics = c.Stream(name, "statistics").uniform(1, 2, seen.shape[:-1], np.float32)
        inputs = [
            *own,
            statistics,
            gradient,
            *extra,
            np.zeros_like(own[0]),
            *lengths,
        ]
        out = [("f32", (B, N, T, H)), ("f32", (B, heads, S, H)), ("f32", (B, heads, S, H))] + (
            [("f32", bias)] if bias else []
        )

        def back(*x: c.Array) -> list[c.Array]:
            d = flip(wide(gradient))
            weights = np.exp(seen - wide(statistics)[..., None])
            dp = np.einsum("bnth,bnsh->bnts", d, v)
            ds = weights * (dp - (weights * dp).sum(-1, keepdims=True))
            few = lambda y: y.reshape(B, heads, N // heads, S, H).sum(2)
            results = [
                0.5 * np.einsum("bnts,bnsh->bnth", ds, k),
                few(0.5 * np.einsum("bnts,bnth->bnsh", ds, q)),
                few(np.einsum("bnts,bnth->bnsh", weights, d)),
            ]
            if bias:
                over = tuple(at for at, n in enumerate(bias) if n == 1)
                results.append(ds.sum(over, keepdims=True) if over else ds)
            return results

        function = back
    shapes = [(c.HLO_NAME[x.dtype], x.shape) for x in inputs]
    # Workspaces may also come before what is kept.
    at = 1 if kept == "weights" else None
    return call(name, target, config, shapes, out, function, workspace=True, inputs=inputs, workspace_at=at)


def old_eight_bits() -> Iterator[Case]:
    """Scaled products of 2023: scales of all four matrices, used or not."""
    m, k, n = 4, 16, 6
    for beta in (0.0, 1.0):
        for bias in (False, True):
            shapes = [("f8e4m3fn", (m, k)), ("f8e4m3fn", (n, k))] + ([("bf16", (m, n))] if beta else [])
            shapes += [("f32", ())] * 4 + ([("bf16", (n,))] if bias else [])
            gemm = {
                "alpha_real": 1, "alpha_imag": 0, "beta": beta, "epilogue": "BIAS" if bias else "DEFAULT",
                "dot_dimension_numbers": {"lhs_contracting_dimensions": ["1"], "rhs_contracting_dimensions": ["1"]},
            }  # fmt: skip

            def run(*x: c.Array, beta: float = beta, bias: bool = bias) -> c.Array:
                at = 3 if beta else 2
                y = x[0] @ x[1].T * x[at] * x[at + 1]
                y = y + x[2] * x[at + 2] if beta else y
                return y + x[-1] if bias else y

            name = f"lt-matmul-f8-2023-{beta}-{bias}"
            yield call(name, "__cublas$lt$matmul$f8", gemm, shapes, [("bf16", (m, n))], run)
    config = {"gemm_backend_config": {
        "alpha_real": 1, "beta": 0, "epilogue": "BIAS_RELU_AUX",
        "dot_dimension_numbers": {"lhs_contracting_dimensions": ["1"], "rhs_contracting_dimensions": ["0"]},
    }}  # fmt: skip
    shapes = [("f32", (4, 5)), ("f32", (5, 6)), ("f32", (6,))]
    # The auxiliary result is what the library keeps for itself; here it is the workspace.
    yield call(
        "lt-matmul-relu-aux", "__cublas$lt$matmul", config, shapes, [("f32", (4, 6))],
        lambda x, y, z: np.maximum(x @ y + z, 0), workspace=True,
    )  # fmt: skip


def convolution_graphs() -> Iterator[Case]:
    """A convolution of 1x1 windows, which is a product of features, and a graph of operations."""
    graphs: dict[str, tuple[str, int, Callable[..., Any]]] = {
        "scale": ("3:[f32]conv();7:[f32]scale(3);", 1, lambda y, s: y * s),
        "relu": ("3:[f32]conv();4:[f32]invscale(3);5:[f32]relu(4);", 1, lambda y, s: np.maximum(y / s, 0)),
        "amax": (
            "3:[f32]conv();4:[f32]scale(3);6:[f32]scale(4);9:[f32]amax(4);", 2,
            lambda y, s, t: [y * s * t, np.abs(y * s).max()],
        ),
    }  # fmt: skip
    for label, (graph, scales, function) in graphs.items():
        config = {"cudnn_conv_backend_config": {"conv_result_scale": 1, "serialized_graph": graph}}
        shapes = [("f8e4m3fn", (2, 3, 3, 4)), ("f8e4m3fn", (5, 1, 1, 4))] + [("f32", ())] * scales
        out = [("f32", (2, 3, 3, 5))] + ([("f32", ())] if label == "amax" else [])

        def run(x: c.Array, w: c.Array, *s: c.Array, f: Callable[..., Any] = function) -> Any:
            return f(x @ w[:, 0, 0, :].T, *s)

        made = call(
            f"conv-graph-{label}", "__cudnn$convForwardGraph", config, shapes, out, run, workspace=True
        )
        options = "window={size=1x1}, dim_labels=b01f_o01i->b01f, custom_call_target="
        yield replace(made, text=made.text.replace("custom_call_target=", options))


def cases() -> Iterator[Case]:
    """All of them."""
    yield from convolution_graphs()
    yield from onednn_matmul()
    yield from onednn_others()
    yield from attention()
    yield from old_eight_bits()
