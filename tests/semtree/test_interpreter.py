"""The interpreter against NumPy and against the definition of each operation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings

from strategies.semtree import kernel_cases, same_content
from tileir.semtree.interpreter import run
from tileir.semtree.memory import ALL_CHECKS

if TYPE_CHECKING:
    from strategies.semtree import KernelCase


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=kernel_cases(depth=2))
def test_generated_kernels_are_legal_and_watching_changes_nothing(case: KernelCase) -> None:
    plain, watched = case.arrays(), case.arrays()
    run(case.kernel, plain)
    run(case.kernel, watched, ALL_CHECKS)
    assert all(map(same_content, watched, plain))


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=kernel_cases(depth=1, threads=True))
def test_generated_kernels_with_threads_are_legal(case: KernelCase) -> None:
    run(case.kernel, case.arrays(), ALL_CHECKS)
