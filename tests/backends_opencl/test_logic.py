from __future__ import annotations

import pytest

from tileir.core.dtype import DType
from tileir.semtree.ir import Type
from tileir_opencl.emit.logic import choice
from tileir_opencl.emit.text import Value, integer


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
    assert choice(condition, integer(1, kind), integer(0, kind)).text == text


def test_nothing_is_widened_to_512_bits() -> None:
    kind = Type(DType.U16, 16)
    condition = Value("c", Type(DType.BOOL, 16), mask=8)
    chosen = choice(condition, integer(1, kind), integer(0, kind))
    assert chosen.text == "select((ushort16)(0), (ushort16)(1), convert_short16(c))"


def test_other_choices_are_made_in_the_type_of_the_operands() -> None:
    kind = Type(DType.I16, 4)
    chosen = choice(Value("c", Type(DType.BOOL, 4), mask=8), Value("a", kind), Value("b", kind))
    assert chosen.text == "select(b, a, convert_short4(c))"
