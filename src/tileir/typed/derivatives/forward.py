"""Forward mode: one walk from the values that move to results, in which each operation hands on how it moves.

It uses the same linear maps as reverse mode, whose transpose it is, also where maxima tie: with ``ties="all"`` their
tangents are added up. What an override says of gradients holds too, transposed.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, assert_never

import attrs

from tileir.core.dtype import arithmetic_type
from tileir.core.errors import fail
from tileir.typed.derivatives import contractions, elementwise, forward_loops, reductions, structure
from tileir.typed.derivatives.algebra import Algebra
from tileir.typed.derivatives.reverse import reverse
from tileir.typed.ir import (
    Argsort,
    ArrayConstant,
    Cast,
    Checkpoint,
    Constant,
    Contraction,
    Coordinate,
    Elementwise,
    Gather,
    Override,
    Recall,
    Reduce,
    Reshape,
    Scan,
    Scatter,
    ShapeOf,
    Upstream,
    operands,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileir.typed.inference.emission import Emission
    from tileir.typed.inference.values import Tensor
    from tileir.typed.ir import Operation


def forward(
    emission: Emission,
    results: Sequence[Tensor],
    moving: Sequence[Tensor],
    tangents: Sequence[Tensor],
    *,
    even_ties: bool = False,
) -> tuple[Tensor, ...]:
    """Emit how ``results`` move when each of ``moving`` does along its tangent.

    Args:
        emission: Where all of them are defined, and where operations go.
        results: Float tensors.
        moving: Float tensors. One that is made of others moves with those, too.
        tangents: For each of ``moving`` a tensor of its arithmetic type, whose shape broadcasts to its.
        even_ties: Whether elements that tie for a maximum or minimum move it by their mean.

    Returns:
        A tensor of the arithmetic type and the shape of each of ``results``; zeros for those that do not move.

    """
    motion = Motion(emission, even_ties)
    for value, tangent in zip(moving, tangents, strict=True):
        motion.move(value.name, tangent)
    stem = emission.stem
    for operation in _path(emission.operations, {y.name for y in results}, {x.name for x in moving}):
        emission.stem = f"D{operation.name}"
        found = pushforward(motion, operation)
        if found is not None:
            motion.move(operation.name, emission.cast(found, arithmetic_type(operation.dtype)))
    emission.stem = stem
    found_all = (motion.tangent(y.name) for y in results)
    zeros = (motion.zero(y) for y in results)
    pairs = zip(results, found_all, zeros, strict=True)
    return tuple(motion.expanded(zero if found is None else found, y.shape) for y, found, zero in pairs)


@attrs.define(eq=False)
class Motion(Algebra):
    """How values move. A tangent has the arithmetic type of its value, and a shape that broadcasts to its."""

    _tangents: dict[str, Tensor] = attrs.field(factory=dict, init=False)

    def move(self, name: str, tangent: Tensor) -> None:
        """Add ``tangent`` to how ``name`` moves."""
        before = self._tangents.get(name)
        self._tangents[name] = tangent if before is None else self.add(before, tangent)

    def tangent(self, name: str) -> Tensor | None:
        """Return how ``name`` moves; None where it does not."""
        return self._tangents.get(name)


def _path(operations: Sequence[Operation], results: set[str], moving: set[str]) -> list[Operation]:
    """Return in order the float operations that depend on ``moving`` and that ``results`` depend on."""
    active = set(moving)
    moved = []
    for operation in operations:
        if operation.dtype.is_float and not active.isdisjoint(_sources(operation)):
            active.add(operation.name)
            moved.append(operation)
    needed = set(results)
    path = []
    for operation in reversed(moved):
        if operation.name in needed:
            needed.update(_sources(operation))
            path.append(operation)
    path.reverse()
    return path


def _sources(operation: Operation) -> tuple[str, ...]:
    """Return what makes ``operation`` move: for an override the tensors that get gradients, not their template."""
    return tuple(name for name, _ in operation.pairs) if isinstance(operation, Override) else operands(operation)


def pushforward(motion: Motion, operation: Operation) -> Tensor | None:
    """Return how ``operation`` moves when its operands do; None where it does not.

    The shape broadcasts to that of ``operation``, and the dtype may be wider.
    """
    match operation:
        case Elementwise():
            return _elementwise(motion, operation)
        case Cast(input=name) | Checkpoint(input=name) | Recall(input=name):
            return motion.tangent(name)
        case Reshape(input=name, shape=shape):
            tangent = motion.tangent(name)
            before = motion.definition(name).shape
            return None if tangent is None else structure.reshaped(motion, tangent, before, shape)
        case Gather(data=data, indices=indices):
            tangent = motion.tangent(data)
            rows = motion.definition(data).shape
            return None if tangent is None else structure.gathered(motion, tangent, rows, indices)
        case Scatter():
            return _scatter(motion, operation)
        case Contraction():
            default = None if operation.default is None else motion.tangent(operation.default)
            tangents = [motion.tangent(access.tensor) for access in operation.inputs]
            return contractions.pushforward(motion, operation, tangents, default)
        case Reduce(input=name):
            tangent = motion.tangent(name)
            return None if tangent is None else reductions.pushforward(motion, operation, tangent)
        case Scan():
            return forward_loops.push_scan(motion, operation, forward)
        case Override():
            return _override(motion, operation)
        case Constant() | ArrayConstant() | Coordinate() | ShapeOf() | Argsort() | Upstream():
            return None
        case _:
            assert_never(operation)


def _elementwise(motion: Motion, operation: Elementwise) -> Tensor | None:
    site = elementwise.Site(motion, operation)
    terms = [
        partial(site, tangent)
        for name, partial in zip(operation.inputs, elementwise.partials(site), strict=True)
        if partial is not None and (tangent := motion.tangent(name)) is not None
    ]
    return reduce(motion.add, terms) if terms else None


def _scatter(motion: Motion, operation: Scatter) -> Tensor | None:
    tangent = motion.tangent(operation.updates)
    if tangent is None:
        return None
    updates = motion.expanded(tangent, motion.definition(operation.updates).shape)
    return motion.emission.add(attrs.evolve(operation, name=motion.emission.fresh(), updates=updates.name))


def _override(motion: Motion, operation: Override) -> Tensor | None:
    """Transpose the template: reverse mode does it, from the gradients of the pairs to what arrives.

    Raises:
        TileError: TIL325, it is not linear in what arrives, so there is no transpose.

    """
    pairs = [(x, g) for x, g in operation.pairs if motion.tangent(x) is not None]
    if operation.upstream is None or not pairs:
        return None
    emission = motion.emission
    arriving = motion.value(operation.upstream)
    gradients = [motion.value(g) for _, g in pairs]
    cotangents = [
        motion.reduced(tangent, motion.definition(x).shape, gradient.shape)
        for (x, _), gradient in zip(pairs, gradients, strict=True)
        if (tangent := motion.tangent(x)) is not None
    ]
    before = len(emission.operations)
    (found,) = reverse(emission, gradients, cotangents, [arriving], even_ties=motion.even_ties)
    still_open = {name for name, needed in motion.open_templates.items() if arriving.name in needed}
    for made in emission.operations[before:]:
        if not still_open.isdisjoint(operands(made)):
            still_open.add(made.name)
    if found.name in still_open:
        message = (
            "this gradient is not proportional to what arrives, so it says nothing about forward mode; take the "
            "derivative without jvp"
        )
        raise fail("TIL325", message, operation.span)
    return found
