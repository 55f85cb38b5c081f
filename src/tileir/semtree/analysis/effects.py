"""Effects of a statement on variables and arrays, from its kind and the roles of its fields.

Nested statements do not count, nor does memory beyond the first of several elements of a matrix operand.

The module also takes a census of a kernel's operations, so that stages can skip kernels without those they handle.
"""

from __future__ import annotations

from collections.abc import Iterable

from tileir.core import DType, Op, attrs, schema
from tileir.semtree.dots import fragment_of
from tileir.semtree.ir import (
    Apply,
    Bitcast,
    Cast,
    Collective,
    Const,
    DeclareArray,
    Deferred,
    Dot,
    Hint,
    KernelFunction,
    LValue,
    Reduce,
    Stmt,
    Subscript,
    Var,
)
from tileir.semtree.rewrite import distinct_nodes, expressions, statements, walk


def reads(stmt: Stmt) -> tuple[Subscript, ...]:
    """Return the elements that a statement reads, in the order of the text, as often as it does."""
    return tuple([node for root in expressions(stmt) for node in walk(root) if isinstance(node, Subscript)])


def targets(stmt: Stmt) -> tuple[LValue, ...]:
    """Return the variables and elements that a statement sets, except variables that it introduces."""
    return schema.targets(stmt)


def writes(stmt: Stmt) -> tuple[Subscript, ...]:
    """Return the elements that a statement writes, after it has read others."""
    found = schema.targets(stmt)
    return tuple([target for target in found if isinstance(target, Subscript)]) if found else ()


def introduces(stmt: Stmt) -> tuple[str, ...]:
    """Return the variables that a statement introduces, and sets."""
    return tuple([variable.name for variable in schema.introduced_of(stmt, Var)])


def sets(stmt: Stmt) -> tuple[str, ...]:
    """Return the variables that a statement sets, including those that it introduces."""
    return introduces(stmt) + assigns(stmt)


def assigns(stmt: Stmt) -> tuple[str, ...]:
    """Return the variables that a statement sets without introducing them."""
    found = schema.targets(stmt)
    return tuple([target.name for target in found if isinstance(target, Var)]) if found else ()


def assigned_variables(stmts: Iterable[Stmt]) -> frozenset[str]:
    """Return the variables that statements, at any depth, set after their introduction."""
    return frozenset([name for stmt in statements(stmts) for name in assigns(stmt)])


def meets(stmt: Stmt) -> bool:
    """Return whether all threads of a group run a statement together."""
    return isinstance(stmt, Collective)


def is_plain(stmt: Stmt) -> bool:
    """Return whether each thread reads and writes independently, and has finished before the next statement runs."""
    return not isinstance(stmt, Collective | Deferred)


@attrs.frozen(eq=False)
class Census:
    """Kinds of nodes in a kernel, each once.

    Attributes:
        operations: Elementwise operations, each with the dtype of its first operand and the most lanes of one.
        reductions: Operations that merge lanes, each with their dtype and number.
        dots: Fragments of dot products (:func:`tileir.semtree.dots.fragment_of`).
        converts: Whether there are conversions, by value or of bits.
        dtypes: Those of arrays, constants and conversions; other nodes have the dtype of one of these.
        hints: Classes of hints.
    """

    operations: frozenset[tuple[Op, DType, int]]
    reductions: frozenset[tuple[Op, DType, int]]
    dots: frozenset[str]
    converts: bool
    dtypes: frozenset[DType]
    hints: frozenset[type[Hint]]


def census(kernel: KernelFunction) -> Census:
    """Return the census of a kernel; the last result is cached."""
    global _last
    known = _last  # several threads may ask
    if known is None or known[0] is not kernel:
        _last = known = kernel, _counted(kernel)
    return known[1]


_last: tuple[KernelFunction, Census] | None = None


def _counted(kernel: KernelFunction) -> Census:
    operations: set[tuple[Op, DType, int]] = set()
    reductions: set[tuple[Op, DType, int]] = set()
    dots: set[str] = set()
    dtypes = {param.dtype for param in kernel.params}
    hints: set[type[Hint]] = set()
    for stmt in statements(kernel.body):
        if isinstance(stmt, DeclareArray):
            dtypes.add(stmt.dtype)
        elif isinstance(stmt, Hint):
            hints.add(type(stmt))
    converts = False
    for node in distinct_nodes(kernel):
        match node:
            case Apply(op=op, args=args):
                operations.add((op, args[0].type.dtype, max([arg.type.lanes for arg in args])))
            case Const(type=kind):
                dtypes.add(kind.dtype)
            case Cast(type=kind) | Bitcast(type=kind):
                dtypes.add(kind.dtype)
                converts = True
            case Reduce(op=op, operand=operand):
                reductions.add((op, operand.type.dtype, operand.type.lanes))
            case Dot():
                dots.add(fragment_of(node))
    return Census(
        frozenset(operations), frozenset(reductions), frozenset(dots), converts, frozenset(dtypes), frozenset(hints)
    )
