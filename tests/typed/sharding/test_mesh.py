"""Meshes and shardings: ranks and their groups, parts of axes, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileir.core import ArgumentError
from tileir.typed.sharding.mesh import Mesh, Sharding, balanced


def test_ranks_run_along_the_last_axis_first() -> None:
    mesh = Mesh({"x": 2, "y": 3})
    assert mesh.size == 6
    assert [mesh.coordinates(rank) for rank in (0, 1, 5)] == [{"x": 0, "y": 0}, {"x": 0, "y": 1}, {"x": 1, "y": 2}]
    assert [mesh.rank(mesh.coordinates(rank)) for rank in range(6)] == list(range(6))
    assert mesh.group(4, ("x",)) == (1, 4)
    assert mesh.group(4, ("y",)) == (3, 4, 5)
    assert mesh.group(4, ("y", "x")) == (0, 3, 1, 4, 2, 5)
    assert Mesh((("x", 2), ("y", 3))) == mesh


@pytest.mark.parametrize("size", [0, 1, 2, 5, 6, 7, 100])
@pytest.mark.parametrize("parts", [1, 2, 3, 4])
def test_parts_are_those_of_numpy(size: int, parts: int) -> None:
    expected = [part.tolist() for part in np.array_split(np.arange(size), parts)]
    assert [list(range(*interval)) for interval in balanced(size, parts)] == expected


def test_shardings_lay_out_tensors() -> None:
    mesh = Mesh({"x": 2, "y": 2})
    layout = Sharding(("x", None)).layout("A", (5, 3), mesh)
    assert [mesh.box(layout, mesh.coordinates(rank)) for rank in range(4)] == [((0, 3), (0, 3))] * 2 + [
        ((3, 5), (0, 3))
    ] * 2
    both = Sharding((("y", "x"),)).layout("A", (4,), mesh)
    assert [mesh.box(both, mesh.coordinates(rank)) for rank in range(4)] == [((0, 1),), ((2, 3),), ((1, 2),), ((3, 4),)]
    assert str(Sharding((("y", "x"), None, "x"))) == "(y * x, _, x)"


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"x": 0}, "has 0 ranks"),
        ({"x": -2}, "has -2 ranks"),
        ((("x", 2), ("x", 2)), "two axes of a mesh are called 'x'"),
        ({"": 2}, "needs a name"),
        ({"a b": 2}, "needs a name"),
        ({"x": 2.0}, "is no mesh"),
        ({1: 2}, "is no mesh"),
        (4, "is no mesh"),
        ("xy", "is no mesh"),
    ],
)
def test_what_is_no_mesh(axes: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message) as caught:
        Mesh(axes)
    assert caught.value.diagnostics[0].code == "TIL351"


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (("x",), "has 1 entries, but the tensor 2 axes"),
        (("x", "z"), "names the axis 'z', which the mesh x=2, y=3 does not have"),
        (("x", "x"), "names the axis 'x' twice"),
        ((("x", "y"), "y"), "names the axis 'y' twice"),
        ("x", "is no sharding"),
        (3, "is no sharding"),
        ((3, None), "3 shards no axis"),
        (((1,), None), "shards no axis"),
    ],
)
def test_shardings_that_do_not_fit(entries: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message) as caught:
        Sharding(entries).layout("A", (4, 6), Mesh({"x": 2, "y": 3}))
    assert caught.value.diagnostics[0].code == "TIL352"
