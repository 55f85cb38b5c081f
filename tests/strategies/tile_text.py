"""Tile functions that break no rule, without regard to shapes: for lexer, parser, printer and verifier.

Choices are drawn from a few cached strategies: to compose strategies for each node is ten times slower.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, TypeVar

import attrs
from hypothesis import strategies as st

from tileir.core.dtype import DType
from tileir.core.ops import Aggregation, Combination
from tileir.tile.functions import BUILTINS
from tileir.tile.ir import (
    Access,
    Assignment,
    Attribute,
    Binary,
    BinaryOperator,
    Call,
    Conditional,
    Constraint,
    Contraction,
    FloatLiteral,
    Function,
    IndexName,
    Input,
    IntLiteral,
    Name,
    Output,
    Unary,
    UnaryOperator,
)
from tileir.tile.text.grammar import POLYNOMIAL_OPERATORS
from tileir.tile.traversal import index_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypothesis.strategies import DrawFn, SearchStrategy

    from tileir.tile.ir import Expr, Size, Statement

T = TypeVar("T")

NAMES: Final = (
    *("A", "B", "Out", "X1", "K'", "x", "data", "_t", "function", "exp", "N", "M", "default", "i", "a'"),
    *("gpu_0/x", 'a "b" \\;}'),
)
INDICES: Final = ("i", "j", "k", "x1", "N", "_i", "no_defract", "exp")
DIMENSIONS: Final = ("N", "M", "K", "size", "_n", "N'", "batch size", "2")

_FUNCTIONS: Final = tuple(BUILTINS.values())
_FOLDING: Final = tuple(row for row in _FUNCTIONS if row.folds and row.constants is None)
_INTEGERS: Final = st.integers(0, 2**64 - 1)
_FLOATS: Final = st.floats(min_value=0, allow_nan=False).map(abs)


@cache
def _below(count: int) -> SearchStrategy[int]:
    return st.integers(0, count - 1)


@attrs.frozen
class Sketch:
    """A function that is being drawn: its choices, and what may be read at the current place."""

    draw: DrawFn
    tensors: list[str] = attrs.field(factory=list)
    readable: list[str] = attrs.field(factory=list)  # tensors that a contraction may read
    ranks: dict[str, int] = attrs.field(factory=dict)  # of the readable ones, where it is settled
    constants: list[str] = attrs.field(factory=list)

    def number(self, least: int, most: int) -> int:
        return least + self.draw(_below(most - least + 1))

    def pick(self, options: Sequence[T]) -> T:
        return options[self.number(0, len(options) - 1)]

    def some(self, options: Sequence[T], most: int) -> tuple[T, ...]:
        return tuple(self.pick(options) for _ in range(self.number(0, most)))

    def add(self, name: str, rank: int | None) -> None:
        """Note an input or the result of a contraction."""
        self.tensors.append(name)
        self.readable.append(name)
        if rank is not None:
            self.ranks[name] = rank

    def leaf(self, names: Sequence[str]) -> Expr:
        form = self.number(0, 5 if names else 2)
        match form:
            case 0:
                return IntLiteral(self.number(0, 9))
            case 1:
                return IntLiteral(self.draw(_INTEGERS))
            case 2:
                return FloatLiteral(self.draw(_FLOATS))
            case _:
                return Name(self.pick(names))

    def value(self, depth: int, *, constant: bool) -> Expr:
        """Draw an elementwise expression, or one that is known when compiling."""
        form = self.number(0, 5) if depth else 0
        match form:
            case 0 | 1:
                return self.leaf(self.constants if constant else [*self.tensors, *self.constants])
            case 2:
                return Unary(self.pick(tuple(UnaryOperator)), self.value(depth - 1, constant=constant))
            case 3:
                lhs = self.value(depth - 1, constant=constant)
                return Binary(self.pick(tuple(BinaryOperator)), lhs, self.value(depth - 1, constant=constant))
            case 4:
                parts = [self.value(depth - 1, constant=constant) for _ in range(3)]
                return Conditional(parts[0], parts[1], parts[2])
            case _:
                return self.call(depth - 1, constant=constant)

    def call(self, depth: int, *, constant: bool) -> Call:
        row = self.pick(_FOLDING if constant else _FUNCTIONS)
        count = self.number(row.least, row.least + 2 if row.most is None else row.most)
        first = count if row.constants is None else row.constants
        arguments = tuple(self.value(depth, constant=constant or place >= first) for place in range(count))
        return Call(row.name, arguments)

    def polynomial(self, indices: Sequence[str], depth: int = 3) -> Expr:
        """Draw a polynomial with all operators nested in all ways that stay affine."""
        form = self.number(0, 4) if depth else 0
        if form == 0:
            leaves: list[Expr] = [*map(IndexName, indices), *map(Name, self.constants)]
            return self.pick([*leaves, IntLiteral(self.number(1, 99))])
        inner = self.polynomial(indices, depth - 1)
        match form:
            case 1:
                return Unary(UnaryOperator.NEG, inner)
            case 2:
                return Binary(self.pick(POLYNOMIAL_OPERATORS[:2]), inner, self.polynomial(indices, depth - 1))
            case 3:
                factors = [inner, self.polynomial((), depth - 1)]
                first = self.number(0, 1)
                return Binary(BinaryOperator.MUL, factors[first], factors[1 - first])
            case _:
                divisor = self.polynomial((), depth - 1)
                operands = (inner.operand if isinstance(inner, Unary) else inner, divisor)
                literals = all(isinstance(operand, IntLiteral) for operand in operands)
                return Binary(BinaryOperator.MUL if literals else BinaryOperator.DIV, inner, divisor)

    def polynomials(self, indices: Sequence[str], count: int) -> tuple[Expr, ...]:
        return tuple(self.polynomial(indices) for _ in range(count))

    def attributes(self) -> tuple[Attribute, ...]:
        words = (*INDICES, "Label", "Q'", "node '/conv'")
        return tuple(Attribute(self.pick(INDICES), self.some(words, 2)) for _ in range(max(0, self.number(-2, 2))))

    def contraction(self, name: str) -> Contraction:
        """Draw a contraction, and note the ranks that it settles."""
        indices = sorted({self.pick(INDICES) for _ in range(self.number(1, 3))})
        combination = self.pick(tuple(Combination))
        inputs = []
        for _ in range(combination.arity):
            tensor = self.pick(self.readable)
            rank = self.ranks.setdefault(tensor, self.number(0, 3))
            inputs.append(Access(tensor, self.polynomials(indices, rank)))
        rank = self.number(0, 3)
        target = self.polynomials(indices, rank)
        roots = (*target, *(index for access in inputs for index in access.indices))
        read = sorted({node.name for root in roots for node in index_names(root)})
        constraints = tuple(
            Constraint(self.polynomial(read), self.value(2, constant=True)) for _ in range(self.number(0, 2))
        )
        defaults = [None, *(Name(tensor) for tensor, known in self.ranks.items() if known == rank)]
        return Contraction(
            name,
            target,
            tuple(self.value(2, constant=True) for _ in range(rank)),
            self.pick(tuple(Aggregation)),
            combination,
            tuple(inputs),
            constraints,
            self.number(0, 1) == 1,
            self.pick(defaults),
            self.attributes(),
        )

    def inputs(self, names: Sequence[str]) -> tuple[Input, ...]:
        drawn = []
        free = [dim for dim in DIMENSIONS if dim not in names]
        for name in names:
            sizes: tuple[Size, ...] = (*map(Name, free), IntLiteral(self.number(0, 9)))
            dims = None if self.number(0, 2) == 0 else self.some(sizes, 3)
            drawn.append(Input(name, dims, self.dtype()))
            self.add(name, None if dims is None else len(dims))
            named = dict.fromkeys(dim.name for dim in dims or () if isinstance(dim, Name))
            self.constants.extend(dim for dim in named if dim not in self.constants)
        return tuple(drawn)

    def dtype(self) -> DType | None:
        return self.pick(tuple(DType)) if self.number(0, 3) == 3 else None

    def outputs(self) -> tuple[Output, ...]:
        """Draw results, some of which are declared with a dtype, or with sizes where their rank is known."""
        names = dict.fromkeys(self.pick(self.tensors) for _ in range(self.number(1, 3)))
        drawn = []
        for name in names:
            rank = self.ranks.get(name)
            sized = rank is not None and self.number(0, 2) == 2
            dims = tuple(self.value(2, constant=True) for _ in range(rank or 0)) if sized else None
            drawn.append(Output(name, dims, self.dtype()))
        return tuple(drawn)

    def statement(self, name: str) -> Statement:
        form = self.number(0, 2 if self.readable else 1)
        if form == 2:
            contraction = self.contraction(name)
            self.add(name, len(contraction.sizes))
            return contraction
        assignment = Assignment(name, self.value(3, constant=form == 1), self.attributes())
        self.tensors.append(name)
        if form == 1:
            self.constants.append(name)
        return assignment


@st.composite
def functions(draw: DrawFn) -> Function:
    """Functions that ``verify`` accepts."""
    sketch = Sketch(draw)
    start = sketch.number(0, len(NAMES) - 1)
    free = NAMES[start:] + NAMES[:start]
    taken = sketch.number(0, 3)
    inputs = sketch.inputs(free[:taken])
    names = [name for name in free[taken:] if name not in sketch.constants][: sketch.number(1, 5)]
    statements = tuple(sketch.statement(name) for name in names)
    return Function(inputs, sketch.outputs(), statements)


@st.composite
def polynomials(draw: DrawFn, indices: Sequence[str], constants: Sequence[str]) -> Expr:
    """Affine polynomials over ``indices`` and ``constants``."""
    return Sketch(draw, constants=list(constants)).polynomial(indices)
