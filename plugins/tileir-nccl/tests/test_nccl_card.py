"""NCCL itself, on the cards that there are: one rank in this process, and two in processes of their own."""

from __future__ import annotations

import importlib.util
import os
import re
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileir
from tileir.core import Aggregation
from tileir.runtime.transports import Merge, Transport
from tileir_testing.transports import check_transport


@cache
def cards() -> int:
    """Return how many cards there are; none where NCCL cannot be called."""
    if importlib.util.find_spec("nccl") is None:
        return 0
    return sum(each.backend == "cuda" for each in tileir.Context().devices())


@pytest.fixture(autouse=True)
def _card() -> None:
    if not cards():
        pytest.skip("there is no card, or no nccl4py")


def test_the_kit_of_transports_on_one_rank() -> None:
    from tileir_nccl import Cards

    check_transport(Cards(timeout=60), 1)


def test_collectives_are_captured_in_a_graph() -> None:
    from cuda.bindings import driver

    from tileir_nccl import Cards

    def called(found: tuple[Any, ...]) -> Any:
        assert not int(found[0]), found[0]
        return found[1] if len(found) > 1 else None

    def work(end: Transport) -> Any:
        given = tileir.to_device(np.arange(5, dtype=np.float32), end.device)
        found = tileir.to_device(np.zeros(5, np.float32), end.device)
        assert end.merged([Merge([given], found, Aggregation.SUM)], [0])
        found.fill(np.zeros(5, np.float32))
        executor: Any = given.home.executor
        stream = driver.CUstream(executor.dlpack_stream)
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        called(driver.cuStreamBeginCapture(stream, mode))
        end.merged([Merge([given], found, Aggregation.SUM)], [0])
        graph = called(driver.cuGraphInstantiate(called(driver.cuStreamEndCapture(stream)), 0))
        called(driver.cuGraphLaunch(graph, stream))
        called(driver.cuStreamSynchronize(stream))
        return found.numpy()

    np.testing.assert_array_equal(Cards(timeout=60).launch(1, work)[0], np.arange(5))


@pytest.mark.skipif("cards() < 2", reason="two ranks need two cards")
def test_the_kit_of_transports_on_two_ranks() -> None:
    said = started(["-m", "tileir.testing", "--extension", "transport", "nccl", "--ranks", "2"], [0, 0])
    assert all("transport nccl: all checks passed" in each for each in said)


@pytest.mark.skipif("cards() < 2", reason="two ranks need two cards")
@pytest.mark.parametrize(
    ("how", "codes", "message"),
    [
        ("ends", [0, 0], "right"),
        ("killed", [3, -9], r"after [0-4]\.\d s: error\[TIL814\]: rank 1 has ended, and rank 0 waits in recorded work"),
        ("late", [3, 0], r"error\[TIL816\]: rank 0 waits in recorded work for \d+ s: rank 1 is late"),
    ],
)
def test_jobs_of_two_ranks(how: str, codes: list[int], message: str) -> None:
    said = started([str(Path(__file__).with_name("nccl_job.py")), how], codes)
    assert re.search(message, said[0]), said


def started(command: list[str], codes: list[int]) -> list[str]:
    """Return what two ranks say, which end with these codes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    told = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    ranks = [
        subprocess.Popen(
            [sys.executable, *command],
            env={**os.environ, **told, "RANK": rank, "LOCAL_RANK": rank},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in ("0", "1")
    ]
    said = [rank.communicate(timeout=300)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == codes, said
    return said
