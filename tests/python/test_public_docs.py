"""Every public name says what it takes, gives and raises, and shows it; what it shows is so."""

from __future__ import annotations

import ast
import doctest
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
from hlorun import _hlorun

ROOT = Path(__file__).parents[2]
STUB = ROOT / "python" / "hlorun" / "_hlorun.pyi"

# These take no module, array or file of the user's that could be wrong.
NEVER_RAISE = {"batch_schema", "diff", "graph", "summary"}


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
    missing += [name for name in parameters if not re.search(rf"^    \*{{0,2}}{name}: ", doc, re.M)]
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
    if isinstance(node, ast.ClassDef) or is_property(node):
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


@pytest.mark.parametrize("name", [name for name, (_, doc) in COMPILED.items() if doc and ">>>" in doc])
def test_compiled_examples_are_true(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    doc = COMPILED[name][1]
    assert doc is not None
    example = doctest.DocTestParser().get_doctest(doc, {"hlorun": hlorun, "np": np}, name, str(STUB), None)
    printed: list[str] = []
    failed = doctest.DocTestRunner().run(example, out=printed.append).failed
    assert failed == 0, "".join(printed)


def python_functions() -> dict[str, Any]:
    found = {}
    for prefix, module in (("", hlorun), ("mpi.", hlorun.mpi), ("ray.", hlorun.ray)):
        names = hlorun.__all__ if module is hlorun else dir(module)
        for name in names:
            value = getattr(module, name)
            is_ours = getattr(value, "__module__", "").startswith(module.__name__)
            if inspect.isfunction(value) and is_ours and not name.startswith("_"):
                found[prefix + name] = value
    return found


@pytest.mark.parametrize("name", python_functions())
def test_functions_have_docstrings(name: str) -> None:
    function = python_functions()[name]
    parameters = list(inspect.signature(function).parameters)
    missing = lacks(inspect.getdoc(function) or "", parameters, raises=name not in NEVER_RAISE)
    assert not missing


@pytest.mark.parametrize(
    "name",
    [name for name in hlorun.__all__ if inspect.isclass(getattr(hlorun, name)) and name not in COMPILED],
)
def test_classes_and_their_members_have_docstrings(name: str) -> None:
    """Fields of data classes and tuples are described in their class, or under their own line."""
    found = getattr(hlorun, name)
    assert found.__doc__ and not found.__doc__.startswith(f"{name}("), "no docstring"
    for member, value in vars(found).items():
        if not member.startswith("_") and isinstance(
            value, (property, classmethod, staticmethod, type(lambda: 0))
        ):
            assert inspect.getdoc(value), member
