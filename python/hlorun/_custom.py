"""Functions of the user's for custom calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hlorun._hlorun import _register_custom_call
from hlorun.errors import HloArgumentError


def _takes_instruction(function: Callable[..., Any]) -> bool:
    # Slow to import.
    import inspect

    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        # Functions of extension modules, such as NumPy's, may have no signature.
        return False
    by_any_name = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    return by_any_name or "instruction" in parameters


def register_custom_call(target: str, fn: Callable[..., Any] | None) -> None:
    """Give a meaning to custom calls that hlorun does not know itself, in all runs from now on.

    Args:
        target: The calls' `custom_call_target`.
        fn: Called as `fn(*operands, instruction=...)` with NumPy arrays (tuples of them for tuples);
            returns an array of the result's dtype and sizes, or a tuple of arrays. `instruction` is
            left out when the function does not take it. What it raises ends the run. None takes an
            earlier function away.

    Raises:
        HloArgumentError: `fn` cannot be called.

    Examples:
        >>> hlorun.register_custom_call("mine.scale", lambda x: x * np.float32(2))
    """
    if fn is None:
        _register_custom_call(target, None)
        return
    if not callable(fn):
        raise HloArgumentError(
            f"the function for custom calls of {target!r}: expects a callable, got {type(fn).__name__}"
        )
    if _takes_instruction(fn):
        _register_custom_call(target, fn)
    else:
        _register_custom_call(target, lambda *operands, instruction: fn(*operands))
