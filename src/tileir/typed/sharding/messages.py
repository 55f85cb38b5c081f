"""Collectives in the memory of devices: functions that pack a rank's messages, and unpack those that it receives.

Any back end can compile both. Each message is an array of its own, so that nothing has to be arranged on the host.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from tileir.core import Aggregation, Combination, DType, NameScope, Op, attrs
from tileir.poly.affine import Affine
from tileir.typed.boxes import Box, elements, shared, sizes_of
from tileir.typed.ir import Access, Cast, Collective, Contraction, Elementwise, Function, Operation, Value
from tileir.typed.sharding.exchanges import Piece, dtype_merged, pieces
from tileir.typed.sharding.mesh import Mesh


@attrs.frozen
class Exchange:
    """A collective on one rank.

    Attributes:
        packing: Makes messages of the rank's part of the operand; None if there is nothing to compute.
        sent: Ranks, and the names of their messages: results of the packing, or the operand itself.
        received: Ranks, and the messages from them.
        unpacking: Makes the rank's part of the result from its part of the operand and the messages; None if the only
            message is the result, or if that is empty.
        result: The rank's part of the result.
    """

    packing: Function | None
    sent: tuple[tuple[int, str], ...]
    received: tuple[tuple[int, Value], ...]
    unpacking: Function | None
    result: Value


@lru_cache(4096)
def exchange_of(collective: Collective, mesh: Mesh, rank: int) -> Exchange:
    """Return the messages of a rank; values are merged from those of all ranks of the group, in their order."""
    return _merged(collective, mesh, rank) if collective.kind.merges else _moved(collective, mesh, rank)


@lru_cache(4096)
def shares_of(collective: Collective, mesh: Mesh, rank: int) -> Exchange:
    """Return a rank's messages for a group whose merge is done elsewhere, and the cast of the merged elements."""
    draft, wide = _accumulated(collective, mesh, rank)
    have, group = _have(collective, mesh, rank), mesh.group(rank, collective.axes)
    targets = [mesh.box(collective.target, mesh.coordinates(each)) for each in group]
    sent = tuple((each, draft.cropped(wide, have, box)) for each, box in zip(group, targets, strict=True))
    result = _value(collective, mesh, rank)
    merged = attrs.evolve(result, name=f"{collective.name}_merged", dtype=wide.dtype)
    after = _Draft(NameScope.of((merged.name, result.name)))
    after.cast(merged, result.dtype, result.name)
    unpacking = after.function((merged,), (result.name,)) if wide.dtype is not result.dtype else None
    return Exchange(draft.packing(wide, sent), sent, ((rank, merged),), unpacking, result)


def arriving(collective: Collective, mesh: Mesh, rank: int) -> tuple[Box, ...]:
    """Return the elements of each message that a rank receives, in the order of the exchange."""
    return tuple(piece.box for piece in _filled(pieces(collective, mesh, rank)) if piece.owner != rank)


@lru_cache(4096)
def window_of(own: Value, have: Box, came: tuple[Box, ...], box: Box) -> Function:
    """Return the function from a rank's part of a value and received messages to the elements of a box.

    Its inputs are only those that it reads; messages are called ``came_`` and their number.
    """
    draft = _Draft(NameScope.of((own.name, *(f"came_{number}" for number in range(len(came))))))
    places = {own.name: have, **{f"came_{number}": place for number, place in enumerate(came)}}
    had = {name: shared(place, box) for name, place in places.items()}
    used = [name for name, place in had.items() if all(low < high for low, high in place)]
    result, default = Value(draft.names.fresh("window"), own.dtype, sizes_of(box)), None
    for number, name in enumerate(used, 1):
        part = Value(name, own.dtype, sizes_of(places[name]))
        made = result.name if number == len(used) else draft.names.fresh("window_with")
        default = draft.placed(made, part, had[name], places[name], result, box, default)
    inputs = tuple(Value(name, own.dtype, sizes_of(places[name])) for name in used)
    return draft.function(inputs, (result.name,))


