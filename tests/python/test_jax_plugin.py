"""hlorun as a platform of JAX: programs run there as on the CPU, and the CPU's are not touched."""

from __future__ import annotations

import ast
import functools
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# Found and not imported: each test's JAX is that of a process of its own.
if importlib.util.find_spec("jax") is None:
    pytest.skip("jax is not installed", allow_module_level=True)

FOLDER = Path(__file__).parent / "jax_plugin"
SETTINGS: dict[str, dict[str, str]] = {
    "one_device": {"JAX_PLATFORMS": "hlorun"},
    "backend": {"JAX_PLATFORMS": "hlorun"},
    "stablehlo": {"JAX_PLATFORMS": "hlorun"},
    "several_devices": {
        "JAX_PLATFORMS": "hlorun,cpu",
        "HLORUN_JAX_DEVICES": "4",
        "JAX_NUM_CPU_DEVICES": "4",
    },
}


def names(file: str) -> list[str]:
    """The cases of a file."""
    tree = ast.parse((FOLDER / f"{file}.py").read_text(encoding="utf-8"))
    found = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    return [name for name in found if name.startswith("case_")]


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs Python in an environment that says nothing else of JAX."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_"))}
    command = [sys.executable, "-X", "faulthandler", *arguments]
    return subprocess.run(
        command, env={**kept, **environment}, capture_output=True, text=True, timeout=500, check=False
    )


@functools.cache
def results(file: str) -> dict[str, Any]:
    """How the cases of a file went; they run in one process."""
    done = python(str(FOLDER / "run.py"), str(FOLDER / f"{file}.py"), **SETTINGS[file])
    assert done.returncode == 0, done.stderr[-4000:]
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("case", names("one_device"))
def test_one_device(case: str) -> None:
    failure = results("one_device")[case]
    assert failure is None, failure


@pytest.mark.parametrize("case", names("backend"))
def test_backend(case: str) -> None:
    failure = results("backend")[case]
    assert failure is None, failure


@pytest.mark.parametrize("case", names("stablehlo"))
def test_stablehlo(case: str) -> None:
    failure = results("stablehlo")[case]
    assert failure is None, failure


@pytest.mark.parametrize("case", names("several_devices"))
def test_several_devices(case: str) -> None:
    failure = results("several_devices")[case]
    assert failure is None, failure


def test_the_cpu_stays_the_default_and_is_not_touched() -> None:
    code = """
import jax, jax.numpy as jnp
assert jax.default_backend() == "cpu" and jax.jit(lambda x: x + 1)(1).devices() == set(jax.devices("cpu"))
(device,) = jax.devices("hlorun")
assert jax.device_put(jnp.ones(2), device).sum() == 2
assert jax.jit(lambda x: jax.pure_callback(lambda a: a, x, x))(3.0) == 3
"""
    done = python("-W", "error", "-c", code)
    assert done.returncode == 0 and done.stderr == "", done.stderr


def test_programs_that_name_other_platforms_never_see_hlorun() -> None:
    code = "import jax; print(jax.devices(), list(jax._src.xla_bridge.backends()))"
    done = python("-c", code, JAX_PLATFORMS="cpu")
    assert done.stdout == "[CpuDevice(id=0)] ['cpu']\n", done.stderr


def test_a_jax_of_other_inner_names_is_warned_about_and_works() -> None:
    code = """
import warnings, jax
from jax._src import xla_bridge
from jax._src.interpreters import mlir
del mlir._platforms_with_donation
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import hlorun._jax_plugin
    hlorun._jax_plugin.initialize()
assert "hlorun is no platform of JAX" in str(caught[0].message), caught
"""
    done = python("-c", code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("count", ["many", "0", "-3", "100000"])
def test_numbers_of_devices_that_are_none(count: str) -> None:
    done = python("-c", "import jax; jax.devices()", JAX_PLATFORMS="hlorun", HLORUN_JAX_DEVICES=count)
    assert done.returncode == 1
    words = "is a number of devices" if count == "many" else "devices, not"
    assert words in done.stderr, done.stderr


def test_the_flags_of_xla_say_how_many_devices_there_are() -> None:
    flags = "--xla_force_host_platform_device_count=2 --xla_force_host_platform_device_count=3"
    code = "import jax; print(jax.device_count(), len(jax.devices('cpu')))"
    done = python("-c", code, JAX_PLATFORMS="hlorun", XLA_FLAGS=flags)
    assert done.stdout == "3 3\n", done.stderr
    done = python("-c", code, JAX_PLATFORMS="hlorun", XLA_FLAGS=flags, HLORUN_JAX_DEVICES="2")
    assert done.stdout == "2 3\n", done.stderr


def test_options_that_nobody_knows() -> None:
    environment = {"JAX_PLATFORMS": "hlorun", "JAX_PJRT_CLIENT_CREATE_OPTIONS": "colour:red"}
    done = python("-c", "import jax; jax.devices()", **environment)
    assert done.returncode == 1 and "no option colour" in done.stderr, done.stderr


def test_hlorun_does_not_import_jax() -> None:
    code = (
        "import hlorun, sys; assert not any(name.startswith(('jax', 'hlorun._jax')) for name in sys.modules)"
    )
    assert python("-c", code).returncode == 0


def test_calls_that_no_caller_should_make_are_errors() -> None:
    done = python(str(FOLDER / "abuse.py"))
    assert done.stdout == "survived\n" and done.returncode == 0, done.stderr[-4000:]


@pytest.mark.parametrize("seed", ["0", "1"])
def test_handles_that_have_been_destroyed_are_errors(seed: str) -> None:
    done = python(str(FOLDER / "fuzz.py"), seed)
    assert done.stdout.startswith("survived") and done.returncode == 0, done.stderr[-4000:]


def test_who_destroys_an_executable_never_waits_for_the_lock_of_python() -> None:
    done = python(str(FOLDER / "destroy.py"))
    assert done.stdout == "survived\n" and done.returncode == 0, done.stderr[-4000:]


@pytest.mark.parametrize("way", ["platform", "jit"])
def test_factorizations_are_those_of_the_library_that_jax_uses(way: str) -> None:
    from hlorun._blas import library_of_scipy

    if library_of_scipy() is None:
        pytest.skip("this SciPy brings no OpenBLAS")
    code = f"""
import hlorun.jax, jax, jax.numpy as jnp, numpy as np
x = np.sin(np.arange(2 * 29 * 29, dtype=np.float32)).reshape(2, 29, 29)
on_cpu = jax.jit(jnp.linalg.svd)(x)
if {way!r} == "jit":
    here = hlorun.jax.jit(jnp.linalg.svd)(x)
else:
    here = jax.jit(jnp.linalg.svd)(jax.device_put(x, jax.devices("hlorun")[0]))
for ours, theirs in zip(here, on_cpu, strict=True):
    np.testing.assert_array_equal(ours, theirs)
"""
    done = python("-c", code, JAX_PLATFORMS="cpu,hlorun", HLORUN_BLAS="")
    assert done.returncode == 0, done.stderr[-4000:]
