"""Calls the PJRT API in any order, with handles that have been destroyed or are none of their kind; whoever
survives prints "survived".

  python tests/python/jax_plugin/fuzz.py [SEED] [STEPS]

Takes STEPS steps (1,000 when not given), each a call or a few that belong together, then as many in each of
four threads that share the handles. These stay in use after their `Destroy`; some are null, of another kind
or any number, and some structs end early. What a caller cannot get wrong without undefined behaviour is right:
the sizes of memory.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import abuse

import hlorun
from streams import Stream

HANDLES = 24
"""Handles of a kind that are kept; a new one takes the place of one of them."""
DESTROYED = "has been destroyed"
FOREIGN = "is none that was given out"
PROGRAM = """\
HloModule fuzz, input_output_alias={ {0}: (0, {}, may-alias) }

ENTRY main {
  a = f32[4]{0} parameter(0)
  b = f32[4]{0} parameter(1)
  sum = f32[4]{0} add(a, b)
  product = f32[4]{0} multiply(a, b)
  ROOT both = (f32[4]{0}, f32[4]{0}) tuple(sum, product)
}
"""

LAYOUTS = 1000
"""Numbers of the functions of the layouts' extension begin here."""
TAKES_ONE = {
    "error": [0, 1, 2],
    "event": [5, 6, 7, 127],
    "buffer": [*range(58, 69), 71, *range(73, 77)],
    "executable": [*range(40, 48), 50, 52, 53, 54, 57, 90, 91, 94, 96, LAYOUTS + 5],
    "layout": [LAYOUTS],
}
"""Functions whose first field is a handle of the kind, and which give none."""
GIVES: list[tuple[int, str | None, dict[int, str]]] = [
    (126, None, {16: "event"}),
    (72, "buffer", {24: "event"}),
    (LAYOUTS + 3, "buffer", {24: "layout"}),
    (51, "executable", {24: "executable"}),
    (125, "buffer", {40: "buffer"}),
]
"""Functions, the kind of their first field, and which handles they give where."""
BYTES = [(49, "executable"), (117, "executable"), (124, "executable"), (LAYOUTS + 1, "layout")]
"""Functions that give bytes together with what deletes them."""

Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
OnReady = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


