from __future__ import annotations

from pathlib import Path

import pytest

from tileir.core.errors import TileError
from tileir.driver.cli_values import destinations, load
from tileir.tile.parser import parse

TWO = parse("function (A, S) -> (P, Q) { P = A + S; Q = A * S; }")


def test_results_go_where_they_are_sent() -> None:
    assert destinations(TWO, ["Q=q.png", "p.npy"]) == {"Q": Path("q.png"), "P": Path("p.npy")}
    assert destinations(TWO, ["out/a=b.npy"]) == {"P": Path("out/a=b.npy")}


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (["R=r.npy"], "-o R=r.npy: there is no result 'R'; they are P, Q"),
        (["P=a.npy", "P=b.npy"], "-o P=b.npy: result 'P' goes to a.npy already"),
        (["a.npy", "b.npy", "c.npy"], "there are 2 results, so -o c.npy has none left to write"),
        (["a.gif"], "-o a.gif: the name must end in .npy or in that of a picture format, such as .png"),
    ],
)
def test_wrong_destinations_are_told(outputs: list[str], message: str) -> None:
    with pytest.raises(TileError) as caught:
        destinations(TWO, outputs)
    assert [(fault.code, fault.message) for fault in caught.value.diagnostics] == [("TIL902", message)]


def test_a_value_is_needed() -> None:
    with pytest.raises(TileError, match="input 'A' has no value; write A=FILE or A=NUMBER"):
        load("A", "")
