"""Structure of kernels after the pass for kernels of any form; test_schedule.py checks the results."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.kernels import stripe_program
from strategies.passes import assert_same_meaning, programs
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.schedules.groups.distribute import Distribute
from tileir.stripe.ir import Program


def indices(program: Program, tag: str) -> list[list[tuple[str, int]]]:
    """Return name and range of the indices with a tag, for each kernel."""
    return [[(i.name, i.range) for i in kernel.indices if tag in i.words] for kernel in program.main.blocks]


def test_neighbouring_threads_take_neighbouring_elements() -> None:
    program = run((Accumulate(), Distribute(threads=16)), stripe_program("matmul"))  # 19 x 37
    assert indices(program, "thread") == [[("j_thread", 16)]]
    assert indices(program, "grid") == [[("i", 19), ("j", 3)]]
    assert len(program.main.blocks[0].constraints) == 1


def test_threads_that_are_left_go_on_with_the_next_index() -> None:
    program = run((Accumulate(), Distribute(threads=64)), stripe_program("sum over rows of two axes"))
    assert [[size for _, size in found] for found in indices(program, "thread")] == [[32], [32]]
    program = run((Accumulate(), Distribute(threads=256)), stripe_program("batched matmul"))  # 3 x 9 x 18
    assert indices(program, "thread") == [[("i_thread", 9), ("j_thread", 18)]]


@pytest.mark.parametrize("name", ["greatest of all", "scalar"])
def test_what_has_no_parallel_index_stays_as_it_is(name: str) -> None:
    accumulated = run((Accumulate(),), stripe_program(name))
    assert run((Distribute(),), accumulated) is accumulated


@given(program=programs(), threads=st.integers(1, 64))
@examples(60)
def test_the_meaning_stays(program: Program, threads: int) -> None:
    assert_same_meaning(program, run((Accumulate(), Distribute(threads=threads)), program))
