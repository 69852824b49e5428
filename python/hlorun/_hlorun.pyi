"""The compiled part of hlorun."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Literal, TypeAlias, final

import numpy as np
from typing_extensions import Self

from hlorun._records import Alias, Donor, ModuleWarning, StackFrame

__all__ = [
    "ArrowTable",
    "AssignedValue",
    "BufferAllocation",
    "BufferAssignment",
    "BufferFinding",
    "BufferLiveRanges",
    "BufferValue",
    "CompiledMemoryStats",
    "Executable",
    "HloComputation",
    "HloInstruction",
    "HloModule",
    "Layout",
    "Memory",
    "MemorySpaceUsage",
    "OpMetadata",
    "PassRecord",
    "Shape",
    "_Network",
    "_TableRows",
    "__version__",
    "_batch_schema",
    "_computation",
    "_copy_rows",
    "_edit",
    "_read_stablehlo",
    "_read_stored",
    "_register_custom_call",
    "_resize",
    "_restore",
    "_set_blas_path",
    "_set_stablehlo_versions",
    "_tiles",
    "_widen",
    "compile",
    "extract",
    "load",
    "load_buffer_assignment",
    "load_modules",
    "parse",
    "parse_buffer_assignment",
    "parse_modules",
]

__version__: str

_AttributeValue: TypeAlias = Any

@final
class Layout:
    """The layout of an array: order of its dimensions in memory, tiles, memory space.

    `Layout(text)` reads one, and raises `HloParseError` where the text is none; `str(layout)` is the
    text again.

    Examples:
        >>> layout = hlorun.Layout("{1,0:T(8,128)}")
        >>> layout.minor_to_major, layout.tiles
        ((1, 0), ((8, 128),))
    """

    def __new__(cls, text: str) -> Self: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    @property
    def minor_to_major(self) -> tuple[int, ...]:
        """Dimension numbers from the fastest varying to the slowest."""
    @property
    def memory_space(self) -> int:
        """`S(n)`; 0 is the default memory space."""
    @property
    def element_size_in_bits(self) -> int:
        """`E(n)`, in bits; 0 when the text does not say."""
    @property
    def tiles(self) -> tuple[tuple[int, ...], ...]:
        """Sizes of the tiles, one tuple per tile; -1 stands for a combined dimension."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Shape:
    """The shape of a value: an array, a tuple, a token or an opaque value.

    `Shape(text)` reads one, and raises `HloParseError` where the text is none; `str(shape)` is the
    text again.

    Examples:
        >>> shape = hlorun.Shape("f32[2,3]{1,0}")
        >>> shape.dtype, shape.dims, shape.nbytes
        (dtype('float32'), (2, 3), 24)
    """

    def __new__(cls, text: str) -> Self: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The NumPy dtype of an array's elements; None for tuples, tokens and opaque values."""
    @property
    def element_type(self) -> str:
        """The element type by XLA's name, "f32"; "tuple", "token", "opaque" or "buffer" otherwise."""
    @property
    def dims(self) -> tuple[int, ...]:
        """Sizes of an array's dimensions; bounds where they are dynamic, -1 where they are unbounded."""
    @property
    def dynamic_dims(self) -> tuple[bool, ...]:
        """Which dimensions may be smaller at run time than their bound."""
    @property
    def rank(self) -> int:
        """Number of dimensions of an array."""
    @property
    def size(self) -> int | None:
        """Number of elements of an array; None for other shapes and unbounded sizes."""
    @property
    def nbytes(self) -> int | None:
        """Bytes of the value in NumPy arrays, tuples summed; None where it is unbounded."""
    @property
    def layout(self) -> Layout | None:
        """The layout the text gives, or None."""
    @property
    def is_array(self) -> bool:
        """Whether this is an array."""
    @property
    def is_tuple(self) -> bool:
        """Whether this is a tuple."""
    @property
    def tuple_shapes(self) -> tuple[Shape, ...]:
        """Shapes of a tuple's elements; empty for other shapes."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class OpMetadata:
    """Metadata of an instruction: its keys as attributes and as items; empty when there is none.

    Examples:
        >>> text = 'ENTRY e { ROOT p = f32[2] parameter(0), metadata={op_name="x" source_line=7} }'
        >>> metadata = hlorun.parse(text)["p"].metadata
        >>> metadata.op_name, metadata["source_line"], metadata.source_file
        ('x', 7, '')
    """

    @property
    def op_type(self) -> str:
        """The framework's operation, "MatMul"; empty when absent."""
    @property
    def op_name(self) -> str:
        """The framework's name for it, "jit(f)/dot_general"; empty when absent."""
    @property
    def source_file(self) -> str:
        """The source file, also where only a stack frame names it; empty when absent."""
    @property
    def source_line(self) -> int:
        """The line in the source file, from 1; 0 when absent."""
    @property
    def stack_frames(self) -> tuple[StackFrame, ...]:
        """The stack when it was made, innermost first: a `StackFrame` for each."""

    def __reduce__(self) -> tuple[Any, ...]: ...
    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key.

        Args:
            key: As in the text.
            default: What is returned where the text does not give it.

        Returns:
            The value, or `default`.

        Raises:
            TypeError: `key` is no string.

        Examples:
            >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
            >>> module["a"].metadata.get("op_name", "no name")
            'no name'
        """
    def keys(self) -> list[str]:
        """The keys the text gives.

        Examples:
            >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
            >>> module["a"].metadata.keys()
            []
        """
    def __getitem__(self, key: str, /) -> str | int | bool:
        """The value of a key.

        Args:
            key: As in the text.

        Raises:
            KeyError: The text does not give it.

        Examples:
            >>> text = 'ENTRY e { ROOT p = f32[2] parameter(0), metadata={op_name="x"} }'
            >>> hlorun.parse(text)["p"].metadata["op_name"]
            'x'
        """
    def __contains__(self, key: str, /) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    __hash__: None  # type: ignore[assignment]

@final
class HloInstruction:
    """One instruction of a module, made when it is touched; equal to another of the same place.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> add = module["a"]
        >>> add.opcode, add.shape.dtype, [operand.name for operand in add.operands]
        ('add', dtype('float32'), ['p', 'p'])
    """

    @property
    def name(self) -> str:
        """The name, without "%"."""
    @property
    def opcode(self) -> str:
        """The operation, "dynamic-update-slice"."""
    @property
    def shape(self) -> Shape:
        """The shape of the result."""
    @property
    def operands(self) -> tuple[HloInstruction, ...]:
        """The operands, in order."""
    @property
    def users(self) -> tuple[HloInstruction, ...]:
        """The instructions that take this one as an operand, each once."""
    @property
    def called_computations(self) -> tuple[HloComputation, ...]:
        """The computations it calls, in the order of the text."""
    @property
    def computation(self) -> HloComputation:
        """The computation it stands in."""
    @property
    def parameter_number(self) -> int | None:
        """The number of a parameter; None for other opcodes."""
    @property
    def tuple_index(self) -> int | None:
        """The element a get-tuple-element takes; None for other opcodes."""
    @property
    def custom_call_target(self) -> str | None:
        """The target of a custom-call; None for other opcodes."""
    @property
    def collective(self) -> str | None:
        """The collective it begins, "all-reduce" also for "all-reduce-start"; None for other opcodes."""

    @property
    def has_side_effect(self) -> bool:
        """Whether it does more than compute its value, or what it calls does: other devices take part, the
        world outside may notice, or the operands alone do not decide the result, as with random numbers.
        """
    @property
    def collective_shape(self) -> Shape | None:
        """The shape of what a collective gives each device: of one that only starts here without its
        operands; None for other opcodes.
        """

    @property
    def trip_count(self) -> int | None:
        """How often the body of a while runs, where its configuration or its code says; None otherwise."""

    @property
    def runs(self) -> int | None:
        """How often it runs as a step of its own in one run of the module; None where it is a part of a
        fusion, is applied per element, only runs other computations, or is not reached.
        """

    def signature(self) -> str:
        """What it does, without names and metadata: equal for instructions that do the same with equal
        operands, called computations and control predecessors, which are not part of it. Constants are
        digests of their bits.

        Examples:
            >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
            >>> module["a"].signature() == module["p"].signature()
            False
        """
    @property
    def is_root(self) -> bool:
        """Whether it is its computation's root."""
    @property
    def literal(self) -> Any:
        """The value of a constant, a NumPy array of its shape's dtype and sizes, or a tuple of arrays;
        None for other opcodes and where the text left the value out.
        """
    @property
    def attributes(self) -> dict[str, _AttributeValue]:
        """The attributes by their keys in the text: tuples, strings, numbers, dicts, computations.
        Metadata and backend_config are attributes of their own.
        """
    @property
    def metadata(self) -> OpMetadata:
        """What the framework said of it: op_type, op_name, source_file, source_line, stack_frames."""
    @property
    def backend_config(self) -> dict[str, Any] | str | bytes | None:
        """The backend's configuration: a dict where it is JSON, str or bytes otherwise, None when absent."""
    @property
    def text(self) -> str:
        """The instruction as it stands in the file."""
    def cost_analysis(self) -> dict[str, float]:
        """What it costs by XLA's HloCostAnalysis, under the keys of `HloModule.cost_analysis`.

        Raises:
            HloVerifyError: The module breaks rules of HLO.

        Examples:
            >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
            >>> module["a"].cost_analysis()["flops"]
            2.0
        """
    def __reduce__(self) -> tuple[Any, ...]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class HloComputation:
    """One computation of a module: iterable over its instructions, and indexed by their names.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> [instruction.name for instruction in module.entry_computation]
        ['p', 'a']
    """

    @property
    def name(self) -> str:
        """The name, without "%"."""
    @property
    def instructions(self) -> tuple[HloInstruction, ...]:
        """The instructions, in the order of the text."""
    @property
    def parameters(self) -> tuple[HloInstruction, ...]:
        """The parameters, by number."""
    @property
    def root(self) -> HloInstruction | None:
        """The instruction whose value the computation returns."""
    @property
    def is_entry(self) -> bool:
        """Whether it is the module's entry computation."""
    @property
    def runs(self) -> int | None:
        """How often it runs in one run of the module: calls, and loops with their trips, as one where they
        are not known. None where it is applied per element, or nothing reaches it.
        """

    @property
    def is_inner(self) -> bool:
        """Whether it is a part of one instruction: fused, or applied per element."""

    @property
    def execution_thread(self) -> str | None:
        """The thread it runs on; None for the main one."""
    def __getitem__(self, name: str, /) -> HloInstruction:
        """The instruction called `name`.

        Args:
            name: With or without "%".

        Raises:
            KeyError: The computation has none.

        Examples:
            >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
            >>> module.entry_computation["a"].is_root
            True
        """
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[HloInstruction]: ...
    def _instruction(self, place: int) -> HloInstruction: ...
    def _repr_html_(self) -> str: ...
    def _ipython_key_completions_(self) -> list[str]: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class ArrowTable:
    """A table that speaks the Arrow PyCapsule interface.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> module.to_arrow().column_names[:3]
        ('id', 'computation', 'name')
    """

    @property
    def num_rows(self) -> int:
        """Number of rows."""
    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns."""
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __len__(self) -> int: ...

@final
class HloModule:
    """A module of HLO text: iterable over its computations, and indexed by the names of computations and
    instructions.

    `module[name]` is the computation of that name, or else the first instruction, and a `KeyError`
    where there is neither; `for computation in module` goes through the computations in the order of
    the text. Modules print as HLO text, compare by it, and pickle.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> module["a"].operands[0].name, module["e"].root.name, "b" in module
        ('p', 'a', False)
    """

    @property
    def name(self) -> str:
        """The name."""
    @property
    def filename(self) -> str | None:
        """The file it was loaded from; None for modules parsed from memory."""
    @property
    def computations(self) -> tuple[HloComputation, ...]:
        """All computations, in the order of the text."""
    @property
    def entry_computation(self) -> HloComputation | None:
        """The computation a run begins with."""
    @property
    def instruction_count(self) -> int:
        """Number of instructions in all computations."""
    @property
    def is_scheduled(self) -> bool:
        """Whether the order of the text is a schedule."""
    @property
    def replica_count(self) -> int:
        """The header's replica_count; 1 when absent."""
    @property
    def num_partitions(self) -> int:
        """The header's num_partitions; 1 when absent."""
    @property
    def input_output_alias(self) -> tuple[Alias, ...]:
        """Outputs that may or must lie in a parameter's memory,
        an `Alias` for each.
        """

    @property
    def buffer_donor(self) -> tuple[Donor, ...]:
        """Parameters that are given away with no output for them: a `Donor` for each."""

    @property
    def attributes(self) -> dict[str, str]:
        """The header's attributes as written."""
    @property
    def source(self) -> bytes:
        """The text it was parsed from; of a module from a proto, the text hlorun made of it."""
    @property
    def warnings(self) -> tuple[ModuleWarning, ...]:
        """What the text holds that hlorun does not know: a `ModuleWarning` for each."""

    def to_string(self, preset: str = "default", **options: bool | int | str | None) -> str:
        """The module as text.

        Args:
            preset: XLA's "default", "short_parsable", "canonical", "fingerprint" or
                "module_fingerprint".
            **options: By the names of XLA's HloPrintOptions: `print_metadata=False`. As in XLA, except
                that print_large_constants is True, so that no value is lost.

        Returns:
            HLO text.

        Raises:
            ValueError: There is no such preset.
            TypeError: There is no such option.

        Examples:
            >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
            >>> print(module.to_string("short_parsable").strip())
            HloModule module_e, entry_computation_layout={(f32[2]{0})->f32[2]{0}}
            <BLANKLINE>
            ENTRY e {
              p = f32[2]{0} parameter(0)
              ROOT a = f32[2]{0} add(p, p)
            }
        """
    def with_constants(self, constants: dict[str, Any]) -> HloModule:
        """The module with values for constants, as those that the text leaves out (`constant({...})`).

        Args:
            constants: Arrays by the names of constants, of their dtypes and sizes.

        Returns:
            A copy of the module in which these constants have these values.

        Raises:
            HloArgumentError: There is no array constant of a name, or an array does not fit its constant.

        Examples:
            >>> module = hlorun.parse("ENTRY e { ROOT c = f32[3] constant({...}) }")
            >>> whole = module.with_constants({"c": np.array([1, 2, 3], np.float32)})
            >>> hlorun.compile(whole)()
            array([1., 2., 3.], dtype=float32)
        """

    def fingerprint(self) -> str:
        """Hexadecimal digits that are equal for modules that compute the same in the same way, whatever
        their names and metadata.

        Examples:
            >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
            >>> renamed = hlorun.parse("ENTRY f { q = f32[2] parameter(0) ROOT b = f32[2] add(q, q) }")
            >>> renamed.fingerprint() == module.fingerprint()
            True
        """
    def verify(self) -> None:
        """Checks the module by the rules of HLO.

        Raises:
            HloVerifyError: It breaks some; all of them are in `.errors`, with line and column.

        Examples:
            >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[3] add(p, p) }")
            >>> try:
            ...     module.verify()
            ... except hlorun.HloVerifyError as error:
            ...     print(error.errors[0].instruction)
            a
        """
    def cost_analysis(self) -> dict[str, float]:
        """What a run costs by XLA's HloCostAnalysis, under its keys.

        Returns:
            "flops", "transcendentals", "bytes accessed", and bytes and utilization by operand. Loops
            count as one trip.

        Raises:
            HloVerifyError: The module breaks rules of HLO.

        Examples:
            >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
            >>> module.cost_analysis()["flops"]
            2.0
        """
    def to_arrow(self) -> ArrowTable:
        """One row per instruction, through the Arrow PyCapsule interface: pyarrow, polars, DuckDB and
        others read it.

        Examples:
            >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
            >>> module.to_arrow().num_rows
            2
        """
    def to_proto(self) -> bytes:
        """The module as an HloModuleProto, which XLA and jaxlib read.

        Raises:
            HloUnsupportedError: The module holds what a proto has no field for.

        Examples:
            >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
            >>> hlorun.parse(module.to_proto()) == module
            True
        """

    def to_pbtxt(self) -> str:
        """The module as an HloModuleProto in the text form of protos, `.pbtxt`.

        Raises:
            HloUnsupportedError: The module holds what a proto has no field for.

        Examples:
            >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
            >>> module.to_pbtxt().splitlines()[0]
            'name: "module_e"'
            >>> hlorun.parse(module.to_pbtxt()) == module
            True
        """

    def find(self, *, opcode: str) -> tuple[HloInstruction, ...]:
        """The instructions of an opcode, computation by computation in the order of the text.

        Args:
            opcode: XLA's name of it, "dynamic-update-slice". Of one that the module does not have, the
                result is empty.

        Returns:
            The instructions.

        Raises:
            TypeError: `opcode` is no string.

        Examples:
            >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
            >>> [instruction.name for instruction in module.find(opcode="add")]
            ['a']
        """

    @property
    def instructions(self) -> tuple[HloInstruction, ...]:
        """All instructions, computation by computation in the order of the text."""

    @property
    def inputs(self) -> tuple[Any, ...] | None:
        """The arguments of the run that a snapshot is of, NumPy arrays of the parameters' dtypes and sizes;
        None for modules from elsewhere.
        """

    @property
    def result(self) -> Any:
        """The result of the run that a snapshot is of, as a call of an executable returns it; None for
        modules from elsewhere.
        """

    @property
    def execution_platform(self) -> str:
        """The platform that the run of a snapshot was on; "" where that is not said."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[HloComputation]: ...
    def buffer_assignment(self) -> BufferAssignment:
        """The memory XLA's rules give the module's values, in the order of the text.

        Raises:
            HloVerifyError: The module breaks rules of HLO.

        Examples:
            >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
            >>> module.buffer_assignment().total_bytes
            16
        """
    def live_ranges(self) -> BufferLiveRanges | None:
        """Schedule, live ranges and peak of the module in the order of the text.

        Raises:
            HloVerifyError: The module breaks rules of HLO.

        Examples:
            >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
            >>> module.live_ranges().instruction_sequence
            [(0, 'p'), (1, 'a')]
        """
    def memory_analysis(self) -> CompiledMemoryStats:
        """Bytes the module needs by its buffer assignment, under JAX's names.

        Raises:
            HloVerifyError: The module breaks rules of HLO.

        Examples:
            >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
            >>> module.memory_analysis().argument_size_in_bytes
            8
        """
    def __getitem__(self, name: str, /) -> Any:
        """The computation called `name`, or else the first instruction called so.

        Args:
            name: With or without "%".

        Raises:
            KeyError: Nothing is called so; the message has a name that is close to it.

        Examples:
            >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
            >>> module["a"].opcode
            'add'
        """
    def __contains__(self, name: str, /) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def _repr_html_(self) -> str: ...
    def _ipython_key_completions_(self) -> list[str]: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class AssignedValue:
    """One value in an allocation: which, and which bytes of it.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> value = module.buffer_assignment().allocations[0].values[0]
        >>> value.instruction, value.offset, value.size
        ('a', 0, 8)
    """

    @property
    def id(self) -> int:
        """Number of the value."""
    @property
    def instruction(self) -> str:
        """The defining instruction."""
    @property
    def index(self) -> str:
        """Which part of it, "{0}"; "" for instructions that are no tuples."""
    @property
    def is_phi(self) -> bool:
        """Whether several values meet here."""
    @property
    def color(self) -> int:
        """Memory space."""
    @property
    def size(self) -> int:
        """Bytes."""
    @property
    def offset(self) -> int:
        """Bytes from the start of the allocation."""
    @property
    def shape(self) -> str:
        """Shape with layout, as written."""

@final
class BufferAllocation:
    """One allocation: a block of memory, what it is for, and the values that lie in it one after the
    other.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> allocation = module.buffer_assignment().allocations[0]
        >>> allocation.size, allocation.maybe_live_out, len(allocation.values)
        (8, True, 1)
    """

    @property
    def index(self) -> int:
        """Its number."""
    @property
    def size(self) -> int:
        """Bytes."""
    @property
    def color(self) -> int:
        """Memory space."""
    @property
    def parameter_number(self) -> int | None:
        """The entry parameter it holds, or None."""
    @property
    def parameter_index(self) -> str:
        """Which part of that parameter, "{}" or "{0,1}"; "" when it is no parameter."""
    @property
    def shape(self) -> str:
        """Shape of that parameter or of the output it holds the top of; "" for others."""
    @property
    def is_constant(self) -> bool:
        """Whether it holds a constant."""
    @property
    def is_thread_local(self) -> bool:
        """Whether each thread has one."""
    @property
    def maybe_live_out(self) -> bool:
        """Whether it holds a part of the result."""
    @property
    def is_preallocated_temp(self) -> bool:
        """Whether it is the block of temporaries."""
    @property
    def values(self) -> list[AssignedValue]:
        """Its values."""

@final
class BufferValue:
    """One entry of "Used values": where a value is, and who uses it.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> [(value.instruction, value.positions[0]) for value in module.buffer_assignment().values]
        [('p', ('p', '')), ('a', ('a', ''))]
    """

    @property
    def id(self) -> int:
        """Number of the value."""
    @property
    def instruction(self) -> str:
        """The defining instruction."""
    @property
    def index(self) -> str:
        """Which part of it, "{0}"; "" for instructions that are no tuples."""
    @property
    def is_phi(self) -> bool:
        """Whether several values meet here."""
    @property
    def color(self) -> int:
        """Memory space."""
    @property
    def positions(self) -> list[tuple[str, str]]:
        """Where it is, the defining position first: (instruction, index)."""
    @property
    def uses(self) -> list[tuple[str, int, str]]:
        """Who uses it: (instruction, operand number, index)."""
    @property
    def from_instruction(self) -> str:
        """The defining instruction in HLO text."""

@final
class BufferLiveRanges:
    """Schedule, live ranges and peak; moments count the instructions of the schedule from 0.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> ranges = module.live_ranges()
        >>> ranges.peak_moment, ranges.buffer_live_ranges[0]
        (1, ('p', '{}', 0, 2))
    """

    @property
    def max(self) -> int:
        """The moment after the last instruction, up to which results are live."""
    @property
    def instruction_sequence(self) -> list[tuple[int, str]]:
        """The schedule: (moment, instruction)."""
    @property
    def buffer_live_ranges(self) -> list[tuple[str, str, int, int]]:
        """(instruction, index, first moment, last moment), by value number."""
    @property
    def peak_moment(self) -> int | None:
        """The moment with most live bytes, or None."""
    @property
    def peak_values(self) -> list[tuple[str, str, int]]:
        """Who is live then: (instruction, index, bytes)."""

@final
class BufferFinding:
    """What does not fit between an assignment and its module; `str()` shows the line and a caret.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> path = "tests/data/dumps/002_6f652c95ac4cfb4d.txt.zst"
        >>> findings = hlorun.load_buffer_assignment(path).check(module)
        >>> findings[0].kind
        'UnknownInstruction'
    """

    @property
    def kind(self) -> str:
        """Which rule it breaks."""
    @property
    def message(self) -> str:
        """What is wrong, naming both sides."""
    @property
    def lineno(self) -> int:
        """The line of the dump, from 1; 0 when it is about something the dump lacks."""
    @property
    def rendered(self) -> str:
        """The message with the line and a caret."""

@final
class MemorySpaceUsage:
    """What a memory-usage report says of one memory space, in bytes.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> [space.total_bytes for space in module.buffer_assignment().usage]
        []
    """

    @property
    def memory_space(self) -> str:
        """Its name; "" where the report has none."""
    @property
    def color(self) -> int:
        """Its number."""
    @property
    def total_bytes(self) -> int:
        """Bytes of all its allocations."""
    @property
    def allocations(self) -> int:
        """Its allocations, as far as the report lists them."""

@final
class BufferAssignment:
    """A buffer assignment as XLA dumped it, or a plan of hlorun's in that form; `str()` is its text.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> [allocation.size for allocation in module.buffer_assignment().allocations]
        [8, 8]
    """

    @property
    def files(self) -> tuple[str, ...]:
        """The files it was read from; empty for assignments from memory."""
    @property
    def module_file(self) -> str | None:
        """The file of the assignment's module, where it stands beside the assignment; None otherwise."""
    @property
    def usage(self) -> tuple[MemorySpaceUsage, ...]:
        """What the memory-usage report says, by memory space; empty without a report."""
    @property
    def allocations(self) -> tuple[BufferAllocation, ...]:
        """The allocations, in the order of the text."""
    @property
    def values(self) -> tuple[BufferValue, ...]:
        """The used values, in the order of the text."""
    @property
    def live_range(self) -> BufferLiveRanges | None:
        """Schedule, live ranges and peak; None where the dump has none."""
    @property
    def total_bytes(self) -> int:
        """Bytes of all allocations."""
    @property
    def peak(self) -> int | None:
        """The moment with most live bytes; None where the dump does not say."""
    def check(self, module: HloModule) -> tuple[BufferFinding, ...]:
        """What does not fit between the assignment and its module.

        Args:
            module: The module the assignment is of.

        Returns:
            A `BufferFinding` for each; none where it fits.

        Raises:
            HloVerifyError: The module itself breaks rules of HLO.

        Examples:
            >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
            >>> module.buffer_assignment().check(module)
            ()
        """
    def memory_analysis(self) -> CompiledMemoryStats:
        """Sums of the allocations in bytes, under JAX's names.

        Examples:
            >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
            >>> module.buffer_assignment().memory_analysis().output_size_in_bytes
            8
        """

