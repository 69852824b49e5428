"""Protos: read, written, recorded runs, and hostile bytes."""

from __future__ import annotations

import contextlib
import gzip
import pickle
import random
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import hlorun
from hlorun.cli import app
from streams import Stream

MODULE = """HloModule m, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias) }, entry_computation_layout={(f32[2,3]{1,0}, pred[])->(f32[2,3]{1,0}, s32[3]{0}, bf16[])}, frontend_attributes={a="x\\"y",b={"c":1}}

FileNames
1 "f.py"

FunctionNames
1 "g"

FileLocations
1 {file_name_id=1 function_name_id=1 line=3 end_line=3 column=1 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}


%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %s = f32[] add(%x, %y)
}

%yes (t: f32[2,3]) -> f32[2,3] {
  %t = f32[2,3]{1,0} parameter(0)
  ROOT %n = f32[2,3]{1,0} negate(%t)
}

%no (u: f32[2,3]) -> f32[2,3] {
  ROOT %u = f32[2,3]{1,0} parameter(0)
}

ENTRY %main (p: f32[2,3], q: pred[]) -> (f32[2,3], s32[3], bf16[]) {
  %p = f32[2,3]{1,0} parameter(0), sharding={devices=[2,1]<=[2]}
  %q = pred[] parameter(1), sharding={replicated}
  %c = f32[2,3]{0,1} constant({ { 1, 2, 3 }, { -inf, nan, 0.5 } })
  %i = s32[3]{0} constant({1, -2, 3})
  %b = bf16[] constant(1.5)
  %z = f32[] constant(0)
  %k = f32[2,3]{1,0} copy(%c)
  %d = f32[2,3]{1,0} conditional(%q, %p, %k), true_computation=%yes, false_computation=%no
  %r = f32[3]{0} reduce(%d, %z), dimensions={0}, to_apply=%add, metadata={op_type="r" op_name="a \\"b\\"" source_file="f.py" source_line=3 stack_frame_id=1}
  %w = f32[2,3]{1,0} broadcast(%r), dimensions={1}, backend_config={"n":{"m":[1]}}
  %g = f32[4,3]{1,0} pad(%w, %z), padding=1_1x0_0
  %l = f32[2,3]{1,0} slice(%g), slice={[0:4:2], [0:3]}
  ROOT %o = (f32[2,3]{1,0}, s32[3]{0}, bf16[]) tuple(%l, %i, %b), control-predecessors={%w}
}
"""


def agree(module: hlorun.HloModule, proto: bytes) -> hlorun.HloModule:
    """The module a proto is, printed as `module` is."""
    read = hlorun.parse(proto)
    assert read.to_string() == module.to_string()
    return read


def test_a_module_comes_back_from_its_proto() -> None:
    module = hlorun.parse(MODULE)
    read = agree(module, module.to_proto())
    agree(module, read.to_proto())
    assert read.is_scheduled and read.input_output_alias == module.input_output_alias
    c = read["c"]
    assert isinstance(c, hlorun.HloInstruction)
    np.testing.assert_array_equal(c.literal, [[1, 2, 3], [-np.inf, np.nan, 0.5]])
    assert read["r"].metadata.stack_frames[0][1] == "g"
    p = np.ones((2, 3), np.float32)
    for ours, theirs in zip(hlorun.run(read, p, True), hlorun.run(module, p, True), strict=True):
        assert ours.tobytes() == theirs.tobytes()


def test_the_dumps_come_back_from_their_protos(modules: dict[str, hlorun.HloModule]) -> None:
    for module in modules.values():
        read = hlorun.parse(module.to_proto())
        # Protos do not have all of the header.
        assert read.to_string().partition("\n")[2] == module.to_string().partition("\n")[2]


