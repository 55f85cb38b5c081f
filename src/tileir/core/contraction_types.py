"""Dtype rules of contractions, for builders, inference and verifiers."""

from __future__ import annotations

from collections.abc import Sequence

from tileir.core.dtype import DType, accumulator as accumulator_of, arithmetic_type, promote, promote_all
from tileir.core.nodes import attrs
from tileir.core.ops import Aggregation, Combination


@attrs.frozen
class ContractionTypes:
    """The dtypes of a contraction.

    Attributes:
        operand: The dtype in which the inputs are combined; for ``COND``, in which the first two are compared.
        accumulator: The dtype in which values are aggregated.
        result: The dtype of the result.
    """

    operand: DType
    accumulator: DType
    result: DType


def contraction_types(aggregation: Aggregation, combination: Combination, inputs: Sequence[DType]) -> ContractionTypes:
    """Return the dtypes of a contraction over inputs of these dtypes, as many as ``combination.arity``.

    Sums and products, of elements or in the combination, turn bool into i32. Narrow floats are multiplied, added and
    compared for order in f32; results for storage types stay f32. An assignment, which computes nothing, keeps the
    dtype throughout.
    """
    match combination:
        case Combination.NONE:
            operand = value = inputs[0]
        case Combination.EQ:
            operand, value = arithmetic_type(promote(inputs[0], inputs[1])), DType.BOOL
        case Combination.COND:
            operand, value = arithmetic_type(promote(inputs[0], inputs[1])), inputs[2]
        case Combination.ADD | Combination.MUL:
            value = _number(promote_all(inputs))
            operand = accumulator_of(value)
    if aggregation in (Aggregation.SUM, Aggregation.PROD):
        value = _number(value)
    if aggregation is Aggregation.ASSIGN:
        return ContractionTypes(operand, value, value)
    return ContractionTypes(operand, accumulator_of(value), arithmetic_type(value))


def _number(dtype: DType) -> DType:
    return DType.I32 if dtype.is_bool else arithmetic_type(dtype)