@final
class CompiledMemoryStats:
    """Bytes a module needs, under the names JAX has for them.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> module.memory_analysis().temp_size_in_bytes
        0
    """

    @property
    def argument_size_in_bytes(self) -> int:
        """Arguments."""
    @property
    def output_size_in_bytes(self) -> int:
        """Results, those in the memory of arguments among them."""
    @property
    def temp_size_in_bytes(self) -> int:
        """Temporaries."""
    @property
    def alias_size_in_bytes(self) -> int:
        """Arguments whose memory results take over."""
    @property
    def generated_code_size_in_bytes(self) -> int:
        """Code; hlorun makes none."""
    @property
    def host_argument_size_in_bytes(self) -> int:
        """Arguments in host memory; hlorun has one memory."""
    @property
    def host_output_size_in_bytes(self) -> int:
        """Results in host memory."""
    @property
    def host_temp_size_in_bytes(self) -> int:
        """Temporaries in host memory."""
    @property
    def host_alias_size_in_bytes(self) -> int:
        """Aliased arguments in host memory."""
    @property
    def host_generated_code_size_in_bytes(self) -> int:
        """Code in host memory."""
    @property
    def peak_memory_in_bytes(self) -> int | None:
        """Most bytes needed at one moment: arguments, results, constants and live temporaries; None
        where the dump has temporaries and does not say when they are live.
        """

