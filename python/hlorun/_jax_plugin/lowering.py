"""How JAX lowers for hlorun: as for the CPU, with host callbacks of our own.

In: JAX's lowering rules for the CPU. Out: the same under hlorun's name, those that are registered later among
them. Promise: no rule of the CPU or of another platform changes.
"""

from __future__ import annotations

import dataclasses
import secrets
import weakref
from collections import ChainMap
from collections.abc import Callable
from importlib import import_module
from typing import Any

from hlorun._jax_plugin import PLATFORM

FUNCTIONS: weakref.WeakValueDictionary[int, Callable[..., Any]] = weakref.WeakValueDictionary()
"""Functions of host callbacks by the numbers their calls carry; lowerings and executables keep them alive."""


class _Callbacks(list[Any]):
    """Takes the place of the list of a module's host callbacks, whose length less one JAX makes the number.

    Numbers are random: they mean the same function in every module of the process, and none in another one.
    """

    def __init__(self, keep: Callable[[Any], None]) -> None:
        super().__init__()
        self._keep = keep
        self._number = 0

    def append(self, function: Any) -> None:
        self._number = secrets.randbits(62)
        FUNCTIONS[self._number] = function
        self._keep(function)

    def __len__(self) -> int:
        return self._number + 1


def _always(**_: Any) -> bool:
    return True


def _exported_for_cpu(*, exported: Any) -> bool:
    """Whether what is called was exported for the CPU, and not for hlorun."""
    return PLATFORM not in exported.platforms and "cpu" in exported.platforms


def _as_cpu(
    rule: Callable[..., Any], context: type, is_meant: Callable[..., bool] = _always
) -> Callable[..., Any]:
    """The rule, told by a `context` of the module that it lowers for the CPU where that `is_meant`."""

    def lower(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        outer = ctx.module_context
        if tuple(outer.platforms) != (PLATFORM,) or not is_meant(**kwargs):
            return rule(ctx, *args, **kwargs)
        fields = {field.name: getattr(outer, field.name) for field in dataclasses.fields(outer)}
        fields |= {"platforms": ("cpu",), "host_callbacks": _Callbacks(outer.add_keepalive)}
        inner = ctx.replace(module_context=context(**fields))
        results = rule(inner, *args, **kwargs)
        ctx.tokens_out = inner.tokens_out
        return results

    return lower


def _with_branch(rule: Callable[..., Any], parameter: str) -> Callable[..., Any]:
    """The rule, whose `parameter` names the platforms of branches: the CPU's is ours, too, if no other is."""

    def lower(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        named = kwargs.get(parameter) or ()
        if named and not any(PLATFORM in (names or ()) for names in named):
            ours = ((*names, PLATFORM) if names and "cpu" in names else names for names in named)
            kwargs[parameter] = tuple(ours)
        return rule(ctx, *args, **kwargs)

    return lower


class _Rules(ChainMap[Any, Any]):
    """The CPU's rules, behind those of our own."""

    def __init__(self, cpu: Any, wrap: Callable[[Any], Any]) -> None:
        super().__init__({}, cpu)
        self._wrap = wrap

    def __getitem__(self, primitive: Any) -> Any:
        # JAX registers this one, which calls the host, when the module with it is imported.
        if primitive not in self.maps[0] and primitive.name == "spsolve":
            self[primitive] = self._wrap(super().__getitem__(primitive))
        return super().__getitem__(primitive)


def register() -> None:
    """Registers the rules.

    Raises:
        ImportError: JAX is not the one whose inner names these are.
        AttributeError: As above.
    """
    mlir: Any = import_module("jax._src.interpreters.mlir")
    callback: Any = import_module("jax._src.callback")
    checkify: Any = import_module("jax._src.checkify")
    conditionals: Any = import_module("jax._src.lax.control_flow.conditionals")
    debugging: Any = import_module("jax._src.debugging")
    export: Any = import_module("jax._src.export._export")

    class Context(mlir.ModuleContext):  # type: ignore[misc]
        """A module's context whose backend is not the one of its platform."""

        def get_backend(self, optional: bool = False) -> Any:
            return self.backend

    def as_cpu(entry: Any, is_meant: Callable[..., bool] = _always) -> Any:
        return mlir.LoweringRuleEntry(_as_cpu(entry.rule, Context, is_meant), entry.inline)

    cpu = mlir._platform_specific_lowerings["cpu"]
    rules = mlir._platform_specific_lowerings[PLATFORM] = _Rules(cpu, as_cpu)
    for primitive in (
        callback.pure_callback_p,
        callback.io_callback_p,
        debugging.debug_callback_p,
        debugging.debug_print_p,
        checkify.check_p,
    ):
        rules[primitive] = as_cpu(cpu.get(primitive) or mlir._lowerings[primitive])
    rules[export.call_exported_p] = as_cpu(mlir._lowerings[export.call_exported_p], _exported_for_cpu)
    for primitive, parameter in (
        (conditionals.platform_index_p, "platforms"),
        (conditionals.cond_p, "branches_platforms"),
    ):
        entry = mlir._lowerings[primitive]
        rules[primitive] = mlir.LoweringRuleEntry(_with_branch(entry.rule, parameter), entry.inline)
    if PLATFORM not in mlir._platforms_with_donation:
        mlir._platforms_with_donation.append(PLATFORM)