def _moved(collective: Collective, mesh: Mesh, rank: int) -> Exchange:
    have, result = _have(collective, mesh, rank), _value(collective, mesh, rank)
    operand = Value(collective.input, collective.dtype, sizes_of(have))
    draft = _Draft(NameScope.of((operand.name, result.name)))
    sent = tuple(
        (other, draft.cropped(operand, have, piece.box))
        for other in range(mesh.size)
        if other != rank
        for piece in _filled(pieces(collective, mesh, other))
        if piece.owner == rank
    )
    target = mesh.box(collective.target, mesh.coordinates(rank))
    own = _filled(pieces(collective, mesh, rank))
    received = tuple(
        (piece.owner, Value(draft.names.fresh(f"{result.name}_from"), result.dtype, sizes_of(piece.box)))
        for piece in own
        if piece.owner != rank
    )
    packing = draft.packing(operand, sent)
    if not own or (len(own) == 1 and received):
        return Exchange(packing, sent, received, None, result)
    after, came = _Draft(draft.names), iter(received)
    default: str | None = None
    for number, piece in enumerate(own, 1):
        part = operand if piece.owner == rank else next(came)[1]
        start = have if piece.owner == rank else piece.box
        name = result.name if number == len(own) else draft.names.fresh(f"{result.name}_with")
        default = after.placed(name, part, piece.box, start, result, target, default)
    values = tuple(value for _, value in received)
    used = (operand, *values) if len(values) < len(own) else values
    return Exchange(packing, sent, received, after.function(used, (result.name,)), result)


def _merged(collective: Collective, mesh: Mesh, rank: int) -> Exchange:
    shares = shares_of(collective, mesh, rank)
    draft, wide = _accumulated(collective, mesh, rank)
    have, result = _have(collective, mesh, rank), shares.result
    own = draft.cropped(wide, have, mesh.box(collective.target, mesh.coordinates(rank)))
    group = mesh.group(rank, collective.axes)
    received = tuple(
        (other, Value(draft.names.fresh(f"{result.name}_from"), wide.dtype, result.shape))
        for other in group
        if other != rank and elements_of(result)
    )
    sent = tuple((other, name) for other, name in shares.sent if other != rank)
    if not elements_of(result):
        return Exchange(shares.packing, sent, (), None, result)
    parts = {rank: own, **{other: value.name for other, value in received}}
    draft.merging(collective, [parts[other] for other in group], wide.dtype, result)
    operand = Value(collective.input, collective.dtype, sizes_of(have))
    unpacking = draft.function((operand, *(value for _, value in received)), (result.name,))
    return Exchange(shares.packing, sent, received, unpacking, result)


@lru_cache(4096)
def merge_of(collective: Collective, mesh: Mesh, rank: int) -> Function:
    """Return the function from the parts of all ranks of a group, in their order, to a rank's merged part."""
    assert collective.aggregation is not None
    result, group = _value(collective, mesh, rank), mesh.group(rank, collective.axes)
    wide = dtype_merged(collective.aggregation, collective.dtype, len(group))
    draft = _Draft(NameScope.of((result.name,)))
    parts = tuple(Value(draft.names.fresh(f"{result.name}_from"), wide, result.shape) for _ in group)
    draft.merging(collective, [part.name for part in parts], wide, result)
    return draft.function(parts, (result.name,))


@lru_cache(4096)
def cast_of(value: Value, dtype: DType) -> Function:
    """Return the function from a value to its cast to another dtype."""
    draft = _Draft(NameScope.of((value.name,)))
    return draft.function((value,), (draft.cast(value, dtype, draft.names.fresh(f"{value.name}_wide")).name,))


def _accumulated(collective: Collective, mesh: Mesh, rank: int) -> tuple[_Draft, Value]:
    """Return the rank's part of the operand in the dtype of the merge, and the draft that computes it."""
    assert collective.aggregation is not None
    wide = dtype_merged(collective.aggregation, collective.dtype, mesh.extent(collective.axes))
    operand = Value(collective.input, collective.dtype, sizes_of(_have(collective, mesh, rank)))
    draft = _Draft(NameScope.of((operand.name, collective.name)))
    draft.inputs = (operand,)
    if wide is operand.dtype:
        return draft, operand
    return draft, draft.cast(operand, wide, draft.names.fresh(f"{operand.name}_wide"))