@pytest.mark.parametrize(
    "name", ["s4", "u4", "s2", "u2", "f8e4m3fn", "f4e2m1fn", "s8", "u16", "s64", "f64", "c64", "c128", "pred"]
)
def test_constants_of_every_width(name: str) -> None:
    values = {"pred": "{true, false, true}"}.get(name, "{1, 0, 1}")
    if name.startswith("c"):
        values = "{(1, 2), (0, 0.5), (1, -1)}"
    module = hlorun.parse(f"HloModule m\nENTRY e {{ ROOT c = {name}[3]{{0}} constant({values}) }}\n")
    read = agree(module, module.to_proto())
    assert read["c"].literal.tobytes() == module["c"].literal.tobytes()


def test_large_constants_keep_their_values_through_pickling() -> None:
    values = Stream(0).normal(5000)
    text = ", ".join(map(str, values.tolist()))
    module = hlorun.parse(f"HloModule m\nENTRY e {{ ROOT c = f32[5000] constant({{{text}}}) }}\n")
    read = agree(module, module.to_proto())
    assert "{...}" in read["c"].text
    again = pickle.loads(pickle.dumps(read))
    assert again["c"].literal.tobytes() == values.tobytes()
    assert again.to_string() == read.to_string()


def field(number: int, value: bytes | int) -> bytes:
    """A field of a message: bytes, or a whole number."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def literal(values: list[float]) -> bytes:
    shape = varint(2 << 3) + varint(11) + field(3, varint(len(values)))
    return field(1, shape) + field(8, np.asarray(values, "<f4").tobytes())


def snapshot(path: Path, result: list[float]) -> Path:
    module = hlorun.parse(
        "HloModule m\nENTRY e {\n  p = f32[3] parameter(0)\n  ROOT n = f32[3] negate(p)\n}\n"
    )
    hlo = field(1, field(1, module.to_proto()))
    path.write_bytes(hlo + field(2, literal([1, 2, 3])) + field(3, literal(result)) + field(4, b"Host"))
    return path


def test_a_snapshot_brings_its_run(tmp_path: Path) -> None:
    path = snapshot(tmp_path / "m.snapshot.0.pb", [-1, -2, -3])
    module = hlorun.load(path)
    assert module.inputs is not None and module.execution_platform == "Host"
    np.testing.assert_array_equal(module.inputs[0], [1, 2, 3])
    np.testing.assert_array_equal(hlorun.run(module, *module.inputs), module.result)
    shown = CliRunner().invoke(app, ["run", str(path)])
    assert shown.exit_code == 0, shown.output
    assert "agrees with the result recorded on Host: 1 of 1 output equal" in " ".join(shown.output.split())
    wrong = snapshot(tmp_path / "wrong.snapshot.0.pb", [-1, -2, 3])
    shown = CliRunner().invoke(app, ["run", str(wrong)])
    assert shown.exit_code == 1
    assert "apart by up to 6" in shown.output
    assert hlorun.parse(module.to_proto()).inputs is None


@pytest.mark.parametrize(("recorded", "agrees"), [(0.1240, True), (0.2, False)])
def test_sums_that_cancel_are_held_against_the_exact_ones(
    tmp_path: Path, recorded: float, agrees: bool
) -> None:
    """f32 loses most digits of (p + 10000) - 10000; another order of the same sums may lose others."""
    module = hlorun.parse("""HloModule m
