from __future__ import annotations

from strategies.kernels import stripe_program
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.analysis.places import Level
from tileir.passes.analysis.walks import Walk, asked_axis, walks
from tileir.passes.base import run


def walks_of(name: str, *, accumulated: bool = False) -> dict[tuple[str, bool], Walk]:
    program = stripe_program(name)
    program = run((Accumulate(),), program) if accumulated else program
    found = walks(program.main.blocks[-1], Level(program.main))
    return {(walk.tensor, walk.writes): walk for walk in found}


def test_walks_of_a_product() -> None:
    found = walks_of("matmul")
    assert found.keys() == {("A", False), ("B", False), ("C", True)}
    walk = found["B", False]
    assert (walk.stride("1:k"), walk.stride("1:j"), walk.stride("1:i")) == (37, 1, 0)
    assert walk.points == 19 * 37 * 11


def test_walks_inside_blocks_count_their_points_too() -> None:
    found = walks_of("matmul", accumulated=True)
    assert found["A", False].points == 19 * 37 * 11
    assert found["C", True].points == 19 * 37


def test_an_operand_is_asked_for_the_axis_along_which_results_are_neighbours() -> None:
    for name, asked in (("matmul", {"A": None, "B": 1}), ("matmul, second transposed", {"A": None, "B": 0})):
        found = walks_of(name)
        for tensor, axis in asked.items():
            assert asked_axis(found[tensor, False], tuple(found.values())) == axis


def test_nothing_is_asked_where_nothing_else_walks() -> None:
    found = walks_of("scalar")
    assert [asked_axis(walk, tuple(found.values())) for walk in found.values()] == [None, None]
    (walk, *_) = walks_of("transpose").values()
    assert asked_axis(walk, (walk,)) is None
