"""Atomic updates: merges into elements into which other threads and groups merge concurrently."""

from __future__ import annotations

from typing import ClassVar

from tileir.core import OPERAND, Op, Role, attrs, role
from tileir.core.nodes.rules import Rule
from tileir.core.updates import UPDATES
from tileir.semtree.expressions import Expr, Subscript
from tileir.semtree.kinds import Type
from tileir.semtree.node import Node


@attrs.frozen(cache_hash=True, repr=False)
class Update(Node):
    """Set an element to ``op`` of itself and a value, atomically.

    Updates of an element have no order, nor do they order anything else: its reader must first meet the updating
    threads at a barrier, or be a later kernel. A float maximum or minimum requires an initial number; an update that is
    NaN makes it NaN, and of zeros -0.0 is the lesser.
    """

    form: ClassVar[str] = "update {op} {target} by {value}"
    rules: ClassVar = (
        Rule(
            lambda s: (
                s.value.type == s.target.type == Type(s.value.type.dtype) and (s.op, s.value.type.dtype) in UPDATES
            ),
            lambda s: (
                f"{s.op.name.lower()} of {s.target.type} and {s.value.type} is no update, which is a sum of integers of"
                " 4 or 8 bytes, or their extremum, or that of f32 or f64"
            ),
        ),
    )
    op: Op
    target: Subscript = attrs.field(metadata=role(Role.UPDATED, Subscript))
    value: Expr = attrs.field(metadata=OPERAND)
