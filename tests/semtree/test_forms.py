"""Declared text forms of classes: printed, read back, and refused where the text differs."""

from __future__ import annotations

from typing import Any, Final, get_args

import pytest

from tileir.core.errors import ParseError
from tileir.core.text.forms import Field, Option, Piece, pieces
from tileir.semtree import ir
from tileir.semtree.check.verifier import verify
from tileir.semtree.text.language import EXPRESSIONS, STATEMENTS
from tileir.semtree.text.parser import parse_kernel
from tileir.semtree.text.printer import to_text
from tileir.semtree.text.syntax import is_reserved

WRITTEN_BY_HAND: Final = {
    ir.Const, ir.Var, ir.GridIndex, ir.Apply, ir.Subscript, ir.Declare, ir.Assign, ir.For, ir.If,
    ir.WarpRole,
}  # fmt: skip
HEADER: Final = "kernel k(in f16 A[64], inout f32 B[64], in f16 C[64]) grid(1) group(32) {\n"


def kernel(body: str) -> str:
    return f"{HEADER}{body}\n}}\n"


def test_each_class_has_a_form_or_is_written_by_hand() -> None:
    kinds = {*get_args(ir.Expr), *get_args(ir.Stmt)}
    assert kinds - WRITTEN_BY_HAND == {*EXPRESSIONS.values(), *STATEMENTS.values()}
    assert all(is_reserved(word) for word in (*EXPRESSIONS, *STATEMENTS))


def fields(form: tuple[Piece, ...]) -> list[Field]:
    inside = (piece.pieces if isinstance(piece, Option) else (piece,) for piece in form)
    return [piece for several in inside for piece in several if isinstance(piece, Field)]


@pytest.mark.parametrize(
    "kind", [*EXPRESSIONS.values(), *STATEMENTS.values(), ir.MatrixOperand], ids=lambda k: k.__name__
)
def test_forms_have_all_fields(kind: Any) -> None:
    written = fields(pieces(kind))
    assert {field.name for field in written if not field.is_property} == {field.name for field in kind.__attrs_attrs__}
    assert all(isinstance(getattr(kind, field.name), property) for field in written if field.is_property)


@pytest.mark.parametrize("swizzle", ["", " swizzle(3, 0)", " swizzle(0, 8)", " swizzle(3, 8)"])
def test_what_has_defaults_is_left_out(swizzle: str) -> None:
    body = f"multiply(mma_m16n8k16_f16) tile(16, 8, 16) s[0] += A[0] strides(16, 1){swizzle} * C[0] strides(8, 1);"
    text = to_text(parse_kernel(kernel(f"  private f32 s[4] align(64);\n  {body}")))
    assert f"  {body}\n" in text
    assert to_text(parse_kernel(text)) == text


@pytest.mark.parametrize(
    ("body", "code", "underlined", "message"),
    [
        ("prefetch A;", "TIL102", ";", r"expected '\['"),
        ("i64 x = 0; prefetch x;", "TIL102", "x", "expected elements of an array"),
        ("async_wait();", "TIL102", ")", "expected an integer"),
        ("barrier;", "TIL102", ";", r"expected '\('"),
        ("barrier()", "TIL102", "}", "expected ';'"),
        ("multiply(mma_m16n8k16_f16) tile(16, 8)", "TIL102", "16, 8)", "expected 3 integers, found 2"),
        ("multiply(16) tile(16, 8, 16)", "TIL102", "16", "expected a name"),
        ("f32 x = reduce<sub>(B[0 : 4]);", "TIL102", "sub", "expected one of add, max, min, mul"),
        (
            "f32x2 x = dot_add<3>(A[0 : 4], C[0 : 4], f32x2(0.0));",
            "TIL552",
            None,
            "terms is 2 for these operands, not 3",
        ),
        ("f32 x = shuffle<0>();", "TIL102", ")", "expected an expression"),
        ("i64x4 x = ramp<4>(0);", "TIL102", ")", "expected ','"),
    ],
)
def test_other_text_is_refused(body: str, code: str, underlined: str | None, message: str) -> None:
    with pytest.raises(ParseError, match=message) as caught:
        parse_kernel(kernel(body))
    fault = caught.value.diagnostics[0]
    assert fault.code == code
    assert underlined is None or fault.underlined == underlined


def test_hints_may_lie_beyond_an_array() -> None:
    verify(parse_kernel(kernel("prefetch A[640];")))
