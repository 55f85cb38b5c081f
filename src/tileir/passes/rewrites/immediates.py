"""Unrolling of small windows with constant weights, which become immediate values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from math import prod
from typing import ClassVar, Final

from tileir.core import Aggregation, NameScope, attrs, rewritten
from tileir.core.numbers import arithmetic
from tileir.passes.algorithms.terms import Terms, elements_of
from tileir.passes.analysis.dependences import roots
from tileir.passes.base import at_least, selected_kernel, with_kernels
from tileir.poly.affine import Affine
from tileir.schedule.reindex import moved
from tileir.stripe.ir import (
    Block,
    Buffer,
    Constant,
    Convert,
    Direction,
    Index,
    Intrinsic,
    Load,
    LoadIndex,
    Program,
    Refinement,
    Special,
    Statement,
    Store,
    scalar_output,
    views_read,
)

_AGGREGATIONS: Final = (Aggregation.SUM, Aggregation.PROD, Aggregation.MAX, Aggregation.MIN)
_REDUCES: Final = ("agg_op_", "comb_op_", "contraction")
"""Prefix of the tags of reductions."""

REMARK: Final = "written out: "
"""Prefix of the comment on a kernel for each unrolled window."""


@attrs.frozen
class Immediates:
    """Unroll reductions over windows with constant weights, which become immediate values.

    A flat reduction qualifies if its terms use constants of the program, or values computed from indices, that depend
    on all reduced indices together and on no index of the result, and if no constraint involves reduced indices. It
    becomes an elementwise kernel: constant subexpressions are folded, loads are shared, and zero terms are dropped. An
    integer times 0 is zero; a float times 0 only if it is known to be finite, since infinity times 0 is NaN. Longer
    windows run faster as loops over a table of weights, and take longer to compile when unrolled.

    Attributes:
        reqs: Tags that a reduction must carry.
        terms: Maximum number of remaining terms.
        sparse: Maximum number of remaining terms of windows of which at least half the terms are dropped.
        weights: Maximum number of points of a window.
        finite: Whether to assume that all values multiplied by weights are finite, as with the tag ``finite``.
    """

    name: ClassVar[str] = "immediates"
    reqs: tuple[str, ...] = ()
    terms: int = attrs.field(default=36, validator=at_least(0))
    sparse: int = attrs.field(default=128, validator=at_least(0))
    weights: int = attrs.field(default=1024, validator=at_least(0))
    finite: bool = False

    def __call__(self, program: Program) -> Program:
        """Return the program with small windows unrolled."""
        known = {buffer.name: buffer for buffer in program.buffers}
        behind = roots(program)

        def written_out(kernel: Statement) -> tuple[Statement, ...]:
            if not isinstance(kernel, Block) or not selected_kernel(kernel, self.reqs):
                return (kernel,)
            read = {r.name: behind[r.source] for r in kernel.refinements if r.source in behind}
            return (self._written_out(kernel, {n: known[b] for n, b in read.items() if b in known}) or kernel,)

        return with_kernels(program, rewritten(program.main.statements, written_out))

    def _written_out(self, kernel: Block, contents: Mapping[str, Buffer]) -> Block | None:
        """Return the kernel with its window unrolled; None if it has none that qualifies."""
        window = _Window.of(kernel, contents)
        points = 0 if window is None else prod(index.range for index in window.indices)
        if window is None or points > self.weights:
            return None
        most = max(self.terms, min(self.sparse, points // 2))
        names = NameScope.of((window.result.name,))
        terms = Terms(window.aggregation, names, finite=self.finite or "finite" in kernel.tags)
        for point in window.points():
            terms.begin()
            window.add(terms, point)
            terms.end(window.store.source)
            if len(terms.values) > most:
                return None
        return window.written_out(terms)


@attrs.frozen(repr=False)
class _Window:
    """A flat reduction over values known at compile time.

    Attributes:
        kernel: The kernel.
        store: Its only store.
        result: The target of the store.
        indices: The reduced indices, in the order of the layout of the first constant.
        loaded: Elements of constants that depend on no index of the result, by view.
    """

    kernel: Block
    store: Store
    result: Refinement
    indices: tuple[Index, ...]
    loaded: Mapping[str, arithmetic.Array]

    @classmethod
    def of(cls, kernel: Block, contents: Mapping[str, Buffer]) -> _Window | None:
        """Return the window of a kernel; None if it has none."""
        store = kernel.statements[-1] if kernel.statements else None
        stores = [s for s in kernel.statements if isinstance(s, Store | Block | Special)]
        if not isinstance(store, Store) or len(stores) != 1 or store.index is not None:
            return None
        result = kernel.refinement(store.into)
        if result.aggregation not in _AGGREGATIONS or result.direction is not Direction.OUT:
            return None
        kept = [affine.indices for affine in result.access if affine.indices]
        outside = {name for names in kept for name in names}
        ranges = {index.name: index for index in kernel.indices if index.range > 1}
        indexed = {s.source for s in kernel.statements if isinstance(s, Load) and s.index is not None}
        weights = [r for r in kernel.refinements if r.name in contents and r.name not in indexed]
        weights = [r for r in weights if outside.isdisjoint(name for affine in r.access for name in affine.indices)]
        affines = [affine for view in weights for affine in view.access]
        affines += [s.affine for s in kernel.statements if isinstance(s, LoadIndex)]
        moving = dict.fromkeys(name for affine in affines for name in affine.indices)
        inside = {name: ranges[name] for name in moving if name in ranges and name not in outside}
        limited = {name for constraint in kernel.constraints for name in constraint.indices}
        if (
            not inside
            or not all(index.is_plain for index in kernel.indices)
            or any(len(names) != 1 for names in kept)
            or len(outside) != len(kept)  # each point of the result is another element
            or ranges.keys() - outside != inside.keys()
            or not limited.isdisjoint(inside)
            or any(r.direction is not Direction.IN for r in kernel.refinements if r is not result)
        ):
            return None
        loaded = {view.name: elements_of(contents[view.name], view.shape.dtype) for view in weights}
        return cls(kernel, store, result, tuple(inside.values()), loaded)

    def points(self) -> Iterator[dict[str, Affine]]:
        """Yield the values of the indices at each point, the last index fastest."""
        for values in product(*(range(index.range) for index in self.indices)):
            yield {i.name: Affine.constant(value) for i, value in zip(self.indices, values, strict=True)}

    @property
    def aggregation(self) -> Aggregation:
        """The aggregation that merges the terms."""
        assert self.result.aggregation is not None  # by choice
        return self.result.aggregation

    def add(self, terms: Terms, point: Mapping[str, Affine]) -> None:
        """Add the statements at one point to a term; constants are loaded at compile time."""
        for statement in self.kernel.statements[:-1]:
            match statement:
                case Load(source=source, into=into) if source in self.loaded:
                    view = moved(self.kernel.refinement(source), point)
                    axes = zip(view.access, view.shape.dims, strict=True)
                    terms.load(into, self.loaded[source][sum(int(a.offset) * dim.stride for a, dim in axes)])
                case Load(source=source):
                    terms.load_from(statement, moved(self.kernel.refinement(source), point))
                case LoadIndex(affine=affine):
                    terms.compute(attrs.evolve(statement, affine=affine.substitute(point)))
                case Constant() | Convert() | Intrinsic():
                    terms.compute(statement)
                case _:
                    raise TypeError(type(statement).__name__)  # a defect of this pass

    def written_out(self, terms: Terms) -> Block:
        """Return the kernel with its terms in place of the window."""
        kernel, gone = self.kernel, {index.name for index in self.indices}
        count, points = len(terms.values), prod(index.range for index in self.indices)
        statements = terms.merged(self.result.shape.dtype)
        total = scalar_output(statements[-1])
        assert total is not None  # it is the last thing that is computed
        read = {name for statement in statements for name in views_read(statement)}
        result = attrs.evolve(self.result, aggregation=None)
        reduces = [name for name, _ in kernel.tags.items if name.startswith(_REDUCES)]
        return attrs.evolve(
            kernel,
            indices=tuple(index for index in kernel.indices if index.name not in gone),
            refinements=(*(view for view in terms.views if view.name in read), result),
            statements=(*statements, Store(total, result.name, tags=self.store.tags)),
            comments=(*kernel.comments, f"{REMARK}{count} of {points} terms, with constants as immediate values"),
            tags=kernel.tags.remove(*reduces).add("eltwise"),
            deps=(),
        )
