"""Types and constants: total tables, and literals that are exactly the value; choices between vectors."""

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
from tileir.semtree.ir import KernelFunction, Type
from tileir_emit.c_like import ATOM, UNARY, Value
from tileir_opencl.device.features import Features
from tileir_opencl.emit.expressions import Expressions


def test_every_type_is_spelt() -> None:
    plain = {dtype for dtype in DType if not dtype.is_storage}  # those are integers by then
    assert set(Expressions.TYPES) == plain
    assert Expressions.type(Type(DType.BOOL)) == "bool"
    assert Expressions.type(Type(DType.BOOL, 4)) == "char4"
    floats = [Expressions.type(Type(dtype, 8)) for dtype in (DType.F16, DType.BF16, DType.F64)]
    assert floats == ["float8", "float8", "double8"]
    elements = [Expressions.element_type(dtype) for dtype in (DType.F16, DType.BOOL, DType.I64)]
    assert elements == ["half", "uchar", "long"]
    assert Expressions.lane(Value("x", Type(DType.I32, 16)), 10).text == "x.sa"


def test_every_comparison_is_infix() -> None:
    assert all(op in Expressions.INFIX for op in Op if op.info.compares)


@examples(300)
@given(value=st.floats(allow_nan=False, allow_infinity=False), dtype=st.sampled_from([DType.F16, DType.F32, DType.F64]))
def test_finite_floats_are_exact(value: float, dtype: DType) -> None:
    value = float(rounded(value, dtype))
    if not np.isfinite(value):
        return
    found = Expressions.constant(value, Type(dtype))
    text, rank = found.text, found.rank
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
    constant = Expressions.constant(value, Type(dtype))
    found, rank = constant.text, constant.rank
    assert found == text
    assert rank == (ATOM if text[0] != "-" and not text.startswith(("(char)", "(double)")) else UNARY)


WRITER = Expressions(KernelFunction("k", (), ()), {}, features=Features(), fast_math=False)


@pytest.mark.parametrize(
    ("dtype", "mask", "text"),
    [
        (DType.U8, 32, "select((uchar4)(0), (uchar4)(1), convert_char4(c))"),
        (DType.U16, 16, "select((ushort4)(0), (ushort4)(1), c)"),
        (DType.U16, 8, "convert_ushort4(select((int4)(0), (int4)(1), convert_int4(c)))"),
        (DType.I16, 64, "convert_short4(select((int4)(0), (int4)(1), convert_int4(c)))"),
        (DType.I32, 8, "select((int4)(0), (int4)(1), convert_int4(c))"),
    ],
)
def test_no_mask_is_widened_to_16_bits_for_a_choice_between_constants(dtype: DType, mask: int, text: str) -> None:
    condition = Value("c", Type(DType.BOOL, 4), mask=mask)
    kind = Type(dtype, 4)
    assert WRITER.choice(condition, Expressions.constant(1, kind), Expressions.constant(0, kind)).text == text


def test_nothing_is_widened_to_512_bits() -> None:
    kind = Type(DType.U16, 16)
    condition = Value("c", Type(DType.BOOL, 16), mask=8)
    chosen = WRITER.choice(condition, Expressions.constant(1, kind), Expressions.constant(0, kind))
    assert chosen.text == "select((ushort16)(0), (ushort16)(1), convert_short16(c))"


def test_other_choices_are_made_in_the_type_of_the_operands() -> None:
    kind = Type(DType.I16, 4)
    chosen = WRITER.choice(Value("c", Type(DType.BOOL, 4), mask=8), Value("a", kind), Value("b", kind))
    assert chosen.text == "select(b, a, convert_short4(c))"
