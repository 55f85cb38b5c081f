"""The roles of fields are total: each field that holds a node, or a name, says which it is."""

from __future__ import annotations

from typing import Any, Final, get_args, get_type_hints

import attrs
import pytest

from tileir.core.dtype import DType
from tileir.core.nodes import schema
from tileir.core.nodes.schema import Role, slots
from tileir.semtree import ir

EXPRESSIONS = get_args(ir.Expr)
STATEMENTS = get_args(ir.Stmt)
PARTS = (ir.MatrixOperand,)
WORKS = get_args(ir.Work)
ALLOWED: Final[dict[str, set[Role | None]]] = {
    "expressions": {Role.OPERAND, Role.OPERANDS, Role.TARGET, Role.UPDATED, Role.PLACE, Role.INTRODUCES},
    "statements": {Role.BODY},
    "parts": {Role.PART},
    "names": {Role.INTRODUCES, Role.USES},
    "data": {None},
}
ROWS: Final = {(ir.MatrixMultiply, "fragment")}
"""Names of rows of a table, which no kernel declares."""


def holds(hint: Any) -> str:
    """Return what values of a type hold."""
    inside = {hint, *get_args(hint)}
    inside |= {each for one in inside for each in get_args(one)}
    for name, kinds in (
        ("statements", (*STATEMENTS, *WORKS)),
        ("expressions", EXPRESSIONS),
        ("parts", PARTS),
        ("names", (str, ir.While)),
    ):
        if not inside.isdisjoint(kinds):
            return name
    return "data"


@pytest.mark.parametrize(
    "kind", [*EXPRESSIONS, *STATEMENTS, *PARTS, *WORKS, ir.While, ir.Program], ids=lambda kind: kind.__name__
)
def test_each_field_has_the_role_of_what_it_holds(kind: type[attrs.AttrsInstance]) -> None:
    hints = get_type_hints(kind)
    roles = {slot.name: slot.role for slot in slots(kind)}
    for field in attrs.fields(kind):
        assert field.init
        assert not field.kw_only
        held = "data" if (kind, field.name) in ROWS else holds(hints[field.name])
        assert roles.get(field.name) in ALLOWED[held], field.name


@pytest.mark.parametrize("kind", EXPRESSIONS, ids=lambda kind: kind.__name__)
def test_expressions_evaluate_operands_only(kind: type) -> None:
    """So :func:`tileir.core.nodes.schema.with_operands` can make each of them anew."""
    roles = [slot.role for slot in slots(kind) if slot.role not in (Role.USES, Role.INTRODUCES)]
    assert set(roles) <= {Role.OPERAND} or roles == [Role.OPERANDS]


def test_names_of_statements_and_expressions_are_not_mixed() -> None:
    """A statement introduces names and expressions use them."""
    assert all(slot.role is not Role.INTRODUCES for kind in EXPRESSIONS for slot in slots(kind))
    assert all(slot.role is not Role.USES for kind in STATEMENTS for slot in slots(kind))
    zero = ir.Const(0, ir.Type(DType.I64))
    loop = ir.For(ir.Var("i", zero.type), zero, zero, 1, ())
    assert list(schema.introduced(loop)) == ["i"]
    assert list(schema.introduced(schema.with_names(loop, {"i": "j"}))) == ["j"]


def test_names_that_a_launch_uses_are_replaced() -> None:
    launch = ir.Launch(0, ("a", "b", "a"))
    assert schema.with_names(launch, {"a": "c"}) == ir.Launch(0, ("c", "b", "c"))
    assert schema.with_names(launch, {"x": "c"}) is launch
