"""The body of a function by itself, as Tile: whether it keeps the rules, and of which size its result is."""

from __future__ import annotations

from functools import cache

from tileir.core.errors import TileError
from tileir.ops.shared.foundation import dims_of
from tileir.poly.affine import Affine
from tileir.tile.builder import FunctionBuilder, Operand, Tensor
from tileir.tile.ir import Binary, BinaryOperator, Expr, Function as TileFunction, IntLiteral, Name
from tileir_formula.definitions.functions import Function, parameter_name


def build(function: Function) -> TileFunction:
    """Return a Tile function with the behaviour of the body.

    Raises:
        TileError: The body breaks a rule of Tile.
    """
    builder, result, _ = _called(function)
    return builder.build(result)


@cache
def keeps_size(function: Function) -> bool:
    """Return whether the result of a function has as many rows and columns as its first picture, whatever these are."""
    try:
        _, result, declared = _called(function)
    except TileError:  # it was made by hand, and breaks a rule, as crafting tells
        return False
    made, first = (
        tuple(_affine(dim.expr) for dim in dims_of(each)[:2]) for each in (result, declared[function.pictures[0]])
    )
    return made == first and None not in made


def _affine(expr: Expr) -> Affine | None:
    """Return a size as a sum of dimensions, such as that of a picture whose border was taken away; None for others."""
    match expr:
        case IntLiteral(value=value):
            return Affine.constant(value)
        case Name(name=name):
            return Affine.index(name)
        case Binary(operator=BinaryOperator.ADD | BinaryOperator.SUB, lhs=lhs, rhs=rhs):
            left, right = _affine(lhs), _affine(rhs)
            if left is None or right is None:
                return None
            return left + right if expr.operator is BinaryOperator.ADD else left - right
    return None


def _called(function: Function) -> tuple[FunctionBuilder, Tensor, dict[str, Operand]]:
    """Return a builder, the results of a function in it, and the inputs; static parameters have their defaults."""
    builder = FunctionBuilder()
    defaults = function.operands(())
    declared: dict[str, Operand] = {}
    for each in function.body.inputs:
        name = parameter_name(function, each.name)
        if name in function.fixed:
            value = defaults[name]
            assert isinstance(value, int | float)  # other parameters have axes, so they are no sizes
            declared[each.name] = value
        elif each.dims:
            declared[each.name] = builder.input(
                each.name, *(dim.name if isinstance(dim, Name) else dim.value for dim in each.dims)
            )
        else:
            declared[each.name] = builder.scalar(each.name)
    return builder, function.applied(list(declared.values()), function.boundary), declared
