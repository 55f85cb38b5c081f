"""Builtin functions that return their argument but change its gradients: overrides, stops and checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from tileir.core import Aggregation, Diagnostic, Op, Span, accumulator, arithmetic_type, fail, float_for
from tileir.typed.inference.elementwise import apply, common_dtype, convert, scalar, tensor
from tileir.typed.inference.emission import Emission, broadcasts_to
from tileir.typed.inference.numbers import is_float
from tileir.typed.inference.shapes import reduce_to
from tileir.typed.inference.values import ConstantScalar, DifferentiatedError, Number, Operand, Result, Scalar, Tensor
from tileir.typed.ir import Checkpoint, Function, Override, Shape, Upstream
from tileir.typed.templates import free_upstreams


def escaped_upstreams(function: Function) -> Iterator[Diagnostic]:
    """Yield the outputs that read values known only while a gradient is computed."""
    free = free_upstreams(function.operations)
    spans = {operation.name: operation.span for operation in function.operations if operation.name in free}
    for name in function.outputs:
        for upstream in sorted(free.get(name, ())):
            message = (
                f"output {name!r} reads this upstream, but only gradients that override_gradient gives may do so, and "
                "those of the same tensor: give it a name, Y, and write override_gradient(Y, X, … upstream(Y) …)"
            )
            yield Diagnostic("TIL326", message, spans[upstream])


def _override_gradient(emission: Emission, operands: Sequence[Operand], span: Span | None) -> Result:
    """Replace the gradients of the first operand by the following pairs (X, G)."""
    if len(operands) % 2 == 0:
        message = "after the first tensor come pairs of a tensor and its gradient; this one has no gradient"
        raise fail("TIL328", message, operands[-1].span)
    value = tensor(emission, operands[0])
    pairs = zip(operands[1::2], operands[2::2], strict=True)
    return _overridden(emission, value, [_pair(emission, x, g) for x, g in pairs], span)


def _overridden(emission: Emission, value: Tensor, pairs: Sequence[tuple[Tensor, Tensor]], span: Span | None) -> Tensor:
    """Emit an override of ``value`` by pairs that fit."""
    names = tuple((x.name, g.name) for x, g in pairs)
    arriving = emission.upstreams.get(value.name) if pairs else None
    upstream = None if arriving is None else emission.current(arriving).name
    return emission.add(Override(emission.fresh(), value.name, names, upstream, value.dtype, value.shape, span=span))


def _pair(emission: Emission, target: Operand, gradient: Operand) -> tuple[Tensor, Tensor]:
    """Return a tensor and its gradient, in the arithmetic type of the tensor.

    Raises:
        TileError: TIL321, the tensor has no gradient; TIL329, the gradient does not broadcast to the shape of its
            tensor.
    """
    x, g = scalar(target), scalar(gradient)
    if isinstance(x, Number) and is_float(x):
        raise DifferentiatedError(emission.numbers.arguments(x))
    if isinstance(x, Number):
        x = emission.tensor(x, target.span)
    if isinstance(x, ConstantScalar):
        raise fail("TIL321", f"{target.label} is a constant, which has no derivative; leave the pair out", target.span)
    if not x.dtype.is_float:
        message = f"{target.label} is {x.dtype.value}, and only floats have derivatives; cast it, as in as_f32(…)"
        raise fail("TIL321", message, target.span)
    if not isinstance(g, Tensor):
        return x, emission.literal(g, arithmetic_type(x.dtype), gradient.span)
    if not broadcasts_to(g.shape, x.shape):
        message = (
            f"{gradient.label} has shape {list(g.shape)}, which does not broadcast to that of {target.label}, "
            f"{list(x.shape)}; sum it down with simple_reduce"
        )
        raise fail("TIL329", message, gradient.span)
    return x, emission.cast(g, arithmetic_type(x.dtype), gradient.span)


def _upstream(emission: Emission, operands: Sequence[Operand], span: Span | None) -> Result:
    """Return the placeholder for the cotangent of a tensor; there is one for each tensor."""
    return _arriving(emission, tensor(emission, operands[0]), span)


def _arriving(emission: Emission, value: Tensor, span: Span | None) -> Tensor:
    found = emission.upstreams.get(value.name)
    if found is None:
        found = emission.add(Upstream(emission.fresh(), arithmetic_type(value.dtype), value.shape, span=span))
        emission.upstreams[value.name] = found
    return emission.current(found)


def _stop_gradient(emission: Emission, operands: Sequence[Operand], span: Span | None) -> Result:
    value = scalar(operands[0])
    return _overridden(emission, value, (), span) if isinstance(value, Tensor) else value


def _checkpoint(emission: Emission, operands: Sequence[Operand], span: Span | None) -> Result:
    value = scalar(operands[0])
    if not isinstance(value, Tensor):
        return value
    return emission.add(Checkpoint(emission.fresh(), value.name, value.dtype, value.shape, span=span))


def _reverse_grad(emission: Emission, operands: Sequence[Operand], span: Span | None) -> Result:
    """Return the value; its gradient is multiplied by ``-scale``. Values without a gradient are just returned."""
    value = scalar(operands[0])
    if not isinstance(value, Tensor) or not value.dtype.is_float:
        return value
    negated = Operand(apply(emission, Op.NEG, operands[1:], span), operands[1].span)
    arriving = Operand(emission.cast(_arriving(emission, value, span), accumulator(value.dtype)), span)
    gradient = Operand(apply(emission, Op.MUL, [negated, arriving], span), operands[1].span, operands[1].name)
    return _overridden(emission, value, [_pair(emission, operands[0], gradient)], span)


def _binary_crossentropy(emission: Emission, operands: Sequence[Operand], span: Span | None) -> Result:
    """Expand to ``-t·log p - (1 - t)·log(1 - p)``, whose gradients are divided by the third argument.

    They are ``(-t / p + (1 - t) / (1 - p)) / scale`` for p and ``(log(1 - p) - log p) / scale`` for t.
    """
    given = p, t, scale = tuple(scalar(operand) for operand in operands)
    dtype = float_for(common_dtype((p, t)))
    p, t, scale = (convert(emission, value, accumulator(dtype), span) for value in given)

    def emit(op: Op, *values: Scalar) -> Scalar:
        """Apply ``op``; faults of the user are reported for the whole call."""
        return apply(emission, op, [Operand(value, span) for value in values], span)

    rest_p, rest_t = emit(Op.SUB, ConstantScalar(1), p), emit(Op.SUB, ConstantScalar(1), t)
    log_p, log_rest = emit(Op.LOG, p), emit(Op.LOG, rest_p)
    result = emit(Op.SUB, emit(Op.MUL, emit(Op.NEG, t), log_p), emit(Op.MUL, rest_t, log_rest))
    if not isinstance(result, Tensor):
        return result
    if not broadcasts_to(scale.shape, result.shape):
        message = f"{operands[2].label} has shape {list(scale.shape)}, which does not broadcast to {list(result.shape)}"
        raise fail("TIL329", message, operands[2].span)
    result = emission.cast(result, dtype, span)
    arriving = emit(Op.DIV, emission.cast(_arriving(emission, result, span), accumulator(dtype)), scale)
    factors = (emit(Op.SUB, emit(Op.DIV, rest_t, rest_p), emit(Op.DIV, t, p)), emit(Op.SUB, log_rest, log_p))
    pairs = []
    for operand, x, factor in zip(operands[:2], given[:2], factors, strict=True):
        if isinstance(x, Tensor) and x.dtype.is_float:
            gradient = tensor(emission, Operand(emit(Op.MUL, factor, arriving), span))
            summed = Operand(_summed(emission, gradient, x.shape, span), span)
            pairs.append(_pair(emission, operand, summed))
    return _overridden(emission, result, pairs, span)


def _summed(emission: Emission, value: Tensor, shape: Shape, span: Span | None) -> Tensor:
    return value if broadcasts_to(value.shape, shape) else reduce_to(emission, value, shape, Aggregation.SUM, span)


OVERRIDES: Final[Mapping[str, Callable[[Emission, Sequence[Operand], Span | None], Result]]] = MappingProxyType(
    {
        "override_gradient": _override_gradient,
        "upstream": _upstream,
        "stop_gradient": _stop_gradient,
        "checkpoint": _checkpoint,
        "reverse_grad": _reverse_grad,
        "builtin_binary_crossentropy": _binary_crossentropy,
    }
)
