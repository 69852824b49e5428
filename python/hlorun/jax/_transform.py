"""`hlorun.jax.jit`: a function of JAX that runs here.

In: a function and what `jax.jit` takes with it. Out: `Jitted`. Promise: a call with arguments of known shapes
and types asks JAX for nothing but the arrays; under a transformation of JAX it is `jax.jit(f)`.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from types import MethodType
from typing import Any

import numpy as np

from hlorun.jax._internals import (
    ArrayImpl,
    KeyArray,
    Tracer,
    current_trace,
    default_device,
    disable_jit,
    eval_trace,
    flatten,
    jax,
    trace_context,
)
from hlorun.jax._stages import Compiled, Lowered, Options

MOST_SIGNATURES = 1024
"""How many signatures of arguments a function remembers for the same settings of JAX."""
MOST_CONTEXTS = 16
"""How many settings of JAX a function remembers."""

_SCALARS = (bool, int, float, complex)
Numbers = int | Sequence[int] | None
Names = str | Iterable[str] | None


def _signature(value: Any) -> Any:
    """What of an argument a plan depends on; None for a tracer."""
    kind = type(value)
    if kind in _SCALARS:
        return kind
    if isinstance(value, Tracer):
        return None
    if isinstance(value, (np.ndarray, np.generic)):
        return value.shape, value.dtype
    if kind is KeyArray:
        words = value._base_array
        return value.dtype, words.aval, words.sharding if words._committed else None
    # What is no array at all ends here, with JAX's own message.
    return kind, jax.typeof(value), getattr(value, "sharding", None), getattr(value, "committed", None)


def _indices(numbers: Numbers) -> set[int]:
    """Numbers of arguments, of which one may stand alone."""
    if numbers is None:
        return set()
    try:
        return {operator.index(numbers)}  # type: ignore[arg-type]
    except TypeError:
        return {operator.index(number) for number in numbers}  # type: ignore[union-attr]


class _Statics:
    """Which arguments are static, by number and by name, as `jax.jit` infers one from the other."""

    def __init__(self, function: Callable[..., Any], numbers: Numbers, names: Names) -> None:
        self._names = {names} if isinstance(names, str) else set(names or ())
        self._numbers = _indices(numbers)
        self.is_empty = not self._names and not self._numbers
        if self.is_empty:
            return
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            return
        by_place = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        by_name = {p.name for p in parameters if p.kind == p.POSITIONAL_OR_KEYWORD}
        if all(p.kind != p.VAR_POSITIONAL for p in parameters):
            self._numbers = {n + len(by_place) if n < 0 else n for n in self._numbers}
        if names is None:
            self._names = {name for n, name in enumerate(by_place) if n in self._numbers and name in by_name}
        elif numbers is None:
            self._numbers = {n for n, name in enumerate(by_place) if name in self._names}

    def split(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """The arguments that are not static, and the others as a part of a key."""
        # Of a function that takes any number of arguments, negative numbers count from the call's last.
        numbers = {n + len(args) if n < 0 else n for n in self._numbers}
        dynamic = tuple(value for n, value in enumerate(args) if n not in numbers)
        keywords = {name: value for name, value in kwargs.items() if name not in self._names}
        fixed = [(n, args[n]) for n in sorted(numbers) if 0 <= n < len(args)]
        named = [(name, kwargs[name]) for name in sorted(self._names) if name in kwargs]
        # Equal values of different types are different programs: 1, 1.0 and True.
        return (dynamic, keywords), tuple((where, type(value), value) for where, value in [*fixed, *named])


class Jitted:
    """A function that runs on hlorun; `hlorun.jax.jit` makes it.

    Called under a transformation of JAX, inside `jax.jit`, `jax.grad`, `jax.vmap` or a loop, it is traced as
    `jax.jit(f)` would be, and becomes a part of what calls it.

    Examples:
        >>> step = hlorun.jax.jit(lambda x: x + 1)
        >>> step(np.ones(2, np.float32)).tolist()
        [2.0, 2.0]
    """

    def __init__(self, function: Callable[..., Any], inner: Any, statics: _Statics, options: Options) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._inner = inner
        self._statics = statics
        self._options = options
        self._contexts: OrderedDict[Any, dict[Any, Compiled]] = OrderedDict()
        # The settings of JAX at the last call, and the plans for them: compared before any are hashed.
        self._last: tuple[Any, dict[Any, Compiled]] = (None, {})

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<hlorun.jax.jit of {self._function!r}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it.

        Raises:
            HloUnsupportedError: The function needs what hlorun does not run.
            HloError: The run failed.
        """
        if current_trace.value is not eval_trace:
            return self._inner(*args, **kwargs)
        statics = self._statics
        dynamic, static = ((args, kwargs), ()) if statics.is_empty else statics.split(args, kwargs)
        leaves, tree = flatten(dynamic)
        key = [tree, static, default_device.value]
        are_arrays = True
        for leaf in leaves:
            if type(leaf) is ArrayImpl:
                key.append((leaf.aval, leaf.sharding) if leaf._committed else leaf.aval)
            else:
                are_arrays = False
                signature = _signature(leaf)
                if signature is None:
                    return self._inner(*args, **kwargs)
                key.append(signature)
        context, known = self._last
        if context != (now := trace_context()):
            known = self._in_context(now)
        try:
            compiled = known.get(whole := tuple(key))
        except TypeError:
            # A static argument without a hash: JAX says which one.
            return self.lower(*args, **kwargs).compile().run(leaves)
        if compiled is None:
            # `jax_disable_jit` is a part of the context, so that one in which it is on never has a plan.
            if disable_jit.value:
                return self._inner(*args, **kwargs)
            compiled = known[whole] = self.lower(*args, **kwargs).compile()
            if len(known) > MOST_SIGNATURES:
                known.pop(next(iter(known)))
        return compiled.run(leaves, are_arrays=are_arrays)

    def _in_context(self, context: Any) -> dict[Any, Compiled]:
        """What is planned for these settings of JAX."""
        known = self._contexts.setdefault(context, {})
        if len(self._contexts) > MOST_CONTEXTS:
            self._contexts.popitem(last=False)
        self._last = (context, known)
        return known

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Lower it for these arguments; arrays may be `jax.ShapeDtypeStruct`s.

        Args:
            *args: As in a call.
            **kwargs: As in a call.

        Raises:
            TypeError: An argument is no array, or the function fails while it is traced.

        Examples:
            >>> lowered = hlorun.jax.jit(lambda x: x + 1).lower(jax.ShapeDtypeStruct((2,), "float32"))
            >>> lowered.module.entry_computation.root.shape.dims
            (2,)
        """
        return Lowered(self._inner.lower(*args, **kwargs), self._options)

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Shapes and dtypes of the result for these arguments, without a run.

        Args:
            *args: As in a call.
            **kwargs: As in a call.

        Raises:
            TypeError: An argument is no array, or the function fails while it is traced.

        Examples:
            >>> hlorun.jax.jit(lambda x: x + 1).eval_shape(jax.ShapeDtypeStruct((2,), "float32")).shape
            (2,)
        """
        return self._inner.eval_shape(*args, **kwargs)

    def clear_cache(self) -> None:
        """Forget the signatures of this function, so that it is traced and lowered again.

        Plans that functions share stay.

        Examples:
            >>> hlorun.jax.jit(lambda x: x + 1).clear_cache()
        """
        self._contexts.clear()
        self._last = (None, {})
        self._inner.clear_cache()


