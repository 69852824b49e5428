"""Runs the notebooks and writes their outputs: `python docs/run_notebooks.py [--check]`; that writes nothing.

Needs `pip install --group notebooks`, and hlorun.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent / "notebooks"


def run(path: Path, *, write: bool, timeout: float = 600) -> None:
    """Run a notebook from its first cell, in a kernel of its own.

    Args:
        path: An .ipynb file.
        write: Whether to keep the outputs.
        timeout: Seconds that one cell may take.

    Raises:
        CellExecutionError: A cell raised; the message has its traceback.
    """
    notebook = nbformat.read(path, as_version=4)
    metadata = dict(notebook.metadata)
    client = NotebookClient(notebook, timeout=timeout, record_timing=False)
    client.execute(cwd=str(path.parent))
    # What the kernel says of itself is another on every machine.
    notebook.metadata = nbformat.from_dict(metadata)
    if write:
        nbformat.write(notebook, path)


def main() -> None:
    """Run all of them."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        print(path.name, flush=True)
        run(path, write="--check" not in sys.argv[1:])


if __name__ == "__main__":
    main()
