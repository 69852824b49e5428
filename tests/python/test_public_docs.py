"""Every public name says what it takes, gives and raises, and shows it; what it shows is so."""

from __future__ import annotations

import ast
import dataclasses
import doctest
import importlib
import importlib.util
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import hlorun
import hlorun.mpi
import hlorun.ray
from conftest import dump_path
from hlorun import _hlorun
from hlorun.report.assignment_diff import diff_assignments
from hlorun.report.flame import flame_svg
from hlorun.report.graph_page import read_times
from hlorun.report.memory import memory_report
from hlorun.report.memory_plot import memory_plot
from hlorun.report.profile import times_by, write_trace

ROOT = Path(__file__).parents[2]
STUB = ROOT / "python" / "hlorun" / "_hlorun.pyi"

# These take no module, array or file of the user's that could be wrong.
NEVER_RAISE = {
    "batch_schema",
    "diff",
    "diff_assignments",
    "flame_svg",
    "DumpFolder.named",
    "graph",
    "summary",
    "Place.of",
    "Rates.of",
    "mpi.Group.abort",
}

# They need several processes.
NOT_RUN = ("mpi.", "ray.")

ARRAYS = {"arrays", "constants", "given", "leaves", "out"}
"""Parameters that take arrays, where they are no paths: their descriptions say of which dtypes and sizes."""


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stub_definitions() -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = tool("stub_docs").definitions(ast.parse(STUB.read_text(encoding="utf-8")))
    return found


COMPILED = {name: (node, ast.get_docstring(node)) for name, node in stub_definitions()}


def is_property(node: Any) -> bool:
    return any(isinstance(mark, ast.Name) and mark.id == "property" for mark in node.decorator_list)


def lacks(doc: str, parameters: list[str], *, raises: bool) -> list[str]:
    """The parts that a docstring of a function has to have and has not."""
    needed = ["Examples:", *["Raises:"] * raises, *["Args:"] * bool(parameters)]
    missing = [part for part in needed if f"\n{part}\n" not in doc]
    for name in parameters:
        said = re.search(rf"^    \*{{0,2}}{name}: (.+(?:\n     .+)*)", doc, re.M)
        if said is None:
            missing.append(name)
        elif name in ARRAYS and not re.search(r"\bdtypes?\b|[Ff]older|[Ff]ile|As in a call", said[1]):
            missing.append(f"dtype and sizes of {name}")
    return missing


def test_the_stub_says_what_the_binding_says() -> None:
    """`python tools/stub_docs.py` writes it."""
    assert STUB.read_text(encoding="utf-8") == tool("stub_docs").document()


def test_help_says_what_the_stub_says() -> None:
    """Rebuild the extension where this fails alone."""
    differing = []
    for name, (_, doc) in COMPILED.items():
        owner, _, member = name.partition(".")
        found: Any = getattr(_hlorun, owner)
        if member.startswith("__"):
            # Their text is Python's own; what a call does stands in its class.
            continue
        found = inspect.getattr_static(found, member) if member else found
        if inspect.cleandoc(found.__doc__ or "") != doc:
            differing.append(name)
    assert not differing


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_names_have_docstrings(name: str) -> None:
    node, doc = COMPILED[name]
    assert doc, "no docstring"
    if is_property(node):
        return
    if isinstance(node, ast.ClassDef):
        assert "\nExamples:\n" in doc or node.name == "Memory"
        return
    arguments = node.args
    named = [
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        arguments.vararg,
        arguments.kwarg,
    ]
    parameters = [argument.arg for argument in named if argument is not None and argument.arg != "self"]
    assert not lacks(doc, parameters, raises=bool(parameters)), doc


def run_examples(name: str, doc: str, names: dict[str, Any]) -> None:
    example = doctest.DocTestParser().get_doctest(
        doc, {"hlorun": hlorun, "np": np, **names}, name, None, None
    )
    printed: list[str] = []
    failed = doctest.DocTestRunner().run(example, out=printed.append).failed
    assert failed == 0, "".join(printed)


