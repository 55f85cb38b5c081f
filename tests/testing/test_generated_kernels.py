"""Kernels that are drawn for emitters do nothing that leaves their results open."""

from __future__ import annotations

import pytest

from fuzz.semtree.kernel_case import numbered
from tileir.semtree.ir import DeclareArray, Region
from tileir.semtree.rewrite import statements


@pytest.mark.sampled(0)
def test_kernels_have_neither_races_nor_undefined_reads() -> None:
    shared = 0
    for number in range(150):
        case = numbered(11, number)
        assert len(case.expected()) == len(case.initial)
        arrays = [stmt for stmt in statements(case.kernel.body) if isinstance(stmt, DeclareArray)]
        shared += case.kernel.group[0] > 1 and any(array.region is Region.SCRATCH for array in arrays)
    assert shared  # threads of one group that have a scratch array in common
