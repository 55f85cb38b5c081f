"""Operations on whole views, as loops over their elements or as vectors that are kept in registers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.core.errors import fail
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.semtree.lower.orders.ordering import lower_order
from tileir.semtree.lower.transpose import is_square_power, transposed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tileir.semtree.lower.block import BlockLowering
    from tileir.semtree.lower.views import View
    from tileir.stripe import ir as stripe


def lower_special(blocks: BlockLowering, views: Mapping[str, View], statement: stripe.Special) -> list[sem.Stmt]:
    """Return what ``copy``, ``fill``, ``order``, ``prefetch``, ``transpose`` and ``zero`` do.

    Raises:
        TileError: TIL502, a special that only a pass can replace.
    """
    match statement.name:
        case "copy" | "fill" | "zero":
            return [_filled(blocks, views, statement, position) for position in range(len(statement.outputs))]
        case "order":
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
    """Return a prefetch of the first element of each view in memory, so many elements ahead."""
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
