"""The roles of the fields of typed operations are total, and operands and names follow from them."""

from __future__ import annotations

from typing import get_args

import attrs
import pytest

from strategies.roles import wrong
from tileir.core.dtype import DType
from tileir.core.nodes import schema
from tileir.core.ops import Aggregation, Combination
from tileir.core.text.span import Source, Span
from tileir.poly.affine import Affine
from tileir.typed import ir
from tileir.typed.dataflow import with_operands

OPERATIONS = get_args(ir.Operation)
SPAN = Span(Source("text", "here"), 0, 4)


@pytest.mark.parametrize("kind", [*OPERATIONS, ir.Value, ir.Access], ids=lambda kind: kind.__name__)
def test_each_field_has_the_role_of_what_it_holds(kind: type) -> None:
    texts = {ir.Value: ("number",), ir.Collective: ("axes",)}
    assert not list(wrong(kind, (ir.Function,), (ir.Access,), texts.get(kind, ())))


@pytest.mark.parametrize("kind", OPERATIONS, ids=lambda kind: kind.__name__)
def test_each_operation_defines_its_name_alone(kind: type) -> None:
    assert [slot.name for slot in schema.slots(kind, schema.Role.INTRODUCES)] == ["name"]


def sum_of(first: str, second: str, default: str | None) -> ir.Contraction:
    index = (Affine.index("i"),)
    inputs = (ir.Access(first, index), ir.Access(second, index))
    kinds = (Aggregation.SUM, Combination.MUL, DType.F32, DType.F32, DType.F32, (4,))
    return ir.Contraction("O", index, inputs, *kinds, default=default, span=SPAN)


def test_operands_of_records_and_pairs_are_found_and_replaced() -> None:
    contraction = sum_of("A", "B", "D")
    assert ir.operands(contraction) == ("A", "B", "D")
    assert with_operands(contraction, {"A": "X", "D": "Y", "O": "no"}) == sum_of("X", "B", "Y")
    assert with_operands(contraction, {"A": "X"}).span is SPAN
    assert with_operands(contraction, {"O": "P"}) is contraction
    assert ir.operands(sum_of("A", "A", None)) == ("A", "A")
    override = ir.Override("o", "A", (("v", "g"), ("w", "h")), None, DType.F32, ())
    assert ir.operands(override) == ("A", "v", "g", "w", "h")
    upstream = attrs.evolve(override, upstream="u")
    assert ir.operands(with_operands(upstream, {"g": "G", "u": "U"})) == ("A", "v", "G", "w", "h", "U")
