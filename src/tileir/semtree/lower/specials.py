"""Lowering of operations on whole views, as loops over their elements or as vectors in registers.

Square tiles are transposed in registers by shuffles of two vectors each. Vectors are divided into blocks of 16 bytes,
within which processors shuffle most cheaply. Each of ``log2(lanes)`` stages pairs rows whose numbers differ in one bit,
and exchanges this bit with one of the lane's number: those within a block by interleaving the elements of two rows,
those of the block's number by sorting its blocks into even and odd blocks. This is the usual transposition by
butterflies (Eklundh, "A fast computer method for matrix transposing", 1972), with exchanges that are single
instructions.

Running aggregates over the lanes of a serial block take ``log2(lanes)`` steps: each merges lanes with those a power of
two before them, as in Hillis and Steele, "Data parallel algorithms" (1986).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tileir.core import Aggregation, NameScope, Op, fail
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.stripe.ir import Binding, Block

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tileir.semtree.lower.block import BlockLowering
    from tileir.semtree.lower.views import View
    from tileir.stripe import ir as stripe


_BLOCK_BYTES: Final = 16


def is_square_power(rows: int, columns: int) -> bool:
    """Return whether a tile can be transposed in registers: square, with a power of two of rows, at least 2."""
    return rows == columns and rows > 1 and rows & (rows - 1) == 0


def transposed(rows: list[sem.Expr], names: NameScope) -> tuple[list[sem.Expr], list[sem.Stmt]]:
    """Return the columns of a tile for which :func:`is_square_power` holds, and the statements that compute them."""
    kind = rows[0].type
    width = min(kind.lanes, max(1, _BLOCK_BYTES // kind.dtype.itemsize))
    statements: list[sem.Stmt] = []
    for bit in _bits(kind.lanes, width):
        low, high = _interleaved(kind.lanes, width) if 1 << bit < width else _sorted(kind.lanes, width)
        after = list(rows)
        for number in range(kind.lanes):
            other = number | 1 << bit
            if other != number:
                pair = (rows[number], rows[other])
                for place, lanes in ((number, low), (other, high)):
                    variable = sem.Var(names.fresh("turned"), kind)
                    statements.append(sem.Declare(variable, sem.Shuffle(pair, lanes)))
                    after[place] = variable
        rows = after
    return rows, statements


def _bits(lanes: int, width: int) -> list[int]:
    """Return the bits of a row's number in the order of the stages: those within a block from the highest on."""
    within = width.bit_length() - 1
    return [*reversed(range(within)), *range(within, lanes.bit_length() - 1)]


