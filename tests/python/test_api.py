"""Walking a module from Python."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import hlorun
from conftest import dump_path

SMALL = """HloModule small, replica_count=2

add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT sum = f32[] add(x, y)
}

ENTRY main {
  a = f32[2,3]{1,0} parameter(0)
  b = f32[3,4]{1,0} parameter(1)
  d = f32[2,4]{1,0} dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, \
metadata={op_type="MatMul" op_name="net/dense\\"x\\"" source_file="model.py" source_line=12}
  zero = f32[] constant(0)
  r = f32[2]{0} reduce(d, zero), dimensions={1}, to_apply=add
  s = f32[1]{0} slice(r), slice={[0:2:2]}
  c = pred[2]{0} compare(r, r), direction=LT
  h = bf16[2]{0} convert(r)
  ROOT t = (f32[2]{0}, f32[1]{0}, (pred[2]{0}, bf16[2]{0})) tuple(r, s, p)
  p = (pred[2]{0}, bf16[2]{0}) tuple(c, h)
}
"""


@pytest.fixture(scope="module")
def small() -> hlorun.HloModule:
    return hlorun.parse(SMALL)


def test_modules_list_their_parts(small: hlorun.HloModule) -> None:
    assert small.name == "small"
    assert small.filename is None
    assert small.replica_count == 2
    assert small.num_partitions == 1
    assert [c.name for c in small.computations] == ["add", "main"]
    assert small.instruction_count == 13
    entry = small.entry_computation
    assert entry is not None
    assert entry.name == "main"
    assert entry.is_entry
    assert entry == small["main"]
    assert [p.name for p in entry.parameters] == ["a", "b"]
    assert entry.root is not None
    assert entry.root.name == "t"
    assert len(entry) == len(entry.instructions) == 10
    assert [i.name for i in entry][:2] == ["a", "b"]


def test_lookup_by_name(small: hlorun.HloModule) -> None:
    assert small["d"].opcode == "dot"
    assert small["%d"] == small["main"]["d"]
    assert "d" in small
    assert "nothing" not in small
    with pytest.raises(KeyError, match="nothing"):
        small["nothing"]
    with pytest.raises(KeyError, match="x"):
        small["main"]["x"]


def test_instructions_know_their_neighbours(small: hlorun.HloModule) -> None:
    dot, reduce = small["d"], small["r"]
    assert [o.name for o in dot.operands] == ["a", "b"]
    assert [u.name for u in dot.users] == ["r"]
    assert sorted(u.name for u in reduce.users) == ["c", "h", "s", "t"]
    assert reduce.called_computations == (small["add"],)
    assert dot.computation == small["main"]
    assert small["b"].parameter_number == 1
    assert dot.parameter_number is None
    assert small["t"].is_root
    assert len({dot, small["d"]}) == 1


def test_attributes_are_typed(small: hlorun.HloModule) -> None:
    attributes = small["d"].attributes
    assert attributes["lhs_contracting_dims"] == (1,)
    assert attributes["dot_dimension_numbers"] == {
        "lhs_contracting_dimensions": (1,),
        "rhs_contracting_dimensions": (0,),
        "lhs_batch_dimensions": (),
        "rhs_batch_dimensions": (),
    }
    assert small["r"].attributes == {"dimensions": (1,), "to_apply": small["add"]}
    assert small["s"].attributes == {"slice": ((0, 2, 2),)}
    assert small["c"].attributes["direction"] == "LT"


def test_metadata_is_both_object_and_mapping(small: hlorun.HloModule) -> None:
    metadata = small["d"].metadata
    assert metadata.op_type == metadata["op_type"] == "MatMul"
    assert metadata.op_name == 'net/dense"x"'
    assert (metadata.source_file, metadata.source_line) == ("model.py", 12)
    assert list(metadata) == ["op_type", "op_name", "source_file", "source_line"]
    assert metadata.get("nothing", 3) == 3
    with pytest.raises(KeyError):
        metadata["nothing"]
    none = small["r"].metadata
    assert not none
    assert none.op_name == ""
    assert none.source_line == 0


def test_stack_frames_are_resolved() -> None:
    module = hlorun.parse(
        """HloModule m

ENTRY e {
  ROOT a = f32[] parameter(0), metadata={op_name="x" stack_frame_id=2}
}

FileNames
1 "outer.py"
2 "inner.py"

FunctionNames
1 "main"
2 "layer"

