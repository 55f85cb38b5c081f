"""A launch grid for kernels that no other pass has given one."""

from __future__ import annotations

from typing import ClassVar

import attrs

from tileir.passes.base import at_least, map_kernels
from tileir.passes.kernels import schedule as sch
from tileir.passes.kernels.forms import SCHEDULED
from tileir.passes.kernels.merge import nest_of
from tileir.schedule.nest import Nest
from tileir.schedule.remarks import Refused, refused
from tileir.stripe import ir as stripe
from tileir.stripe.blocks import Binding


@attrs.frozen
class Thread:
    """Turn the outermost parallel indices of a kernel into grid axes, at most three.

    Attributes:
        groups: How many groups are enough; further indices stay loops.
    """

    name: ClassVar[str] = "thread"
    groups: int = attrs.field(default=64, validator=at_least(1))

    def __call__(self, program: stripe.Program) -> stripe.Program:
        """Return the program with a grid on each kernel that can have one."""
        return map_kernels(program, self._kernel)

    def _kernel(self, kernel: stripe.Block) -> stripe.Block | Refused:
        if any(i.binding is Binding.GRID for i in kernel.indices):
            return SCHEDULED
        allowed = independent_indices(kernel)
        chosen: list[str] = []
        groups = 1
        for index in kernel.indices:
            if groups >= self.groups or len(chosen) == 3:
                break
            if index.name in allowed and index.range > 1 and index.affine is None:
                chosen.append(index.name)
                groups *= index.range
        if not chosen:
            return refused("TR211", indices=len(kernel.indices))
        # Grid indices come first: the loops that stay run inside each group.
        marked = [i.bound(Binding.GRID) for i in kernel.indices if i.name in chosen]
        others = [i for i in kernel.indices if i.name not in chosen]
        return attrs.evolve(kernel, indices=(*marked, *others))


_SCHEDULED = (Binding.GRID, Binding.THREAD, Binding.UNROLL, Binding.LANE)
"""Indices with these bindings have their place in a schedule already."""


def independent_indices(kernel: stripe.Block) -> frozenset[str]:
    """Return the indices of a kernel, of whatever form, whose values may run at the same time."""
    nest = nest_of(kernel)
    if isinstance(nest, Nest):
        return frozenset(index.name for index in sch.parallel_indices(nest))
    if kernel.is_serial:
        return frozenset()
    merging = [r for r in kernel.refinements if r.direction.writes and r.aggregation is not None and r.aggregation.op]
    usable = (index.name for index in kernel.indices if index.binding not in _SCHEDULED)
    return frozenset(name for name in usable if all(_has_its_own(view, name) for view in merging))


def _has_its_own(view: stripe.Refinement, index: str) -> bool:
    """Return whether different values of ``index`` surely show different elements: it alone moves an axis far."""
    axes = zip(view.access, view.shape.sizes, strict=True)
    return any(a.indices == (index,) and abs(int(a.coefficient(index))) >= size for a, size in axes)
