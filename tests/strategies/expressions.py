"""Small expressions of kernels over two variables, and what they are for very many values of these."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from strategies.semtree_values import special_values
from tileir.core.dtype import DType
from tileir.core.numbers import arithmetic
from tileir.core.ops import Domain, Op
from tileir.semtree.ir import Apply, Cast, Const, Expr, Type, Var
from tileir.semtree.rewrite import walk
from tileir_testing.generated.choices import Seeded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Array = np.ndarray[Any, np.dtype[Any]]

_FLOATS: Final = (0.0, -0.0, 1.0, -1.0, 2.0, -0.5, 0.1, 2.0**-13, 2.0**15, 2.0**-127, 2.0**126, np.inf, np.nan)
_DRAWN: Final = 4096


def atoms(dtype: DType) -> tuple[Expr, ...]:
    """Return two variables, and the constants at which laws begin or end to hold."""
    kind = Type(dtype)
    variables = (Var(f"x_{dtype.value}", kind), Var(f"y_{dtype.value}", kind))
    if dtype.is_bool:
        return (*variables, Const(False, kind), Const(True, kind))
    if dtype.is_float:
        return (*variables, *(Const.of(value, kind) for value in _FLOATS))
    low, high = int(dtype.minimum), int(dtype.maximum)
    numbers = dict.fromkeys((0, 1, 2, 3, max(low, -1), dtype.bits - 1, dtype.bits, high // 2 + 1, low, high))
    return (*variables, *(Const(number, kind) for number in numbers))


def operations_on(dtype: DType) -> tuple[Op, ...]:
    """Return the operations whose operands can have a dtype."""
    domains = {Domain.ANY, Domain.BITS if not dtype.is_float else Domain.FLOAT}
    domains |= set() if dtype.is_bool else {Domain.NUMBER}
    shifts = (Op.BIT_LEFT, Op.BIT_RIGHT)
    return tuple(op for op in Op if op.info.domain in domains and not (dtype.is_bool and op in shifts))


def trees(dtype: DType, deeper: int) -> Iterator[Expr]:
    """Yield every operation on every choice of atoms, pairs of unary ones, and so many drawn trees."""
    leaves = atoms(dtype)
    for op in operations_on(dtype):
        if op.info.arity < 3:
            yield from (Apply(op, args) for args in itertools.product(leaves, repeat=op.info.arity))
    unary = [op for op in operations_on(dtype) if op.info.arity == 1]
    yield from (Apply(outer, (Apply(inner, (leaves[0],)),)) for outer in unary for inner in unary)
    choices = Seeded(f"trees of {dtype.value}")
    for _ in range(deeper):
        yield _tree(choices, dtype, 3)


def _tree(choices: Seeded, dtype: DType, depth: int) -> Expr:
    if depth == 0 or choices.integer(0, 4) == 0:
        return choices.pick(atoms(dtype))
    if dtype.is_bool and choices.integer(0, 1) and depth > 1:
        operand = choices.pick(tuple(each for each in DType if not each.is_storage))
        comparison = choices.pick(tuple(op for op in Op if op.info.compares))
        return Apply(comparison, tuple(_tree(choices, operand, depth - 2) for _ in range(2)))
    if choices.integer(0, 4) == 0:
        source = choices.pick(tuple(DType))
        return Cast(_tree(choices, source, depth - 1), Type(dtype))
    op = choices.pick(tuple(op for op in operations_on(dtype) if not op.info.compares))
    args = [_tree(choices, dtype, depth - 1) for _ in range(op.info.arity)]
    if op is Op.COND:
        args[0] = _tree(choices, DType.BOOL, depth - 1)
    return Apply(op, tuple(args))


def chains(source: DType) -> Iterator[Expr]:
    """Yield all conversions by way of another type."""
    for inner, outer in itertools.product(DType, repeat=2):
        yield Cast(Cast(Var("x", Type(source)), Type(inner)), Type(outer))


def operands(dtype: DType, seed: int = 0) -> Array:
    """Return all values of a type of at most 16 bits in some order; of wider ones, special and drawn values."""
    generator = np.random.default_rng(seed)
    if dtype.is_bool:
        return generator.integers(0, 2, 1 << 16).astype(np.bool_)
    if dtype.bits <= 16:
        every = np.arange(1 << 16).astype(np.uint8 if dtype.bits == 8 else np.uint16)
        return generator.permutation(every).view(dtype.numpy)
    special = special_values(dtype)
    near = (
        [] if dtype.is_float else [sign * (1 << n) + step for n in range(64) for sign in (-1, 1) for step in (-1, 0, 1)]
    )
    edges = np.array([value for value in near if dtype.minimum <= value <= dtype.maximum], dtype.numpy)
    bits = generator.integers(0, 1 << 63, _DRAWN, np.uint64) << np.uint64(1) | np.uint64(generator.integers(0, 2))
    drawn = bits.view(dtype.numpy)[:_DRAWN]
    return generator.permutation(np.resize(np.concatenate([special, edges, drawn]), 1 << 14))


def values_of(expr: Expr, variables: Mapping[str, Array]) -> Array:
    """Return what an expression without lanes is for each value of its variables."""
    match expr:
        case Const(value=value, type=kind):
            return arithmetic.constant(value, kind.dtype)
        case Var(name=name):
            return variables[name]
        case Cast(operand=operand, type=kind):
            return arithmetic.cast(values_of(operand, variables), kind.dtype)
        case Apply(op=op, args=args):
            return arithmetic.apply(op, *(values_of(arg, variables) for arg in args))
        case _:
            raise TypeError(expr)


def variables_for(expr: Expr) -> dict[str, Array]:
    """Return values of the variables of an expression: those of one meet many of another, the special ones all."""
    found = {node.name: node.type.dtype for node in walk(expr) if isinstance(node, Var)}
    many = {name: operands(dtype, seed) for seed, (name, dtype) in enumerate(sorted(found.items()))}
    grids = np.meshgrid(*(special_values(dtype) for _, dtype in sorted(found.items())), indexing="ij")
    size = max((array.size for array in many.values()), default=0)
    wide = {name: np.resize(array, size) for name, array in many.items()}
    return {
        name: np.concatenate([wide[name], grid.reshape(-1)]) for name, grid in zip(sorted(found), grids, strict=True)
    }


def difference(old: Expr, new: Expr) -> str | None:
    """Return values of variables for which two expressions differ; None where they agree on all that are tried.

    NaN equals NaN. Zeros of two signs differ, unless a maximum or minimum may have taken either.
    """
    variables = variables_for(Apply(Op.CMP_EQ, (old, new)))
    with np.errstate(all="ignore"):
        left, right = np.broadcast_arrays(values_of(old, variables), values_of(new, variables))
        unequal = ~((left == right) | ((left != left) & (right != right)))
        if old.type.dtype.is_float and not any(
            isinstance(node, Apply) and node.op in (Op.MAX, Op.MIN) for node in walk(old)
        ):
            signs = np.signbit(left.astype(np.float64)) != np.signbit(right.astype(np.float64))
            unequal |= signs & (left == left)
    wrong = np.flatnonzero(unequal)
    if not wrong.size:
        return None
    at = {name: array[wrong[0]] if array.shape else array for name, array in variables.items()}
    return f"{at}: {left.reshape(-1)[wrong[0]]!r} and {right.reshape(-1)[wrong[0]]!r}"
