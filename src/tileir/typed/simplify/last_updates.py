"""Rows replaced by the last of their updates, found by the greatest number, for devices whose threads have no order.

```text
O = scatter_assign(U, I, L) ordered    ->    N = coordinate(0)            number of each update
                                             W = scatter_max(N, I)        the last update of each row
                                             O = cond(W >= 0, gather(U, W), L)
```
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from tileir.core import Aggregation, DType, NameScope, Op, attrs
from tileir.typed.dataflow import with_bodies
from tileir.typed.ir import (
    Constant,
    Coordinate,
    Elementwise,
    Function,
    Gather,
    Operation,
    Reshape,
    Scatter,
    Value,
    counting,
)


def with_last_updates(function: Function) -> Function:
    """Return ``function`` without ordered assignments; itself where it has none."""
    function = with_bodies(function, with_last_updates)
    if not any(isinstance(each, Scatter) and each.ordered for each in function.operations):
        return function
    definitions = {each.name: each for each in (*function.inputs, *function.operations)}
    names = NameScope.of(definitions)
    operations: list[Operation] = []
    for operation in function.operations:
        if isinstance(operation, Scatter) and operation.ordered:
            operations += _by_numbers(operation, definitions, names)
        else:
            operations.append(operation)
    return attrs.evolve(function, operations=tuple(operations))


def _by_numbers(
    operation: Scatter, definitions: Mapping[str, Value | Operation], names: NameScope
) -> Iterator[Operation]:
    """Yield what finds the last update of each row, and puts it there."""
    assert operation.into is not None  # it replaces
    places, shape, dtype = definitions[operation.indices].shape, operation.shape, operation.dtype
    count = math.prod(places)
    if count == 0:
        yield Elementwise(operation.name, Op.IDENT, (operation.into,), dtype, shape, span=operation.span)
        return
    counted, rows, how = counting(count), shape[:1], Aggregation.MAX
    number, own, last, none, is_hit, hit, updates, found = (names.fresh(operation.name) for _ in range(8))
    yield Coordinate(number, 0, counted, (count,))
    yield Reshape(own, number, counted, places)
    yield Scatter(last, own, operation.indices, counted, counted, rows, how, span=operation.span)
    yield Constant(none, counted, 0)
    yield Elementwise(is_hit, Op.CMP_GE, (last, none), DType.BOOL, rows)
    yield Reshape(hit, is_hit, DType.BOOL, (*rows, *[1] * (len(shape) - 1)))
    yield Reshape(updates, operation.updates, dtype, (count, *shape[1:]))
    yield Gather(found, updates, last, dtype, shape)
    yield Elementwise(operation.name, Op.COND, (hit, found, operation.into), dtype, shape, span=operation.span)
