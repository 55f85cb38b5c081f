"""Meaning of each builtin function of Tile in typed operations: one row of a table for each name.

:mod:`tileir.tile.functions` lists the names and their numbers of arguments. There are no rows for functions that are
elementwise operations, which inference applies directly.

Random numbers are made by ordinary integer operations: the counter-based generator Philox4x32-10.

A state is u32[4]: two words of key, then the low and the high word of a counter. Element number e of a tensor, in
row-major order, is the first word of the block whose counter is the state's plus e; its f32 value is ``(word >> 8) ·
2**-24``, in [0, 1). The next state has a counter advanced by the number of elements, so two steps never share a block.
Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, TypeAlias

from tileir.core import Aggregation, Combination, DType, Op, Span, accumulator, arithmetic_type, attrs, fail
from tileir.poly.affine import Affine
from tileir.typed.dims import known_integer, size
from tileir.typed.inference.declared import adapts
from tileir.typed.inference.elementwise import apply, convert, scalar, tensor, truth
from tileir.typed.inference.emission import Emission, adapt
from tileir.typed.inference.numbers import natural_dtype
from tileir.typed.inference.overrides import OVERRIDES
from tileir.typed.inference.shapes import SHAPES
from tileir.typed.inference.values import ConstantScalar, Group, Number, Operand, Result, Scalar, Stream, Tensor
from tileir.typed.ir import Access, Contraction, Coordinate, Elementwise, Shape, TensorType

ROUNDS: Final = 10
MULTIPLIERS: Final = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS: Final = (0x9E3779B9, 0xBB67AE85)
_WORDS: Final = 4
_DROPPED_BITS: Final = 8  # the remaining 24 are exact in f32


def step(emission: Emission, operand: Operand, sizes: Shape) -> Stream:
    """Return the stream of random numbers of shape ``sizes`` that follow a state.

    Raises:
        TileError: TIL302 or TIL310, the state is not u32[4].

    """
    state = tensor(emission, operand)
    if state.dtype is not DType.U32:
        raise fail("TIL302", f"{operand.label} is {state.dtype.value}; the state of prng_step is u32", operand.span)
    if state.shape != (_WORDS,):
        raise fail(
            "TIL310",
            f"{operand.label} has shape {list(state.shape)}; the state of prng_step is u32[{_WORDS}]",
            operand.span,
        )
    return Stream(state, sizes)


def stream_value(emission: Emission, stream: Stream, span: Span | None) -> Tensor:
    """Emit the f32 numbers of a stream, uniform in [0, 1)."""
    words = _Words(emission, span)
    position = words.op(Op.ADD, words.counter(stream.state), _element_number(words, stream.sizes))
    key = (words.of_state(stream.state, 0), words.of_state(stream.state, 1))
    word = _philox(words, position, key)
    bits = words.op(Op.BIT_RIGHT, word, words.constant(_DROPPED_BITS, DType.U32))
    scale = words.constant(2.0 ** (_DROPPED_BITS - 32), DType.F32)
    return words.op(Op.MUL, words.cast(bits, DType.F32), scale)


def stream_state(emission: Emission, stream: Stream, span: Span | None) -> Tensor:
    """Emit the state that follows a stream."""
    words = _Words(emission, span)
    count = words.constant(math.prod(stream.sizes) % (1 << 64), DType.U64)
    low, high = words.halves(words.op(Op.ADD, words.counter(stream.state), count))
    place = emission.add(Coordinate(emission.fresh(), 0, DType.I32, (_WORDS,), span=span))
    result = stream.state
    for position, word in ((3, high), (2, low)):
        here = words.op(Op.CMP_EQ, place, words.constant(position, DType.I32))
        result = words.op(Op.COND, here, word, result)
    return result


@attrs.frozen(repr=False)
class _Words:
    """Emitter of operations on 32-bit words, all for one span of the program."""

    emission: Emission
    span: Span | None

    def op(self, op: Op, *inputs: Tensor) -> Tensor:
        return self.emission.elementwise(op, *inputs, span=self.span)

    def cast(self, value: Tensor, dtype: DType) -> Tensor:
        return self.emission.cast(value, dtype, self.span)

    def constant(self, value: int | float, dtype: DType) -> Tensor:
        return self.emission.constant(value, dtype, self.span)

    def of_state(self, state: Tensor, position: int) -> Tensor:
        """Emit one word of the state, a scalar."""
        access = Access(state.name, (Affine.constant(position),))
        return self.emission.add(
            Contraction(
                self.emission.fresh(),
                (),
                (access,),
                Aggregation.ASSIGN,
                Combination.NONE,
                DType.U32,
                DType.U32,
                DType.U32,
                (),
                span=self.span,
            )
        )

    def counter(self, state: Tensor) -> Tensor:
        """Emit the counter of a state as u64."""
        low, high = (self.cast(self.of_state(state, position), DType.U64) for position in (2, 3))
        return self.op(Op.BIT_OR, low, self.op(Op.BIT_LEFT, high, self.constant(32, DType.U64)))

    def halves(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """Split u64 into its low and its high word."""
        high = self.op(Op.BIT_RIGHT, value, self.constant(32, DType.U64))
        return self.cast(value, DType.U32), self.cast(high, DType.U32)


def _element_number(words: _Words, sizes: Shape) -> Tensor:
    """Emit the row-major number of each element as u64."""
    total = words.constant(0, DType.U64)
    for axis, extent in enumerate(sizes):
        dtype = DType.I32 if extent <= DType.I32.maximum else DType.I64
        place = words.emission.add(Coordinate(words.emission.fresh(), axis, dtype, sizes, span=words.span))
        stride = words.constant(math.prod(sizes[axis + 1 :]) % (1 << 64), DType.U64)
        total = words.op(Op.ADD, total, words.op(Op.MUL, words.cast(place, DType.U64), stride))
    return total


def _philox(words: _Words, counter: Tensor, key: tuple[Tensor, Tensor]) -> Tensor:
    """Emit the first word of the block of ``counter`` and ``key``."""
    zero = words.constant(0, DType.U32)
    c0, c1 = words.halves(counter)
    c2 = c3 = zero
    k0, k1 = key
    factors = [words.constant(factor, DType.U64) for factor in MULTIPLIERS]
    steps = [words.constant(amount, DType.U32) for amount in KEY_STEPS]
    for number in range(ROUNDS):
        if number > 0:
            k0, k1 = words.op(Op.ADD, k0, steps[0]), words.op(Op.ADD, k1, steps[1])
        low0, high0 = words.halves(words.op(Op.MUL, words.cast(c0, DType.U64), factors[0]))
        low1, high1 = words.halves(words.op(Op.MUL, words.cast(c2, DType.U64), factors[1]))
        c0 = words.op(Op.BIT_XOR, words.op(Op.BIT_XOR, high1, c1), k0)
        c2 = words.op(Op.BIT_XOR, words.op(Op.BIT_XOR, high0, c3), k1)
        c1, c3 = low1, low0
    return c0


Handler: TypeAlias = "Callable[[Emission, Sequence[Operand], Span | None], Result]"
"""Emit a call of one function; the number of arguments is right."""


def handler(name: str) -> Handler:
    """Return the meaning of an existing builtin ``name`` that is not an elementwise operation."""
    if name.startswith("assert_"):
        return _assertion
    if name in HANDLERS:
        return HANDLERS[name]
    from tileir.typed.derivatives.builtins import DERIVATIVES  # a tenth of the package, which few programs need

    return DERIVATIVES[name]


def _call(emission: Emission, op: Op, span: Span | None, *values: Scalar) -> Operand:
    """Apply ``op`` inside an expansion; faults of the user are reported for the whole call."""
    operands = [Operand(value, span) for value in values]
    return Operand(apply(emission, op, operands, span), span)


def _as(dtype: DType, emission: Emission, operands: Sequence[Operand], span: Span | None) -> Result:
    return convert(emission, scalar(operands[0]), dtype, span)


def _bits_as(dtype: DType, emission: Emission, operands: Sequence[Operand], span: Span | None) -> Result:
    """Return a value whose bits are read as ``dtype``; a constant or number without a dtype gets its own first."""
    value = tensor(emission, operands[0])
    if value.dtype is dtype:
        return value
    if value.dtype.is_bool or value.dtype.bits != dtype.bits:
        width = "which is no pattern of bits" if value.dtype.is_bool else f"of {value.dtype.bits} bits"
        advice = f"{dtype.value} has {dtype.bits}; cast it to a dtype of {dtype.bits} bits first"
        raise fail("TIL302", f"{operands[0].label} is {value.dtype.value}, {width}, and {advice}", span)
    read = Elementwise(emission.fresh(), Op.BITS, (value.name,), dtype, value.shape, span=span)
    return emission.add(read)


def _expect(dtype: DType, emission: Emission, operands: Sequence[Operand], span: Span | None) -> Result:
    """Return a value whose dtype is ``dtype``; a constant or number without one gets it."""
    value = scalar(operands[0])
    if isinstance(value, ConstantScalar | Number) and value.dtype is None:
        natural = natural_dtype(value) if isinstance(value, ConstantScalar) else value.natural
        if adapts(TensorType(natural, (), weak=True), dtype):
            return (
                adapt(value, dtype, span) if isinstance(value, ConstantScalar) else emission.literal(value, dtype, span)
            )
    if value.dtype is not dtype:
        found = "a number" if value.dtype is None else value.dtype.value
        raise fail("TIL317", f"{operands[0].label} is {found}, where {dtype.value} is declared; convert it", span)
    return value


def _as_bool(emission: Emission, operands: Sequence[Operand], span: Span | None) -> Result:
    if len(operands) > 1 and (width := known_integer(operands[1], "the width")) != 1:
        raise fail("TIL313", f"a bool is 1 bit wide, not {width}", operands[1].span)
    return convert(emission, scalar(operands[0]), DType.BOOL, span)


def _as_width(kind: str, emission: Emission, operands: Sequence[Operand], span: Span | None) -> Result:
    width = known_integer(operands[1], "the width")
    dtype = next((d for d in DType if d.value == f"{kind}{width}"), None)
    if dtype is None:
        widths = ", ".join(d.value[1:] for d in DType if d.value[0] == kind and d.value[1:].isdigit())
        raise fail("TIL313", f"no dtype is {width} bits wide here; choose one of {widths}", operands[1].span)
    return convert(emission, scalar(operands[0]), dtype, span)


def _as_like(emission: Emission, operands: Sequence[Operand], span: Span | None) -> Result:
    value, like = operands
    dtype = scalar(like).dtype
    return scalar(value) if dtype is None else convert(emission, scalar(value), dtype, span)


def _widen(emission: Emission, operands: Sequence[Operand], span: Span | None) -> Result:
    value = scalar(operands[0])
    return value if value.dtype is None else convert(emission, value, accumulator(value.dtype), span)


def _recip(emission: Emission, operands: Sequence[Operand], span: Span | None) -> Result:
    return apply(emission, Op.DIV, [Operand(ConstantScalar(1), span), operands[0]], span)


def _computed(emission: Emission, operand: Operand, span: Span | None) -> Operand:
    """Return an operand in its arithmetic type."""
    value = scalar(operand)
    if value.dtype is None or not value.dtype.is_storage:
        return operand
    return Operand(convert(emission, value, arithmetic_type(value.dtype), span), operand.span, operand.name)


def _relu(emission: Emission, operands: Sequence[Operand], span: Span | None) -> Result:
    """Expand to ``x < 0 ? 0 : x``, which keeps NaN and is one instruction, unlike maximum."""
    x = _computed(emission, operands[0], span)
    negative = _call(emission, Op.CMP_LT, span, scalar(x), ConstantScalar(0))
    return apply(emission, Op.COND, [negative, Operand(ConstantScalar(0), span), x], span)


def _sign(emission: Emission, operands: Sequence[Operand], span: Span | None) -> Result:
    """Expand to ``x > 0 ? 1 : x < 0 ? -1 : x``, which keeps zeros and NaN; unsigned values need no second test."""
    rest = _computed(emission, operands[0], span)
    x = scalar(rest)
    positive = _call(emission, Op.CMP_GT, span, x, ConstantScalar(0))
    if x.dtype is None or x.dtype.is_signed or x.dtype.is_bool:
        negative = _call(emission, Op.CMP_LT, span, x, ConstantScalar(0))
        rest = _call(emission, Op.COND, span, scalar(negative), ConstantScalar(-1), x)
    return apply(emission, Op.COND, [positive, Operand(ConstantScalar(1), span), rest], span)


def _logical(op: Op, emission: Emission, operands: Sequence[Operand], span: Span | None) -> Result:
    left, right = (Operand(_truth(emission, operand), operand.span, operand.name) for operand in operands)
    return apply(emission, op, [left, right], span)


def _logical_not(emission: Emission, operands: Sequence[Operand], span: Span | None) -> Result:
    operand = operands[0]
    return apply(emission, Op.BIT_NOT, [Operand(_truth(emission, operand), operand.span, operand.name)], span)


def _truth(emission: Emission, operand: Operand) -> Scalar:
    value = scalar(operand)
    if isinstance(value, Tensor):
        return truth(emission, operand)
    return convert(emission, value, DType.BOOL, operand.span)


def _match(_: Emission, operands: Sequence[Operand], span: Span | None) -> Result:
    left, right = (known_integer(operand, operand.label) for operand in operands)
    if left != right:
        own, other = operands[0].label, operands[1].label
        if operands[1].name is None and operands[1].span == span:  # written by an operation: its text is no size
            raise fail("TIL312", f"{own} is {left}, but {other} needs {right}", span)
        raise fail("TIL312", f"{own} is {left} and {other} is {right}, but both must match", span)
    return ConstantScalar(left)


def _broadcast(_: Emission, operands: Sequence[Operand], span: Span | None) -> Result:
    left, right = (size(operand, operand.label) for operand in operands)
    if left != right and 1 not in (left, right):
        raise fail(
            "TIL301",
            f"{operands[0].label} is {left} and {operands[1].label} is {right}; they must be equal, or one of them 1",
            span,
        )
    return ConstantScalar(right if left == 1 else left)


def _assertion(_: Emission, operands: Sequence[Operand], span: Span | None) -> Result:
    value = scalar(operands[0])
    if not isinstance(value, ConstantScalar):
        raise fail("TIL306", "an assertion must be known when compiling", operands[0].span)
    if value.value == 0:
        raise fail("TIL312", "this assertion does not hold for these shapes", span)
    return value


def _tuple(_: Emission, operands: Sequence[Operand], __: Span | None) -> Result:
    return Group(tuple(operand.value for operand in operands))


def _element(_: Emission, operands: Sequence[Operand], __: Span | None) -> Result:
    group = operands[0].value
    if not isinstance(group, Group):
        raise fail("TIL309", f"{operands[0].label} is not a tuple, so it has no elements", operands[0].span)
    position = known_integer(operands[1], "the position")
    if not 0 <= position < len(group.items):
        raise fail(
            "TIL314", f"the position is {position}, but the tuple has {len(group.items)} parts", operands[1].span
        )
    return group.items[position]


def _stream(operand: Operand) -> Stream:
    if not isinstance(operand.value, Stream):
        raise fail("TIL309", f"{operand.label} is not the result of prng_step", operand.span)
    return operand.value


def _prng_step(emission: Emission, operands: Sequence[Operand], _: Span | None) -> Result:
    return step(emission, operands[0], tuple(size(operand, "a size") for operand in operands[1:]))


def _prng_state(emission: Emission, operands: Sequence[Operand], span: Span | None) -> Result:
    return stream_state(emission, _stream(operands[0]), span)


def _prng_value(emission: Emission, operands: Sequence[Operand], span: Span | None) -> Result:
    return stream_value(emission, _stream(operands[0]), span)


HANDLERS: Final[Mapping[str, Handler]] = MappingProxyType(
    {
        **{f"as_{dtype.value}": partial(_as, dtype) for dtype in DType if not dtype.is_bool},
        **{f"expect_{dtype.value}": partial(_expect, dtype) for dtype in DType},
        **{f"bits_as_{dtype.value}": partial(_bits_as, dtype) for dtype in DType if not dtype.is_bool},
        "as_bool": _as_bool,
        "as_float": partial(_as_width, "f"),
        "as_int": partial(_as_width, "i"),
        "as_uint": partial(_as_width, "u"),
        "as_like": _as_like,
        "quantize": partial(_as, DType.I8),
        "widen": _widen,
        "recip": _recip,
        "relu": _relu,
        "sign": _sign,
        "logical_and": partial(_logical, Op.BIT_AND),
        "logical_or": partial(_logical, Op.BIT_OR),
        "logical_not": _logical_not,
        "match": _match,
        "broadcast": _broadcast,
        "tuple": _tuple,
        "element": _element,
        "prng_step": _prng_step,
        "prng_state": _prng_state,
        "prng_value": _prng_value,
        **SHAPES,
        **OVERRIDES,
    }
)