def _interleaved(lanes: int, width: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the interleaved lanes of the lower halves of all blocks of two vectors, and of the upper halves."""
    halves = []
    for start in (0, width // 2):
        pairs = (
            (block + start + t, lanes + block + start + t)
            for block in range(0, lanes, width)
            for t in range(width // 2)
        )
        halves.append(tuple(lane for pair in pairs for lane in pair))
    return halves[0], halves[1]


def _sorted(lanes: int, width: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the lanes of the even blocks of two vectors, one vector after the other, and of the odd blocks."""
    kinds = []
    for first in (0, width):
        blocks = range(first, 2 * lanes, 2 * width)
        kinds.append(tuple(lane for block in blocks for lane in range(block, block + width)))
    return kinds[0], kinds[1]


def lower_special(blocks: BlockLowering, views: Mapping[str, View], statement: stripe.Special) -> list[sem.Stmt]:
    """Return the statements for ``copy``, ``fill``, ``order``, ``prefetch``, ``transpose`` and ``zero``.

    Raises:
        TileError: TIL502, a special that only a pass can replace.
    """
    match statement.name:
        case "copy" | "fill" | "zero":
            return [_filled(blocks, views, statement, position) for position in range(len(statement.outputs))]
        case "order" if not dict(statement.parameters).get("threads") and len(statement.outputs) == 1:
            from tileir.semtree.lower.orders.ordering import lower_order  # few programs sort

            return lower_order(blocks, views, statement)
        case "prefetch":
            return _prefetches(blocks, [views[name] for name in statement.inputs], statement)
        case "transpose":
            source, target = views[statement.inputs[0]], views[statement.outputs[0]]
            fits = _is_in_registers(source) and _is_in_registers(target)
            if fits and blocks.target.shuffles and is_square_power(*source.shape.sizes):
                return _turned(blocks, source, target)
            counters = [blocks.counter("d") for _ in target.shape.dims]
            value = _at(blocks, source, list(reversed(counters)), writes=False)
            return [_looped(blocks, target, counters, value)]
        case _:
            raise fail("TIL502", f"special {statement.name!r} has no lowering; a pass must replace it")


def _prefetches(blocks: BlockLowering, views: Iterable[View], statement: stripe.Special) -> list[sem.Stmt]:
    """Return a prefetch, ``ahead`` elements after the first element, of each view in memory."""
    ahead = dict(statement.parameters).get("ahead", 0)
    result: list[sem.Stmt] = []
    for view in views:
        if view.region is None and isinstance(ahead, int):
            blocks.touch(view, writes=False, lanes=None)
            place = blocks.offsets.scalar(view.offset + ahead)
            result.append(sem.Prefetch(sem.Subscript(view.array, place, sem.Type(view.shape.dtype))))
    return result


def _filled(blocks: BlockLowering, views: Mapping[str, View], statement: stripe.Special, position: int) -> sem.Stmt:
    target = views[statement.outputs[position]]
    counters = [blocks.counter("d") for _ in target.shape.dims]
    if statement.name == "copy":
        return _looped(blocks, target, counters, _at(blocks, views[statement.inputs[position]], counters, writes=False))
    constant = dict(statement.parameters).get("value", 0)
    number = constant if isinstance(constant, int | float) else 0
    return _looped(blocks, target, counters, sem.Const.of(number, sem.Type(target.shape.dtype)))


def _looped(blocks: BlockLowering, target: View, counters: list[sem.Var], value: sem.Expr) -> sem.Stmt:
    """Return loops over all elements of a view that set them to ``value``."""
    result: sem.Stmt = sem.Assign(_at(blocks, target, counters, writes=True), value)
    for counter, dim in reversed(list(zip(counters, target.shape.dims, strict=True))):
        result = sem.For(counter, blocks.offsets.constant(0), blocks.offsets.constant(dim.size), 1, (result,))
    return result


def _at(blocks: BlockLowering, view: View, counters: list[sem.Var], *, writes: bool) -> sem.Subscript | sem.Var:
    if view.variable is not None:
        return view.variable
    blocks.touch(view, writes=writes, lanes=None)
    offset = view.offset
    for counter, dim in zip(counters, view.shape.dims, strict=True):
        offset = offset + Affine.of({counter.name: dim.stride})
    return sem.Subscript(view.array, blocks.offsets.swizzled(offset, *view.swizzle), sem.Type(view.shape.dtype))


def _is_in_registers(view: View) -> bool:
    """Return whether a view is a matrix in registers whose rows are vectors."""
    return view.region is sem.Region.PRIVATE and view.variable is None and view.shape.dims[-1].stride == 1


def _turned(blocks: BlockLowering, source: View, target: View) -> list[sem.Stmt]:
    kind = sem.Type(source.shape.dtype, source.shape.sizes[1])
    result: list[sem.Stmt] = []
    rows: list[sem.Expr] = []
    for place in _rows(blocks, source, kind):
        variable = sem.Var(blocks.names.fresh("row"), kind)
        result.append(sem.Declare(variable, place))
        rows.append(variable)
    columns, statements = transposed(rows, blocks.names)
    places = _rows(blocks, target, kind)
    return [*result, *statements, *(sem.Assign(*pair) for pair in zip(places, columns, strict=True))]


def _rows(blocks: BlockLowering, view: View, kind: sem.Type) -> list[sem.Subscript]:
    step = view.shape.dims[0].stride
    starts = (blocks.offsets.scalar(view.offset + number * step) for number in range(view.shape.dims[0].size))
    return [sem.Subscript(view.array, start, kind) for start in starts]


@attrs.define(eq=False, repr=False)
class RunningLanes:
    """Elements into which the lanes of one serial block merge, in order."""

    block: str
    lanes: int
    names: NameScope
    _values: dict[sem.Expr, sem.Var] = attrs.field(factory=dict, init=False)

    @classmethod
    def of(cls, block: Block, lanes: int, names: NameScope) -> RunningLanes | None:
        """Return the running lanes of a block; None if its points are unordered, or it has no lanes.

        Raises:
            TileError: TIL502, lanes are not the innermost index of a serial block.
        """
        if lanes == 1 or not block.is_serial:
            return None
        last = block.indices[-1]
        if last.binding is not Binding.LANE or not last.serial:
            message = f"the points of block {block.name or '(unnamed)'} run in order: its last index must be its lanes"
            raise fail("TIL502", f"{message}, which are serial and vector")
        return cls(block.name, lanes, names)

    def merge(
        self, element: sem.Var | sem.Subscript, aggregation: Aggregation, op: Op, value: sem.Expr
    ) -> list[sem.Stmt]:
        """Return statements that merge the lanes of ``value`` into a scalar ``element``, lane 0 first."""
        neutral = aggregation.identity(element.type.dtype)
        # -0.0 changes no number at all, while 0.0 would make 0.0 of -0.0.
        identity = sem.Const.of(-0.0 if op is Op.ADD and value.type.dtype.is_float else neutral, value.type)
        result: list[sem.Stmt] = []
        lanes = self._declared("lanes", value, result)
        distance = 1
        while distance < self.lanes:
            before = sem.Shuffle((identity, lanes), tuple(self._before(lane, distance) for lane in range(self.lanes)))
            lanes = self._declared("lanes", sem.Apply(op, (before, lanes)), result)
            distance *= 2
        running = sem.Apply(op, (sem.Broadcast(element, self.lanes), lanes))
        self._values[element] = self._declared("running", running, result)
        last = sem.Shuffle((lanes,), (self.lanes - 1,))
        result.append(sem.Assign(element, sem.Apply(op, (element, last))))
        return result

    def _before(self, lane: int, distance: int) -> int:
        """Return the lane, of identity and value concatenated, that is ``distance`` before ``lane``."""
        return 0 if lane < distance else self.lanes + lane - distance

    def _declared(self, stem: str, value: sem.Expr, result: list[sem.Stmt]) -> sem.Var:
        variable = sem.Var(self.names.fresh(stem), value.type)
        result.append(sem.Declare(variable, value))
        return variable

    def found_in(self, element: sem.Var | sem.Subscript) -> sem.Var | sem.Subscript:
        """Return the value of an element in each lane, including merges of earlier lanes."""
        return self._values.get(element, element)
