"""The pullback of each operation: contributions of the cotangent of its value to those of its operands.

Casts, reshapes, gathers and scatters move elements; a gather and a scatter are each other's transpose. Of markers, an
override passes on the gradients of its template, and the others are the identity.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, assert_never

from tileir.core import accumulator, attrs
from tileir.typed.dataflow import with_operands
from tileir.typed.derivatives import contractions, elementwise, reductions, scatters
from tileir.typed.ir import (
    Argsort,
    ArrayConstant,
    Cast,
    Checkpoint,
    Collective,
    Constant,
    Contraction,
    Coordinate,
    Elementwise,
    Gather,
    Operation,
    Override,
    Recall,
    Reduce,
    Reshape,
    Scan,
    Scatter,
    Shape,
    ShapeOf,
    Upstream,
    Value,
    operands,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tileir.typed.derivatives.algebra import Algebra
    from tileir.typed.derivatives.reverse import Sweep
    from tileir.typed.inference.values import Tensor


def pullback(sweep: Sweep, operation: Operation, cotangent: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yield (operand, contribution) for the operands that :meth:`Sweep.wanted` asks for; a missing one is 0.

    The shape of ``cotangent`` broadcasts to that of ``operation``, and the shape of a contribution to that of its
    operand. The caller casts contributions to the dtypes of their operands.
    """
    match operation:
        case Elementwise():
            return elementwise.pullback(sweep, operation, cotangent)
        case Cast() | Checkpoint() | Recall() | Collective():
            return pull_same(sweep, operation, cotangent)
        case Reshape():
            return pull_reshape(sweep, operation, cotangent)
        case Gather():
            return pull_gather(sweep, operation, cotangent)
        case Scatter():
            return pull_scatter(sweep, operation, cotangent)
        case Contraction():
            return contractions.pullback(sweep, operation, cotangent)
        case Reduce():
            return reductions.pullback(sweep, operation, cotangent)
        case Override():
            return pull_override(sweep, operation, cotangent)
        case Constant() | ArrayConstant() | Coordinate() | ShapeOf() | Argsort() | Upstream():
            return iter(())
        case Scan():
            return iter(())  # `reverse` pulls a loop back as a whole, for all of its results
        case _:
            assert_never(operation)


def pull_same(
    sweep: Sweep, operation: Cast | Checkpoint | Recall | Collective, cotangent: Tensor
) -> Iterator[tuple[str, Tensor]]:
    """Yield the cotangent itself; the caller casts that of a cast back, and one through integers is never wanted."""
    if sweep.wanted(operation.input):
        sweep.toward(operation.input)
        yield operation.input, cotangent


def pull_reshape(sweep: Sweep, operation: Reshape, cotangent: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yield the cotangent in the shape of the operand."""
    if sweep.wanted(operation.input):
        sweep.toward(operation.input)
        yield operation.input, reshaped(sweep, cotangent, operation.shape, sweep.definition(operation.input).shape)


def pull_gather(sweep: Sweep, operation: Gather, cotangent: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yield the cotangents of the rows, added up for rows that were read several times."""
    if not sweep.wanted(operation.data):
        return
    sweep.toward(operation.data)
    emission = sweep.emission
    updates, indices = sweep.expanded(cotangent, operation.shape), sweep.value(operation.indices)
    shape, dtype = sweep.definition(operation.data).shape, updates.dtype
    scattered = Scatter(emission.fresh(), updates.name, indices.name, accumulator(dtype), dtype, shape)
    yield operation.data, emission.add(scattered)


def pull_scatter(sweep: Sweep, operation: Scatter, cotangent: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yield the cotangent of each update's row for the updates, and the cotangents of rows that were not replaced."""
    if operation.into is not None and sweep.wanted(operation.into):
        sweep.toward(operation.into)
        yield operation.into, scatters.replaced(sweep, operation, None, cotangent)
    if not sweep.wanted(operation.updates):
        return
    sweep.toward(operation.updates)
    arriving = gathered(sweep, cotangent, operation.shape, operation.indices)
    yield operation.updates, scatters.chosen(sweep, operation, arriving)


def gathered(algebra: Algebra, value: Tensor, full: Shape, indices: str) -> Tensor:
    """Return the rows at ``indices`` of ``value``, which counts as broadcast to ``full``."""
    if len(value.shape) < len(full):
        return value
    if value.shape[0] == 1:
        return algebra.reshaped(value, value.shape[1:])
    emission, places = algebra.emission, algebra.value(indices)
    return emission.add(Gather(emission.fresh(), value.name, places.name, value.dtype, places.shape + value.shape[1:]))


def reshaped(algebra: Algebra, value: Tensor, full: Shape, shape: Shape) -> Tensor:
    """Return ``value``, which counts as broadcast to ``full``, in another shape with as many elements."""
    if math.prod(value.shape) == 1:
        return algebra.reshaped(value, ())
    return algebra.reshaped(algebra.expanded(value, full), shape)


def pull_override(sweep: Sweep, operation: Override, cotangent: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yield the gradient of each tensor of a pair, with ``cotangent`` in place of the upstream."""
    instance = Instance.of(sweep, operation, cotangent)
    for name, gradient in operation.pairs:
        if sweep.wanted(name):
            sweep.toward(name)
            yield name, instance.value(gradient)


@attrs.define(eq=False, repr=False)
class Instance:
    """The operations of a template with a tensor in place of its upstream; each is emitted once.

    As long as operations are elementwise, their results may have shapes that only broadcast to those of the template,
    as the tensor for the upstream does. Values outside of the template are read as the backward pass reads them.
    """

    sweep: Sweep
    upstream: str | None
    made: dict[str, Tensor]

    @classmethod
    def of(cls, sweep: Sweep, override: Override, arriving: Tensor) -> Instance:
        """Return the instance of the template of ``override`` for the cotangent ``arriving``."""
        made = {} if override.upstream is None else {override.upstream: arriving}
        return cls(sweep, override.upstream, made)

    def value(self, name: str) -> Tensor:
        """Return the value of ``name`` in this instance."""
        pending = [name]
        while pending:
            wanted = pending[-1]
            if wanted in self.made:
                pending.pop()
                continue
            definition = self.sweep.definition(wanted)
            if isinstance(definition, Value) or self.upstream not in self.sweep.open_templates.get(wanted, ()):
                self.made[wanted] = self.sweep.value(wanted)
                continue
            missing = [operand for operand in operands(definition) if operand not in self.made]
            pending.extend(missing)
            if not missing:
                self.made[wanted] = self._instance(definition)
        return self.made[name]

    def _instance(self, operation: Operation) -> Tensor:
        inputs = {name: self.made[name] for name in operands(operation)}
        match operation:
            case Elementwise(op=op, inputs=names):
                return self.sweep.compute(op, *(inputs[name] for name in names))
            case Cast(input=name, dtype=dtype):
                return self.sweep.emission.cast(inputs[name], dtype)
            case _:
                whole = {name: self._whole(name, value).name for name, value in inputs.items()}
                emission = self.sweep.emission
                return emission.add(attrs.evolve(with_operands(operation, whole), name=emission.fresh()))

    def _whole(self, name: str, value: Tensor) -> Tensor:
        return self.sweep.expanded(value, self.sweep.definition(name).shape)
