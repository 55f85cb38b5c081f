"""The roles of the fields of Tile's expressions are total, so that no walk leaves an operand out."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import pytest

from tileir.core.nodes.schema import Role, slots
from tileir.tile import ir


@pytest.mark.parametrize("kind", get_args(ir.Expr), ids=lambda kind: kind.__name__)
def test_each_field_that_holds_expressions_is_an_operand(kind: Any) -> None:
    hints = get_type_hints(kind)
    roles = {slot.name: slot.role for slot in slots(kind)}
    several = tuple[ir.Expr, ...]
    expected = {ir.Expr: Role.OPERAND, several: Role.OPERANDS}
    assert roles == {name: expected[hint] for name, hint in hints.items() if hint in expected}
