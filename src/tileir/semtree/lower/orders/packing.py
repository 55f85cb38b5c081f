"""Packing of keys of a row, with their places, into integer words of equal order.

- As floats have sign and magnitude, a key is the magnitude as an integer, negative if the sign is set: 0.0 and -0.0
  are one key. All NaN are the greatest key. In descending order keys are inverted.
- Keys of up to 16 bits and places share 32 bits if the row is short enough, those of 32 bits share 64 bits, the key
  in the upper half; keys of 64 bits and places are two words.
"""

from __future__ import annotations

from tileir.core import DType, Op, attrs
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.semtree.lower.orders.words import Body, Words
from tileir.semtree.lower.views import View, cast, widened


@attrs.frozen(repr=False)
class Row:
    """A row of keys, and their words.

    Attributes:
        words: The words.
        keys: The row.
        descending: Whether the greatest comes first.
        unsigned: Whether words are in unsigned order, within the bits of keys and places.
    """

    words: Words
    keys: View
    descending: bool
    unsigned: bool = False

    @property
    def size(self) -> int:
        """Number of keys."""
        return self.keys.shape.elements

    def pack(self, body: Body, base: Affine, size: int, start: int, span: int) -> None:
        """Pack the ``size`` keys from ``base`` on into the ``span`` words from ``start`` on; the rest stays behind."""
        lanes = self.words.lanes
        first = Affine.constant(start)
        if size >= lanes:
            with self.words.loop(body, [Affine()], [Affine.constant(size // lanes * lanes)], lanes) as (inner, t):
                self._set(inner, first + t, self.packed(self.loaded(base + t), base + t))
        done = size // lanes * lanes
        if done < size:
            self._set(body, first + done, self._packed_end(base + done, base + (size - 1)))
            done += lanes
        if done < span:
            self.clear(body, start + done, start + span)

    def _packed_end(self, place: Affine, last: Affine) -> tuple[sem.Expr, ...]:
        """Return the words of a vector that extends beyond the ``last`` element, which is then read again."""
        offsets, lanes = self.words.blocks.offsets, self.words.lanes
        numbers = self._numbers(place)
        end = widened(offsets.scalar(last), lanes)
        stride = widened(offsets.constant(stride_of(self.keys)), lanes)
        steps = sem.Apply(Op.MUL, (sem.Apply(Op.MIN, (numbers, end)), stride))
        offset = sem.Apply(Op.ADD, (widened(offsets.scalar(self.keys.offset), lanes), steps))
        words = self.packed(sem.Subscript(self.keys.array, offset, self._kind), place)
        inside = sem.Apply(Op.CMP_LE, (numbers, end))
        return tuple(sem.Apply(Op.COND, (inside, w, rest)) for w, rest in zip(words, self._behind(), strict=True))

    def clear(self, body: Body, start: int, end: int) -> None:
        """Set words to padding, which follows all elements."""
        bounds = [Affine.constant(start)], [Affine.constant(end)]
        with self.words.loop(body, *bounds, self.words.lanes) as (inner, t):
            self._set(inner, t, self._behind())

    def alone(self) -> Row:
        """Return the row with words of one element instead of vectors."""
        return attrs.evolve(self, words=attrs.evolve(self.words, lanes=1))

    def store(self, body: Body, places: View, count: int, start: Affine | None = None) -> None:
        """Store the places of ``count`` elements from ``start`` on, by default the first."""
        first = start or Affine()
        words = self.words
        stride = stride_of(places)
        for lanes, begin, end in (
            (words.lanes, 0, count // words.lanes * words.lanes),
            (1, count // words.lanes * words.lanes, count),
        ):
            if begin < end:
                with words.loop(body, [Affine.constant(begin)], [Affine.constant(end)], lanes) as (inner, t):
                    value = cast(self.place_in(words.at(first + t, lanes)), places.shape.dtype)
                    if places.variable is not None:
                        inner.append(sem.Assign(places.variable, value))
                        continue
                    base = words.blocks.offsets.scalar(places.offset + t * stride)
                    offset = base if stride == 1 or lanes == 1 else sem.Ramp(base, stride, lanes)
                    inner.append(sem.Assign(sem.Subscript(places.array, offset, value.type), value))

    def place_in(self, words: tuple[sem.Expr, ...]) -> sem.Expr:
        """Return the place in the words of an element."""
        if len(words) > 1:
            return words[-1]
        # Places are not negative, so that 31 bits suffice. A mask of 32 bits is a move between registers to LLVM 22
        # for x86-64, whose register coalescer drops it where the word comes from a conditional move: far outside of
        # the keys is read then.
        mask = (1 << min(self._shift, 31)) - 1
        return sem.Apply(Op.BIT_AND, (words[0], sem.Const(mask, words[0].type)))

    @property
    def _kind(self) -> sem.Type:
        return sem.Type(self.keys.shape.dtype, self.words.lanes)

    @property
    def _shift(self) -> int:
        """Number of bits for the place in a shared word."""
        return self.words.dtypes[0].bits // 2

    def set_behind(self, body: Body, place: Affine) -> None:
        """Set the words of a vector to padding, which follows all elements."""
        self._set(body, place, self._behind())

    def loaded_at(self, place: sem.Expr) -> sem.Subscript:
        """Return the key at a place that may not be affine."""
        offsets = self.words.blocks.offsets
        steps = sem.Apply(Op.MUL, (place, offsets.constant(stride_of(self.keys))))
        offset = sem.Apply(Op.ADD, (offsets.scalar(self.keys.offset), steps))
        return sem.Subscript(self.keys.array, offset, sem.Type(self.keys.shape.dtype))

    def loaded(self, place: Affine) -> sem.Subscript:
        """Return the keys of a vector from ``place`` on."""
        stride, lanes = stride_of(self.keys), self.words.lanes
        base = self.words.blocks.offsets.scalar(self.keys.offset + place * stride)
        offset = base if stride == 1 or lanes == 1 else sem.Ramp(base, stride, lanes)
        return sem.Subscript(self.keys.array, offset, self._kind)

    def _set(self, body: Body, place: Affine, words: tuple[sem.Expr, ...]) -> None:
        body += [sem.Assign(target, word) for target, word in zip(self.words.at(place), words, strict=True)]

    def _numbers(self, place: Affine) -> sem.Expr:
        """Return the places of the elements of a vector, as offsets."""
        base, lanes = self.words.blocks.offsets.scalar(place), self.words.lanes
        return base if lanes == 1 else sem.Ramp(base, 1, lanes)

    def _behind(self) -> tuple[sem.Expr, ...]:
        return tuple(sem.Const(int(kind.dtype.maximum), kind) for kind in self.words.types)

    def packed(self, value: sem.Expr, place: Affine) -> tuple[sem.Expr, ...]:
        """Return the words of keys from ``place`` on."""
        kinds, dtype = self.words.types, self.keys.shape.dtype
        key, numbers = key_of(value), cast(self._numbers(place), kinds[-1].dtype)
        if self.descending:
            key = sem.Apply(Op.BIT_NOT, (key,))
        if self.unsigned and dtype not in (DType.BOOL, DType.U8):  # unsigned within their bits
            key = sem.Apply(Op.BIT_XOR, (key, sem.Const.of(1 << dtype.bits - 1, key.type)))
        key = cast(key, kinds[0].dtype)
        if len(kinds) > 1:
            return key, numbers
        shifted = sem.Apply(Op.BIT_LEFT, (key, sem.Const(self._shift, kinds[0])))
        return (sem.Apply(Op.BIT_OR, (shifted, numbers)),)


def stride_of(view: View) -> int:
    """Return the distance of the elements of a row."""
    return next((dim.stride for dim in view.shape.dims if dim.size > 1), 1)


def key_of(value: sem.Expr) -> sem.Expr:
    """Return signed integers in the order of the elements, with equally many bits, perhaps in a wider type."""
    dtype = value.type.dtype
    wide = DType.I64 if dtype.itemsize > 4 else DType.I32
    if not dtype.is_float:
        if dtype in (DType.U32, DType.U64):
            value = sem.Bitcast(value, value.type.with_dtype(wide))
            return sem.Apply(Op.BIT_XOR, (value, sem.Const(int(wide.minimum), value.type)))
        value = cast(value, wide)
        return sem.Apply(Op.SUB, (value, sem.Const(1 << 15, value.type))) if dtype is DType.U16 else value
    bits = {2: DType.I16, 4: DType.I32, 8: DType.I64}[dtype.itemsize]
    value = cast(sem.Bitcast(value, value.type.with_dtype(bits)), wide)
    greatest, last = (sem.Const(int(number), value.type) for number in (bits.maximum, wide.bits - 1))
    magnitude = sem.Apply(Op.BIT_AND, (value, greatest))
    sign = sem.Apply(Op.BIT_RIGHT, (value, last))  # no bit or all
    number = sem.Apply(Op.SUB, (sem.Apply(Op.BIT_XOR, (magnitude, sign)), sign))
    is_nan = sem.Apply(Op.CMP_GT, (magnitude, sem.Const(dtype.format.greatest_bits, value.type)))
    return sem.Apply(Op.COND, (is_nan, greatest, number))


def value_of(key: sem.Expr, dtype: DType) -> sem.Expr:
    """Return the element of an integer from :func:`key_of`, or an equal one."""
    wide = key.type.dtype
    if not dtype.is_float:
        if dtype in (DType.U32, DType.U64):
            return sem.Bitcast(sem.Apply(Op.BIT_XOR, (key, sem.Const(int(wide.minimum), key.type))), sem.Type(dtype))
        if dtype is DType.U16:
            key = sem.Apply(Op.ADD, (key, sem.Const(1 << 15, key.type)))
        return cast(key, dtype)
    bits = {2: DType.I16, 4: DType.I32, 8: DType.I64}[dtype.itemsize]
    sign = sem.Apply(Op.BIT_RIGHT, (key, sem.Const(wide.bits - 1, key.type)))  # no bit or all
    magnitude = sem.Apply(Op.SUB, (sem.Apply(Op.BIT_XOR, (key, sign)), sign))
    signed = sem.Apply(Op.BIT_AND, (sign, sem.Const(int(bits.minimum), key.type)))
    return sem.Bitcast(cast(sem.Apply(Op.BIT_OR, (magnitude, signed)), bits), sem.Type(dtype))
