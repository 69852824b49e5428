"""Functions of the host that modules of JAX call: `pure_callback`, `io_callback`, `debug.print`.

In: a module and the functions of its lowering. Out: each call runs its function. Promise: no
function outlives what was compiled with it.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hlorun._custom import register_custom_call
from hlorun._hlorun import HloInstruction, HloModule
from hlorun.errors import HloUnsupportedError

TARGETS = ("xla_ffi_python_cpu_callback", "xla_ffi_partitioned_python_cpu_callback")
"""The custom calls that JAX lowers a host callback to on the CPU."""

_INDEX = re.compile(r"\bindex = (\d+)")
# A function may hold what calls it, which would then live for ever.
_FUNCTIONS: weakref.WeakValueDictionary[HloInstruction, Callable[..., Sequence[Any]]] = (
    weakref.WeakValueDictionary()
)


def _call(*operands: Any, instruction: HloInstruction) -> Any:
    function = _FUNCTIONS.get(instruction)
    if function is None:
        raise HloUnsupportedError(
            f"{instruction.name} calls a Python function of the process that lowered it: "
            "compile it there with hlorun.jax.compile, or replace it with hlorun.register_custom_call",
            instruction=instruction.name,
        )
    results = tuple(function(*operands))
    return results if instruction.shape.is_tuple else results[0]


def numbered_calls(module: HloModule) -> list[tuple[int, HloInstruction]]:
    """The host callbacks of a module, each with the number of its function.

    Raises:
        HloUnsupportedError: One has no number.
    """
    found = []
    for instruction in module.find(opcode="custom-call"):
        if instruction.custom_call_target in TARGETS:
            number = _INDEX.search(str(instruction.backend_config))
            if number is None:
                raise HloUnsupportedError(
                    f"{instruction.name} names no function: {instruction.backend_config!r}",
                    instruction=instruction.name,
                )
            found.append((int(number[1]), instruction))
    return found


def has_functions(module: HloModule) -> bool:
    """Whether calls of the module have functions, which only this process knows."""
    return bool(_FUNCTIONS) and any(call in _FUNCTIONS for call in module.find(opcode="custom-call"))


def attach(module: HloModule, functions: Mapping[int, Callable[..., Sequence[Any]]]) -> None:
    """Gives the host callbacks of a module their functions, by numbers, as long as the caller keeps them."""
    for target in TARGETS:
        register_custom_call(target, _call)
    for number, instruction in numbered_calls(module):
        if number not in functions:
            raise HloUnsupportedError(
                f"{instruction.name} names no function of this lowering: {instruction.backend_config!r}",
                instruction=instruction.name,
            )
        _FUNCTIONS[instruction] = functions[number]