def jit(
    f: Callable[..., Any] | None = None,
    /,
    *,
    static_argnums: Numbers = None,
    static_argnames: Names = None,
    donate_argnums: Numbers = None,
    donate_argnames: Names = None,
    keep_unused: bool = False,
    inline: bool = False,
    threads: int | None = None,
    disable: Sequence[str] = (),
    check: Any = None,
) -> Any:
    """Let a function of JAX run on hlorun, as `jax.jit` lets it run on XLA.

    JAX traces and lowers it for each new signature of arguments; the module is planned, kept, and runs on
    arrays of JAX or NumPy, copied only where NumPy's are of another dtype or not C-contiguous. Results are
    arrays of JAX over the memory the run wrote. A call returns when they are there.

    Args:
        f: The function; without one, a decorator is returned.
        static_argnums: As for `jax.jit`.
        static_argnames: As for `jax.jit`.
        donate_argnums: As for `jax.jit`: the arrays of these arguments are deleted after the run where a
            result has the same shape and dtype.
        donate_argnames: As for `jax.jit`.
        keep_unused: As for `jax.jit`.
        inline: As for `jax.jit`, where it is called under a transformation.
        threads: As for `hlorun.compile`.
        disable: As for `hlorun.compile`.
        check: As for `hlorun.compile`.

    Returns:
        A `Jitted`, to be called as `f` is.

    Raises:
        TypeError: `f` cannot be called, or `check` is a list.
        ValueError: Static or donated arguments are none of `f`'s.

    Examples:
        >>> step = hlorun.jax.jit(lambda x: jnp.sin(x) ** 2 + jnp.cos(x) ** 2)
        >>> float(step(0.5))
        1.0
    """
    given = {
        "static_argnums": static_argnums,
        "static_argnames": static_argnames,
        "donate_argnums": donate_argnums,
        "donate_argnames": donate_argnames,
        "keep_unused": keep_unused,
        "inline": inline,
    }
    options = Options(threads, (disable,) if isinstance(disable, str) else tuple(disable), check)
    hash(options)

    def wrap(function: Callable[..., Any]) -> Jitted:
        inner = jax.jit(function, **given)
        return Jitted(function, inner, _Statics(function, static_argnums, static_argnames), options)

    return wrap if f is None else wrap(f)
