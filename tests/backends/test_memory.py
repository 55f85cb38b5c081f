from __future__ import annotations

import numpy as np
import pytest

from strategies.devices import compiler, launch
from strategies.semtree_values import content
from tileir.core.dtype import DType
from tileir.semtree.interpret import interpreter
from tileir.semtree.text.parser import parse_kernel

DTYPES = [DType.BOOL, DType.I8, DType.I32, DType.U64, DType.F16, DType.BF16, DType.F32, DType.F64]

OFFSETS = {
    "neighbours": "ramp<8>(g * 8, 1)",
    "backwards": "ramp<8>(g * 8 + 7, -1)",
    "strided": "ramp<8>(g, 4)",
    "one": "ramp<8>(g + 3, 0)",
    "constant base": "ramp<8>(16, 1)",
    "constant": "i64x8(5)",
    "broadcast": "broadcast<8>(g)",
    "sum of ramps": "ramp<8>(g, 1) + ramp<8>(4, 3)",
    "shifted ramp": "broadcast<8>(g) + ramp<8>(2, 1)",
    "difference": "ramp<8>(g + 40, 2) - ramp<8>(g, 1)",
    "multiple": "ramp<8>(g, 1) * i64x8(3)",
    "multiple from the left": "i64x8(3) * ramp<8>(g, 1)",
    "product of ramps": "ramp<8>(g, 1) * ramp<8>(0, 1)",
    "scaled by a variable": "ramp<8>(0, 1) * broadcast<8>(g + 1)",
    "table": "P[g * 8 : 8]",
    "shifted table": "P[g * 8 : 8] + broadcast<8>(g)",
}


def run_both(text: str, *arrays: np.ndarray[tuple[int], np.dtype[np.generic]]) -> None:
    kernel = parse_kernel(text)
    expected, actual = [array.copy() for array in arrays], [array.copy() for array in arrays]
    interpreter.run(kernel, expected)
    launch(kernel, actual)
    for ours, theirs in zip(actual, expected, strict=True):
        assert ours.tobytes() == theirs.tobytes()


def places() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.random.default_rng(3).integers(0, 60, 32)


@pytest.mark.sampled(21)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.value)
@pytest.mark.parametrize("offset", OFFSETS.values(), ids=OFFSETS)
def test_vectors_of_offsets_are_read(offset: str, dtype: DType) -> None:
    name = dtype.value
    text = f"""
    kernel k(in {name} A[128], in i64 P[32], out {name} B[32]) grid(4) {{
      i64 g = group_id(0);
      B[g * 8 : 8] = A[{offset}];
    }}
    """
    run_both(text, content(dtype, 128, 1), places(), np.zeros(32, dtype.numpy))


@pytest.mark.sampled(20)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.value)
@pytest.mark.parametrize("offset", OFFSETS.values(), ids=OFFSETS)
def test_vectors_of_offsets_are_written_last_lane_last(offset: str, dtype: DType) -> None:
    name = dtype.value
    text = f"""
    kernel k(in {name} A[32], in i64 P[32], inout {name} B[128]) {{
      for (i64 g = 0; g < 4; g += 1) {{
        B[{offset}] = A[g * 8 : 8];
      }}
    }}
    """
    run_both(text, content(dtype, 32, 1), places(), content(dtype, 128, 2))


@pytest.mark.parametrize("index", ["i32", "i64", "u32", "u8"])
def test_offsets_of_any_integer_type(index: str) -> None:
    text = f"""
    kernel k(in {index} P[16], in f32 A[256], out f32 B[32]) {{
      for (i64 i = 0; i < 16; i += 1) {{
        B[i] = A[P[i] + {index}(3)];
      }}
      B[16 : 8] = A[P[0 : 8] + {index}x8(3)];
      B[24 : 8] = A[ramp<8>(P[4], 2)];
    }}
    """
    table = np.arange(16).astype(DType(index).numpy) * 9
    run_both(text, table, content(DType.F32, 256, 1), np.zeros(32, np.float32))


def test_any_byte_but_zero_is_true() -> None:
    bytes_ = np.array([0, 1, 2, 255, 0, 128, 1, 0], np.uint8)
    kernel = parse_kernel("kernel k(in bool A[8], out bool B[8]) { B[0] = A[0]; B[1 : 4] = A[1 : 4]; B[5] = A[5]; }")
    result = np.zeros(8, np.uint8)
    launch(kernel, [bytes_.view(np.bool_), result.view(np.bool_)])
    assert result.tolist() == [0, 1, 1, 1, 0, 1, 0, 0]


def test_neighbouring_elements_are_read_as_vectors() -> None:
    text = """
    kernel k(in f32 A[64] align(64), out f32 B[64] align(64)) {
      B[0 : 16] = A[ramp<16>(0, 1)];
      B[ramp<16>(16, 1)] = A[24 : 16];
    }
    """
    listing = compiler().build([parse_kernel(text)]).listing("llvm")
    assert listing.count("load <16 x float>") == 2
    assert "align 64" in listing
    assert "align 32" in listing
    assert "masked" not in listing


def test_large_private_arrays_leave_the_stack() -> None:
    text = """
    kernel k(in f32 A[4], out f32 B[4]) grid(4) {
      private f32 small[16] align(64);
      private f32 large[100000] align(64);
      small[3] = A[group_id(0)];
      for (i64 i = 0; i < 100000; i += 1) { large[i] = small[3]; }
      B[group_id(0)] = large[99999];
    }
    """
    assert [each.scratch_bytes for each in compiler().build([parse_kernel(text)]).needs] == [400000]
    run_both(text, content(DType.F32, 4, 1), np.zeros(4, np.float32))


@pytest.mark.parametrize("lanes", [3, 5, 7])
def test_any_number_of_lanes(lanes: int) -> None:
    text = f"""
    kernel k(in i32 A[64], out i32 B[64]) {{
      B[0 : {lanes}] = A[3 : {lanes}] * A[ramp<{lanes}>(9, 2)];
      B[32] = reduce<add>(A[4 : {lanes}]);
    }}
    """
    run_both(text, content(DType.I32, 64, 1), np.zeros(64, np.int32))