@final
class Executable:
    """A compiled module, which any number of threads may run at once.

    `executable(*arrays, observer=None, out=None, timeout=None)` runs it on one value per parameter
    of the entry computation, of the parameter's dtype and sizes: anything with `__array__`, the
    buffer protocol or DLPack; nested tuples for tuples. Nothing is cast, and C-contiguous arrays are
    not copied. It returns one NumPy array of the result's dtype and sizes, or nested tuples of
    arrays where the root is a tuple.

    An `observer` is called as `observer(instruction, value)` with every value the run computes, also
    inside fusions, and in every trip of a loop; nothing is fused then. With `out`, a value of the
    result's shape, results are written into its arrays. `timeout` is in seconds.

    It can be pickled: the pickle holds the module and the options, and unpickling compiles them again.
    One compiled inside a buffer assignment, or with callbacks of JAX, raises `TypeError`.

    A call raises `HloArgumentError` where a value does not fit its parameter, `HloTimeoutError`
    where the time is over, `HloUnsupportedError` where the run reaches a custom call that nobody can
    run, `HloExecutionError` where memory ran out, and what an observer or a custom call's function
    raises.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> executable = hlorun.compile(module)
        >>> executable(np.ones(2, np.float32))
        array([2., 2.], dtype=float32)
    """

    @property
    def module(self) -> HloModule:
        """The module it was compiled from."""
    @property
    def memory(self) -> dict[str, int]:
        """Bytes one run needs: "argument_bytes", "output_bytes", "constant_bytes" and "temp_bytes"."""
    @property
    def replicas(self) -> int:
        """Replicas that run together."""
    @property
    def partitions(self) -> int:
        """Partitions of each replica."""
    def explain(self) -> str:
        """What the plan is, and its bytes, as text.

        Examples:
            >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
            >>> print(hlorun.compile(module).explain().splitlines()[0])
            steps: 1: 1 x fused loop
        """
    def listing(self) -> str:
        """A line for every step: what it does, reads and writes.

        Examples:
            >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
            >>> print(hlorun.compile(module).listing().strip())
            fused loop a: f32[2] parameter0 -> f32[2] output0; add
        """
    def unknown_custom_calls(self) -> tuple[HloInstruction, ...]:
        """The custom calls that nobody can run.

        hlorun does not know their targets, and no function is registered for them. A run that reaches
        one ends with an error.

        Examples:
            >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
            >>> hlorun.compile(module).unknown_custom_calls()
            ()
        """
    def buffer_assignment(self) -> BufferAssignment:
        """The assignment it runs inside; of an executable compiled without one, hlorun's own plan in the
        form of XLA's dump.

        Examples:
            >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
            >>> hlorun.compile(module).buffer_assignment().total_bytes
            16
        """
    def run_replicas(
        self,
        arrays: Iterable[Iterable[Any]],
        *,
        observer: Callable[[HloInstruction, Any, int], object] | None = None,
        timeout: float | None = None,
    ) -> list[Any]:
        """Runs all devices together; collectives run between them.

        Args:
            arrays: One list of values per device: a replica, or with partitions each partition of each
                replica, replica by replica. Values are as in a call, of the parameters' dtypes and sizes.
            observer: Called as `observer(instruction, value, device)`, from one device at a time but in
                no order between devices, which count as the lists do. A value that is the same on all
                devices is computed and shown once, as the first device's.
            timeout: Seconds after which the run ends.

        Returns:
            One result per device, as a call returns it. A result that is the same on all devices because
            of how it is computed is one read-only array.

        Raises:
            HloArgumentError: There are not as many lists as devices, or a value does not fit.
            HloTimeoutError: The time is over.

        Examples:
            >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
            >>> executable = hlorun.compile(module, replicas=2)
            >>> executable.run_replicas([[np.ones(2, np.float32)], [np.zeros(2, np.float32)]])[1]
            array([0., 0.], dtype=float32)
        """
    def _run_devices(
        self, arrays: Iterable[Iterable[Any]], network: _Network, *, timeout: float | None = None
    ) -> list[Any]: ...
    def _work(self) -> list[Any]: ...
    optional_passes: ClassVar[list[str]]
    @property
    def passes(self) -> list[PassRecord]:
        """What each pass did, in the order in which they ran."""
    def profile(
        self, *arrays: Any, timeout: float | None = None
    ) -> tuple[Any, list[tuple[HloInstruction, str, int, float, float]]]:
        """Runs once and takes the time of every step.

        Args:
            *arrays: One value per parameter, of its dtype and sizes, as in a call.
            timeout: Seconds after which the run ends.

        Returns:
            The outputs, and a list of (instruction, kind, device, start, duration), times in seconds. A
            step inside a loop or branch has an entry for each execution; the entry of the loop or branch
            contains their time, too.

        Raises:
            HloArgumentError: A value does not fit its parameter.
            HloTimeoutError: The run took longer than `timeout`.
            HloUnsupportedError: The run reached a custom call that nobody can run.
            HloExecutionError: The run failed: memory ran out.
            ValueError: `timeout` is negative or NaN.

        Examples:
            >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
            >>> outputs, steps = hlorun.compile(module).profile(np.ones(2, np.float32))
            >>> [instruction.name for instruction, *_ in steps]
            ['a']
        """
    def run(
        self,
        arrays: dict[str, Any],
        *,
        observer: Callable[[HloInstruction, Any], object] | None = None,
        out: Any = None,
        timeout: float | None = None,
    ) -> Any:
        """Runs on values by the names of their parameters.

        Args:
            arrays: A value for the name of every parameter, of its dtype and sizes.
            observer: As in a call.
            out: As in a call.
            timeout: Seconds after which the run ends.

        Returns:
            As a call does.

        Raises:
            HloArgumentError: A parameter has no value, or a value no parameter, or one does not fit.
            HloTimeoutError: The time is over.

        Examples:
            >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
            >>> hlorun.compile(module).run({"p": np.ones(2, np.float32)})
            array([2., 2.], dtype=float32)
        """
    def __reduce__(self) -> tuple[Any, ...]: ...
    def __call__(
        self,
        /,
        *arrays: Any,
        observer: Callable[[HloInstruction, Any], object] | None = None,
        out: Any = None,
        timeout: float | None = None,
    ) -> Any:
        """Runs on one value per parameter.

        Args:
            *arrays: Values of the parameters' dtypes and sizes; nested tuples for tuples.
            observer: Called as `observer(instruction, value)` with every value the run computes, also
                inside fusions, and in every trip of a loop; nothing is fused then.
            out: Arrays of the result's dtype and sizes, nested tuples for tuples, which the results are
                written into.
            timeout: Seconds after which the run ends.

        Returns:
            One array, or nested tuples of arrays when the root is a tuple.

        Raises:
            HloArgumentError: A value does not fit its parameter.
            HloTimeoutError: The time is over.
            HloUnsupportedError: The run reached a custom call that nobody can run.
            HloExecutionError: The run failed: memory ran out.

        Examples:
            >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
            >>> hlorun.compile(module)(np.ones(2, np.float32))
            array([2., 2.], dtype=float32)
        """

