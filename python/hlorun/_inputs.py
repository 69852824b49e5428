"""Inputs for a module when the user brings none: reproducible, and tame enough to stay finite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hlorun.errors import HloArgumentError, HloUnsupportedError

if TYPE_CHECKING:
    from hlorun._hlorun import HloInstruction, HloModule, Shape

DESCRIPTION = (
    "weights (rank >= 2) normal with deviation 0.05, vectors and scalars uniform in 0.01 ... 0.1, "
    "integers below 256 (unsigned: below 2^31, 8 bits and fewer below 10; scalars 10)"
)
"""What `random_inputs` makes, for people."""

_MOST_NESTED = 256
"""Deeper tuples do not compile either."""


def _random(shape: Shape, generator: np.random.Generator) -> Any:
    dtype, dims = shape.dtype, tuple(shape.dims)
    if dtype is None:
        raise HloUnsupportedError(f"no random inputs for parameters of shape {shape}")
    name = shape.element_type
    if name == "pred":
        return np.asarray(generator.integers(0, 2, dims)).astype(dtype)
    if name[0] == "u":
        bits = int(name[1:])
        high = 2**31 if bits > 16 else 10 if bits >= 8 else 2**bits
        return np.asarray(generator.integers(0, high, dims)).astype(dtype)
    if name[0] == "s":
        high = min(256, 2 ** (int(name[1:]) - 1))
        values = generator.integers(0, high, dims) if dims else min(10, high - 1)
        return np.asarray(values).astype(dtype)
    if len(dims) >= 2:
        values = 0.05 * generator.standard_normal(dims, dtype=np.float32)
    else:
        values = np.asarray(generator.uniform(0.01, 0.1, dims))
    return values.astype(dtype)


def _fill(shape: Shape, make: Any, depth: int = 0) -> Any:
    if shape.is_tuple:
        if depth > _MOST_NESTED:
            raise HloUnsupportedError(f"a parameter of tuples deeper than {_MOST_NESTED}")
        return tuple(_fill(part, make, depth + 1) for part in shape.tuple_shapes)
    return make(shape)


def _parameters(module: HloModule) -> tuple[HloInstruction, ...]:
    entry = module.entry_computation
    return tuple(entry.parameters) if entry is not None else ()


def random_inputs(module: HloModule, seed: int = 0) -> list[Any]:
    """One value per parameter of the entry computation, the same for the same seed."""
    generator = np.random.Generator(np.random.PCG64(seed))
    return [_fill(p.shape, lambda shape: _random(shape, generator)) for p in _parameters(module)]


def zero_inputs(module: HloModule) -> list[Any]:
    """Zeros for every parameter of the entry computation."""
    return [
        _fill(p.shape, lambda shape: np.zeros(tuple(shape.dims), shape.dtype)) for p in _parameters(module)
    ]


def _as_declared(array: Any, shape: Shape) -> Any:
    """Undo what `.npz` files do to dtypes of `ml_dtypes`: they come back as bare bytes."""
    is_bare = array.dtype.kind == "V" and array.dtype.names is None
    # NumPy's own dtypes come back as themselves; 2 marks those that others registered.
    if is_bare and shape.dtype is not None and shape.dtype.isbuiltin == 2:
        return array.view(shape.dtype) if array.dtype.itemsize == shape.dtype.itemsize else array
    return array


def _keys(number: int, parameter: HloInstruction) -> Iterator[str]:
    yield parameter.name
    yield f"arg_{number}"
    yield f"arg{number}"
    yield str(number)


def _open(path: str) -> Any:
    """The `.npz` file at a path."""
    import zipfile

    try:
        # NumPy's own object for a broken archive complains a second time when it is collected.
        zipfile.ZipFile(path).close()
        return np.load(path, allow_pickle=False)
    except (OSError, MemoryError):
        raise
    except Exception:
        # Of broken files zipfile and NumPy raise what they stumble over, and NumPy's own words would
        # have the user load whatever is in there unsafely.
        with Path(path).open("rb") as file:
            if file.read(6) == b"\x93NUMPY":
                message = f"{path} holds one array without a name; inputs come from an .npz file"
                raise HloArgumentError(message) from None
        raise HloArgumentError(f"{path} is no .npz file of arrays") from None


def file_inputs(module: HloModule, path: str) -> list[Any]:
    """Inputs from an `.npz` file, by parameter name or by number (`arg_0`, `arg0`, `0`)."""
    values = []
    opened = _open(path)
    with opened as file:
        for number, parameter in enumerate(_parameters(module)):
            key = next((key for key in _keys(number, parameter) if key in file), None)
            if key is None:
                found = ", ".join(file.files[:8]) + (", ..." if len(file.files) > 8 else "")
                raise HloArgumentError(
                    f"{path} has no array for parameter {number}, {parameter.name} {parameter.shape}: "
                    f"expected the key {parameter.name!r} or 'arg_{number}'; the file has {found or 'none'}"
                )
            try:
                array = np.asarray(file[key])
            except (OSError, MemoryError):
                raise
            except Exception as error:
                raise HloArgumentError(f"{path}: {key} is no array: {error}") from None
            values.append(_as_declared(array, parameter.shape))
    return values
