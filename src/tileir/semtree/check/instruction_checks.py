"""Rules declared by the classes of statements, and further rules of channels, boxes and matrix products."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from tileir.core import Diagnostic, DType
from tileir.core.fragments import FRAGMENTS, Fragment, Operand, OperandMemory, Swizzle
from tileir.core.nodes.rules import broken
from tileir.semtree.check.scopes import ScopedStatement, Survey
from tileir.semtree.ir import (
    WARP,
    Arrive,
    AssignLanes,
    Await,
    BulkCopy,
    BulkStore,
    Channel,
    Const,
    DeclareArray,
    Exchange,
    MatrixMultiply,
    MatrixOperand,
    Param,
    ParamAccess,
    Region,
    Subscript,
    Turn,
    Type,
    Update,
    Vote,
    WarpRole,
)
from tileir.semtree.matrices import held, held_of_left
from tileir.semtree.swizzles import PLAIN

S = TypeVar("S")


def check_rules(survey: Survey) -> Iterator[Diagnostic]:
    """Statements keep the rules of their classes, and elements belong to arrays in the required places."""
    every: Iterable[Any] = survey.kinds
    kinds = {kind for kind in every if kind.rules or kind.places}
    for place in survey.scoped if kinds else ():
        stmt = place.stmt
        if type(stmt) not in kinds:
            continue
        for rule in broken(stmt):
            yield Diagnostic(rule.code or "TIL552", rule.told(stmt))
        for name, (where, message) in stmt.places.items() if stmt.places else ():
            yield from _elsewhere(where, place, getattr(stmt, name), message)


def _elsewhere(where: object, place: ScopedStatement, element: Subscript, rule: str) -> Iterator[Diagnostic]:
    """Yield the fault of an element whose array is not in the required region, or not a parameter with that access."""
    array = place.meaning(element)
    if isinstance(where, Region):
        lies = isinstance(array, DeclareArray) and array.region is where
    else:
        lies = isinstance(array, Param) and where in (Param, array.access)
    if not lies:
        yield Diagnostic("TIL554", f"{rule}, and {element.array!r} is none")


def check_masked(survey: Survey) -> Iterator[Diagnostic]:
    """Lanes that are set are numbered by the index type."""
    index = Type(survey.kernel.index)
    for _, stmt in _of_kind(survey, AssignLanes):
        if not stmt.begin.type == stmt.end.type == index:
            yield Diagnostic("TIL552", f"lanes are numbered by {index}, not by {stmt.begin.type} and {stmt.end.type}")


def check_exchanges(survey: Survey) -> Iterator[Diagnostic]:
    """Threads exchange what they hold with others of their warp."""
    threads = math.prod(survey.kernel.group)
    for _, stmt in _of_kind(survey, Exchange):
        if not 0 < stmt.mask < WARP or threads % (1 << stmt.mask.bit_length()):
            message = f"threads of {threads} cannot exchange with the mask {stmt.mask}: it is below {WARP}, and"
            yield Diagnostic("TIL551", f"{message} all threads need another one")


def check_votes(survey: Survey) -> Iterator[Diagnostic]:
    """Whole warps vote."""
    for _ in _of_kinds(survey, Vote):
        if math.prod(survey.kernel.group) % WARP:
            yield Diagnostic("TIL551", f"whole warps of {WARP} threads vote, unlike in {survey.kernel.group}")


def check_flags(survey: Survey) -> Iterator[Diagnostic]:
    """Whole groups arrive at flags and wait for them."""
    for _ in _of_kinds(survey, Arrive, Await):
        if survey.kernel.cluster > 1 or WarpRole in survey.kinds:
            yield Diagnostic("TIL551", "groups arrive as a whole: a kernel with flags has neither clusters nor roles")


def check_updates(survey: Survey) -> Iterator[Diagnostic]:
    """Elements that are updated are of arrays that threads share."""
    for place, stmt in _of_kind(survey, Update):
        known = place.meaning(stmt.target)
        if isinstance(known, Param) and known.access is not ParamAccess.READ_WRITE:
            yield Diagnostic("TIL554", f"updates are for 'inout' parameters and local arrays, unlike {known.name!r}")
        if not isinstance(known, Param):
            yield from _elsewhere(Region.LOCAL, place, stmt.target, "threads update elements that they share")


def check_channels(survey: Survey) -> Iterator[Diagnostic]:
    """Channels are local arrays that nothing else touches, and boxes are copied from parameters to local arrays."""
    arrays: dict[str, DeclareArray] = {}
    for place in _of_kinds(survey, Channel, BulkCopy):
        assert isinstance(place.stmt, Channel | BulkCopy)
        channel = place.stmt.channel
        array = place.meaning(channel)
        if not isinstance(array, DeclareArray) or array.region is not Region.LOCAL or array.dtype is not DType.U64:
            yield Diagnostic("TIL554", f"a channel is a local array of u64, and {channel.array!r} is none")
            continue
        arrays[channel.array] = array
        if array.size < 2 or array.size % 2 or channel.offset != Const(0, channel.offset.type):
            message = f"a channel is all of an array, two elements for each message, and not {channel} of {array.size}"
            yield Diagnostic("TIL551", message)
        if isinstance(place.stmt, BulkCopy):
            yield from _box_faults(place.stmt, place)
    for place in survey.scoped if arrays else ():
        own = place.stmt.channel if isinstance(place.stmt, Channel | BulkCopy) else None
        for node, known in place.uses:
            if node is not own and any(known is array for array in arrays.values()):
                yield Diagnostic("TIL554", f"nothing but its steps and copies may touch the channel {node}")


def check_stores_of_boxes(survey: Survey) -> Iterator[Diagnostic]:
    """Boxes are stored from local arrays to parameters that nothing else touches."""
    stored: list[Param] = []
    for place, stmt in _of_kind(survey, BulkStore):
        yield from _box_faults(stmt, place)
        tensor = place.meaning(stmt.target)
        if isinstance(tensor, Param):
            stored.append(tensor)
    for place in survey.scoped if stored else ():
        own = place.stmt.target if isinstance(place.stmt, BulkStore) else None
        for node, known in place.uses:
            if node is not own and isinstance(node, Subscript) and any(known is each for each in stored):
                yield Diagnostic("TIL554", f"boxes are stored to {node.array!r}, which nothing else may touch")


def _box_faults(stmt: BulkCopy | BulkStore, place: ScopedStatement) -> Iterator[Diagnostic]:
    own, there, axes = stmt.local, stmt.tensor, len(stmt.box)
    if not axes == len(stmt.extents) == len(stmt.strides) == len(stmt.at) == len(stmt.every) <= _MOST_AXES:
        yield Diagnostic("TIL551", f"the box of {own.array!r} has as many axes as its tensor, {_MOST_AXES} at most")
        return
    if own.type != there.type or {own.type.lanes, own.offset.type.lanes} != {1}:
        yield Diagnostic("TIL552", f"a copy of a box cannot turn {stmt.source.type} into {stmt.target.type}")
    if any(each.type.lanes != 1 or not each.type.dtype.is_integer for each in stmt.at):
        yield Diagnostic("TIL552", f"the box of {own.array!r} begins at integers")
    if min(*stmt.box, *stmt.extents, *stmt.strides, *stmt.every) < 1 or stmt.strides[-1] != 1:
        message = f"the box of {own.array!r} and its tensor have elements, which are neighbours along the last axis"
        yield Diagnostic("TIL551", message)
    local, tensor = place.meaning(own), place.meaning(there)
    way, access = ("from", ParamAccess.READ) if isinstance(stmt, BulkCopy) else ("to", ParamAccess.WRITE)
    if not isinstance(local, DeclareArray) or local.region is not Region.LOCAL:
        yield Diagnostic("TIL554", f"boxes of local arrays are copied, and {own.array!r} is none")
    elif math.prod(stmt.box) > local.size:
        yield Diagnostic("TIL553", f"a box of {math.prod(stmt.box)} elements does not fit {own.array!r}")
    if not isinstance(tensor, Param) or tensor.access is not access:
        only = "read" if isinstance(stmt, BulkCopy) else "written"
        yield Diagnostic(
            "TIL554", f"boxes are copied {way} parameters that are only {only}, and {there.array!r} is none"
        )
    elif not isinstance(there.offset, Const) or _last(stmt) >= tensor.size or int(there.offset.value) < 0:
        yield Diagnostic("TIL553", f"the tensor that boxes of {own.array!r} are copied {way} is not in the parameter")
    yield from _swizzle_faults(stmt.shift, stmt.mask, own.array)
    if stmt.fold != PLAIN:
        yield from _fold_faults(stmt.fold, own.array, local)


def _last(stmt: BulkCopy | BulkStore) -> int:
    """Return the place of the last element of the tensor of a box copy."""
    assert isinstance(stmt.tensor.offset, Const)
    last = sum((extent - 1) * stride for extent, stride in zip(stmt.extents, stmt.strides, strict=True))
    return int(stmt.tensor.offset.value) + last


def check_turns(survey: Survey) -> Iterator[Diagnostic]:
    """Parts of a group that take turns are equal, in all statements."""
    threads = math.prod(survey.kernel.group)
    found = [stmt for _, stmt in _of_kind(survey, Turn)]
    for stmt in found:
        if stmt.threads < 1 or threads % stmt.threads or stmt.threads != found[0].threads:
            yield Diagnostic("TIL551", f"all turns are of equal parts of {threads} threads, and not of {stmt.threads}")


def check_products(survey: Survey) -> Iterator[Diagnostic]:
    """Matrix products have the shape of a fragment, and operands are equal in all threads of one."""
    threads = math.prod(survey.kernel.group)
    for place, stmt in _of_kind(survey, MatrixMultiply):
        fragment = FRAGMENTS.get(stmt.fragment)
        if fragment is None:
            yield Diagnostic("TIL552", f"there is no fragment {stmt.fragment!r}")
            continue
        if threads % fragment.threads:
            yield Diagnostic("TIL551", f"{fragment.threads} threads multiply matrices: {threads} is no multiple")
        yield from _product_faults(stmt, fragment, place)


def _of_kind(survey: Survey, kind: type[S]) -> Iterator[tuple[ScopedStatement, S]]:
    return ((place, place.stmt) for place in _of_kinds(survey, kind) if isinstance(place.stmt, kind))


def _of_kinds(survey: Survey, *kinds: type) -> Iterator[ScopedStatement]:
    if not survey.kinds.isdisjoint(kinds):
        yield from (place for place in survey.scoped if isinstance(place.stmt, kinds))


def _product_faults(stmt: MatrixMultiply, fragment: Fragment, place: ScopedStatement) -> Iterator[Diagnostic]:
    left, right, sums = stmt.left.start, stmt.right.start, stmt.accumulators
    if (left.type, right.type, sums.type) != tuple(map(Type, fragment.dtypes)):
        what = f"{left.type} by {right.type} into {sums.type}"
        yield Diagnostic("TIL552", f"the fragment {fragment.name} is no product of {what}")
        return
    if any(extent < 1 or extent % unit for extent, unit in zip(stmt.tile, fragment.mnk, strict=True)):
        yield Diagnostic("TIL551", f"the tile {stmt.tile} is no multiple of the shape {fragment.mnk}")
        return
    array, size = place.meaning(sums), held(stmt)
    if not isinstance(array, DeclareArray) or array.region is not Region.PRIVATE:
        yield Diagnostic("TIL554", f"sums are held in private arrays, and {sums.array!r} is none")
    elif isinstance(sums.offset, Const) and not 0 <= int(sums.offset.value) <= array.size - size:
        yield Diagnostic("TIL553", f"a thread holds {size} sums, and {sums.array!r} has {array.size} elements")
    if stmt.right.held:
        yield Diagnostic("TIL551", f"the right operand of a product lies in memory, and {right.array!r} is held")
    if stmt.left.held:
        yield from _held_faults(stmt, place)
    for operand, kind in ((stmt.left, fragment.a), (stmt.right, fragment.b)):
        if not operand.held:
            yield from _operand_faults(operand, kind, place)


def _held_faults(stmt: MatrixMultiply, place: ScopedStatement) -> Iterator[Diagnostic]:
    operand, count = stmt.left, held_of_left(stmt)
    start, array = operand.start, place.meaning(operand.start)
    if count is None:
        yield Diagnostic("TIL551", f"the fragment {stmt.fragment} takes no operand that threads hold")
    elif operand.held != count:
        yield Diagnostic("TIL551", f"a thread holds {count} elements of {start.array!r}, not {operand.held}")
    if (*operand.strides, operand.shift, operand.mask, *operand.fold) != (0, 0, 0, 0, *PLAIN):
        yield Diagnostic("TIL551", f"threads hold {start.array!r}: it has no strides, swizzle and fold")
    if not isinstance(array, DeclareArray) or array.region is not Region.PRIVATE:
        yield Diagnostic("TIL554", f"operands are held in private arrays, and {start.array!r} is none")
    elif isinstance(start.offset, Const) and not 0 <= int(start.offset.value) <= array.size - operand.held:
        yield Diagnostic("TIL553", f"a thread holds {operand.held} elements, and {start.array!r} has {array.size}")


def _operand_faults(operand: MatrixOperand, kind: Operand, place: ScopedStatement) -> Iterator[Diagnostic]:
    name, array = operand.start.array, place.meaning(operand.start)
    if kind.where is OperandMemory.LOCAL:
        swizzle = Swizzle(operand.shift, operand.mask * kind.dtype.itemsize)
        if not isinstance(array, DeclareArray) or array.region is not Region.LOCAL:
            yield Diagnostic("TIL554", f"the instruction reads local arrays, and {name!r} is none")
        elif operand.mask and swizzle not in kind.swizzles:
            yield Diagnostic("TIL551", f"the instruction has no swizzle ({operand.shift}, {operand.mask}) of {name!r}")
    if isinstance(array, DeclareArray) and array.region is Region.PRIVATE:
        yield Diagnostic("TIL554", f"threads share operands of products, and {name!r} is private")
    if isinstance(array, Param) and array.access is not ParamAccess.READ:
        yield Diagnostic("TIL554", f"operands of products are only read, and {name!r} is written")
    yield from _swizzle_faults(operand.shift, operand.mask, name)
    if operand.fold != PLAIN:
        yield from _fold_faults(operand.fold, name, array)


def _swizzle_faults(shift: int, mask: int, name: str) -> Iterator[Diagnostic]:
    moved = mask << shift if shift >= 0 else mask
    if mask < 0 or shift < 0 or mask & moved or moved.bit_length() > _MOST_BITS:
        yield Diagnostic("TIL551", f"the swizzle ({shift}, {mask}) of {name!r} moves bits to themselves")


def _fold_faults(fold: tuple[int, int, int], name: str, array: object) -> Iterator[Diagnostic]:
    piece, row, rows = fold
    powers = all(extent > 0 and extent & (extent - 1) == 0 for extent in (piece, rows))
    if not powers or row < 1 or row % piece or (row * rows).bit_length() > _MOST_BITS:
        message = f"the fold {fold} of {name!r} is no piece and rows that are powers of two, a row of pieces between"
        yield Diagnostic("TIL551", message)
    elif isinstance(array, DeclareArray | Param) and array.size % (row * rows):
        yield Diagnostic("TIL551", f"the fold {fold} of {name!r} has {row * rows} elements, and the array {array.size}")


_MOST_BITS = 24
"""Maximum bits of a swizzle, which stays inside local memory."""

_MOST_AXES = 5
"""Maximum axes of a tensor in box copies."""
