"""Protos in text form, `.pbtxt`: read, written, held against protobuf's own text format."""

from __future__ import annotations

import contextlib
import copy
import gzip
import mmap
import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import hlorun
from hlorun.cli import app
from test_proto import MODULE, PROTOS, field, snapshot

TESTS = Path(__file__).resolve().parents[1]

MODULES = sorted([*(TESTS / "hlo/print").glob("*.hlo"), *PROTOS.glob("*.hlo.pb")])


def modules_of(path: Path) -> list[tuple[hlorun.HloModule, bytes]]:
    """Those of a file that have a proto, with that."""
    found = []
    for module in hlorun.load_modules(path):
        with contextlib.suppress(hlorun.HloUnsupportedError):
            found.append((module, module.to_proto()))
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_texts_come_back(path: Path) -> None:
    for module, proto in modules_of(path):
        again = hlorun.parse(module.to_pbtxt())
        assert again.to_string() == hlorun.parse(proto).to_string()
        assert again.to_proto() == hlorun.parse(proto).to_proto()
        assert again.to_pbtxt() == hlorun.parse(proto).to_pbtxt()


def test_the_dumps_come_back(modules: dict[str, hlorun.HloModule]) -> None:
    for name, module in modules.items():
        again = hlorun.parse(module.to_pbtxt())
        assert again.to_string() == hlorun.parse(module.to_proto()).to_string(), name


def test_files_are_read_by_all_that_reads_protos(tmp_path: Path) -> None:
    module = hlorun.parse(MODULE)
    path = tmp_path / "m.hlo.pbtxt.gz"
    path.write_bytes(gzip.compress(module.to_pbtxt().encode()))
    assert hlorun.load(path) == hlorun.parse(module.to_proto())
    assert len(hlorun.load_modules(path)) == 1
    assert [record.path for record in hlorun.batch([tmp_path])] == [path]
    for command in ("show", "check", "cost", "memory", "fmt"):
        shown = CliRunner().invoke(app, [command, str(path)])
        assert shown.exit_code == 0, shown.output
    out = tmp_path / "out.pbtxt"
    assert CliRunner().invoke(app, ["fmt", str(path), "--to", "pbtxt", "-o", str(out)]).exit_code == 0
    assert out.read_text(encoding="utf-8") == module.to_pbtxt()
    shown = CliRunner().invoke(app, ["fmt", str(path), "--to", "pbtxt"])
    assert shown.stdout == module.to_pbtxt()


def test_modules_pickle_with_what_they_were_read_from() -> None:
    module = hlorun.parse(hlorun.parse(MODULE).to_pbtxt(), filename="m.pbtxt")
    for again in (pickle.loads(pickle.dumps(module)), copy.deepcopy(module)):
        assert again == module and again.filename == "m.pbtxt"


