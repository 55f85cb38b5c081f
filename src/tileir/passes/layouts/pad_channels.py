"""Padding of the few channels of a convolution's factors to a power of two, channels last.

Three channels of 16 bits are six bytes: pixels are unaligned, and tiles of them are copied one channel at a time. With
four channels a pixel is eight bytes, which one instruction copies, and channels and adjacent pixels form one index of
the sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tileir.core import NameScope, Op, attrs
from tileir.core.fragments import usable
from tileir.passes.base import at_least, with_temporaries
from tileir.poly.affine import Affine
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
class PadChannels:
    """Pad the few channels of operands of matrix instructions to a power of two, by a copy.

    Adds only products of zeros, so sums do not change.

    Attributes:
        fragments: Names of matrix instructions; operands of other dtypes are left alone.
        most: Maximum number of channels after padding.
        waste: Maximum share of padding, as a divisor: at most one of this number of channels is padding.
        least_reuse: Minimum number of reads of each element by a kernel that pays for the copy.
        least_points: Minimum number of points of a kernel that pays for the launch of the copy.
    """

    name: ClassVar[str] = "pad_channels"
    fragments: tuple[str, ...] = ()
    most: int = attrs.field(default=4, validator=at_least(1))
    waste: int = attrs.field(default=4, validator=at_least(1))
    least_reuse: int = attrs.field(default=128, validator=at_least(1))
    least_points: int = attrs.field(default=0, validator=at_least(0))

    def __call__(self, program: Program) -> Program:
        """Return the program with copies before the kernels that read them."""
        names = NameScope.of((*(r.name for r in program.memory), *(r.name for r in program.main.refinements)))
        shapes = {r.name: r.shape for r in program.main.refinements}
        statements: list[Statement] = []
        added: list[Refinement] = []
        for statement in program.main.statements:
            if isinstance(statement, Block) and (index := self._channels(statement, shapes)) is not None:
                copies = [_Copy.of(view, index, shapes[view.source], names) for view in _factors(statement)]
                added += [copy.memory for copy in copies]
                statements += [copy.kernel() for copy in copies]
                statements.append(_reading(statement, index, copies))
            else:
                statements.append(statement)
        return with_temporaries(program, statements, added) if added else program

    def _channels(self, kernel: Block, shapes: Mapping[str, TensorShape]) -> Index | None:
        """Return the index of a product's few channels, if padded copies pay; else None."""
        if not _is_product(kernel):
            return None
        factors = _factors(kernel)
        points, (output,) = kernel.points, (r for r in kernel.refinements if r.direction.writes)
        dtypes = {view.shape.dtype for view in factors}
        taken = any({row.a.dtype, row.b.dtype} == dtypes for row in usable(self.fragments, rounded=True))
        if not taken or any(dtype.bits > _BITS for dtype in dtypes) or points < self.least_points:
            return None
        written = {name for access in output.access for name in access.indices}
        tested = {name for constraint in kernel.constraints for name in constraint.indices}
        for index in kernel.indices:
            count = _padded(index.range)
            few = index.range > 1 and index.range < count <= self.most and (count - index.range) * self.waste <= count
            if index.name in written | tested or not few:
                continue
            if all(self._is_copied(view, index, shapes.get(view.source), points) for view in factors):
                return index
        return None

    def _is_copied(self, view: Refinement, index: Index, shape: TensorShape | None, points: int) -> bool:
        """Return whether the channel index alone moves one axis of a view; one factor must be read often."""
        if shape is None or shape.strides != view.shape.strides or any(dim.stride < 0 for dim in shape.dims):
            return False
        axes = [axis for axis, access in enumerate(view.access) if index.name in access.indices]
        whole = len(axes) == 1 and view.access[axes[0]] == Affine.index(index.name)
        return whole and shape.sizes[axes[0]] == index.range and points >= self.least_reuse * shape.elements


_BITS = 16
"""Maximum element width; wider elements are vectorised along other indices."""


def _padded(count: int) -> int:
    return 1 << (count - 1).bit_length()


