"""What is visible at each statement of a kernel."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from tileir.core import schema
from tileir.semtree.ir import Declare, DeclareArray, For, Param
from tileir.semtree.rewrite import bodies

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tileir.semtree.ir import KernelFunction, Stmt

Declared: TypeAlias = Param | DeclareArray | Declare | For
"""What introduces a name; a loop introduces its counter."""


def introduced_name(stmt: Stmt) -> str | None:
    """Return the name that a statement introduces, if any."""
    names = schema.introduced(stmt)
    return names[0] if names else None


def scoped(kernel: KernelFunction) -> Iterator[tuple[Stmt, Mapping[str, Declared]]]:
    """Yield each statement, in the order of the text, with what is visible right before it.

    The mapping is live: it is true until the next statement is asked for. Where a name is declared again
    although it is visible, the first declaration stays.
    """
    visible: dict[str, Declared] = {}
    for param in kernel.params:
        visible.setdefault(param.name, param)
    yield from _body(kernel.body, visible, MappingProxyType(visible))


def _body(
    stmts: tuple[Stmt, ...], visible: dict[str, Declared], view: Mapping[str, Declared]
) -> Iterator[tuple[Stmt, Mapping[str, Declared]]]:
    local: list[str] = []
    for stmt in stmts:
        yield stmt, view
        name = introduced_name(stmt)
        new = name is not None and name not in visible
        if isinstance(stmt, For):
            if new:
                visible[stmt.counter.name] = stmt
            yield from _body(stmt.body, visible, view)
            if new:
                del visible[stmt.counter.name]
        elif isinstance(stmt, Declare | DeclareArray):
            if new and name is not None:
                visible[name] = stmt
                local.append(name)
        else:
            for body in bodies(stmt):
                yield from _body(body, visible, view)
    for name in local:
        del visible[name]
