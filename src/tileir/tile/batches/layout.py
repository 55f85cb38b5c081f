"""Values of a function for several examples: the position of the axis of examples, and its moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tileir.core import Aggregation, Combination, NameScope, Span, TileError, attrs, fail
from tileir.tile import ir
from tileir.tile.building.indices import Dim
from tileir.tile.building.recording import Declared, Recorder
from tileir.tile.building.tensors import Tensor
from tileir.tile.ir import Expr, IndexName, IntLiteral, Name
from tileir.tile.traversal import index_names


@attrs.frozen
class Part:
    """A tensor, and the axis of the examples; None if it is equal for all of them."""

    tensor: Tensor
    axis: int | None = None

    @property
    def name(self) -> Name:
        """The expression that reads it."""
        return Name(self.tensor.reference)


@attrs.frozen
class Group:
    """A tuple of values, and its statement, if there is one."""

    items: tuple[Value, ...]
    reference: str | None = None


@attrs.frozen
class Stream:
    """Random numbers that differ among examples, and the states that follow."""

    value: Part
    state: Part


Value: TypeAlias = Part | Group | Stream


@attrs.define(eq=False, repr=False)
class Layout:
    """Mover of the axis of examples. Each move of a tensor is recorded once.

    Attributes:
        recorder: The destination of statements.
        size: The number of examples.
        stem: The preferred name of the examples' index variable.
        span: The current statement.
    """

    recorder: Recorder
    size: Expr
    stem: str
    span: Span | None = None
    _made: dict[tuple[str, str, int | None, int], Part] = attrs.field(factory=dict, init=False)

    def refused(self, message: str, span: Span | None = None) -> TileError:
        """Build the error for a statement that cannot be batched, to be raised by the caller."""
        return self.fault("TIL220", message, span)

    def fault(self, code: str, message: str, span: Span | None = None) -> TileError:
        """Build an error at a place, by default the statement, to be raised by the caller."""
        return fail(code, message, span or self.span)

    def dims(self, part: Part) -> tuple[Dim, ...]:
        """Return the sizes of a tensor for one example.

        Raises:
            TileError: TIL220, it depends on an input that was declared without sizes.

        """
        try:
            sizes = part.tensor.dims
        except TileError:
            message = "the sizes of a tensor here are not declared, so nothing says where the examples lie in it"
            raise self.refused(f"{message}; declare inputs with a dimension for each axis, as in X[N]") from None
        return sizes if part.axis is None else (*sizes[: part.axis], *sizes[part.axis + 1 :])

    def rank(self, part: Part) -> int:
        """Return the number of axes for one example."""
        known = self.recorder.ranks.get(part.tensor.reference)
        if known is None:
            return len(self.dims(part))
        return known if part.axis is None else known - 1

    def helper(self, body: Expr | Declared, axis: int | None = 0) -> Part:
        """Record a statement that only moves elements; it gets no attributes, which are for statements of users."""
        reference = self.recorder.record(body)
        step = self.recorder.steps[reference]
        step.attributes, step.span = (), self.span
        return Part(Tensor(self.recorder, reference), axis)

    def spread(self, part: Part) -> Part:
        """Return a tensor with an axis of examples: a shared one is repeated."""
        if part.axis is not None:
            return part
        return self._once("spread", part, 0, lambda: self._assigned(part, 0))

    def moved(self, part: Part, axis: int) -> Part:
        """Return a tensor whose examples lie along ``axis``, if it has any."""
        if part.axis in (None, axis):
            return part
        return self._once("moved", part, axis, lambda: self._assigned(part, axis))

    def front(self, part: Part) -> Part:
        """Return a tensor whose examples lie along the first axis, if it has any."""
        return self.moved(part, 0)

    def padded(self, part: Part, rank: int) -> Part:
        """Return a tensor with axes of size 1 behind that of the examples, so that each example has ``rank`` axes."""
        part = self.front(part)
        missing = rank - self.rank(part)
        if part.axis is None or missing <= 0:
            return part
        sizes = (self.size, *(IntLiteral(1),) * missing, *(dim.expr for dim in self.dims(part)))
        return self._once("padded", part, rank, lambda: self.helper(ir.Call("reshape", (part.name, *sizes))))

    def like(self, part: Part, other: Part) -> Part:
        """Return a tensor that broadcasts to ``other`` for each example in a form that does so for all at once."""
        if other.axis is None or (part.axis is None and other.axis == 0):
            return part
        if other.axis > 0:  # right-aligned axes would meet that of the examples
            return self.moved(self.padded(self.spread(part), self.rank(other)), other.axis)
        return self.padded(part, self.rank(other))

    def index(self, *exprs: Expr) -> IndexName:
        """Return an index variable for the examples that is not among ``exprs``."""
        used = NameScope.of(index.name for expr in exprs for index in index_names(expr))
        return IndexName(used.fresh(self.stem))

    def contracted(
        self,
        aggregation: Aggregation,
        indices: Sequence[Expr],
        sizes: Sequence[Expr],
        part: Part,
        read: Sequence[Expr],
        axis: int | None,
    ) -> Part:
        """Record a contraction of one tensor."""
        access = ir.Access(part.tensor.reference, tuple(read))
        body = ir.Contraction(
            "", tuple(indices), tuple(sizes), aggregation, Combination.NONE, (access,), span=self.span
        )
        made = self.helper(body, axis)
        self.recorder.ranks[made.tensor.reference] = len(sizes)
        return made

    def summed(self, part: Part) -> Part:
        """Return the sum over all examples."""
        part, dims = self.front(part), self.dims(part)
        rest = _axes(len(dims))
        read = (self.index(*rest), *rest)
        return self.contracted(Aggregation.SUM, rest, [dim.expr for dim in dims], part, read, None)

    def _assigned(self, part: Part, axis: int) -> Part:
        dims = self.dims(part)
        rest, sizes = _axes(len(dims)), [dim.expr for dim in dims]
        example = self.index(*rest)
        read = rest if part.axis is None else inserted(rest, part.axis, example)
        indices, shape = inserted(rest, axis, example), inserted(sizes, axis, self.size)
        return self.contracted(Aggregation.ASSIGN, indices, shape, part, read, axis)

    def _once(self, kind: str, part: Part, place: int, make: Callable[[], Part]) -> Part:
        key = (kind, part.tensor.reference, part.axis, place)
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]


def _axes(rank: int) -> list[Expr]:
    return [IndexName(f"x{axis}") for axis in range(rank)]


def inserted(items: Sequence[Expr], place: int, item: Expr) -> list[Expr]:
    """Return ``items`` with one more at a position."""
    return [*items[:place], item, *items[place:]]
