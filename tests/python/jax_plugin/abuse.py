"""Calls every function of the PJRT API as no caller should; whoever survives prints "survived".

Arguments are null, too small, of nulls, and of pointers to memory of random bytes where the API takes bytes.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import hlorun
from streams import Stream

T = TypeVar("T")

HEAD = 16
"""Bytes of the size and the extensions that every argument struct begins with."""
TABLE = HEAD + 24
"""Where the functions begin: behind the table's own head, and the version's."""
VOID = {0, 1}
"""Functions that return nothing: `PJRT_Error_Destroy`, `PJRT_Error_Message`."""
ROOM = 512
"""More bytes than any argument struct has."""


class Api:
    def __init__(self) -> None:
        library = ctypes.PyDLL(hlorun._hlorun.__file__)
        library.GetPjrtApi.restype = ctypes.c_void_p
        self.address = library.GetPjrtApi()
        size = ctypes.c_size_t.from_address(self.address).value
        self.count = (size - TABLE) // 8
        major = ctypes.c_int.from_address(self.address + HEAD + 16).value
        minor = ctypes.c_int.from_address(self.address + HEAD + 20).value
        assert (major, minor) >= (0, 54) and self.count > 100

    def call(self, number: int, arguments: int | None) -> int | None:
        """The error that function `number` returns, or None."""
        address = ctypes.c_void_p.from_address(self.address + TABLE + 8 * number).value
        assert address, number
        result = None if number in VOID else ctypes.c_void_p
        # Without the lock of the interpreter, as JAX calls.
        return ctypes.CFUNCTYPE(result, ctypes.c_void_p)(address)(arguments)

    def message(self, error: int) -> str:
        """The words of an error, which is freed."""
        words = struct(40)
        ctypes.c_void_p.from_buffer(words, HEAD).value = error
        self.call(1, ctypes.addressof(words))
        data = ctypes.c_void_p.from_buffer(words, 24).value
        text = ctypes.string_at(data, ctypes.c_size_t.from_buffer(words, 32).value).decode()
        self.call(0, ctypes.addressof(words))
        return text


def struct(size: int, given: int | None = None) -> ctypes.Array[ctypes.c_char]:
    """Arguments of nulls, of `size` bytes as they say."""
    block = ctypes.create_string_buffer(max(given or size, 8))
    ctypes.c_size_t.from_buffer(block).value = size
    return block


def one_of(stream: Stream, values: Sequence[T]) -> T:
    return values[stream.integers(0, len(values))]


def null_arguments(api: Api) -> None:
    for number in range(api.count):
        error = api.call(number, None)
        if number not in VOID:
            assert error and api.message(error), number


def sizes(api: Api) -> None:
    """Every size that is too small is refused; one that is large enough finds nulls."""
    refused = 0
    for number in range(api.count):
        for size in [*range(64), 128, 256, ROOM]:
            block = struct(size, ROOM)
            error = api.call(number, ctypes.addressof(block))
            if error:
                words = api.message(error)
                assert words, number
                refused += "is too old" in words
    assert refused > 1000, refused


def random_bytes(api: Api) -> None:
    """Programs, options and saved executables of random bytes."""
    names = {"create": 10, "compile": 20, "load": 56}
    client = struct(72, ROOM)
    error = api.call(names["create"], ctypes.addressof(client))
    assert not error, api.message(error)
    handle = ctypes.c_void_p.from_buffer(client, HEAD + 48).value
    assert handle
    stream = Stream("pjrt abuse", "bytes")
    for _ in range(300):
        data = stream.bytes(one_of(stream, [0, 1, 7, 40, 300]))
        if stream.integers(0, 2):
            data = b"hlorun executable " + hlorun.__version__.encode() + b"\0" + data
        text = ctypes.create_string_buffer(data, len(data) + 1)
        format_of = ctypes.create_string_buffer(one_of(stream, [b"mlir", b"hlo", b"\xff\xfe"]))
        program = struct(48, ROOM)
        ctypes.c_void_p.from_buffer(program, 16).value = ctypes.addressof(text)
        ctypes.c_size_t.from_buffer(program, 24).value = len(data)
        ctypes.c_void_p.from_buffer(program, 32).value = ctypes.addressof(format_of)
        ctypes.c_size_t.from_buffer(program, 40).value = len(format_of.value)
        call = struct(56, ROOM)
        fields = [handle, ctypes.addressof(program), ctypes.addressof(text), len(data)]
        for at, field in enumerate(fields):
            ctypes.c_size_t.from_buffer(call, HEAD + 8 * at).value = field
        error = api.call(names["compile"], ctypes.addressof(call))
        assert error and api.message(error)
        load = struct(56, ROOM)
        for at, field in enumerate([handle, ctypes.addressof(text), len(data)]):
            ctypes.c_size_t.from_buffer(load, HEAD + 8 * at).value = field
        error = api.call(names["load"], ctypes.addressof(load))
        assert error and api.message(error)


def arrays_from_the_host(api: Api) -> None:
    """Shapes, types and strides that fit nothing."""
    client = struct(72, ROOM)
    assert not api.call(10, ctypes.addressof(client))
    handle = ctypes.c_void_p.from_buffer(client, HEAD + 48).value
    listed = struct(40, ROOM)
    ctypes.c_void_p.from_buffer(listed, HEAD).value = handle
    assert not api.call(15, ctypes.addressof(listed))
    device = ctypes.c_void_p.from_address(ctypes.c_void_p.from_buffer(listed, HEAD + 8).value).value
    stream = Stream("pjrt abuse", "arrays")
    made = 0
    elements = ctypes.create_string_buffer(1 << 16)
    for _ in range(2000):
        rank = one_of(stream, [0, 1, 2, 3, 70])
        dims = [one_of(stream, [0, 1, 2, 3, -1, 1 << 50]) for _ in range(rank)]
        sizes = (ctypes.c_int64 * rank)(*dims)
        call = struct(128, ROOM)
        fields = {
            0: handle,
            8: ctypes.addressof(elements),
            24: ctypes.addressof(sizes),
            32: rank,
            64: device,
        }
        for at, field in fields.items():
            ctypes.c_size_t.from_buffer(call, HEAD + at).value = field or 0
        ctypes.c_int.from_buffer(call, HEAD + 16).value = one_of(stream, [-1, 0, 1, 11, 15, 21, 23, 40])
        ctypes.c_size_t.from_buffer(call, HEAD + 48).value = one_of(stream, [0, 0, 0, 5])
        error = api.call(22, ctypes.addressof(call))
        if error:
            assert api.message(error)
            continue
        made += 1
        freed = struct(24, ROOM)
        ctypes.c_void_p.from_buffer(freed, HEAD).value = ctypes.c_void_p.from_buffer(call, HEAD + 96).value
        error = api.call(58, ctypes.addressof(freed))
        assert not error, api.message(error)
    assert made > 50, made


def main() -> None:
    api = Api()
    null_arguments(api)
    sizes(api)
    arrays_from_the_host(api)
    random_bytes(api)
    threads = [threading.Thread(target=sizes, args=(api,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("survived", file=sys.stdout)


if __name__ == "__main__":
    main()
