"""The tables of `hlorun.batch` on a real Ray cluster of this machine, with a worker that is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("ray", reason="Ray is not installed")

RUN = """
import json, os, sys
from pathlib import Path
import ray
import hlorun, hlorun.ray
from hlorun.tables import parts

dumps, out = Path(sys.argv[1]), Path(sys.argv[2])
parts.PART_FILES = 2

# Every worker imports this: some files kill the worker that reads them, once or always.
SETUP = '''
import os, signal
from pathlib import Path
from hlorun.tables import write
made = write._module
def module(path, *rest):
    name = os.path.basename(path)
    once = Path(path).with_suffix(".killed")
    if name.startswith("always") or (name.startswith("once") and not once.exists()):
        once.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return made(path, *rest)
write._module = module
'''
(out.parent / "killing.py").write_text(SETUP)
env = {"PYTHONPATH": os.pathsep.join([str(out.parent), *sys.path])}

def setup():
    import killing

ray.init(num_cpus=3, include_dashboard=False, configure_logging=False, log_to_driver=False,
         runtime_env={"env_vars": env, "worker_process_setup_hook": setup})
hlorun.ray.RETRIES = 1
done = hlorun.ray.batch(dumps, out=out)
again = hlorun.ray.batch(dumps, out=out)
ray.shutdown()
counts = [[done.files, done.failed, done.skipped], [again.files, again.failed, again.skipped]]
(out.parent / "counts.json").write_text(json.dumps(counts))
"""

GOOD = "HloModule good\n\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT y = f32[4] add(x, x)\n}\n"


def test_nothing_is_lost_and_nothing_twice(tmp_path: Path) -> None:
    from pyarrow import parquet

    dumps = tmp_path / "dumps"
    dumps.mkdir()
    for number in range(13):
        (dumps / f"{number:02}.hlo").write_text(GOOD)
    (dumps / "bad.hlo").write_text("HloModule bad")
    (dumps / "once.hlo").write_text(GOOD)
    (dumps / "always.hlo").write_text(GOOD)
    out = tmp_path / "tables"
    # A process of its own, since Ray leaves threads and files open.
    done = subprocess.run(
        [sys.executable, "-c", RUN, dumps, out],
        capture_output=True,
        text=True,
        timeout=540,
    )
    assert done.returncode == 0, done.stderr
    assert (dumps / "once.killed").exists()
    assert json.loads((tmp_path / "counts.json").read_text()) == [[16, 2, 0], [16, 0, 16]]
    rows = [
        row for path in out.glob("part-*/modules.parquet") for row in parquet.read_table(path).to_pylist()
    ]
    assert sorted(row["path"] for row in rows) == sorted(str(path) for path in dumps.glob("*.hlo"))
    errors = {Path(row["path"]).stem: row["error_message"] for row in rows if row["error_kind"]}
    assert set(errors) == {"bad", "always"} and "worker died" in errors["always"]
    edges = list(out.glob("part-*/edges.parquet"))
    assert sum(parquet.read_metadata(path).num_rows for path in edges) == 2 * 14
    assert not [path for path in out.iterdir() if path.name.startswith(".part")]