@final
class PassRecord:
    """What a pass did: instructions, loops or steps it changed, and its time in milliseconds.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> hlorun.compile(module).passes[0].changes
        0
    """

    @property
    def name(self) -> str:
        """Its name, as `compile(..., disable=[...])` takes it."""
    @property
    def changes(self) -> int:
        """Instructions, loops or steps it changed."""
    @property
    def milliseconds(self) -> float:
        """The time it took."""

@final
class _Network:
    """Other processes that run devices of the same executable."""

    def __new__(cls, transport: Any, silence: float) -> _Network: ...
    def local(self, replicas: int, partitions: int) -> tuple[int, int]: ...

def _edit(module: HloModule, edits: Sequence[tuple[str, HloInstruction, int]]) -> HloModule: ...
def _resize(module: HloModule, old: int, new: int) -> HloModule: ...
def _widen(module: HloModule) -> HloModule | None: ...

@final
class Memory:
    """Keeps memory alive for the arrays that show it."""

def compile(
    module: HloModule,
    *,
    replicas: int | None = None,
    partitions: int | None = None,
    threads: int | None = None,
    constants: dict[str, Any] | None = None,
    disable: Sequence[str] = ...,
    buffer_assignment: BufferAssignment | None = None,
    dump: str | os.PathLike[str] | None = None,
    pass_limit: int | None = None,
    check: bool | Literal["shadow"] | None = None,
) -> Executable:
    """Verifies and compiles a module.

    Args:
        module: The module.
        replicas: Replicas that run together; as many as the module's header names by default.
        partitions: Partitions of each replica; as many as the header names by default.
        threads: Threads of a run; all CPUs by default. Results do not depend on it.
        constants: Arrays by the names of constants whose values the text leaves out, of their dtypes and
            sizes.
        disable: Names of passes to leave out, of `Executable.optional_passes`.
        buffer_assignment: An assignment to run inside: every value lies where it says, and one that
            is overwritten too early is named.
        dump: A folder that gets the module after each pass, as HLO text.
        pass_limit: How many optional passes run, in their order; those that a plan needs always run.
            All by default.
        check: `True` proves the plan: every read finds the value that was computed for it, nothing
            is written while another task of the same step needs it, everything lies inside its
            memory. `"shadow"` also proves it in every run, slowly: each step gets copies of exactly
            the memory it says it touches, between guard pages; of one that a loop repeats, copies of
            1 GiB in all, and some later ones. `None` leaves it to the environment variable
            HLORUN_CHECK (1, 0 or shadow; unset is 0).

    Returns:
        An `Executable`, to be called with one array per parameter of the entry computation.

    Raises:
        HloVerifyError: The module breaks rules of HLO; all of them are in `.errors`.
        HloUnsupportedError: The module is legal, and hlorun does not run it; `.instruction` names the
            instruction, the message says why. Unknown custom calls raise it in the run that reaches
            them.
        HloArgumentError: `constants` or `disable` has a name that does not exist, or the assignment does
            not fit the module.
        HloExecutionError: `check` found a bug of hlorun; it names the instruction.
        ValueError: `replicas`, `partitions` or `threads` is below 1, `pass_limit` below 0, there are too
            many devices, or `check` is another word.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> hlorun.compile(module)(np.ones(2, np.float32))
        array([2., 2.], dtype=float32)
    """

