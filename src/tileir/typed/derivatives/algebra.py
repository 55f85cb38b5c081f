"""Building blocks of derivatives: elementwise operations simplified as they are emitted, sums, expansions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set as AbstractSet
from functools import cached_property

import attrs

from tileir.core import Aggregation, Combination, DType, Op, accumulator, arithmetic_type, contraction_types
from tileir.core.numbers import arithmetic
from tileir.poly.affine import Affine
from tileir.typed.dims import read_constant
from tileir.typed.inference.emission import Emission, broadcast_shape
from tileir.typed.inference.values import Tensor
from tileir.typed.ir import Access, Constant, Contraction, Elementwise, Operation, Reshape, Shape, Value
from tileir.typed.templates import free_upstreams


@attrs.define(eq=False)
class Algebra:
    """Emitter of the operations of derivatives, in either mode.

    Attributes:
        emission: The destination of operations.
        even_ties: Whether derivatives of maxima and minima are split evenly among tied elements.
    """

    emission: Emission
    even_ties: bool

    @cached_property
    def open_templates(self) -> Mapping[str, AbstractSet[str]]:
        """The open upstreams that each value depends on, by its name."""
        return free_upstreams(self.emission.operations)

    def definition(self, name: str) -> Value | Operation:
        """Return the definition of ``name``."""
        return self.emission.definitions[name]

    def value(self, name: str) -> Tensor:
        """Return the value that derivatives read for ``name``."""
        return self.emission.defined(name)

    def constant(self, value: float, like: Tensor) -> Tensor:
        """Return the scalar ``value`` in the dtype of ``like``."""
        return self.emission.constant(arithmetic.rounded(value, like.dtype), like.dtype)

    def zero(self, value: Tensor) -> Tensor:
        """Return a derivative of ``value`` that is 0."""
        return self.emission.constant(0.0, arithmetic_type(value.dtype))

    def known(self, value: Tensor) -> float | None:
        """Return the number that a tensor equals, or None if it is no constant."""
        return self.number(value.name)

    def number(self, name: str) -> float | None:
        """Return the number that the value ``name`` equals, or None if it is no constant."""
        definition = self.emission.definitions[name]
        return definition.value if isinstance(definition, Constant) else None

    def compute(self, op: Op, *inputs: Tensor) -> Tensor:
        """Emit ``op`` on operands of the dtypes that it asks for, after simplification.

        The result has the broadcast shape of the operands, unless a rule of :meth:`_simpler` returns one of them; that
        operand then only broadcasts to it.
        """
        constants = [self.known(value) for value in inputs]
        if None not in constants:
            return self._folded(op, inputs)
        found = self._simpler(op, inputs, constants)
        return self._elementwise(op, inputs) if found is None else found

    def _elementwise(self, op: Op, inputs: tuple[Tensor, ...]) -> Tensor:
        shape = broadcast_shape(tuple(value.shape for value in inputs))
        dtype = DType.BOOL if op.info.compares else inputs[-1].dtype
        return self.emission.derive(Elementwise("", op, tuple(value.name for value in inputs), dtype, shape))

    def add(self, left: Tensor, right: Tensor) -> Tensor:
        """Return the sum."""
        return self.compute(Op.ADD, left, right)

    def sub(self, left: Tensor, right: Tensor) -> Tensor:
        """Return the difference."""
        return self.compute(Op.SUB, left, right)

    def mul(self, left: Tensor, right: Tensor) -> Tensor:
        """Return the product."""
        return self.compute(Op.MUL, left, right)

    def div(self, left: Tensor, right: Tensor) -> Tensor:
        """Return the quotient."""
        return self.compute(Op.DIV, left, right)

    def neg(self, value: Tensor) -> Tensor:
        """Return the negative."""
        return self.compute(Op.NEG, value)

    def choose(self, condition: Tensor, then: Tensor, otherwise: Tensor) -> Tensor:
        """Return ``condition ? then : otherwise``."""
        return self.compute(Op.COND, condition, then, otherwise)

    def _folded(self, op: Op, inputs: tuple[Tensor, ...]) -> Tensor:
        arrays = [arithmetic.constant(self.known(value) or 0, value.dtype) for value in inputs]
        result = arithmetic.apply(op, *arrays)
        dtype = arithmetic.dtype_of(result)
        return self.emission.constant(read_constant(result, dtype).value, dtype)

    def _simpler(self, op: Op, inputs: tuple[Tensor, ...], constants: list[float | None]) -> Tensor | None:
        match op:
            case Op.MUL:
                return self._simpler_product(inputs, constants)
            case Op.ADD:
                return self._simpler_sum(inputs, constants)
            case Op.SUB if constants[1] == 0:
                return inputs[0]
            case Op.SUB if constants[0] == 0:
                return self.neg(inputs[1])
            case Op.DIV if constants[1] == 1:
                return inputs[0]
            case Op.NEG:
                return self._negated(inputs[0])
            case Op.COND if inputs[1] == inputs[2]:
                return inputs[1]
            case _:
                return None

    def _simpler_product(self, inputs: tuple[Tensor, ...], constants: list[float | None]) -> Tensor | None:
        for factor, other in zip(constants, reversed(inputs), strict=True):
            if factor == 1:
                return other
            if factor == -1:
                return self.neg(other)
        return None

    def _simpler_sum(self, inputs: tuple[Tensor, ...], constants: list[float | None]) -> Tensor | None:
        for number, other in zip(constants, reversed(inputs), strict=True):
            if number == 0:
                return other
        for negative, other in zip(reversed(inputs), inputs, strict=True):
            opposite = self._negated(negative)
            if opposite is not None:
                return self.sub(other, opposite)
        return None

    def _negated(self, value: Tensor) -> Tensor | None:
        """Return the operand of the negation that ``value`` is, or None."""
        definition = self.emission.definitions[value.name]
        if not isinstance(definition, Elementwise) or definition.op is not Op.NEG:
            return None
        return self.emission.defined(definition.inputs[0])

    def reduced(self, value: Tensor, full: Shape, shape: Shape) -> Tensor:
        """Sum over the axes along which an operand was broadcast to ``full``.

        Args:
            value: A tensor that broadcasts to ``full``, to which it counts as expanded.
            full: The shape of a result.
            shape: The shape of one of its operands.

        Returns:
            A tensor of the same dtype that broadcasts to ``shape``.
        """
        sizes, kept = ((1,) * (len(full) - len(part)) + part for part in (value.shape, shape))
        count = math.prod(whole for whole, size, keep in zip(full, sizes, kept, strict=True) if size == 1 and keep == 1)
        first = len(full) - len(value.shape)
        summed = [axis - first for axis in range(first, len(full)) if sizes[axis] != 1 and kept[axis] == 1]
        dropped = max(0, len(value.shape) - len(shape))
        total = self.summed(value, summed, dropped) if summed else self.reshaped(value, value.shape[dropped:])
        return self._times(total, count)

    def _times(self, value: Tensor, count: int) -> Tensor:
        """Return ``value`` multiplied by a number of elements, in the dtype of sums."""
        if count == 1:
            return value
        if count == 0:
            return self.constant(0.0, value)
        wide = self.emission.cast(value, accumulator(value.dtype))
        return self.emission.cast(self.mul(wide, self.constant(count, wide)), value.dtype)

    def summed(self, value: Tensor, axes: list[int], dropped: int = 0) -> Tensor:
        """Sum over ``axes``, which keep size 1; the first ``dropped`` axes, all of size 1 by then, are removed."""
        source = tuple(Affine.index(f"x{axis}") for axis in range(len(value.shape)))
        shape = tuple(1 if axis in axes else size for axis, size in enumerate(value.shape))
        output = tuple(Affine() if axis in axes else index for axis, index in enumerate(source))
        return self.contract(
            output[dropped:], shape[dropped:], (Access(value.name, source),), Aggregation.SUM, Combination.NONE
        )

    def expanded(self, value: Tensor, shape: Shape) -> Tensor:
        """Return ``value`` broadcast to ``shape``, with every element written out."""
        if value.shape == shape:
            return value
        output = tuple(Affine.index(f"x{axis}") for axis in range(len(shape)))
        aligned = zip(output[len(shape) - len(value.shape) :], value.shape, strict=True)
        indices = tuple(Affine() if size == 1 else index for index, size in aligned)
        access = Access(value.name, indices)
        return self.contract(output, shape, (access,), Aggregation.ASSIGN, Combination.NONE)

    def reshaped(self, value: Tensor, shape: Shape) -> Tensor:
        """Return the same elements under another shape."""
        if value.shape == shape:
            return value
        return self.emission.derive(Reshape("", value.name, value.dtype, shape))

    def contract(
        self,
        output: tuple[Affine, ...],
        shape: Shape,
        inputs: tuple[Access, ...],
        aggregation: Aggregation,
        combination: Combination,
    ) -> Tensor:
        """Emit a contraction without constraints."""
        dtypes = [self.emission.definitions[access.tensor].dtype for access in inputs]
        types = contraction_types(aggregation, combination, dtypes)
        return self.emission.derive(
            Contraction(
                "",
                output,
                inputs,
                aggregation,
                combination,
                types.operand,
                types.accumulator,
                types.result,
                shape,
            )
        )
