"""Inputs for a module when the user brings none: reproducible, and tame enough to stay finite."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hlorun._names import UnknownWordError, hint
from hlorun.errors import HloArgumentError, HloUnsupportedError
from hlorun.report.units import plural

if TYPE_CHECKING:
    from hlorun._hlorun import HloInstruction, HloModule, Shape

DESCRIPTION = (
    "weights (rank >= 2) bell-shaped with deviation 0.05, vectors and scalars uniform in 0.01 ... 0.1, "
    "integers below 256 (unsigned: below 2^31, 8 bits and fewer below 10; scalars 10)"
)
"""What `random_inputs` makes, for people."""

_MOST_NESTED = 256
"""Deeper tuples do not compile either."""


_SINGLE = np.float32(0.05 * math.sqrt(3) / 2**16)
"""The sum of four numbers of 16 bits times this has deviation 0.05."""


def _random(shape: Shape, bits: Callable[[int], Any]) -> Any:
    """Values of `bits`, whole numbers of 64 bits, by operations that give the same on every machine."""
    dtype, dims = shape.dtype, tuple(shape.dims)
    if dtype is None:
        raise HloUnsupportedError(f"no random inputs for parameters of shape {shape}")
    name = shape.element_type
    whole = bits(math.prod(dims))
    if name == "pred":
        values = whole % 2
    elif name[0] == "u":
        width = int(name[1:])
        values = whole % (2**31 if width > 16 else 10 if width >= 8 else 2**width)
    elif name[0] == "s":
        high = min(256, 2 ** (int(name[1:]) - 1))
        values = whole % high if dims else np.asarray([min(10, high - 1)])
    elif len(dims) >= 2:
        parts = whole.view(np.uint16).reshape(-1, 4).sum(axis=1, dtype=np.int32)
        values = (parts - 2 * 0xFFFF).astype(np.float32) * _SINGLE
    else:
        values = 0.01 + (whole >> 11) * (0.09 / 2**53)
    return values.reshape(dims).astype(dtype)


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
    bits = np.random.PCG64(seed).random_raw
    return [_fill(p.shape, lambda shape: _random(shape, bits)) for p in _parameters(module)]


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
    """The `.npz` file at a path, or the array of an `.npy` file."""
    import zipfile

    try:
        if _is_npy(path):
            return np.load(path, allow_pickle=False)
        # NumPy's own object for a broken archive complains a second time when it is collected.
        zipfile.ZipFile(path).close()
        return np.load(path, allow_pickle=False)
    except (OSError, MemoryError):
        raise
    except Exception:
        # Of broken files zipfile and NumPy raise what they stumble over, and NumPy's own words would
        # have the user load whatever is in there unsafely.
        raise HloArgumentError(f"{path} is no .npy or .npz file of arrays") from None


def _is_npy(path: str) -> bool:
    with Path(path).open("rb") as file:
        return file.read(6) == b"\x93NUMPY"


def file_inputs(module: HloModule, path: str, *, rest: list[Any] | None = None) -> list[Any]:
    """Inputs from an `.npy` file of the one parameter, or from an `.npz` file by name or number.

    Names of arrays are those of parameters, or `arg_0`, `arg0`, `0`. What the file does not have comes
    from `rest`; without it, that is an error.
    """
    parameters = _parameters(module)
    opened = _open(path)
    if isinstance(opened, np.ndarray):
        if len(parameters) != 1:
            raise HloArgumentError(
                f"{path} holds one array, and the module has {plural(len(parameters), 'parameter')}; "
                "an .npz file holds several"
            )
        return [_as_declared(opened, parameters[0].shape)]
    values = []
    with opened as file:
        used = set()
        for number, parameter in enumerate(parameters):
            key = next((key for key in _keys(number, parameter) if key in file), None)
            if key is None and rest is not None:
                values.append(rest[number])
                continue
            if key is None:
                found = ", ".join(file.files[:8]) + (", ..." if len(file.files) > 8 else "")
                raise HloArgumentError(
                    f"{path} has no array for parameter {number}, {parameter.name} {parameter.shape}: "
                    f"expected the key {parameter.name!r} or 'arg_{number}'; the file has {found or 'none'}"
                )
            used.add(key)
            values.append(_as_declared(_array(file, key, path), parameter.shape))
        if rest is not None and (unused := [key for key in file.files if key not in used]):
            names = [parameter.name for parameter in parameters]
            near = hint(unused[0], names) if len(unused) == 1 else ""
            raise HloArgumentError(f"{path}: the module has no parameter {', '.join(unused[:8])}{near}")
    return values


def _array(file: Any, key: str, path: str) -> Any:
    try:
        return np.asarray(file[key])
    except (OSError, MemoryError):
        raise
    except Exception as error:
        raise HloArgumentError(f"{path}: {key} is no array: {error}") from None


def make_inputs(module: HloModule, seed: int = 0, *, given: Mapping[str, Any] | None = None) -> list[Any]:
    """One value per parameter of the entry computation: reproducible random ones, as `hlorun run` makes.

    Args:
        module: The module.
        seed: Of the random values.
        given: Values by the names of parameters, instead of random ones.

    Raises:
        HloArgumentError: A name is no parameter's.
    """
    values = random_inputs(module, seed)
    names = [parameter.name for parameter in _parameters(module)]
    for name, value in (given or {}).items():
        if name.removeprefix("%") not in names:
            near = hint(name.removeprefix("%"), names) or f"; it has {', '.join(names) or 'none'}"
            raise HloArgumentError(f"the module has no parameter {name}{near}")
        values[names.index(name.removeprefix("%"))] = value
    return values


def require_same_parameters(a: HloModule, b: HloModule) -> None:
    """Raise `HloArgumentError`, which says what differs, where two modules cannot take the same values."""
    ours, theirs = _parameters(a), _parameters(b)
    if len(ours) != len(theirs):
        counts = f"A has {plural(len(ours), 'parameter')} and B {len(theirs):,}"
        longer, which = (ours, "A") if len(ours) > len(theirs) else (theirs, "B")
        number = min(len(ours), len(theirs))
        first = longer[number]
        raise HloArgumentError(
            f"the modules take other inputs: {counts}; only {which} has parameter {number}, {first.name} "
            f"{_without_layout(first.shape)}"
        )
    for number, (x, y) in enumerate(zip(ours, theirs, strict=True)):
        mine, other = _without_layout(x.shape), _without_layout(y.shape)
        if mine != other:
            raise HloArgumentError(
                f"the modules take other inputs: parameter {number} is {x.name} {mine} in A and "
                f"{y.name} {other} in B"
            )


def _without_layout(shape: Shape) -> str:
    """A shape as text, `f32[8,4]`; layouts are no matter of the values that are handed over."""
    pieces = []
    # Tuples may be nested deeper than Python's stack.
    left: list[Shape | str] = [shape]
    while left:
        item = left.pop()
        if isinstance(item, str):
            pieces.append(item)
        elif item.is_tuple:
            pieces.append("(")
            left.append(")")
            for number, part in reversed(list(enumerate(item.tuple_shapes))):
                left += [part, ", "] if number else [part]
        elif item.is_array:
            pieces.append(f"{item.element_type}[{','.join(map(str, item.dims))}]")
        else:
            pieces.append(str(item))
    return "".join(pieces)


def default_source(module: HloModule) -> str:
    """The word for the inputs of a module when none are asked for."""
    return "recorded" if module.inputs is not None else "random"


def describe_inputs(module: HloModule, source: str | None, seed: int) -> tuple[list[Any], str]:
    """The inputs that `--inputs` asks for, and a sentence on them.

    Args:
        module: The module.
        source: `random`, `zeros`, `recorded`, a file, or a file and one of these words, separated by a
            comma, for what the file does not have; None for recorded ones where there are any, else
            random ones.
        seed: Of random values.

    Raises:
        HloArgumentError: The word is unknown, or a file does not fit.
    """
    count = len(_parameters(module))
    source = source or default_source(module)
    words = {
        "random": lambda: random_inputs(module, seed),
        "zeros": lambda: zero_inputs(module),
        "recorded": lambda: _recorded(module),
    }
    texts = {
        "random": f"random, seed {seed}: {DESCRIPTION}",
        "zeros": "zeros",
        "recorded": "those of the recorded run",
    }
    if source in words:
        if not count:
            return [], "Inputs: none, the module has no parameters"
        return words[source](), f"Inputs: {count:,} array{'s' * (count != 1)}, {texts[source]}"
    path, comma, rest = source.rpartition(",")
    if comma and rest in words:
        values = file_inputs(module, path, rest=words[rest]())
        return values, f"Inputs: {count:,} arrays, from {path} what it has, the rest {texts[rest]}"
    if not Path(source).exists() and not source.endswith((".npz", ".npy")):
        raise UnknownWordError(
            f"{source!r} is no word for inputs and no file: expected random, zeros, "
            "recorded (of a snapshot), an .npy or .npz file, or FILE.npz,random for what it does not have"
            f"{hint(source, words)}"
        )
    return file_inputs(module, source), f"Inputs: {count:,} array{'s' * (count != 1)} from {source}"


def _recorded(module: HloModule) -> list[Any]:
    if module.inputs is None:
        raise HloArgumentError(
            "the file holds no recorded inputs; snapshots do, --xla_dump_hlo_snapshots writes them"
        )
    return list(module.inputs)


def elided_constants(module: HloModule) -> list[HloInstruction]:
    """The constants of arrays whose values the text leaves out."""
    return [c for c in module.find(opcode="constant") if c.shape.dtype is not None and c.literal is None]


def describe_constants(module: HloModule, source: str | None, seed: int) -> tuple[dict[str, Any], str]:
    """Values for the elided constants as `--constants` asks for, and a sentence on them.

    Args:
        module: The module.
        source: `random`, `zeros` or an `.npz` file of arrays by the names of constants.
        seed: Of random values.

    Raises:
        HloArgumentError: Constants are elided and nothing is said about them, the word is unknown, or the
            file lacks one.
    """
    if source not in (None, "zeros", "random") and not Path(source).exists() and not source.endswith(".npz"):
        raise UnknownWordError(
            f"{source!r} is no word for constants and no file: expected random, zeros or an .npz file"
            f"{hint(source, ('random', 'zeros'))}"
        )
    elided = elided_constants(module)
    if not elided:
        return {}, ""
    names = ", ".join(f"{c.name} {c.shape}" for c in elided[:6]) + (", …" if len(elided) > 6 else "")
    what = f"{len(elided):,} constant{'s' * (len(elided) != 1)} without values in the text ({names})"
    if source is None:
        raise HloArgumentError(f"{what}; give them with --constants random, zeros or FILE.npz")
    if source == "zeros":
        return {c.name: np.zeros(tuple(c.shape.dims), c.shape.dtype) for c in elided}, f"{what}: zeros"
    if source == "random":
        # By name, so that modules that are compared have the same where they name it the same.
        bits = {c.name: np.random.PCG64([seed, 1, *c.name.encode()]).random_raw for c in elided}
        return {c.name: _random(c.shape, bits[c.name]) for c in elided}, f"{what}: random, seed {seed}"
    opened = _open(source)
    if isinstance(opened, np.ndarray):
        raise HloArgumentError(f"{source} holds one array without a name; constants come from an .npz file")
    with opened as file:
        missing = [c.name for c in elided if c.name not in file]
        if missing:
            raise HloArgumentError(f"{source} has no array for the constants {', '.join(missing[:8])}")
        values = {c.name: _as_declared(_array(file, c.name, source), c.shape) for c in elided}
    return values, f"{what}: from {source}"


def save_inputs(module: HloModule, values: list[Any], path: Path) -> None:
    """Write inputs to an `.npz` file that `--inputs` takes.

    Raises:
        HloArgumentError: A parameter is a tuple, which an `.npz` file cannot hold.
    """
    parameters = _parameters(module)
    for parameter, value in zip(parameters, values, strict=True):
        if isinstance(value, tuple):
            raise HloArgumentError(f"parameter {parameter.name} is a tuple, which an .npz file cannot hold")
    # To a name, NumPy would append .npz.
    with path.open("wb") as file:
        np.savez(file, **{f"arg_{number}": value for number, value in enumerate(values)})
