"""Replicas in real MPI jobs. `HLORUN_REQUIRE_MPI=1` makes a missing `mpirun` a failure."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import hlorun
from conftest import dump_path
from hlorun._inputs import random_inputs

WORKER = Path(__file__).parent / "worker.py"
MISSING = [
    what
    for what, found in (
        ("mpirun (Debian: openmpi-bin)", shutil.which("mpirun")),
        ("mpi4py (pip install hlorun[mpi])", importlib.util.find_spec("mpi4py")),
    )
    if not found
]


@pytest.fixture(autouse=True)
def _needs_mpi() -> None:
    if MISSING:
        message = f"NOT TESTED: replicas over MPI; missing: {', '.join(MISSING)}"
        if os.environ.get("HLORUN_REQUIRE_MPI"):
            pytest.fail(message)
        pytest.skip(message)


def environment(**more: str) -> dict[str, str]:
    """Lets Open MPI run as root, with more ranks than cores, without kernel help for copies."""
    return {
        **os.environ,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
        "OMPI_MCA_btl": "self,vader,tcp",
        **more,
    }


def start(ranks: int, *command: str, **more: str) -> subprocess.Popen[str]:
    """Starts a job."""
    return subprocess.Popen(
        ["mpirun", "-n", str(ranks), sys.executable, *command],
        env=environment(**more),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(job: subprocess.Popen[str], seconds: float) -> tuple[int, str, str]:
    """Exit status and output of a job that ends within `seconds`."""
    try:
        out, err = job.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        job.terminate()
        out, err = job.communicate(timeout=20)
        pytest.fail(f"the job still ran after {seconds} s:\n{out}\n{err}")
    return job.returncode, out, err


@pytest.mark.parametrize("ranks", [8, 3])
def test_every_case_agrees_with_xla(ranks: int) -> None:
    status, out, err = finish(start(ranks, str(WORKER), "cases"), 300)
    assert status == 0, err
    assert out.count("cases agree") == ranks


def test_more_ranks_than_devices() -> None:
    status, out, err = finish(start(9, str(WORKER), "cases"), 300)
    assert status == 0, err
    assert out.count("cases agree") == 9


def test_messages_larger_than_a_packet() -> None:
    status, out, err = finish(start(2, str(WORKER), "large"), 200)
    assert status == 0, err
    assert out.count("right") == 2


def test_the_command_gives_the_bits_of_one_process(tmp_path: Path) -> None:
    dump = dump_path("003")
    out = tmp_path / "out.npz"
    job = start(8, "-m", "hlorun", "run", "--mpi", str(dump), "--seed", "5", "--out", str(out))
    status, text, err = finish(job, 200)
    assert status == 0, err
    assert "8 replicas on 8 MPI ranks" in text
    module = hlorun.load(dump)
    want = hlorun.compile(module, replicas=8).run_replicas([random_inputs(module, 5 + r) for r in range(8)])
    for rank, replica in enumerate(want):
        with np.load(tmp_path / f"out.rank{rank}.npz") as file:
            for k, value in enumerate(replica):
                assert file[f"replica_{rank}_output_{k}"].tobytes() == value.tobytes()


@pytest.mark.parametrize("ranks", [2, 4])
def test_transfers_between_ranks(ranks: int) -> None:
    status, out, err = finish(start(ranks, str(WORKER), "transfers", HLORUN_MPI_TIMEOUT="5"), 60)
    assert status == 0, err
    assert out.count("waits in recv-done got for others") == ranks, out


def test_a_failing_device_stops_all_ranks_with_its_error() -> None:
    status, out, err = finish(start(4, str(WORKER), "failing"), 120)
    assert status == 0, err
    assert out.count("says:") == 4
    assert out.count("rows 99 to 198 are sent") == 4
    assert "replica 2 failed: ragged-all-to-all r" in out


def test_a_timeout_of_one_rank_ends_the_run_of_all() -> None:
    status, out, err = finish(start(3, str(WORKER), "late"), 120)
    assert status == 0, err
    assert "rank 1 says: HloTimeoutError: the run was ended after its timeout of 1 s" in out
    assert out.count("says: HloExecutionError") == 2, out


def victims(folder: Path, ranks: int) -> list[int]:
    """Process ids of the ranks, once all run."""
    deadline = time.monotonic() + 60
    while len(list(folder.glob("*.pid"))) < ranks:
        assert time.monotonic() < deadline, "the job does not start"
        time.sleep(0.05)
    time.sleep(0.5)
    return [int((folder / f"{rank}.pid").read_text()) for rank in range(ranks)]


def test_a_killed_rank_ends_the_job_and_is_named(tmp_path: Path) -> None:
    job = start(4, str(WORKER), "forever", str(tmp_path))
    os.kill(victims(tmp_path, 4)[2], signal.SIGKILL)
    status, _, err = finish(job, 60)
    assert status != 0
    assert "rank 2" in err.lower()


def test_a_rank_that_hangs_ends_the_job_and_is_named(tmp_path: Path) -> None:
    job = start(4, str(WORKER), "forever", str(tmp_path), HLORUN_MPI_TIMEOUT="3")
    os.kill(victims(tmp_path, 4)[2], signal.SIGSTOP)
    status, _, err = finish(job, 60)
    assert status != 0
    assert "rank 2, which runs replica 2, has been silent for" in err


def test_the_command_names_the_rank_that_cannot_go_on(tmp_path: Path) -> None:
    text = "p = f32[4] parameter(0)\nROOT r = f32[12] all-gather(p), dimensions={0}"
    (tmp_path / "m.txt").write_text(f"HloModule m\nENTRY e {{\n{text}\n}}\n")
    status, _, err = finish(start(2, "-m", "hlorun", "run", "--mpi", str(tmp_path / "m.txt")), 60)
    assert status != 0
    assert "of 2:" in err
    assert "groups of 3 devices, but 2" in err
