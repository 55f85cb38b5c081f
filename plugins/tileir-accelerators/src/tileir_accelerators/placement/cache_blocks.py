"""Blocks and shapes of a cached view: its allocation, initialisation, loads and stores."""

from __future__ import annotations

from tileir.core import Aggregation, NameScope, attrs
from tileir.passes.analysis.places import Level
from tileir.poly.affine import Affine
from tileir.stripe.ir import (
    Block,
    Constant,
    Dim,
    Direction,
    Index,
    Load,
    Location,
    Refinement,
    Store,
    Tags,
    TensorShape,
)


def packed_shape(view: Refinement, order: tuple[int, ...], odd_limit: float) -> TensorShape:
    """Return a packed shape with the view's sizes, its axes from slowest to fastest in ``order``.

    If ``order`` does not name each axis once, the axes are in the order of their strides. With an ``odd_limit`` above 0
    all strides are odd, unless that exceeds this factor of memory.
    """
    sizes, strides = view.shape.sizes, view.shape.strides
    axes = range(len(sizes))
    chosen = order if sorted(order) == list(axes) else sorted(axes, key=lambda axis: -abs(strides[axis]))
    packed, odd = ([0] * len(sizes) for _ in range(2))
    plain = padded = 1
    for axis in reversed(chosen):
        packed[axis], odd[axis] = plain, padded
        plain *= sizes[axis]
        padded *= sizes[axis]
        padded += 1 - padded % 2 if sizes[axis] > 1 else 0
    dims = tuple(Dim(size, stride) for size, stride in zip(sizes, odd, strict=True))
    shape = TensorShape(view.shape.dtype, dims)
    if shape.span <= odd_limit * plain:
        return shape
    return attrs.evolve(shape, dims=tuple(Dim(size, stride) for size, stride in zip(sizes, packed, strict=True)))


@attrs.frozen(eq=False)
class Copies:
    """Copy blocks of one view.

    Attributes:
        level: Block of the view.
        view: The original view.
        raw: The view under its new name.
        own: The allocation with the original name.
        location: Unit that copies.
    """

    level: Level
    view: Refinement
    raw: Refinement
    own: Refinement
    location: Location

    def before(self) -> tuple[Block, ...]:
        """Return the blocks before the other statements: loads or initialisation."""
        if not self.view.direction.reads:
            return ()
        if self.view.direction is Direction.INOUT and self.view.merges:
            return (self._filled(),)
        return (self._copy("load", self.raw, self.own),)

    def after(self) -> tuple[Block, ...]:
        """Return the blocks after the other statements: stores of results."""
        return (self._copy("store", self.own, self.raw),) if self.view.direction.writes else ()

    def _filled(self) -> Block:
        """Return the block that fills the allocation with the identity of the aggregation."""
        dtype = self.view.shape.dtype
        assert self.view.aggregation is not None
        indices = self._axes(self.own)
        target = self._element(self.own, indices, Direction.OUT)
        statements = (Constant("nothing", dtype, self.view.aggregation.identity(dtype)), Store("nothing", target.name))
        name = f"init_{self.view.name}"
        handed = _PassedIndices.of(indices)
        where = self._located(handed)
        return Block(
            name,
            (*(i for i in indices if i is not None), *handed.passed.values()),
            (),
            (target,),
            statements,
            (),
            where,
            Tags.of("cache", "cache_init"),
        )

    def _copy(self, what: str, source: Refinement, target: Refinement) -> Block:
        indices = self._axes(self.raw)
        handed = _PassedIndices.of(indices)
        tests, where = self._tests(indices, handed), self._located(handed)
        merging = target is self.raw and self.view.merges
        direction = self.view.direction if merging else Direction.OUT
        writes = self._element(target, indices, direction, self.view.aggregation if target is self.raw else None)
        views = (self._element(source, indices, Direction.IN), writes)
        present = tuple(i for i in self._in_memory_order(indices) if i is not None)
        return Block(
            f"{what}_{self.view.name}",
            (*present, *handed.passed.values()),
            tests,
            views,
            (Load(source.name, "x"), Store("x", target.name)),
            (),
            where,
            Tags.of("cache", f"cache_{what}"),
        )

    def _axes(self, view: Refinement) -> list[Index | None]:
        """Return an index for each axis of more than one element."""
        return [Index(f"d{axis}", size) if size > 1 else None for axis, size in enumerate(view.shape.sizes)]

    def _in_memory_order(self, indices: list[Index | None]) -> list[Index | None]:
        """Return the indices sorted so that the last one has the smallest stride in the tensor."""
        strides = self.raw.shape.strides
        return [indices[axis] for axis in sorted(range(len(indices)), key=lambda axis: -abs(strides[axis]))]

    def _element(
        self,
        view: Refinement,
        indices: list[Index | None],
        direction: Direction,
        aggregation: Aggregation | None = None,
    ) -> Refinement:
        access = tuple(Affine() if index is None else Affine.index(index.name) for index in indices)
        where = () if any(unit.indices for device in view.location for unit in device.units) else view.location
        return attrs.evolve(view.element(direction, access), aggregation=aggregation, location=where)

    def _located(self, handed: _PassedIndices) -> Location:
        """Return the unit that copies, in the indices of a copy block."""
        return tuple(
            attrs.evolve(device, units=tuple(map(handed.inside, device.units))) if device.units else device
            for device in self.location
        )

    def _tests(self, indices: list[Index | None], handed: _PassedIndices) -> tuple[Affine, ...]:
        """Return the tests that elements lie inside the tensor."""
        place = self.level.place(self.view)
        if place is None:
            return ()
        tests: list[Affine] = []
        for index, start, extent, size in zip(indices, place.access, self.view.shape.sizes, place.sizes, strict=True):
            low, high = start.bounds(self.level.counters)
            if low >= 0 and high + extent <= size:
                continue
            position = handed.inside(self.level.local(start))
            position = position if index is None else position + Affine.index(index.name)
            tests.extend(([position] if low < 0 else []) + ([size - 1 - position] if high + extent > size else []))
        return tuple(tests)


@attrs.frozen(repr=False)
class _PassedIndices:
    """Indices of a copy block that pass on those of the enclosing block."""

    names: NameScope
    passed: dict[str, Index] = attrs.field(factory=dict)

    @classmethod
    def of(cls, indices: list[Index | None]) -> _PassedIndices:
        return cls(NameScope.of(index.name for index in indices if index is not None))

    def inside(self, affine: Affine) -> Affine:
        """Return an affine of the enclosing block's indices in those of the copy block."""
        for name in affine.indices:
            if name not in self.passed:
                self.passed[name] = Index(self.names.fresh(name), 1, Affine.index(name))
        return affine.rename({name: index.name for name, index in self.passed.items()})
