"""One case of the corpus, and what cases are made of."""

# mypy: disable-error-code="no-untyped-call,import-not-found,import-untyped"
from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

FLOATS = ("float32", "float16", "bfloat16", "float64")
INTEGERS = ("int32", "int8", "uint8", "uint32", "int64", "int16")
NARROW = (
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3b11fnuz",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    "float8_e3m4",
    "float8_e8m0fnu",
    "float4_e2m1fn",
    "int4",
    "uint4",
    "int2",
    "uint2",
)


@dataclasses.dataclass(frozen=True)
class Case:
    """A function with the arguments it is traced for."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: dict[str, Any] = dataclasses.field(default_factory=dict)

    def lower(self, platform: str | None = None) -> Any:
        """The lowered function, for the platform it runs on here unless another is given."""
        jitted = jax.jit(self.function, **self.options)
        if platform is None:
            return jitted.lower(*self.arguments)
        return jitted.trace(*self.arguments).lower(lowering_platforms=(platform,))


def words(text: str) -> list[str]:
    """The words of a text, as a list of names is easier to read."""
    return text.split()


def constant_case(name: str, value: Any) -> Case:
    """A function that returns a constant."""
    return Case(name, lambda: jnp.asarray(value), ())


def spec(dtype: str, *shape: int) -> jax.ShapeDtypeStruct:
    """An array to trace with."""
    return jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))
