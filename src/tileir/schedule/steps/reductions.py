"""Steps over reductions: rfactor."""

from __future__ import annotations

from typing import ClassVar

from tileir.core.nodes import attrs
from tileir.poly.affine import Affine
from tileir.schedule.remarks import Refused, refused, refusing, rule_out
from tileir.schedule.steps.legality import taken
from tileir.schedule.steps.loops import expanded, in_array
from tileir.schedule.steps.memory import Accumulate, Level
from tileir.schedule.tree import Item, Known, Loop, Replaced, Tree, leaves, map_leaves, map_uses, with_loops_replaced


@attrs.frozen
class RFactor:
    """Split a reduction into one for each iteration of a loop, and merge their results behind it.

    What the iterations merge into the same elements becomes an array over them, so that they may be lanes, or threads.
    The loop that clears the array is called ``into`` with ``_start`` behind it, the one that merges it ``into`` with
    ``_merge``.

    Attributes:
        memory: What the loop merges into: a tensor that the kernel writes, or memory of the kernel.
        loop: The loop.
        into: The name of the array.
        level: Where it lies.
    """

    name: ClassVar[str] = "rfactor"
    memory: str
    loop: str
    into: str
    level: Level = Level.REGISTER

    @refusing
    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:
        """Return the tree with an array of partial results."""
        rule_out(taken(tree, (self._start, self._merge)))
        uses = [use for leaf in leaves(tree.body) for use in leaf.uses if use.root == self.memory]
        if any(use.merges and use.sizes for use in uses):
            return refused("TR761", loop=self.loop, memory=self.memory)
        new = Accumulate(self.memory, self.loop, self.into, self.level)(tree, known)
        return (
            new if isinstance(new, Refused) else with_loops_replaced(new, self.loop, lambda loop, _: self._apart(loop))
        )

    @property
    def _start(self) -> str:
        return f"{self.into}_start"

    @property
    def _merge(self) -> str:
        return f"{self.into}_merge"

    def _apart(self, loop: Loop) -> Replaced | Refused:
        """Return three loops in place of one that clears, fills and merges memory of each iteration."""
        if self.into not in {each.name for each in loop.allocations}:
            return Replaced((loop,))
        if loop.bound:
            return refused("TR707", loop=loop.name, binding=loop.bound)
        *others, found = loop.allocations
        array = expanded(found, [loop])
        first, *middle, last = map_uses(loop.body, lambda use: in_array(use, [loop], {found.name: array}))
        return Replaced(
            (
                self._over(loop, self._start, first),
                attrs.evolve(loop, body=tuple(middle), allocations=tuple(others), reduces=False),
                attrs.evolve(self._over(loop, self._merge, last), reduces=True),
            ),
            (array,),
        )

    def _over(self, loop: Loop, name: str, item: Item) -> Loop:
        return Loop(name, loop.size, map_leaves((item,), {loop.name: Affine.index(name)}))