def _have(collective: Collective, mesh: Mesh, rank: int) -> Box:
    return mesh.box(collective.source, mesh.coordinates(rank))


def _value(collective: Collective, mesh: Mesh, rank: int) -> Value:
    target = mesh.box(collective.target, mesh.coordinates(rank))
    return Value(collective.name, collective.dtype, sizes_of(target))


def _filled(given: Sequence[Piece]) -> list[Piece]:
    return [piece for piece in given if elements(piece.box)]


def elements_of(value: Value) -> int:
    """Return the number of elements of a value."""
    return math.prod(value.shape)


@attrs.define(eq=False, repr=False)
class _Draft:
    """A function while it is built."""

    names: NameScope
    operations: list[Operation] = attrs.field(factory=list)
    inputs: tuple[Value, ...] = ()

    def function(self, inputs: tuple[Value, ...], outputs: tuple[str, ...]) -> Function:
        return Function(inputs, outputs, tuple(self.operations))

    def packing(self, operand: Value, sent: Sequence[tuple[int, str]]) -> Function | None:
        """Return the function that makes the messages; None if they are its operand."""
        inputs = self.inputs or (operand,)
        made = {operation.name for operation in self.operations}
        outputs = tuple(dict.fromkeys(name for _, name in sent if name in made))
        return Function(inputs, outputs, tuple(self.operations)) if outputs else None

    def cast(self, value: Value, dtype: DType, name: str) -> Value:
        made: Operation = Cast(name, value.name, dtype, value.shape)
        if value.dtype is dtype:
            made = Elementwise(name, Op.IDENT, (value.name,), dtype, value.shape)
        self.operations.append(made)
        return Value(name, dtype, value.shape)

    def merged(self, how: Aggregation, left: str, right: str, like: Value) -> str:
        if how.op is None:
            return right
        name = self.names.fresh(f"{like.name}_with")
        self.operations.append(Elementwise(name, how.op, (left, right), like.dtype, like.shape))
        return name

    def merging(self, collective: Collective, parts: Sequence[str], wide: DType, result: Value) -> None:
        """Add the merge of parts of one dtype, in order, as a result of another dtype."""
        assert collective.aggregation is not None
        merged, *others = parts
        for other in others:
            merged = self.merged(collective.aggregation, merged, other, attrs.evolve(result, dtype=wide))
        self.cast(Value(merged, wide, result.shape), result.dtype, result.name)

    def cropped(self, value: Value, have: Box, box: Box) -> str:
        """Return the name of the elements of a box, of a value that has more."""
        if have == box:
            return value.name
        result = Value(self.names.fresh(f"{value.name}_to"), value.dtype, sizes_of(box))
        self._assigned(
            result, [0 for _ in box], value, [low - first for (low, _), (first, _) in zip(box, have, strict=True)], None
        )
        return result.name

    def placed(
        self, name: str, value: Value, box: Box, have: Box, result: Value, target: Box, default: str | None
    ) -> str:
        """Add a value with the elements of a box, and those of another value elsewhere."""
        to = [low - first for (low, _), (first, _) in zip(box, target, strict=True)]
        if have != box:
            crop = self.cropped(value, have, box)
            value, have = Value(crop, value.dtype, sizes_of(box)), box
        self._assigned(attrs.evolve(result, name=name), to, value, [0 for _ in box], default)
        return name

    def _assigned(
        self, result: Value, to: Sequence[int], value: Value, start: Sequence[int], default: str | None
    ) -> None:
        indices = [Affine.index(f"d{axis}") for axis in range(len(to))]
        access = Access(value.name, tuple(index + first for index, first in zip(indices, start, strict=True)))
        output = tuple(index + first for index, first in zip(indices, to, strict=True))
        how = (Aggregation.ASSIGN, Combination.NONE, value.dtype, value.dtype, value.dtype, result.shape)
        self.operations.append(Contraction(result.name, output, (access,), *how, default=default))
