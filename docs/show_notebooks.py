"""Shows notebooks as pages of the site: a hook of mkdocs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def _fenced(text: str, language: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```"


def _output(output: dict[str, Any]) -> str:
    if output["output_type"] == "stream":
        return _fenced("".join(output["text"]), "text")
    data = output["data"]
    if "image/png" in data:
        return f"![What the cell draws](data:image/png;base64,{''.join(data['image/png']).strip()})"
    return _fenced("".join(data["text/plain"]), "text")


def page(notebook: dict[str, Any], name: str) -> str:
    """The Markdown of a notebook.

    Args:
        notebook: What its JSON says.
        name: Its file, which the page links to.

    Returns:
        Text, code and what the code gave, in their order.
    """
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else _fenced(source, "python"))
        parts += [_output(output) for output in cell.get("outputs", [])]
    title, *rest = parts
    return "\n\n".join((title, f"[This page as a notebook]({name})", *rest)) + "\n"


def on_files(files: Any, config: Any) -> Any:
    """Give every notebook a page beside it."""
    from mkdocs.structure.files import File

    for path in sorted((Path(config.docs_dir) / "notebooks").glob("*.ipynb")):
        content = page(json.loads(path.read_text(encoding="utf-8")), path.name)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=content))
    return files
