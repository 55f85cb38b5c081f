"""What a statement itself does to variables and arrays, as the roles of its fields and its kind tell.

What nested statements do is not among it, and neither is memory beyond the first of several elements that one operand
of a product of matrices has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.core import schema
from tileir.semtree.ir import Collective, Deferred, Subscript, Var
from tileir.semtree.rewrite import expressions, statements, walk

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tileir.semtree.ir import LValue, Stmt


def reads(stmt: Stmt) -> tuple[Subscript, ...]:
    """Return the elements that a statement reads, each time that it does, in the order of the text."""
    return tuple([node for root in expressions(stmt) for node in walk(root) if isinstance(node, Subscript)])


def targets(stmt: Stmt) -> tuple[LValue, ...]:
    """Return the variables and elements that a statement sets, but for variables that it introduces."""
    return schema.targets(stmt)


def writes(stmt: Stmt) -> tuple[Subscript, ...]:
    """Return the elements that a statement writes, after it has read others."""
    found = schema.targets(stmt)
    return tuple([target for target in found if isinstance(target, Subscript)]) if found else ()


def introduces(stmt: Stmt) -> tuple[str, ...]:
    """Return the variables that a statement introduces, and sets."""
    return tuple([variable.name for variable in schema.introduced_of(stmt, Var)])


def sets(stmt: Stmt) -> tuple[str, ...]:
    """Return the variables that a statement sets, those that it introduces among them."""
    return introduces(stmt) + assigns(stmt)


def assigns(stmt: Stmt) -> tuple[str, ...]:
    """Return the variables that a statement sets after they were introduced by another one."""
    found = schema.targets(stmt)
    return tuple([target.name for target in found if isinstance(target, Var)]) if found else ()


def assigned_variables(stmts: Iterable[Stmt]) -> frozenset[str]:
    """Return the variables that statements, nested ones too, set after they were introduced."""
    return frozenset([name for stmt in statements(stmts) for name in assigns(stmt)])


def meets(stmt: Stmt) -> bool:
    """Return whether all threads of a group run a statement together."""
    return isinstance(stmt, Collective)


def is_plain(stmt: Stmt) -> bool:
    """Return whether each thread reads and writes by itself, and has done so when the next statement runs."""
    return not isinstance(stmt, Collective | Deferred)