class Fuzz:
    """Handles by their kinds, and calls that use them."""

    def __init__(self) -> None:
        self.api = abuse.Api()
        self.handles: dict[str, list[int]] = {kind: [] for kind in TAKES_ONE}
        # The caller's memory, which lives as long as views of it.
        self.elements = (ctypes.c_float * 64)(*range(64))
        self.dims = (ctypes.c_int64 * 1)(4)
        self.callback = OnReady(lambda error, _: self.keep("error", error))
        extension = ctypes.c_void_p.from_address(self.api.address + 8).value
        assert extension and ctypes.c_int.from_address(extension + 8).value == 4
        self.layouts = extension + 24
        self.refused = self.foreign = self.made = self.ran = 0
        self.words = ctypes.create_string_buffer(b"words")
        _, block = self.call(10, {})
        self.client = word(block, 64)
        _, block = self.call(15, {16: self.client})
        self.device = ctypes.c_void_p.from_address(word(block, 24)).value or 0
        _, block = self.call(33, {16: self.device})
        self.memory = word(block, 24)
        self.program = hlorun.parse(PROGRAM).to_proto()

    def call(self, number: int, fields: dict[int, int], size: int = abuse.ROOM) -> tuple[str, Any]:
        """Calls a function whose struct has so many bytes; the words of its error, and the struct."""
        # No larger than it says, so that AddressSanitizer sees who looks beyond.
        block = (ctypes.c_char * max(size, 8))()
        ctypes.c_size_t.from_buffer(block).value = size
        for at, value in fields.items():
            if at + 8 <= size:
                ctypes.c_size_t.from_buffer(block, at).value = value
        argument = ctypes.addressof(block)
        if number >= LAYOUTS:
            address = ctypes.c_void_p.from_address(self.layouts + 8 * (number - LAYOUTS)).value
            assert address
            error = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(address)(argument)
        else:
            error = self.api.call(number, argument)
        self.made += 1
        words = self.api.message(error) if error else ""
        assert words or not error, number
        assert "internal error" not in words, words
        self.refused += DESTROYED in words
        self.foreign += FOREIGN in words
        return words, block

    def one_of(self, stream: Stream, kind: str) -> int:
        """A handle of the kind, destroyed or not, or null; at times one of another kind, or none."""
        if not stream.integers(0, 16):
            kinds = [other for other in self.handles if other != kind and self.handles[other]]
            others = [abuse.one_of(stream, self.handles[other]) for other in kinds]
            others += [int(stream.integers(1, 1 << 62)), ctypes.addressof(self.elements)]
            return abuse.one_of(stream, [*others, *(handle + 8 for handle in self.handles[kind][:1])])
        known = self.handles[kind]
        at = stream.integers(0, len(known) + 1)
        return known[at] if at < len(known) else 0

    def keep(self, kind: str, handle: int | None) -> None:
        """Remembers a handle in place of another one, which is left as it is."""
        known = self.handles[kind]
        if not handle:
            return
        if len(known) < HANDLES:
            known.append(handle)
        else:
            known[self.made % HANDLES] = handle

    def made_buffer(self, stream: Stream) -> None:
        """Makes a buffer in one of four ways, on a device or in a memory, of four elements or of none."""
        elements, dims, words = map(ctypes.addressof, (self.elements, self.dims, self.words))
        rank = int(stream.integers(0, 2))
        f32 = 11
        places = [(self.device, 0), (0, self.memory), (0, 0)]
        device, memory = places[stream.integers(0, len(places))]
        c = self.client
        number, fields, at = [
            (22, {16: c, 24: elements, 32: f32, 40: dims, 48: rank, 80: device, 88: memory}, 112),
            (93, {16: c, 24: elements, 32: dims, 40: rank, 48: f32, 64: device, 104: memory}, 96),
            (112, {16: c, 24: dims, 32: rank, 40: f32, 56: device, 64: memory}, 72),
            (118, {16: c, 24: 9, 32: words, 40: 5, 48: dims, 56: rank, 64: f32, 80: memory}, 88),
        ][stream.integers(0, 4)]
        error, block = self.call(number, fields)
        if not error:
            self.keep("buffer", word(block, at))

    def copied(self, stream: Stream) -> None:
        """Copies a buffer to a device, a memory or the host, which may name the place later, or twice."""
        buffer = self.one_of(stream, "buffer")
        room = (ctypes.c_char * 64)()
        at = ctypes.addressof(room)
        way = stream.integers(0, 5)
        if way < 2:
            number, place = [(69, self.device), (92, self.memory)][way]
            words, block = self.call(number, {16: buffer, 24: place})
            if not words:
                self.keep("buffer", word(block, 32))
            return
        number, fields, event = [
            (70, {16: buffer, 32: at, 40: len(room)}, 48),
            (100, {16: buffer, 24: at, 32: 0, 40: int(stream.integers(0, 20))}, 48),
            (120, {16: buffer, 24: 0, 32: 4}, 40),
        ][way - 2]
        words, block = self.call(number, fields)
        if words:
            return
        self.keep("event", word(block, event))
        if number == 120:
            code, words = int(stream.integers(0, 2)), ctypes.addressof(self.words)
            said = (ctypes.c_size_t * 6)(48, word(block, 48), code, words, 5, at)
            for _ in range(stream.integers(0, 3)):
                Deleter(word(block, 56))(ctypes.addressof(said))

    def compiled(self, stream: Stream) -> None:
        """Compiles the program, or loads what was saved."""
        code = ctypes.create_string_buffer(self.program, len(self.program))
        name = ctypes.create_string_buffer(b"hlo")
        program = (ctypes.c_size_t * 6)(
            48, 0, ctypes.addressof(code), len(self.program), ctypes.addressof(name), 3
        )
        saved, block = self.call(49, {16: self.one_of(stream, "executable")})
        if saved:
            words, made = self.call(20, {16: self.client, 24: ctypes.addressof(program)})
            self.keep("executable", word(made, 48))
        else:
            words, made = self.call(56, {16: self.client, 24: word(block, 24), 32: word(block, 32)})
            self.keep("executable", word(made, 40))
            delete_twice(block)
        assert not words, words

    def executed(self, stream: Stream) -> None:
        """Runs an executable on any buffers, or on two of its types; the first is donated."""
        if stream.integers(0, 2):
            elements, dims = ctypes.addressof(self.elements), ctypes.addressof(self.dims)
            fields = {16: self.client, 24: elements, 32: 11, 40: dims, 48: 1, 80: self.device}
            made = [word(self.call(22, fields)[1], 112) for _ in range(2)]
        else:
            made = [self.one_of(stream, "buffer") for _ in range(2)]
        arguments = (ctypes.c_void_p * 2)(*made)
        results = (ctypes.c_void_p * 2)()
        lists, outputs = (ctypes.c_void_p * 1)(ctypes.addressof(arguments)), (ctypes.c_void_p * 1)()
        outputs[0] = ctypes.addressof(results)
        events = (ctypes.c_void_p * 1)()
        fields = {
            16: self.one_of(stream, "executable"),
            32: ctypes.addressof(lists),
            40: int(stream.integers(0, 8) > 0),
            48: 2 - int(stream.integers(0, 8) == 0),
            56: ctypes.addressof(outputs),
            64: ctypes.addressof(events),
        }
        words, _ = self.call(55, fields)
        for buffer in made:
            self.keep("buffer", buffer)
        if not words:
            self.ran += 1
            for result in results:
                self.keep("buffer", result)
            self.keep("event", events[0])

    def waited(self, stream: Stream) -> None:
        """Makes an event, waits for it or is told of it, sets it, and waits for what is destroyed."""
        _, block = self.call(126, {})
        event = word(block, 16)
        told = self.call(9, {16: event, 24: ctypes.cast(self.callback, ctypes.c_void_p).value or 0})
        assert not told[0]
        code = int(stream.integers(0, 3))
        assert not self.call(127, {16: event, 24: code, 32: ctypes.addressof(self.words), 40: 5})[0]
        assert bool(self.call(8, {16: event})[0]) == (code > 0)
        self.keep("event", event)

    def step(self, stream: Stream) -> None:
        """Makes a call, or a few that belong together."""
        ways = [self.made_buffer, self.copied, self.executed, self.waited, self.given, self.shown, self.any]
        weights = [3, 2, 3, 1, 2, 1, 9]
        at = stream.integers(0, sum(weights) + 1)
        for way, weight in zip(ways, weights, strict=True):
            if at < weight:
                way(stream)
                return
            at -= weight
        self.compiled(stream)

    def given(self, stream: Stream) -> None:
        """Calls a function that gives a handle."""
        number, kind, gives = GIVES[stream.integers(0, len(GIVES))]
        words, block = self.call(number, {16: self.one_of(stream, kind)} if kind else {})
        for at, made in gives.items():
            if not words:
                self.keep(made, word(block, at))

    def shown(self, stream: Stream) -> None:
        """Asks for bytes, and deletes them twice."""
        number, kind = BYTES[stream.integers(0, len(BYTES))]
        words, block = self.call(number, {16: self.one_of(stream, kind)})
        if not words:
            delete_twice(block)

    def any(self, stream: Stream) -> None:
        """Calls a function that is about one handle, which it may destroy; the struct may end early."""
        kinds = list(TAKES_ONE)
        kind = kinds[stream.integers(0, len(kinds))]
        numbers = TAKES_ONE[kind]
        number = numbers[stream.integers(0, len(numbers))]
        size = abuse.ROOM if stream.integers(0, 4) else int(stream.integers(0, 128))
        self.call(number, {16: self.one_of(stream, kind)}, size)


def word(block: Any, at: int) -> int:
    """The eight bytes at a place of a struct."""
    return ctypes.c_size_t.from_buffer(block, at).value


def delete_twice(block: Any) -> None:
    """Deletes the bytes that a function gave."""
    for _ in range(2):
        Deleter(word(block, 48))(word(block, 40))


def main() -> None:
    seed, steps = (int(text) for text in [*sys.argv[1:], *["0", "1000"][len(sys.argv) - 1 :]])
    fuzz = Fuzz()
    fuzz.compiled(Stream("pjrt fuzz", seed))

    def run(thread: int) -> None:
        stream = Stream("pjrt fuzz", seed, thread)
        for _ in range(steps):
            fuzz.step(stream)

    run(0)
    counts = fuzz.refused, fuzz.foreign, fuzz.ran
    assert min(counts) > steps / 50, counts
    threads = [threading.Thread(target=run, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    said = f"{fuzz.refused} of them with destroyed handles, {fuzz.foreign} with others' or none"
    print(f"survived {fuzz.made} calls, {said}, {fuzz.ran} runs")


if __name__ == "__main__":
    main()
