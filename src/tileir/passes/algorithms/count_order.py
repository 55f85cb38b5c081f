"""Sorting by counting ranks, for devices with many threads and few rows.

```text (O) = order(X)   ->   R[i] = +(X[j] is before X[i])
                      O[k] = +(R[i] == k ? i : 0)
```

The rank of an element is the number of elements before it. Time is quadratic in the row length, but all comparisons
may run in parallel, and later passes treat them as ordinary reductions.
"""

from __future__ import annotations

from typing import ClassVar, Final

from tileir.core import Aggregation, DType, NameScope, Op, attrs
from tileir.passes.kernels.replacement import Outcome, Replacement, ReplacingPass
from tileir.poly.affine import Affine
from tileir.schedule.remarks import refused
from tileir.stripe import ir as stripe

_TAGS: Final = stripe.Tags.of("contraction", "agg_op_add")


@attrs.frozen
class CountOrder(ReplacingPass):
    """Sort short rows by rank: one kernel counts the rank of each element, another one moves the elements."""

    name: ClassVar[str] = "count_order"

    def _kernel(self, kernel: stripe.Block, names: NameScope) -> Outcome:
        order = lone_order(kernel)
        if order is None or len(order.outputs) > 1:
            return refused("TR661")
        counted = _RankSort.of(kernel, order, names.fresh("ranks"))
        return Replacement((counted.ranking(), counted.choosing()), (counted.memory,))


def lone_order(kernel: stripe.Block) -> stripe.Special | None:
    """Return the sorting statement of an unscheduled kernel that does nothing else."""
    if kernel.constraints:
        return None
    match kernel.statements:
        case (stripe.Special(name="order", parameters=(("descending", _),)) as order,):
            views = [kernel.refinement(name) for name in (*order.inputs, *order.outputs)]
            return order if all(view.shape.elements > 1 or view is views[1] for view in views) else None
        case _:
            return None