def parse(
    text: str | bytes | bytearray | memoryview, *, filename: str | None = None, strict: bool = False
) -> HloModule:
    """Parses HLO text, or an HloModuleProto, HloProto or HloSnapshot: its bytes, or its text (`.pbtxt`).

    Args:
        text: The text or the bytes; bytes of text are UTF-8.
        filename: What errors name as the file.
        strict: Whether an opcode, an attribute or a word that hlorun does not know is an error.
            Otherwise it is a warning of the module.

    Returns:
        The module.

    Raises:
        HloParseError: The text is no HLO: with line, column and a caret.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> module["a"].opcode, module["a"].shape.dims
        ('add', (2,))
    """

def load(path: str | os.PathLike[str], *, max_bytes: int | None = None, strict: bool = False) -> HloModule:
    """Reads a file of HLO text or of an HLO proto, bytes or `.pbtxt`, plain or packed with gzip or zstd.

    Args:
        path: The file.
        max_bytes: Most bytes that a packed file may unpack to; 4 GiB by default.
        strict: As for `parse`.

    Returns:
        The module.

    Raises:
        OSError: The file cannot be read.
        HloParseError: It holds no HLO, several modules, or more than `max_bytes`.

    Examples:
        >>> module = hlorun.load("tests/data/dumps/001_ff6c88b06f55b1d5.txt.zst")
        >>> len(module.find(opcode="custom-call"))
        2
    """

