"""Launch grids for kernels without one."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from tileir.core import NameScope, attrs
from tileir.passes.base import KernelPass, at_least
from tileir.passes.kernels import SCHEDULED, nest_of, schedule as sch
from tileir.poly.affine import Affine
from tileir.schedule import Nest, Refused, refused
from tileir.stripe import ir as stripe


@attrs.frozen
class Thread(KernelPass):
    """Turn the outermost parallel indices of a kernel into grid axes, at most three.

    Attributes:
        groups: Sufficient number of groups; further indices stay loops.
    """

    name: ClassVar[str] = "thread"
    groups: int = attrs.field(default=64, validator=at_least(1))

    def _kernel(self, kernel: stripe.Block) -> stripe.Block | Refused:
        if any(i.binding is stripe.Binding.GRID for i in kernel.indices):
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
        marked = [i.bound(stripe.Binding.GRID) for i in kernel.indices if i.name in chosen]
        others = [i for i in kernel.indices if i.name not in chosen]
        return attrs.evolve(kernel, indices=(*marked, *others))


_SCHEDULED = (stripe.Binding.GRID, stripe.Binding.THREAD, stripe.Binding.UNROLL, stripe.Binding.LANE)
"""Bindings of indices that are already scheduled."""


def independent_indices(kernel: stripe.Block) -> frozenset[str]:
    """Return the indices of a kernel of any form whose values may run in parallel."""
    nest = nest_of(kernel)
    if isinstance(nest, Nest):
        return frozenset(index.name for index in sch.parallel_indices(nest))
    if kernel.is_serial or isinstance(kernel.instruction, stripe.Pipeline):
        return frozenset()  # iterations that copy ahead are those of one group
    merging = [r for r in kernel.refinements if r.direction.writes and r.aggregation is not None and r.aggregation.op]
    usable = (index.name for index in kernel.indices if index.binding not in _SCHEDULED)
    return frozenset(name for name in usable if all(_has_its_own(view, name) for view in merging))


@attrs.frozen
class Shares:
    """Independent indices of a kernel, shared out to the threads of a group.

    Attributes:
        rest: Each thread's share of each index, by name.
        team: The indices of threads, innermost last.
        values: The original indices in terms of both.
        tests: Constraints that hold at points of a thread: last pieces may be short.
    """

    rest: dict[str, stripe.Index]
    team: tuple[stripe.Index, ...]
    values: dict[str, Affine]
    tests: tuple[Affine, ...]


def shared_out(kernel: stripe.Block, threads: int, order: Callable[[str], tuple[int, ...]]) -> Shares:
    """Divide the independent indices of a kernel among threads, those first in ``order`` innermost."""
    allowed = independent_indices(kernel)
    parallel = [i for i in kernel.indices if i.name in allowed and i.range > 1 and i.affine is None]
    names = NameScope.of(i.name for i in kernel.indices)
    rest: dict[str, stripe.Index] = {}
    team: list[stripe.Index] = []
    values: dict[str, Affine] = {}
    ends: list[Affine] = []
    for index in sorted(parallel, key=lambda i: order(i.name)):
        size = _share(index.range, threads)
        threads //= size
        thread = sch.index(names.fresh(f"{index.name}_thread"), size, stripe.Binding.THREAD)
        more = attrs.evolve(index, range=-(-index.range // size))
        rest[index.name] = more
        values[index.name] = sch.part(more, size) + sch.part(thread)
        if more.range * size > index.range:
            ends.append(index.range - 1 - values[index.name])
        team.insert(0, thread)
    return Shares(rest, sch.present(team), values, tuple(ends))


def _share(count: int, threads: int) -> int:
    """Return the number of threads along an index: a divisor of it, if that is more than half of all threads."""
    most = min(count, threads)
    return next((size for size in range(most, most // 2, -1) if count % size == 0), most)


def _has_its_own(view: stripe.Refinement, index: str) -> bool:
    """Return whether distinct values of ``index`` certainly show disjoint elements: it alone moves an axis far."""
    axes = zip(view.access, view.shape.sizes, strict=True)
    return any(a.indices == (index,) and abs(int(a.coefficient(index))) >= size for a, size in axes)
