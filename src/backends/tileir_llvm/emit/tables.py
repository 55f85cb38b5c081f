"""Error function of f32, by polynomials with coefficients from register tables.

With AVX-512 a processor selects sixteen lanes of a register of sixteen floats by one instruction. So each lane has its
own polynomial of degree 5 around the nearest multiple of :data:`WIDTH`: eighteen instructions, while one polynomial for
all small numbers and an exponential for the others (``tileir.semtree.functions.exponential``) take forty.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from numpy.polynomial import Polynomial

from tileir.core import DType, Op
from tileir.semtree.ir import Type
from tileir_llvm.emit.spelling import constant, scalar_constant
from tileir_llvm.emit.text import FunctionText, Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.semtree.functions.draft import Draft, Term

COUNT: Final = 16
"""Lanes of a table."""

DEGREE: Final = 5

WIDTH: Final = 0.25991007685661316
"""Distance of the centres of polynomials: the one of 250 tried with the best rounding of their values."""

MOST: Final = 4.0
"""Limit beyond which the last polynomial's value, 1, applies; less than 15.5 times :data:`WIDTH`."""

_MAGIC: Final = 1.5 * 2.0**23
"""Addend that rounds to an integer, and leaves that in the low bits."""

_FLOATS: Final = "<16 x float>"
_WORDS: Final = "<16 x i32>"
_PICKED: Final = "llvm.x86.avx512.permvar.sf.512"


def _left(_: Draft, x: Term) -> Term:
    """Return the error function itself, which :func:`error_function` emits."""
    return x.apply(Op.ERF)


_NONE: Final[Mapping[Op, Callable[..., Term]]] = MappingProxyType({})
_OWN: Final[Mapping[Op, Callable[..., Term]]] = MappingProxyType({Op.ERF: _left})


def looked_up(features: Collection[str]) -> Mapping[Op, Callable[..., Term]]:
    """Return the f32 operations emitted here for a processor, as expansions that keep them."""
    return _OWN if "avx512f" in features else _NONE


