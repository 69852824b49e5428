"""The graphs of the table `graphs` as NumPy arrays, for learning."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hlorun._hlorun import _batch_schema
from hlorun.errors import HloArgumentError
from hlorun.tables.parts import whole_parts

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True)
class ModuleGraph:
    """A module as a graph: its instructions are the nodes, in the order of their ids.

    Attributes:
        path: The file.
        fingerprint: As `module.fingerprint()`.
        opcode: Number of each node's opcode, int64[nodes].
        computation: Number of each node's computation, int64[nodes].
        features: Features of each node, float32[nodes, features]; `hlorun.batch_schema()["features"]` names
            them.
        edge_starts: Where the operands of each node begin in `edge_sources`, int64[nodes + 1].
        edge_sources: The operands of all nodes, int64[edges].
        call_edges: Pairs of a node and the root of a computation that it calls, int64[calls, 2].

    Examples:
        >>> done = hlorun.batch("dumps", out="tables")
        >>> graph = next(hlorun.graphs("tables"))
        >>> graph.opcode.shape, graph.edge_index.shape
        ((133,), (2, 144))
    """

    path: str
    fingerprint: str
    opcode: npt.NDArray[np.int64] = field(repr=False)
    computation: npt.NDArray[np.int64] = field(repr=False)
    features: npt.NDArray[np.float32] = field(repr=False)
    edge_starts: npt.NDArray[np.int64] = field(repr=False)
    edge_sources: npt.NDArray[np.int64] = field(repr=False)
    call_edges: npt.NDArray[np.int64] = field(repr=False)

    @property
    def edge_index(self) -> npt.NDArray[np.int64]:
        """Edges as PyTorch Geometric has them: row 0 from where, row 1 to where, int64[2, edges]."""
        targets = np.repeat(np.arange(len(self.opcode)), np.diff(self.edge_starts))
        return np.stack([self.edge_sources, targets])


def graphs(folder: str | os.PathLike[str]) -> Iterator[ModuleGraph]:
    """The graphs of a folder that `hlorun.batch(paths, out=folder)` has written, one at a time.

    Args:
        folder: The folder of the tables.

    Yields:
        One `ModuleGraph` per module.

    Raises:
        HloArgumentError: The folder has no table `graphs`.
        ModuleNotFoundError: pyarrow is not installed.

    Examples:
        >>> done = hlorun.batch("dumps", out="tables")
        >>> next(hlorun.graphs("tables")).features.shape
        (133, 62)
    """
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ModuleNotFoundError("hlorun.graphs needs pyarrow: pip install 'hlorun[arrow]'") from error
    parts = [part / "graphs.parquet" for part in whole_parts(Path(folder))]
    parts = [part for part in parts if part.exists()]
    if not parts:
        raise HloArgumentError(f"{folder} has no table of graphs; hlorun.batch(paths, out=folder) writes it")
    width = len(_batch_schema()["features"])
    for part in parts:
        with parquet.ParquetFile(part) as file:
            for batch in file.iter_batches(batch_size=16):
                for row in range(batch.num_rows):
                    yield _graph(batch, row, width)


def _graph(batch: Any, row: int, width: int) -> ModuleGraph:
    def of(name: str) -> Any:
        return batch.column(name)[row].values.to_numpy(zero_copy_only=False)

    return ModuleGraph(
        batch.column("path")[row].as_py(),
        batch.column("fingerprint")[row].as_py(),
        of("opcode"),
        of("computation"),
        of("features").reshape(-1, width),
        of("edge_starts"),
        of("edge_sources"),
        of("call_edges").reshape(-1, 2),
    )
