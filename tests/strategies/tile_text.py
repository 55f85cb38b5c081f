"""Tile functions that break no rule, without regard to shapes: for lexer, parser, printer and verifier."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
from hypothesis import strategies as st

from tileir.core.ops import Aggregation, Combination
from tileir.tile.functions import BUILTINS
from tileir.tile.grammar import POLYNOMIAL_OPERATORS
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
from tileir.tile.traversal import index_names

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

    from tileir.tile.ir import Expr, Statement

NAMES = ("A", "B", "Out", "X1", "K'", "x", "data", "_t", "function", "exp", "N", "M", "default", "i", "a'")
INDICES = ("i", "j", "k", "x1", "N", "_i", "no_defract", "exp")
DIMENSIONS = ("N", "M", "K", "size", "_n", "N'")


@attrs.define
class Names:
    """What may be read at one place of the function that is being drawn."""

    tensors: list[str] = attrs.field(factory=list)
    readable: list[str] = attrs.field(factory=list)  # tensors that a contraction may read
    ranks: dict[str, int] = attrs.field(factory=dict)  # of the readable ones, where it is settled
    constants: list[str] = attrs.field(factory=list)

    def add(self, name: str, rank: int | None) -> None:
        """Note an input or the result of a contraction."""
        self.tensors.append(name)
        self.readable.append(name)
        if rank is not None:
            self.ranks[name] = rank


def literals() -> SearchStrategy[Expr]:
    integers = st.integers(0, 2**64 - 1) | st.integers(0, 9)
    floats = st.floats(min_value=0, allow_nan=False).map(abs)
    return integers.map(IntLiteral) | floats.map(FloatLiteral)


def values(names: list[str], constants: list[str]) -> SearchStrategy[Expr]:
    """Elementwise expressions over ``names``; the constant arguments of functions use ``constants``."""
    sizes = constant_values(constants)
    leaves = literals() | st.sampled_from(names).map(Name) if names else literals()
    return st.recursive(leaves, lambda inner: _operators(inner) | _calls(inner, sizes), max_leaves=12)


def constant_values(constants: list[str]) -> SearchStrategy[Expr]:
    leaves = literals() | st.sampled_from(constants).map(Name) if constants else literals()
    folding = st.sampled_from([row for row in BUILTINS.values() if row.folds and row.constants is None])

    def grow(inner: SearchStrategy[Expr]) -> SearchStrategy[Expr]:
        call = folding.flatmap(lambda row: st.builds(Call, st.just(row.name), _tuples(inner, row.least)))
        return _operators(inner) | call

    return st.recursive(leaves, grow, max_leaves=6)


def _operators(inner: SearchStrategy[Expr]) -> SearchStrategy[Expr]:
    return (
        st.builds(Unary, st.sampled_from(UnaryOperator), inner)
        | st.builds(Binary, st.sampled_from(BinaryOperator), inner, inner)
        | st.builds(Conditional, inner, inner, inner)
    )


def _tuples(inner: SearchStrategy[Expr], count: int) -> SearchStrategy[tuple[Expr, ...]]:
    return st.lists(inner, min_size=count, max_size=count).map(tuple)


@st.composite
def _calls(draw: DrawFn, inner: SearchStrategy[Expr], sizes: SearchStrategy[Expr]) -> Call:
    row = draw(st.sampled_from(list(BUILTINS.values())))
    count = draw(st.integers(row.least, row.least + 2 if row.most is None else row.most))
    first = count if row.constants is None else min(row.constants, count)
    return Call(row.name, (*draw(_tuples(inner, first)), *draw(_tuples(sizes, count - first))))


@st.composite
def polynomials(draw: DrawFn, indices: list[str], constants: list[str], depth: int = 3) -> Expr:
    """Affine polynomials over ``indices``, all operators nested in all ways that stay affine."""
    fixed = st.integers(1, 99).map(IntLiteral) | (st.sampled_from(constants).map(Name) if constants else st.nothing())
    leaf = st.sampled_from(indices).map(IndexName) | fixed if indices else fixed
    if depth == 0:
        return draw(leaf)
    form = draw(st.integers(0, 4))
    if form == 0:
        return draw(leaf)
    inner = draw(polynomials(indices, constants, depth - 1))
    if form == 1:
        return Unary(UnaryOperator.NEG, inner)
    if form == 2:
        other = draw(polynomials(indices, constants, depth - 1))
        return Binary(draw(st.sampled_from(POLYNOMIAL_OPERATORS[:2])), inner, other)
    factor = draw(polynomials([], constants, depth - 1))
    if form == 3:
        return draw(
            st.sampled_from([Binary(BinaryOperator.MUL, factor, inner), Binary(BinaryOperator.MUL, inner, factor)])
        )
    return Binary(BinaryOperator.DIV, inner, factor)


@st.composite
def attributes(draw: DrawFn) -> tuple[Attribute, ...]:
    words = st.sampled_from([*INDICES, "Label", "Q'"])
    one = st.builds(Attribute, st.sampled_from(INDICES), st.lists(words, max_size=2).map(tuple))
    return tuple(draw(st.lists(one, max_size=2)))


@st.composite
def contractions(draw: DrawFn, name: str, names: Names) -> Contraction:
    """A contraction of what ``names`` has, which notes the ranks that it settles."""
    indices = draw(st.lists(st.sampled_from(INDICES), min_size=1, max_size=3, unique=True))
    polynomial = polynomials(indices, names.constants)
    combination = draw(st.sampled_from(Combination))
    inputs = []
    for tensor in draw(
        st.lists(st.sampled_from(names.readable), min_size=combination.arity, max_size=combination.arity)
    ):
        rank = names.ranks.setdefault(tensor, draw(st.integers(0, 3)))
        inputs.append(Access(tensor, draw(_tuples(polynomial, rank))))
    rank = draw(st.integers(0, 3))
    target = draw(_tuples(polynomial, rank))
    roots = (*target, *(index for access in inputs for index in access.indices))
    bound_indices = sorted({node.name for root in roots for node in index_names(root)})
    sizes = constant_values(names.constants)
    constraints = st.builds(Constraint, polynomials(bound_indices, names.constants), sizes)
    defaults = [tensor for tensor, known in names.ranks.items() if known == rank]
    return Contraction(
        name,
        target,
        draw(_tuples(sizes, rank)),
        draw(st.sampled_from(Aggregation)),
        combination,
        tuple(inputs),
        tuple(draw(st.lists(constraints, max_size=2))),
        draw(st.booleans()),
        draw(st.none() | st.sampled_from(defaults).map(Name)) if defaults else None,
        draw(attributes()),
    )


@st.composite
def functions(draw: DrawFn) -> Function:
    """Functions that ``verify`` accepts."""
    free = draw(st.permutations(NAMES))
    taken = draw(st.integers(0, 3))
    names = Names()
    inputs = []
    for name in free[:taken]:
        dims = draw(st.none() | st.lists(st.sampled_from([d for d in DIMENSIONS if d not in free[:taken]]), max_size=3))
        inputs.append(Input(name, None if dims is None else tuple(map(Name, dims))))
        names.add(name, None if dims is None else len(dims))
        names.constants.extend(dim for dim in dims or () if dim not in names.constants)
    statements: list[Statement] = []
    for name in [n for n in free[taken:] if n not in names.constants][: draw(st.integers(1, 5))]:
        forms = ["value", "constant", "contraction"] if names.readable else ["value", "constant"]
        form = draw(st.sampled_from(forms))
        if form == "contraction":
            contraction = draw(contractions(name, names))
            statements.append(contraction)
            names.add(name, len(contraction.sizes))
            continue
        value = values([*names.tensors, *names.constants], names.constants)
        expr = draw(constant_values(names.constants) if form == "constant" else value)
        statements.append(Assignment(name, expr, draw(attributes())))
        names.tensors.append(name)
        if form == "constant":
            names.constants.append(name)
    outputs = draw(st.lists(st.sampled_from(names.tensors), min_size=1, max_size=3, unique=True))
    return Function(tuple(inputs), tuple(map(Output, outputs)), tuple(statements))