@pytest.mark.parametrize("name", [name for name, (_, doc) in COMPILED.items() if doc and ">>>" in doc])
def test_compiled_examples_are_true(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    run_examples(name, COMPILED[name][1] or "", {})


REPORTS = (diff_assignments, flame_svg, memory_plot, memory_report, read_times, times_by, write_trace)
"""Functions of reports that pages name."""


def python_names() -> dict[str, Any]:
    """Functions and classes that are written in Python, and the methods of these."""
    found: dict[str, Any] = {each.__name__: each for each in REPORTS}
    modules: list[tuple[str, ModuleType]] = [("", hlorun), ("mpi.", hlorun.mpi), ("ray.", hlorun.ray)]
    if importlib.util.find_spec("jax") is not None:
        modules.append(("jax.", importlib.import_module("hlorun.jax")))
    for prefix, module in modules:
        for name in getattr(module, "__all__", dir(module)):
            value = getattr(module, name)
            is_ours = getattr(value, "__module__", "").startswith(module.__name__)
            if not is_ours or name.startswith("_") or name in COMPILED:
                continue
            found[prefix + name] = value
            for member, method in vars(value).items() if inspect.isclass(value) else ():
                if not member.startswith("_"):
                    is_static = isinstance(method, (staticmethod, classmethod))
                    found[f"{prefix}{name}.{member}"] = method.__func__ if is_static else method
    return {
        name: value
        for name, value in found.items()
        if inspect.isclass(value) or inspect.isfunction(value) or isinstance(value, property)
    }


PYTHON = python_names()


@pytest.mark.parametrize("name", [name for name, value in PYTHON.items() if inspect.isfunction(value)])
def test_functions_have_docstrings(name: str) -> None:
    parameters = [each for each in inspect.signature(PYTHON[name]).parameters if each != "self"]
    doc = inspect.getdoc(PYTHON[name]) or ""
    missing = lacks(doc, parameters, raises=bool(parameters) and name not in NEVER_RAISE)
    assert not missing


@pytest.mark.parametrize("name", [name for name, value in PYTHON.items() if not inspect.isfunction(value)])
def test_classes_and_properties_have_docstrings(name: str) -> None:
    """`pydoc` shows the text of a class, and none that stands below a field."""
    found = PYTHON[name]
    doc = inspect.getdoc(found) or ""
    assert doc and not doc.startswith(f"{name}("), "no docstring"
    if isinstance(found, property):
        return
    assert "\nExamples:\n" in doc
    fields = [field.name for field in dataclasses.fields(found)] if dataclasses.is_dataclass(found) else []
    fields += getattr(found, "_fields", ())
    assert not [field for field in fields if not re.search(rf"^    {field}: ", doc, re.M)]


@pytest.mark.parametrize("name", [name for name in PYTHON if not name.startswith(NOT_RUN)])
def test_examples_are_true(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a folder `dumps` of 001 and 003, and a folder `xla` that XLA dumped to."""
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    for folder in ("dumps", "xla"):
        (tmp_path / folder).mkdir()
    for dump in (dump_path("001"), dump_path("003")):
        (tmp_path / "dumps" / dump.name).symlink_to(dump)
    text = "HloModule jit_f\nENTRY e { ROOT p = f32[2] parameter(0) }\n"
    (tmp_path / "xla" / "module_0001.jit_f.before_optimizations.txt").write_text(text)
    monkeypatch.chdir(tmp_path)
    # A function of a module that is not `hlorun` itself is called by its own name.
    names = {} if hasattr(hlorun, name) else {name: PYTHON[name]}
    if name.startswith("jax."):
        jax = importlib.import_module("jax")
        names = {"jax": jax, "jnp": jax.numpy}
    run_examples(name, inspect.getdoc(PYTHON[name]) or "", names)