def test_wrapped_modules_and_snapshots(tmp_path: Path) -> None:
    module = hlorun.parse(MODULE)
    inner = module.to_pbtxt()
    assert hlorun.parse(f"hlo_module: <\n{inner}>") == hlorun.parse(module.to_proto())
    values = [f"arguments {{ shape {{ element_type: F32 }} f32s: {value} }}" for value in (1.5, -2)]
    text = "ENTRY e { p = f32[] parameter(0) q = f32[] parameter(1) ROOT a = f32[] add(p, q) }"
    run = hlorun.parse(
        f"hlo {{ hlo_module {{ {hlorun.parse(text).to_pbtxt()} }} }} {' '.join(values)}"
        'result { shape { element_type: F32 } f32s: [-0.5] } execution_platform: "Host"'
    )
    assert [value.item() for value in run.inputs or ()] == [1.5, -2]
    assert run.result.item() == -0.5 and run.execution_platform == "Host"
    assert hlorun.load(snapshot(tmp_path / "m.snapshot.0.pb", [-1, -2, -3])).inputs is not None


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ('name: "m"\n  computation { }', 2, 3, "HloModuleProto has no field 'computation'; did you mean"),
        ("computations {\n instructions { fft_type: DFT } }", 2, 27, "'DFT' is no value of 'fft_type'"),
        ("id: 1\nid: 1", 2, 1, "field 'id' is given twice"),
        ("id: 1\n[x.y] { }", 2, 1, "extensions and Any are not read"),
        ("computations { id: 1", 1, 21, "found the end of the text"),
        ('name: "m" ] ', 1, 11, "expected a field of HloModuleProto, found ']'"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(hlorun.HloParseError, match=message) as caught:
        hlorun.parse(text)
    assert (caught.value.lineno, caught.value.offset) == (line, column)


def test_texts_of_hlo_stay_texts() -> None:
    for name in ("hlo", "name", "computations", "hlo_module"):
        body = "{ p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }"
        for text in (f"{name} {body}", f"{name} (p: f32[2]) -> f32[2] {body}"):
            entry = hlorun.parse(text).entry_computation
            assert entry is not None and entry.name == name


def test_damaged_texts_end_in_an_error_or_a_module() -> None:
    whole = hlorun.parse(MODULE).to_pbtxt().encode()
    chance = random.Random(0)
    for _ in range(2000):
        text = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            at, end = sorted(chance.randrange(len(text)) for _ in range(2))
            match chance.randrange(4):
                case 0:
                    text[at] = chance.choice(b"{}<>[]:,;\"'\\#-0 \n")
                case 1:
                    del text[at : min(end, at + 20)]
                case 2:
                    text[at:at] = text[end : end + 40]
                case _:
                    del text[end:]
        try:
            hlorun.parse(bytes(text))
        except hlorun.HloError as error:
            assert str(error)


def test_hostile_texts_are_refused() -> None:
    deep = "computations { instructions { shape { " + "tuple_shapes { " * 100_000
    with pytest.raises(hlorun.HloParseError, match="nested deeper"):
        hlorun.parse(deep)
    with pytest.raises(hlorun.HloParseError, match="found the end of the text"):
        hlorun.parse("computations: [{" + "instructions: [{}], " * 100_000)


@pytest.fixture(scope="module")
def message() -> Any:
    """protobuf's class of HloModuleProto, by the descriptors that jaxlib holds."""
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    from google.protobuf import any_pb2, descriptor_pool, duration_pb2, message_factory, timestamp_pb2

    jaxlib = pytest.importorskip("jaxlib")
    pool = descriptor_pool.DescriptorPool()
    for known in (any_pb2, duration_pb2, timestamp_pb2):
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    libraries = list(Path(jaxlib.__file__).parent.glob("libjax_common*"))
    if not libraries:
        pytest.skip("jaxlib keeps its descriptors elsewhere")
    with libraries[0].open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as library:
        for name in (b"xla/xla_data.proto", b"xla/service/metrics.proto", b"xla/service/hlo.proto"):
            start = library.find(field(1, name))
            if start < 0:
                pytest.skip("jaxlib holds no descriptors")
            pool.AddSerializedFile(described(library, start, descriptor_pb2))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("xla.HloModuleProto"))


