"""Unroll-and-jam: several values of an index in one body, with shared loads and partial aggregates.

Adjacent windows overlap: the aggregates of W rows and of the W rows one further share most terms. Shared terms are
merged once, as van Herk (1992), and Gil and Werman (1993), do over blocks as wide as the window; here it happens in
registers, over the windows of one body.

Sums of products with weights share only loads. Computed one after the other, the first keeps all loads of the others
live, which exceeds the registers; interleaved, each load is used by all sums and then dead, and no sum waits for its
own previous step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import combinations

from tileir.core import NameScope, attrs, grouped
from tileir.poly.affine import Affine
from tileir.schedule import Segment, Use, leaf, renamed
from tileir.stripe.ir import Constant, Intrinsic, Statement, Store, Tags, scalar_inputs, scalar_output

MERGES = Tags.of("merges")
"""Tag of operations that merge the terms of an aggregate in any order."""


def unroll_and_jam(
    segment: Segment, index: str, values: Sequence[Affine], sources: Mapping[str, str]
) -> Segment | None:
    """Return a segment that does the work of ``segment`` for all ``values`` of an index.

    ``sources`` holds the tensor of each root. None if a segment may load what it stores, or if no two aggregates share
    several terms, unless fewer values are live when each load is used at once.
    """
    written = {use.root for use in segment.uses if use.direction.writes}
    if segment.has_indirect_store or any(use.root in written and use.direction.reads for use in segment.uses):
        return None
    body = _Body(sources, NameScope.of(use.name for use in segment.uses))
    for value in values:
        body.add(segment, {index: value})
    statements = body.statements() if body.share() else body.side_by_side()
    return None if statements is None else attrs.evolve(segment, uses=tuple(body.views), statements=statements)


def is_merge(statement: Statement) -> bool:
    """Return whether a statement merges terms of an aggregate."""
    return isinstance(statement, Intrinsic) and "merges" in statement.tags and len(statement.inputs) == 2


@attrs.define(eq=False, repr=False)
class _Body:
    """Scalars and stores of all copies, without duplicate scalars.

    Attributes:
        sources: The tensor behind each root.
        names: The names of views.
        views: The views, without duplicates, under fresh names.
        definitions: The statement that defines each scalar.
        stores: The stores, in order.
    """

    sources: Mapping[str, str]
    names: NameScope
    views: dict[Use, None] = attrs.field(factory=dict, init=False)
    definitions: dict[str, Statement] = attrs.field(factory=dict, init=False)
    stores: list[Store] = attrs.field(factory=list, init=False)
    _named: dict[object, str] = attrs.field(factory=dict, init=False)
    _known: dict[Statement, str] = attrs.field(factory=dict, init=False)
    _scalars: NameScope = attrs.field(factory=NameScope, init=False)

    def add(self, segment: Segment, values: Mapping[str, Affine]) -> None:
        """Add a copy of a segment with values for its indices."""
        copy = leaf(segment, values, ())
        views = {use.name: self._view(use) for use in copy.uses}
        scalars: dict[str, str] = {}
        for old in copy.statements:
            into = scalar_output(old)
            if into is None:
                store = renamed(old, scalars, views)
                assert isinstance(store, Store)  # a segment has scalar statements only
                self.stores.append(store)
                continue
            scalars[into] = ""
            key = renamed(old, scalars, views)
            name = self._known.get(key)
            if name is None:
                name = self._known[key] = self._scalars.fresh(into)
                self.definitions[name] = renamed(key, {"": name}, {})
            scalars[into] = name

    def _view(self, use: Use) -> str:
        key: object = attrs.evolve(use, name="")
        if not use.direction.writes and all(size == 1 for size in use.sizes):
            place = use.address
            key = (self.sources[use.root], place)
        if key not in self._named:
            self._named[key] = name = self.names.fresh(use.name) if use.name in self._named.values() else use.name
            self.views[attrs.evolve(use, name=name)] = None
        return self._named[key]

    def share(self) -> bool:
        """Merge the shared terms of aggregates once; return whether any are shared."""
        users = Counter(name for s in (*self.definitions.values(), *self.stores) for name in scalar_inputs(s))
        inner = {
            name
            for statement in self.definitions.values()
            for name in scalar_inputs(statement)
            if is_merge(statement) and users[name] == 1 and _alike(statement, self.definitions[name])
        }
        together: dict[tuple[object, ...], list[str]] = {}
        depths: dict[str, int] = {}
        for name, statement in self.definitions.items():
            depths[name] = max((depths[each] for each in scalar_inputs(statement)), default=0)
            if isinstance(statement, Intrinsic) and is_merge(statement) and name not in inner:
                # Aggregates of aggregates share no terms with these.
                together.setdefault((statement.op, statement.dtype, depths[name]), []).append(name)
                depths[name] += 1
        terms = [{root: self._terms(root, inner) for root in roots} for roots in together.values()]
        return sum(map(self._share, terms)) > 0

    def _terms(self, root: str, inner: Container[str]) -> list[str]:
        pending, terms = [root], list[str]()
        while pending:
            name = pending.pop()
            if name == root or name in inner:
                pending.extend(reversed(scalar_inputs(self.definitions[name])))
            else:
                terms.append(name)
        return terms

    def _share(self, terms: Mapping[str, Sequence[str]]) -> bool:
        """Redefine aggregates by shared partial aggregates; return whether that is less work."""
        users = grouped((term, root) for root, own_terms in terms.items() for term in own_terms)
        groups = grouped((tuple(roots), term) for term, roots in users.items())
        common = any(len(roots) > 1 and len(group) > 1 for roots, group in groups.items())
        if not common and _most_common_pair(terms.values()) is None:
            return False
        if any(len(set(roots)) < len(roots) for roots in groups):
            return False  # some term counts twice
        parts: dict[str, list[str]] = {root: [] for root in terms}
        for sharing, group in groups.items():
            together = self._merged(group, sharing[0])
            for root in sharing:
                parts[root].append(together)
        while (pair := _most_common_pair(parts.values())) is not None:
            both = self._merged(pair, next(iter(terms)))
            for root, own in parts.items():
                if own.count(pair[0]) and own.count(pair[1]):
                    parts[root] = [both, *(part for part in own if part not in pair)]
        for root, own in parts.items():
            last = self.definitions[self._merged(own, root)]
            self.definitions[root] = renamed(last, {str(scalar_output(last)): root}, {})
        return True

    def _merged(self, values: Sequence[str], like: str) -> str:
        """Return a scalar that merges others, neighbours first, by the operation that defines ``like``."""
        definition = self.definitions[like]
        assert isinstance(definition, Intrinsic)  # it merges
        level = list(values)
        while len(level) > 1:
            after = []
            for first, second in zip(level[::2], level[1::2], strict=False):
                into = self._scalars.fresh(like)
                self.definitions[into] = attrs.evolve(definition, inputs=(first, second), into=into)
                after.append(into)
            level = [*after, *level[len(level) // 2 * 2 :]]
        return level[0]

    def statements(self) -> tuple[Statement, ...]:
        """Return the scalars that the stores need, in order of their operands, and then the stores."""
        result: list[Statement] = []
        done: set[str] = set()
        for store in self.stores:
            pending = list(reversed(scalar_inputs(store)))
            while pending:
                name = pending[-1]
                needed = [each for each in scalar_inputs(self.definitions[name]) if each not in done]
                if name not in done and needed:
                    pending.extend(reversed(needed))
                    continue
                pending.pop()
                if name not in done:
                    done.add(name)
                    result.append(self.definitions[name])
            result.append(store)
        return tuple(result)

    def side_by_side(self) -> tuple[Statement, ...] | None:
        """Return the statements ordered by loads, each as early as possible; None unless fewer values are then live.

        Constants need no registers: they are read from memory, or stay in registers for all iterations.
        """
        users: dict[str, list[Statement]] = {}
        waiting: dict[Statement, int] = {}
        for statement in (*self.definitions.values(), *self.stores):
            operands = dict.fromkeys(scalar_inputs(statement))
            waiting[statement] = len(operands)
            for name in operands:
                users.setdefault(name, []).append(statement)
        ready = [statement for statement, count in waiting.items() if not count]
        result: list[Statement] = []
        for first in sorted(ready, key=lambda statement: not isinstance(statement, Constant)):
            pending = [first]
            while pending:
                statement = pending.pop()
                result.append(statement)
                for user in reversed(users.get(scalar_output(statement) or "", ())):
                    waiting[user] -= 1
                    if not waiting[user]:
                        pending.append(user)
        return tuple(result) if most_live(result) < most_live(self.statements()) else None


def most_live(statements: Sequence[Statement]) -> int:
    """Return the maximum number of live values other than constants."""
    last = {name: number for number, statement in enumerate(statements) for name in scalar_inputs(statement)}
    most, live = 0, 0
    ends = Counter(last.values())
    for number, statement in enumerate(statements):
        into = scalar_output(statement)
        if into in last:
            if isinstance(statement, Constant):
                ends[last[into]] -= 1
            else:
                live += 1
        most = max(most, live)
        live -= ends[number]
    return most


def _alike(statement: Statement, other: Statement) -> bool:
    match statement, other:
        case Intrinsic(op=op, dtype=dtype), Intrinsic(op=same, dtype=alike):
            return is_merge(other) and (op, dtype) == (same, alike)
        case _:
            return False


def _most_common_pair(lists: Iterable[Sequence[str]]) -> tuple[str, str] | None:
    """Return the pair that most of at least two lists contain; None if there is none."""
    counts = Counter(pair for each in lists for pair in combinations(sorted(each), 2))
    pair = max(counts, key=counts.__getitem__, default=None)
    return pair if pair is not None and counts[pair] > 1 else None
