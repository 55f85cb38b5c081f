"""The special ``order``: where the elements of a row stand when they are sorted, stable, with NaN behind all numbers.

What is sorted are words of integers: a key that is ordered as the elements are, and behind it the place of the element.
So no two are equal, every correct network gives the stable order, and the places of the result are the low bits. Keys
of up to 16 bits and places share 32 bits where the row is short enough, those of 32 bits share 64 bits; keys of 64 bits
and places are two words.

- As floats have sign and magnitude, a key is the magnitude as an integer, negative where the sign is set: 0.0 and -0.0
  are one key. All NaN are the greatest key. In descending order keys are inverted.
- A row is packed into words, sorted by :class:`tileir.semtree.lower.networks.Network`, and its places are stored.
- Where few places are wanted, the row is read in chunks of about as many: a chunk in which an element precedes the last
  of those kept so far is sorted and merged with them. Nothing else of the row is sorted, or kept in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.semtree.lower.networks import Network
from tileir.semtree.lower.values import cast, widened

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.semtree.lower.block import BlockLowering
    from tileir.semtree.lower.networks import Body
    from tileir.semtree.lower.views import View
    from tileir.stripe import ir as stripe

_PRIVATE_BYTES: Final = 16 * 1024
"""Larger arrays of words are in scratch memory, where there is any."""


def lower_order(blocks: BlockLowering, views: Mapping[str, View], statement: stripe.Special) -> list[sem.Stmt]:
    """Return statements that order one row."""
    keys, places = views[statement.inputs[0]], views[statement.outputs[0]]
    descending = bool(dict(statement.parameters)["descending"])
    blocks.touch(keys, writes=False, lanes=None)
    blocks.touch(places, writes=True, lanes=None)
    size, count = keys.shape.elements, places.shape.elements
    dtype, pair = _words(keys.shape.dtype, size)
    lanes = blocks.target.lanes(dtype) if blocks.target.shuffles else 1
    lanes = min(1 << lanes.bit_length() - 1, 1 << (size - 1).bit_length())
    kept = max(lanes, 1 << (count - 1).bit_length())
    few = 2 * kept <= size
    arrays = tuple(blocks.names.fresh(name) for name in (("keys", "places") if pair else ("words",)))
    near = 1 << (_PRIVATE_BYTES // dtype.itemsize).bit_length() - 1
    row = _Row(Network(blocks, arrays, sem.Type(dtype, lanes), near), keys, descending, size)
    leaf = row.network.leaf(size)
    whole = -(-size // leaf) * leaf
    span = 2 * kept if few else whole
    large = span * dtype.itemsize * len(arrays) > _PRIVATE_BYTES and blocks.target.scratch
    region = sem.Region.SCRATCH if large else sem.Region.PRIVATE
    body: Body = [sem.DeclareArray(name, dtype, span, region) for name in arrays]
    if few:
        row.keep_least(body, kept)
    else:
        row.pack(body, Affine(), size, 0, whole)
        row.network.sort(body, 0, whole)
    row.store(body, places, count)
    return body


def _words(dtype: DType, size: int) -> tuple[DType, bool]:
    """Return the type of words, and whether places have words of their own."""
    if dtype.itemsize <= 2 and size < 1 << 16:
        return DType.I32, False
    return DType.I64, dtype.itemsize > 4 or size >= 1 << 31


@attrs.frozen(repr=False)
class _Row:
    """A row of keys, and the network that sorts its words."""

    network: Network
    keys: View
    descending: bool
    size: int

    def pack(self, body: Body, base: Affine, size: int, start: int, span: int) -> None:
        """Pack the ``size`` keys from ``base`` on into the ``span`` words from ``start`` on; the rest stays behind."""
        lanes = self.network.lanes
        first = Affine.constant(start)
        if size >= lanes:
            with self.network.loop(body, [Affine()], [Affine.constant(size // lanes * lanes)], lanes) as (inner, t):
                self._set(inner, first + t, self._packed(self._loaded(base + t), base + t))
        done = size // lanes * lanes
        if done < size:
            self._set(body, first + done, self._packed_end(base + done, base + (size - 1)))
            done += lanes
        if done < span:
            self.clear(body, start + done, start + span)

    def _packed_end(self, place: Affine, last: Affine) -> tuple[sem.Expr, ...]:
        """Return the words of a vector that reaches beyond the ``last`` element: there the last one is read again."""
        offsets, lanes = self.network.blocks.offsets, self.network.lanes
        numbers = self._numbers(place)
        end = widened(offsets.scalar(last), lanes)
        stride = widened(offsets.constant(_stride(self.keys)), lanes)
        steps = sem.Apply(Op.MUL, (sem.Apply(Op.MIN, (numbers, end)), stride))
        offset = sem.Apply(Op.ADD, (widened(offsets.scalar(self.keys.offset), lanes), steps))
        words = self._packed(sem.Subscript(self.keys.array, offset, self._kind), place)
        inside = sem.Apply(Op.CMP_LE, (numbers, end))
        return tuple(sem.Apply(Op.COND, (inside, w, rest)) for w, rest in zip(words, self._behind(), strict=True))

    def clear(self, body: Body, start: int, end: int) -> None:
        """Set words to what is behind all elements."""
        bounds = [Affine.constant(start)], [Affine.constant(end)]
        with self.network.loop(body, *bounds, self.network.lanes) as (inner, t):
            self._set(inner, t, self._behind())

    def keep_least(self, body: Body, kept: int) -> None:
        """Leave the first ``kept`` elements in order, a power of two, in the first words."""
        self.clear(body, 0, kept)
        whole, chunk = self.size // kept * kept, Affine.constant(kept)
        with self.network.loop(body, [Affine()], [Affine.constant(whole)], kept) as (inner, base):
            self.pack(inner, base, kept, kept, kept)
            least = self._least(inner, kept)
            then: Body = []
            self._merge(then, kept)
            bound, op = self.network.at(chunk - 1, 1)[0], Op.CMP_LT if len(self.network.arrays) == 1 else Op.CMP_LE
            inner.append(sem.If(sem.Apply(op, (least, bound)), tuple(then)))
        if whole < self.size:
            self.pack(body, Affine.constant(whole), self.size - whole, kept, kept)
            self._merge(body, kept)

    def _merge(self, body: Body, kept: int) -> None:
        self.network.sort(body, kept, kept)
        self.network.keep_least(body, kept)

    def _least(self, body: Body, kept: int) -> sem.Expr:
        """Return the least first word of a chunk."""
        network = self.network
        variable = sem.Var(network.blocks.names.fresh("least"), network.word)
        body.append(sem.Declare(variable, network.at(Affine.constant(kept))[0]))
        if kept > network.lanes:
            bounds = [Affine.constant(kept + network.lanes)], [Affine.constant(2 * kept)]
            with network.loop(body, *bounds, network.lanes) as (inner, t):
                inner.append(sem.Assign(variable, sem.Apply(Op.MIN, (variable, network.at(t)[0]))))
        return variable if network.lanes == 1 else sem.Reduce(Op.MIN, variable)

    def store(self, body: Body, places: View, count: int) -> None:
        """Store the places of the first ``count`` elements."""
        network = self.network
        stride = _stride(places)
        for lanes, begin, end in (
            (network.lanes, 0, count // network.lanes * network.lanes),
            (1, count // network.lanes * network.lanes, count),
        ):
            if begin < end:
                with network.loop(body, [Affine.constant(begin)], [Affine.constant(end)], lanes) as (inner, t):
                    word: sem.Expr = network.at(t, lanes)[-1]
                    if len(network.arrays) == 1:
                        mask = (1 << self._shift) - 1
                        word = sem.Apply(Op.BIT_AND, (word, sem.Const(mask, word.type)))
                    value = cast(word, places.shape.dtype)
                    if places.variable is not None:
                        inner.append(sem.Assign(places.variable, value))
                        continue
                    base = network.blocks.offsets.scalar(places.offset + t * stride)
                    offset = base if stride == 1 or lanes == 1 else sem.Ramp(base, stride, lanes)
                    inner.append(sem.Assign(sem.Subscript(places.array, offset, value.type), value))

    @property
    def _kind(self) -> sem.Type:
        return sem.Type(self.keys.shape.dtype, self.network.lanes)

    @property
    def _shift(self) -> int:
        """How many bits of a word that has both hold the place."""
        return self.network.word.dtype.bits // 2

    def _loaded(self, place: Affine) -> sem.Expr:
        stride, lanes = _stride(self.keys), self.network.lanes
        base = self.network.blocks.offsets.scalar(self.keys.offset + place * stride)
        offset = base if stride == 1 or lanes == 1 else sem.Ramp(base, stride, lanes)
        return sem.Subscript(self.keys.array, offset, self._kind)

    def _set(self, body: Body, place: Affine, words: tuple[sem.Expr, ...]) -> None:
        body += [sem.Assign(target, word) for target, word in zip(self.network.at(place), words, strict=True)]

    def _numbers(self, place: Affine) -> sem.Expr:
        """Return the places of the elements of a vector, as offsets."""
        base, lanes = self.network.blocks.offsets.scalar(place), self.network.lanes
        return base if lanes == 1 else sem.Ramp(base, 1, lanes)

    def _behind(self) -> tuple[sem.Expr, ...]:
        word = self.network.word
        return tuple(sem.Const(int(word.dtype.maximum), word) for _ in self.network.arrays)

    def _packed(self, value: sem.Expr, place: Affine) -> tuple[sem.Expr, ...]:
        """Return the words of keys that stand from ``place`` on."""
        word = self.network.word
        key, numbers = _key(value), cast(self._numbers(place), word.dtype)
        if self.descending:
            key = sem.Apply(Op.BIT_NOT, (key,))
        key = cast(key, word.dtype)
        if len(self.network.arrays) > 1:
            return key, numbers
        shifted = sem.Apply(Op.BIT_LEFT, (key, sem.Const(self._shift, word)))
        return (sem.Apply(Op.BIT_OR, (shifted, numbers)),)


def _stride(view: View) -> int:
    """Return how far the elements of a row are apart."""
    return next((dim.stride for dim in view.shape.dims if dim.size > 1), 1)


def _key(value: sem.Expr) -> sem.Expr:
    """Return signed integers that are ordered as elements are, in as many bits, though maybe in a wider type."""
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
