"""Random numbers as ordinary integer operations: the counter-based generator Philox4x32-10.

A state is u32[4]: two words of key, then the low and the high word of a counter. Element number e of a tensor, in
row-major order, is the first word of the block whose counter is the state's plus e; its f32 value is
``(word >> 8) · 2**-24``, in [0, 1). The next state has the counter moved on by the number of elements, so two steps
never share a block. Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import math
from typing import Final

from tileir.core import Aggregation, Combination, DType, Op, Span, attrs, fail
from tileir.poly.affine import Affine
from tileir.typed.inference.elementwise import tensor
from tileir.typed.inference.emission import Emission
from tileir.typed.inference.values import Operand, Stream, Tensor
from tileir.typed.ir import Access, Contraction, Coordinate, Shape

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
    """Emits operations on 32-bit words, all at one place of the program."""

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
    for axis, size in enumerate(sizes):
        dtype = DType.I32 if size <= DType.I32.maximum else DType.I64
        place = words.emission.add(Coordinate(words.emission.fresh(), axis, dtype, sizes, span=words.span))
        stride = words.constant(math.prod(sizes[axis + 1 :]) % (1 << 64), DType.U64)
        total = words.op(Op.ADD, total, words.op(Op.MUL, words.cast(place, DType.U64), stride))
    return total


def _philox(words: _Words, counter: Tensor, key: tuple[Tensor, Tensor]) -> Tensor:
    """Emit the first word of the block that ``counter`` and ``key`` give."""
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
