"""Table of rows: the function that serves an operator in a version."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from attrs import field, frozen

if TYPE_CHECKING:
    from tileir_onnx.graph import Node

Function: TypeAlias = Callable[..., Any]
Serving = TypeVar("Serving", bound=Function)

FAMILIES: Final = (
    "activations",
    "attention",
    "control",
    "counted",
    "elementwise",
    "images",
    "indexing",
    "losses",
    "microsoft",
    "microsoft_attention",
    "normalisation",
    "optimisers",
    "products",
    "quantised",
    "random",
    "recurrent",
    "reductions",
    "shapes",
    "signals",
    "windows",
)
"""Modules of rows, loaded with the first model."""

_LAST: Final = 1 << 30


@frozen(eq=False)
class Row:
    """Function that serves an operator in some of its versions.

    Attributes:
        op: The operator.
        domain: Its domain; empty for ONNX's own.
        since: First version of the domain's operators that it serves.
        until: First later version that it does not serve.
        function: Called with a :class:`~tileir_onnx.importing.Call`, one argument for each input, and attributes as
            keywords; returns the output, or a tuple of all.
        known: Parameters whose inputs must be known when compiling, and come as arrays.
        raw: Whether it takes inputs unconverted: tensors, arrays if they are known, sequences.
    """

    op: str
    domain: str
    since: int
    until: int
    function: Function
    known: Collection[str]
    raw: bool = False
    inputs: tuple[str, ...] = field(init=False)
    variadic: str = field(init=False)
    attributes: frozenset[str] = field(init=False)
    needed: int = field(init=False)

    @inputs.default
    def _inputs(self) -> tuple[str, ...]:
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return tuple(name for name, each in _parameters(self.function).items() if each.kind in kinds)[1:]

    @variadic.default
    def _variadic(self) -> str:
        kind = inspect.Parameter.VAR_POSITIONAL
        return next((name for name, each in _parameters(self.function).items() if each.kind is kind), "")

    @attributes.default
    def _attributes(self) -> frozenset[str]:
        kind = inspect.Parameter.KEYWORD_ONLY
        return frozenset(name for name, each in _parameters(self.function).items() if each.kind is kind)

    @needed.default
    def _needed(self) -> int:
        empty = inspect.Parameter.empty
        return sum(_parameters(self.function)[name].default is empty for name in self.inputs)

    def parameter(self, position: int) -> str:
        """Return the name of the parameter for an input."""
        return self.inputs[position] if position < len(self.inputs) else self.variadic


@cache
def _parameters(function: Function) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function).parameters)


_ROWS: Final[dict[tuple[str, str], list[Row]]] = {}


def row(
    *names: str, domain: str = "", since: int = 1, until: int = _LAST, known: Collection[str] = (), raw: bool = False
) -> Callable[[Serving], Serving]:
    """Enter a function as the row of operators.

    Args:
        names: The operators.
        domain: Their domain; empty for ONNX's own.
        since: First version that it serves.
        until: First later version that it does not serve.
        known: Parameters whose inputs must be known when compiling; they come as NumPy arrays, with a
            :class:`tileir.tile.builder.Dim` for a symbolic size.
        raw: Whether it takes all inputs unconverted: tensors, arrays if they are known, sequences.
    """

    def enter(function: Serving) -> Serving:
        for name in names:
            _ROWS.setdefault((domain, name), []).append(Row(name, domain, since, until, function, known, raw))
        return function

    return enter


@cache
def rows() -> dict[tuple[str, str], list[Row]]:
    """Return all rows by domain and operator."""
    for family in FAMILIES:
        import_module(f"tileir_onnx.rows.{family}")
    return _ROWS


def row_of(node: Node) -> Row | None:
    """Return the row that serves a node, if any."""
    serving = (each for each in rows().get((node.domain, node.op), ()) if each.since <= node.version < each.until)
    return next(serving, None)
