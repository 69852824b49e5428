"""From what JAX has lowered to what runs here.

In: a `jax.stages.Lowered`. Out: `Compiled`, which takes arrays of JAX or NumPy and gives arrays of JAX.
Promise: no argument and no result is copied where JAX's memory allows, and what does not run is an error that
says why.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from hlorun import _hlorun
from hlorun._hlorun import CompiledMemoryStats, Executable, HloModule
from hlorun._jax_plugin import PLATFORM
from hlorun.errors import HloArgumentError, HloUnsupportedError
from hlorun.jax._callbacks import attach
from hlorun.jax._internals import Facts, KeyArray, ShapedArray, batched_device_put, flatten, jax
from hlorun.jax._lapack import follow_jax

MOST_PLANS = 128
"""How many planned modules are kept for functions that lower to the same."""


@dataclass(frozen=True)
class Options:
    """How modules are planned, as `hlorun.compile` takes it."""

    threads: int | None = None
    disable: tuple[str, ...] = ()
    check: Any = None


class _Plans:
    """Executables by the fingerprints of their modules; the oldest use goes first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Any, Executable] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, module: HloModule, options: Options) -> Executable:
        key = (module.fingerprint(), options)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        executable = plan(module, options)
        with self._lock:
            self._kept[key] = executable
            if len(self._kept) > MOST_PLANS:
                self._kept.popitem(last=False)
        return executable


_PLANS = _Plans()


def plan(module: HloModule, options: Options) -> Executable:
    """Plans a module of one device."""
    follow_jax()
    return _hlorun.compile(
        module,
        replicas=1,
        partitions=1,
        threads=options.threads,
        disable=options.disable,
        check=options.check,
    )


def is_key(aval: Any) -> bool:
    """Whether the elements are of a type that only JAX has: keys of random numbers."""
    return bool(jax.dtypes.issubdtype(aval.dtype, jax.dtypes.extended))


def _converter(aval: Any) -> Callable[[Any], Any]:
    """Makes the array that a run takes of an argument of any kind."""
    if is_key(aval):
        return lambda value: np.asarray(value._base_array)
    if aval.dtype == jax.dtypes.float0:
        return lambda value: np.zeros(aval.shape, np.bool_)
    return lambda value: np.asarray(value, aval.dtype)


class Lowered:
    """A function lowered for arguments of certain shapes and types, as `jax.stages.Lowered`.

    Attributes:
        lowered: JAX's own object.

    Examples:
        >>> lowered = hlorun.jax.jit(lambda x: x + 1).lower(jax.ShapeDtypeStruct((2,), "float32"))
        >>> lowered.out_info.shape, lowered.module.name
        ((2,), 'jit__lambda')
    """

    def __init__(self, lowered: Any, options: Options) -> None:
        self.lowered = lowered
        self._options = options
        self._module: HloModule | None = None

    def __reduce__(self) -> NoReturn:
        raise TypeError("cannot pickle a Lowered, which holds JAX's own object: pickle its module instead")

    @property
    def module(self) -> HloModule:
        """The module as hlorun reads it."""
        if self._module is None:
            proto = self.lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()
            self._module = _hlorun.parse(proto)
        return self._module

    @property
    def in_tree(self) -> Any:
        """The structure of the arguments."""
        return self.lowered.in_tree

    @property
    def out_tree(self) -> Any:
        """The structure of the result."""
        return self.lowered.out_tree

    @property
    def args_info(self) -> Any:
        """Shapes, dtypes and donation of the arguments."""
        return self.lowered.args_info

    @property
    def out_info(self) -> Any:
        """Shapes and dtypes of the result."""
        return self.lowered.out_info

    def as_text(self, dialect: str = "stablehlo") -> str:
        """The program.

        Args:
            dialect: "stablehlo" or "hlo".

        Raises:
            ValueError: There is no such dialect.

        Examples:
            >>> hlorun.jax.jit(lambda x: x + 1).lower(1.0).as_text("hlo").startswith("HloModule jit__lambda")
            True
        """
        if dialect == "hlo":
            return self.module.to_string()
        return str(self.lowered.as_text(dialect))

    def cost_analysis(self) -> dict[str, float]:
        """What a run costs, as `HloModule.cost_analysis`.

        Raises:
            HloVerifyError: The module breaks rules of HLO.

        Examples:
            >>> hlorun.jax.jit(lambda x: x + x).lower(np.ones(3, np.float32)).cost_analysis()["flops"]
            3.0
        """
        return self.module.cost_analysis()

    def compile(self) -> Compiled:
        """Plan it.

        Raises:
            HloUnsupportedError: It needs what hlorun does not run.

        Examples:
            >>> float(hlorun.jax.jit(lambda x: x + 1).lower(1.0).compile()(2.0))
            3.0
        """
        return Compiled(self, self._options)


