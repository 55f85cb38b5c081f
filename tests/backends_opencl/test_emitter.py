"""The text of kernels on OpenCL devices against the interpreter of kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given

from strategies.effort import examples
from strategies.opencl_source import OCLGRIND, POCL, run
from strategies.semtree import kernel_cases
from strategies.semtree_values import same_content
from tileir.semtree import interpreter

if TYPE_CHECKING:
    from strategies.semtree import KernelCase


def check(case: KernelCase, platform: str = POCL) -> None:
    expected, actual = case.arrays(), case.arrays()
    interpreter.run(case.kernel, expected)
    run([case.kernel], [actual], platform)
    for param, ours, theirs in zip(case.kernel.params, actual, expected, strict=True):
        assert same_content(ours, theirs), param.name


@examples(60)
@given(case=kernel_cases())
def test_random_kernels_compute_what_the_interpreter_does(case: KernelCase) -> None:
    check(case)


@examples(40)
@given(case=kernel_cases(threads=True))
def test_threads_of_a_group_meet_at_barriers(case: KernelCase) -> None:
    check(case)


@examples(40)
@given(case=kernel_cases(threads=True))
def test_the_simulator_agrees(case: KernelCase) -> None:
    check(case, OCLGRIND)
