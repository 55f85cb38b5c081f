"""Derivatives of elementwise operations: a linear map for each operand, which both modes share.

A partial derivative of ``y = op(x0, x1, …)`` is a function that emits ``t · ∂y/∂xk`` for a tensor ``t`` that broadcasts
to the shape of y. The table has no rows for piecewise constant operations: rounding, comparisons, bit operations.

Derivatives of f16 and bf16 are computed in f32 from the operands, since a rounded result would leave nothing of ``1 -
tanh(x)²``. They are rounded once, after the sum over axes along which an operand was broadcast.
"""

from __future__ import annotations

import functools
import math
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from tileir.core import DType, Op, accumulator, attrs
from tileir.typed.ir import Elementwise, Operation, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tileir.typed.derivatives.algebra import Algebra
    from tileir.typed.derivatives.reverse import Sweep
    from tileir.typed.inference.values import Tensor


@attrs.frozen
class Site:
    """An elementwise operation and the destination of its derivative.

    Attributes:
        algebra: The sweep, in either direction.
        operation: The operation.
        dtype: The dtype in which the derivative is computed.
    """

    algebra: Algebra
    operation: Elementwise
    dtype: DType

    @classmethod
    def of(cls, algebra: Algebra, operation: Elementwise, *, alone: bool = False) -> Site:
        """Return the site of an operation; a product that is the whole derivative, ``alone``, is rounded just once."""
        exact = operation.op in _EXACT or (alone and operation.op is Op.MUL)
        return cls(algebra, operation, operation.dtype if exact else accumulator(operation.dtype))

    @property
    def result(self) -> Tensor:
        """The value of the operation."""
        if self.dtype is self.operation.dtype:
            return self.algebra.value(self.operation.name)
        return self.algebra.compute(self.operation.op, *map(self.operand, range(len(self.operation.inputs))))

    def operand(self, position: int) -> Tensor:
        """Return the value of an operand."""
        return self.widened(self.algebra.value(self.operation.inputs[position]))

    def widened(self, value: Tensor) -> Tensor:
        """Return an operand, cotangent or tangent in the dtype of the derivative."""
        if self.dtype is self.operation.dtype:
            return value
        number = self.algebra.known(value)
        emission = self.algebra.emission
        return emission.cast(value, self.dtype) if number is None else emission.constant(number, self.dtype)


_EXACT: Final = frozenset({Op.IDENT, Op.NEG, Op.ABS, Op.ADD, Op.SUB, Op.COND, Op.MAX, Op.MIN})
"""Operations whose derivatives only choose, negate and add up cotangents."""

Partial: TypeAlias = "Callable[[Site, Tensor], Tensor]"
"""Emit the product of a tensor and a partial derivative."""


@attrs.frozen
class FactoredDerivative:
    """A partial derivative with one factor that depends only on its own operand.

    In reverse mode, that factor is applied after the sum over the axes along which the operand was broadcast: it is
    equal in all terms.
    """

    others: Partial
    own: Partial

    def __call__(self, site: Site, t: Tensor) -> Tensor:
        """Emit the product of ``t`` and both factors."""
        return self.own(site, self.others(site, t))