ENTRY e {
  p = f32[3] parameter(0)
  c = f32[] constant(10000)
  all = f32[3] broadcast(c), dimensions={}
  large = f32[3] add(p, all)
  ROOT small = f32[3] subtract(large, all)
}
""")
    path = tmp_path / "m.snapshot.0.pb"
    hlo = field(1, field(1, module.to_proto()))
    path.write_bytes(hlo + field(2, literal([0.12345] * 3)) + field(3, literal([recorded] * 3)))
    shown = CliRunner().invoke(app, ["run", str(path)])
    assert shown.exit_code == (0 if agrees else 1), shown.output


def test_files_packed_and_wrapped(tmp_path: Path) -> None:
    module = hlorun.parse(MODULE)
    packed = tmp_path / "m.hlo.pb.gz"
    packed.write_bytes(gzip.compress(field(1, module.to_proto())))
    assert hlorun.load(packed).to_string() == module.to_string()
    for command in ("show", "check", "cost", "memory", "fmt"):
        shown = CliRunner().invoke(app, [command, str(packed)])
        assert shown.exit_code == 0, shown.output
    out = tmp_path / "out.pb"
    assert CliRunner().invoke(app, ["fmt", str(packed), "--to", "pb", "-o", str(out)]).exit_code == 0
    assert hlorun.load(out).to_string() == module.to_string()


MESH = field(1, field(1, b"x") + field(2, 2)) + field(1, field(1, b"y") + field(2, 4))


@pytest.mark.parametrize(
    ("mesh", "axes", "text"),
    [
        (MESH, field(2, field(1, 1)), "mesh['x'=2,'y'=4] {'y'}"),
        (
            MESH + field(3, field(1, 4) + field(1, 2) + field(2, 1) + field(2, 0)),
            field(2, b"") + field(2, field(1, 1) + field(2, field(1, 2) + field(2, 2))),
            "mesh['x'=2,'y'=4], device_ids=([4,2]T(1,0)) {'x','y':(2)2}",
        ),
        (MESH + field(2, bytes([3, 1, 0, 2, 7, 6, 5, 4])), field(2, b""),
         "mesh['x'=2,'y'=4], device_ids=(3,1,0,2,7,6,5,4) {'x'}"),
    ],
)  # fmt: skip
def test_replica_groups_along_the_axes_of_a_mesh(mesh: bytes, axes: bytes, text: str) -> None:
    written = hlorun.parse(GATHER.format("{{0,1,2,3},{4,5,6,7}}")).to_proto()
    groups = field(93, field(1, mesh) + axes)
    read = hlorun.parse(with_field(written, "all-gather", groups))
    assert read.to_string() == hlorun.parse(GATHER.format(text)).to_string()


def axis(name: bytes, size: int) -> bytes:
    """An axis of a mesh."""
    return field(1, field(1, name) + field(2, size))


@pytest.mark.parametrize(
    ("mesh", "axes", "message"),
    [
        (MESH, field(2, field(1, 2)), "expected an axis of the mesh, found number 2"),
        (axis(b"x'=2] {'x'}\n", 8), field(2, b""), "expected the name of an axis, without quotes"),
        (axis(b"\xff", 8), field(2, b""), "expected the name of an axis"),
        (axis(b"x", 2) + axis(b"x", 4), field(2, b""), "expected axes of different names"),
        (
            b"".join(axis(b"%d" % at, 1) for at in range(65)),
            b"",
            "expected up to 64 axes of a mesh, found 65",
        ),
        (axis(b"x" * 100_000, 8), field(2, b"") * 100_000, "the text of the proto has more than"),
    ],
)
def test_what_is_wrong_in_a_mesh_is_said(mesh: bytes, axes: bytes, message: str) -> None:
    written = hlorun.parse(GATHER.format("{{0,1,2,3},{4,5,6,7}}")).to_proto()
    groups = field(93, field(1, mesh) + axes)
    with pytest.raises(hlorun.HloParseError, match=message):
        hlorun.parse(with_field(written, "all-gather", groups))


def test_a_sharding_by_named_axes() -> None:
    text = "HloModule m, num_partitions=8\n\nENTRY e {\n  ROOT p = f32[8] parameter(0)%s\n}\n"
    dimension = field(1, field(1, 1)) + field(2, 1)
    named = field(2, MESH) + field(3, dimension) + field(4, b"") + field(6, field(2, b"it's"))
    written = hlorun.parse(text % "").to_proto()
    read = hlorun.parse(with_field(written, "parameter", field(40, field(14, named))))
    want = text % ", sharding={mesh['x'=2,'y'=4], [{'y'}], replicated={'x'}}"
    assert read.to_string() == hlorun.parse(want).to_string()


GATHER = """HloModule m, num_partitions=8

