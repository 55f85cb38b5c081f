"""Rules of asynchronous copies and of products of matrices."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tileir.core.dtype import DType
from tileir.core.errors import Diagnostic
from tileir.semtree.ir import (
    AsyncCopy,
    AsyncWait,
    Const,
    DeclareArray,
    MatrixMultiply,
    Param,
    ParamAccess,
    Prefetch,
    Region,
    Type,
)
from tileir.semtree.matrices import COPIED_BYTES, SHAPES, WIDTH, held
from tileir.semtree.rewrite import statements
from tileir.semtree.scopes import scoped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tileir.semtree.ir import KernelFunction, MatrixOperand
    from tileir.semtree.scopes import Declared


def check_copies(kernel: KernelFunction) -> Iterator[Diagnostic]:
    """Asynchronous copies move whole words from a parameter to a local array."""
    for stmt, visible in scoped(kernel):
        if isinstance(stmt, AsyncWait) and stmt.pending < 0:
            yield Diagnostic("TIL551", f"so many groups of copies cannot be pending: {stmt.pending}")
        if not isinstance(stmt, AsyncCopy):
            continue
        target, source = stmt.target, stmt.source
        if target.type != source.type or target.offset.type.lanes != 1 or source.offset.type.lanes != 1:
            yield Diagnostic("TIL552", f"an asynchronous copy cannot turn {source.type} into {target.type}")
        elif target.type.lanes * target.type.dtype.itemsize not in COPIED_BYTES:
            sizes = ", ".join(map(str, COPIED_BYTES))
            yield Diagnostic("TIL551", f"an asynchronous copy has one of {sizes} bytes, and not those of {target.type}")
        array = visible.get(target.array)
        if not isinstance(array, DeclareArray) or array.region is not Region.LOCAL:
            yield Diagnostic("TIL554", f"asynchronous copies go to local arrays, and {target.array!r} is none")
        if not isinstance(visible.get(source.array), Param):
            yield Diagnostic("TIL554", f"asynchronous copies take from parameters, and {source.array!r} is none")


def check_prefetches(kernel: KernelFunction) -> Iterator[Diagnostic]:
    """Only parameters are far enough away for a prefetch, and only single places have an address."""
    for stmt, visible in scoped(kernel):
        if not isinstance(stmt, Prefetch):
            continue
        if not isinstance(visible.get(stmt.target.array), Param):
            yield Diagnostic("TIL554", f"prefetches are for parameters, and {stmt.target.array!r} is none")
        if stmt.target.offset.type.lanes != 1:
            yield Diagnostic("TIL552", f"a prefetch has one address, and {stmt.target.array!r} is given several")


def check_products(kernel: KernelFunction) -> Iterator[Diagnostic]:
    """Products of matrices have the shape of an instruction, and operands that all threads of one see alike."""
    found = any(isinstance(stmt, MatrixMultiply) for stmt in statements(kernel.body))
    if found and math.prod(kernel.group) % WIDTH:
        yield Diagnostic("TIL551", f"{WIDTH} threads multiply matrices: {math.prod(kernel.group)} is no multiple")
    for stmt, visible in scoped(kernel):
        if isinstance(stmt, MatrixMultiply):
            yield from _product_faults(stmt, visible)


def _product_faults(stmt: MatrixMultiply, visible: Mapping[str, Declared]) -> Iterator[Diagnostic]:
    left, right, sums = stmt.left.start, stmt.right.start, stmt.accumulators
    if left.type != right.type or SHAPES.get(left.type.dtype) != stmt.shape or sums.type != Type(DType.F32):
        what = f"{left.type} by {right.type} into {sums.type}"
        yield Diagnostic("TIL552", f"there is no product of shape {stmt.shape} of {what}")
        return
    if any(extent < 1 or extent % unit for extent, unit in zip(stmt.tile, stmt.shape, strict=True)):
        yield Diagnostic("TIL551", f"the tile {stmt.tile} is no multiple of the shape {stmt.shape}")
        return
    array = visible.get(sums.array)
    size = held(stmt.shape) * (stmt.tile[0] // stmt.shape[0]) * (stmt.tile[1] // stmt.shape[1])
    if not isinstance(array, DeclareArray) or array.region is not Region.PRIVATE:
        yield Diagnostic("TIL554", f"sums are held in private arrays, and {sums.array!r} is none")
    elif isinstance(sums.offset, Const) and not 0 <= int(sums.offset.value) <= array.size - size:
        yield Diagnostic("TIL553", f"a thread holds {size} sums, and {sums.array!r} has {array.size} elements")
    for operand in (stmt.left, stmt.right):
        yield from _operand_faults(operand, visible)


def _operand_faults(operand: MatrixOperand, visible: Mapping[str, Declared]) -> Iterator[Diagnostic]:
    name, array = operand.start.array, visible.get(operand.start.array)
    if isinstance(array, DeclareArray) and array.region is Region.PRIVATE:
        yield Diagnostic("TIL554", f"threads share operands of products, and {name!r} is private")
    if isinstance(array, Param) and array.access is not ParamAccess.READ:
        yield Diagnostic("TIL554", f"operands of products are only read, and {name!r} is written")
    moved = operand.mask << operand.shift if operand.shift >= 0 else operand.mask
    if operand.mask < 0 or operand.shift < 0 or operand.mask & moved or moved.bit_length() > _MOST_BITS:
        yield Diagnostic(
            "TIL551", f"the swizzle ({operand.shift}, {operand.mask}) of {name!r} moves bits to themselves"
        )


_MOST_BITS = 24
"""Swizzles stay inside local memory."""