def described(library: mmap.mmap, start: int, descriptor_pb2: Any) -> bytes:
    """The descriptor of a file that begins at `start`: all fields one after the other that it may have."""

    def varint(at: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            value |= (library[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if library[at - 1] < 128:
                return value, at

    end = start
    while True:
        key, at = varint(end)
        if key & 7 == 2 and 1 <= key >> 3 <= 14:
            length, at = varint(at)
            end = at + length
        elif key & 7 == 0 and key >> 3 in (10, 11, 14):
            end = varint(at)[1]
        else:
            break
    return bytes(descriptor_pb2.FileDescriptorProto.FromString(library[start:end]).SerializeToString())


def same(ours: Any, theirs: Any) -> bool:
    """Whether two messages are one, with NaN as itself."""
    return bool(ours.SerializeToString(deterministic=True) == theirs.SerializeToString(deterministic=True))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_protobuf_reads_what_is_written_and_the_other_way_round(path: Path, message: Any) -> None:
    from google.protobuf import text_format

    for module, proto in modules_of(path):
        theirs = message.FromString(proto)
        text = module.to_pbtxt()
        if "nan" not in text:
            assert same(text_format.Parse(text, message()), theirs)
        for options in (
            {},
            {"as_one_line": True},
            {"use_short_repeated_primitives": True},
            {"as_utf8": True},
        ):
            again = hlorun.parse(text_format.MessageToString(theirs, **options))
            assert again.to_string() == hlorun.parse(module.to_pbtxt()).to_string(), options


def fill(message: Any, chance: random.Random, depth: int) -> None:
    """Gives every field of a message a value at random, also those that no module would have."""
    from google.protobuf import descriptor

    kinds = descriptor.FieldDescriptor
    for one in message.DESCRIPTOR.fields:
        is_message = one.type == kinds.TYPE_MESSAGE
        if is_message and (depth == 0 or one.message_type.full_name.startswith("google.")):
            continue
        if is_message and one.message_type.GetOptions().map_entry:
            continue

        def value(one: Any = one) -> Any:
            if one.type == kinds.TYPE_ENUM:
                return chance.choice(one.enum_type.values).number
            if one.type == kinds.TYPE_BOOL:
                return chance.choice([True, False])
            if one.type == kinds.TYPE_STRING:
                return chance.choice(["", "a'b\"\\\n\t\0é", "x" * 9])
            if one.type == kinds.TYPE_BYTES:
                return bytes(chance.randrange(256) for _ in range(5))
            if one.type in (kinds.TYPE_FLOAT, kinds.TYPE_DOUBLE):
                return chance.choice([0.0, -1.5, 1e-30, float("inf"), float("-inf"), 3e38, 1 / 3])
            low, high = {
                kinds.TYPE_INT32: (-(2**31), 2**31 - 1),
                kinds.TYPE_UINT32: (0, 2**32 - 1),
                kinds.TYPE_UINT64: (0, 2**64 - 1),
            }.get(one.type, (-(2**63), 2**63 - 1))
            return chance.choice([low, high, chance.randint(low, high), 1])

        if one.is_repeated:
            for _ in range(chance.randint(1, 3)):
                if is_message:
                    fill(getattr(message, one.name).add(), chance, depth - 1)
                else:
                    getattr(message, one.name).append(value())
        elif is_message:
            part = getattr(message, one.name)
            part.SetInParent()
            fill(part, chance, depth - 1)
        else:
            setattr(message, one.name, value())


def test_every_field_and_word_of_xla_is_known(message: Any) -> None:
    """What is wrong in such a module is its contents, and never the text."""
    from google.protobuf import text_format

    for seed in range(40):
        made = message()
        fill(made, random.Random(seed), 3)
        text = text_format.MessageToString(made)
        with pytest.raises(hlorun.HloParseError) as caught:
            hlorun.parse(text)
        # Such an error has no place, or one in the text that is made of the proto.
        assert not caught.value.lineno or "hlorun makes from it" in str(caught.value), text


def test_numbers_of_every_size_come_back() -> None:
    text = """HloModule m

ENTRY e {
  a = f32[4] constant({1e-45, 3.4028235e+38, 0.1, -0})
  b = f64[3] constant({1e-300, 0.1, 123456789.123})
  c = s64[2] constant({-9223372036854775808, 9223372036854775807})
  d = u64[1] constant({18446744073709551615})
  e = s8[3] constant({-128, 0, 127})
  f = c64[1] constant({(1, -2.5)})
  ROOT t = (f32[4], f64[3], s64[2], u64[1], s8[3], c64[1]) tuple(a, b, c, d, e, f)
}
"""
    module = hlorun.parse(text)
    for ours, theirs in zip(hlorun.run(hlorun.parse(module.to_pbtxt())), hlorun.run(module), strict=True):
        assert ours.dtype == theirs.dtype and ours.tobytes() == theirs.tobytes()
    assert np.signbit(hlorun.run(hlorun.parse(module.to_pbtxt()))[0][3])
