from __future__ import annotations

import pytest

from strategies.kernels import PROGRAMS, inputs, stripe_program
from strategies.passes import assert_same_meaning
from tileir.passes.base import run
from tileir.passes.split_reduction import SplitReduction


@pytest.mark.parametrize("name", PROGRAMS)
def test_splitting_keeps_the_meaning(name: str) -> None:
    program = stripe_program(name)
    assert_same_meaning(program, run((SplitReduction(parts=3, operations=1),), program), inputs(name))


def test_a_long_reduction_becomes_parts_and_their_sum() -> None:
    (kernel,) = stripe_program("greatest of all").main.blocks
    partial, final = run((SplitReduction(parts=4, operations=1),), stripe_program("greatest of all")).main.blocks
    parts = partial.indices[0]
    assert (parts.name, parts.range) == ("m_part", 7)  # the least divisor of 7 that is at least 4
    assert [index.range for index in final.indices] == [7]
    assert final.name == f"{kernel.name}_merge"


def test_the_parts_are_a_temporary_of_the_program() -> None:
    program = run((SplitReduction(parts=4, operations=1),), stripe_program("greatest of all"))
    (temporary,) = [r for r in program.entry.refinements if "tmp" in r.tags]
    assert temporary.name == "O_parts"
    assert temporary.shape.sizes == (7,)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("greatest of all", SplitReduction(parts=1, operations=1)),  # one thread
        ("greatest of all", SplitReduction(parts=4)),  # little work
        ("matmul", SplitReduction(parts=4, operations=1)),  # outputs enough for all threads
        ("cumulative sum", SplitReduction(parts=32, operations=1)),  # the reduction index is constrained
        ("transpose", SplitReduction(parts=4, operations=1)),  # no reduction
    ],
)
def test_other_kernels_stay_whole(name: str, options: SplitReduction) -> None:
    program = stripe_program(name)
    assert run((options,), program) is program
