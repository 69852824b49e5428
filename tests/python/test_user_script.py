"""A script that uses the whole public API runs and passes `mypy --strict`."""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import hlorun

STUB = Path(hlorun.__file__).with_name("_hlorun.pyi")

CALLS = '''
from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import hlorun

TEXT = """HloModule m

ENTRY e {
  p = f32[2]{0} parameter(0)
  q = f32[2]{0} sqrt(p), metadata={op_name="jit(f)/sqrt" source_file="f.py" source_line=3}
  ROOT a = f32[2]{0} add(q, p)
}
"""


def doubled(x: Any) -> Any:
    return np.asarray(x) * 2


def reading(folder: Path) -> hlorun.HloModule:
    path = folder / "module_0001.m.before_optimizations.txt"
    path.write_text(TEXT)
    module: hlorun.HloModule = hlorun.load(path, max_bytes=1 << 20, strict=True)
    same: list[hlorun.HloModule] = hlorun.parse_modules(module.to_string(preset="canonical"))
    more: list[hlorun.HloModule] = hlorun.load_modules(path)
    read: hlorun.HloModule = hlorun.parse(module.to_proto(), filename="m.pb")
    part: hlorun.HloModule = hlorun.extract(read, "q", depth=1)
    found: tuple[hlorun.HloInstruction, ...] = module.find(opcode="add")
    cut: hlorun.HloModule = module.with_constants({})
    version: str = hlorun.__version__
    assert len(same) == len(more) == len(found) == 1 and part.name and cut == module and version
    made: hlorun.HloModule = hlorun.mutate(hlorun.smith(seed=3, size=8), seed=1)
    assert made.instruction_count
    try:
        hlorun.parse("HloModule")
    except hlorun.HloParseError as error:
        line: int | None = error.lineno
        assert line is not None
    return module


def running(module: hlorun.HloModule) -> None:
    inputs: list[Any] = hlorun.make_inputs(module, 1, given={"p": np.ones(2, np.float32)})
    executable: hlorun.Executable = hlorun.compile(module, threads=1, check=True)
    seen: list[str] = []

    def observer(instruction: hlorun.HloInstruction, value: Any) -> None:
        seen.append(instruction.name)

    result = executable(*inputs, observer=observer, timeout=60.0)
    again = executable.run({"p": inputs[0]})
    once = hlorun.run(module, *inputs)
    outputs, steps = executable.profile(*inputs)
    both: list[Any] = hlorun.compile(module, replicas=2).run_replicas([inputs, inputs])
    assert seen and np.array_equal(result, again) and np.array_equal(once, outputs) and len(both) == 2
    first: tuple[hlorun.HloInstruction, str, int, float, float] = steps[0]
    records: list[hlorun.PassRecord] = executable.passes
    assert first[0].name and records
    hlorun.register_custom_call("doubled", doubled)
    hlorun.register_custom_call("doubled", None)
    try:
        executable()
    except (hlorun.HloArgumentError, hlorun.HloTimeoutError) as error:
        base: hlorun.HloError = error
        assert str(base)


def finding(module: hlorun.HloModule, folder: Path) -> None:
    value = np.array([-1, 4], np.float32)
    report: hlorun.NanReport = hlorun.find_nan(module, value)
    origins: Sequence[hlorun.Origin] = report.origins
    traced: hlorun.TraceReport = hlorun.trace(module, value, until="q")
    other = hlorun.parse(TEXT.replace("add", "subtract"))
    compared: hlorun.Comparison = hlorun.compare(module, other, value)
    devices: hlorun.DeviceComparison = hlorun.compare_devices(module, other, value)
    bisection: hlorun.Bisection = hlorun.bisect(module, value)
    smaller: hlorun.Reduction = hlorun.reduce(module, lambda m: len(m.find(opcode="sqrt")) > 0)
    scanned: hlorun.DumpFolder = hlorun.scan(folder)
    stages: list[hlorun.DumpStage] = [stage for one in scanned for stage in one.stages]
    assert origins and traced and compared and devices and bisection.to_dict() and smaller and stages


def reporting(module: hlorun.HloModule, folder: Path) -> None:
    cost: hlorun.Cost = hlorun.cost(module, by="opcode")
    roof: hlorun.Roofline = hlorun.roofline(module, "H100", by="opcode")
    talks: hlorun.Collectives = hlorun.collectives(module, on="H100")
    short: hlorun.Summary = hlorun.summary(module)
    differs: hlorun.Diff = hlorun.diff(module, module)
    ranks: hlorun.RankDiff = hlorun.diff_ranks({"0": module, "1": module})
    page: hlorun.Graph = hlorun.graph(module, {"a": 1e-6}, diff=differs)
    saved: hlorun.WhatIf = hlorun.memory_what_if(module, most=3)
    assignment: hlorun.BufferAssignment = hlorun.compile(module).buffer_assignment()
    xla: hlorun.BufferAssignment = module.buffer_assignment()
    findings: tuple[hlorun.BufferFinding, ...] = xla.check(module)
    assert cost.groups and roof.groups and roof.steps and not talks.kinds and short.name == "m"
    assert ranks.groups and "<html" in page.html() and saved.module == "m"
    assert not findings and assignment.total_bytes and hlorun.batch_schema()
    # Files that are not there, and the errors that say so.
    for read in (hlorun.load_buffer_assignment, hlorun.load):
        try:
            read(folder / "none.txt")
        except OSError:
            pass
    try:
        hlorun.parse_buffer_assignment("nothing")
    except hlorun.HloParseError:
        pass


def names(module: hlorun.HloModule) -> str:
    return module.name


def batches(folder: Path) -> None:
    records = hlorun.batch([folder / "module_0001.m.before_optimizations.txt"], names)
    assert [record.value for record in records] == ["m"]
    hlorun.batch([folder], out=folder / "tables", workers=1, progress=False)
    graphs: Iterator[hlorun.ModuleGraph] = hlorun.graphs(folder / "tables")
    assert [graph.edge_index.shape[0] for graph in graphs] == [2]


def main(folder: Path) -> None:
    module = reading(folder)
    running(module)
    finding(module, folder)
    reporting(module, folder)
    batches(folder)


if __name__ == "__main__":
    import sys

    main(Path(sys.argv[1]))
'''
"""Calls every public function; most results are annotated with their class."""


