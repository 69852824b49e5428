"""Executables pickle as their module and what they were compiled with."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hlorun

TEXT = """HloModule m

ENTRY e {
  p = f32[8] parameter(0)
  c = f32[8] constant({...})
  s = f32[8] sine(p)
  ROOT a = f32[8] add(s, c)
}
"""

SUM = """HloModule m, replica_count=2

add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y)
}

ENTRY e {
  p = f32[4] parameter(0)
  ROOT r = f32[4] all-reduce(p), to_apply=add, replica_groups={}
}
"""

VALUES = np.arange(8, dtype=np.float32)


def again(executable: hlorun.Executable) -> list[hlorun.Executable]:
    """What pickle and copy make of it."""
    made = [pickle.loads(pickle.dumps(executable, protocol)) for protocol in range(2, 6)]
    return [*made, copy.deepcopy(executable), copy.copy(executable)]


def test_results_are_the_same() -> None:
    module = hlorun.parse(TEXT, filename="m.hlo")
    executable = hlorun.compile(module, constants={"c": VALUES}, threads=1, check=True)
    want = executable(VALUES)
    assert want.any()
    for made in again(executable):
        assert made.module == module and made.module.filename == "m.hlo"
        assert made(VALUES).tobytes() == want.tobytes()
        assert made.explain() == executable.explain()


def test_options_come_along() -> None:
    module = hlorun.parse(TEXT)
    options: dict[str, Any] = {"disable": ["row-tiling", "simplify"], "pass_limit": 3, "check": "shadow"}
    executable = hlorun.compile(module, constants={"c": VALUES}, **options)
    for made in again(executable):
        assert [record.name for record in made.passes] == [record.name for record in executable.passes]
        assert made.__reduce__()[0].keywords.keys() == executable.__reduce__()[0].keywords.keys()
    kept = executable.__reduce__()[0].keywords
    assert {name: kept[name] for name in options} == options
    assert np.array_equal(kept["constants"]["c"], VALUES)


def test_devices_come_along() -> None:
    executable = hlorun.compile(hlorun.parse(SUM))
    values = [[np.full(4, number, np.float32)] for number in (1, 2)]
    for made in again(executable):
        assert (made.replicas, made.partitions) == (2, 1)
        assert [result.tolist() for result in made.run_replicas(values)] == [[3.0] * 4] * 2
    alone = pickle.loads(pickle.dumps(hlorun.compile(hlorun.parse(SUM), replicas=1)))
    assert alone.replicas == 1


def test_large_constants_of_a_proto_come_along() -> None:
    large = np.arange(5000, dtype=np.int32)
    text = "ENTRY e { ROOT c = s32[5000] constant({" + ", ".join(map(str, large)) + "}) }"
    executable = hlorun.compile(hlorun.parse(hlorun.parse(text).to_proto()))
    for made in again(executable):
        assert np.array_equal(made(), large)


def test_another_process_gives_the_same_bits(tmp_path: Path) -> None:
    executable = hlorun.compile(hlorun.parse(TEXT), constants={"c": VALUES})
    path = tmp_path / "executable"
    path.write_bytes(pickle.dumps(executable))
    program = (
        "import pickle, sys, numpy as np\n"
        "run = pickle.loads(open(sys.argv[1], 'rb').read())\n"
        "sys.stdout.buffer.write(run(np.arange(8, dtype=np.float32)).tobytes())\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, check=True)
    assert done.stdout == executable(VALUES).tobytes()


def test_a_pool_of_spawned_processes_runs_one() -> None:
    executable = hlorun.compile(hlorun.parse(TEXT), constants={"c": VALUES}, threads=1)
    program = (
        "import multiprocessing, pickle, sys\n"
        "if __name__ == '__main__':\n"
        "    run, values = pickle.loads(sys.stdin.buffer.read())\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        sys.stdout.buffer.write(pool.apply(run, (values,)).tobytes())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=pickle.dumps((executable, VALUES)),
        capture_output=True,
        check=True,
    )
    assert done.stdout == executable(VALUES).tobytes()


def test_one_inside_an_assignment_says_what_to_do() -> None:
    module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
    executable = hlorun.compile(module, buffer_assignment=module.buffer_assignment())
    with pytest.raises(TypeError, match="inside a buffer assignment: pickle its module"):
        pickle.dumps(executable)
    with pytest.raises(TypeError, match="compile there"):
        copy.deepcopy(executable)


def test_callbacks_of_jax_say_what_to_do() -> None:
    jax = pytest.importorskip("jax")
    import hlorun.jax

    shape = jax.ShapeDtypeStruct((2,), "float32")

    def function(value: object) -> object:
        return jax.pure_callback(lambda x: x + 1, shape, value)

    compiled = hlorun.jax.jit(function).lower(shape).compile()
    with pytest.raises(TypeError, match="exist only in this process"):
        pickle.dumps(compiled.executable)
    plain = hlorun.jax.jit(lambda x: x + 1).lower(shape).compile()
    made = pickle.loads(pickle.dumps(plain.executable))
    assert made.module == plain.executable.module and made(np.ones(2, np.float32)).tolist() == [2, 2]
    for one in (compiled, plain, hlorun.jax.jit(function).lower(shape)):
        with pytest.raises(TypeError, match=r"pickle its \w+ instead"):
            pickle.dumps(one)
