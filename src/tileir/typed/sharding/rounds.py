"""Functions that ranks run in the rounds of operations in which they meet, on parts of known shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from tileir.core import NameScope, attrs
from tileir.ops.arrays.indexing import take_along_axis
from tileir.ops.arrays.joining import concatenate
from tileir.tile import builder_functions as tf
from tileir.tile.builder import FunctionBuilder, Tensor
from tileir.typed.boxes import Interval
from tileir.typed.inference.inference import infer
from tileir.typed.ir import Argsort, Cast, Elementwise, Function, Gather, Operation, Scatter, Shape, TensorType, Value
from tileir.typed.sharding.rows import Rows
from tileir.typed.simplify.simplifier import simplify

KEYS, PLACES, OTHER_KEYS, OTHER_PLACES = "K", "P", "OK", "OP"
"""Inputs of functions that sort and merge; their results are named by the first two and ``SORTED``."""

SORTED = "_sorted"
TABLE, ROWS, UPDATES, BEFORE, MADE = "T", "I", "U", "B", "R"
"""Inputs of functions that look up or update rows, and their result."""


@lru_cache(256)
def sorted_part(operation: Argsort, keys: Value, start: int, count: int) -> Function:
    """Return the function from a part of a sorted axis to its first keys in order, and to their positions in the whole.

    Args:
        operation: The sort.
        keys: The part, called ``KEYS``.
        start: The position of the first key of the part.
        count: The number of keys to keep.
    """

    def sort(part: Sequence[Tensor]) -> list[Tensor]:
        order = tf.argsort(part[0], operation.axis, operation.descending, count)
        keys = take_along_axis(part[0], order, operation.axis)
        return [keys, tf.cast(order, operation.dtype.value) + start]

    return _traced([keys], sort)


@lru_cache(256)
def merged_parts(operation: Argsort, parts: tuple[Value, ...], wanted: Interval) -> Function:
    """Return the function from two sorted parts to some of their elements in order, and their positions.

    Args:
        operation: The sort.
        parts: The keys and the positions of the part that precedes among equal keys, then those of the other one.
        wanted: The first element that is kept, and the one after the last.
    """
    axis, low, high = operation.axis, *wanted

    def merge(given: Sequence[Tensor]) -> list[Tensor]:
        keys, places = (concatenate(each, axis) for each in (given[::2], given[1::2]))
        order = tf.argsort(keys, axis, operation.descending, high)
        kept = order[(*[slice(None)] * axis, slice(low, high))]
        return [take_along_axis(keys, kept, axis), take_along_axis(places, kept, axis)]

    return _traced(parts, merge)


def _traced(inputs: Sequence[Value], made: Callable[[Sequence[Tensor]], Sequence[Tensor]]) -> Function:
    """Return a typed function with two results, named after the first two inputs of sorts."""
    builder = FunctionBuilder()
    given = [builder.input(value.name, *value.shape, dtype=value.dtype) for value in inputs]
    results = dict(zip((f"{KEYS}{SORTED}", f"{PLACES}{SORTED}"), made(given), strict=True))
    types = {value.name: TensorType(value.dtype, value.shape) for value in inputs}
    return simplify(infer(builder.build(**results), types))


@lru_cache(1024)
def looked_up(operation: Gather, table: Value, interval: Interval, size: int, rows: Value, shape: Shape) -> Function:
    """Return the function from rows of one rank to the elements of a gather that are among them.

    All others are those of ``BEFORE``.

    Args:
        operation: The gather.
        table: The rows, called ``TABLE``.
        interval: Their interval among all rows.
        size: The number of all rows.
        rows: The indices, called ``ROWS``.
        shape: The shape of the result.
    """
    before = Value(BEFORE, operation.dtype, shape)
    made: list[Operation] = []
    part = attrs.evolve(operation, name=MADE, data=TABLE, indices=ROWS, shape=shape)
    names = NameScope.of((MADE, TABLE, ROWS, BEFORE))
    Rows(interval, size, names, made.append).gather(part, rows, BEFORE)
    return Function((table, rows, before), (MADE,), tuple(made))


@lru_cache(1024)
def updated(
    operation: Scatter, updates: Value, rows: Value, interval: Interval, shape: Shape, *, has_before: bool
) -> Function:
    """Return the function from updates of one rank to rows of another one, in the dtype of their aggregation.

    Args:
        operation: The scatter.
        updates: The updates, called ``UPDATES``.
        rows: The indices, called ``ROWS``.
        interval: The interval of the updated rows among all rows.
        shape: The shape of the updated rows.
        has_before: Whether the rows have values already, ``BEFORE``, with which updates are merged.
    """
    dtype, op = operation.accumulator, operation.aggregation.op
    names = NameScope.of((MADE, UPDATES, ROWS, BEFORE))
    made: list[Operation] = []
    wide, own = UPDATES, MADE
    if updates.dtype is not dtype:
        made.append(Cast(wide := names.fresh("wide"), UPDATES, dtype, updates.shape))
    if has_before and op is not None:
        own = names.fresh("own")
    into = BEFORE if op is None else None
    part = attrs.evolve(operation, name=own, updates=wide, indices=ROWS, into=into, dtype=dtype, shape=shape)
    Rows(interval, operation.shape[0], names, made.append).scatter(part, rows)
    if has_before and op is not None:
        made.append(Elementwise(MADE, op, (BEFORE, own), dtype, shape))
    before = (Value(BEFORE, dtype, shape),) if has_before else ()
    return Function((updates, rows, *before), (MADE,), tuple(made))


@lru_cache(256)
def narrowed(operation: Scatter, shape: Shape) -> Function:
    """Return the function from ``BEFORE``, in the dtype of the aggregation, to the dtype of the result."""
    before = Value(BEFORE, operation.accumulator, shape)
    return Function((before,), (MADE,), (Cast(MADE, BEFORE, operation.dtype, shape),))
