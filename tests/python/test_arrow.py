"""The instruction table through the Arrow C data interface."""

from __future__ import annotations

import ctypes
from itertools import pairwise
from typing import Any

import pytest

import hlorun


def test_the_table_has_a_row_per_instruction(modules: dict[str, hlorun.HloModule]) -> None:
    table = modules["004"].to_arrow()
    assert len(table) == table.num_rows == 8217
    assert table.column_names[:4] == ("id", "computation", "name", "opcode")


class Schema(ctypes.Structure):
    pass


Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_void_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(Schema))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
    ("private_data", ctypes.c_void_p),
]


class Array(ctypes.Structure):
    pass


Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(Array))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
    ("private_data", ctypes.c_void_p),
]


def _pointer(capsule: object, name: bytes) -> Any:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get(capsule, name)


def _column(schema: Schema, array: Array) -> list[Any]:
    """The values of a column, by the specification."""
    rows = array.length
    kind = schema.format

    def of(index: int, ctype: Any, count: int) -> Any:
        return ctypes.cast(array.buffers[index], ctypes.POINTER(ctype))[:count]

    if kind == b"l":
        values: list[Any] = of(1, ctypes.c_int64, rows)
    elif kind == b"g":
        values = of(1, ctypes.c_double, rows)
    elif kind == b"b":
        bits = of(1, ctypes.c_uint8, (rows + 7) // 8)
        values = [bool(bits[k // 8] >> (k % 8) & 1) for k in range(rows)]
    elif kind in (b"U", b"+L"):
        ends = of(1, ctypes.c_int64, rows + 1)
        if kind == b"U":
            data: Any = ctypes.string_at(array.buffers[2], ends[-1])
            values = [data[a:b].decode() for a, b in pairwise(ends)]
        else:
            data = _column(schema.children[0].contents, array.children[0].contents)
            values = [data[a:b] for a, b in pairwise(ends)]
    else:
        raise AssertionError(kind)
    if array.null_count and array.buffers[0]:
        bits = of(0, ctypes.c_uint8, (rows + 7) // 8)
        values = [v if bits[k // 8] >> (k % 8) & 1 else None for k, v in enumerate(values)]
        assert values.count(None) == array.null_count
    return values


def test_the_c_structures_hold_what_the_handles_say(modules: dict[str, hlorun.HloModule]) -> None:
    module = modules["003"]
    schema_capsule, array_capsule = module.to_arrow().__arrow_c_array__()
    schema = Schema.from_address(_pointer(schema_capsule, b"arrow_schema"))
    array = Array.from_address(_pointer(array_capsule, b"arrow_array"))
    assert schema.format == b"+s"
    columns = {
        schema.children[k].contents.name.decode(): _column(
            schema.children[k].contents, array.children[k].contents
        )
        for k in range(schema.n_children)
    }
    instructions = [i for c in module.computations for i in c]
    assert array.length == len(instructions)
    assert columns["name"] == [i.name for i in instructions]
    assert columns["computation"] == [i.computation.name for i in instructions]
    assert columns["opcode"] == [i.opcode for i in instructions]
    assert columns["shape"] == [str(i.shape) for i in instructions]
    assert columns["dims"] == [list(i.shape.dims) for i in instructions]
    assert columns["bytes"] == [i.shape.nbytes for i in instructions]
    assert columns["operands"] == [[o.name for o in i.operands] for i in instructions]
    assert columns["called_computations"] == [[c.name for c in i.called_computations] for i in instructions]
    assert columns["is_root"] == [i.is_root for i in instructions]
    assert columns["parameter_number"] == [i.parameter_number for i in instructions]
    assert columns["op_name"] == [i.metadata.op_name for i in instructions]
    assert columns["flops"] == [i.cost_analysis()["flops"] for i in instructions]
    assert columns["source_line"] == [i.metadata.source_line or None for i in instructions]


def test_unused_capsules_are_released(modules: dict[str, hlorun.HloModule]) -> None:
    for _ in range(100):
        table = modules["001"].to_arrow()
        table.__arrow_c_array__()
        table.__arrow_c_stream__()
        table.__arrow_c_schema__()


def test_pyarrow_reads_it(modules: dict[str, hlorun.HloModule]) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    table = pyarrow.table(modules["004"].to_arrow())
    assert table.num_rows == 8217
    table.validate(full=True)
    # Numbers alone may be absent, in columns and not in lists.
    for field in table.schema:
        assert field.nullable == (field.type in (pyarrow.int64(), pyarrow.float64())), field
        if pyarrow.types.is_large_list(field.type):
            assert not field.type.value_field.nullable
