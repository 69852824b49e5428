"""Floating-point operations of matrix products and convolutions, by their shapes."""

from __future__ import annotations

from math import prod
from typing import Any

from hlorun._hlorun import HloInstruction, Shape

PRODUCT_TARGETS = ("__cublas$gemm", "__cublas$lt$matmul", "__cublas$lt$matmul$f8")
"""Custom calls that are matrix products."""


def _first_array(shape: Shape) -> Shape:
    while shape.is_tuple and shape.tuple_shapes:
        shape = shape.tuple_shapes[0]
    return shape


def _contracting(instruction: HloInstruction) -> tuple[int, ...]:
    """Contracting dimensions of the left operand."""
    if instruction.opcode != "custom-call":
        return tuple(instruction.attributes.get("lhs_contracting_dims", ()))
    numbers: Any = instruction.backend_config
    if isinstance(numbers, dict):
        numbers = numbers.get("gemm_backend_config", numbers)
    for key in ("dot_dimension_numbers", "lhs_contracting_dimensions"):
        numbers = numbers.get(key) if isinstance(numbers, dict) else None
    try:
        return tuple(map(int, numbers or ()))
    except (TypeError, ValueError, OverflowError):
        # What a config holds is its backend's business.
        return ()


def product_flops(instruction: HloInstruction) -> int | None:
    """Multiplications and additions of a dot, a GPU library product or a convolution; None for others.

    None also for those that lack operands, as a module that was not verified may have.
    """
    opcode = instruction.opcode
    operands = instruction.operands
    result = prod(_first_array(instruction.shape).dims)
    if opcode == "convolution":
        numbers = instruction.attributes.get("dim_labels")
        if not isinstance(numbers, dict) or len(operands) < 2:
            return None
        kernel = operands[1].shape.dims
        out = numbers["kernel_output_feature_dimension"]
        return 2 * result * prod(size for dim, size in enumerate(kernel) if dim != out)
    if opcode == "dot" or (opcode == "custom-call" and instruction.custom_call_target in PRODUCT_TARGETS):
        if not operands:
            return None
        lhs = operands[0].shape.dims
        return 2 * result * prod(lhs[dim] for dim in _contracting(instruction) if 0 <= dim < len(lhs))
    return None
