"""Engines of strangers' wheels, which ``tileir.distribute`` finds by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from click.testing import CliRunner

import tileir
from strategies.wheels import install
from tileir.core import ArgumentError, BackendError
from tileir.core.extensions import EXTENSIONS
from tileir.runtime.transports import THREADS
from tileir_cli import main as cli

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODULE = """
import threading
from collections import defaultdict
from queue import Queue

from tileir.runtime.transports import Transport


class Mail(Transport):
    # The least that an engine writes: everything else is made of exchange.
    def __init__(self, rank, size, boxes):
        self.rank, self.size, self.boxes = rank, size, boxes

    def exchange(self, sent, received):
        for rank, array in sent:
            self.boxes[self.rank, rank].put(array.copy())
        for rank, array in received:
            array[...] = self.boxes[rank, self.rank].get()

    def abort(self, error):
        pass


class Post:
    name = "post"

    def launch(self, size, work):
        boxes = {(a, b): Queue() for a in range(size) for b in range(size)}
        found = {}
        ranks = [
            threading.Thread(target=lambda rank=rank: found.update({rank: work(Mail(rank, size, boxes))}))
            for rank in range(size)
        ]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join()
        return found


POST = Post()
MISNAMED = Post()
NOTHING = 3
"""
GROUPS = {
    "tileir.transports": {"post": "post_wheel:POST", "other": "post_wheel:MISNAMED", "nothing": "post_wheel:NOTHING"}
}


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tileir.Partitioned]:
    install(tmp_path, monkeypatch, "post_wheel", GROUPS, MODULE)
    text = "function (A[N, M]) -> (S, B) { S[i : N] = +(A[i, j]); B = A + A; }"
    shardings = {"A": ("x", "y")}
    yield tileir.partition(text, {"x": 2, "y": 2}, shardings, outputs={"S": ("x",)}, arguments=[("i32", (5, 3))])
    monkeypatch.undo()
    EXTENSIONS.forget()


def test_an_engine_of_a_wheel_runs_a_program(program: tileir.Partitioned) -> None:
    array = np.arange(15, dtype=np.int32).reshape(5, 3)
    sums, doubled = tileir.distribute(program, "post")(array)
    np.testing.assert_array_equal(sums, array.sum(1))
    np.testing.assert_array_equal(doubled, 2 * array)


def test_an_engine_itself_runs_a_program(program: tileir.Partitioned) -> None:
    array = np.arange(15, dtype=np.int32).reshape(5, 3)
    sums, _ = tileir.distribute(program, THREADS)(array)
    np.testing.assert_array_equal(sums, array.sum(1))
    with pytest.raises(ArgumentError, match=r"TIL707.*of type int, not the name of an engine, nor one itself"):
        tileir.distribute(program, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "fault"), [("other", "calls itself 'post'"), ("nothing", "int without name and launch")]
)
def test_offers_that_are_no_engine(program: tileir.Partitioned, name: str, fault: str) -> None:
    with pytest.raises(BackendError, match=f"TIL811.*{fault}"):
        tileir.distribute(program, name)
    listed = CliRunner().invoke(cli.commands, ["extensions"])
    assert "transport" in listed.output
