"""One module in one dictionary: what `hlorun show` prints."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from hlorun._hlorun import HloInstruction, HloModule, Shape
from hlorun.report.collectives import result_bytes
from hlorun.report.products import product_flops
from hlorun.report.result import Result
from hlorun.report.units import plural


def group_text(groups: object) -> str:
    """Replica groups as a person reads them."""
    if not isinstance(groups, tuple):
        return "all devices" if groups in (None, ()) else str(groups)
    if not groups or groups == ((),):
        return "all devices"
    sizes = {len(group) for group in groups if isinstance(group, tuple)}
    each = str(sizes.pop()) if len(sizes) == 1 else "differing numbers"
    return f"{plural(len(groups), 'group')} of {each}"


def _value(instruction: HloInstruction) -> dict[str, Any]:
    return {
        "name": instruction.name,
        "opcode": instruction.opcode,
        "computation": instruction.computation.name,
        "shape": _logical(instruction.shape),
        "bytes": instruction.shape.nbytes,
        "op_name": instruction.metadata.op_name,
    }


def _logical(shape: Shape, depth: int = 0) -> str:
    """The shape without layouts; long tuples are counted instead of listed, deep ones cut off."""
    if shape.is_tuple:
        parts = shape.tuple_shapes
        if len(parts) > 4:
            return f"({len(parts)} values)"
        if depth > 4:
            return "(…)"
        return f"({', '.join(_logical(part, depth + 1) for part in parts)})"
    if not shape.is_array:
        return shape.element_type
    return f"{shape.element_type}[{','.join(map(str, shape.dims))}]"


def _loops(module: HloModule) -> list[dict[str, Any]]:
    loops = []
    for computation in module.computations:
        for instruction in computation.instructions:
            if instruction.opcode != "while":
                continue
            body = instruction.attributes.get("body")
            loops.append(
                {
                    "name": instruction.name,
                    "computation": computation.name,
                    "trip_count": instruction.trip_count,
                    "body": body.name if body is not None else None,
                    "body_instructions": len(body) if body is not None else 0,
                    "state_values": len(instruction.shape.tuple_shapes) or 1,
                    "state_bytes": instruction.shape.nbytes,
                    "op_name": instruction.metadata.op_name,
                }
            )
    return loops


def summarize(module: HloModule, largest: int = 8) -> dict[str, Any]:
    """What is in a module: sizes, parameters, opcodes, largest values, loops, calls, products.

    Bytes are those of NumPy arrays. FLOPs are of matrix products and convolutions, per run of the
    module, loops counted by their trips (once where the trip count is unknown).
    """
    entry = module.entry_computation
    opcodes: Counter[str] = Counter()
    targets: Counter[str] = Counter()
    collectives: Counter[tuple[str, str]] = Counter()
    collective_bytes: Counter[tuple[str, str]] = Counter()
    products, flops, loop_flops = 0, 0, 0
    values: list[HloInstruction] = []
    for computation in module.computations:
        runs = computation.runs or 0
        for instruction in computation.instructions:
            opcode = instruction.opcode
            opcodes[opcode] += 1
            if (kind := instruction.collective) is not None:
                key = (kind, group_text(instruction.attributes.get("replica_groups")))
                collectives[key] += 1
                collective_bytes[key] += result_bytes(instruction)
            if opcode == "custom-call":
                targets[instruction.custom_call_target or ""] += 1
            work = product_flops(instruction)
            if work is not None:
                products += 1
                flops += runs * work
                if runs > 1:
                    loop_flops += runs * work
            if (
                not computation.is_inner
                and instruction.shape.is_array
                and opcode not in ("bitcast", "get-tuple-element")
            ):
                values.append(instruction)
    values.sort(key=lambda value: -(value.shape.nbytes or 0))
    parameters = list(entry.parameters) if entry is not None else []
    donated = {parameter for _, parameter, _, _ in module.input_output_alias}
    root = entry.root if entry is not None else None
    return {
        "name": module.name,
        "file": module.filename,
        "text_bytes": len(module.source),
        "computations": len(module.computations),
        "instructions": module.instruction_count,
        "entry": entry.name if entry is not None else None,
        "entry_instructions": len(entry) if entry is not None else 0,
        "is_scheduled": module.is_scheduled,
        "replica_count": module.replica_count,
        "num_partitions": module.num_partitions,
        "parameters": {
            "count": len(parameters),
            "bytes": sum(p.shape.nbytes or 0 for p in parameters),
            "donated": len(donated),
            "donated_bytes": sum(
                p.shape.nbytes or 0 for number, p in enumerate(parameters) if number in donated
            ),
            "largest": [
                _value(p) for p in sorted(parameters, key=lambda p: -(p.shape.nbytes or 0))[:largest]
            ],
        },
        "outputs": {
            "count": 0 if root is None else (len(root.shape.tuple_shapes) or 1),
            "bytes": 0 if root is None else root.shape.nbytes,
        },
        "opcodes": dict(opcodes.most_common()),
        "largest_values": [_value(value) for value in values if value.opcode != "parameter"][:largest],
        "loops": _loops(module),
        "custom_calls": dict(targets.most_common()),
        "collectives": [
            {"opcode": kind, "groups": groups, "count": count, "bytes": collective_bytes[kind, groups]}
            for (kind, groups), count in collectives.most_common()
        ],
        "products": {"count": products, "flops": flops, "loop_flops": loop_flops},
    }


@dataclass(frozen=True)
class Summary(Result):
    """What `hlorun show` prints of a module. Bytes are those of NumPy arrays.

    Attributes:
        name: The module's name.
        file: The file it was loaded from, or None.
        text_bytes: Bytes of its text.
        computations: How many there are.
        instructions: How many there are in all computations.
        entry: Name of the entry computation, or None.
        entry_instructions: How many instructions it has.
        is_scheduled: Whether the order of the text is a schedule.
        replica_count: Replicas that the header names; 1 when absent.
        num_partitions: Partitions that the header names; 1 when absent.
        parameters: "count", "bytes", "donated", "donated_bytes" and the "largest".
        outputs: "count" and "bytes".
        opcodes: How many instructions have each opcode, the most frequent first.
        largest_values: Name, opcode, computation, shape, bytes and op_name of each.
        loops: A dictionary for each `while`.
        custom_calls: How many calls have each target.
        collectives: "opcode", "groups", "count" and "bytes" of each kind.
        products: "count" of the matrix products, "flops" of them in one run, "loop_flops" of those in loops.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> summary = hlorun.summary(module)
        >>> summary.instructions, summary.opcodes, summary.parameters["bytes"]
        (2, {'parameter': 1, 'add': 1}, 8)
    """

    name: str
    file: str | None
    text_bytes: int
    computations: int
    instructions: int
    entry: str | None
    entry_instructions: int
    is_scheduled: bool
    replica_count: int
    num_partitions: int
    parameters: dict[str, Any]
    outputs: dict[str, Any]
    opcodes: dict[str, int]
    largest_values: list[dict[str, Any]]
    loops: list[dict[str, Any]]
    custom_calls: dict[str, int]
    collectives: list[dict[str, Any]]
    products: dict[str, int]


def summary(module: HloModule, largest: int = 8) -> Summary:
    """Sum a module up: sizes, parameters, opcodes, largest values, loops, calls, products.

    Args:
        module: The module.
        largest: How many of the largest parameters and values are listed.

    Returns:
        A `Summary`.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> hlorun.summary(module).opcodes["add"]
        1
    """
    return Summary(**summarize(module, largest))