def classes() -> dict[str, type]:
    """The public classes by name."""
    return {name: value for name in hlorun.__all__ if inspect.isclass(value := getattr(hlorun, name))}


def members(one: type) -> list[str]:
    """What can be read of a value of `one`."""
    found = {name for name, value in vars(one).items() if not name.startswith("_") and not callable(value)}
    found |= {field.name for field in dataclasses.fields(one)} if dataclasses.is_dataclass(one) else set()
    found |= set(getattr(one, "_fields", ()))
    return sorted(found)


def script() -> str:
    """The calls, and every member of every class read under the class's public name."""
    reads = [
        f"def read_{name}(x: hlorun.{name}{'[Any]' if name == 'BatchRecord' else ''}) -> list[object]:\n"
        f"    return [{', '.join(f'x.{member}' for member in members(one))}]\n"
        for name, one in classes().items()
    ]
    return "\n\n".join([CALLS.strip(), *reads])


def used(node: ast.AST) -> set[str]:
    """Names read as `hlorun.NAME`."""
    return {
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id == "hlorun"
    }


def test_every_public_function_is_called() -> None:
    assert set(hlorun.__all__) - set(classes()) - used(ast.parse(CALLS)) == set()


def test_it_runs(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(CALLS, encoding="utf-8")
    folder = tmp_path / "xla"
    folder.mkdir()
    subprocess.run([sys.executable, tmp_path / "script.py", folder], check=True, timeout=300)


def test_a_strict_checker_accepts_it(tmp_path: Path) -> None:
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    (tmp_path / "script.py").write_text(script(), encoding="utf-8")
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "script.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def annotated(one: Any) -> set[str]:
    """Names of classes in what a public class or function is annotated with."""
    if isinstance(one, property):
        one = one.fget
    texts: list[str] = [str(text) for text in getattr(one, "__annotations__", {}).values()]
    for name, member in vars(one).items() if inspect.isclass(one) else ():
        if not name.startswith("_") and (isinstance(member, property) or inspect.isfunction(member)):
            texts += [str(name) for name in annotated(member)]
    return {
        each.id
        for text in texts
        for each in ast.walk(ast.parse(text, mode="eval"))
        if isinstance(each, ast.Name)
    }


def ours() -> set[str]:
    """Names of hlorun's classes, public or not."""
    modules = [module for name, module in sys.modules.items() if name.startswith("hlorun")]
    return {
        name
        for module in modules
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__.startswith(("hlorun", "_hlorun"))
    }


def test_what_is_returned_can_be_named() -> None:
    """Classes that public calls and fields have as types are public."""
    mentioned = {name for public in hlorun.__all__ for name in annotated(getattr(hlorun, public))}
    for node in ast.parse(STUB.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name in hlorun.__all__:
            returned = [
                part.returns
                for part in ast.walk(node)
                if isinstance(part, ast.FunctionDef) and not part.name.startswith("_") and part.returns
            ]
            mentioned |= {
                each.id for part in returned for each in ast.walk(part) if isinstance(each, ast.Name)
            }
    assert (mentioned & ours()) - set(hlorun.__all__) == set()