ENTRY e {{
  p = f32[2] parameter(0)
  ROOT g = f32[8] all-gather(p), replica_groups={}, dimensions={{0}}, channel_id=1, use_global_device_ids=true
}}
"""


def with_field(proto: bytes, opcode: str, more: bytes) -> bytes:
    """A module's proto in which the instruction of an opcode has one more field."""

    def number(data: bytes, at: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            value |= (data[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 128:
                return value, at

    def rewritten(data: bytes, path: tuple[int, ...]) -> bytes:
        if not path:
            return data + more if field(2, opcode.encode()) in data else data
        out, at = b"", 0
        while at < len(data):
            start = at
            key, at = number(data, at)
            size, at = number(data, at) if key & 7 in (0, 2) else ({1: 8, 5: 4}[key & 7], at)
            if key & 7 == 0:
                out += data[start:at]
                continue
            value, at = data[at : at + size], at + size
            out += field(path[0], rewritten(value, path[1:])) if key == path[0] << 3 | 2 else data[start:at]
        return out

    # The computations of a module, and the instructions of a computation.
    return rewritten(proto, (3, 2))


def test_what_is_wrong_in_a_proto_is_said() -> None:
    proto = hlorun.parse(MODULE).to_proto()
    for old, new, message in [
        (b"main", b"ma\n\x01", "expected the name of"),
        (b"reduce", b"reduc\x01", "expected the name of an opcode"),
    ]:
        with pytest.raises(hlorun.HloParseError, match=message):
            hlorun.parse(proto.replace(old, new))
    for cut in (len(proto) // 2, len(proto) - 3):
        with pytest.raises(hlorun.HloParseError):
            hlorun.parse(proto[:cut])


def test_damaged_protos_end_in_an_error_or_a_module() -> None:
    proto = hlorun.parse(MODULE).to_proto()
    generator = random.Random(0)
    for _ in range(3000):
        data = bytearray(proto)
        for _ in range(generator.randint(1, 4)):
            at = generator.randrange(len(data))
            kind = generator.randrange(3)
            if kind == 0:
                data[at] = generator.randrange(256)
            elif kind == 1:
                del data[at : at + generator.randint(1, 8)]
            else:
                data[at:at] = data[at : at + generator.randint(1, 16)]
        try:
            hlorun.parse(bytes(data)).to_proto()
        except hlorun.HloError as error:
            assert "internal error" not in str(error)


def test_depth_is_bounded() -> None:
    shape = varint(2 << 3) + varint(11)
    for _ in range(5000):
        shape = varint(2 << 3) + varint(13) + field(4, shape)
    instruction = field(1, b"x") + field(2, b"parameter") + field(3, shape)
    computation = field(1, b"e") + field(2, instruction)
    with pytest.raises(hlorun.HloParseError, match="deeper than"):
        hlorun.parse(field(1, b"m") + field(3, computation))


def test_physical_shapes_are_bounded_in_depth() -> None:
    shape = field(2, 11)
    for _ in range(20_000):
        shape = field(2, 11) + field(5, field(10, shape))
    with pytest.raises(hlorun.HloParseError, match="shapes deeper than"):
        hlorun.parse(with_field(hlorun.parse(MODULE).to_proto(), "parameter", field(3, shape)))


@pytest.mark.parametrize(
    "layout", ["1,0:D(D,C)", "1,0:D(C+,S~)", "1,0:D(D+,D)", "1,0:D(C,C)P(f32[9]{0:T(8)})"]
)
def test_layouts_of_sparse_arrays_come_back(layout: str) -> None:
    module = hlorun.parse(f"ENTRY e {{ ROOT p = f32[2,3]{{{layout}}} parameter(0) }}")
    again = hlorun.parse(module.to_proto())
    assert again["p"].shape == module["p"].shape and layout in again.to_string()


def test_literals_without_elements_have_few_rows() -> None:
    written = hlorun.parse("ENTRY e { ROOT c = f32[3,0] constant({ {}, {}, {} }) }").to_proto()
    assert hlorun.run(hlorun.parse(written)).shape == (3, 0)
    shape = field(2, 11) + field(3, varint(1 << 28) + varint(0))
    for elements in (b"", field(8, b"")):
        broken = field(3, shape) + field(8, field(1, shape) + elements)
        with pytest.raises(hlorun.HloParseError, match="a literal without elements in more than 65536 rows"):
            hlorun.parse(with_field(written, "constant", broken))


def test_rows_without_elements_are_left_out_of_the_text_of_a_proto() -> None:
    written = hlorun.parse("ENTRY e { ROOT c = f32[3,0] constant({ {}, {}, {} }) }").to_proto()
    shape = field(2, 11) + field(3, varint(1 << 16) + varint(0))
    constant = field(3, shape) + field(8, field(1, shape) + field(8, b""))
    module = hlorun.parse(with_field(written, "constant", constant))
    assert b"constant({...})" in module.source and len(module.source) < 1000


@pytest.mark.parametrize("opcode", ["parameter", "constant"])
def test_operands_that_the_text_does_not_have_are_left_out(opcode: str) -> None:
    text = f"ENTRY e {{ p = f32[] parameter(0)\n q = f32[] {opcode}(1)\n ROOT r = f32[] add(p, q) }}"
    ids = {i.name: i for i in hlorun.parse(hlorun.parse(text).to_proto()).instructions}
    assert list(ids) == ["p", "q", "r"]
    # The computation's number is in the upper half, the instruction's in the lower one.
    module = hlorun.parse(with_field(hlorun.parse(text).to_proto(), opcode, field(36, varint(1 << 32))))
    assert all(not i.operands for i in module.instructions if i.opcode == opcode)


@pytest.mark.parametrize("call", ["gather(x, i)", "scatter(x, i, x), to_apply=c"])
def test_dimensions_that_nobody_said_are_not_made_up(call: str) -> None:
    module = hlorun.parse(
        "HloModule m\nc {\n a = f32[] parameter(0)\n ROOT b = f32[] parameter(1)\n}\n"
        f"ENTRY e {{\n x = f32[2] parameter(0)\n i = s32[1] parameter(1)\n ROOT g = f32[2] {call}\n}}\n"
    )
    agree(agree(module, module.to_proto()), module.to_proto())
    with pytest.raises(hlorun.HloVerifyError, match="needs"):
        hlorun.parse(module.to_proto()).verify()


def test_a_ragged_dot_keeps_its_dimensions() -> None:
    dimensions = "lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}"
    module = hlorun.parse(
        "ENTRY e { l = f32[6,3] parameter(0) r = f32[2,3,7] parameter(1) g = s32[2] parameter(2) "
        f"ROOT d = f32[6,7] ragged-dot(l, r, g), {dimensions} }}"
    )
    for again in (hlorun.parse(module.to_proto()), hlorun.parse(module.to_pbtxt())):
        assert dimensions in again.to_string()


DOMAIN = """ENTRY e {
  p = f32[4]{0} parameter(0)
  ROOT d = f32[4]{0} domain(p), domain={kind="sharding", entry={maximal device=1}, exit={maximal device=0}}
}"""
RESHAPE = """ENTRY e {
  p = f32[<=4,3]{1,0} parameter(0)
  ROOT r = f32[<=12]{0} reshape(p), inferred_dimension=0
}"""
PERMUTE = """ENTRY e {
  p = f32[8,8]{1,0} parameter(0)
  a = s32[] constant(0)
  i = (s32[], s32[]) tuple(a, a)
  j = ((s32[], s32[]), (s32[], s32[])) tuple(i, i)
  ROOT c = f32[8,8]{1,0} collective-permute(p, p, j, j), channel_id=1, source_target_pairs={{0,1},{1,0}}, slice_sizes={{4,4},{2,3}}
}"""


@pytest.mark.parametrize(
    ("text", "field"),
    [
        # The first of the two shardings, number 54, is that of the exit.
        (DOMAIN, b'\xb2\x03\x08\x08\x01\x1a\x01\x01"\x01\x00'),
        # The inferred dimension is the only one of the dimensions, number 14.
        (RESHAPE, b"\x72\x01\x00"),
        # All sizes are in one list, number 20.
        (PERMUTE, b"\xa2\x01\x04\x04\x04\x02\x03"),
    ],
)
def test_attributes_that_xla_keeps_in_other_fields(text: str, field: bytes) -> None:
    module = hlorun.parse(text)
    proto = module.to_proto()
    assert field in proto
    again = hlorun.parse(proto)
    assert again.to_string("short_parsable") == module.to_string("short_parsable")


def test_what_an_asynchronous_operation_wraps_keeps_its_aliases() -> None:
    text = """f {
  x = f32[4] parameter(0)
  ROOT y = f32[4] negate(x)
}

ENTRY e {
  p = f32[4] parameter(0)
  s = ((f32[4]), f32[4], s32[]) fusion-start(p), kind=kLoop, output_to_operand_aliasing={{}: (0, {})}, calls=f
  ROOT d = f32[4] fusion-done(s)
}"""
    module = hlorun.parse(text)
    said = "kind=kLoop, output_to_operand_aliasing={{}: (0, {})}, calls=%f"
    for each in (module, hlorun.parse(module.to_proto()), hlorun.parse(module.to_string())):
        assert said in each.to_string()
    wrapped = module.to_string(syntax_sugar_async_ops=False)
    assert "fusion(%async_param), kind=kLoop, output_to_operand_aliasing={{}: (0, {})}" in wrapped


def test_other_files_are_named() -> None:
    for data, words in [
        (b"\x08\x07\x12\x07pytorch\x1a\x011", "ONNX"),
        (b"\x08\x01\x12\x90\x05\x0a\x80\x01", "SavedModel"),
        (b"; ModuleID = 'm'\nsource_filename = 'm'\n", "LLVM IR"),
        (b"//\n// Generated by LLVM NVPTX Back-End\n//\n\n.version 8.1\n", "GPU assembly"),
        (b"module @jit_f {\n  func.func public @main\n", "StableHLO"),
        (b"\x7fELF\x02\x01\x01\x00", "machine code"),
    ]:
        with pytest.raises(hlorun.HloParseError, match=words) as caught:
            hlorun.parse(data)
        assert 'as_text("hlo")' in str(caught.value)


PROTOS = Path(__file__).parents[1] / "data" / "protos"


@pytest.mark.parametrize("name", ["scan.after_algsimp", "pmap.after_fusion", "scan.cpu_after_optimizations"])
def test_protos_of_passes_have_the_order_of_their_texts(name: str) -> None:
    """A pass may give an operand a larger id than its user has."""
    read, text = (hlorun.load(PROTOS / f"{name}{ending}") for ending in (".hlo.pb", ".txt"))
    read.verify()
    # XLA numbers stack frames anew each time it writes a module.
    ours, theirs = (m.to_string(print_metadata=False).partition("\nENTRY")[2] for m in (read, text))
    assert ours and ours == theirs


def test_the_assignment_of_a_proto_is_that_of_its_dump() -> None:
    name = "scan.cpu_after_optimizations"
    ours = hlorun.load_buffer_assignment(PROTOS / f"{name}.hlo.pb")
    theirs = hlorun.load_buffer_assignment(PROTOS / f"{name}-buffer-assignment.txt", siblings=False)
    assert ours.total_bytes == theirs.total_bytes == 4764
    assert ours.module_file == str(PROTOS / f"{name}.hlo.pb")
    for a, b in zip(ours.allocations, theirs.allocations, strict=True):
        assert (a.index, a.size, a.parameter_number) == (b.index, b.size, b.parameter_number)
        assert (a.is_constant, a.is_thread_local, a.maybe_live_out) == (
            b.is_constant,
            b.is_thread_local,
            b.maybe_live_out,
        )
        assert [(v.instruction, v.index, v.offset, v.size, v.shape) for v in a.values] == [
            (v.instruction, v.index, v.offset, v.size, v.shape) for v in b.values
        ]
    assert not ours.check(hlorun.load(PROTOS / f"{name}.hlo.pb"))


def test_a_proto_without_an_assignment_says_so() -> None:
    with pytest.raises(hlorun.HloParseError, match="holds no buffer assignment"):
        hlorun.load_buffer_assignment(PROTOS / "scan.after_algsimp.hlo.pb")


def _profile(*protos: bytes) -> bytes:
    """An XSpace as profilers write it: HLO is in the statistics of events' metadata."""
    events = b"".join(
        field(4, b"\x08\x02" + field(2, field(2, b"jit_f(0)") + field(5, b"\x08\x04" + field(6, proto))))
        for proto in protos
    )
    return field(1, field(2, b"/host:CPU")) + field(1, field(2, b"/host:metadata") + events) + field(4, b"vm")


def test_the_modules_of_a_profile(tmp_path: Path) -> None:
    texts = [MODULE, "HloModule second\nENTRY e { ROOT p = f32[3]{0} parameter(0) }\n"]
    protos = [field(1, hlorun.parse(text).to_proto()) for text in texts]
    path = tmp_path / "vm.xplane.pb"
    path.write_bytes(_profile(*protos, protos[0]))
    modules = hlorun.load_modules(path)
    assert [module.name for module in modules] == ["m", "second"]
    assert hlorun.run(modules[1], np.ones(3, np.float32)).tolist() == [1, 1, 1]
    assert pickle.loads(pickle.dumps(modules[1])) == modules[1]
    with pytest.raises(hlorun.HloParseError, match="2 modules: m, second"):
        hlorun.load(path)
    path.write_bytes(_profile(protos[1]))
    assert hlorun.load(path).name == "second"
    path.write_bytes(_profile())
    with pytest.raises(hlorun.HloParseError, match="holds no HLO"):
        hlorun.load(path)


def test_broken_profiles_are_refused() -> None:
    whole = _profile(field(1, hlorun.parse(MODULE).to_proto()))
    random_ = random.Random(0)
    for _ in range(500):
        broken = bytearray(whole[: random_.randrange(len(whole))])
        if broken:
            broken[random_.randrange(len(broken))] = random_.randrange(256)
        with contextlib.suppress(hlorun.HloError):
            hlorun.parse_modules(bytes(broken))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (b'p = f32[] parameter(0), metadata={op_name="\xff"}', "the attribute metadata of %p"),
        (b'p = f32[] parameter(0), metadata={op_name="\\377"}', "the attribute metadata of %p"),
        (b'p = f32[] custom-call(), custom_call_target="\xfe"', "the attribute custom_call_target of %p"),
        (
            b'p = f32[] parameter(0), frontend_attributes={a="\xff"}',
            "the attribute frontend_attributes of %p",
        ),
    ],
)
def test_bytes_that_a_string_cannot_hold_are_refused(text: bytes, place: str) -> None:
    module = hlorun.parse(b"ENTRY e { ROOT " + text + b" }")
    with pytest.raises(hlorun.HloUnsupportedError, match=re.escape(place) + ".*no UTF-8"):
        module.to_proto()


def test_bytes_of_a_configuration_are_kept() -> None:
    text = b'ENTRY e { ROOT c = f32[] custom-call(), custom_call_target="\xc3\xa4", backend_config="\xfd" }'
    module = hlorun.parse(text)
    assert hlorun.parse(module.to_proto()) == module