def extract(module: HloModule, name: str, depth: int | None = None) -> HloModule:
    """A module of a computation of another module, or of what an instruction needs.

    The header is kept, but for what it says of other parameters and results.

    Args:
        module: The module.
        name: A computation or an instruction.
        depth: Of an instruction, how many steps of operands to take along; what lies beyond becomes
            parameters. All by default.

    Returns:
        A module that runs by itself.

    Raises:
        KeyError: Nothing is called `name`; the message has a name that is close to it.
        ValueError: `depth` is negative.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> hlorun.extract(module, "p").instruction_count
        1
    """

def parse_buffer_assignment(
    text: str | bytes | bytearray | memoryview, *, filename: str | None = None
) -> BufferAssignment:
    """Parses a buffer-assignment dump, or the assignment that an HloProto or HloSnapshot holds.

    Args:
        text: The text or the bytes.
        filename: What errors name as the file.

    Returns:
        The assignment.

    Raises:
        HloParseError: It is no buffer assignment.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> text = str(module.buffer_assignment())
        >>> hlorun.parse_buffer_assignment(text).total_bytes
        16
    """

def load_buffer_assignment(
    path: str | os.PathLike[str], *, siblings: bool = True, max_bytes: int | None = None
) -> BufferAssignment:
    """Parses the file of a buffer-assignment dump, or of a proto that holds one, plain or packed with
    gzip or zstd.

    XLA divides a dump into several files, and since 2026 no file says all.

    Args:
        path: The file.
        siblings: Whether those beside the file whose names begin alike are read too: allocations,
            values, live ranges and the memory-usage report.
        max_bytes: Most bytes that a packed file may unpack to; 4 GiB by default.

    Returns:
        The assignment.

    Raises:
        OSError: The file cannot be read.
        HloParseError: It is no buffer assignment.

    Examples:
        >>> path = "tests/data/dumps/002_6f652c95ac4cfb4d.txt.zst"
        >>> hlorun.load_buffer_assignment(path).total_bytes
        525448
    """

