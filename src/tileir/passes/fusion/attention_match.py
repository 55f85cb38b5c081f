"""Recognition of attention by its computation: sums of values weighted by the softmax of scores.

Scores are products of queries and keys, scaled by a constant, and outside of a band minus infinity or greater by
another constant. The number of kernels and the form of the softmax make no difference.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import Final

from tileir.core import Aggregation, Op, attrs, grouped
from tileir.passes.analysis.accesses import address
from tileir.passes.fusion.row_expressions import (
    ALONG,
    Call,
    Coordinate,
    Element,
    Elements,
    Number,
    RowAggregate,
    Sum,
    index_values,
    is_product,
)
from tileir.poly.affine import Affine
from tileir.schedule.remarks import Refused, refused
from tileir.stripe import ir as stripe

_BLIND: Final = Number(-math.inf)
_COMPARED: Final = {Op.CMP_LE: (1, 0), Op.CMP_LT: (1, 1), Op.CMP_GE: (-1, 0), Op.CMP_GT: (-1, 1)}
"""Comparisons of a with b as ``sign * (b - a) - step >= 0``."""


@attrs.frozen
class Scores:
    """Products times ``scale``, plus ``hidden`` where any of ``seen`` is negative."""

    product: Sum
    scale: float = 1.0
    seen: tuple[Affine, ...] = ()
    hidden: float = -math.inf

    def change_by(self, scale: float, seen: Collection[Affine]) -> bool:
        """Return whether their derivative by products is ``scale``, where all ``seen`` are >= 0."""
        known = {*seen} <= {*self.seen} if self.hidden == -math.inf else not seen
        return known and math.isclose(self.scale, scale, rel_tol=1e-6)


@attrs.frozen
class Attention:
    """Attention found in a program.

    Attributes:
        queries: A view of one element, in the indices of ``kernel``, :data:`ALONG` for keys and ``feature``.
        keys: A corresponding view of keys.
        values: A corresponding view of values.
        results: The target of the results.
        sums: Targets of the logarithms of the sums of exponentials of scores, if they are stored.
        kernel: The kernel that weights values.
        feature: The index over which queries and keys are multiplied, and its range.
        rows: The index that numbers queries.
        columns: The index that numbers columns of the result.
        length: Number of keys.
        scores: The scores.
        zeros: Whether queries without visible keys give zeros; otherwise, they give NaN.
        finite: Whether values are finite, or results do not matter.
        kernels: The numbers of all kernels, in order.
    """

    queries: stripe.Refinement
    keys: stripe.Refinement
    values: stripe.Refinement
    results: stripe.Refinement
    sums: stripe.Refinement | None
    kernel: stripe.Block
    feature: tuple[str, int]
    rows: str
    columns: str
    length: int
    scores: Scores
    zeros: bool
    finite: bool
    kernels: tuple[int, ...]


def attentions(kernels: tuple[stripe.Block, ...], outputs: frozenset[str]) -> Iterator[tuple[int, Attention | Refused]]:
    """Yield each kernel that weights by a softmax, with its attention, or the reason against one.

    Args:
        kernels: The kernels of a program without loops, in order.
        outputs: Memory visible outside.
    """
    elements = Elements(kernels)
    for number, kernel in enumerate(kernels):
        if not is_product(kernel):
            continue
        loads = [view for view in kernel.refinements if view.direction is stripe.Direction.IN]
        for weights, values in (loads, loads[::-1]):
            found = _attention(elements, number, weights, values, outputs)
            if found is not None:
                yield number, found
                break


def _attention(
    elements: Elements, number: int, weights: stripe.Refinement, values: stripe.Refinement, outputs: frozenset[str]
) -> Attention | Refused | None:
    kernel = elements.kernels[number]
    reduced = [i for i in kernel.indices if not any(i.name in a.indices for a in output_of(kernel).access)]
    if len(reduced) != 1 or any(not index.is_plain for index in kernel.indices):
        return None
    key = {reduced[0].name: Affine.index(ALONG)}
    elements.begin()
    softmax = softmax_of(elements.at(weights, key))
    if softmax is None:
        return None
    scores = scores_of(softmax[0])
    if scores is None:
        return refused("TR442")
    product = elements.kernels[scores.product.number]
    inside = dict(scores.product.values)
    features = [index for index in product.indices if index.name not in inside]
    views = [view for view in product.refinements if view.direction is stripe.Direction.IN]
    factors = [attrs.evolve(v, access=tuple(each.substitute(inside) for each in v.access)) for v in views]
    factors.sort(key=lambda view: moves(view, ALONG))
    rows = _rows_of(kernel, weights, values)
    columns = [i.name for i in kernel.indices if moves(values, i.name) and not moves(weights, i.name)]
    if len(features) != 1 or rows is None or len(columns) != 1:
        return refused("TR443")
    if [moves(view, ALONG) for view in factors] != [False, True] or moves(factors[1], rows):
        return refused("TR443")
    finite = "finite" in kernel.tags
    result, more = result_of(elements, number, outputs, columns[0])
    own = {scores.product.number, number, *more}
    members = members_of(elements.kernels, elements.seen, own, outputs)
    used, sums = {result.source}, None
    if are_used(elements.kernels, members, used, outputs) and (found := _sums(elements, scores, members)) is not None:
        sums, seen, last = found
        members = members_of(elements.kernels, {*members, *seen}, {*own, last}, outputs)
        used.add(sums.source)
    if are_used(elements.kernels, members, used, outputs):
        return refused("TR441")
    values = attrs.evolve(values, access=tuple(each.substitute(key) for each in values.access))
    queries, keys = (elements.origin(view, features[0].name) for view in factors)
    return Attention(
        queries, keys, elements.origin(values, columns[0]), result, sums, kernel, (features[0].name, features[0].range),
        rows, columns[0], reduced[0].range, scores, softmax[1], finite, members,
    )  # fmt: skip


def _sums(
    elements: Elements, scores: Scores, members: tuple[int, ...]
) -> tuple[stripe.Refinement, set[int], int] | None:
    """Return the target of the logarithms of sums of exponentials of scores, expanded kernels, and the storing kernel.

    The view is in the indices of the kernel that weights values.
    """
    made = {output_of(elements.kernels[number]).source for number in members}
    for number, kernel in enumerate(elements.kernels):
        if number in members or not any(view.source in made for view in kernel.refinements):
            continue
        elements.begin()
        stored = elements.stored(number)
        found = None if stored is None else _log_of_sum(stored)
        if found is None or found.product.number != scores.product.number:
            continue
        if (found.scale, found.hidden) != (scores.scale, scores.hidden):
            continue
        mine, others = dict(scores.product.values), dict(found.product.values)
        indices = {o.indices[0]: mine[name] for name, o in others.items() if o.indices and o.indices != (ALONG,)}
        tests = {test.substitute(indices) for test in found.seen}
        output = output_of(kernel)
        free = {index.name for index in kernel.indices if index.range > 1}
        if tests != {*scores.seen} or not free <= indices.keys() or any(ALONG in v.indices for v in indices.values()):
            continue
        ones = {index.name: Affine() for index in kernel.indices if index.name not in indices}
        access = tuple(each.substitute({**indices, **ones}) for each in output.access)
        return attrs.evolve(output, access=access), {*elements.seen}, number
    return None


def _log_of_sum(element: Element) -> Scores | None:
    """Return the scores if an element is the logarithm of the sum of their exponentials."""
    match element:
        case Call(op=Op.ADD, args=(Call(op=Op.LOG, args=(RowAggregate() as total,)), top)):
            pass
        case Call(op=Op.ADD, args=(top, Call(op=Op.LOG, args=(RowAggregate() as total,)))):
            pass
        case _:
            return None
    softmax = softmax_of(Call(Op.DIV, (total.body, total)))
    is_greatest = softmax is not None and top == RowAggregate(Aggregation.MAX, softmax[0])
    return scores_of(softmax[0]) if softmax is not None and is_greatest else None


def softmax_of(element: Element) -> tuple[Element, bool] | None:
    """Return the scores of a softmax, and whether rows of only minus infinity give zeros."""
    match element:
        case Call(op=Op.DIV, args=(Call(op=Op.EXP, args=(Call(op=Op.SUB, args=(scores, greatest)),)) as power, total)):
            pass
        case _:
            return None
    top, sums = RowAggregate(Aggregation.MAX, scores), RowAggregate(Aggregation.SUM, power)
    if (greatest, total) == (top, sums):
        return scores, False
    held = guarded(top, -math.inf, 0.0)
    if greatest in held and total == sums:
        return scores, False
    return (scores, True) if greatest in held and total in guarded(sums, 0.0, 1.0) else None


def guarded(element: Element, found: float, instead: float) -> tuple[Element, ...]:
    """Return the forms of an element with ``instead`` in place of ``found``."""
    pairs = ((element, Number(found)), (Number(found), element))
    return tuple(Call(Op.COND, (Call(Op.CMP_EQ, pair), Number(instead), element)) for pair in pairs)


def scores_of(element: Element) -> Scores | None:
    """Return the scores in the softmax of an element; None if it is anything else."""
    match element:
        case Sum():
            return Scores(element)
        case Call(op=Op.MUL, args=(inner, Number(value))) | Call(op=Op.MUL, args=(Number(value), inner)):
            return _scaled(scores_of(inner), value)
        case Call(op=Op.DIV, args=(inner, Number(value))) if value:
            return _scaled(scores_of(inner), 1.0 / value)
        case Call(op=Op.COND, args=(test, inner, other)) if other == _BLIND:
            scores, seen = scores_of(inner), tests_of(test)
            if scores is None or seen is None or scores.hidden != -math.inf:
                return None
            return attrs.evolve(scores, seen=(*scores.seen, *seen))
        case (
            Call(op=Op.ADD, args=(Call(op=Op.COND, args=(test, Number(0.0), Number(hidden))), inner))
            | Call(op=Op.ADD, args=(inner, Call(op=Op.COND, args=(test, Number(0.0), Number(hidden)))))
        ):
            scores, seen = scores_of(inner), tests_of(test)
            if scores is None or seen is None or scores.seen or not math.isfinite(hidden):
                return None
            return attrs.evolve(scores, seen=seen, hidden=hidden)
        case _:
            return None


def _scaled(scores: Scores | None, factor: float) -> Scores | None:
    """Return scores times a factor; hidden scores of minus infinity stay so."""
    if scores is None or not 0.0 < factor < math.inf:
        return None
    return attrs.evolve(scores, scale=scores.scale * factor, hidden=scores.hidden * factor)


def tests_of(element: Element) -> tuple[Affine, ...] | None:
    """Return affines that are >= 0 exactly where an element is true."""
    match element:
        case Call(op=op, args=(Coordinate(left), Coordinate(right))) if op in _COMPARED:
            sign, step = _COMPARED[op]
            return ((right - left) * sign - step,)
        case Call(op=op, args=(Coordinate(left), Number(value))) if op in _COMPARED:
            sign, step = _COMPARED[op]
            return ((left * -1 + int(value)) * sign - step,) if value == int(value) else None
        case Call(op=Op.BIT_AND, args=(left, right)):
            first, second = tests_of(left), tests_of(right)
            return None if first is None or second is None else (*first, *second)
        case _:
            return None


def _rows_of(kernel: stripe.Block, weights: stripe.Refinement, values: stripe.Refinement) -> str | None:
    """Return the longest index that moves weights but not values."""
    free = [i for i in kernel.indices if moves(weights, i.name) and not moves(values, i.name)]
    return max(free, key=lambda index: index.range).name if free else None


def moves(view: stripe.Refinement, index: str) -> bool:
    """Return whether a view depends on an index."""
    return any(index in access.indices for access in view.access)


def output_of(kernel: stripe.Block) -> stripe.Refinement:
    """Return the output of a kernel that has one."""
    return next(view for view in kernel.refinements if view.direction.writes)


def result_of(
    elements: Elements, number: int, outputs: frozenset[str], column: str
) -> tuple[stripe.Refinement, tuple[int, ...]]:
    """Return the final target of a kernel's sums, and the kernels that only convert or copy them.

    Args:
        elements: The kernels of a program.
        number: That of the kernel.
        outputs: Memory visible outside, at which the search ends.
        column: The index along contiguous elements; copies that scatter these are not followed.
    """
    kernels = elements.kernels
    written = [(output_of(kernels[number]), number)]
    while (view := written[-1][0]).source not in outputs and elements.writers(view.source) == (written[-1][1],):
        readers = [
            n
            for n, k in enumerate(kernels)
            if any(v.source == view.source and v.direction.reads for v in k.refinements)
        ]
        step = _converted(kernels[readers[0]], view) if len(readers) == 1 else None
        if step is None or elements.writers(step.source) != (readers[0],):
            break
        written.append((step, readers[0]))
    last = max((n for n, (view, _) in enumerate(written) if address(view).coefficient(column) == 1), default=0)
    return written[last][0], tuple(reader for _, reader in written[1 : last + 1])


def _converted(kernel: stripe.Block, view: stripe.Refinement) -> stripe.Refinement | None:
    """Return the target of each element of a view in a kernel that only converts or copies."""
    kinds = [type(statement) for statement in kernel.statements]
    directions = [each.direction for each in kernel.refinements]
    if kinds not in ([stripe.Load, stripe.Convert, stripe.Store], [stripe.Load, stripe.Store]):
        return None
    if directions != [stripe.Direction.IN, stripe.Direction.OUT] or kernel.refinements[1].merges:
        return None
    source, target = kernel.refinements
    if source.shape.strides != view.shape.strides:
        return None
    values = index_values(kernel, source, view.access)
    if values is None or len(values) != len(kernel.indices):
        return None
    return attrs.evolve(target, access=tuple(each.substitute(values) for each in target.access))


def members_of(
    kernels: tuple[stripe.Block, ...], seen: Collection[int], own: Collection[int], outputs: frozenset[str]
) -> tuple[int, ...]:
    """Return the numbers of kernels that belong together; masks and constants may be shared with others.

    Args:
        kernels: The kernels of a program.
        seen: Numbers of expanded kernels: some depend on ``own``, some compute their inputs.
        own: Numbers of kernels that belong in any case.
        outputs: Memory visible outside.
    """
    members = {*own}
    made = {output_of(kernels[number]).source for number in own}
    for number in sorted({*seen} - members):
        if any(view.source in made and not view.direction.writes for view in kernels[number].refinements):
            members.add(number)
            made.add(output_of(kernels[number]).source)
    readers = grouped((view.source, n) for n, each in enumerate(kernels) for view in each.refinements)
    for number in sorted({*seen} - members, reverse=True):
        source = output_of(kernels[number]).source
        if source not in outputs and members.issuperset({*readers[source]} - {number}):
            members.add(number)
    return tuple(sorted(members))


def are_used(
    kernels: tuple[stripe.Block, ...],
    members: tuple[int, ...],
    results: Collection[str],
    outputs: frozenset[str],
    *,
    early: bool = False,
) -> bool:
    """Return whether other kernels use intermediates of ``members``, or overwrite their inputs meanwhile.

    Args:
        kernels: The kernels of a program.
        members: Numbers of some kernels, in order.
        results: Outputs of these that others may use: after all members, or, with ``early``, between them as well.
        outputs: Memory visible outside.
        early: Whether results will be available before the first member that computes them.
    """
    inner: set[str] = set()
    read: dict[str, int] = {}
    for number in members:
        for view in kernels[number].refinements:
            if view.direction.writes:
                inner.add(view.source)
            else:
                read.setdefault(view.source, number)
    inner -= {*results}
    if inner & outputs or read.keys() & {*results}:
        return True
    for number, kernel in enumerate(kernels):
        if number in members:
            continue
        between = members[0] < number < members[-1]
        for view in kernel.refinements:
            found = view.source in results and (view.direction.writes or not early)
            changed = view.direction.writes and number > read.get(view.source, number)
            if view.source in inner or (between and (found or changed)):
                return True
    return False
