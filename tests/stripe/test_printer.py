"""The text of Stripe."""

from __future__ import annotations

import pytest
from hypothesis import given

from strategies.effort import examples
from strategies.stripe import blocks, programs
from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.poly.affine import Affine
from tileir.stripe.ir import (
    Block,
    Constant,
    Device,
    Dim,
    Direction,
    Index,
    Intrinsic,
    Program,
    Refinement,
    Special,
    Tags,
    TensorShape,
)
from tileir.stripe.text.language import byte_text
from tileir.stripe.text.parser import parse, parse_block
from tileir.stripe.text.printer import refinement_text, statement_text, to_text


@examples(100)
@given(programs())
def test_parse_undoes_print(program: Program) -> None:
    assert parse(to_text(program)) == program


@examples(150)
@given(blocks())
def test_parse_undoes_print_of_anything_that_can_be_spelt(block: Block) -> None:
    text = to_text(block)
    again = parse_block(text)
    assert again == block
    assert to_text(again) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (48, "48 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1000000, "976.56 KiB"), (1 << 20, "1 MiB")],
)
def test_sizes_are_for_people(count: int, text: str) -> None:
    assert byte_text(count) == text


def test_every_part_of_a_refinement_is_shown() -> None:
    i = Affine.index("i")
    refinement = Refinement(
        "X",
        Direction.IN,
        "X_raw",
        (i * 4 - 1, i),
        TensorShape(DType.F16, (Dim(4, 8), Dim(2, 1))),
        location=(Device("LOCAL", (i,)), Device("BANK")),
        offset=64,
        bank_dim=1,
        cache_unit=i,
        constant=True,
        tags=Tags.of("a", b=True, c="x y"),
    )
    assert refinement_text(refinement, {"i": 3}) == (
        '#a #b=true #c="x y" in const at@0x00000040 X = X_raw<LOCAL[i]/BANK>[-1 + 4*i, {i}]'
        " fp16:I(4, 2):(8, 1):16 B, E(12, 4):96 B, cache[i]"
    )
    assert ", E(" not in refinement_text(refinement)


def test_indices_show_their_affine_and_tags() -> None:
    block = Block(
        indices=(Index("i", 4, tags=Tags.of("t")), Index("j", 1, Affine.index("k") * 2), Index("l", 3, Affine()))
    )
    assert statement_text(block) == "block [(#t i:4), j = 2*k, l = 0:3]:12 ("


def test_dtypes_that_the_operands_tell_are_not_written() -> None:
    add = Intrinsic(Op.ADD, ("a", "b"), "c", DType.F32)
    assert statement_text(add, DType.F32) == "$c = add($a, $b)"
    assert statement_text(add, None) == "$c = add:fp32($a, $b)"


def test_values_of_constants_and_specials() -> None:
    assert statement_text(Constant("c", DType.F32, float("-inf"))) == "$c = (fp32)-inf"
    assert statement_text(Constant("c", DType.BOOL, True)) == "$c = (bool)true"
    assert statement_text(Special("fill", (), ("A",), (("value", 1.5),))) == "(A) = fill(value=1.5)"
