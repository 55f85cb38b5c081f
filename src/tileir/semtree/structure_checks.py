"""Rules of a kernel that can be checked before its types are trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileir.core.errors import Diagnostic
from tileir.semtree.ir import Apply, DeclareArray, Shuffle
from tileir.semtree.rewrite import bodies, children, kernel_names, mentions, statements
from tileir.semtree.syntax import is_spellable
from tileir.semtree.type_rules import MAX_DEPTH, MAX_NESTING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tileir.semtree.ir import Expr, KernelFunction, Param

_MAX_SIZE: Final = 100_000


def distinct_nodes(kernel: KernelFunction) -> Iterator[Expr]:
    """Yield every expression of the kernel, in the order of the text; one object that occurs many times comes once."""
    seen: set[int] = set()
    for stmt in statements(kernel.body):
        stack = list(reversed(mentions(stmt)))
        while stack:
            node = stack.pop()
            if id(node) not in seen:
                seen.add(id(node))
                yield node
                if below := children(node):
                    stack.extend(reversed(below))


def check_nesting(kernel: KernelFunction) -> Iterator[Diagnostic]:
    """Statements are nested so little that recursion over them is safe."""
    level = [kernel.body]
    for _ in range(MAX_NESTING + 1):
        level = [body for stmts in level for stmt in stmts for body in bodies(stmt) if body]
    if level:
        yield Diagnostic("TIL103", f"statements are nested more than {MAX_NESTING} deep")


def check_depth(kernel: KernelFunction) -> Iterator[Diagnostic]:
    """Expressions are so flat that recursion over them is safe, and not exponentially large as trees."""
    measured: dict[int, tuple[int, int]] = {}
    for stmt in statements(kernel.body):
        for root in mentions(stmt):
            depth, size = _measure(root, measured)
            if depth > MAX_DEPTH:
                yield Diagnostic("TIL103", f"an expression is nested more than {MAX_DEPTH} deep: declare a part of it")
            elif size > _MAX_SIZE:
                yield Diagnostic("TIL105", f"an expression has more than {_MAX_SIZE} nodes: declare what it repeats")


def _measure(root: Expr, measured: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Return the depth of an expression and its size as a tree, in time linear in its distinct objects."""
    stack = [root]
    while stack:
        node = stack[-1]
        depth, size = 0, 1
        for child in children(node):
            known = measured.get(id(child))
            if known is not None:
                depth, size = max(depth, known[0]), size + known[1]
            elif children(child):
                stack.append(child)
            else:
                measured[id(child)] = 1, 1
                depth, size = max(depth, 1), size + 1
        if stack[-1] is node:
            measured[id(node)] = depth + 1, size
            stack.pop()
    return measured[id(root)]


def check_arity(kernel: KernelFunction) -> Iterator[Diagnostic]:
    """Every operation has as many operands as it takes."""
    for node in distinct_nodes(kernel):
        if isinstance(node, Apply) and len(node.args) != node.op.info.arity:
            yield Diagnostic("TIL552", f"{node.op.value} takes {node.op.info.arity} operands, not {len(node.args)}")
        elif isinstance(node, Shuffle) and not node.operands:
            yield Diagnostic("TIL552", "shuffle takes one operand at least")


def check_launch_grid(kernel: KernelFunction) -> Iterator[Diagnostic]:
    """Grid and group have one to three positive extents, and indices are signed integers."""
    for what, extents in (("grid", kernel.grid), ("group", kernel.group)):
        if not 1 <= len(extents) <= 3:
            yield Diagnostic("TIL551", f"the {what} has 1 to 3 axes, not {len(extents)}")
        if any(extent < 1 for extent in extents):
            yield Diagnostic("TIL551", f"every extent of the {what} is at least 1, unlike in {extents}")
    if not (kernel.index.is_integer and kernel.index.is_signed):
        yield Diagnostic("TIL551", f"indices are signed integers, not {kernel.index.value}")
    if kernel.operations < 0:
        yield Diagnostic("TIL551", f"the number of operations is at least 0, not {kernel.operations}")


def check_spelling(kernel: KernelFunction) -> Iterator[Diagnostic]:
    """Names and comments can be written in the text form."""
    for name in dict.fromkeys((kernel.name, *kernel_names(kernel))):
        if not is_spellable(name):
            yield unspellable(name)
    for comment in kernel.comments:
        if "\n" in comment:
            yield Diagnostic("TIL551", f"a comment fills one line, unlike {comment!r}")


def unspellable(name: str) -> Diagnostic:
    """Return what is wrong with a name that the text form cannot write."""
    return Diagnostic("TIL551", f"{name!r} is no name: use one or more printable characters other than a back quote")


def check_arrays(kernel: KernelFunction) -> Iterator[Diagnostic]:
    """Arrays have a size, and an alignment that is a power of two."""
    declared = [stmt for stmt in statements(kernel.body) if isinstance(stmt, DeclareArray)]
    arrays: tuple[Param | DeclareArray, ...] = (*kernel.params, *declared)
    for array in arrays:
        if array.size < (1 if isinstance(array, DeclareArray) else 0):
            yield Diagnostic("TIL551", f"array {array.name!r} cannot have {array.size} elements")
        if array.alignment < 1 or array.alignment & (array.alignment - 1):
            yield Diagnostic("TIL551", f"the alignment of {array.name!r} is a power of two, not {array.alignment}")
