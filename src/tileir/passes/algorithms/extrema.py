"""Positions of extrema by two aggregations: the extremum, and then the least or greatest position of it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tileir.core import Aggregation, Combine, DType, NameScope, Op, attrs, needed
from tileir.passes.algorithms.combines import TupleReduction
from tileir.poly.affine import Affine
from tileir.stripe import ir as stripe
from tileir.stripe.reductions import state_of

_MAXIMA = (Combine.ARGMAX, Combine.LAST_ARGMAX)
_LAST = (Combine.LAST_ARGMAX, Combine.LAST_ARGMIN)


def extremum_and_position(
    found: TupleReduction, temporaries: NameScope
) -> tuple[list[stripe.Block], list[stripe.Refinement]] | None:
    """Return flat kernels that find an extremum and its position; None if a state is something else.

    If only one of the two is stored, the other one is omitted, or an added temporary.
    """
    if not found.reduction.combine.is_extremum:
        return None
    stores = {s.into: s.source for s in found.step.statements if isinstance(s, stripe.Store)}
    chosen = {s.into: s for s in found.step.statements if isinstance(s, stripe.Intrinsic) and s.op is Op.COND}
    best, place = (chosen.get(stores[name]) for name in state_of(found.step))
    if best is None or place is None:
        return None
    values = [found.kernel.refinement(use.name) for number, use in found.results if number == 0]
    places = [found.kernel.refinement(use.name) for number, use in found.results if number == 1]
    stem = found.kernel.refinements[0].source
    best_of = _Temporary.of(temporaries.fresh(f"{stem}_best"), found.reduction.rule.state[0], found.outer)
    candidates = _Temporary.of(temporaries.fresh(f"{stem}_places"), found.reduction.positions, _in_memory(found))
    names = NameScope.of((*(use.name for use in found.reads), *(use.name for _, use in found.results)))
    targets = values or [best_of.view(names.fresh("best"))]
    places_of = candidates.view(names.fresh("candidate"))
    added = [each.memory for each, used in ((best_of, not values), (candidates, bool(places))) if used]
    aggregation = Aggregation.MAX if found.reduction.combine in _MAXIMA else Aggregation.MIN
    blocks = [_extremum(found, best.inputs[1], target, aggregation) for target in targets]
    if places:
        blocks.append(_candidates(found, (best.inputs[1], place.inputs[1]), targets[0], places_of))
        blocks.extend(_least(found, attrs.evolve(places_of, direction=stripe.Direction.IN), each) for each in places)
    return blocks, added


@attrs.frozen(repr=False)
class _Temporary:
    """Memory with an element for each point of some indices."""

    memory: stripe.Refinement
    indices: tuple[stripe.Index, ...]

    @classmethod
    def of(cls, name: str, dtype: DType, indices: tuple[stripe.Index, ...]) -> _Temporary:
        """Return dense memory with this name."""
        return cls(stripe.allocation(name, dtype, [index.range for index in indices]), indices)

    def view(self, name: str) -> stripe.Refinement:
        """Return the view that writes the element of a point."""
        return self.memory.element(stripe.Direction.OUT, (Affine.index(index.name) for index in self.indices), name)


def _in_memory(found: TupleReduction) -> tuple[stripe.Index, ...]:
    """Return all indices, none of them serial, in memory order of the elements."""
    indices = (attrs.evolve(index, serial=False) for index in (*found.outer, *found.inner))
    return tuple(sorted(indices, key=lambda index: -max(abs(use.stride(index.name)) for use in found.reads)))


def _needed(found: TupleReduction, scalar: str) -> list[stripe.Statement]:
    return needed(found.step.statements, (scalar,), stripe.scalar_output, stripe.scalar_inputs)


def _flat(
    found: TupleReduction,
    stem: str,
    views: Sequence[stripe.Refinement],
    statements: Sequence[stripe.Statement],
    tags: stripe.Tags,
) -> stripe.Block:
    """Return a flat kernel over all indices, with the views of elements that its statements read."""
    kernel = found.kernel
    read = {name for statement in statements for name in stripe.views_read(statement)}
    elements = [
        attrs.evolve(found.step.refinement(use.name), source=kernel.refinement(use.root).source, access=use.access)
        for use in found.reads
        if use.name in read
    ]
    return attrs.evolve(
        kernel,
        name=f"{kernel.name}_{stem}" if kernel.name else "",
        indices=_in_memory(found),
        refinements=(*elements, *views),
        statements=tuple(statements),
        tags=tags,
        deps=(),
    )


def _contracting(aggregation: Aggregation) -> stripe.Tags:
    return stripe.Tags.of("contraction", f"agg_op_{aggregation.value}", "comb_op_none")


def _extremum(found: TupleReduction, element: str, target: stripe.Refinement, aggregation: Aggregation) -> stripe.Block:
    statements = (*_needed(found, element), stripe.Store(element, target.name))
    views = (attrs.evolve(target, aggregation=aggregation),)
    return _flat(found, "best", views, statements, _contracting(aggregation))


def _candidates(
    found: TupleReduction, scalars: tuple[str, str], best: stripe.Refinement, target: stripe.Refinement
) -> stripe.Block:
    """Return a kernel that stores the positions of elements equal to the extremum, or NaN, and the worst for others.

    ``scalars`` are element and position. It is a separate kernel, as in Tile programs that express this themselves.
    """
    element, place = scalars
    made = _needed(found, element)
    made += [statement for statement in _needed(found, place) if statement not in made]
    names = NameScope.of(name for s in found.step.statements if (name := stripe.scalar_output(s)) is not None)
    extremum, same, worst, into = (names.fresh(stem) for stem in ("best", "same", "worst", "candidate"))
    statements = [*made, stripe.Load(best.name, extremum)]
    statements.append(stripe.Intrinsic(Op.CMP_EQ, (element, extremum), same, DType.BOOL))
    if found.reduction.elements.is_float:
        nan, either = names.fresh("nan"), names.fresh("either")
        statements.append(stripe.Intrinsic(Op.CMP_NE, (element, element), nan, DType.BOOL))
        statements.append(stripe.Intrinsic(Op.BIT_OR, (same, nan), either, DType.BOOL))
        same = either
    dtype = found.reduction.positions
    last = found.reduction.combine in _LAST
    count = prod(index.range for index in found.inner)
    statements.append(stripe.Constant(worst, dtype, -1 if last else min(count, int(dtype.maximum))))
    statements.append(stripe.Intrinsic(Op.COND, (same, place, worst), into, dtype))
    statements.append(stripe.Store(into, target.name))
    views = (attrs.evolve(best, direction=stripe.Direction.IN), target)
    return _flat(found, "candidates", views, statements, stripe.Tags.of("eltwise", "eltwise_cond"))


def _least(found: TupleReduction, candidates: stripe.Refinement, target: stripe.Refinement) -> stripe.Block:
    """Return a kernel that finds the first candidate, or the last."""
    aggregation = Aggregation.MAX if found.reduction.combine in _LAST else Aggregation.MIN
    statements = (stripe.Load(candidates.name, candidates.name), stripe.Store(candidates.name, target.name))
    views = (candidates, attrs.evolve(target, aggregation=aggregation))
    return _flat(found, "position", views, statements, _contracting(aggregation))
