"""Kernels through the C compiler against the interpreter of kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from c_devices import launch_all
from strategies.effort import examples
from strategies.semtree import kernel_cases
from strategies.semtree_values import same_content
from tileir.semtree import interpreter

if TYPE_CHECKING:
    from strategies.semtree import KernelCase

BATCH = 10
"""Kernels that are compiled together: to start a C compiler takes most of the time of a small one."""


def check(cases: list[KernelCase]) -> None:
    expected, actual = ([case.arrays() for case in cases] for _ in range(2))
    for case, arrays in zip(cases, expected, strict=True):
        interpreter.run(case.kernel, arrays)
    launch_all([case.kernel for case in cases], actual)
    for case, ours, theirs in zip(cases, actual, expected, strict=True):
        for param, left, right in zip(case.kernel.params, ours, theirs, strict=True):
            assert same_content(left, right), param.name


@examples(12)
@given(cases=st.lists(kernel_cases(), min_size=BATCH, max_size=BATCH))
def test_random_kernels_compute_what_the_interpreter_does(cases: list[KernelCase]) -> None:
    check(cases)


@examples(6)
@given(cases=st.lists(kernel_cases(threads=True), min_size=BATCH, max_size=BATCH))
def test_threads_of_a_group_meet_at_barriers(cases: list[KernelCase]) -> None:
    check(cases)
