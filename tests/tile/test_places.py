"""Places of the caller's own, which errors, warnings, kernels and remarks name instead of lines of Python."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import tileir
from tileir import ops
from tileir.core.errors import TileError
from tileir.core.text.span import call_site
from tileir.stripe.works import Launch
from tileir.tile.builder import FunctionBuilder
from tileir.tile.ir import Function

CONV, ADD = "node '/layer1/conv'", "node '/layer2/add'"


def layered() -> Function:
    f = FunctionBuilder()
    x, w, b = f.input("X", "N", "K"), f.input("W", "K", "M"), f.input("B", "M")
    with f.at(CONV):
        product = ops.matmul(x, w)
    with f.at(ADD):
        return f.build(O=product + b)


def test_errors_while_building_name_the_place() -> None:
    f = FunctionBuilder()
    x = f.input("X", "N", "K")
    with f.at(CONV), pytest.raises(TileError) as caught:
        x[f.index("i")]
    assert str(caught.value) == f"{CONV}: error[TIL209]: this tensor has rank 2, but there are 1 indices"
    with f.at(CONV), pytest.raises(TileError, match=f"^{CONV}: error"):
        ops.reshape(x, "no size")  # type: ignore[arg-type]  # what a caller without a checker does


def test_errors_of_types_name_the_place() -> None:
    f = FunctionBuilder()
    x, y = f.input("X", "N"), f.input("Y", "M")
    with f.at(ADD):
        total = x + y
    with pytest.raises(TileError) as caught:
        tileir.compile(f.build(O=total), {"X": "f32[2]", "Y": "f32[3]"})
    (fault,) = caught.value.diagnostics
    assert (fault.code, fault.underlined) == ("TIL301", ADD)
    assert str(caught.value).startswith(f"{ADD}: error[TIL301]: ")
    assert "\n" not in str(caught.value)


def test_warnings_name_the_place() -> None:
    f = FunctionBuilder()
    x = f.input("X", "N")
    with f.at(CONV):
        f.let("Unused", x + 1)
    (warning,) = f.build(O=x * 2).warnings
    assert warning.render().startswith(f"{CONV}: warning[TIL232]: ")


def test_warnings_about_what_the_library_made_stay_hidden() -> None:
    f = FunctionBuilder()
    x = f.input("X", "N")
    with f.at(CONV):
        ops.relu(x + 1)
    assert [step.span.by_library for step in x.recorder.steps.values() if step.span is not None] == [False, True]


def test_kernels_and_remarks_name_the_place() -> None:
    executable = tileir.compile(layered(), {"X": "f32[64, 64]", "W": "f32[64, 64]", "B": "f32[64]"})
    assert [work.name for work in executable.stripe.works if isinstance(work, Launch)] == [CONV, ADD]
    assert any(CONV in str(remark) for remark in executable.remarks)
    assert "layer1_conv" in executable.sem.kernels[0].name
    assert CONV in str(tileir.explain(layered(), {"X": "f32[64, 64]", "W": "f32[64, 64]", "B": "f32[64]"}))


def test_places_change_nothing_else() -> None:
    f = FunctionBuilder()
    x, w, b = f.input("X", "N", "K"), f.input("W", "K", "M"), f.input("B", "M")
    assert f.build(O=ops.matmul(x, w) + b) == layered()
    x, w = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)  # type: ignore[assignment]
    np.testing.assert_array_equal(tileir.evaluate(layered(), [x, w, np.ones(4, np.float32)]), np.full((2, 4), 4.0))


def test_places_end_and_nest() -> None:
    f = FunctionBuilder()

    def place() -> str | None:
        span = call_site()
        return None if span is None else span.place

    assert place() is None
    with f.at("outer"):
        with f.at("inner"):
            assert place() == "inner"
        assert place() == "outer"
        with pytest.raises(ValueError, match="x"), f.at("failing"):
            raise ValueError("x")
        assert place() == "outer"
        elsewhere: list[str | None] = []
        thread = threading.Thread(target=lambda: elsewhere.append(place()))
        thread.start()
        thread.join()
        assert elsewhere == [None]
    assert place() is None


@pytest.mark.parametrize("name", ["", "two\nlines", 3])
def test_what_is_no_place(name: str) -> None:
    with pytest.raises(TileError) as caught:
        FunctionBuilder().at(name)
    assert caught.value.diagnostics[0].code == "TIL211"


def test_blanks_around_a_place_are_dropped() -> None:
    f = FunctionBuilder()
    x = f.input("X", "N")
    with f.at("  node 'a' "):
        y = x * 2
    function = f.build(Y=y)
    assert tileir.jit(function)(np.ones(3, np.float32)).tolist() == [2, 2, 2]
    with pytest.raises(TileError, match="TIL211"), f.at("  "):
        pass
