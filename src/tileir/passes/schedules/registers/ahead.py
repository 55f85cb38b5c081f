"""Fetching ahead: each step of a reduction over a tile asks for what the same step of a later tile reads.

Where steps are far apart in memory, as pixels of channels that come first are, no hardware foresees the next tile: it
waits for a cache line, and for the place of a page, at each step. Nor does hardware foresee the rows of the next tile,
where several that are read along the steps share a page. A panel that all tiles read again, and that the nearest cache
does not hold, is asked for some steps ahead, by each of them. A step has many multiply-adds, beside which a request
costs next to nothing. What a tile reads after its reduction, as the sums of a shortcut are, it asks for before.
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
"""Fewest multiply-adds of vectors for each request."""

_LEAST_SHARE: Final = LINE // 4
"""Fewest bytes that a step asks for: each line is asked for at most so often."""

_ANSWER_ADDS: Final = 512
"""Multiply-adds of vectors that take about as long as memory takes to answer a request."""

_SHORT: Final = 4
"""Loops over fewer tiles than these end so often that they leave requests to the loop around them."""


def far_roots(nest: Nest, cache_bytes: int, panel_bytes: int) -> frozenset[str]:
    """Return the roots of which a nest reads more than lies near: of panels, as layers have, twice a cache."""
    near_bytes = 2 * cache_bytes if PANELS in nest.kernel.tags else panel_bytes
    seen = ((use, segment.loops) for segment in nest.segments for use in sch.reads_of(nest, segment))
    reads = ((use, loops) for use, loops in seen if not use.direction.writes)
    return frozenset(use.root for use, loops in reads if touched(use, (*nest.indices, *loops)) > near_bytes)


@attrs.frozen
class Tile:
    """Tile whose steps ask for what later tiles read.

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
        """Yield the requests of one step for what is read through a use; none where hardware foresees it.

        With ``shares``, a step asks for its share of rows that follow each other: where a group packs panels first, the
        caches have better to do.
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
        """Return how far from a step with so many multiply-adds lies what it asks for, in elements.

        Tiles that read the same again, from where it does not all fit, ask for what a later step of theirs reads;
        others, and those with few steps, for what the next tile does.
        """
        again = prod(i.range for i in self.around[self.around.index(later) + 1 :]) > 1
        steps = 1
        for index in reversed(self._moving(use)) if again else ():
            if steps * index.range * adds > _ANSWER_ADDS:
                return use.stride(index.name) * -(-_ANSWER_ADDS // (steps * adds))
            steps *= index.range
        return use.stride(later.name)

    def _share(self, use: Use) -> int:
        """Return how many elements a step asks for where rows of a tile follow each other, each read along its steps.

        A tile is one piece of memory then, of which each step asks for its share; 0 where it is not, or where that is
        more than a cache line, or so little that each line would be asked for again and again.
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
        """Return the loop whose next iteration reads elsewhere; None without such."""
        moving = [i for i in self.around if use.stride(i.name) and i.range > 1]
        if len(moving) > 1 and moving[-1].range < _SHORT:
            return moving[-2]
        return moving[-1] if moving else None

    def _is_apart(self, use: Use) -> bool:
        """Return whether steps read other cache lines each."""
        strides = [abs(use.stride(i.name)) * use.dtype.itemsize for i in self.steps if use.stride(i.name)]
        return bool(strides) and min(strides) >= LINE

    def _lines(self, use: Use) -> tuple[int, ...]:
        """Return an element of each cache line of a step, the last one first; none where these are apart.

        A tile begins in the line in which the one before it ends, so that the last elements are what is new.
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
    """Return requests for all that a tile reads through a use at the points ``inside`` of it.

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
