"""Reading statements that not all devices have instructions for: asynchronous copies, matrix products, prefetches."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tileir.semtree.ir import AsyncCommit, AsyncCopy, AsyncWait, MatrixMultiply, MatrixOperand, Prefetch, Subscript

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tileir.semtree.cursor import Cursor
    from tileir.semtree.expression_parser import ExpressionParser
    from tileir.semtree.ir import Instruction, Stmt


def _copy(cursor: Cursor, expressions: ExpressionParser) -> Instruction:
    target = _elements(cursor, expressions)
    cursor.expect("=")
    source = _elements(cursor, expressions)
    return AsyncCopy(target, source)


def _commit(cursor: Cursor, _: ExpressionParser) -> Instruction:
    cursor.expect("(")
    cursor.expect(")")
    return AsyncCommit()


def _wait(cursor: Cursor, _: ExpressionParser) -> Instruction:
    (pending,) = _numbers(cursor, 1)
    return AsyncWait(pending)


def _prefetch(cursor: Cursor, expressions: ExpressionParser) -> Stmt:
    return Prefetch(_elements(cursor, expressions))


def _multiply(cursor: Cursor, expressions: ExpressionParser) -> Instruction:
    rows, columns, depth = _numbers(cursor, 3)
    cursor.expect("tile")
    height, width, length = _numbers(cursor, 3)
    accumulators = _elements(cursor, expressions)
    cursor.expect("+=")
    left = _operand(cursor, expressions)
    cursor.expect("*")
    right = _operand(cursor, expressions)
    return MatrixMultiply((rows, columns, depth), (height, width, length), accumulators, left, right)


INSTRUCTIONS: Final[Mapping[str, Callable[[Cursor, ExpressionParser], Stmt]]] = MappingProxyType(
    {"async": _copy, "async_commit": _commit, "async_wait": _wait, "multiply": _multiply, "prefetch": _prefetch}
)
"""What reads a statement behind the word that it starts with, up to its semicolon."""


def _operand(cursor: Cursor, expressions: ExpressionParser) -> MatrixOperand:
    start = _elements(cursor, expressions)
    cursor.expect("strides")
    row, column = _numbers(cursor, 2)
    shift, mask = _numbers(cursor, 2) if cursor.accept("swizzle") else (0, 0)
    return MatrixOperand(start, (row, column), shift, mask)


def _elements(cursor: Cursor, expressions: ExpressionParser) -> Subscript:
    found = expressions.reference()
    if not isinstance(found.expr, Subscript):
        cursor.fail("TIL102", "only elements of arrays can be copied, multiplied or prefetched", found.span)
    return found.expr


def _numbers(cursor: Cursor, count: int) -> tuple[int, ...]:
    """Read ``count`` integers between parentheses."""
    opening = cursor.expect("(")
    found = cursor.integers()
    closing = cursor.expect(")")
    if len(found) != count:
        cursor.fail("TIL102", f"expected {count} integers, found {len(found)}", opening.span.to(closing.span))
    return found
