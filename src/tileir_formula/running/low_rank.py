"""Constant windows as sums of windows of rank one, within a tolerance, by a truncated singular value decomposition.

A window of rank one is applied along one axis at a time, so a window of M by N and rank R takes R * (M + N) products
for an element instead of M * N. Eckart and Young, "The approximation of one matrix by another of lower rank" (1936).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from tileir.core import Aggregation, ArrayValue, Combination, NameScope, attrs
from tileir.tile.ir import (
    Assignment,
    Binary,
    BinaryOperator,
    Constant,
    Contraction,
    Expr,
    Function,
    IndexName,
    Name,
    Statement,
)
from tileir.tile.traversal import dimensions

Matrix = np.ndarray[Any, np.dtype[Any]]

COST_OF_A_PART: Final = 16
"""The cost of a further window of rank one, in products: two pictures are written and read."""


@attrs.frozen
class Approximation:
    """A window that was replaced.

    Attributes:
        statement: The name of the sum over it.
        constant: Its name.
        rank: The number of windows of rank one that replace it.
        error: The sum of the absolute differences of their elements and its own, as a share of the sum of the absolute
            values of its elements: results differ by at most this share of that sum times the greatest pixel.
        label: The name of the sum in ``[[pid(label)]]``.
    """

    statement: str
    constant: str
    rank: int
    error: float
    label: str | None = None


def with_low_rank(function: Function, tolerance: float) -> tuple[Function, tuple[Approximation, ...]]:
    """Return a function whose constant windows are sums of windows of rank one, where that is cheaper.

    Args:
        function: Tile.
        tolerance: The greatest error of a window, as :class:`Approximation` has it; 0 leaves the function as it is.

    Returns:
        The function, itself where nothing was replaced, and the replaced windows.
    """
    windows = {each.name: each for each in function.statements if isinstance(each, Constant) and _is_window(each)}
    names = NameScope.of(_names(function))
    statements: list[Statement] = []
    found: list[Approximation] = []
    for statement in function.statements:
        replaced = _replaced(statement, windows, tolerance, names) if isinstance(statement, Contraction) else None
        if replaced is None:
            statements.append(statement)
        else:
            statements.extend(replaced[0])
            found.append(replaced[1])
    if not found:
        return function, ()
    return attrs.evolve(function, statements=tuple(statements)), tuple(found)


def _replaced(
    statement: Contraction, windows: Mapping[str, Constant], tolerance: float, names: NameScope
) -> tuple[list[Statement], Approximation] | None:
    """Return the statements that replace a sum over a window, and their description; None where it stays."""
    place = _window_of(statement, windows) if tolerance > 0 else None
    if place is None:
        return None
    window = windows[statement.inputs[place].tensor]
    assert isinstance(window.value, ArrayValue)
    matrix = window.value.numpy()
    parts = _parts(matrix, tolerance)
    if parts is None:
        return None
    label = next((each.parameters[0] for each in statement.attributes if each.name == "pid"), None)
    approximation = Approximation(statement.name, window.name, len(parts), _error(matrix, parts), label)
    return list(_sums(statement, place, window, parts, names)), approximation


def _names(function: Function) -> Iterator[str]:
    for parameter in function.inputs:
        yield parameter.name
    yield from (dim.name for dim in dimensions(function))
    yield from (statement.name for statement in function.statements)


def _is_window(constant: Constant) -> bool:
    if not isinstance(constant.value, ArrayValue) or len(constant.shape) != 2 or min(constant.shape) < 2:
        return False
    array = constant.value.numpy()
    return (
        constant.value.dtype.is_float and array.dtype.itemsize >= 4 and bool(np.isfinite(array).all() and array.any())
    )


def _window_of(statement: Contraction, windows: Mapping[str, Constant]) -> int | None:
    """Return the input of a sum of products that is a window: a constant whose axes are two different indices."""
    if statement.aggregation is not Aggregation.SUM or statement.combination is not Combination.MUL:
        return None
    if statement.default is not None or statement.no_defract:
        return None
    places = [place for place, access in enumerate(statement.inputs) if access.tensor in windows]
    if len(places) != 1:
        return None
    indices = statement.inputs[places[0]].indices
    bare = all(isinstance(index, IndexName) for index in indices)
    return places[0] if bare and len(set(indices)) == len(indices) else None


def _parts(matrix: Matrix, tolerance: float) -> list[Matrix] | None:
    """Return the fewest windows of rank one within the tolerance; None where they cost more."""
    left, weights, right = np.linalg.svd(matrix.astype(np.float64))
    rows, columns = matrix.shape
    parts: list[Matrix] = []
    for number, weight in enumerate(weights):
        parts.append((weight * np.outer(left[:, number], right[number])).astype(matrix.dtype))
        if len(parts) * (rows + columns + COST_OF_A_PART) >= rows * columns:
            return None
        if _error(matrix, parts) <= tolerance:
            return parts
    return None


def _error(matrix: Matrix, parts: list[Matrix]) -> float:
    exact = matrix.astype(np.float64)
    return float(np.abs(exact - sum(part.astype(np.float64) for part in parts)).sum() / np.abs(exact).sum())


def _sums(
    statement: Contraction, place: int, window: Constant, parts: list[Matrix], names: NameScope
) -> Iterator[Statement]:
    """Yield a constant and a sum for each part, then the sum of all."""
    total: Expr | None = None
    for number, part in enumerate(parts):
        value = ArrayValue.of(part)
        constant = attrs.evolve(window, name=names.fresh(f"{window.name}_{number}"), value=value, dims=None)
        yield constant
        name = statement.name if len(parts) == 1 else names.fresh(f"{statement.name}_{number}")
        inputs = list(statement.inputs)
        inputs[place] = attrs.evolve(inputs[place], tensor=constant.name)
        yield attrs.evolve(statement, name=name, inputs=tuple(inputs))
        term = Name(name, span=statement.span)
        total = term if total is None else Binary(BinaryOperator.ADD, total, term, span=statement.span)
    if len(parts) > 1:
        assert total is not None
        yield Assignment(
            statement.name, total, statement.attributes, span=statement.span, name_span=statement.name_span
        )
