"""Scripts: a pattern of kernels, and steps that rearrange them.

Steps name loops and tensors. A pattern may rename them in order, so that one script serves many kernels; otherwise the
names are the kernel's own. Where a step refuses, the kernel stays unchanged, and the remark gives the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

from tileir.core.nodes import attrs
from tileir.core.targets.template_expressions import Value
from tileir.schedule.application import Rearrangement, rearranged
from tileir.schedule.emission import bodies_of, kernels_of
from tileir.schedule.groups import against_running_ahead, with_threads
from tileir.schedule.remarks import Fact, Refused, accepted, refused, refusing, rule_out
from tileir.schedule.steps.folding import Fold
from tileir.schedule.steps.iterations import Distribute, Fuse, Persist, Sink, Skew
from tileir.schedule.steps.legality import against_names, too_long
from tileir.schedule.steps.loops import Bind, Cut, Jam, Join, Reorder, Specialise, Split
from tileir.schedule.steps.memory import Accumulate, Pipeline, Place, RFactor, Stage
from tileir.schedule.steps.producers import ComputeAt, Inline, JoinKernel
from tileir.schedule.steps.tensors import Interleave, Tensorise, Transpose
from tileir.schedule.tree import Item, Known, Leaf, Loop, Producers, Size, Tree, no_producer, tree_of, walk, with_names
from tileir.stripe import ir as stripe
from tileir.stripe.bindings import Binding

_OfLoops: TypeAlias = Split | Reorder | Join | Jam | Cut | Specialise | Bind | Pipeline | Tensorise | Transpose
_OfIterations: TypeAlias = Fuse | Distribute | Sink | Skew | Persist
_OfMemory: TypeAlias = Stage | Accumulate | RFactor | Place | Interleave | Inline | ComputeAt | JoinKernel | Fold
Step: TypeAlias = _OfLoops | _OfIterations | _OfMemory
"""What a script may say."""


@attrs.frozen
class Parameter:
    """A number that the steps of a script may name, and that a tuner may change."""

    name: str
    value: Size


@attrs.frozen
class Pattern:
    """The kernels that a script applies to.

    Attributes:
        kernel: The name of a kernel, or of one of its launches; empty for any.
        loops: Names for the loops over its outputs, in order; empty for its own names.
        reductions: Names for its reduction loops.
        reads: Names for its input tensors, in order.
        writes: Names for its output tensors.
    """

    kernel: str = ""
    loops: tuple[str, ...] = ()
    reductions: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()

    @classmethod
    def of(cls, tree: Tree, kernel: str = "") -> Pattern:
        """Return the pattern of kernels like one, by its own names."""
        return cls(kernel, *_names(tree))

    @refusing
    def named(self, kernel: stripe.Block) -> Tree | Refused:
        """Return a kernel as a tree, with the names of the pattern."""
        if self.kernel not in ("", kernel.name.partition("(")[0]):
            return refused("TR724", wanted=self.kernel)
        tree = accepted(tree_of(kernel))
        pairs: list[dict[str, str]] = []
        for what, own in zip(("loops", "reductions", "reads", "writes"), _names(tree), strict=True):
            wanted: tuple[str, ...] = getattr(self, what)
            if wanted and len(wanted) != len(own):
                return refused("TR725", what=what, wanted=len(wanted), found=len(own))
            pairs.append(dict(zip(own, wanted, strict=False)))
        loops, roots = {**pairs[0], **pairs[1]}, {**pairs[2], **pairs[3]}
        rule_out(against_names((*loops.values(), *roots.values())))
        held = [*tree.kernel.refinements, *tree.allocations]
        held += (each for loop in tree.loops() for each in loop.allocations)
        for old, new in (((each.name for each in tree.loops()), loops), ((each.name for each in held), roots)):
            called = Counter(new.get(name, name) for name in dict.fromkeys(old))
            if again := [name for name, count in called.items() if count > 1]:
                return refused("TR705", name=again[0])
        return with_names(tree, loops, roots)


def _names(tree: Tree) -> tuple[tuple[str, ...], ...]:
    """Return the names in a tree that a pattern may replace: loops, reductions, inputs and outputs."""
    loops = {loop.name: loop.reduces for loop in tree.loops()}
    roots = [each for each in tree.kernel.refinements if each.direction is not stripe.Direction.NONE]
    return (
        tuple(name for name, reduces in loops.items() if not reduces),
        tuple(name for name, reduces in loops.items() if reduces),
        tuple(each.name for each in roots if not each.direction.writes),
        tuple(each.name for each in roots if each.direction.writes),
    )


@attrs.frozen
class Script:
    """Steps for the kernels that a pattern fits."""

    steps: tuple[Step, ...]
    match: Pattern = Pattern()
    parameters: tuple[Parameter, ...] = ()

    @refusing
    def apply(self, kernel: stripe.Block, producer: Producers = no_producer) -> tuple[stripe.Block, ...] | Refused:
        """Return the kernels that the steps make of a kernel, or the reason why the pattern or a step refuses.

        Args:
            kernel: A kernel without a schedule.
            producer: Returns kernels that steps may compute at a loop, see :class:`~tileir.schedule.tree.Known`.
        """
        tree = accepted(self.match.named(kernel))
        values = accepted(known_values(self.parameters, tree))
        made = kernels_of(accepted(rearranged(tree, self.steps, Known(values, producer), applied)))
        return attrs.evolve(made, facts=(*self._cause(made), *made.facts)) if isinstance(made, Refused) else made

    def _cause(self, refusal: Refused) -> tuple[Fact, ...]:
        """Return as a fact the step that bound a loop, or made memory, that the final tree has no place for."""
        told = dict(refusal.facts)
        causes = (
            ("step", f"{number} {step.name}")
            for number, step in enumerate(self.steps)
            if (isinstance(step, Bind | Transpose) and told.get("loop") in step.loops)
            or told.get("memory") in (getattr(step, "memory", ""), getattr(step, "into", ""))
        )
        return tuple(causes)[-1:]


def known_values(parameters: Iterable[Parameter], tree: Tree) -> dict[str, Value] | Refused:
    """Return the parameters of a script by name, each computed from earlier ones, or the reason why one cannot be."""
    values: dict[str, Value] = {}
    for parameter in parameters:
        value = Known(values).size(parameter.value, tree)
        if isinstance(value, Refused):
            return attrs.evolve(value, facts=(("parameter", parameter.name), *value.facts))
        if parameter.name in values:
            return refused("TR705", name=parameter.name)
        values[parameter.name] = value
    return values


@refusing
def applied(step: Rearrangement, tree: Tree, known: Known) -> Tree | Refused:
    """Return the tree after a step; also refused where bound loops no longer fit the device."""
    new = accepted(step(tree, known))
    grids = [loop.name for loop in new.loops() if loop.binding is Binding.GRID and loop.size > 1]
    if grids and new.allocations:
        return refused("TR758", loop=grids[0], memory=", ".join(each.name for each in new.allocations))
    rule_out(too_long(new.body))
    for body in bodies_of(new):
        rule_out(_against_loops(body) or against_running_ahead(body))
        accepted(with_threads(attrs.evolve(new, body=body), known.values))
    return new


def _against_loops(inside: tuple[Item, ...]) -> Refused | None:
    """Return the reason why bound loops are not nested as a device needs them; None if they are."""
    while len(inside) == 1 and isinstance(inside[0], Loop) and inside[0].binding is Binding.GRID:
        if inside[0].allocations:
            break
        inside = inside[0].body
    below = [item for item in walk(inside) if isinstance(item, Loop)]
    first = below[0] if below else None
    for loop in below:
        outermost = loop is first and inside == (loop,)
        if loop.binding is Binding.GRID and not outermost:
            around = [each.name for each in below if any(inner is loop for inner in walk(each.body))]
            beside = [item.name for item in inside if isinstance(item, Loop) and item is not loop]
            found = {"around": ", ".join(around)} if around else {"beside": ", ".join(beside) or "statements"}
            return refused("TR719", loop=loop.name, **found)
        item = loop.body[0] if len(loop.body) == 1 else None
        inner = item.body if isinstance(item, Loop) and item.binding is Binding.DOT else loop.body
        if loop.binding is Binding.LANE and not (len(inner) == 1 and isinstance(inner[0], Leaf)):
            return refused("TR720", loop=loop.name)
    return None
