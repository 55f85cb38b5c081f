"""The body of a function by itself, as Tile: whether it keeps the rules, and of which size its result is."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from tileir.core.errors import TileError
from tileir.formula.functions import parameter_name
from tileir.ops.foundation import dims_of
from tileir.tile.builder import FunctionBuilder

if TYPE_CHECKING:
    from tileir.formula.functions import Function
    from tileir.tile.builder import Operand, Tensor
    from tileir.tile.ir import Function as TileFunction


def build(function: Function) -> TileFunction:
    """Return a function of Tile that does what the body does.

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
    return dims_of(result)[:2] == dims_of(declared[function.pictures[0]])[:2]


def _called(function: Function) -> tuple[FunctionBuilder, Tensor, dict[str, Operand]]:
    """Return a builder, what a function makes there of inputs, and these; what chooses statements is at its default."""
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
            declared[each.name] = builder.input(each.name, *(dim.name for dim in each.dims))
        else:
            declared[each.name] = builder.scalar(each.name)
    return builder, function.applied(list(declared.values()), function.boundary), declared
