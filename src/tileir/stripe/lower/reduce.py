"""Lowering of tuple reductions: a kernel over kept axes, which holds a state, and a nested block over all elements.

Elementwise operations that only the reduction reads are computed with each element.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import attrs
import numpy as np

from tileir.core import NameScope, Op
from tileir.core.numbers.number_system import REAL
from tileir.core.targets import hardware
from tileir.poly.affine import Affine
from tileir.stripe.ir import (
    Block,
    Constant,
    Convert,
    Device,
    Dim,
    Direction,
    Index,
    Intrinsic,
    Load,
    LoadIndex,
    Reduction,
    Refinement,
    Statement,
    Store,
    Tags,
    TensorShape,
)
from tileir.stripe.lower.kernel_builder import KernelBuilder, element
from tileir.stripe.lower.program_builder import ProgramBuilder
from tileir.stripe.lower.storage import ZERO, Tensor
from tileir.stripe.reductions import statements_of
from tileir.typed.ir import Cast, Elementwise, Reduce, Shape, operands
from tileir.typed.reductions import positions_in

_REGISTER: Final = (Device(hardware.REGISTER),)
_MOST_STATEMENTS: Final = 32
"""Maximum operations per element; with more, elements are stored before they are reduced."""


def lower_reduce(builder: ProgramBuilder, results: Sequence[Reduce]) -> None:
    """Add the kernel of a tuple reduction.

    Args:
        builder: The builder of the program.
        results: Operations that are components of one state.
    """
    first = results[0]
    if 0 in first.shape:
        return
    source = builder.definitions[first.input]
    counted = positions_in(tuple(source.shape[axis] for axis in first.axes))
    reduction = Reduction(first.combine, source.dtype, counted)
    known = builder.storage.constants.get(first.input)
    if known is not None or 0 in source.shape:
        values: Sequence[bool | int | float] = reduction.rule.identity
        if known is not None:
            arrays = [REAL.constant(value, dtype) for value, dtype in zip(values, reduction.rule.state, strict=True)]
            only = REAL.constant(known.value, known.dtype), REAL.constant(0, counted)
            values = [np.asarray(state).item() for state in reduction.rule.step.run(REAL, *arrays, *only)]
        for each in results:
            _fill(builder, each, values[each.result])
        return
    name = builder.name_of(first, first.input)
    builder.add_block(_Kernel.of(builder, results, reduction, source.shape).block(name))


def _fill(builder: ProgramBuilder, operation: Reduce, value: bool | int | float) -> None:
    kernel = KernelBuilder.over(operation.shape)
    scalar = kernel.constant(operation.name, operation.dtype, value)
    target = builder.storage.result(operation.name)
    kernel.store(operation.name, scalar, target, element(operation.shape, operation.shape))
    builder.add(kernel, operation, Tags.of("eltwise", "fill"))


@attrs.define(eq=False, repr=False)
class _Kernel:
    """A kernel under construction.

    Attributes:
        builder: The builder of the program.
        results: The components that are stored.
        reduction: The reduction of its nested block.
        sizes: The shape of the reduced elements.
        indices: The index along each axis; those along reduced axes belong to the nested block.
        state: The names of the accumulators.
    """

    builder: ProgramBuilder
    results: Sequence[Reduce]
    reduction: Reduction
    sizes: Shape
    indices: tuple[Affine, ...]
    state: tuple[str, ...]

    @classmethod
    def of(cls, builder: ProgramBuilder, results: Sequence[Reduce], reduction: Reduction, sizes: Shape) -> _Kernel:
        """Choose names of indices and of accumulators."""
        reduced = results[0].axes
        indices = [
            ZERO if size == 1 else Affine.index(f"{'r' if axis in reduced else 'i'}{axis + 1}")
            for axis, size in enumerate(sizes)
        ]
        names = NameScope.of(builder.definitions)
        state = tuple(names.fresh(f"{results[0].name}_state") for _ in reduction.rule.state)
        return cls(builder, results, reduction, sizes, tuple(indices), state)

    def block(self, name: str) -> Block:
        """Return a block over the elements of the results."""
        rule = self.reduction.rule
        step, tensors = self._step()
        before: list[Statement] = []
        after: list[Statement] = []
        views = [self._view(view, tensor, inside=False) for view, tensor in tensors.items()]
        for accumulator, dtype, identity in zip(self.state, rule.state, rule.identity, strict=True):
            before.extend((Constant(accumulator, dtype, identity), Store(accumulator, accumulator)))
        kept = tuple(index for axis, index in enumerate(self.indices) if axis not in self.results[0].axes)
        for each in self.results:
            target = self.builder.storage.result(each.name)
            views.append(Refinement(each.name, Direction.OUT, target.buffer, kept, target.shape.element))
            after.extend((Load(self.state[each.result], each.name), Store(each.name, each.name)))
        views.extend(
            Refinement(accumulator, Direction.NONE, "", (), TensorShape(dtype), location=_REGISTER)
            for accumulator, dtype in zip(self.state, rule.state, strict=True)
        )
        return Block(
            name,
            tuple(self._over(reduced=False)),
            refinements=tuple(views),
            statements=(*before, step, *after),
            comments=(self.builder.comment(self.results[0]),),
            tags=Tags.of("reduce"),
        )

    def _over(self, *, reduced: bool) -> Iterator[Index]:
        for axis, (index, size) in enumerate(zip(self.indices, self.sizes, strict=True)):
            if index.indices and (axis in self.results[0].axes) is reduced:
                yield Index(index.indices[0], size, serial=reduced)

    def _view(self, name: str, tensor: Tensor, *, inside: bool) -> Refinement:
        """Return a view of an operand, which is broadcast: an element or, from outside, all along the reduced axes."""
        missing = len(self.sizes) - len(tensor.sizes)
        access: list[Affine] = []
        dims: list[Dim] = []
        for axis, dim in enumerate(tensor.shape.dims, missing):
            reduced = axis in self.results[0].axes
            access.append(self.indices[axis] if dim.size > 1 and reduced is inside else ZERO)
            dims.append(Dim(dim.size if reduced and not inside else 1, dim.stride))
        source = name if inside else tensor.buffer
        return Refinement(name, Direction.IN, source, tuple(access), TensorShape(tensor.dtype, tuple(dims)))

    def _step(self) -> tuple[Block, dict[str, Tensor]]:
        """Return the block over the reduced axes, whose points are steps, and its input tensors."""
        rule, axes = self.reduction.rule, self.results[0].axes
        elements = _Elements(self.builder, NameScope())
        old = [elements.names.fresh(accumulator) for accumulator in self.state]
        value, place = elements.scalar(self.results[0].input), elements.names.fresh("position")
        statements = elements.statements
        if len(self.state) + 1 in {number for step in rule.step.steps for number in step.inputs}:
            position = Affine()
            for axis in axes:
                position = position * self.sizes[axis] + self.indices[axis]
            statements.append(LoadIndex(position, place, self.reduction.positions))
        statements.extend(Load(accumulator, scalar) for accumulator, scalar in zip(self.state, old, strict=True))
        computed, new = statements_of(rule.step, (*old, value, place), elements.names.fresh)
        statements.extend(computed)
        statements.extend(Store(scalar, accumulator) for accumulator, scalar in zip(self.state, new, strict=True))
        views = [self._view(view, tensor, inside=True) for view, tensor in elements.tensors.items()]
        views.extend(
            Refinement(accumulator, Direction.INOUT, accumulator, (), TensorShape(dtype))
            for accumulator, dtype in zip(self.state, rule.state, strict=True)
        )
        block = Block(
            indices=tuple(self._over(reduced=True)),
            refinements=tuple(views),
            statements=tuple(statements),
            tags=Tags.of("reduction"),
            reduction=self.reduction,
        )
        return block, elements.tensors


@attrs.define(eq=False, repr=False)
class _Elements:
    """Statements that compute an element, and their input tensors."""

    builder: ProgramBuilder
    names: NameScope
    statements: list[Statement] = attrs.field(factory=list, init=False)
    tensors: dict[str, Tensor] = attrs.field(factory=dict, init=False)
    _scalars: dict[str, str] = attrs.field(factory=dict, init=False)

    def scalar(self, name: str) -> str:
        """Return the scalar of an element of a value. Nesting of operations is bounded."""
        found = self._scalars.get(name)
        if found is None:
            found = self._scalars[name] = self._made(name)
        return found

    def _made(self, name: str) -> str:
        definition = self.builder.definitions[name]
        known = self.builder.storage.constants.get(name)
        if known is not None:
            into = self.names.fresh(name)
            self.statements.append(Constant(into, known.dtype, known.value))
            return into
        if isinstance(definition, Elementwise | Cast) and self._is_own(name):
            inputs = tuple(self.scalar(operand) for operand in operands(definition))
            if isinstance(definition, Elementwise) and definition.op is Op.IDENT:
                return inputs[0]
            into = self.names.fresh(name)
            if isinstance(definition, Cast):
                self.statements.append(Convert(inputs[0], into, definition.dtype))
            else:
                self.statements.append(Intrinsic(definition.op, inputs, into, definition.dtype))
            return into
        into = self.names.fresh(name)
        self.tensors[name] = self.builder.storage.tensors[name]
        self.statements.append(Load(name, into))
        return into

    def _is_own(self, name: str) -> bool:
        """Return whether only the reduction reads a value, which is no larger than the reduced elements."""
        builder = self.builder
        outside = name in builder.function.outputs or name in builder.labels
        return not outside and builder.readers[name] == 1 and len(self.statements) < _MOST_STATEMENTS
