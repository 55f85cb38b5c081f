"""Windows of weights of rank one: the sum goes over one of their axes at a time.

``O[y, x] = +(I[y + i, x + j] * K[i, j])`` with a constant ``K[i, j] = U[i] * V[j]`` is
``P[y, x] = +(I[y, x + j] * V[j])`` and then ``O[y, x] = +(P[y + i, x] * U[i])``: M + N products for each element
instead of M·N. The factors of floats are rounded, and sums are associated in another order.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from tileir.core.ops import Aggregation, Combination
from tileir.poly.affine import Affine
from tileir.typed.dataflow import with_bodies
from tileir.typed.ir import Access, ArrayConstant, Constraint, Contraction, Function, Operation, Shape
from tileir.typed.simplify.factors import factors_of
from tileir.typed.simplify.replacement import with_replaced
from tileir.typed.simplify.separation import domain_of, index_factors, points_of, without_factor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tileir.core.text.names import NameScope

INTERMEDIATE: Final = 8
"""What an element of the result between costs, in products: it is written and read again."""


def factorised(function: Function) -> Function:
    """Return an equivalent function in which sums of products with constants of rank one are two sums, where that pays.

    ``function`` itself is returned where it pays nowhere.
    """
    function = with_bodies(function, factorised)
    values = {each.name: each for each in function.operations if isinstance(each, ArrayConstant)}
    if not values:
        return function

    def parts(operation: Operation, shapes: Mapping[str, Shape], names: NameScope) -> Sequence[Operation]:
        return _parts(operation, values, shapes, names) if isinstance(operation, Contraction) else [operation]

    return with_replaced(function, parts)


def _parts(
    whole: Contraction, values: Mapping[str, ArrayConstant], shapes: Mapping[str, Shape], names: NameScope
) -> Sequence[Operation]:
    """Return operations that compute a contraction together, the last one under its name."""
    best: tuple[int, list[Operation]] | None = None
    for place in _weights(whole, values):
        cost = _products(whole, values, shapes)
        for attempt in _attempts(whole, place, values, shapes, names):
            constants = {**values, **{each.name: each for each in attempt if isinstance(each, ArrayConstant)}}
            known = {**shapes, **{each.name: each.shape for each in attempt}}
            sums = [each for each in attempt if isinstance(each, Contraction)]
            less = sum(_products(each, constants, known) for each in sums) + INTERMEDIATE * prod(sums[0].shape)
            if less < cost and (best is None or less < best[0]):
                best = less, attempt
    if best is None:
        return [whole]
    taken = best[1]
    values = {**values, **{each.name: each for each in taken if isinstance(each, ArrayConstant)}}
    shapes = {**shapes, **{each.name: each.shape for each in taken}}
    return [
        part
        for each in taken
        for part in (_parts(each, values, shapes, names) if isinstance(each, Contraction) else [each])
    ]


def _weights(whole: Contraction, values: Mapping[str, ArrayConstant]) -> Iterator[int]:
    """Yield which inputs of a sum of products are windows: constants whose axes are indices that are summed over."""
    if whole.aggregation is not Aggregation.SUM or whole.combination is not Combination.MUL:
        return
    if not whole.operand_dtype == whole.dtype == whole.accumulator or whole.default is not None:
        return
    written = {name for polynomial in whole.output for name in polynomial.indices}
    for place, access in enumerate(whole.inputs):
        if access.tensor not in values or values[access.tensor].value.dtype is not whole.operand_dtype:
            continue
        names = [polynomial.indices[0] for polynomial in access.indices if polynomial.indices]
        bare = tuple(map(Affine.index, names)) == access.indices
        if bare and len(names) == len(set(names)) >= 2 and not written & set(names):
            yield place


def _attempts(
    whole: Contraction,
    place: int,
    values: Mapping[str, ArrayConstant],
    shapes: Mapping[str, Shape],
    names: NameScope,
) -> Iterator[list[Operation]]:
    """Yield two sums with the factors of a window, for each way to take its axes apart."""
    window, other = whole.inputs[place], whole.inputs[1 - place]
    value = values[window.tensor].value
    axes = {polynomial.indices[0]: axis for axis, polynomial in enumerate(window.indices)}
    within = [Constraint(Affine.index(name), value.shape[axis]) for name, axis in axes.items()]
    plain = attrs.evolve(
        whole, inputs=(other,), combination=Combination.NONE, constraints=(*whole.constraints, *within)
    )
    for factor in index_factors(plain):
        own = [name for name in axes if name in factor]
        rest = [name for name in axes if name not in factor]
        pair = factors_of(value, [axes[name] for name in own]) if own and rest else None
        if pair is None:
            continue
        first, last = without_factor(plain, factor, shapes, names)
        weights = [
            ArrayConstant(names.fresh(f"{window.tensor}_factor"), each, span=values[window.tensor].span)
            for each in pair
        ]
        yield [
            weights[0],
            _weighted(first, weights[0].name, own, whole),
            weights[1],
            _weighted(last, weights[1].name, rest, whole),
        ]


def _weighted(part: Contraction, weights: str, indices: Sequence[str], whole: Contraction) -> Contraction:
    """Return a sum with its terms multiplied by weights."""
    access = Access(weights, tuple(map(Affine.index, indices)))
    return attrs.evolve(
        part, inputs=(*part.inputs, access), combination=Combination.MUL, operand_dtype=whole.operand_dtype
    )


def _products(whole: Contraction, values: Mapping[str, ArrayConstant], shapes: Mapping[str, Shape]) -> int:
    """Return how many products a sum takes: none with a weight of 0."""
    domain = domain_of(whole, shapes)
    if domain is None:
        return 0
    points = points_of(domain)
    for access in whole.inputs:
        if access.tensor in values:
            array = values[access.tensor].value.numpy()
            points = points * int(np.count_nonzero(array)) // max(1, array.size)
    return points