def parse_modules(
    text: str | bytes | bytearray | memoryview, *, filename: str | None = None, strict: bool = False
) -> list[HloModule]:
    r"""Parses text that holds several modules, divided by their headers or by lines `// -----`.

    Args:
        text: The text, or the bytes of a proto or a profile.
        filename: What errors name as the file.
        strict: As for `parse`.

    Returns:
        The modules in the order of the text; a text of one module, and a proto, give one.

    Raises:
        HloParseError: A part is no HLO, or a profile holds none.

    Examples:
        >>> text = "ENTRY e { ROOT p = f32[2] parameter(0) }"
        >>> len(hlorun.parse_modules(f"HloModule a\n{text}\nHloModule b\n{text}"))
        2
    """

def load_modules(
    path: str | os.PathLike[str], *, max_bytes: int | None = None, strict: bool = False
) -> list[HloModule]:
    """Reads a file that may hold several modules, plain or packed with gzip or zstd.

    Args:
        path: The file: text, a proto, or a profile (`.xplane.pb`).
        max_bytes: Most bytes that a packed file may unpack to; 4 GiB by default.
        strict: As for `parse`.

    Returns:
        The modules in the order of the file.

    Raises:
        OSError: The file cannot be read.
        HloParseError: A part is no HLO, or a profile holds none.

    Examples:
        >>> len(hlorun.load_modules("tests/data/dumps/001_ff6c88b06f55b1d5.txt.zst"))
        1
    """

