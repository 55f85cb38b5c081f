"""Blocks that move data between memories, and redirection of statements to the moved data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tileir.core import NameScope, attrs, rewritten
from tileir.passes.kernels.walk import fitted, refitted
from tileir.poly.affine import Affine
from tileir.stripe.aliases import Aliases
from tileir.stripe.check.views import is_dense, same_axes
from tileir.stripe.ir import (
    Block,
    Direction,
    Index,
    Load,
    Location,
    Refinement,
    Statement,
    Store,
    Tags,
    TensorShape,
)
from tileir_accelerators.placement.locate import fixed, located_by
from tileir_accelerators.placement.partition import visible
from tileir_accelerators.placement.stored import edges, overhangs


def slot_for(view: Refinement, banks: int) -> Refinement:
    """Return a packed allocation for a view's content; in several banks along its bank axis."""
    shape = view.shape if is_dense(view.shape) else TensorShape.dense(view.shape.dtype, view.shape.sizes)
    access = (Affine(),) * len(shape.dims)
    if banks == 1:
        return Refinement(view.name, Direction.NONE, "", access, shape)
    return Refinement(view.name, Direction.NONE, "", access, shape, bank_dim=view.bank_dim, tags=Tags.of(banks=banks))


def can_move(view: Refinement, users: Iterable[Statement]) -> bool:
    """Return whether statements keep their meaning when a view is replaced by its slot with other strides."""
    return is_dense(view.shape) or all(_keeps_axes(user, view) for user in users if isinstance(user, Block))


def _keeps_axes(block: Block, view: Refinement) -> bool:
    return all(
        same_axes(inner, view) and all(_keeps_axes(nested, inner) for nested in block.blocks)
        for inner in block.refinements
        if inner.direction is not Direction.NONE and inner.source == view.name
    )


@attrs.frozen(eq=False)
class Transfers:
    """Maker of one block's transfers into and out of slots.

    Attributes:
        aliases: The block.
        location: Unit that moves data.
        into: Tags of loads, beside ``xfer``.
        out: Tags of stores, beside ``xfer``.
        overrun: Whether the unit may access memory beyond the edge of a tensor: transfers with constraints against that
            get the tag ``overrun``, which allows dropping the constraints.
    """

    aliases: Aliases
    location: Location
    into: Tags
    out: Tags
    overrun: bool

    def swap_in(self, view: Refinement, slot: Refinement) -> Block:
        """Return the block that copies the content of ``view`` to ``slot``."""
        place, indices, constraints = self._points(view)
        source, target = _element(view, place, Direction.IN), _element(slot, place, Direction.OUT)
        return self._block(f"swap_in_{view.name}", source, target, indices, constraints, self.into)

    def swap_out(self, view: Refinement, slot: Refinement) -> Block:
        """Return the block that copies ``slot`` to ``view``; for an aggregating view, it merges."""
        place, indices, constraints = self._points(view)
        source, target = _element(slot, place, Direction.IN), _element(view, place, Direction.OUT)
        target = attrs.evolve(target, aggregation=view.aggregation)
        return self._block(f"swap_out_{view.name}", source, target, indices, constraints, self.out)

    def _block(
        self,
        name: str,
        source: Refinement,
        target: Refinement,
        indices: tuple[Index, ...],
        constraints: tuple[Affine, ...],
        tags: Tags,
    ) -> Block:
        return Block(
            name=name,
            indices=indices,
            constraints=constraints,
            refinements=(source, target),
            statements=(Load(source.name, "value"), Store("value", target.name)),
            location=self.location,
            tags=tags.add("xfer", *(("overrun",) if constraints and self.overrun else ())),
        )

    def _points(self, view: Refinement) -> tuple[tuple[Affine, ...], tuple[Index, ...], tuple[Affine, ...]]:
        """Return the place of an element in a view, its indices, and the constraints that keep it in bounds."""
        sizes = view.shape.sizes
        place = tuple(Affine.index(f"d{axis}") if size > 1 else Affine() for axis, size in enumerate(sizes))
        indices = [Index(f"d{axis}", size) for axis, size in enumerate(sizes) if size > 1]
        names = NameScope.of(index.name for index in indices)
        known = visible(self.aliases)
        passed: dict[str, str] = {}
        constraints: list[Affine] = []
        places = edges(self.aliases, view.name) or ()
        for axis in overhangs(self.aliases, view.name):
            start, size = places[axis]
            for symbol in start.indices:
                if symbol not in passed:
                    passed[symbol] = names.fresh(known[symbol])
                    indices.append(Index(passed[symbol], 1, Affine.index(known[symbol])))
            at = start.rename(passed) + place[axis]
            tests = (at, size - 1 - at)
            ranges = {index.name: index.range for index in indices if index.affine is None}
            ranges.update((name, self.aliases.ranges[symbol]) for symbol, name in passed.items())
            constraints.extend(test for test in tests if test.bounds(ranges)[0] < 0)
        return place, tuple(indices), tuple(constraints)


def _element(view: Refinement, place: tuple[Affine, ...], direction: Direction) -> Refinement:
    """Return a view of one element of a refinement of the enclosing block."""
    return attrs.evolve(view.element(direction, place), location=fixed(view.location))


def redirected(block: Block, slots: Mapping[str, tuple[Refinement, Refinement]]) -> Block:
    """Return a block that reads its views of the enclosing block from slots.

    ``slots`` has, by name, refinements of the enclosing block with their slots: these have either equal strides, or
    those of :func:`slot_for`, if views keep their axes.
    """
    moved: dict[str, Refinement] = {}
    changed: dict[str, Refinement] = {}
    for view in block.refinements:
        if view.direction is not Direction.NONE and view.source in slots:
            whole, slot = slots[view.source]
            if slot.shape.strides != whole.shape.strides:
                view = changed[view.name] = fitted(view, slot)
            moved[view.name] = attrs.evolve(view, source=slot.name)
    refinements = tuple(moved.get(r.name, r) for r in block.refinements)
    inner = attrs.evolve(block, refinements=refinements, deps=())
    inner = attrs.evolve(inner, statements=rewritten(inner.statements, lambda s: (refitted(s, changed),)))
    located = located_by(inner, {slot.name: slot for _, slot in slots.values()})
    return located if isinstance(located, Block) else inner
