"""The roles of the fields of Stripe's nodes are total, and walks and names follow from them."""

from __future__ import annotations

from typing import get_args

import pytest

from strategies.roles import wrong
from tileir.core.dtype import DType
from tileir.core.nodes import schema
from tileir.core.ops import Op
from tileir.poly.affine import Affine
from tileir.stripe import ir
from tileir.stripe.blocks import renamed

STATEMENTS = get_args(ir.Statement)
WORKS = get_args(ir.Work)
RECORDS = (ir.While, ir.Carry)
TEXTS = ("name", "comments", "parameters")
"""Names of blocks, launches and specials are for people and back ends: nothing in the program refers to them."""


@pytest.mark.parametrize("kind", [*STATEMENTS, *WORKS, *RECORDS], ids=lambda kind: kind.__name__)
def test_each_field_has_the_role_of_what_it_holds(kind: type) -> None:
    assert not list(wrong(kind, (*STATEMENTS, *WORKS), RECORDS, TEXTS))


@pytest.mark.parametrize(
    ("statement", "scalars", "output", "read", "written"),
    [
        (ir.Load("A", "a"), (), "a", ("A",), ()),
        (ir.Load("A", "a", "i"), ("i",), "a", ("A",), ()),
        (ir.Store("a", "A", "i"), ("a", "i"), None, (), ("A",)),
        (ir.LoadIndex(Affine.index("i"), "a", DType.I32), (), "a", (), ()),
        (ir.Constant("a", DType.I32, 1), (), "a", (), ()),
        (ir.Intrinsic(Op.ADD, ("a", "b"), "c", DType.I32), ("a", "b"), "c", (), ()),
        (ir.Convert("a", "b", DType.I32), ("a",), "b", (), ()),
        (ir.Special("copy", ("A",), ("B",)), (), None, ("A",), ("B",)),
    ],
)
def test_effects_and_names_follow_from_them(
    statement: ir.Statement,
    scalars: tuple[str, ...],
    output: str | None,
    read: tuple[str, ...],
    written: tuple[str, ...],
) -> None:
    assert ir.scalar_inputs(statement) == scalars
    assert ir.scalar_output(statement) == output
    assert (ir.views_read(statement), ir.views_written(statement)) == (read, written)
    new = renamed(statement, {"a": "x", "i": "j"}, {"A": "V"})
    assert ir.scalar_inputs(new) == tuple({"a": "x", "i": "j"}.get(name, name) for name in scalars)
    assert ir.views_read(new) == tuple({"A": "V"}.get(name, name) for name in read)
    assert ir.views_written(new) == tuple({"A": "V"}.get(name, name) for name in written)
    assert renamed(statement, {"A": "x"}, {"a": "V"}) is statement


def test_works_say_what_they_use_and_hold() -> None:
    launch = ir.Launch(0, ("A", "B"))
    loop = ir.Loop(ir.While("more"), (launch,), (ir.Carry("kept", "made"),))
    branch = ir.Branch("if", (launch,), (loop,))
    assert schema.used(launch) == ("A", "B")
    assert (schema.reads(loop), schema.writes(loop)) == (("more", "made"), ("kept",))
    assert (schema.reads(branch), schema.writes(branch)) == (("if",), ())
    assert schema.bodies(branch) == ((launch,), (loop,))
    again = schema.with_names(loop, {}, {"more": "less", "kept": "held"})
    assert again == ir.Loop(ir.While("less"), (launch,), (ir.Carry("held", "made"),))
    assert schema.with_names(loop, {"more": "less"}, {"A": "B"}) is loop
