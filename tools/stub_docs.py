"""Writes the docstrings of python/hlorun/_hlorun.pyi from the binding's own: `python tools/stub_docs.py`.

What `help()` says comes from the doc comments of rust/hlorun-python. Editors and the documentation read the
stub, and are to say the same.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from textwrap import indent

ROOT = Path(__file__).parents[1]
STUB = ROOT / "python" / "hlorun" / "_hlorun.pyi"
SOURCES = ROOT / "rust" / "hlorun-python" / "src"

SLOTS = ("__call__", "__getitem__")
"""Special methods that have a docstring in the stub."""


def comments(source: str) -> dict[str, str]:
    """Doc comments of one Rust file by the Python names of their items: `Shape`, `Shape.dims`, `load`."""
    marked = r'#\[pyclass\([^]]*name = "(\w+)"[^]]*\)\]\s*(?:#\[[^]]*\]\s*)*(?:pub )?struct (\w+)'
    python = {rust: name for name, rust in re.findall(marked, source)}
    found: dict[str, str] = {}
    doc: list[str] = []
    owner = renamed = ""
    for line in source.splitlines():
        text = line.strip()
        if text.startswith("///"):
            doc.append(text[3:].removeprefix(" "))
            continue
        if text.startswith("#["):
            given = re.search(r'pyo3\(name = "(\w+)"', text)
            renamed = given[1] if given else renamed
            continue
        item = re.match(r"(?:pub(?:\(\w+\))? )?(impl|struct|fn|(?=\w+: ))\s*(\w+)", text)
        if item is not None:
            kind, name = item.groups()
            if kind in ("impl", "struct"):
                owner = python.get(name, "")
                key = owner if kind == "struct" else ""
            else:
                name = renamed or name
                key = f"{owner}.{name}" if line.startswith(" ") and owner else name
            if doc and key:
                found.setdefault(key, "\n".join(doc))
        if text and not text.startswith("//"):
            doc, renamed = [], ""
        if line == "}":
            owner = ""
    return found


def documented() -> dict[str, str]:
    """Doc comments of the whole binding."""
    found: dict[str, str] = {}
    for path in sorted(SOURCES.rglob("*.rs")):
        for key, text in comments(path.read_text(encoding="utf-8")).items():
            if key[0].isupper() or path.name in ("reading.rs", "compiling.rs", "assignment.rs"):
                found[key] = text
    return found


def definitions(tree: ast.Module) -> list[tuple[str, ast.ClassDef | ast.FunctionDef]]:
    """The public definitions of the stub, by their names."""
    found: list[tuple[str, ast.ClassDef | ast.FunctionDef]] = []
    for node in tree.body:
        if not isinstance(node, (ast.ClassDef, ast.FunctionDef)) or node.name.startswith("_"):
            continue
        found.append((node.name, node))
        for inner in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(inner, ast.FunctionDef) and (inner.name in SLOTS or not inner.name.startswith("_")):
                found.append((f"{node.name}.{inner.name}", inner))
    return found


def document() -> str:
    """The stub with the docstrings of today."""
    stub = STUB.read_text(encoding="utf-8")
    docs = documented()
    lines = stub.splitlines()
    for name, node in reversed(definitions(ast.parse(stub))):
        if name not in docs:
            continue
        margin = " " * (node.col_offset + 4)
        text = docs[name]
        quotes = ('r"""' if "\\" in text else '"""', '"""')
        literal = f"{quotes[0]}{text}\n{quotes[1]}" if "\n" in text else f"{quotes[0]}{text}{quotes[1]}"
        made = indent(literal, margin).splitlines()
        first = node.body[0]
        assert first.end_lineno is not None
        is_doc = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        head = lines[first.lineno - 1][: first.col_offset].rstrip()
        start = first.lineno - 1
        before = [head] if head else []
        after = lines[first.end_lineno if is_doc else start :]
        if not is_doc and after and after[0].strip():
            made.append("")
        lines = [*lines[:start], *before, *made, *after]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    STUB.write_text(document(), encoding="utf-8")
