"""Meshes, and shardings of the values of a function, drawn for any typed function."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import strategies as st

from tileir.core import attrs
from tileir.typed.interpreter import interpret
from tileir.typed.ir import Collective
from tileir.typed.sharding.interpreter import interpret_partitioned
from tileir.typed.sharding.mesh import Mesh, Sharding
from tileir.typed.sharding.partition import partition
from tileir.typed.sharding.partitioned import Partitioned
from tileir.typed.sharding.prices import ANY_MODEL
from tileir.typed.sharding.verifier import verify

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.core import HardwareModel
    from tileir.typed.ir import Function
    from tileir_testing.programs.case import Array

NEAR = attrs.evolve(ANY_MODEL, link_gbps=1e6, link_us=0.0)
"""Ranks between which exchanges cost next to nothing."""

MESHES = (Mesh({"x": 2}), Mesh({"x": 3}), Mesh({"x": 2, "y": 2}), Mesh({"x": 2, "y": 3}))


def cut_along(rank: int, cuts: tuple[tuple[str, int], ...]) -> Sharding:
    """Return the sharding that cuts an axis along each of some axes of a mesh: the last one where there are too few."""
    entries: list[str | None] = [None] * rank
    for name, axis in cuts if rank else ():
        place = min(axis, rank - 1)
        entries[place] = entries[place] or name
    return Sharding(tuple(entries))


@st.composite
def partitioned(draw: st.DrawFn, function: Function, model: HardwareModel = ANY_MODEL) -> Partitioned:
    """Draw a mesh, and shardings of most inputs, of some values between, and of some results."""
    mesh = draw(st.sampled_from(MESHES))

    def sharding(rank: int) -> Sharding:
        entries: list[list[str]] = [[] for _ in range(rank)]
        for name, _ in mesh.axes if rank else ():
            place = draw(st.integers(-1, rank - 1))
            if place >= 0:
                entries[place].append(name)
        return Sharding(tuple(tuple(draw(st.permutations(names))) for names in entries))

    chosen = {value.name: sharding(len(value.shape)) for value in function.inputs if draw(st.integers(0, 4))}
    between = [each for each in function.operations if not isinstance(each, Collective)]
    chosen |= {each.name: sharding(len(each.shape)) for each in between if not draw(st.integers(0, 5))}
    shapes = {each.name: each.shape for each in function.operations}
    results = {name: sharding(len(shapes[name])) for name in function.outputs if not draw(st.integers(0, 2))}
    return partition(function, mesh, chosen, results, model)


def assert_partitioned(program: Partitioned, function: Function, inputs: Mapping[str, Array]) -> None:
    """Assert that a partitioned program has the results of a function: integers exactly, floats within rounding."""
    verify(program)
    expected = interpret(function, inputs)
    actual = interpret_partitioned(program, inputs)
    assert list(actual) == list(expected)
    for name, array in expected.items():
        assert actual[name].dtype == array.dtype
        assert actual[name].shape == array.shape
        if array.dtype.kind in "biu":
            np.testing.assert_array_equal(actual[name], array, err_msg=name)
        else:
            scale = {1: 0.0, 2: 4e-3, 4: 1e-5, 8: 1e-12}[array.dtype.itemsize]
            wide, right = actual[name].astype(np.float64), array.astype(np.float64)
            np.testing.assert_allclose(wide, right, rtol=scale, atol=scale, err_msg=name)
