"""Asynchronous copies and products of matrices as Python closures, for the interpreter."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tileir.core.fragments import FRAGMENTS
from tileir.core.ops import Op
from tileir.semtree.interpret.evaluation import AGENT, COPIES
from tileir.semtree.interpret.memory import poisoned
from tileir.semtree.matrices import folded_place, held

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.core.fragments import Fragment
    from tileir.semtree.interpret.evaluation import ExpressionCompiler, Frame
    from tileir.semtree.interpret.memory import Array, Memory
    from tileir.semtree.ir import AsyncCopy, KernelFunction, MatrixMultiply, MatrixOperand

Action: TypeAlias = "Callable[[Frame], None]"


def copying(expressions: ExpressionCompiler, stmt: AsyncCopy) -> Action:
    """Return the closure that begins a copy: until it is waited for, its elements have no value."""
    memory, place = expressions.slot(stmt.target.array), expressions.evaluator(stmt.target.offset)
    value, lanes, kernel = expressions.evaluator(stmt.source), stmt.target.type.lanes, expressions.kernel

    def begin(frame: Frame) -> None:
        array: Memory = frame[memory]
        first, new = place(frame), value(frame)
        if not 0 <= first <= len(array.data) - lanes:
            raise array.outside(kernel, first, first + lanes - 1)
        there = slice(first, first + lanes)
        unknown = poisoned(stmt.target.type.dtype, lanes, expressions.numbers)
        if expressions.watched:
            array.writes(there, frame[AGENT], unknown)
            array.forget(there)
        array.data[there] = unknown
        frame[COPIES][-1].append((array, there, new))

    return begin


def waiting(pending: int) -> Action:
    """Return the closure that completes all groups of copies but the last ``pending`` ones."""

    def wait(frame: Frame) -> None:
        groups = frame[COPIES]
        while len(groups) - 1 > pending:
            for array, there, new in groups.pop(0):
                array.writes(there, frame[AGENT], np.atleast_1d(new))
                array.data[there] = new

    return wait


def multiplying(expressions: ExpressionCompiler, stmt: MatrixMultiply, kernel: KernelFunction) -> Action:
    """Return the closure that adds to a thread's elements of a product.

    It reads both operands as a whole, for any of the threads may fetch any part of them.
    """
    fragment, (height, width, depth), size = FRAGMENTS[stmt.fragment], stmt.tile, held(stmt)
    own_rows, own_columns = (_places(fragment, axis, extent) for axis, extent in (("m", height), ("n", width)))
    sums, start = expressions.slot(stmt.accumulators.array), expressions.evaluator(stmt.accumulators.offset)
    left, right = _reader(expressions, stmt.left, (height, depth)), _reader(expressions, stmt.right, (depth, width))
    extents = (*kernel.group, 1, 1)[:3]
    numbers, dtype = expressions.numbers, stmt.accumulators.type.dtype

    def multiply(frame: Frame) -> None:
        x, y, z = frame[3:6]
        lane = (x + extents[0] * (y + extents[1] * z)) % fragment.threads
        array: Memory = frame[sums]
        first = start(frame)
        if not 0 <= first <= len(array.data) - size:
            raise array.outside(kernel.name, first, first + size - 1)
        there = slice(first, first + size)
        product = numbers.product(left(frame), right(frame), dtype)
        own = product[own_rows[lane][:, None], own_columns[lane][None]].reshape(-1)
        if expressions.watched:
            array.reads(there, frame[AGENT])
        new = numbers.apply(Op.ADD, dtype, array.data[there], own)
        if expressions.watched:
            array.writes(there, frame[AGENT], new)
        array.data[there] = new

    return multiply


def _places(fragment: Fragment, axis: str, extent: int) -> Array:
    """Return where each thread's elements lie along an axis of a tile: [threads, fragments, elements]."""
    layout, unit = fragment.sums, fragment.mnk["mnk".index(axis)]
    inside = [[layout.at(axis, lane, n) for n in range(layout.held)] for lane in range(fragment.threads)]
    places: Array = np.array(inside)[:, None] + np.arange(0, extent, unit)[None, :, None]
    return places


def _reader(
    expressions: ExpressionCompiler, operand: MatrixOperand, extents: tuple[int, int]
) -> Callable[[Frame], Array]:
    """Return the closure that reads an operand as a matrix."""
    memory, start = expressions.slot(operand.start.array), expressions.evaluator(operand.start.offset)
    places = np.add.outer(*(np.arange(n) * stride for n, stride in zip(extents, operand.strides, strict=True)))

    def read(frame: Frame) -> Array:
        array: Memory = frame[memory]
        there = places + start(frame)
        there = folded_place(there, operand.fold)
        there = there ^ ((there >> operand.shift) & operand.mask)
        low, high = int(there.min()), int(there.max())
        if low < 0 or high >= len(array.data):
            raise array.outside(expressions.kernel, low, high)
        if expressions.watched:
            array.reads(there.reshape(-1), frame[AGENT])
        values: Array = array.data[there]
        return values

    return read
