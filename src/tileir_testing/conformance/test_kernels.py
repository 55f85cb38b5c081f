"""Kernels written in the semtree by hand, against its interpreter."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tileir.semtree.interpret.interpreter import run
from tileir.semtree.ir import KernelFunction, ParamAccess
from tileir_testing.semtree_kernels import GROUPS, PLAIN, SCRATCH
from tileir_testing.subject import Array, Subject
from tileir_testing.values import check_close, small

FUNCTIONS_ULPS = 64.0
"""For sums of functions: results near zero lose digits."""


def arrays_for(kernel: KernelFunction) -> list[Array]:
    arrays = []
    for number, param in enumerate(kernel.params):
        values = small(param.dtype, param.size, seed=number)
        arrays.append(np.zeros_like(values) if param.access is ParamAccess.WRITE else values)
    return arrays


def check(subject: Subject, text: str) -> None:
    kernel = subject.kernel(text)
    arrays = arrays_for(kernel)
    expected = [array.copy() for array in arrays]
    run(kernel, expected)
    ulps = FUNCTIONS_ULPS if "exp(" in text else 0.0
    for param, actual, right in zip(kernel.params, subject.launched(kernel, arrays), expected, strict=True):
        check_close(param.name, actual, right, ulps)


@pytest.mark.parametrize("name", PLAIN)
def test_kernels(subject: Subject, name: str) -> None:
    check(subject, PLAIN[name])


@pytest.mark.parametrize("name", SCRATCH)
def test_scratch_memory(subject: Subject, name: str) -> None:
    if not subject.device.target.scratch:
        pytest.skip("the target has no scratch memory")
    check(subject, SCRATCH[name])


@pytest.mark.parametrize("name", GROUPS)
def test_groups_of_threads(subject: Subject, name: str) -> None:
    kernel = subject.kernel(GROUPS[name])
    if subject.device.target.group_threads < math.prod(kernel.group):
        pytest.skip(f"groups of the target have at most {subject.device.target.group_threads} threads")
    check(subject, GROUPS[name])
