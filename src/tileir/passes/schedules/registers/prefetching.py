"""Software prefetching: each step of a reduction over a tile prefetches the inputs of that step of a later tile.

If steps are far apart in memory, as with channels-first pixels, no hardware prefetcher foresees the next tile: it waits
for a cache line and a TLB entry at each step. Nor does hardware foresee the rows of the next tile if several that are
read along the steps share a page. A panel that all tiles read again, and that exceeds the nearest cache, is prefetched
some steps ahead by each of them. A step has many multiply-adds, beside which a prefetch costs next to nothing. Inputs
after the reduction, such as residual inputs, are prefetched before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Final

from tileir.core import NameScope, attrs
from tileir.passes.kernels import schedule as sch
from tileir.passes.layouts.lay_panels import PANELS
from tileir.passes.schedules.registers.packing import is_dense
from tileir.passes.schedules.registers.steps import LINE, touched
from tileir.poly.affine import Affine
from tileir.schedule.nest import Nest, Node, Use
from tileir.stripe import ir as stripe

_LEAST_ADDS: Final = 6
"""Minimum vector multiply-adds per prefetch."""

_LEAST_SHARE: Final = LINE // 4
"""Minimum bytes that a step prefetches, which bounds the prefetches per line."""

_ANSWER_ADDS: Final = 512
"""Memory latency in vector multiply-adds."""

_SHORT: Final = 4
"""Minimum tiles of a loop that prefetches; shorter loops end too often and leave it to the outer loop."""


def far_roots(nest: Nest, cache_bytes: int, panel_bytes: int) -> frozenset[str]:
    """Return the roots of which a nest reads more than nearby caches hold: for panels, twice a cache."""
    near_bytes = 2 * cache_bytes if PANELS in nest.kernel.tags else panel_bytes
    seen = ((use, segment.loops) for segment in nest.segments for use in sch.reads_of(nest, segment))
    reads = ((use, loops) for use, loops in seen if not use.direction.writes)
    return frozenset(use.root for use, loops in reads if touched(use, (*nest.indices, *loops)) > near_bytes)


@attrs.frozen
class Tile:
    """A tile whose steps prefetch inputs of later tiles.

    Attributes:
        around: The loops around the reduction, outermost first.
        steps: The loops of the reduction.
        inside: The indices of a step.
        values: The indices of the nest in terms of these.
    """

    around: Sequence[stripe.Index]
    steps: Sequence[stripe.Index]
    inside: Sequence[stripe.Index]
    values: Mapping[str, Affine]

    def requests(self, use: Use, *, shares: bool = False) -> Iterator[Node]:
        """Yield the prefetches of one step for a use; none if hardware foresees its reads.

        With ``shares``, a step prefetches its share of consecutive rows; groups that first pack panels have no spare
        cache bandwidth for that.
        """
        place = use.substitute(self.values)
        later, lines = self._later(place), self._lines(place)
        if later is None:
            return
        if share := self._share(place) if shares else 0:
            (step,) = self._moving(place)
            moved = {**{i.name: Affine() for i in self.inside}, step.name: sch.part(step, share)}
            first = attrs.evolve(place, access=(place.address.substitute(moved),), strides=(1,), sizes=())
            yield _request(use.name, place.stride(later.name), first)
            return
        if not lines or not self._is_apart(place):
            return
        adds = prod(i.range for i in self.inside if i.binding is not stripe.Binding.LANE)
        if adds < _LEAST_ADDS * len(lines):
            return
        first = place.substitute({i.name: Affine() for i in self.inside})
        ahead = self._ahead(place, later, adds)
        for line in lines:
            yield _request(use.name, ahead + line, first)

    def _ahead(self, use: Use, later: stripe.Index, adds: int) -> int:
        """Return the prefetch distance, in elements, of a step with ``adds`` multiply-adds.

        Tiles that read an operand again that exceeds the cache prefetch for one of their own later steps; others, and
        those with few steps, for the next tile.
        """
        again = prod(i.range for i in self.around[self.around.index(later) + 1 :]) > 1
        steps = 1
        for index in reversed(self._moving(use)) if again else ():
            if steps * index.range * adds > _ANSWER_ADDS:
                return use.stride(index.name) * -(-_ANSWER_ADDS // (steps * adds))
            steps *= index.range
        return use.stride(later.name)

    def _share(self, use: Use) -> int:
        """Return the elements that a step prefetches if the rows of a tile are consecutive, each read along its steps.

        A tile is then one piece of memory, of which each step prefetches its share; 0 if it is not, or if the share is
        more than a cache line, or so small that lines would be prefetched repeatedly.
        """
        moving = self._moving(use)
        if len(moving) != 1 or use.stride(moving[0].name) != 1:
            return 0
        inside = [i for i in self.inside if use.stride(i.name)]
        if not is_dense(use, inside, moving[0].range):
            return 0
        share = prod(i.range for i in inside)
        adds = prod(i.range for i in self.inside if i.binding is not stripe.Binding.LANE)
        fits = _LEAST_SHARE <= share * use.dtype.itemsize <= LINE
        return share if fits and adds >= _LEAST_ADDS else 0

    def _moving(self, use: Use) -> list[stripe.Index]:
        return [i for i in self.steps if use.stride(i.name) and i.range > 1]

    def _later(self, use: Use) -> stripe.Index | None:
        """Return the loop whose next iteration reads elsewhere; None if there is none."""
        moving = [i for i in self.around if use.stride(i.name) and i.range > 1]
        if len(moving) > 1 and moving[-1].range < _SHORT:
            return moving[-2]
        return moving[-1] if moving else None

    def _is_apart(self, use: Use) -> bool:
        """Return whether steps read distinct cache lines."""
        strides = [abs(use.stride(i.name)) * use.dtype.itemsize for i in self.steps if use.stride(i.name)]
        return bool(strides) and min(strides) >= LINE

    def _lines(self, use: Use) -> tuple[int, ...]:
        """Return an element of each cache line of a step, the last one first; none if they are strided.

        A tile begins in the line in which the previous one ends, so that only the last elements are new.
        """
        size, reach = use.dtype.itemsize, 0
        for stride, count in sorted((use.stride(i.name) * size, i.range) for i in self.inside):
            if not 0 <= stride <= max(reach + size, LINE):
                return ()
            reach += stride * (count - 1)
        return tuple(range(reach // size, -1, -LINE // size))


def _request(name: str, ahead: int, use: Use) -> Node:
    return Node(statements=(stripe.Special("prefetch", (name,), (), (("ahead", ahead),)),), uses=(use,))


def before_tile(use: Use, inside: Sequence[stripe.Index], values: Mapping[str, Affine], names: NameScope) -> Node:
    """Return prefetches for all reads of a tile through a use, at the points ``inside`` of it.

    ``values`` has the indices of the nest in terms of all loops; ``names`` holds all names of the kernel.
    """
    place, size = use.substitute(values), use.dtype.itemsize
    apart: list[stripe.Index] = []
    moved: dict[str, Affine] = {}
    reach = 0
    for index in sorted(inside, key=lambda i: abs(place.stride(i.name))):
        stride = place.stride(index.name) * size
        if 0 <= stride <= max(reach + size, LINE) and not (apart and stride):
            reach += stride * (index.range - 1)
            moved[index.name] = Affine()
        else:
            apart.append(sch.index(names.fresh(f"{index.name}_asked"), index.range))
            moved[index.name] = sch.part(apart[-1])
    lines = range(0, reach // size + 1, LINE // size)
    asked = tuple(stripe.Special("prefetch", (use.name,), (), (("ahead", line),)) for line in lines)
    return Node(tuple(sch.present(apart)), statements=asked, uses=(place.substitute(moved),))
