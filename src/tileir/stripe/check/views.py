"""Checks that the views of a block fit their sources."""

from __future__ import annotations

from collections.abc import Iterator

from tileir.core.errors import Diagnostic
from tileir.poly.affine import Affine, Rational
from tileir.stripe.check.scope import Scope
from tileir.stripe.ir import Block, Direction, Refinement, TensorShape


def check_sources(scope: Scope) -> Iterator[Diagnostic]:
    """Allocations have no source, views have one in the parent, of the same dtype."""
    for view in scope.block.refinements:
        if (view.direction is Direction.NONE) != (view.source == ""):
            message = f"{view.name!r} in {scope.place}: only an allocation, direction none, has no source"
            yield Diagnostic("TIL504", message)
        elif view.direction is Direction.NONE:
            yield from _check_allocation(scope, view)
        elif (source := scope.source(view)) is None:
            message = f"{view.name!r} in {scope.place} views {view.source!r}, which the block around it does not have"
            yield Diagnostic("TIL503", message)
        elif source.shape.dtype is not view.shape.dtype:
            message = (
                f"{view.name!r} in {scope.place} has dtype {view.shape.dtype.value}, but views"
                f" {source.shape.dtype.value}: convert the scalars instead"
            )
            yield Diagnostic("TIL504", message)


def _check_allocation(scope: Scope, view: Refinement) -> Iterator[Diagnostic]:
    if any(affine.terms or affine.offset != 0 for affine in view.access):
        yield Diagnostic("TIL504", f"the allocation {view.name!r} in {scope.place} must have accesses 0 only")
    if any(dim.stride < 0 for dim in view.shape.dims):
        yield Diagnostic("TIL504", f"the allocation {view.name!r} in {scope.place} must have no negative strides")


def check_access(scope: Scope) -> Iterator[Diagnostic]:
    """There is one integral affine of the block's own indices for each dim, and no size is negative."""
    values = scope.values
    for view in scope.block.refinements:
        if len(view.access) != len(view.shape.dims):
            message = f"{view.name!r} in {scope.place} has {len(view.access)} accesses for {len(view.shape.dims)} dims"
            yield Diagnostic("TIL504", message)
        if any(dim.size < 0 for dim in view.shape.dims):
            yield Diagnostic("TIL504", f"{view.name!r} in {scope.place} has a negative size")
        for affine in view.access:
            if not affine.is_integral:
                message = f"{view.name!r} in {scope.place}: the access {affine} must have whole coefficients"
                yield Diagnostic("TIL505", message)
            for name in affine.indices:
                if name not in values:
                    message = f"{view.name!r} in {scope.place}: {affine} uses {name!r}, no index of the block"
                    yield Diagnostic("TIL505", message)


def check_bounds(scope: Scope) -> Iterator[Diagnostic]:
    """Check that a view stays within its source.

    The test is exact if all points of the box run. With constraints, a view may extend beyond the edge, as for the last
    tile of an axis, as long as they keep these elements from being accessed; the interpreter checks that.
    """
    if scope.parent is None:
        return
    for view in scope.block.refinements:
        source = scope.source(view)
        if source is None or len(view.access) != len(view.shape.dims) or 0 in view.shape.sizes:
            continue
        fault = _overhang(scope, view, source)
        if fault is not None and not (scope.guarded or has_constraints(scope.block)):
            yield Diagnostic("TIL504", f"{view.name!r} in {scope.place} {fault}")


def _overhang(scope: Scope, view: Refinement, source: Refinement) -> str | None:
    """Return how ``view`` leaves ``source``; None if it stays inside.

    A view without some axis may still have other axes, some of which happen to have the same strides.
    """
    if not same_axes(view, source):
        return _flat_overhang(scope, view, source)
    fault = _axis_overhang(scope, view, source)
    if fault is None or view.shape.strides == source.shape.strides:
        return fault
    return None if _flat_overhang(scope, view, source) is None else fault


def _axis_overhang(scope: Scope, view: Refinement, source: Refinement) -> str | None:
    for axis, (affine, dim, outer) in enumerate(zip(view.access, view.shape.dims, source.shape.dims, strict=True)):
        low, high = _extent(scope, affine, dim.size)
        if low < 0 or high > outer.size:
            return f"covers {low} to {high} of axis {axis} of {source.name!r}, which has {outer.size}"
    return None


def _extent(scope: Scope, affine: Affine, size: int) -> tuple[Rational, Rational]:
    if not affine.terms:
        return affine.offset, affine.offset + size
    low, high = scope.bounds(affine)
    return low, high + size


def _flat_overhang(scope: Scope, view: Refinement, source: Refinement) -> str | None:
    """Return how a view with other axes than its source leaves it, counted in elements."""
    if not is_compact(source.shape):
        return f"has other axes than {source.name!r}, whose elements must lie without gaps for that"
    low: Rational = 0
    high: Rational = 1
    for affine, dim in zip(view.access, view.shape.dims, strict=True):
        first, last = (dim.stride * bound for bound in scope.bounds(affine))
        reach = (dim.size - 1) * dim.stride
        low += min(first, last) + min(0, reach)
        high += max(first, last) + max(0, reach)
    if low < 0 or high > source.shape.elements:
        return f"covers elements {low} to {high} of {source.name!r}, which has {source.shape.elements}"
    return None


def same_axes(view: Refinement, source: Refinement) -> bool:
    """Return whether ``view`` has the axes of ``source``, so that the access counts along them.

    The stride of an axis along which the view neither moves nor extends does not matter.
    """
    mine, outer = view.shape.dims, source.shape.dims
    if len(mine) != len(outer):
        return False
    return all(
        a.stride == b.stride or (a.size == 1 and not affine.terms and affine.offset == 0)
        for a, b, affine in zip(mine, outer, view.access, strict=True)
    )


def is_dense(shape: TensorShape) -> bool:
    """Return whether the elements of ``shape`` are row-major without gaps."""
    expected = 1
    for dim in reversed(shape.dims):
        if dim.size != 1 and dim.stride != expected:
            return False
        expected *= dim.size
    return True


def is_compact(shape: TensorShape) -> bool:
    """Return whether the elements of ``shape`` fill their memory, in any order of axes."""
    expected = 1
    for dim in sorted((dim for dim in shape.dims if dim.size != 1), key=lambda dim: dim.stride):
        if dim.stride != expected:
            return False
        expected *= dim.size
    return True


def has_constraints(block: Block) -> bool:
    """Return whether ``block`` or a nested block has constraints."""
    return any(inner.constraints for inner in block.nested())