def _factors(kernel: Block) -> tuple[Refinement, ...]:
    return tuple(r for r in kernel.refinements if r.direction is Direction.IN)


def _is_product(kernel: Block) -> bool:
    """Return whether a flat kernel only adds up products of the elements of two inputs."""
    body: dict[type, list[Statement]] = {Load: [], Convert: [], Intrinsic: [], Store: []}
    for statement in kernel.statements:
        if type(statement) not in body:
            return False
        body[type(statement)].append(statement)
    loads, multiplied = body[Load], [s for s in body[Intrinsic] if isinstance(s, Intrinsic) and s.op is Op.MUL]
    direct = all(isinstance(s, Load | Store) and s.index is None for s in (*loads, *body[Store]))
    counts = len(loads), len(body[Intrinsic]), len(multiplied), len(body[Store])
    written = [r for r in kernel.refinements if r.direction.writes]
    plain = all(i.is_plain for i in kernel.indices) and len(kernel.refinements) == len(written) + len(_factors(kernel))
    if not direct or not plain or counts != (2, 1, 1, 1) or len(_factors(kernel)) != 2 or len(written) != 1:
        return False
    (store,) = body[Store]
    sums = written[0].opens_scope and written[0].aggregation is not None and written[0].aggregation.op is Op.ADD
    return sums and isinstance(store, Store) and store.source == multiplied[0].into


@attrs.frozen(repr=False)
class _Copy:
    """A tensor with its channels last and padded with zeros; ``axes`` are those of ``source`` in that order."""

    view: Refinement
    memory: Refinement
    source: TensorShape
    axes: tuple[int, ...]

    @classmethod
    def of(cls, view: Refinement, index: Index, source: TensorShape, names: NameScope) -> _Copy:
        """Return the copy of a factor that ``index`` moves along the channels."""
        last = next(axis for axis, access in enumerate(view.access) if index.name in access.indices)
        axes = tuple(sorted(range(len(source.dims)), key=lambda axis: (axis == last, -source.dims[axis].stride)))
        sizes = (*(source.sizes[axis] for axis in axes[:-1]), _padded(index.range))
        name = names.fresh(f"{view.source}_padded")
        return cls(view, allocation(name, source.dtype, sizes), source, axes)

    def kernel(self) -> Block:
        """Return a kernel that copies all channels of a pixel, and appends the zeros."""
        *others, last = self.axes
        indices = tuple(Index(f"d{axis}", self.source.sizes[axis]) for axis in others)
        views: list[Refinement] = []
        statements: list[Statement] = []
        for channel in range(self.memory.shape.sizes[-1]):
            at = {**{axis: Affine.index(f"d{axis}") for axis in others}, last: Affine.constant(channel)}
            value, into = f"x{channel}", f"out{channel}"
            if channel < self.source.sizes[last]:
                places = tuple(at[axis] for axis in range(len(at)))
                views.append(Refinement(f"in{channel}", Direction.IN, self.view.source, places, self.source.element))
                statements.append(Load(f"in{channel}", value))
            else:
                statements.append(Constant(value, self.source.dtype, 0.0))
            views.append(self.memory.element(Direction.OUT, (at[axis] for axis in self.axes), into))
            statements.append(Store(value, into))
        name = f"pad_{self.view.source}"
        return Block(name, indices, refinements=tuple(views), statements=tuple(statements), tags=Tags.of("pad"))

    def read(self) -> Refinement:
        """Return the factor's view of the copy."""
        return self.memory.element(Direction.IN, (self.view.access[axis] for axis in self.axes), self.view.name)


def _reading(kernel: Block, index: Index, copies: list[_Copy]) -> Block:
    moved = {copy.view.name: attrs.evolve(copy.read(), tags=copy.view.tags) for copy in copies}
    indices = tuple(attrs.evolve(i, range=_padded(i.range)) if i is index else i for i in kernel.indices)
    views = tuple(moved.get(view.name, view) for view in kernel.refinements)
    return attrs.evolve(kernel, indices=indices, refinements=views, deps=())
