"""The smallest shapes for which something is so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.core.errors import TileError
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tileir.tile.ir import Function

    Types = Mapping[str, TensorType]

_TRIALS = 200


def smallest(function: Function, types: Types, holds: Callable[[Types], bool]) -> Types:
    """Return types of the inputs with sizes as small as a few trials find, for which ``holds`` is still true.

    Axes of one name have one size; others are made smaller each for itself. A TileError of ``holds`` means that
    such shapes do not fit the function.
    """
    trials = 0
    changed = True
    while changed:
        changed = False
        for axes in _axes(function, types):
            name, axis = axes[0]
            size = types[name].shape[axis]
            for smaller in _below(size):
                trials += 1
                if trials > _TRIALS:
                    return types
                candidate = _with_size(types, axes, smaller)
                if _true(holds, candidate):
                    types, changed = candidate, True
                    break
    return types


def _true(holds: Callable[[Types], bool], types: Types) -> bool:
    try:
        return holds(types)
    except TileError:
        return False


def _below(size: int) -> Iterator[int]:
    """Yield smaller sizes, the smallest first."""
    yield from sorted({number for number in (1, 2, 3, size // 4, size // 2, size - 2, size - 1) if 0 < number < size})


def _axes(function: Function, types: Types) -> list[list[tuple[str, int]]]:
    """Return the axes of inputs, those together that have one name."""
    found: dict[str, list[tuple[str, int]]] = {}
    for tensor in function.inputs:
        rank = len(types[tensor.name].shape)
        names = tensor.dims if tensor.dims is not None and len(tensor.dims) == rank else [None] * rank
        for axis, dim in enumerate(names):
            found.setdefault(str(dim) if dim is not None else f"{tensor.name} {axis}", []).append((tensor.name, axis))
    return list(found.values())


def _with_size(types: Types, axes: list[tuple[str, int]], size: int) -> Types:
    result = dict(types)
    for name, axis in axes:
        shape = list(result[name].shape)
        shape[axis] = size
        result[name] = TensorType(result[name].dtype, tuple(shape))
    return result