FileLocations
1 {file_name_id=1 function_name_id=1 line=10 end_line=10 column=3 end_column=9}
2 {file_name_id=2 function_name_id=2 line=20 end_line=20 column=5 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}
"""
    )
    metadata = module["a"].metadata
    assert metadata.stack_frames == (("inner.py", "layer", 20, 5), ("outer.py", "main", 10, 3))
    assert (metadata.source_file, metadata.source_line) == ("inner.py", 20)


def test_shapes(small: hlorun.HloModule) -> None:
    shape = small["d"].shape
    assert str(shape) == "f32[2,4]{1,0}"
    assert shape.dtype == np.dtype(np.float32)
    assert shape.dims == (2, 4)
    assert (shape.rank, shape.size, shape.nbytes) == (2, 8, 32)
    assert shape.layout is not None
    assert shape.layout.minor_to_major == (1, 0)
    assert shape == hlorun.parse(SMALL)["d"].shape
    assert small["h"].shape.dtype == np.dtype(ml_dtypes.bfloat16)
    root = small["t"].shape
    assert root.is_tuple
    assert root.dtype is None
    assert [str(s) for s in root.tuple_shapes] == ["f32[2]{0}", "f32[1]{0}", "(pred[2]{0}, bf16[2]{0})"]
    assert root.nbytes == 8 + 4 + 2 + 4


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("pred", np.bool_),
        ("s2", ml_dtypes.int2),
        ("s4", ml_dtypes.int4),
        ("s8", np.int8),
        ("s16", np.int16),
        ("s32", np.int32),
        ("s64", np.int64),
        ("u2", ml_dtypes.uint2),
        ("u4", ml_dtypes.uint4),
        ("u8", np.uint8),
        ("u16", np.uint16),
        ("u32", np.uint32),
        ("u64", np.uint64),
        ("f4e2m1fn", ml_dtypes.float4_e2m1fn),
        ("f8e3m4", ml_dtypes.float8_e3m4),
        ("f8e4m3", ml_dtypes.float8_e4m3),
        ("f8e4m3fn", ml_dtypes.float8_e4m3fn),
        ("f8e4m3fnuz", ml_dtypes.float8_e4m3fnuz),
        ("f8e4m3b11fnuz", ml_dtypes.float8_e4m3b11fnuz),
        ("f8e5m2", ml_dtypes.float8_e5m2),
        ("f8e5m2fnuz", ml_dtypes.float8_e5m2fnuz),
        ("f8e8m0fnu", ml_dtypes.float8_e8m0fnu),
        ("f16", np.float16),
        ("bf16", ml_dtypes.bfloat16),
        ("f32", np.float32),
        ("f64", np.float64),
        ("c64", np.complex64),
        ("c128", np.complex128),
    ],
)
def test_every_element_type_has_its_dtype(name: str, dtype: type) -> None:
    module = hlorun.parse(f"HloModule m\n\nENTRY e {{\n  ROOT a = {name}[3] parameter(0)\n}}\n")
    assert module["a"].shape.dtype == np.dtype(dtype)


def test_literals_become_arrays() -> None:
    module = hlorun.parse(
        """HloModule m

ENTRY e {
  a = f32[2,2] constant({ { 1, 2 }, { 3, -inf } })
  b = pred[] constant(true)
  ROOT c = f32[100] constant({...})
}
"""
    )
    np.testing.assert_array_equal(module["a"].literal, np.array([[1, 2], [3, -np.inf]], np.float32))
    assert module["b"].literal.dtype == np.bool_
    assert module["c"].literal is None


def test_backend_config_is_a_dict_where_it_is_json(modules: dict[str, hlorun.HloModule]) -> None:
    config = modules["001"]["cublas-gemm.3"].backend_config
    assert isinstance(config, dict)
    assert config["beta"] == 1
    assert config["dot_dimension_numbers"]["lhs_contracting_dimensions"] == ["1"]


@pytest.mark.parametrize(
    "kind", [str, lambda t: t.encode(), lambda t: bytearray(t.encode()), lambda t: memoryview(t.encode())]
)
def test_text_comes_as_str_or_bytes(kind: type) -> None:
    assert hlorun.parse(kind(SMALL)).name == "small"


def test_other_objects_are_no_text() -> None:
    with pytest.raises(TypeError, match=r"str or bytes, not .*Path"):
        hlorun.parse(Path("x"))  # type: ignore[arg-type]


def test_packed_files_load(tmp_path: Path, texts: dict[str, str]) -> None:
    path = tmp_path / "dump.txt.gz"
    path.write_bytes(gzip.compress(texts["001"].encode()))
    module = hlorun.load(path)
    assert module.instruction_count == 133
    assert module.filename == str(path)
    assert hlorun.load(str(dump_path("001"))).source == module.source


def test_unpacking_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "bomb.txt.gz"
    path.write_bytes(gzip.compress(bytes(1 << 24)))
    with pytest.raises(hlorun.HloParseError, match="1048576 bytes"):
        hlorun.load(path, max_bytes=1 << 20)
    plain = tmp_path / "large.txt"
    plain.write_bytes(bytes(2000))
    with pytest.raises(hlorun.HloParseError, match="1000 bytes"):
        hlorun.load(plain, max_bytes=1000)


def test_missing_files_are_os_errors(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"absent\.txt"):
        hlorun.load(tmp_path / "absent.txt")


def test_modules_pickle(small: hlorun.HloModule) -> None:
    again = pickle.loads(pickle.dumps(small))
    assert again.name == "small"
    assert [i.name for i in again["main"]] == [i.name for i in small["main"]]


def test_representations(small: hlorun.HloModule) -> None:
    assert repr(small) == "<HloModule small, 2 computations, 13 instructions>"
    assert repr(small["add"]) == "<HloComputation add, 3 instructions>"
    assert repr(small["d"]) == "<HloInstruction d = f32[2,4]{1,0} dot(a, b)>"
    assert repr(small["d"].shape) == "Shape(f32[2,4]{1,0})"


def test_dumps_have_the_parts_they_are_known_for(modules: dict[str, hlorun.HloModule]) -> None:
    sizes = {n: (len(m.computations), m.instruction_count) for n, m in modules.items()}
    assert sizes == {"001": (12, 133), "003": (16, 157), "004": (512, 8217)}
    opcodes = [i.opcode for c in modules["004"].computations for i in c]
    assert (opcodes.count("while"), opcodes.count("fusion"), opcodes.count("all-reduce")) == (18, 326, 12)
    targets = [
        i.custom_call_target for c in modules["004"].computations for i in c if i.opcode == "custom-call"
    ]
    assert (targets.count("__cublas$gemm"), targets.count("cuda_threefry2x32")) == (48, 8)
