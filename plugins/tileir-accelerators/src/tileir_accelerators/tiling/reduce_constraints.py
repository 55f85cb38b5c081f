"""Removal of implied constraints, and tightening of index ranges to the values that constraints allow.

Canonicalisation looks at one constraint at a time and at the box alone. Here integer programming
(:mod:`tileir.poly.simplex`) decides over the constraints of the block and of all enclosing blocks, so that the
remaining constraints are needed. PlaidML's Stripe has both degrees as light and as ILP constraint reduction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from tileir.core import attrs, rewritten
from tileir.passes.base import KernelPass
from tileir.passes.regions.narrowing import narrowed
from tileir.poly.affine import Affine
from tileir.poly.box import enclose, feasible
from tileir.poly.constraint import Span, System, system
from tileir.schedule.reindex import reindexed
from tileir.stripe.ir import Block, Index, Statement


@attrs.frozen
class ReduceConstraints(KernelPass):
    """Drop implied constraints, shorten index ranges, and drop blocks without points.

    Indices with tags keep their ranges, since schedules rely on them.

    Attributes:
        reqs: Tags of the kernels to simplify.
        skip_indices: Names of indices that keep their ranges.
    """

    name: ClassVar[str] = "reduce_constraints"
    reqs: tuple[str, ...] = ()
    skip_indices: tuple[str, ...] = ()

    def _kernel(self, kernel: Block) -> tuple[Block, ...]:
        return tuple(narrowed(block, kernel) for block in self._block(kernel, _Surroundings(), {}))

    def _block(self, block: Block, outer: _Surroundings, values: Mapping[str, Affine]) -> tuple[Block, ...]:
        """Return the simplified block; nothing if it has no point.

        ``values`` are the indices of the parent, in terms of those of ``outer``.
        """
        block, inner, own = self._shortened(block, outer, values)
        if inner is None:
            return ()
        kept: list[Affine] = []
        absolute = [constraint.substitute(own) for constraint in block.constraints]
        live = list(absolute)
        for constraint, place in zip(block.constraints, absolute, strict=True):
            others = [c for c in live if c is not place]
            if inner.implies(place, others):
                live = others
            else:
                kept.append(constraint)
        inner = inner.with_constraints(live)
        if len(kept) != len(block.constraints):
            block = attrs.evolve(block, constraints=tuple(kept))

        def shorter(statement: Statement) -> tuple[Statement, ...]:
            return self._block(statement, inner, own) if isinstance(statement, Block) else (statement,)

        statements = rewritten(block.statements, shorter)
        if statements is block.statements:
            return (block,)
        if len(statements) != len(block.statements):
            statements = tuple(attrs.evolve(s, deps=()) if s.deps else s for s in statements)
        return (attrs.evolve(block, statements=statements),)

    def _shortened(
        self, block: Block, outer: _Surroundings, values: Mapping[str, Affine]
    ) -> tuple[Block, _Surroundings | None, dict[str, Affine]]:
        """Return the block over the actual values of its indices, its surroundings, and its indices there."""
        inner, own = outer.entered(block.indices, values)
        constraints = [constraint.substitute(own) for constraint in block.constraints]
        spans = inner.spans(constraints)
        if spans is None:
            return block, None, own
        indices: list[Index] = []
        moves: dict[str, Affine] = {}
        for index in block.indices:
            low, high = spans[inner.variables[index.name]]
            fixed = index.is_marked or index.name in self.skip_indices
            if fixed or (low, high) == (0, index.range - 1):
                indices.append(index)
                continue
            start = None if index.affine is None else index.affine + low
            indices.append(attrs.evolve(index, range=high - low + 1, affine=start))
            if low and start is None:
                moves[index.name] = Affine.index(index.name) + low
        if tuple(indices) == block.indices:
            return block, inner, own
        block = reindexed(block, tuple(indices), moves)
        inner, own = outer.entered(block.indices, values)
        return block, inner, own


@attrs.frozen(repr=False)
class _Surroundings:
    """Facts at a block: variables with their spans, and constraints that hold.

    ``variables`` names the variable of each index of the innermost block: its distance from its start.
    """

    ranges: Mapping[str, int] = attrs.field(factory=dict)
    constraints: tuple[Affine, ...] = ()
    variables: Mapping[str, str] = attrs.field(factory=dict)

    def entered(
        self, indices: Sequence[Index], values: Mapping[str, Affine]
    ) -> tuple[_Surroundings, dict[str, Affine]]:
        """Return the surroundings inside a block with these indices, and the value of each index there."""
        variables = {index.name: f"{len(self.ranges) + number}" for number, index in enumerate(indices)}
        own: dict[str, Affine] = {}
        for index in indices:
            start = Affine() if index.affine is None else index.affine.substitute(values)
            own[index.name] = start + Affine.index(variables[index.name])
        ranges = {**self.ranges, **{variables[index.name]: index.range for index in indices}}
        return _Surroundings(ranges, self.constraints, variables), own

    def with_constraints(self, constraints: Sequence[Affine]) -> _Surroundings:
        """Return these surroundings with further constraints."""
        return attrs.evolve(self, constraints=(*self.constraints, *constraints))

    def spans(self, constraints: Sequence[Affine]) -> dict[str, tuple[int, int]] | None:
        """Return the minimum and maximum of each variable under further constraints; None without a point."""
        known = self._system(constraints)
        bounded = None if known is None else enclose(known)
        return None if bounded is None else dict(bounded.box)

    def implies(self, constraint: Affine, others: Sequence[Affine]) -> bool:
        """Return whether a constraint is certainly implied by the known constraints and ``others``."""
        known = self._system((*others, -1 - constraint))
        return known is None or feasible(known) is False

    def _system(self, constraints: Sequence[Affine]) -> System | None:
        box: dict[str, Span] = {name: (0, count - 1) for name, count in self.ranges.items()}
        return system(box, [(c, None) for c in (*self.constraints, *constraints)], box)
