"""Arguments of other kinds than asked for, as callers without a type checker pass them, are told as such."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tileir
from tileir.core.errors import ArgumentError, TileError

if TYPE_CHECKING:
    from collections.abc import Callable

ADD = "function (A, B) -> (S) { S = A + B; }"
A = np.ones((2, 2), np.float32)
BOOLS = A > 0
anything: Any = tileir
"""The package to a type checker that knows nothing of it."""

CALLS: dict[str, Callable[[Any], object]] = {
    "after": lambda wrong: anything.jit(ADD).submit(A, A, after=wrong),
    "after of an executable": lambda wrong: anything.compile(ADD, [(2, 2)] * 2).submit(A, A, after=wrong),
    "stage": lambda wrong: anything.parse(ADD, stage=wrong),
    "name": lambda wrong: anything.parse(ADD, wrong),
    "arrays": lambda wrong: anything.parse(ADD, arrays=wrong),
    "copy": lambda wrong: anything.to_device(A, copy=wrong),
    "class": lambda wrong: anything.from_json(tileir.to_json(tileir.parse(ADD)), wrong),
    "ties": lambda wrong: anything.gradient(ADD, ties=wrong),
    "formula": lambda wrong: anything.craft(wrong),
    "functions": lambda wrong: anything.craft("smooth = gaussian(sigma=0.5)", wrong),
    "live": lambda wrong: anything.craft("smooth = gaussian(sigma=0.5)", live=wrong),
}


@pytest.mark.sampled(81)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("wrong", [5, 2.5, "s", object(), BOOLS, np.float32(1), np.array("text"), [5], {1: A}, tileir])
def test_other_kinds_are_told(call: str, wrong: object) -> None:
    if isinstance(wrong, str) and call in ("name", "formula", "live", "stage"):
        pytest.skip("a name, if not of anything")
    if isinstance(wrong, dict | list | np.ndarray) and call in ("live", "functions"):
        pytest.skip("of the right kind, and told by what it holds")
    with pytest.raises(ArgumentError, match="TIL707"):
        CALLS[call](wrong)


def test_updates_by_what_is_no_name_are_told() -> None:
    with pytest.raises(ArgumentError, match=r"TIL709.*there is no result array"):
        anything.stepper(ADD, {"A": A}, {"A": A})


def test_targets_of_names_that_no_file_has_are_told() -> None:
    with pytest.raises(TileError, match=r"TIL901.*cannot read xxx"):
        tileir.compile(ADD, [(2, 2)] * 2, target="x" * 100_000)


def test_what_fits_is_taken() -> None:
    first = tileir.jit(ADD).submit(A, A)
    assert tileir.jit(ADD).submit(A, A, after=[first]).result().tolist() == [[2, 2], [2, 2]]
    assert tileir.jit(ADD).submit(A, A, after=(first,)).done in (True, False)
    assert tileir.parse(ADD, arrays=(each for each in (A,))) == tileir.parse(ADD)
    assert tileir.to_device(A, copy=np.True_).shape == (2, 2)  # type: ignore[arg-type]
