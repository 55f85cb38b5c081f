"""Errors show one frame of tileir at most, and none of the user's is lost."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tileir
from strategies.tile_parts import Parts
from tileir import FunctionBuilder, TileError, ops
from tileir.core.tracebacks import at_the_call
from tileir.tile import builder_functions as tf

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE = str(Path(tileir.__file__).parent)


def frames(error: BaseException) -> list[str]:
    """The functions of tileir in a traceback."""
    found = traceback.extract_tb(error.__traceback__)
    return [frame.name for frame in found if frame.filename.startswith(PACKAGE)]


@pytest.mark.parametrize(
    "mistake",
    [
        lambda p: p.x + "x",
        lambda p: 1 + ops.softmax(p.x, dim=3),  # type: ignore[call-arg]
        lambda p: ops.max_pool(p.x, 2),
        lambda p: p.b[p.i * p.i],
        lambda p: (p.i + 1) * p.i,
        lambda p: p.n + "x",
        lambda p: p.f.build(),
        lambda p: bool(p.x),
        lambda _: tileir.parse("function"),
        lambda _: tileir.compile("function (A) -> (B) { B = A; }", []),
        lambda _: tileir.jit("function"),
        lambda _: tileir.gradient("function (A) -> (B) { B = A; }", wrt=["Q"]),
        lambda _: tileir.explain("function"),
        lambda _: tileir.warnings_of("function"),
        lambda _: tileir.stepper("function", updates={}, state={}),
        lambda _: tileir.evaluate("function (A) -> (B) { B = A + C; }", [np.ones(3)]),
    ],
)
def test_one_frame_at_most(mistake: Callable[[Any], object]) -> None:
    parts = Parts()
    with pytest.raises(TileError) as caught:
        mistake(parts)
    assert len(frames(caught.value)) <= 1


def test_calls_of_jit_show_two_frames_at_most() -> None:
    function = tileir.jit("function (A[N], B[N]) -> (C) { C = A + B; }")
    for arguments in ((np.ones(3),), (np.ones(3), np.ones(4)), (np.ones(3), "x")):
        with pytest.raises(TileError) as caught:
            function(*arguments)
        assert len(frames(caught.value)) <= 2


def test_functions_of_the_builder_show_themselves_too() -> None:
    a = FunctionBuilder().input("A")
    with pytest.raises(TileError) as caught:
        tf.where(a, a)  # type: ignore[call-overload]
    assert len(frames(caught.value)) <= 2


def test_frames_of_the_user_stay() -> None:
    def step(a: Any) -> Any:
        return a + "x"

    with pytest.raises(TileError) as caught:
        tf.scan(step, [FunctionBuilder().input("A")], count=3)
    assert "step" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]


def test_other_errors_keep_their_frames() -> None:
    @at_the_call
    def broken() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        broken()
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "broken"
