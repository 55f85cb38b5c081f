"""Views of tensors by other axes, as reshaping gives them: the same elements by the axes of the tensor."""

from __future__ import annotations

from collections.abc import Mapping

from tileir.core.nodes import attrs
from tileir.passes.analysis.accesses import address, is_element
from tileir.poly.affine import Affine
from tileir.schedule.nest import chosen_by_data
from tileir.stripe.ir import Block, Direction, Refinement, Special, TensorShape


def with_own_axes(kernel: Block, shapes: Mapping[str, TensorShape]) -> Block:
    """Return a kernel that sees reshaped tensors as these are, where that is an affine of its indices for each axis.

    What compares accesses of several kernels then finds them alike. Kernels with blocks inside stay as they are.

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
    """Return a view by the axes of what it views; itself where its axes are others."""
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
    """Return the view of an element by the axes of its tensor; itself where some axis takes no affine."""
    where = address(view)
    left, offset = {name: int(step) for name, step in where.terms}, int(where.offset)
    access: list[Affine] = []
    for dim in whole.dims:
        taken = {name: step // dim.stride for name, step in left.items() if dim.size > 1 and step % dim.stride == 0}
        left = {name: step for name, step in left.items() if name not in taken}
        first, offset = divmod(offset, dim.stride) if dim.size > 1 else (0, offset)
        access.append(Affine.of(taken, first))
        low, high = access[-1].bounds(ranges)
        if low < 0 or high >= dim.size:
            return view
    if left or offset:
        return view
    return attrs.evolve(view, access=tuple(access), shape=attrs.evolve(whole.element, dtype=view.shape.dtype))
