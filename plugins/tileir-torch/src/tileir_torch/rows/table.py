"""Table of rows: the function for each overload of ATen."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, Final, TypeAlias, TypeVar

Function: TypeAlias = Callable[..., Any]
Serving = TypeVar("Serving", bound=Function)

FAMILIES: Final = (
    "activations",
    "attention",
    "convolutions",
    "creation",
    "elementwise",
    "images",
    "indexing",
    "matrices",
    "normalisation",
    "ordering",
    "placing",
    "pooling",
    "products",
    "random",
    "recurrent",
    "reductions",
    "sampling",
    "shapes",
    "special",
    "windows",
)
"""Modules of rows, loaded with the first graph."""


class RefusedError(Exception):
    """A row does not support a node; the argument is the reason."""


_ROWS: Final[dict[str, Function]] = {}


def row(*names: str) -> Callable[[Serving], Serving]:
    """Enter a function as the row of overloads.

    It is called with a :class:`~tileir_torch.importing.Call` and the arguments of the overload, with a builder's
    tensors, and returns the result or a tuple of all. Results are cast to PyTorch's dtypes.

    Args:
        names: Overloads of ``aten``, such as ``add.Tensor``; others with their namespace.
    """

    def enter(function: Serving) -> Serving:
        _ROWS.update((name if name.count(".") > 1 else f"aten.{name}", function) for name in names)
        return function

    return enter


@cache
def rows() -> dict[str, Function]:
    """Return all rows by overload."""
    for family in FAMILIES:
        import_module(f"tileir_torch.rows.{family}")
    return _ROWS


def row_of(target: str) -> Function | None:
    """Return the row of an overload, if any."""
    return rows().get(target)
