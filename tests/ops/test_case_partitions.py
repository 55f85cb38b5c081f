"""Every case of the library, partitioned over meshes: its values on all ranks together, against NumPy's in f64."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from strategies.derivatives import types_of
from strategies.operations import all_cases
from strategies.sharded import cut_along
from tileir.typed.inference.inference import infer
from tileir.typed.sharding.interpreter import interpret_partitioned
from tileir.typed.sharding.mesh import Mesh
from tileir.typed.sharding.partition import partition
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


@pytest.mark.sampled(11)
@pytest.mark.parametrize(("name", "cut"), [(name, cut) for name in CASES for cut in MESHES])
def test_values_of_all_ranks_together(name: str, cut: str) -> None:
    case, (mesh, cuts) = CASES[name], MESHES[cut]
    arrays = case.arrays("f32")
    function = simplify(infer(case.function(), types_of(arrays)))
    program = partition(function, mesh, {each: cut_along(array.ndim, cuts) for each, array in arrays.items()})
    verify(program)
    results = tuple(interpret_partitioned(program, arrays).values())
    case.check(results if len(results) > 1 else results[0], case.expected(arrays), "f32")
