"""Derivatives of contractions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tileir.core.errors import fail
from tileir.core.ops import Aggregation, Combination
from tileir.typed.ir import Access, Contraction
from tileir.typed.rules import contraction_types

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tileir.typed.derivatives.sweep import Sweep
    from tileir.typed.values import Tensor


def pullback(sweep: Sweep, operation: Contraction, cotangent: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yield for each input the contraction in which it and the result have changed places.

    Raises:
        TileError: TIL324, this aggregation has no rule.

    """
    if operation.aggregation not in (Aggregation.SUM, Aggregation.ASSIGN) or operation.default is not None:
        raise fail("TIL324", "this contraction cannot be differentiated", operation.span)
    arriving = Access(sweep.expanded(cotangent, operation.shape).name, operation.output)
    for position, access in enumerate(operation.inputs):
        if not sweep.wanted(access.tensor):
            continue
        sweep.toward(access.tensor)
        others = tuple(other for place, other in enumerate(operation.inputs) if place != position)
        factors = others if operation.combination is Combination.MUL else ()
        yield access.tensor, _swapped(sweep, operation, access, (arriving, *factors))


def _swapped(sweep: Sweep, operation: Contraction, target: Access, inputs: tuple[Access, ...]) -> Tensor:
    """Sum over the same points into what ``target`` reads."""
    combination = Combination.NONE if len(inputs) == 1 else Combination.MUL
    dtypes = [sweep.definition(access.tensor).dtype for access in inputs]
    types = contraction_types(Aggregation.SUM, combination, dtypes)
    return sweep.emission.add(
        attrs.evolve(
            operation,
            name=sweep.emission.fresh(),
            output=target.indices,
            shape=sweep.definition(target.tensor).shape,
            inputs=inputs,
            aggregation=Aggregation.SUM,
            combination=combination,
            operand_dtype=types.operand,
            accumulator=types.accumulator,
            dtype=types.result,
            span=None,
        )
    )
