"""Lowering of blocks that copy a box of a tensor to one statement.

The block is an ordinary one, in which threads copy runs of elements. Its instruction describes the box and the tensor:
the lowering checks that the block agrees.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import prod
from operator import mul
from typing import Any

import attrs
import numpy as np

from tileir.core.errors import TileError, fail
from tileir.poly.affine import Affine, total
from tileir.semtree import ir as sem
from tileir.semtree.lower.block import BlockLowering
from tileir.semtree.lower.views import View
from tileir.stripe import ir as stripe


def box_copy(
    blocks: BlockLowering,
    block: stripe.Block,
    views: Mapping[str, View],
    outer: Mapping[str, Affine],
    channel: sem.Subscript,
    ranks: Collection[str] | None = None,
) -> sem.BulkCopy:
    """Return the box copy for a block with a copy instruction; ``views`` and ``outer`` are visible in it.

    With clusters, it is for a cluster if it depends on none of the variables ``ranks``, which differ between its
    groups.

    Raises:
        TileError: TIL502, the block does not match its instruction.
    """
    copy = block.instruction
    assert isinstance(copy, stripe.Copy)
    source, target, places, own = _found(blocks, block, copy, views, outer)
    offsets = blocks.offsets
    kind = sem.Type(target.shape.dtype)
    joint = ranks is not None and all(name not in ranks for place in places for name in place.indices)
    return sem.BulkCopy(
        channel,
        sem.Subscript(target.array, offsets.scalar(target.offset.substitute(own)), kind),
        sem.Subscript(source.array, offsets.constant(0), sem.Type(source.shape.dtype)),
        copy.box,
        copy.extents,
        copy.strides,
        tuple(offsets.scalar(place.substitute(own)) for place in places),
        *target.swizzle,
        copy.steps,
        sem.Scope.CLUSTER if joint else sem.Scope.GROUP,
    )


def box_store(
    blocks: BlockLowering, block: stripe.Block, views: Mapping[str, View], outer: Mapping[str, Affine]
) -> sem.BulkStore:
    """Return the box store for a block with a store instruction; ``views`` and ``outer`` are visible in it.

    Raises:
        TileError: TIL502, the block does not match its instruction.
    """
    copy = block.instruction
    assert isinstance(copy, stripe.CopyBack)
    target, source, places, own = _found(blocks, block, copy, views, outer)
    offsets = blocks.offsets
    kind = sem.Type(source.shape.dtype)
    return sem.BulkStore(
        sem.Subscript(target.array, offsets.constant(0), kind),
        sem.Subscript(source.array, offsets.scalar(source.offset.substitute(own)), kind),
        copy.box,
        copy.extents,
        copy.strides,
        tuple(offsets.scalar(place.substitute(own)) for place in places),
        *source.swizzle,
    )


def _found(
    blocks: BlockLowering,
    block: stripe.Block,
    copy: stripe.Copy,
    views: Mapping[str, View],
    outer: Mapping[str, Affine],
) -> tuple[View, View, list[Affine], dict[str, Affine]]:
    """Return the tensor, the local memory, the place in the tensor, and the first point of a block's copy."""
    found = _Walk(blocks)
    ends = found.leaf(block, dict(views), dict(outer))
    tensor, local = ends[::-1] if isinstance(copy, stripe.CopyBack) else ends
    places = _places(tensor, copy, block)
    limits = [end for place, extent in zip(places, copy.extents, strict=True) for end in (place, extent - 1 - place)]
    if not all(any(_is_end(test, end, found.ranges) for end in limits) for test in found.tests):
        raise _unlike(block, "tests something else than the ends of the tensor")
    if not _is_box(copy, found.ranges, tensor.offset, local.offset):
        raise _unlike(block, "copies other elements, or to other places")
    return tensor, local, places, dict.fromkeys(found.ranges, Affine())


@attrs.define(eq=False)
class _Walk:
    """Walk down to the statements of a block: ``ranges`` are those of its indices, by the names of :meth:`leaf`."""

    blocks: BlockLowering
    ranges: dict[str, int] = attrs.field(factory=dict)
    tests: list[Affine] = attrs.field(factory=list)

    def leaf(self, block: stripe.Block, views: dict[str, View], outer: dict[str, Affine]) -> tuple[View, View]:
        """Return the source and the target of the innermost block."""
        values: dict[str, Affine] = {}
        for index in block.indices:
            base = Affine() if index.affine is None else index.affine.substitute(outer)
            if index.range > 1:
                name = f"%{len(self.ranges)}"
                self.ranges[name] = index.range
                base = base + Affine.index(name)
            values[index.name] = base
        self.tests += [test.substitute(values) for test in block.constraints]
        inner = self.blocks.views(block, views, values)
        match block.statements:
            case (stripe.Block() as child,):
                return self.leaf(child, inner, values)
            case (stripe.Load() as load, stripe.Store() as store) if store.source == load.into:
                return inner[load.source], inner[store.into]
            case _:
                raise _unlike(block, "does not just copy")


def _places(source: View, copy: stripe.Copy, block: stripe.Block) -> list[Affine]:
    """Return the start of a view in its tensor, along each axis."""
    if max(copy.along) >= len(source.places):
        raise _unlike(block, "has other axes")
    places = copy.places(source.places, source.shape.strides)
    if total(map(mul, places, copy.strides)) != source.offset or not all(place.is_integral for place in places):
        raise _unlike(block, "moves between the elements of the tensor")
    return places


def _is_end(test: Affine, end: Affine, ranges: Mapping[str, int]) -> bool:
    """Return whether a test holds wherever that for an end does, perhaps for several adjacent elements.

    The test for the start of an axis is for the first of them, or for a single element.
    """
    more = test - end
    if more.offset or not all(name in ranges and step > 0 for name, step in more.terms):
        return False
    span = 1 + sum(int(step) * (ranges[name] - 1) for name, step in more.terms)
    return all(int(step) % span == 0 for _, step in test.terms) and int(test.offset + 1) % span == 0


def _is_box(copy: stripe.Copy, ranges: Mapping[str, int], source: Affine, target: Affine) -> bool:
    """Return whether a block moves the elements of the box, row by row, to consecutive places."""

    def reached(offset: Affine) -> np.ndarray[Any, Any]:
        places = np.zeros(1, np.int64)
        for name, extent in ranges.items():
            places = np.add.outer(places, np.arange(extent) * int(offset.coefficient(name))).reshape(-1)
        return places

    there = reached(target)
    if not np.array_equal(np.sort(there), np.arange(prod(copy.box))):
        return False
    wanted = np.zeros(1, np.int64)
    for extent, stride, step in zip(copy.box, copy.strides, copy.every, strict=True):
        wanted = np.add.outer(wanted, np.arange(extent) * stride * step).reshape(-1)
    return np.array_equal(wanted[there], reached(source))


def _unlike(block: stripe.Block, what: str) -> TileError:
    return fail("TIL502", f"block {block.name or '(unnamed)'} says that it copies a box of a tensor, but {what}")
