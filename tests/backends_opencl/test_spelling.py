"""Types and constants: total tables, and literals that are exactly the value."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from tileir.core.dtype import DType
from tileir.core.numbers.arithmetic import rounded
from tileir.core.ops import Op
from tileir.semtree.ir import Type
from tileir_opencl.emit.spelling import ATOM, INFIX, MEMORY, UNARY, lane, register, register_bits, scalar_constant


def test_every_type_is_spelt() -> None:
    assert set(MEMORY) == {dtype for dtype in DType if not dtype.is_storage}  # those are integers by then
    assert register(Type(DType.BOOL)) == "bool"
    assert register(Type(DType.BOOL, 4)) == "char4"
    assert [register(Type(dtype, 8)) for dtype in (DType.F16, DType.BF16, DType.F64)] == ["float8", "float8", "double8"]
    assert [register_bits(dtype) for dtype in (DType.F16, DType.BOOL, DType.I64)] == [32, 8, 64]
    assert lane(10) == ".sa"


def test_every_comparison_is_infix() -> None:
    assert all(op in INFIX for op in Op if op.info.compares)


@examples(300)
@given(value=st.floats(allow_nan=False, allow_infinity=False), dtype=st.sampled_from([DType.F16, DType.F32, DType.F64]))
def test_finite_floats_are_exact(value: float, dtype: DType) -> None:
    value = float(rounded(value, dtype))
    if not np.isfinite(value):
        return
    text, rank = scalar_constant(value, dtype)
    digits = text if dtype is DType.F64 else text.removesuffix("f")
    assert digits != text or dtype is DType.F64
    assert re.search(r"[.p]", digits)
    exact = Fraction(float.fromhex(digits)) if "0x" in digits else Fraction(digits)
    assert exact == Fraction(value)
    assert (rank == UNARY) == text.startswith("-")


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (float("inf"), DType.F32, "INFINITY"),
        (float("-inf"), DType.F64, "(double)-INFINITY"),
        (float("nan"), DType.BF16, "NAN"),
        (-0.0, DType.F32, "-0.0f"),
        (0.5, DType.F32, "0.5f"),
        (1e-45, DType.F32, "0x1p-149f"),
        (True, DType.BOOL, "true"),
        (-5, DType.I8, "(char)-5"),
        (-(2**31), DType.I32, "(-2147483647 - 1)"),
        (-(2**63), DType.I64, "(-9223372036854775807L - 1)"),
        (2**64 - 1, DType.U64, "0xfffffffffffffffful"),
        (7, DType.U32, "7u"),
        (-7, DType.I64, "-7L"),
    ],
)
def test_constants(value: bool | int | float, dtype: DType, text: str) -> None:
    if dtype is DType.F32 and value == 1e-45:
        value = float(np.float32(value))
    found, rank = scalar_constant(value, dtype)
    assert found == text
    assert rank == (ATOM if text[0] != "-" and not text.startswith(("(char)", "(double)")) else UNARY)
