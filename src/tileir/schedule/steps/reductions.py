"""Steps over reductions: rfactor."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

from tileir.core.nodes import attrs
from tileir.poly.affine import Affine
from tileir.schedule.nest import Use
from tileir.schedule.remarks import Refused, accepted, refused, refusing, rule_out
from tileir.schedule.steps.legality import taken
from tileir.schedule.steps.memory import Accumulate, Level
from tileir.schedule.tree import (
    Item,
    Known,
    Loop,
    Replaced,
    Size,
    Tree,
    leaves,
    map_leaves,
    map_uses,
)
from tileir.stripe import ir as stripe


@attrs.frozen
class RFactor:
    """Split a reduction into one for each iteration of a loop, and merge their results behind it.

    What the iterations merge into the same elements becomes an array over them, so that they may be lanes, or threads.
    The loop that clears the array is called ``into`` with ``_start`` behind it, the one that merges it ``into`` with
    ``_merge``. Where results are first merged into fewer of them, as those of many threads, the loops that do so are
    called ``into`` with ``_more_`` and ``_left_`` and the number of the level, and merge what is so far apart.

    Attributes:
        memory: What the loop merges into: a tensor that the kernel writes, or memory of the kernel.
        loop: The loop.
        into: The name of the array.
        level: Where it lies.
        through: How many elements are left after each level of a tree, before they are merged into the memory.
    """

    name: ClassVar[str] = "rfactor"
    memory: str
    loop: str
    into: str
    level: Level = Level.REGISTER
    through: tuple[Size, ...] = ()

    @refusing
    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:
        """Return the tree with an array of partial results."""
        through = accepted(known.sizes(self.through, tree))
        levels = [f"{self.into}_{what}_{level}" for level in range(len(through)) for what in ("more", "left")]
        rule_out(taken(known, tree, (self._start, self._merge, *levels)))
        uses = (use for leaf in leaves(tree.body) for use in leaf.uses if use.root == self.memory)
        if any(use.sizes and use.merges for use in uses):
            return refused("TR761", loop=self.loop, memory=self.memory)
        apart = Accumulate(self.memory, self.loop, self.into, self.level)
        ends = self._start, self._merge
        return apart.applied(tree, known, lambda *found: self._apart(*found, through=through), array=ends)

    @property
    def _start(self) -> str:
        return f"{self.into}_start"

    @property
    def _merge(self) -> str:
        return f"{self.into}_merge"

    def _apart(
        self, loop: Loop, array: stripe.Refinement, body: tuple[Item, ...], *, through: Sequence[int]
    ) -> Replaced | Refused:
        """Return loops in turn in place of one that clears, fills and merges memory of each iteration."""
        if loop.bound:
            return refused("TR707", loop=loop.name, binding=loop.bound)
        levels = [*pairwise((loop.size, *through))]
        if uneven := [(size, left) for size, left in levels if size % left or size == left]:
            return refused("TR706", loop=loop.name, size=uneven[0][0], factor=uneven[0][1])
        first, *middle, last = body
        merge = map_leaves((last,), {loop.name: Affine.index(self._merge)})
        return Replaced(
            (
                Loop(self._start, loop.size, (first,)),
                attrs.evolve(loop, body=tuple(middle), reduces=False),
                *(self._level(last, number, *sizes) for number, sizes in enumerate(levels)),
                Loop(self._merge, (loop.size, *through)[-1], merge, reduces=True),
            ),
            (array,),
        )

    def _level(self, last: Item, number: int, size: int, left: int) -> Item:
        """Return loops that merge ``size`` elements of the array into ``left`` of them."""
        more, first = f"{self.into}_more_{number}", f"{self.into}_left_{number}"
        (own,) = [use for leaf in leaves((last,)) for use in leaf.uses if use.root == self.into]
        other = own.substitute({self._merge: Affine.of({more: left, first: 1}, left)})
        target = own.substitute({self._merge: Affine.index(first)})

        def towards_first(use: Use) -> Use:
            place = attrs.evolve(use, root=target.root, access=target.access, strides=target.strides)
            return other if use is own else place

        inner = Loop(first, left, map_uses((last,), towards_first))
        return Loop(more, size // left - 1, (inner,), reduces=True)