def pullback(sweep: Sweep, operation: Elementwise, cotangent: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yield the contribution to each operand, summed over the axes along which it was broadcast."""
    squared = operation.op is Op.MUL and len(set(operation.inputs)) == 1
    whole = all(sweep.definition(name).shape == operation.shape for name in operation.inputs)
    site = Site.of(sweep, operation, alone=whole and not squared)
    cotangent = site.widened(cotangent)
    if squared:
        yield from _pull_square(sweep, site, cotangent)
        return
    if operation.op is Op.DIV and all(map(sweep.wanted, operation.inputs)):
        yield from _pull_quotient(sweep, site, cotangent)
        return
    for position, partial in enumerate(partials(site)):
        name = operation.inputs[position]
        if partial is not None and sweep.wanted(name):
            sweep.toward(name)
            others, own = (partial.others, partial.own) if isinstance(partial, FactoredDerivative) else (partial, _same)
            summed = sweep.reduced(others(site, cotangent), operation.shape, sweep.definition(name).shape)
            yield name, own(site, summed)


def _pull_square(sweep: Sweep, site: Site, cotangent: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yield ``2 t x`` for the square of x; t is doubled first, since it may have fewer elements or be known."""
    name = site.operation.inputs[0]
    if sweep.wanted(name):
        sweep.toward(name)
        yield name, sweep.mul(sweep.add(cotangent, cotangent), site.operand(0))


def _pull_quotient(sweep: Sweep, site: Site, cotangent: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yield ``t / x1`` for the dividend, and from it the divisor's contribution without a division per element.

    That is ``-(t / x1) y``; or, if the divisor was broadcast, the sum of ``-(t / x1) x0``, divided by the divisor.
    """
    dividend, divisor = (sweep.definition(name) for name in site.operation.inputs)
    sweep.toward(dividend.name)
    scaled = _dividend(site, cotangent)
    yield dividend.name, sweep.reduced(scaled, site.operation.shape, dividend.shape)
    sweep.toward(divisor.name)
    if divisor.shape == site.operation.shape:
        yield divisor.name, sweep.neg(sweep.mul(scaled, site.result))
        return
    summed = sweep.reduced(sweep.mul(scaled, site.operand(0)), site.operation.shape, divisor.shape)
    yield divisor.name, _over_divisor(site, summed)


def partials(site: Site) -> tuple[Partial | None, ...]:
    """Return the partial derivative for each operand; None if it is 0 everywhere."""
    if site.operation.op is Op.COND:
        if _is_relu(site):
            return (None, None, _relu)
        if _is_sign(site):
            return (None, None, None)
    return PARTIALS.get(site.operation.op, (None,) * len(site.operation.inputs))


def _same(_: Site, t: Tensor) -> Tensor:
    return t


def _opposite(site: Site, t: Tensor) -> Tensor:
    return site.algebra.neg(t)


def _absolute(site: Site, t: Tensor) -> Tensor:
    """Multiply by the sign of x; at 0 that is 1, or 0 with even ties, since x and -x tie there."""
    algebra, x = site.algebra, site.operand(0)
    zero = algebra.constant(0.0, x)
    negative = algebra.choose(algebra.compute(Op.CMP_LT, x, zero), algebra.neg(t), t)
    if not algebra.even_ties:
        return negative
    return algebra.choose(algebra.compute(Op.CMP_EQ, x, zero), algebra.constant(0.0, t), negative)


def _sqrt(site: Site, t: Tensor) -> Tensor:
    y = site.result
    return site.algebra.div(t, site.algebra.add(y, y))


def _rsqrt(site: Site, t: Tensor) -> Tensor:
    """Multiply by ``-y³ / 2``, one y after the other: the cube alone may overflow, and then be multiplied by 0."""
    algebra, y = site.algebra, site.result
    halved = algebra.mul(t, algebra.constant(-0.5, t))
    return algebra.mul(algebra.mul(algebra.mul(halved, y), y), y)


def _log(site: Site, t: Tensor) -> Tensor:
    return site.algebra.div(t, site.operand(0))


def _times_function(site: Site, t: Tensor, *, op: Op) -> Tensor:
    return site.algebra.mul(t, site.algebra.compute(op, site.operand(0)))


def _cos(site: Site, t: Tensor) -> Tensor:
    algebra = site.algebra
    return algebra.neg(algebra.mul(t, algebra.compute(Op.SIN, site.operand(0))))


def _tan(site: Site, t: Tensor) -> Tensor:
    algebra, y = site.algebra, site.result
    return algebra.mul(t, algebra.add(algebra.mul(y, y), algebra.constant(1.0, y)))


def _asin(site: Site, t: Tensor) -> Tensor:
    """Divide by ``√((1 - x)(1 + x))``, which loses no digits near 1 and -1."""
    algebra, x = site.algebra, site.operand(0)
    one = algebra.constant(1.0, x)
    product = algebra.mul(algebra.sub(one, x), algebra.add(one, x))
    return algebra.div(t, algebra.compute(Op.SQRT, product))


def _acos(site: Site, t: Tensor) -> Tensor:
    return site.algebra.neg(_asin(site, t))


def _atan(site: Site, t: Tensor) -> Tensor:
    algebra, x = site.algebra, site.operand(0)
    return algebra.div(t, algebra.add(algebra.mul(x, x), algebra.constant(1.0, x)))


def _tanh(site: Site, t: Tensor) -> Tensor:
    algebra, y = site.algebra, site.result
    return algebra.mul(t, algebra.sub(algebra.constant(1.0, y), algebra.mul(y, y)))


def _sigmoid(site: Site, t: Tensor) -> Tensor:
    algebra, y = site.algebra, site.result
    return algebra.mul(t, algebra.mul(y, algebra.sub(algebra.constant(1.0, y), y)))


def _erf(site: Site, t: Tensor) -> Tensor:
    """Multiply by ``2/√π · exp(-x²)``."""
    algebra, x = site.algebra, site.operand(0)
    bell = algebra.compute(Op.EXP, algebra.neg(algebra.mul(x, x)))
    return algebra.mul(t, algebra.mul(bell, algebra.constant(2.0 / math.sqrt(math.pi), x)))


def _times_operand(site: Site, t: Tensor, *, position: int) -> Tensor:
    return site.algebra.mul(t, site.operand(position))


def _times_result(site: Site, t: Tensor) -> Tensor:
    return site.algebra.mul(t, site.result)


def _over_divisor(site: Site, t: Tensor) -> Tensor:
    return site.algebra.neg(site.algebra.div(t, site.operand(1)))


def _dividend(site: Site, t: Tensor) -> Tensor:
    """Divide by x1; if that was broadcast, multiply by its inverse, which takes fewer divisions."""
    algebra, divisor = site.algebra, site.operand(1)
    if math.prod(divisor.shape) < math.prod(t.shape) and algebra.known(divisor) is None:
        return algebra.mul(t, algebra.div(algebra.constant(1.0, divisor), divisor))
    return algebra.div(t, divisor)


def _modulus(site: Site, t: Tensor) -> Tensor:
    """Multiply by ``-trunc(x0 / x1)``, since the remainder is ``x0 - x1 · trunc(x0 / x1)``."""
    algebra = site.algebra
    quotient = algebra.compute(Op.TRUNC, algebra.div(site.operand(0), site.operand(1)))
    return algebra.neg(algebra.mul(t, quotient))


def _base(site: Site, t: Tensor) -> Tensor:
    """Multiply by ``b · a^(b - 1)``; if a and b are 0, the power is that of 1, so that 0 never meets an infinity."""
    algebra, base, exponent = site.algebra, site.operand(0), site.operand(1)
    one, zero = algebra.constant(1.0, exponent), algebra.constant(0.0, exponent)
    known = algebra.known(exponent)
    if known == 0:
        return zero
    if known is None:
        vanishes = algebra.compute(
            Op.BIT_AND, algebra.compute(Op.CMP_EQ, exponent, zero), algebra.compute(Op.CMP_EQ, base, zero)
        )
        base = algebra.choose(vanishes, one, base)
    return algebra.mul(t, algebra.mul(exponent, power(algebra, base, algebra.sub(exponent, one))))


def power(algebra: Algebra, base: Tensor, exponent: Tensor) -> Tensor:
    """Return ``base ^ exponent``, simplified for the known exponents 0 and 1."""
    match algebra.known(exponent):
        case 0:
            return algebra.constant(1.0, base)
        case 1:
            return base
        case _:
            return algebra.compute(Op.POW, base, exponent)


def _exponent(site: Site, t: Tensor) -> Tensor:
    """Multiply by ``y · log a``; at ``a = 0`` by 0, unless b is negative and the derivative is infinite."""
    algebra, base, exponent = site.algebra, site.operand(0), site.operand(1)
    vanishes = algebra.compute(
        Op.BIT_AND,
        algebra.compute(Op.CMP_EQ, base, algebra.constant(0.0, base)),
        algebra.compute(Op.CMP_GE, exponent, algebra.constant(0.0, exponent)),
    )
    logarithm = algebra.compute(Op.LOG, algebra.choose(vanishes, algebra.constant(1.0, base), base))
    return algebra.mul(t, algebra.mul(site.result, logarithm))


def _extremum(site: Site, t: Tensor, *, position: int, greatest: bool) -> Tensor:
    """Pass the cotangent to the operand that is the result; of two equal operands, one gets all, or each a half.

    In a tie the maximum is its first operand and the minimum its second. NaN counts as the first operand of a maximum
    and the second one of a minimum.
    """
    algebra, first, second = site.algebra, site.operand(0), site.operand(1)
    zero = algebra.constant(0.0, t)
    less = algebra.compute(Op.CMP_LT, first, second)
    taken = (position == 0) is not greatest  # whether this operand is the result if the first one is less
    then, otherwise = (t, zero) if taken else (zero, t)
    if algebra.even_ties:
        tied = algebra.compute(Op.CMP_EQ, first, second)
        otherwise = algebra.choose(tied, algebra.mul(t, algebra.constant(0.5, t)), otherwise)
    return algebra.choose(less, then, otherwise)


def _arm(site: Site, t: Tensor, *, position: int) -> Tensor:
    """Pass on the cotangent where this arm was chosen."""
    algebra, condition = site.algebra, site.operand(0)
    zero = algebra.constant(0.0, t)
    return algebra.choose(condition, t, zero) if position == 1 else algebra.choose(condition, zero, t)


def _is_relu(site: Site) -> bool:
    """Return whether the operation is ``x < 0 ? 0 : x``."""
    test, otherwise = _choice(site.algebra, site.operation, Op.CMP_LT, 0)
    return test is not None and test == otherwise


def _is_sign(site: Site) -> bool:
    """Return whether the operation is ``x > 0 ? 1 : x < 0 ? -1 : x``."""
    algebra = site.algebra
    positive, rest = _choice(algebra, site.operation, Op.CMP_GT, 1)
    if positive is None:
        return False
    return _choice(algebra, algebra.definition(rest), Op.CMP_LT, -1) == (positive, positive)


def _choice(algebra: Algebra, operation: Value | Operation, test: Op, number: float) -> tuple[str | None, str]:
    """Return x and z if ``operation`` is ``test(x, 0) ? number : z``; otherwise None for x."""
    if not isinstance(operation, Elementwise) or operation.op is not Op.COND:
        return None, operation.name
    condition, then, otherwise = operation.inputs
    made = algebra.definition(condition)
    if not isinstance(made, Elementwise) or made.op is not test:
        return None, otherwise
    fits = algebra.number(then) == number and algebra.number(made.inputs[1]) == 0
    return (made.inputs[0] if fits else None), otherwise


def _relu(site: Site, t: Tensor) -> Tensor:
    """Pass on the cotangent where the result is above 0; with even ties, half of it where x is 0."""
    algebra, y = site.algebra, site.result
    zero = algebra.constant(0.0, t)
    at_zero = zero
    if algebra.even_ties:
        x = site.operand(2)
        tied = algebra.compute(Op.CMP_EQ, x, zero)
        at_zero = algebra.choose(tied, algebra.mul(t, algebra.constant(0.5, t)), zero)
    return algebra.choose(algebra.compute(Op.CMP_LE, y, zero), at_zero, t)


PARTIALS: Final[Mapping[Op, tuple[Partial | None, ...]]] = MappingProxyType(
    {
        Op.IDENT: (_same,),
        Op.NEG: (_opposite,),
        Op.ABS: (_absolute,),
        Op.SQRT: (_sqrt,),
        Op.RSQRT: (_rsqrt,),
        Op.EXP: (_times_result,),
        Op.LOG: (_log,),
        Op.SIN: (functools.partial(_times_function, op=Op.COS),),
        Op.COS: (_cos,),
        Op.TAN: (_tan,),
        Op.ASIN: (_asin,),
        Op.ACOS: (_acos,),
        Op.ATAN: (_atan,),
        Op.SINH: (functools.partial(_times_function, op=Op.COSH),),
        Op.COSH: (functools.partial(_times_function, op=Op.SINH),),
        Op.TANH: (_tanh,),
        Op.SIGMOID: (_sigmoid,),
        Op.ERF: (_erf,),
        Op.ADD: (_same, _same),
        Op.SUB: (_same, FactoredDerivative(_same, _opposite)),
        Op.MUL: (functools.partial(_times_operand, position=1), functools.partial(_times_operand, position=0)),
        Op.DIV: (_dividend, FactoredDerivative(_times_result, _over_divisor)),
        Op.MOD: (_same, _modulus),
        Op.POW: (_base, _exponent),
        Op.MAX: (
            functools.partial(_extremum, position=0, greatest=True),
            functools.partial(_extremum, position=1, greatest=True),
        ),
        Op.MIN: (
            functools.partial(_extremum, position=0, greatest=False),
            functools.partial(_extremum, position=1, greatest=False),
        ),
        Op.COND: (None, functools.partial(_arm, position=1), functools.partial(_arm, position=2)),
        Op.FMA: (functools.partial(_times_operand, position=1), functools.partial(_times_operand, position=0), _same),
    }
)
"""The partial derivatives of each operation, in the order of its operands; 0 for operations that are missing."""