def _refuse(facts: Facts) -> None:
    """Ends with an error where a lowering needs what does not run here."""
    if len(facts.devices) != 1:
        raise HloUnsupportedError(
            f"the arguments or shardings spread this function over {len(facts.devices)} devices; hlorun.jax "
            "runs on one: put the arguments on one device"
        )
    (device,) = facts.devices
    if device.platform == PLATFORM:
        raise HloUnsupportedError(f"this function is for {device}, where hlorun runs it by jax.jit: use that")
    if device.platform != "cpu":
        raise HloUnsupportedError(
            f"this function is for {device}; hlorun.jax runs on the CPU: set JAX_PLATFORMS=cpu, or put the "
            "arguments on jax.devices('cpu')[0]"
        )
    if facts.has_references:
        raise HloUnsupportedError(
            "this function takes or closes over mutable references (jax.new_ref), which hlorun.jax does not "
            "run: pass the arrays and return them"
        )


class Compiled:
    """A planned function for arguments of certain shapes and types, as `jax.stages.Compiled`.

    Called with the arguments that are not static, it returns the function's result in arrays of JAX.

    Attributes:
        executable: What runs, on flat arrays.
        module: The module that runs.
        in_tree: The structure of the arguments.
        out_tree: The structure of the result.
        out_info: Shapes and dtypes of the result.

    Examples:
        >>> lowered = hlorun.jax.jit(lambda x: x + 1).lower(jax.ShapeDtypeStruct((2,), "float32"))
        >>> compiled = lowered.compile()
        >>> compiled(np.ones(2, np.float32)).tolist(), compiled.executable.memory["output_bytes"]
        ([2.0, 2.0], 8)
    """

    def __init__(self, lowered: Lowered, options: Options) -> None:
        facts = Facts(lowered.lowered)
        _refuse(facts)
        module = lowered.module
        if facts.callbacks:
            # Their functions are those of this lowering.
            self.executable = plan(module, options)
            attach(self.executable.module, dict(enumerate(facts.callbacks)))
        else:
            self.executable = _PLANS.get(module, options)
        # Not the lowering itself, which holds JAX's whole program.
        self.module = module
        self.in_tree = lowered.in_tree
        self.out_tree = lowered.out_tree
        self.out_info = lowered.out_info
        self._callbacks = facts.callbacks
        self._in_avals = flatten(lowered.lowered.in_avals)[0]
        self._first: list[Any] = [None] * facts.tokens + [
            np.asarray(constant) for constant in facts.constants
        ]
        self._takes = [(number, _converter(self._in_avals[number])) for number in facts.kept]
        self._takes_all = len(facts.kept) == len(self._in_avals)
        self._donated = self._donated_arguments(lowered, facts)
        self._tokens = facts.tokens
        self._out_avals = facts.avals
        self._is_plain = not any(is_key(aval) or aval.dtype == jax.dtypes.float0 for aval in facts.avals)
        root = module.entry_computation.root if module.entry_computation else None
        self._is_single = root is not None and not root.shape.is_tuple
        sharding = jax.sharding.SingleDeviceSharding(facts.devices[0])
        self._place = (sharding, facts.devices, facts.is_committed)

    def _donated_arguments(self, lowered: Lowered, facts: Facts) -> list[int]:
        """The arguments that a result takes the place of."""
        given = [info.donated for info in jax.tree_util.tree_leaves(lowered.args_info)]
        reused = {alias.parameter_number for alias in self.module.input_output_alias}
        first = len(self._first)
        return [n for k, n in enumerate(facts.kept) if given[n] and first + k in reused]

    def as_text(self) -> str:
        """The module as HLO text.

        Examples:
            >>> compiled = hlorun.jax.jit(lambda x: x + 1).lower(1.0).compile()
            >>> compiled.as_text().startswith("HloModule jit__lambda")
            True
        """
        return self.module.to_string()

    def cost_analysis(self) -> dict[str, float]:
        """What a run costs, as `HloModule.cost_analysis`.

        Raises:
            HloVerifyError: The module breaks rules of HLO.

        Examples:
            >>> compiled = hlorun.jax.jit(lambda x: x + x).lower(np.ones(3, np.float32)).compile()
            >>> compiled.cost_analysis()["flops"]
            3.0
        """
        return self.module.cost_analysis()

    def memory_analysis(self) -> CompiledMemoryStats:
        """Bytes the module needs, as `HloModule.memory_analysis`; `executable.memory` is the plan's.

        Raises:
            HloVerifyError: The module breaks rules of HLO.

        Examples:
            >>> compiled = hlorun.jax.jit(lambda x: x + x).lower(np.ones(3, np.float32)).compile()
            >>> compiled.memory_analysis().output_size_in_bytes
            12
        """
        return self.module.memory_analysis()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "cannot pickle a Compiled, which holds objects of JAX: pickle its executable instead, which "
            "takes flat arrays, or lower and compile where it is needed"
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it on the arguments that are not static.

        Raises:
            HloArgumentError: They are not those it was lowered for.
            HloError: The run failed.
        """
        leaves, tree = flatten((args, kwargs))
        if tree != self.in_tree:
            raise HloArgumentError(f"it was lowered for arguments of structure {self.in_tree}, got {tree}")
        for number, (leaf, aval) in enumerate(zip(leaves, self._in_avals, strict=True)):
            got = jax.typeof(leaf)
            if got.shape != aval.shape or got.dtype != aval.dtype:
                raise HloArgumentError(
                    f"argument {number}: it was lowered for {aval.str_short()}, got {got.str_short()}"
                )
        return self.run(leaves)

    def run(self, leaves: Sequence[Any], *, are_arrays: bool = False) -> Any:
        """Run it on arguments that are flat and known to fit.

        Args:
            leaves: Arrays, scalars and keys in the order of `in_tree`, of its shapes and dtypes.
            are_arrays: Whether all are plain arrays of JAX, which is faster.

        Returns:
            The result.

        Raises:
            HloError: The run failed.

        Examples:
            >>> float(hlorun.jax.jit(lambda x: x + 1).lower(1.0).compile().run([2.0]))
            3.0
        """
        if are_arrays:
            taken = leaves if self._takes_all else [leaves[number] for number, _ in self._takes]
            results = self.executable(*self._first, *map(np.asarray, taken))
        else:
            values = [convert(leaves[number]) for number, convert in self._takes]
            results = self.executable(*self._first, *values)
        for number in self._donated:
            if isinstance(leaves[number], jax.Array):
                leaves[number].delete()
        arrays = (results,) if self._is_single else results[self._tokens :]
        if self._is_plain:
            sharding, devices, is_committed = self._place
            out = [
                batched_device_put(aval, sharding, [array], devices, is_committed)
                for aval, array in zip(self._out_avals, arrays, strict=True)
            ]
        else:
            out = [self._array(aval, array) for aval, array in zip(self._out_avals, arrays, strict=True)]
        return self.out_tree.unflatten(out)

    def _array(self, aval: Any, array: Any) -> Any:
        """The array of JAX of a result whose dtype only JAX may have."""
        sharding, *rest = self._place
        if aval.dtype == array.dtype:
            return batched_device_put(aval, sharding, [array], *rest)
        if aval.dtype == jax.dtypes.float0:
            return np.zeros(aval.shape, aval.dtype)
        bits = batched_device_put(ShapedArray(array.shape, array.dtype), sharding, [array], *rest)
        return KeyArray(aval.dtype._impl, bits)


def compile(
    lowered: Any, *, threads: int | None = None, disable: Sequence[str] = (), check: Any = None
) -> Compiled:
    """Plan what JAX has lowered.

    Args:
        lowered: What `jax.jit(f).lower(...)` or `hlorun.jax.jit(f).lower(...)` returns.
        threads: As for `hlorun.compile`.
        disable: As for `hlorun.compile`.
        check: As for `hlorun.compile`.

    Returns:
        A `Compiled`, to be called with the arguments that are not static.

    Raises:
        HloUnsupportedError: It needs what hlorun does not run: several devices, another platform,
            mutable references, or an instruction, which `.instruction` names.
        TypeError: `lowered` is no lowering.

    Examples:
        >>> lowered = jax.jit(lambda x: x + 1).lower(1.0)
        >>> float(hlorun.jax.compile(lowered)(2.0))
        3.0
    """
    lowered = getattr(lowered, "lowered", lowered)
    if not isinstance(lowered, jax.stages.Lowered):
        raise TypeError(
            f"compile takes what jax.jit(f).lower(…) returns, not a {type(lowered).__name__}: {lowered!r}"
        )
    options = Options(threads, tuple(disable), check)
    return Compiled(Lowered(lowered, options), options)