@lru_cache(maxsize=1)
def coefficients() -> tuple[tuple[float, ...], ...]:
    """Return the tables, constant first: each has the coefficient of one power in all polynomials.

    They interpolate between the zeros of Chebyshev's polynomials, for near-minimal errors. The first polynomial is odd,
    and lacks ``x`` itself, which is added exactly. The last one ends at 1, the rounded value beyond.
    """
    squares = [(WIDTH / 2) ** 2 * (1 + node) / 2 for node in _zeros(DEGREE // 2 + 1)]
    ratios = [math.erf(math.sqrt(square)) / math.sqrt(square) - 1 for square in squares]
    first = [each for even in _through(squares, ratios) for each in (0.0, even)]
    nodes = [WIDTH / 2 * node for node in _zeros(DEGREE + 1)]
    others = (_through(nodes, [math.erf(number * WIDTH + node) for node in nodes]) for number in range(1, COUNT))
    starts, *tables = zip(first, *others, strict=True)
    return ((*starts[:-1], 1.0), *tables)


def _zeros(count: int) -> list[float]:
    return [math.cos((2 * number + 1) * math.pi / (2 * count)) for number in range(count)]


def _through(places: Sequence[float], values: Sequence[float]) -> list[float]:
    """Return the interpolation polynomial of some points, constant first."""
    fitted = Polynomial.fit(places, values, len(places) - 1).convert()
    return [float(each) for each in fitted.coef]


def error_function(out: FunctionText, x: Value) -> Value:
    """Return the error function of f32, lane by lane; its error is at most 1.375 units in the last place."""
    lanes = x.type.lanes
    parts = _values(out, [_sixteen(out, x, start) for start in range(0, lanes, COUNT)])
    if lanes == 1:
        return Value(out.pure(f"extractelement {_FLOATS} {parts[0]}, i64 0"), x.type)
    width = COUNT
    while len(parts) > 1:
        kind = f"<{width} x float>"
        parts = [
            out.pure(f"shufflevector {kind} {one}, {kind} {other}, {_order(range(2 * width))}")
            for one, other in zip(parts[::2], [*parts[1::2], "poison"] if len(parts) % 2 else parts[1::2], strict=True)
        ]
        width *= 2
    if width == lanes:
        return Value(parts[0], x.type)
    kind = f"<{width} x float>"
    return Value(out.pure(f"shufflevector {kind} {parts[0]}, {kind} poison, {_order(range(lanes))}"), x.type)


def _order(lanes: Collection[int]) -> str:
    return f"<{len(lanes)} x i32> <{', '.join(f'i32 {lane}' for lane in lanes)}>"


def _sixteen(out: FunctionText, x: Value, start: int) -> str:
    """Return sixteen lanes of ``x`` from one on, padded with the last."""
    lanes = x.type.lanes
    if lanes == COUNT:
        return x.text
    if lanes == 1:
        return out.pure(f"insertelement {_FLOATS} poison, float {x.text}, i64 0")
    kind = f"<{lanes} x float>"
    chosen = [min(lane, lanes - 1) for lane in range(start, start + COUNT)]
    return out.pure(f"shufflevector {kind} {x.text}, {kind} poison, {_order(chosen)}")


def _values(out: FunctionText, parts: Sequence[str]) -> list[str]:
    """Return the function of all parts, interleaved, as their steps are independent."""

    def number(value: float) -> list[str]:
        return [constant(value, Type(DType.F32, COUNT))] * len(parts)

    def each(start: str, *operands: Sequence[str], close: str = ")") -> list[str]:
        spelt = (", ".join(f"{_FLOATS} {operand}" for operand in one) for one in zip(*operands, strict=True))
        return [out.pure(f"{start}{one}{close}") for one in spelt]

    fma = partial(each, f"call {_FLOATS} @llvm.fma.v16f32(")

    def picked(table: tuple[float, ...]) -> list[str]:
        lanes = ", ".join(f"float {scalar_constant(value, DType.F32)}" for value in table)
        return [out.pure(f"call {_FLOATS} @{_PICKED}({_FLOATS} <{lanes}>, {_WORDS} {one})") for one in index]

    def chosen(tests: Sequence[str], then: Sequence[str], otherwise: Sequence[str]) -> list[str]:
        every = zip(tests, then, otherwise, strict=True)
        return [out.pure(f"select <16 x i1> {test}, {_FLOATS} {one}, {_FLOATS} {two}") for test, one, two in every]

    for name, count in (("llvm.fma.v16f32", 3), ("llvm.fabs.v16f32", 1), ("llvm.copysign.v16f32", 2)):
        out.module.declarations[f"declare {_FLOATS} @{name}({', '.join([_FLOATS] * count)})"] = None
    out.module.declarations[f"declare {_FLOATS} @{_PICKED}({_FLOATS}, {_WORDS})"] = None
    size = each(f"call {_FLOATS} @llvm.fabs.v16f32(", parts)
    beyond = [out.pure(f"fcmp ogt {_FLOATS} {one}, {number(MOST)[0]}") for one in size]
    size = chosen(beyond, number(MOST), size)
    moved = fma(size, number(1 / WIDTH), number(_MAGIC))
    nearest = [out.pure(f"fsub {_FLOATS} {one}, {number(_MAGIC)[0]}") for one in moved]
    index = [out.pure(f"bitcast {_FLOATS} {one} to {_WORDS}") for one in moved]  # only the low four bits count
    near = fma(nearest, number(-WIDTH), size)
    start, *rest, highest = coefficients()
    total = picked(highest)
    for table in reversed(rest):
        total = fma(total, near, picked(table))
    first = [out.pure(f"fcmp oeq {_FLOATS} {one}, zeroinitializer") for one in nearest]
    total = fma(total, near, chosen(first, size, picked(start)))
    return each(f"call {_FLOATS} @llvm.copysign.v16f32(", total, parts)
