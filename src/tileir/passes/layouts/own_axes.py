"""Views of reshaped tensors, expressed by the axes of the tensors themselves."""

from __future__ import annotations

from collections.abc import Mapping

from tileir.core.nodes import attrs
from tileir.passes.analysis.accesses import address, is_element
from tileir.passes.kernels.merge import nest_of
from tileir.poly.affine import Affine
from tileir.schedule import Node, Refused, Use, chosen_by_data, emit, leaf, product
from tileir.stripe.ir import Block, Direction, Refinement, Special, TensorShape


def with_own_axes(kernel: Block, shapes: Mapping[str, TensorShape]) -> Block:
    """Return a kernel that views reshaped tensors by their own axes, if each place is affine in its indices.

    This makes accesses of several kernels comparable. Kernels with nested blocks stay as they are.

    Args:
        kernel: The kernel.
        shapes: The shape of each tensor that it may view.
    """
    if any(isinstance(s, Block | Special) for s in kernel.statements):
        return kernel
    fixed = chosen_by_data(kernel.statements)
    ranges = kernel.ranges
    views = tuple(
        view if view.name in fixed or view.source not in shapes else _with_axes_of(view, shapes[view.source], ranges)
        for view in kernel.refinements
    )
    return kernel if views == kernel.refinements else attrs.evolve(kernel, refinements=views)


def _with_axes_of(view: Refinement, whole: TensorShape, ranges: Mapping[str, int]) -> Refinement:
    """Return a view by the axes of its source; itself if that is not possible."""
    if view.direction is Direction.NONE or view.bank_dim is not None or len(view.access) == len(whole.dims):
        return view
    if is_element(view):
        return _element_of(view, whole, ranges)
    moving = [(a, d) for a, d in zip(view.access, view.shape.dims, strict=True) if d.size > 1 or a != Affine()]
    axes = [number for number, dim in enumerate(whole.dims) if dim.size > 1]
    if len(moving) != len(axes):
        return view
    access, dims = [Affine()] * len(whole.dims), list(whole.element.dims)
    for number, (place, dim) in zip(axes, moving, strict=True):
        low, high = place.bounds(ranges)
        if dim.stride != whole.dims[number].stride or low < 0 or high + dim.size > whole.dims[number].size:
            return view
        access[number], dims[number] = place, dim
    return attrs.evolve(view, access=tuple(access), shape=TensorShape(view.shape.dtype, tuple(dims)))


def _element_of(view: Refinement, whole: TensorShape, ranges: Mapping[str, int]) -> Refinement:
    """Return the view of an element by the axes of its tensor; itself if some axis has no affine place."""
    access = _places(address(view), whole, ranges)
    if access is None:
        return view
    return attrs.evolve(view, access=access, shape=attrs.evolve(whole.element, dtype=view.shape.dtype))


def _places(where: Affine, whole: TensorShape, ranges: Mapping[str, int]) -> tuple[Affine, ...] | None:
    """Return the place along each axis of the element at an address; None if some axis has no affine place."""
    left, offset = {name: int(step) for name, step in where.terms}, int(where.offset)
    access: list[Affine] = []
    for dim in whole.dims:
        taken = {name: step // dim.stride for name, step in left.items() if dim.size > 1 and step % dim.stride == 0}
        left = {name: step for name, step in left.items() if name not in taken}
        first, offset = divmod(offset, dim.stride) if dim.size > 1 else (0, offset)
        access.append(Affine.of(taken, first))
        low, high = access[-1].bounds(ranges)
        if low < 0 or high >= dim.size:
            return None
    return None if left or offset else tuple(access)


def with_own_axes_inside(kernel: Block, shapes: Mapping[str, TensorShape]) -> Block:
    """Apply :func:`with_own_axes` to the element accesses of a kernel, in nested blocks, too.

    Args:
        kernel: The kernel. One that is no nest of loops stays as it is.
        shapes: The shape of each dense tensor that it may view.
    """
    nest = nest_of(kernel)
    if isinstance(nest, Refused) or not kernel.blocks:
        return with_own_axes(kernel, shapes)
    sources = {r.name: shapes[r.source] for r in kernel.refinements if r.source in shapes}
    nodes = []
    for segment in nest.segments:
        fixed = chosen_by_data(segment.statements)
        ranges = {i.name: i.range for i in (*nest.indices, *segment.loops)}
        seen = [use if use.name in fixed else _use_of(use, sources.get(use.root), ranges) for use in segment.uses]
        nodes.append(attrs.evolve(leaf(segment, {}, segment.loops), uses=tuple(seen)))
    if all(node.uses == segment.uses for node, segment in zip(nodes, nest.segments, strict=True)):
        return kernel
    return attrs.evolve(emit(Node(nest.indices, nest.allocations, tuple(nodes)), kernel), deps=())


def _use_of(use: Use, whole: TensorShape | None, ranges: Mapping[str, int]) -> Use:
    """Return a use of an element by the axes of its tensor; itself if it has these, or if some place is not affine."""
    if whole is None or use.strides == whole.strides or product(use.sizes) > 1:
        return use
    where = use.address
    access = _places(where, whole, ranges)
    return use if access is None else attrs.evolve(use, access=access, strides=whole.strides, sizes=())
