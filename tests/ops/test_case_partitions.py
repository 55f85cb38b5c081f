"""Every case of the library, partitioned over meshes: its values on all ranks together, against NumPy's in f64."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.derivatives import types_of
from strategies.effort import examples
from strategies.operations import all_cases
from strategies.sharded import NEAR, cut_along, partitioned
from tileir.typed.derivatives.reverse import gradient
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.sharding.interpreter import interpret_partitioned
from tileir.typed.sharding.mesh import Mesh
from tileir.typed.sharding.partition import partition
from tileir.typed.sharding.prices import ANY_MODEL
from tileir.typed.sharding.verifier import verify
from tileir.typed.simplify.simplifier import simplify

if TYPE_CHECKING:
    from collections.abc import Mapping

CASES: Final = all_cases()
MESHES: Final[Mapping[str, tuple[Mesh, tuple[tuple[str, int], ...]]]] = {
    "first": (Mesh({"x": 2}), (("x", 0),)),
    "second": (Mesh({"x": 3}), (("x", 1),)),
    "both": (Mesh({"x": 2, "y": 2}), (("x", 0), ("y", -1))),
}
"""Meshes, and the axis of each input that is cut along each of theirs: the last one where there are not as many."""


@pytest.mark.sampled(0)
@pytest.mark.parametrize("name", CASES)
@examples(3)
@given(st.data())
def test_values_and_gradients_with_shardings_of_any_values(name: str, data: st.DataObject) -> None:
    """Whatever is asked of values between inputs and results, ranks have what one device has, within rounding."""
    case = CASES[name]
    given_arrays = case.arrays("f64")
    function = simplify(infer(case.function(), types_of(given_arrays)))
    floats = [each.name for each in function.operations if each.name in function.outputs and each.dtype.is_float]
    if case.differentiated and floats and data.draw(st.booleans()):
        function = gradient(function, case.differentiated, floats, even_ties=False)
    arrays = {each.name: given_arrays.get(each.name, np.ones(each.shape)) for each in function.inputs}
    program = data.draw(partitioned(function, data.draw(st.sampled_from((ANY_MODEL, NEAR)))))
    verify(program)
    right, found = interpret(function, arrays), interpret_partitioned(program, arrays)
    for result, array in right.items():
        assert (found[result].dtype, found[result].shape) == (array.dtype, array.shape)
        if array.dtype.kind in "biu":
            np.testing.assert_array_equal(found[result], array, err_msg=result)
        else:
            most = np.abs(array, where=np.isfinite(array), out=np.zeros(array.shape)).max(initial=1.0)
            np.testing.assert_allclose(found[result], array, rtol=1e-9, atol=1e-9 * most, err_msg=result)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "cut"), [(name, cut) for name in CASES for cut in MESHES])
def test_values_of_all_ranks_together(name: str, cut: str) -> None:
    case, (mesh, cuts) = CASES[name], MESHES[cut]
    dtype = case.dtypes[0]
    arrays = case.arrays(dtype)
    function = simplify(infer(case.function(), types_of(arrays)))
    program = partition(function, mesh, {each: cut_along(array.ndim, cuts) for each, array in arrays.items()})
    verify(program)
    results = tuple(interpret_partitioned(program, arrays).values())
    case.check(results if len(results) > 1 else results[0], case.expected(arrays), dtype)
