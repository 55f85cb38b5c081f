"""Recognition of the gradients of attention by their computation, as :mod:`tileir.passes.fusion.attention_match` does.

A softmax P = exp(S - top) / total of scores S has the gradient P * (G - sum(P * G)) for the gradient G of P.
Derivatives use the exponentials E = P * total: E * (G / total - sum(G / total * E) / total), times the scale of scores.
Rows of G are products of gradients of results and values. Sums of these score gradients ("changes") times keys or
queries are the gradients of queries and keys, and sums of P times gradients of results are the gradients of values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from tileir.core import Aggregation, DType, Op, attrs
from tileir.passes.analysis.accesses import address
from tileir.passes.fusion.attention_match import (
    Scores,
    are_used,
    guarded,
    members_of,
    moves,
    output_of,
    result_of,
    scores_of,
    softmax_of,
    tests_of,
)
from tileir.passes.fusion.row_expressions import (
    ALONG,
    Call,
    Element,
    Elements,
    Number,
    RowAggregate,
    Sum,
    Unknown,
    is_product,
)
from tileir.poly.affine import Affine
from tileir.stripe import ir as stripe


@attrs.frozen
class SavedIntermediates:
    """Intermediates that the forward pass saved, as views of one element for each query.

    Attributes:
        logs: Logarithms of the sums of exponentials of scores.
        dots: Dot products of results and their gradients.
        zeros: Whether queries with a logarithm of minus infinity have no weights.
    """

    logs: stripe.Refinement
    dots: stripe.Refinement
    zeros: bool


@attrs.frozen
class Gradients:
    """Gradients of one attention, as views of one element in the indices of ``kernel``, which computes its scores.

    Attributes:
        kernel: The kernel that multiplies queries and keys.
        given_kernel: The kernel that multiplies gradients of results and values.
        queries: The queries: [rows, feature].
        keys: The keys: [along, feature].
        values: The values, which are multiplied by gradients of results: [along, column].
        given: The gradients of results: [rows, column].
        results: The results of the attention, if it is part of the program: [rows, column].
        changed: Targets of the gradients of queries, keys and values.
        rows: The index that numbers queries.
        along: The index that numbers keys.
        feature: The index over which queries and keys are multiplied.
        column: Name and range of the index along gradients of results and values.
        sharers: The index of heads that share keys, or none.
        scores: The scores, with coordinates in the indices of ``kernel``.
        finite: Whether values are finite, or results do not matter.
        kept: Saved intermediates; None if everything is recomputed.
        forward: The number of the kernel of the results.
        number: The number of the first kernel of gradients.
        kernels: The numbers of all kernels, in order.
    """

    kernel: stripe.Block
    given_kernel: stripe.Block
    queries: stripe.Refinement
    keys: stripe.Refinement
    values: stripe.Refinement
    given: stripe.Refinement
    results: stripe.Refinement | None
    changed: tuple[stripe.Refinement, ...]
    rows: str
    along: str
    feature: str
    column: tuple[str, int]
    sharers: str | None
    scores: Scores
    finite: bool
    kept: SavedIntermediates | None
    forward: int | None
    number: int
    kernels: tuple[int, ...]


@attrs.frozen
class _Part:
    """A kernel that sums products of weights or changes with another factor.

    Attributes:
        number: Number of the kernel.
        word: ``results``, or the input whose gradient it computes.
        index: The index of the softmax.
        scores: The scores.
        given: Products from which changes are computed; None for weights.
        other: The other factor of weights or changes.
        members: The kernels that compute it.
        logs: Saved logarithms for the weights, if any, and whether queries may have no weights.
        dots: Saved values that are then subtracted in changes.
    """

    number: int
    word: str
    index: str
    scores: Scores
    given: Sum | None
    other: stripe.Refinement
    members: frozenset[int]
    logs: tuple[Unknown, bool] | None = None
    dots: Unknown | None = None


def gradients_of(kernels: tuple[stripe.Block, ...], outputs: frozenset[str]) -> Iterator[Gradients]:
    """Yield the gradients of attention with respect to queries, keys and values, if nothing else uses the weights.

    Args:
        kernels: The kernels of a program without loops, in order.
        outputs: Memory visible outside.
    """
    elements = Elements(kernels)
    parts: dict[int, dict[str, _Part]] = {}
    for number, kernel in enumerate(kernels):
        if is_product(kernel) and (part := _part(elements, number)) is not None:
            parts.setdefault(part.scores.product.number, {})[part.word] = part
    for product, found in parts.items():
        if {"queries", "keys", "values"} <= found.keys():
            made = _AttentionParts(elements, kernels[product], found).made(outputs)
            if made is not None:
                yield made


def _part(elements: Elements, number: int) -> _Part | None:
    kernel = elements.kernels[number]
    result = output_of(kernel)
    loads = _loads(kernel)
    for weights, other in (loads, loads[::-1]):
        for index in kernel.indices:
            if not index.is_plain or not moves(weights, index.name):
                continue
            elements.begin()
            key = {index.name: Affine.index(ALONG)}
            element = elements.at(weights, key)
            reduced = not moves(result, index.name)
            softmax, change, kept = softmax_of(element), _change(element), _recomputed_weights(element)
            if kept is not None:
                word = ("results" if reduced else "values") if kept.given is None else "queries" if reduced else "keys"
                members = frozenset(elements.seen)
                return _Part(number, word, index.name, kept.scores, kept.given, other, members, kept.logs, kept.dots)
            if softmax is not None and not softmax[1] and (scores := scores_of(softmax[0])) is not None:
                word, given = "results" if reduced else "values", None
            elif change is not None:
                scores, given = change
                word = "queries" if reduced else "keys"
            else:
                continue
            return _Part(number, word, index.name, scores, given, other, frozenset(elements.seen))
    return None


@attrs.frozen
class _RecomputedWeights:
    """Weights, or a change, computed from saved logarithms; fields are those of :class:`_Part`."""

    scores: Scores
    logs: tuple[Unknown, bool]
    given: Sum | None = None
    dots: Unknown | None = None


def _recomputed_weights(element: Element) -> _RecomputedWeights | None:
    """Return an element that is scaled weights exp(S - log) or changes exp(S - log) * (G - dot); None for others."""
    weights = _kept_weights(element)
    if weights is not None:
        return weights
    stripped = _stripped(element)
    if stripped is None:
        return None
    scale, seen, inner = stripped
    for power, rest in _factors(inner):
        found, difference = _kept_weights(power), _difference(rest)
        match difference:
            case (Sum() as given, Unknown() as dots) if found is not None and not _is_along(dots):
                return attrs.evolve(found, given=given, dots=dots) if found.scores.change_by(scale, seen) else None
            case _:
                continue
    return None


def _kept_weights(element: Element) -> _RecomputedWeights | None:
    match element:
        case Call(op=Op.EXP, args=(Call(op=Op.SUB, args=(found, logs)),)):
            scores = scores_of(found)
        case _:
            return None
    zeros = False
    match logs:
        case Call(op=Op.COND, args=(_, _, Unknown() as inner)) if logs in guarded(inner, -math.inf, math.inf):
            logs, zeros = inner, True
        case _:
            pass
    if scores is None or not isinstance(logs, Unknown) or _is_along(logs):
        return None
    return _RecomputedWeights(scores, (logs, zeros))


def _is_along(element: Unknown) -> bool:
    return any(ALONG in each.indices for each in element.coordinates)


def _stripped(element: Element) -> tuple[float, list[Affine], Element] | None:
    """Return an element without factors and selections of 0, the product of the factors, and the tests."""
    seen: list[Affine] = []
    scale, inner = 1.0, element
    while True:
        match inner:
            case Call(op=Op.MUL, args=(left, Number(value))) | Call(op=Op.MUL, args=(Number(value), left)):
                scale, inner = scale * value, left
            case Call(op=Op.COND, args=(test, left, other)) if other == Number(0.0):
                tests = tests_of(test)
                if tests is None:
                    return None
                seen += tests
                inner = left
            case _:
                return scale, seen, inner


def _change(element: Element) -> tuple[Scores, Sum] | None:
    """Return the scores of a change, and the products G that it is computed from."""
    stripped = _stripped(element)
    if stripped is None:
        return None
    scale, seen, inner = stripped
    for power, rest in _factors(inner):
        match power, _difference(rest):
            case (
                Call(op=Op.EXP, args=(Call(op=Op.SUB, args=(found, top)),)),
                (share, Call(op=Op.DIV, args=(whole, total))),
            ):
                scores = scores_of(found)
                sums = RowAggregate(Aggregation.SUM, power)
                is_softmax = top == RowAggregate(Aggregation.MAX, found) and total == sums
                products = [
                    RowAggregate(Aggregation.SUM, Call(Op.MUL, pair)) for pair in ((share, power), (power, share))
                ]
                given = _given(share, total)
                if scores is None or given is None or not is_softmax or whole not in products:
                    return None
                return (scores, given) if scores.change_by(scale, seen) else None
            case _:
                continue
    return None


def _difference(element: Element) -> tuple[Element, Element] | None:
    match element:
        case Call(op=Op.SUB, args=(left, right)):
            return left, right
        case Call(op=Op.ADD, args=(left, Call(op=Op.NEG, args=(right,)))):
            return left, right
        case Call(op=Op.ADD, args=(Call(op=Op.NEG, args=(right,)), left)):
            return left, right
        case _:
            return None


def _factors(element: Element) -> tuple[tuple[Element, Element], ...]:
    match element:
        case Call(op=Op.MUL, args=(left, right)):
            return (left, right), (right, left)
        case _:
            return ()


def _given(share: Element, total: Element) -> Sum | None:
    """Return the products of which ``share`` is the quotient by ``total``."""
    match share:
        case Call(op=Op.DIV, args=(Sum() as given, divisor)) if divisor == total:
            return given
    inverse = Call(Op.DIV, (Number(1.0), total))
    return next((left for left, right in _factors(share) if isinstance(left, Sum) and right == inverse), None)


@attrs.frozen
class _AttentionParts:
    """Assembly of the parts of one attention, in the indices of the kernel of scores.

    Attributes:
        elements: Expressions of elements.
        kernel: The kernel that computes the scores.
        parts: The parts, by name.
    """

    elements: Elements
    kernel: stripe.Block
    parts: Mapping[str, _Part]

    def made(self, outputs: frozenset[str]) -> Gradients | None:
        """Return the gradients; None if views do not match, or if intermediates have other users."""
        kernels, part = self.elements.kernels, self.parts["queries"]
        assert part.given is not None  # the parts of queries consist of changes
        given_kernel = kernels[part.given.number]
        inverse = {word: _inverse(each) for word, each in self.parts.items()}
        along = inverse["queries"].get(part.index, Affine()).indices
        column = given_kernel.name + "_column"
        places = {**inverse["queries"], ALONG: inverse["queries"].get(part.index, Affine())}
        given = _views(given_kernel, dict(part.given.values), places, column)
        changed = [self._result(word, inverse[word], column, outputs) for word in ("queries", "keys", "values")]
        results = self._result("results", inverse["results"], column, outputs) if "results" in self.parts else None
        if len(along) != 1 or given is None or None in changed or ("results" in self.parts and results is None):
            return None
        factors = sorted(_loads(self.kernel), key=lambda view: moves(view, along[0]))
        beside = sorted(given[0], key=lambda view: moves(view, along[0]))
        free = output_of(self.kernel).access
        indices = [i.name for i in self.kernel.indices if any(i.name in each.indices for each in free)]
        alone = [name for name in indices if moves(factors[0], name) and not moves(factors[1], name)]
        scores = attrs.evolve(part.scores, seen=tuple(t.substitute(inverse["queries"]) for t in part.scores.seen))
        alone.sort(key=lambda name: (any(name in test.indices for test in scores.seen), self.kernel.index(name).range))
        features = [i.name for i in self.kernel.indices if i.name not in indices]
        if not 1 <= len(alone) <= 2 or len(features) != 1 or moves(beside[0], along[0]) or moves(factors[0], along[0]):
            return None
        queries, keys = (self.elements.origin(view, features[0]) for view in factors)
        given_rows, values = (self.elements.origin(view, column) for view in beside)
        stored = [self._stored(word, inverse[word], outputs) for word in self.parts]
        own = {part.scores.product.number, part.given.number, *(each.number for each in self.parts.values())}
        own |= {number for each in stored if each is not None for number in each[1]}
        members = members_of(kernels, {n for each in self.parts.values() for n in each.members}, own, outputs)
        names = {view.source for view in (*changed, results) if view is not None}
        single = all(len(self.elements.writers(name)) == 1 for name in names)
        if not single or are_used(kernels, members, names, outputs, early=True):
            return None
        kept = self._kept(inverse)
        if (kept is None) == any(each.logs is not None for each in self.parts.values()):
            return None
        start = min(self.parts[word].number for word in ("queries", "keys", "values"))
        read = [*factors, *beside, queries, keys, values, given_rows]
        if self._is_written([*read, *(() if kept is None else (kept.logs, kept.dots))], start):
            return None
        found = Gradients(
            self.kernel, given_kernel, queries, keys, values, given_rows, results,
            tuple(view for view in changed if view is not None), alone[-1], along[0], features[0],
            (column, given[1]), alone[0] if len(alone) > 1 else None, scores,
            all("finite" in kernels[each.number].tags for each in self.parts.values()), kept,
            self.parts["results"].number if "results" in self.parts else None, start, members,
        )  # fmt: skip
        return found if all(self._is_of(found, word, inverse[word]) for word in self.parts) else None

    def _is_written(self, views: list[stripe.Refinement], start: int) -> bool:
        return max((n for view in views for n in self.elements.writers(view.source)), default=-1) >= start

    def _kept(self, inverse: Mapping[str, Mapping[str, Affine]]) -> SavedIntermediates | None:
        """Return the saved intermediates, in the indices of the kernel of scores, if all parts use them."""
        logs, dots = set(), set()
        for word, part in self.parts.items():
            if part.logs is not None:
                logs.add((self.elements.view(part.logs[0], inverse[word]), part.logs[1]))
            if part.dots is not None:
                dots.add(self.elements.view(part.dots, inverse[word]))
        if len(logs) != 1 or len(dots) != 1 or any(part.logs is None for part in self.parts.values()):
            return None
        ((log, zeros),), (dot,) = logs, dots
        wide = log.shape.dtype is DType.F32 and dot.shape.dtype is DType.F32
        return SavedIntermediates(log, dot, zeros) if wide and "results" not in self.parts else None

    def _is_of(self, found: Gradients, word: str, inverse: Mapping[str, Affine]) -> bool:
        """Return whether a part belongs to these gradients; programs may have several of the same queries and keys.

        It must have the same scores and factors, and sum over no heads except those that share keys.
        """
        part, column = self.parts[word], found.column[0]
        added = [found.along] if word in ("queries", "results") else [found.rows, found.sharers]
        beside, stored, last = {
            "queries": (found.keys, found.changed[0], found.feature),
            "keys": (found.queries, found.changed[1], found.feature),
            "values": (found.given, found.changed[2], column),
            "results": (found.values, found.results, column),
        }[word]
        left = {i.name: Affine.index(last) for i in self.elements.kernels[part.number].indices if i.name not in inverse}
        other = self.elements.origin(_moved(part.other, {**inverse, **left}), last)
        free = [index.name for index in self.kernel.indices if index.range > 1 and index.name != found.feature]
        seen = {test.substitute(inverse) for test in part.scores.seen}
        return (
            seen == {*found.scores.seen}
            and math.isclose(part.scores.scale, found.scores.scale, rel_tol=1e-6)
            and math.isclose(part.scores.hidden, found.scores.hidden, rel_tol=1e-6)
            and self._place(other) == self._place(beside)
            and stored is not None
            and all(name in added or moves(stored, name) for name in free)
            and (part.given is None or self._changes_by(part.given, {**inverse, ALONG: inverse[part.index]}, found))
        )

    def _changes_by(self, given: Sum, places: Mapping[str, Affine], found: Gradients) -> bool:
        """Return whether products are those of gradients of results and values."""
        column = found.column[0]
        read = _views(self.elements.kernels[given.number], dict(given.values), places, column)
        views = () if read is None else (self.elements.origin(view, column) for view in read[0])
        return {*map(self._place, views)} == {self._place(found.given), self._place(found.values)}

    def _place(self, view: stripe.Refinement) -> tuple[str, Affine]:
        """Return the element of a view, regardless of the view's axes."""
        single = [index.name for index in self.kernel.indices if index.range == 1]
        return view.source, address(view).substitute(dict.fromkeys(single, Affine()))

    def _stored(
        self, word: str, inverse: Mapping[str, Affine], outputs: frozenset[str]
    ) -> tuple[stripe.Refinement, tuple[int, ...], str] | None:
        """Return the target of a part in its own indices, the kernels that copy it there, and its columns' index."""
        part = self.parts[word]
        left = [i.name for i in self.elements.kernels[part.number].indices if i.name not in inverse]
        return (*result_of(self.elements, part.number, outputs, left[0]), left[0]) if len(left) == 1 else None

    def _result(
        self, word: str, inverse: Mapping[str, Affine], column: str, outputs: frozenset[str]
    ) -> stripe.Refinement | None:
        """Return the target of a part, in the indices of the kernel of scores."""
        stored = self._stored(word, inverse, outputs)
        features = [i.name for i in self.kernel.indices if not moves(output_of(self.kernel), i.name)]
        if stored is None or len(features) != 1:
            return None
        last = features[0] if word in ("queries", "keys") else column
        return _moved(stored[0], {**inverse, stored[2]: Affine.index(last)})