def _read_stablehlo(artifact: bytes) -> HloModule | str:
    """Reads a StableHLO portable artifact, as JAX hands one to a plugin.

    Returns:
        The module, or why it is left to jaxlib's conversion.
    """

def _restore(source: bytes, filename: str | None, number: int) -> HloModule: ...
def _computation(module: HloModule, place: int) -> HloComputation: ...
def _tiles(text: str, count: int) -> list[tuple[list[int], list[int]]]: ...
def _set_stablehlo_versions(current: list[int], oldest: list[int]) -> None: ...
def _set_blas_path(path: str) -> None: ...
def _register_custom_call(target: str, function: Callable[..., Any] | None) -> None: ...
def _batch_schema() -> dict[str, Any]: ...
def _copy_rows(source: str | os.PathLike[str], target: str | os.PathLike[str], paths: set[str]) -> None: ...
def _read_stored(
    path: str | os.PathLike[str],
) -> tuple[list[tuple[str, int, int]], list[tuple[str, str]]]: ...

@final
class _TableRows:
    def __new__(
        cls, tables: Sequence[str], folder: str | os.PathLike[str], metadata: Sequence[tuple[str, str]]
    ) -> _TableRows: ...
    def add(self, module: HloModule | None, facts: dict[str, Any]) -> str: ...
    @property
    def nbytes(self) -> int: ...
    def write(self) -> None: ...
    def close(self) -> None: ...
    def abandon(self) -> None: ...
