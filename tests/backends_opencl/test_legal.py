"""OpenCL C has each operation and conversion on each dtype, or a row expresses it by what it has."""

from __future__ import annotations

import pytest

from strategies.legal import COMPUTED, assert_conversions, assert_merges, assert_operations
from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.semtree.text.parser import parse_kernel
from tileir.semtree.transform.expansions import EXPANDED
from tileir_opencl.device.features import Features
from tileir_opencl.emit.emitter import emit
from tileir_opencl.emit.operations import FAST, NATIVE, SINGLE, capabilities

SETS = pytest.mark.parametrize("native", [NATIVE, SINGLE, FAST], ids=["native", "single", "fast"])


@pytest.mark.sampled(14)
@SETS
@pytest.mark.parametrize("dtype", COMPUTED, ids=str)
def test_operations(dtype: DType, native: frozenset[Op]) -> None:
    assert_operations(dtype, EXPANDED - native, capabilities(native))


@pytest.mark.sampled(10)
@pytest.mark.parametrize("source", DType, ids=str)
def test_conversions(source: DType) -> None:
    assert_conversions(source, capabilities())


@pytest.mark.parametrize("dtype", [dtype for dtype in COMPUTED if dtype.is_float], ids=str)
def test_merged_lanes(dtype: DType) -> None:
    assert_merges(dtype, capabilities())


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("max(cast<f32>(N[0]), cast<f32>(N[1]))", "fmax("),
        ("max(cast<f32>(N[0]), X[1])", "left > right"),
        ("min(cast<f16>(N[0]), cast<f16>(N[1]))", "fmin("),
    ],
)
def test_extrema_of_numbers_are_functions(value: str, found: str) -> None:
    kind = "f16" if "f16" in value else "f32"
    text = emit(
        [parse_kernel(f"kernel k(out {kind} O[4], in i32 N[4], in f32 X[4]) {{ O[0] = {value}; }}")], Features()
    )
    assert found in text
    assert ("fm" in text) == found.startswith("fm")


@pytest.mark.parametrize("source", ["i64", "u32", "f32"])
def test_integers_need_no_doubles_to_become_narrow_floats(source: str) -> None:
    text = f"kernel k(out bf16 O[4], in {source} X[4]) {{ O[0] = cast<bf16>(X[0]); }}"
    assert "double" not in emit([parse_kernel(text)], Features(fp64=False))
