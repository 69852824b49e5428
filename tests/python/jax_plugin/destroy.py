"""Destroys an executable on a thread that the one with Python's lock waits for; prints "survived".

JAX does so where a process ends.
"""

from __future__ import annotations

import ctypes

import abuse
from fuzz import DESTROYED, Fuzz

from streams import Stream

DESTROY = 50
"""The number of `PJRT_LoadedExecutable_Destroy`."""
NAME = 41
"""The number of `PJRT_Executable_Name`."""


def main() -> None:
    fuzz = Fuzz()
    fuzz.compiled(Stream("pjrt destroy"))
    (executable,) = fuzz.handles["executable"]
    function = ctypes.c_void_p.from_address(fuzz.api.address + abuse.TABLE + 8 * DESTROY)
    arguments = (ctypes.c_size_t * 3)(24, 0, executable)
    # `PyDLL` calls its functions with Python's lock held.
    library = ctypes.PyDLL(None)
    thread, error = ctypes.c_ulong(), ctypes.c_void_p()
    assert library.pthread_create(ctypes.byref(thread), None, function, ctypes.byref(arguments)) == 0
    assert library.pthread_join(thread, ctypes.byref(error)) == 0
    assert not error.value
    assert DESTROYED in fuzz.call(NAME, {16: executable})[0]
    print("survived")


if __name__ == "__main__":
    main()