@attrs.frozen(repr=False)
class _RankSort:
    """A kernel that sorts rows, with memory for ranks.

    Attributes:
        kernel: The kernel.
        keys: The view of a row of keys.
        places: The view of the stored places.
        axis: The axis of a row.
        descending: Whether the order is descending.
        memory: The ranks of all elements.
        own: Fresh names for two indices.
    """

    kernel: stripe.Block
    keys: stripe.Refinement
    places: stripe.Refinement
    axis: int
    descending: bool
    memory: stripe.Refinement
    own: tuple[str, str]

    @classmethod
    def of(cls, kernel: stripe.Block, order: stripe.Special, name: str) -> _RankSort:
        """Return the kernel with memory of this name."""
        keys, places = kernel.refinement(order.inputs[0]), kernel.refinement(order.outputs[0])
        axis = next(axis for axis, dim in enumerate(keys.shape.dims) if dim.size > 1)
        sizes = (*(index.range for index in kernel.indices), keys.shape.elements)
        memory = stripe.allocation(name, DType.I32 if places.shape.dtype is DType.I32 else DType.I64, sizes)
        names = NameScope.of(index.name for index in kernel.indices)
        own = names.fresh("e"), names.fresh("o")
        return cls(kernel, keys, places, axis, bool(dict(order.parameters)["descending"]), memory, own)

    def ranking(self) -> stripe.Block:
        """Return the kernel that counts the elements before each element."""
        mine, other = self.own
        size = self.keys.shape.elements
        ranks = self._ranks(stripe.Direction.OUT, Aggregation.SUM)
        views = (self._key("mine", mine), self._key("other", other), ranks)
        body = _Body()
        a, b = body.key("mine", self.keys.shape.dtype), body.key("other", self.keys.shape.dtype)
        first = body.op(Op.CMP_LT, DType.BOOL, body.index(other), body.index(mine))
        low, high = (a, b) if self.descending else (b, a)
        before, behind = body.ordered(low, high), body.op(Op.CMP_EQ, DType.BOOL, body.ordered(high, low), body.no())
        counted = body.op(Op.COND, DType.BOOL, first, behind, before)
        body.statements.append(stripe.Convert(counted, "one", ranks.shape.dtype))
        body.statements.append(stripe.Store("one", "ranks"))
        return self._kernel("ranks", (size, size), views, body)

    def choosing(self) -> stripe.Block:
        """Return the kernel that finds the element of each rank."""
        element, rank = self.own
        places, dtype = self.places, self.memory.shape.dtype
        row = next((axis for axis, dim in enumerate(places.shape.dims) if dim.size > 1), self.axis)
        access = tuple(a + Affine.index(rank) if k == row else a for k, a in enumerate(places.access))
        target = attrs.evolve(
            places, name="places", access=access, shape=places.shape.element, aggregation=Aggregation.SUM
        )
        body = _Body()
        body.statements.append(stripe.Load("ranks", "rank"))
        equal = body.op(Op.CMP_EQ, DType.BOOL, "rank", body.index(rank, dtype))
        body.statements.append(stripe.Constant("zero", dtype, 0))
        chosen = body.op(Op.COND, dtype, equal, body.index(element, dtype), "zero")
        body.statements.append(stripe.Store(chosen, "places"))
        ranges = (self.keys.shape.elements, places.shape.elements)
        return self._kernel("order", ranges, (self._ranks(stripe.Direction.IN, None), target), body)

    def _key(self, name: str, index: str) -> stripe.Refinement:
        access = tuple(a + Affine.index(index) if k == self.axis else a for k, a in enumerate(self.keys.access))
        return attrs.evolve(self.keys, name=name, access=access, shape=self.keys.shape.element)

    def _ranks(self, direction: stripe.Direction, aggregation: Aggregation | None) -> stripe.Refinement:
        access = tuple(Affine.index(name) for name in (*(index.name for index in self.kernel.indices), self.own[0]))
        return attrs.evolve(self.memory.element(direction, access, "ranks"), aggregation=aggregation)

    def _kernel(
        self, suffix: str, ranges: tuple[int, int], views: tuple[stripe.Refinement, ...], body: _Body
    ) -> stripe.Block:
        own = tuple(stripe.Index(name, size) for name, size in zip(self.own, ranges, strict=True))
        name = f"{self.kernel.name}_{suffix}" if self.kernel.name else ""
        indices = (*self.kernel.indices, *own)
        statements = tuple(body.statements)
        return stripe.Block(name, indices, (), views, statements, self.kernel.comments, tags=_TAGS)


@attrs.define(eq=False, repr=False)
class _Body:
    """Builder of statements."""

    statements: list[stripe.Statement] = attrs.field(factory=list, init=False)
    _names: NameScope = attrs.field(factory=NameScope, init=False)

    def op(self, op: Op, dtype: DType, *inputs: str) -> str:
        """Add an operation; return the name of its result."""
        into = self._names.fresh("v")
        self.statements.append(stripe.Intrinsic(op, inputs, into, dtype))
        return into

    def index(self, name: str, dtype: DType = DType.I64) -> str:
        """Add the value of an index."""
        into = self._names.fresh("n")
        self.statements.append(stripe.LoadIndex(Affine.index(name), into, dtype))
        return into

    def key(self, view: str, dtype: DType) -> str:
        """Add a key in a form with a total order."""
        into = self._names.fresh("k")
        self.statements.append(stripe.Load(view, into))
        if not dtype.is_bool:
            return into
        self.statements.append(stripe.Convert(into, f"{into}_wide", DType.I32))
        return f"{into}_wide"

    def no(self) -> str:
        """Add false."""
        into = self._names.fresh("no")
        self.statements.append(stripe.Constant(into, DType.BOOL, value=False))
        return into

    def ordered(self, low: str, high: str) -> str:
        """Add whether one key is less than another, or a number where that is NaN."""
        beyond = self.op(Op.CMP_LE, DType.BOOL, high, low)
        below = self.op(Op.CMP_EQ, DType.BOOL, beyond, self.no())
        return self.op(Op.BIT_AND, DType.BOOL, below, self.op(Op.CMP_EQ, DType.BOOL, low, low))
