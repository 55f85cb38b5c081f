"""The special ``order`` for groups of threads: sorting by merges, in local memory first and then across the device.

A group sorts as many elements as it holds: each thread its own elements in registers, by comparisons of neighbours
alone, which are stable (Knuth, "Sorting and searching", 5.3.4, exercise 37); then pairs of runs are merged. A thread
finds the start of its part of the merged run in both of them, by bisection, and takes the lesser of the next two
elements once per own element (Odeh, Green, Mwassi, Shmueli and Birk, "Merge path", 2012). Runs longer than a group are
merged likewise: all threads search together for the start and end of the group's part.

Keys become signed integers with their order, inverted for descending order, and rows are padded with the greatest key:
as all steps are stable, it stays at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from tileir.core import Op, attrs
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.semtree.lower.block import BlockLowering
from tileir.semtree.lower.loops import grid_indices
from tileir.semtree.lower.orders.packing import key_of, stride_of, value_of
from tileir.semtree.lower.orders.words import Body
from tileir.semtree.lower.views import View, cast
from tileir.stripe import ir as stripe
from tileir.stripe.sorting import SortParameters


def sorting_kernel(
    blocks: BlockLowering, block: stripe.Block, buffers: dict[str, View], special: stripe.Special, plan: SortParameters
) -> tuple[tuple[int, ...], tuple[sem.Stmt, ...]]:
    """Return the grid and the body of a kernel; the grid has an additional axis over parts, or tiles, of a row."""
    shapes = {view.name: view.shape for view in block.refinements}
    size, count = (shapes[name].elements for name in (special.inputs[0], special.outputs[0]))
    tiles = -(-count // plan.tile) if plan.runs else -(-size // (plan.part or size))
    tile = stripe.Index(blocks.names.fresh("tile"), tiles, binding=stripe.Binding.GRID)
    indices = tuple(index for index in (*grid_indices(block), tile) if index.range > 1)
    grid, start, values = blocks.grid(attrs.evolve(block, indices=indices))
    views = blocks.views(block, buffers, values)
    body: Body = [*start]
    group = Group.of(blocks, views, special, plan)
    number = values.get(tile.name, Affine())
    if plan.runs:
        group.join(body, number, size, count)
    else:
        group.sort(body, number, size, count)
    return grid, tuple(body)


@attrs.frozen(eq=False, repr=False)
class Group:
    """The threads of a group, and their elements of a row.

    Attributes:
        blocks: Names and offsets.
        plan: Numbers of threads, and of elements of each.
        views: Keys and optionally a payload; places and optionally sorted keys.
        thread: The number of a thread.
        keys: Arrays in local memory for keys as integers, for payloads, and for search results.
        own: A thread's arrays of keys and payloads, and their places.
        types: The types of both.
    """

    blocks: BlockLowering
    plan: SortParameters
    views: tuple[tuple[View, ...], tuple[View, ...]]
    thread: sem.Var
    keys: tuple[str, str, str]
    own: tuple[str, str]
    types: tuple[sem.Type, sem.Type]

    @classmethod
    def of(
        cls, blocks: BlockLowering, views: Mapping[str, View], special: stripe.Special, plan: SortParameters
    ) -> Group:
        """Choose names."""
        inputs, outputs = ([views[name] for name in names] for names in (special.inputs, special.outputs))
        for view in (*inputs, *outputs):
            blocks.touch(view, writes=view in outputs, lanes=None)
        one = sem.Const.of(0, sem.Type(inputs[0].shape.dtype))
        dtypes = key_of(one).type.dtype, outputs[0].shape.dtype
        shared = [blocks.names.fresh(word) for word in ("keys", "places", "found")]
        own = [blocks.names.fresh(word) for word in ("own_keys", "own_places")]
        return cls(
            blocks, plan, (tuple(inputs), tuple(outputs)), blocks.counter("tid"),
            (shared[0], shared[1], shared[2]), (own[0], own[1]), (sem.Type(dtypes[0]), sem.Type(dtypes[1])),
        )  # fmt: skip

    def sort(self, body: Body, part: Affine, size: int, count: int) -> None:
        """Sort a part of a row, or all of it, and store its kept elements."""
        plan = self.plan
        step = plan.part or size
        keep = min(plan.keep or step, step) if plan.part else count
        length = self._least(body, "length", Affine.constant(step), size - part * step)
        self._declare(body)
        self._fill(body, length, lambda _, place: part * step + place)
        body.append(sem.Barrier())
        self._sort_own(body)
        self._phases(body, keep)
        body.append(sem.Barrier())
        self._store(body, part * keep, self._least(body, "kept", Affine.constant(keep), length), keep)

    def join(self, body: Body, tile: Affine, size: int, count: int) -> None:
        """Merge two runs: the elements of one tile of the merged run."""
        plan = self.plan
        both = 2 * plan.runs
        pair = self._op(Op.DIV, self._at(tile), self._number(both // plan.tile))
        part = self._named(body, "pair", pair) * both
        start = tile * plan.tile - part
        left = self._least(body, "left", Affine.constant(plan.runs), size - part)
        whole = self._least(body, "whole", Affine.constant(both), size - part)
        end = self._least(body, "end", start + plan.tile, whole)
        self._declare(body)
        first, last = self._search(body, (start, end), part, (left, whole - left))
        own, total = last - first, end - start
        behind = part + left + start - first - own  # source of the element of the other run, less its place here

        def source(inner: Body, place: Affine) -> Affine:
            is_own = self._op(Op.CMP_LT, self._at(place), self._at(own))
            chosen = self._op(Op.COND, is_own, self._at(part + first + place), self._at(behind + place))
            return self._named(inner, "source", chosen)

        self._fill(body, total, source)
        body.append(sem.Barrier())
        diagonal = Affine.index(self.thread.name) * plan.items
        self._merge(body, diagonal, (Affine(), own), (own, total - own), Affine.constant(plan.tile.bit_length()))
        body.append(sem.Barrier())
        self._put_back(body)
        body.append(sem.Barrier())
        wanted = self._least(body, "wanted", total, count - part - start)
        self._store(body, part + start, wanted, plan.tile)

    def _declare(self, body: Body) -> None:
        """Declare the arrays of a group, and the number of a thread."""
        plan, local = self.plan, sem.Region.LOCAL
        size = plan.tile + plan.behind
        body += [sem.DeclareArray(self.keys[word], self.types[word].dtype, size, local) for word in range(2)]
        body += [sem.DeclareArray(self.own[word], self.types[word].dtype, plan.items) for word in range(2)]
        if plan.runs:
            body.append(sem.DeclareArray(self.keys[2], self.blocks.offsets.dtype, plan.threads + 2, local))
        body.append(sem.Declare(self.thread, sem.GridIndex(sem.GridLevel.LOCAL, 0, self.thread.type)))

    def _key(self, place: Affine) -> sem.Expr:
        """Return the key of an element of the row."""
        key = key_of(self._element(self.views[0][0], place))
        return sem.Apply(Op.BIT_NOT, (key,)) if self.plan.descending else key

    def _fill(self, body: Body, length: Affine, source: Callable[[Body, Affine], Affine]) -> None:
        """Load ``length`` elements, coalesced, padded with the greatest key.

        All loads are in flight together, without tests: threads past the end read the last element again.
        """
        payload, kind = self.views[0][1:], self.types[1]
        with self._unrolled(body, self.plan.items) as (inner, number):
            place = self._least(inner, "place", self._place(number), length - 1)
            there = source(inner, place)
            along = self._element(payload[0], there) if payload else cast(self._at(there), kind.dtype)
            inner += [sem.Assign(self._own(0, number), self._key(there)), sem.Assign(self._own(1, number), along)]
        greatest = sem.Const(int(self.types[0].dtype.maximum), self.types[0])
        with self._unrolled(body, self.plan.items) as (inner, number):
            place = self._place(number)
            inside = self._op(Op.CMP_LT, self._at(place), self._at(length))
            key = self._op(Op.COND, inside, self._own(0, number), greatest)
            inner += [sem.Assign(self._shared(0, place), key), sem.Assign(self._shared(1, place), self._own(1, number))]
        nothing = sem.Const(0, self.types[1])
        with self._unrolled(body, -(-self.plan.behind // self.plan.threads)) as (inner, number):
            behind = self._op(Op.CMP_LT, self._at(self._place(number)), self._number(self.plan.behind))
            place = self._place(number) + self.plan.tile
            rest = sem.Assign(self._shared(0, place), greatest), sem.Assign(self._shared(1, place), nothing)
            inner.append(sem.If(behind, rest))

    def _place(self, number: Affine) -> Affine:
        """Return the place of a thread's element if adjacent elements belong to adjacent threads."""
        return Affine.index(self.thread.name) + number * self.plan.threads

    def _sort_own(self, body: Body) -> None:
        """Sort the elements of a thread, and put them back."""
        items, first = self.plan.items, Affine.index(self.thread.name) * self.plan.items
        with self._unrolled(body, items) as (inner, number):
            inner += [sem.Assign(self._own(word, number), self._shared(word, first + number)) for word in range(2)]
        with self._unrolled(body, (items + 1) // 2) as (inner, _):
            for odd in range(2):
                if pairs := (items - odd) // 2:
                    with self._unrolled(inner, pairs) as (each, number):
                        self._compare(each, number * 2 + odd)
        self._put_back(body)

    def _compare(self, body: Body, place: Affine) -> None:
        """Exchange two adjacent elements of a thread if they are out of order."""
        pairs = [[self._own(word, place + number) for number in range(2)] for word in range(2)]
        held = [[self._variable(body, "held", each) for each in pair] for pair in pairs]
        swap = self._variable(body, "swap", self._op(Op.CMP_LT, held[0][1], held[0][0]))
        for (low, high), (one, other) in zip(pairs, held, strict=True):
            body.append(sem.Assign(low, self._op(Op.COND, swap, other, one)))
            body.append(sem.Assign(high, self._op(Op.COND, swap, one, other)))

    def _phases(self, body: Body, keep: int) -> None:
        """Merge runs until one is left, using at most the first ``keep`` elements of each."""
        plan, phase, inner = self.plan, self.blocks.counter("phase"), list[sem.Stmt]()
        number, most = Affine.index(phase.name), Affine.constant(keep)
        run = self._named(inner, "run", self._op(Op.BIT_LEFT, self._number(plan.items), phase))
        pair = self._op(Op.BIT_RIGHT, self.thread, self._at(number + 1))
        start = self._named(inner, "start", self._op(Op.MUL, pair, self._at(run * 2)))
        diagonal = Affine.index(self.thread.name) * plan.items - start
        length, wanted = (self._least(inner, word, each, most) for word, each in (("length", run), ("wanted", run * 2)))
        active = self._variable(inner, "active", self._op(Op.CMP_LT, self._at(diagonal), self._at(wanted)))
        merge: Body = []
        put: Body = []
        self._merge(merge, diagonal, (start, length), (start + run, length), number + plan.items.bit_length())
        self._put_back(put)
        inner += [sem.Barrier(), sem.If(active, tuple(merge)), sem.Barrier(), sem.If(active, tuple(put))]
        body.append(sem.For(phase, self._number(0), self._number(plan.threads.bit_length() - 1), 1, tuple(inner)))

    def _merge(
        self, body: Body, diagonal: Affine, left: tuple[Affine, Affine], right: tuple[Affine, Affine], steps: Affine
    ) -> None:
        """Load the elements from ``diagonal`` on of two runs, with given begins and lengths, into registers."""
        low = self._variable(body, "low", self.blocks.offsets.bound([Affine(), diagonal - right[1]], Op.MAX))
        high = self._variable(body, "high", self.blocks.offsets.bound([diagonal, left[1]], Op.MIN))
        inner: Body = []
        middle = self._named(inner, "middle", self._op(Op.BIT_RIGHT, self._op(Op.ADD, low, high), self._number(1)))
        other = self._shared(0, right[0] + diagonal - 1 - middle)
        before = self._variable(inner, "before", self._op(Op.CMP_LE, self._shared(0, left[0] + middle), other))
        inner.append(sem.Assign(low, self._op(Op.COND, before, self._at(middle + 1), low)))
        inner.append(sem.Assign(high, self._op(Op.COND, before, high, self._at(middle))))
        searching = sem.If(self._op(Op.CMP_LT, low, high), tuple(inner))
        body.append(sem.For(self.blocks.counter("step"), self._number(0), self._at(steps), 1, (searching,)))
        found = Affine.index(low.name)
        starts = left[0] + found, right[0] + diagonal - found
        a, b = (self._variable(body, "next", self._at(start)) for start in starts)
        self._take_least(body, (a, b), (self._at(left[0] + left[1]), self._at(right[0] + right[1])))

    def _take_least(self, body: Body, places: tuple[sem.Var, sem.Var], ends: tuple[sem.Expr, sem.Expr]) -> None:
        """Take a thread's number of elements, each the lesser of the heads of two runs, the left one if equal."""
        a, b = places
        both = self._named(body, "both", self._op(Op.ADD, a, b))
        keys = [self._variable(body, "key", self._shared_at(0, place)) for place in places]
        with self._unrolled(body, self.plan.items) as (inner, number):
            lesser = self._op(Op.BIT_AND, self._op(Op.CMP_LT, a, ends[0]), self._op(Op.CMP_LE, *keys))
            left = self._op(Op.BIT_OR, self._op(Op.CMP_GE, b, ends[1]), lesser)
            is_left = self._variable(inner, "is_left", left)
            inner.append(sem.Assign(self._own(0, number), self._op(Op.COND, is_left, *keys)))
            inner.append(sem.Assign(self._own(1, number), self._shared_at(1, self._op(Op.COND, is_left, a, b))))
            inner.append(sem.Assign(a, self._op(Op.COND, is_left, self._op(Op.ADD, a, self._number(1)), a)))
            inner.append(sem.Assign(b, self._op(Op.SUB, self._at(both + number + 1), a)))
            key = self._variable(inner, "key", self._shared_at(0, self._op(Op.COND, is_left, a, b)))
            inner.append(sem.Assign(keys[0], self._op(Op.COND, is_left, key, keys[0])))
            inner.append(sem.Assign(keys[1], self._op(Op.COND, is_left, keys[1], key)))

    def _put_back(self, body: Body) -> None:
        """Store the elements of a thread to its places."""
        first = Affine.index(self.thread.name) * self.plan.items
        with self._unrolled(body, self.plan.items) as (inner, number):
            inner += [sem.Assign(self._shared(word, first + number), self._own(word, number)) for word in range(2)]

    def _store(self, body: Body, first: Affine, length: Affine, most: int) -> None:
        """Store ``length`` elements, at most ``most``, from place ``first`` on."""
        places, *values = self.views[1]
        count = min(self.plan.items, -(-most // self.plan.threads))
        words = range(1 + len(values))
        with self._unrolled(body, count) as (inner, number):
            inner += [sem.Assign(self._own(1 - w, number), self._shared(1 - w, self._place(number))) for w in words]
        with self._unrolled(body, count) as (inner, number):
            place = self._place(number)
            stored: Body = [sem.Assign(self._element(places, first + place), self._own(1, number))]
            for view in values:
                key: sem.Expr = self._own(0, number)
                key = self._op(Op.BIT_NOT, key) if self.plan.descending else key
                stored.append(sem.Assign(self._element(view, first + place), value_of(key, view.shape.dtype)))
            inner.append(sem.If(self._op(Op.CMP_LT, self._at(place), self._at(length)), tuple(stored)))

    def _search(
        self, body: Body, diagonals: tuple[Affine, Affine], part: Affine, lengths: tuple[Affine, Affine]
    ) -> tuple[Affine, Affine]:
        """Return how many left elements precede two places of the merged run; half of the threads search for each.

        In each round they try equidistant places: left elements before one of them precede the right ones.
        """
        team, half, found = self.blocks.counter("team"), self.plan.threads // 2, self.keys[2]
        body.append(sem.Declare(team, self._op(Op.DIV, self.thread, self._number(half))))
        number = self._named(body, "number", self._op(Op.MOD, self.thread, self._number(half)))
        is_first = self._op(Op.CMP_EQ, team, self._number(0))
        diagonal = self._named(body, "diagonal", self._op(Op.COND, is_first, *map(self._at, diagonals)))
        low = self._variable(body, "low", self.blocks.offsets.bound([Affine(), diagonal - lengths[1]], Op.MAX))
        high = self._variable(body, "high", self.blocks.offsets.bound([diagonal, lengths[0]], Op.MIN))
        inner: Body = []
        self._search_round(inner, (low, high), number, Affine.index(team.name) + self.plan.threads,
                           (part, part + lengths[0] + diagonal - 1))  # fmt: skip
        rounds, rest = 0, self.plan.runs
        while rest:
            rounds, rest = rounds + 1, -(-rest // half) - 1
        body.append(sem.For(self.blocks.counter("round"), self._number(0), self._number(rounds), 1, tuple(inner)))
        told = sem.Assign(self._found(found, Affine.index(team.name)), low)
        body.append(sem.If(self._op(Op.CMP_EQ, self._at(number), self._number(0)), (told,)))
        body.append(sem.Barrier())
        first, last = (self._named(body, "found", self._found(found, Affine.constant(each))) for each in range(2))
        return first, last

    def _search_round(
        self, body: Body, bounds: tuple[sem.Var, sem.Var], number: Affine, slot: Affine, runs: tuple[Affine, Affine]
    ) -> None:
        """Narrow down the place in the left run, by a factor of the number of threads."""
        (low, high), half, found = bounds, self.plan.threads // 2, self.keys[2]
        one, thread = self._number(1), Affine.index(self.thread.name)
        reach = self._op(Op.ADD, self._op(Op.SUB, high, low), self._number(half - 1))
        step = self._variable(body, "step", self._op(Op.DIV, reach, self._number(half)))
        place = self._named(body, "place", self._op(Op.ADD, low, self._op(Op.MUL, self._at(number), step)))
        before = self._variable(body, "before", self._number(0))
        is_before = self._op(Op.CMP_LE, self._key(runs[0] + place), self._key(runs[1] - place))
        tried = sem.Assign(before, cast(is_before, before.type.dtype))
        body.append(sem.If(self._op(Op.CMP_LT, self._at(place), high), (tried,)))
        body += [sem.Assign(self._found(found, thread), before), sem.Barrier()]
        following = self._variable(body, "following", self._number(0))
        is_last = self._op(Op.CMP_EQ, self._at(number), self._number(half - 1))
        body.append(sem.If(is_last, (), (sem.Assign(following, self._found(found, thread + 1)),)))
        none = self._op(Op.BIT_AND, self._op(Op.CMP_EQ, self._at(number), self._number(0)),
                        self._op(Op.CMP_EQ, before, self._number(0)))  # fmt: skip
        count, target = self._at(number + 1), self._found(found, slot)
        body.append(sem.If(self._op(Op.CMP_GT, before, following), (sem.Assign(target, count),)))
        body += [sem.If(none, (sem.Assign(target, self._number(0)),)), sem.Barrier()]
        passed = self._variable(body, "passed", target)
        some = self._variable(body, "some", self._op(Op.CMP_GT, passed, self._number(0)))
        behind = self._op(Op.ADD, low, self._op(Op.MUL, passed, step))
        body.append(sem.Assign(high, self._op(Op.COND, some, self._op(Op.MIN, high, behind), low)))
        after = self._op(Op.ADD, self._op(Op.SUB, behind, step), one)
        body.append(sem.Assign(low, self._op(Op.COND, some, after, low)))

    def _element(self, view: View, place: Affine) -> sem.Subscript:
        offset = self._at(view.offset + place * stride_of(view))
        return sem.Subscript(view.array, offset, sem.Type(view.shape.dtype))

    def _shared(self, word: int, place: Affine) -> sem.Subscript:
        return self._shared_at(word, self._at(place))

    def _shared_at(self, word: int, place: sem.Expr) -> sem.Subscript:
        return sem.Subscript(self.keys[word], place, self.types[word])

    def _own(self, word: int, number: Affine) -> sem.Subscript:
        return sem.Subscript(self.own[word], self._at(number), self.types[word])

    def _found(self, array: str, place: Affine) -> sem.Subscript:
        return sem.Subscript(array, self._at(place), self.thread.type)

    def _at(self, place: Affine) -> sem.Expr:
        return self.blocks.offsets.scalar(place)

    def _number(self, value: int) -> sem.Expr:
        return self.blocks.offsets.constant(value)

    def _op(self, op: Op, *operands: sem.Expr) -> sem.Expr:
        return sem.Apply(op, operands)

    def _named(self, body: Body, name: str, value: sem.Expr) -> Affine:
        """Declare a place that is not affine in others."""
        variable = self.blocks.counter(name)
        body.append(sem.Declare(variable, value))
        return Affine.index(variable.name)

    def _least(self, body: Body, name: str, one: Affine, other: Affine) -> Affine:
        return self._named(body, name, self._op(Op.MIN, self._at(one), self._at(other)))

    def _variable(self, body: Body, name: str, value: sem.Expr) -> sem.Var:
        counts = value.type == sem.Type(self.blocks.offsets.dtype)
        variable = self.blocks.counter(name) if counts else sem.Var(self.blocks.names.fresh(name), value.type)
        body.append(sem.Declare(variable, value))
        return variable

    @contextmanager
    def _unrolled(self, body: Body, count: int) -> Iterator[tuple[Body, Affine]]:
        """Loop ``count`` times, unrolled; yield the body to extend, and the counter."""
        counter, inner = self.blocks.counter("i"), list[sem.Stmt]()
        yield inner, Affine.index(counter.name)
        end = self._number(count)
        body.append(sem.For(counter, self._number(0), end, 1, tuple(inner), sem.LoopKind.UNROLL))
