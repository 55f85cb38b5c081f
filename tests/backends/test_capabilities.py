"""LLVM has each operation and conversion on each dtype, or a row expresses it by what it has."""

from __future__ import annotations

import pytest

from strategies.legal import COMPUTED, assert_conversions, assert_merges, assert_operations
from tileir.core.dtype import DType
from tileir.semtree.transform.expansions import EXPANDED
from tileir_llvm.emit.capabilities import CAPABILITIES


@pytest.mark.parametrize("dtype", COMPUTED, ids=str)
def test_operations(dtype: DType) -> None:
    assert_operations(dtype, EXPANDED, CAPABILITIES)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("source", DType, ids=str)
def test_conversions(source: DType) -> None:
    assert_conversions(source, CAPABILITIES)


@pytest.mark.parametrize("dtype", [dtype for dtype in COMPUTED if dtype.is_float], ids=str)
def test_merged_lanes(dtype: DType) -> None:
    assert_merges(dtype, CAPABILITIES)
