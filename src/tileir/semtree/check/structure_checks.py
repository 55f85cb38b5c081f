"""Rules of a kernel that can be checked before its types are trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileir.core.errors import Diagnostic
from tileir.core.schema import bodies, introduced, mentions, operands
from tileir.semtree.check.type_rules import MAX_DEPTH, MAX_NESTING
from tileir.semtree.ir import Apply, DeclareArray, Expr, Param, Shuffle
from tileir.semtree.text.names import is_spellable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tileir.semtree.check.scopes import Survey

_MAX_SIZE: Final = 100_000


def check_nesting(survey: Survey) -> Iterator[Diagnostic]:
    """Statements are nested so little that recursion over them is safe."""
    level = [survey.kernel.body]
    for _ in range(MAX_NESTING + 1):
        level = [body for stmts in level for stmt in stmts for body in bodies(stmt) if body]
    if level:
        yield Diagnostic("TIL103", f"statements are nested more than {MAX_NESTING} deep")


def check_depth(survey: Survey) -> Iterator[Diagnostic]:
    """Expressions are so flat that recursion over them is safe, and not exponentially large as trees."""
    measured: dict[int, tuple[int, int]] = {}
    for stmt in survey.statements:
        for root in mentions(stmt):
            try:
                _, size = _measure(root, measured, MAX_DEPTH)
            except _TooDeepError:
                yield Diagnostic("TIL103", f"an expression is nested more than {MAX_DEPTH} deep: declare a part of it")
                continue
            if size > _MAX_SIZE:
                yield Diagnostic("TIL105", f"an expression has more than {_MAX_SIZE} nodes: declare what it repeats")


class _TooDeepError(Exception):
    """An expression is nested deeper than allowed."""


def _measure(node: Expr, measured: dict[int, tuple[int, int]], allowed: int) -> tuple[int, int]:
    """Return the depth of an expression and its size as a tree, in time linear in its distinct objects.

    Raises:
        _TooDeepError: It is deeper than ``allowed``, which bounds the recursion as well.

    """
    depth, size = 1, 1
    if below := operands(node):
        if allowed <= 1:
            raise _TooDeepError
        for child in below:
            of_child = measured.get(id(child)) or _measure(child, measured, allowed - 1)
            depth, size = max(depth, of_child[0] + 1), size + of_child[1]
        if depth > allowed:
            raise _TooDeepError
    measured[id(node)] = depth, size
    return depth, size


def check_arity(survey: Survey) -> Iterator[Diagnostic]:
    """Every operation has as many operands as it takes."""
    for node in survey.nodes:
        if isinstance(node, Apply) and len(node.args) != node.op.info.arity:
            yield Diagnostic("TIL552", f"{node.op.value} takes {node.op.info.arity} operands, not {len(node.args)}")
        elif isinstance(node, Shuffle) and not node.operands:
            yield Diagnostic("TIL552", "shuffle takes one operand at least")


def check_launch_grid(survey: Survey) -> Iterator[Diagnostic]:
    """Grid and group have one to three positive extents, and indices are signed integers."""
    kernel = survey.kernel
    for what, extents in (("grid", kernel.grid), ("group", kernel.group)):
        if not 1 <= len(extents) <= 3:
            yield Diagnostic("TIL551", f"the {what} has 1 to 3 axes, not {len(extents)}")
        if any(extent < 1 for extent in extents):
            yield Diagnostic("TIL551", f"every extent of the {what} is at least 1, unlike in {extents}")
    if not (kernel.index.is_integer and kernel.index.is_signed):
        yield Diagnostic("TIL551", f"indices are signed integers, not {kernel.index.value}")
    if kernel.operations < 0:
        yield Diagnostic("TIL551", f"the number of operations is at least 0, not {kernel.operations}")


def check_spelling(survey: Survey) -> Iterator[Diagnostic]:
    """Names and comments can be written in the text form."""
    kernel = survey.kernel
    declared = (name for stmt in survey.statements for name in introduced(stmt))
    for name in dict.fromkeys((kernel.name, *(param.name for param in kernel.params), *declared)):
        if not is_spellable(name):
            yield unspellable(name)
    for comment in kernel.comments:
        if "\n" in comment:
            yield Diagnostic("TIL551", f"a comment fills one line, unlike {comment!r}")


def unspellable(name: str) -> Diagnostic:
    """Return what is wrong with a name that the text form cannot write."""
    return Diagnostic("TIL551", f"{name!r} is no name: use one or more printable characters other than a back quote")


def check_arrays(survey: Survey) -> Iterator[Diagnostic]:
    """Arrays have a size, and an alignment that is a power of two."""
    declared = [stmt for stmt in survey.statements if isinstance(stmt, DeclareArray)]
    arrays: tuple[Param | DeclareArray, ...] = (*survey.kernel.params, *declared)
    for array in arrays:
        if array.size < (1 if isinstance(array, DeclareArray) else 0):
            yield Diagnostic("TIL551", f"array {array.name!r} cannot have {array.size} elements")
        if array.alignment < 1 or array.alignment & (array.alignment - 1):
            yield Diagnostic("TIL551", f"the alignment of {array.name!r} is a power of two, not {array.alignment}")
