from __future__ import annotations

from strategies.kernels import stripe_program
from strategies.passes import program_of
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.kernels.merge import merged, reduction_nest
from tileir.schedule.nest import Nest, analyse
from tileir.schedule.remarks import refused


def nest_of(name: str) -> Nest:
    (kernel,) = run((Accumulate(),), stripe_program(name)).main.blocks
    found = analyse(kernel)
    assert isinstance(found, Nest)
    return found


def loops(nest: Nest) -> list[int]:
    return [index.range for segment in nest.segments for index in segment.loops]


def test_reduction_indices_that_follow_each_other_in_memory_become_one() -> None:
    before = nest_of("sum of all of three axes")
    assert loops(before) == [4, 5, 3]
    after = merged(before)
    assert loops(after) == [4 * 5 * 3]
    (read,) = [use for segment in after.segments if segment.loops for use in segment.uses if use.root == "A"]
    assert (len(read.access), read.strides) == (1, (1,))
    assert read.stride(read.access[0].indices[0]) == 1


def test_indices_that_some_access_tells_apart_stay() -> None:
    before = nest_of("matmul")
    assert merged(before) is before


def test_outer_indices_become_one_too() -> None:
    text = """
    block [i:2, j:3, k:4]:24 (
      in X[i, j, k] fp32:I(1, 1, 1):(12, 4, 1):4 B
      out O[i, j, 0]:add fp32:I(1, 1, 1):(3, 1, 1):4 B
    ) {
      0: $x = load(X)
      1: O = store($x)
    }
    """
    program = program_of([text.strip()], {"X": (2, 3, 4), "O": (2, 3, 1)})
    (kernel,) = run((Accumulate(),), program).main.blocks
    after = reduction_nest(kernel)
    assert isinstance(after, Nest)
    assert [index.range for index in after.indices] == [6]
    assert loops(after) == [4]


def test_indices_of_constraints_stay() -> None:
    before = nest_of("cumulative sum")
    assert merged(before) is before


def test_kernels_without_loops_are_no_reductions() -> None:
    (kernel,) = run((Accumulate(),), stripe_program("transpose")).main.blocks
    assert reduction_nest(kernel) == refused("TR113")
    (kernel,) = run((Accumulate(),), stripe_program("matmul")).main.blocks
    assert isinstance(reduction_nest(kernel), Nest)
