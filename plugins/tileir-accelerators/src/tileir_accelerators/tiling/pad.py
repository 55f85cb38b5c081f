"""Padded copies of inputs, which make constraints at the edges of tensors redundant.

A contraction that excludes points whose inputs would be out of bounds can instead read a value there that its
aggregation ignores: 0 for sums and products under them. Reduction indices of awkward lengths become multiples of vector
lanes likewise. PlaidML calls it Pad.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from tileir.core import Aggregation, NameScope, Op, attrs
from tileir.passes.base import at_least, selected_kernel, with_temporaries
from tileir.poly.affine import Affine
from tileir.poly.coverage import tightened
from tileir.stripe.ir import (
    Block,
    Constant,
    Convert,
    Direction,
    Index,
    Intrinsic,
    Load,
    Program,
    Refinement,
    Statement,
    Store,
    Tags,
    TensorShape,
    allocation,
)


@attrs.frozen
class Pad:
    """Make contractions read neutral values outside of tensors, instead of excluding points.

    A kernel is padded only if all of its constraints merely keep accesses inside tensors.

    Attributes:
        reqs: Tags of the kernels to pad.
        multiple: Multiple to which the ranges of long reduction indices are rounded up; 1 for no rounding.
        threshold: Minimum range of an index that is rounded up.
        finite: Whether floating-point inputs are free of infinities and NaN. A padded 0 times one of these is NaN, so
            products of floats are padded only if all of their factors can be.
    """

    name: ClassVar[str] = "pad"
    reqs: tuple[str, ...] = ()
    multiple: int = attrs.field(default=1, validator=at_least(1))
    threshold: int = attrs.field(default=32, validator=at_least(1))
    finite: bool = False

    def __call__(self, program: Program) -> Program:
        """Return the program with padded copies before the kernels that read them."""
        names = NameScope.of((*(r.name for r in program.memory), *(r.name for r in program.main.refinements)))
        sizes = {r.name: r.shape for r in program.main.refinements}
        written: set[str] = set()
        statements: list[Statement] = []
        added: list[Refinement] = []
        for kernel in program.main.statements:
            if isinstance(kernel, Block):
                if selected_kernel(kernel, self.reqs) and (plan := self._plan(kernel, sizes, written)) is not None:
                    copies = [_Copy.of(view, plan, sizes[view.source], names) for view in plan.outside(sizes)]
                    added += [copy.allocation for copy in copies]
                    statements += [block for copy in copies for block in copy.kernels()]
                    kernel = _rebased(kernel, plan, copies)
                written.update(r.source for r in kernel.refinements if r.direction.writes)
            statements.append(kernel)
        return program if not added else with_temporaries(program, statements, added)

    def _plan(self, kernel: Block, sizes: dict[str, TensorShape], written: set[str]) -> _Padding | None:
        """Return the padding of a kernel; None if it would change the meaning, or gain nothing."""
        term = _Term.of(kernel)
        if term is None or not all(i.is_plain for i in kernel.indices):
            return None
        if term.output.direction is Direction.OUT and term.output.source in written:
            return None  # elements that no point reaches keep what an earlier kernel wrote
        if any(r.shape.strides != sizes[r.source].strides for r in kernel.refinements):
            return None
        ranges, ends = self._rounded(kernel, term)
        needless = [*kernel.constraints, *ends]
        if not needless or not all(self._is_neutral(c, term, sizes) for c in needless):
            return None
        plan = _Padding(ranges, term)
        return plan if plan.fits(term.output, sizes) and all(view.shape.elements for view in term.factors) else None

    def _rounded(self, kernel: Block, term: _Term) -> tuple[dict[str, int], list[Affine]]:
        """Return the range of each index after rounding up, and the constraints that would undo it."""
        kept = {name for access in term.output.access for name in access.indices}
        ranges, ends = kernel.ranges, []
        for index in kernel.indices:
            longer = -(-index.range // self.multiple) * self.multiple
            if index.name not in kept and index.range >= self.threshold and longer != index.range:
                ranges[index.name] = longer
                ends.append(index.range - 1 - Affine.index(index.name))
        return ranges, ends

    def _is_neutral(self, constraint: Affine, term: _Term, sizes: dict[str, TensorShape]) -> bool:
        """Return whether a point that fails a constraint adds nothing once the inputs are padded."""
        wanted = tightened(constraint)
        padded = [view for view in term.factors if wanted in _limits(view, sizes[view.source])]
        exact = self.finite or not term.output.shape.dtype.is_float
        return len(padded) == len(term.factors) or (bool(padded) and exact)


def _limits(view: Refinement, tensor: TensorShape) -> Iterable[Affine]:
    """Return the constraints that keep a view inside of its tensor."""
    for access, dim in zip(view.access, tensor.dims, strict=True):
        yield tightened(access)
        yield tightened(dim.size - 1 - access)


@attrs.frozen(repr=False)
class _Term:
    """Contribution of a flat kernel to its output: a product of inputs, or one input."""

    output: Refinement
    factors: tuple[Refinement, ...]

    @classmethod
    def of(cls, kernel: Block) -> _Term | None:
        """Return the term of a kernel that is a contraction in one of these forms."""
        *body, last = kernel.statements or (None,)
        if not isinstance(last, Store) or last.index is not None:
            return None
        output = kernel.refinement(last.into)
        loads: dict[str, tuple[str, ...]] = {}
        converted = False
        for statement in body:
            match statement:
                case Load(source=source, into=into, index=None):
                    loads[into] = (source,)
                case Convert(input=value, into=into, dtype=dtype) if value in loads:
                    loads[into], converted = loads[value], True
                    if dtype.is_bool:
                        return None
                case Intrinsic(op=Op.MUL, inputs=(left, right), into=into) if left in loads and right in loads:
                    loads[into] = loads[left] + loads[right]
                case Intrinsic(op=Op.IDENT, inputs=(value,), into=into) if value in loads:
                    loads[into] = loads[value]
                case _:
                    return None
        names = loads.get(last.source, ())
        if output.aggregation is not Aggregation.SUM and (len(names) != 1 or converted):
            return None  # only 0 stays neutral in products, and in another type
        if not output.merges or not names:
            return None
        return cls(output, tuple(kernel.refinement(name) for name in dict.fromkeys(names)))


@attrs.frozen(repr=False)
class _Padding:
    """Ranges of the indices after padding, and the term of each point."""

    ranges: dict[str, int]
    term: _Term

    def reach(self, view: Refinement) -> list[tuple[int, int]]:
        """Return the least and greatest place that a view accesses on each axis."""
        return [(int(low), int(high)) for low, high in (access.bounds(self.ranges) for access in view.access)]

    def fits(self, view: Refinement, sizes: dict[str, TensorShape]) -> bool:
        """Return whether a view stays inside of its tensor."""
        dims = sizes[view.source].dims
        return all(low >= 0 and high < dim.size for (low, high), dim in zip(self.reach(view), dims, strict=True))

    def outside(self, sizes: dict[str, TensorShape]) -> list[Refinement]:
        """Return the views that need a padded tensor."""
        return [view for view in self.term.factors if not self.fits(view, sizes)]


@attrs.frozen(repr=False)
class _Copy:
    """Padded tensor, and the offset of the original in it."""

    view: Refinement
    allocation: Refinement
    origin: tuple[int, ...]
    original: TensorShape
    neutral: bool | int | float

    @classmethod
    def of(cls, view: Refinement, plan: _Padding, original: TensorShape, names: NameScope) -> _Copy:
        """Return the tensor that a view needs: all places that it accesses, and the whole original."""
        reach = plan.reach(view)
        low = [min(0, least) for least, _ in reach]
        high = [max(dim.size - 1, most) for dim, (_, most) in zip(original.dims, reach, strict=True)]
        dtype = original.dtype
        sizes = [last - first + 1 for first, last in zip(low, high, strict=True)]
        memory = allocation(names.fresh(f"{view.source}_padded"), dtype, sizes)
        neutral = (plan.term.output.aggregation or Aggregation.ASSIGN).identity(dtype)
        return cls(view, memory, tuple(-first for first in low), original, neutral)

    def kernels(self) -> tuple[Block, Block]:
        """Return a kernel that fills the tensor with the neutral value, and one that copies the original into it."""
        name, shape = self.allocation.name, self.allocation.shape
        indices = [Affine.index(f"i{axis}") for axis in range(len(shape.dims))]
        target = self.allocation.element(Direction.OUT, indices)
        fill = Block(
            f"fill_{name}",
            indices=tuple(Index(f"i{axis}", size) for axis, size in enumerate(shape.sizes)),
            refinements=(target,),
            statements=(Constant("neutral", shape.dtype, self.neutral), Store("neutral", name)),
            tags=Tags.of("pad"),
        )
        source = Refinement("original", Direction.IN, self.view.source, tuple(indices), self.original.element)
        place = tuple(index + origin for index, origin in zip(indices, self.origin, strict=True))
        copy = Block(
            f"copy_{name}",
            indices=tuple(Index(f"i{axis}", size) for axis, size in enumerate(self.original.sizes)),
            refinements=(source, attrs.evolve(target, access=place)),
            statements=(Load("original", "value"), Store("value", name)),
            tags=Tags.of("pad"),
        )
        return fill, copy


def _rebased(kernel: Block, plan: _Padding, copies: list[_Copy]) -> Block:
    """Return the kernel over padded tensors, without constraints."""
    moved = {copy.view: copy for copy in copies}
    refinements = []
    for view in kernel.refinements:
        if (copy := moved.get(view)) is not None:
            access = tuple(a + origin for a, origin in zip(view.access, copy.origin, strict=True))
            view = attrs.evolve(view, source=copy.allocation.name, access=access, shape=copy.allocation.shape.element)
        refinements.append(view)
    indices = tuple(attrs.evolve(i, range=plan.ranges[i.name]) for i in kernel.indices)
    return attrs.evolve(kernel, indices=indices, constraints=(), refinements=tuple(refinements), deps=())
