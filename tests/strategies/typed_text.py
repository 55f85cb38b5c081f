"""Typed functions of any nodes whatever, for texts: names, numbers and fields that no program may have together."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

import numpy as np
from hypothesis import strategies as st

from tileir.core.array_value import ArrayValue
from tileir.core.combines import Combine
from tileir.core.dtype import DType
from tileir.core.ops import Aggregation, Combination, Op
from tileir.poly.affine import Affine
from tileir.typed import ir
from tileir.typed.ir import NumberArithmetic, NumberCast, NumberLiteral, NumberStep

WORDS: Final = (
    "function", "number", "pid", "cast", "scan", "default", "finite", "no_defract", "combine", "descending", "from",
    "in", "reverse", "times", "gets", "true", "nan", "inf", "f32", "bits", "array", "A'", "A'_0", "x.1", "_",
)  # fmt: skip
"""Names that the language has other uses for."""

NAMES: Final = st.one_of(
    st.sampled_from(["A", "B", "C_0", "i", "j"]), st.sampled_from(WORDS), st.text(max_size=6), st.text('`\\"\n\t/ ')
)
DTYPES: Final = st.sampled_from(list(DType))
INTEGERS: Final = st.one_of(st.integers(-3, 5), st.integers(-(2**80), 2**80))
NUMBERS: Final = st.one_of(st.booleans(), INTEGERS, st.floats())
SIZES: Final = st.one_of(st.integers(0, 4), st.integers(0, 2**63 - 1))
SHAPES: Final = st.lists(SIZES, max_size=3).map(tuple)
SEVERAL: Final = st.lists(NAMES, max_size=3).map(tuple)
RATIONALS: Final = st.one_of(INTEGERS, st.builds(Fraction, INTEGERS, st.integers(1, 2**70)))
AFFINES: Final = st.builds(Affine.of, st.dictionaries(NAMES, RATIONALS, max_size=3), RATIONALS)
AXES: Final = st.lists(AFFINES, max_size=3).map(tuple)
KIND: Final = (DTYPES, SHAPES)


@st.composite
def _arrays(draw: st.DrawFn) -> ArrayValue:
    """Draw an array of any bits: each NaN is another one."""
    dtype = draw(DTYPES)
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
    count = int(np.prod(shape))
    if dtype.is_bool:
        return ArrayValue(dtype, shape, bytes(draw(st.lists(st.integers(0, 1), min_size=count, max_size=count))))
    size = count * dtype.itemsize
    return ArrayValue(dtype, shape, draw(st.binary(min_size=size, max_size=size)))


@st.composite
def _contractions(draw: st.DrawFn) -> ir.Contraction:
    combination = draw(st.sampled_from(list(Combination)))
    count = combination.arity
    inputs = draw(st.lists(st.builds(ir.Access, NAMES, AXES), min_size=count, max_size=count))
    constraints = draw(st.lists(st.builds(ir.Constraint, AFFINES, INTEGERS), max_size=2))
    return ir.Contraction(
        draw(NAMES), draw(AXES), tuple(inputs), draw(st.sampled_from(list(Aggregation))), combination,
        draw(DTYPES), draw(DTYPES), draw(DTYPES), draw(SHAPES), tuple(constraints), draw(st.none() | NAMES),
        draw(st.booleans()), draw(st.booleans()),
    )  # fmt: skip


def _scans(bodies: st.SearchStrategy[ir.Function]) -> st.SearchStrategy[ir.Scan]:
    result = st.builds(ir.ScanResult, st.sampled_from(list(ir.ScanPart)), SIZES)
    return st.builds(ir.Scan, NAMES, bodies, SIZES, st.booleans(), SEVERAL, SEVERAL, SEVERAL, result, *KIND)


def _operations(depth: int) -> st.SearchStrategy[Any]:
    pairs = st.lists(st.tuples(NAMES, NAMES), max_size=2).map(tuple)
    axes = st.lists(SIZES, max_size=2).map(tuple)
    kinds: list[st.SearchStrategy[Any]] = [
        st.builds(ir.Constant, NAMES, DTYPES, NUMBERS),
        st.builds(ir.ArrayConstant, NAMES, _arrays()),
        st.builds(ir.Elementwise, NAMES, st.sampled_from(list(Op)), SEVERAL, *KIND),
        st.builds(ir.Cast, NAMES, NAMES, *KIND),
        st.builds(ir.Coordinate, NAMES, SIZES, *KIND),
        st.builds(ir.ShapeOf, NAMES, SHAPES, *KIND),
        st.builds(ir.Reshape, NAMES, NAMES, *KIND),
        st.builds(ir.Argsort, NAMES, NAMES, SIZES, st.booleans(), *KIND),
        st.builds(ir.Gather, NAMES, NAMES, NAMES, *KIND),
        st.builds(ir.Scatter, NAMES, NAMES, NAMES, DTYPES, *KIND),
        _contractions(),
        st.builds(ir.Reduce, NAMES, st.sampled_from(list(Combine)), NAMES, axes, SIZES, *KIND),
        st.builds(ir.Override, NAMES, NAMES, pairs, st.none() | NAMES, *KIND),
        st.builds(ir.Upstream, NAMES, *KIND),
        st.builds(ir.Checkpoint, NAMES, NAMES, *KIND),
        st.builds(ir.Recall, NAMES, NAMES, SIZES, *KIND),
    ]
    return st.one_of(*kinds, _scans(functions(depth - 1))) if depth else st.one_of(kinds)


def _steps() -> st.SearchStrategy[NumberStep]:
    kinds = st.none() | DTYPES
    return st.one_of(
        st.builds(NumberLiteral, NAMES, NUMBERS, kinds),
        st.builds(NumberCast, NAMES, NAMES, DTYPES),
        st.builds(NumberArithmetic, NAMES, st.sampled_from(list(Op)), SEVERAL, kinds),
    )


@st.composite
def functions(draw: st.DrawFn, depth: int = 2) -> ir.Function:
    """Draw a function whose operations have names of their own, and follow no other rule."""
    inputs = draw(st.lists(st.builds(ir.Value, NAMES, *KIND, st.none() | NAMES), max_size=2))
    operations = draw(st.lists(_operations(depth), max_size=3, unique_by=lambda operation: operation.name))
    labels = draw(
        st.lists(st.tuples(st.one_of(NAMES, *(st.just(each.name) for each in operations)), NAMES), max_size=3)
    )
    numbers = draw(st.lists(_steps(), max_size=2))
    return ir.Function(tuple(inputs), draw(SEVERAL), tuple(operations), tuple(labels), tuple(numbers))
