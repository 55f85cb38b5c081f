"""Application of steps to kernels, shared by scripts and by passes that schedule by steps.

Callers name the steps: a pass loads the few that it uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import ClassVar, Protocol

from tileir.core.nodes import attrs
from tileir.schedule.emission import kernels_of
from tileir.schedule.nest import Nest
from tileir.schedule.remarks import Done, Fact, Refused, accepted, refusing, strongest
from tileir.schedule.tree import Known, Tree, tree_of_nest
from tileir.stripe import ir as stripe


class Rearrangement(Protocol):
    """A step, of scripts or of a pass that schedules by steps."""

    name: ClassVar[str]

    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:
        """Return the tree rearranged, or the reason why it cannot be."""


def done_by_steps(made: tuple[stripe.Block, ...] | Refused) -> Done | Refused:
    """Return the kernels that steps made, with the masked lanes of vectors as a fact for remarks."""
    if isinstance(made, Refused):
        return made
    masked: dict[str, None] = {}
    blocks = [*made]
    for block in blocks:
        blocks += block.blocks
        lanes = {index.name for index in block.indices if index.binding is stripe.Binding.LANE}
        masked.update(dict.fromkeys(name for test in block.constraints for name in test.indices if name in lanes))
    return Done(made, (("masked", ", ".join(masked)),) if masked else ())


@attrs.frozen(repr=False)
class Candidate:
    """Scripts that a strategy offers for a kernel.

    Attributes:
        parts: Nests that replace the kernel, in order, each with the steps of its script.
        facts: Facts for remarks, such as the sizes of a tile.
    """

    parts: tuple[tuple[Nest, Iterable[Rearrangement]], ...]
    facts: tuple[Fact, ...] = ()

    @classmethod
    def of(cls, nest: Nest, steps: Iterable[Rearrangement], **facts: bool | int | float | str) -> Candidate:
        """Return the candidate of one script, with facts as keywords."""
        return cls(((nest, steps),), tuple(facts.items()))

    @refusing
    def made(self) -> Done | Refused:
        """Return the kernels that the steps make, or the reason why one of them refuses.

        A strategy gives sizes, names and bound loops that fit the device, so that these are not checked after each
        step.
        """
        kernels: list[stripe.Block] = []
        for nest, steps in self.parts:
            known = Known(trusted=True)
            tree = accepted(
                rearranged(tree_of_nest(nest), _together(steps), known, lambda step, tree, known: step(tree, known))
            )
            kernels += accepted(kernels_of(tree, knowing=True))
        return Done(tuple(kernels), self.facts)


def _together(steps: Iterable[Rearrangement]) -> Iterator[Rearrangement]:
    """Yield steps, with one step for neighbours that can change a kernel in one pass."""
    for kind, neighbours in groupby(steps, type):
        run = tuple(neighbours)
        at_once = getattr(kind, "at_once", None)
        yield from run if at_once is None else at_once(run)


@refusing
def first_that_fits(candidates: Iterable[Candidate | Refused]) -> Done | Refused:
    """Return the kernels of the first candidate that no step refuses.

    If all are refused, return the strongest reason. ``candidates`` may end early by the functions for use in
    :func:`~tileir.schedule.remarks.refusing`: no candidate comes after that.
    """
    said: list[Refused] = []
    for candidate in candidates:
        made = candidate if isinstance(candidate, Refused) else candidate.made()
        if not isinstance(made, Refused):
            return made
        said.append(made)
    return strongest(said)


def rearranged(
    tree: Tree,
    steps: Iterable[Rearrangement],
    known: Known,
    apply: Callable[[Rearrangement, Tree, Known], Tree | Refused],
) -> Tree | Refused:
    """Return a tree rearranged by steps in order, or the reason why one of them refuses."""
    for number, step in enumerate(steps):
        new = apply(step, tree, known)
        if isinstance(new, Refused):
            return attrs.evolve(new, facts=(("step", f"{number} {step.name}"), *new.facts))
        tree = new
    return tree
