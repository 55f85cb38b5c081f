"""Operations on what other operations made, of axes with odd and even sizes, 1 and 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, note, strategies as st

import tileir
from strategies.compositions import Composition, compositions, shapes
from strategies.effort import examples
from strategies.operation_steps.step import Array, UnfitError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.tile.ir import Function


def built(build: Callable[[], Function]) -> Function | None:
    """Return the function, or None where sizes that are known while building fit no operation, whatever the others."""
    try:
        function = build()
    except tileir.TileError as error:
        if {diagnostic.code for diagnostic in error.diagnostics} <= {"TIL310", "TIL314"}:
            return None
        raise
    note(tileir.to_text(function))
    return function


def cases(data: st.DataObject, composition: Composition, most: int) -> list[tuple[Array, Array]]:
    """Return arrays that the composition takes, each with the result."""
    numbers = np.random.default_rng(5)
    found = []
    for shape in data.draw(st.lists(shapes(composition.rank), min_size=1, max_size=most)):
        array = numbers.permutation(int(np.prod(shape))).reshape(shape) / 8
        try:
            found.append((array, composition.expected(array)))
        except UnfitError:
            continue
    return found


def check(got: Array, wanted: Array) -> None:
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-9)


@examples(150)
@given(composition=compositions(), data=st.data())
def test_one_function_is_right_for_all_sizes(composition: Composition, data: st.DataObject) -> None:
    function = built(composition.function)
    for array, wanted in cases(data, composition, 4):
        assert function is not None
        check(tileir.evaluate(function, array), wanted)


@examples(100)
@given(composition=compositions())
def test_texts_read_back(composition: Composition) -> None:
    function = built(composition.function)
    assert function is None or tileir.parse(tileir.to_text(function)) == function


@examples(25)
@given(composition=compositions(), data=st.data())
def test_one_function_is_right_for_all_sizes_on_llvm(composition: Composition, data: st.DataObject) -> None:
    function = built(composition.function)
    for array, wanted in cases(data, composition, 2):
        assert function is not None
        check(tileir.jit(function, "llvm")(array), wanted)


@examples(50)
@given(composition=compositions(linear=True, most=3), data=st.data())
def test_gradients_are_adjoint(composition: Composition, data: st.DataObject) -> None:
    """Every step is linear, up to a constant: w · (f(x + d) - f(x)) is d · gradient."""
    function = built(composition.backward)
    numbers = np.random.default_rng(6)
    for array, result in cases(data, composition, 2):
        assert function is not None
        along, arriving = numbers.normal(size=array.shape), numbers.normal(size=result.shape)
        moved = composition.expected(array + along) - result
        gradient = tileir.evaluate(function, [array, arriving])
        assert gradient.shape == array.shape
        np.testing.assert_allclose(np.sum(gradient * along), np.sum(arriving * moved), rtol=1e-8, atol=1e-8)