def _inverse(part: _Part) -> dict[str, Affine]:
    """Return the indices of a part in those of the kernel of scores, without combined indices."""
    found: dict[str, Affine] = {}
    for name, value in part.scores.product.values:
        if len(value.indices) == 1 and value == Affine.index(value.indices[0]):
            index = part.index if value.indices[0] == ALONG else value.indices[0]
            found[index] = Affine.index(name)
    return found


def _views(
    kernel: stripe.Block, values: Mapping[str, Affine], inverse: Mapping[str, Affine], column: str
) -> tuple[list[stripe.Refinement], int] | None:
    """Return the inputs of a product, for values of its indices, and its number of terms along ``column``."""
    left = [index for index in kernel.indices if index.name not in values]
    known = {*inverse}
    if len(left) != 1 or any(not known.issuperset(value.indices) for value in values.values()):
        return None
    places = {name: value.substitute(inverse) for name, value in values.items()}
    return [_moved(view, {**places, left[0].name: Affine.index(column)}) for view in _loads(kernel)], left[0].range


def _moved(view: stripe.Refinement, values: Mapping[str, Affine]) -> stripe.Refinement:
    return attrs.evolve(view, access=tuple(each.substitute(values) for each in view.access))


def _loads(kernel: stripe.Block) -> list[stripe.Refinement]:
    return [view for view in kernel.refinements if view.direction is stripe.Direction.IN]
