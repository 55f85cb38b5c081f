"""Channels-last layout of temporaries between products with constants.

A convolution of pictures with channels first reads a few pixels of one channel, then of the next, far away: a cache
line and a page for each step of its sum; and its results, with lanes along channels, have to be transposed. With
channels last, the steps of the sum are contiguous, and vectors of sums are stored as they are::

    Y[k, p] = +(W[k, c] * X[c, p])   reads X in runs along c, and stores Y in runs along k

A temporary gets this layout if all products that use it prefer the same axis, and other kernels, such as pools and
sums, walk along that axis of all their tensors, or do little work compared to the products. Temporaries that no product
uses, such as those between two steps of a pool, follow the others of their kernels. A product that reads it and
transposes its result counts as one of these other kernels. A depthwise convolution then has lanes along its channels,
and neither transposes planes of pixels nor tests the edges of rows. A kernel with a product and further loops, over all
pixels for which it computed a factor, keeps its layouts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import ClassVar, Final

from tileir.core import attrs
from tileir.passes.analysis.accesses import constants
from tileir.passes.base import at_least, with_kernels
from tileir.passes.kernels import nest_of, schedule as sch
from tileir.passes.layouts.own_axes import with_own_axes_inside
from tileir.passes.layouts.transpose import fastest, free_temporaries, relaid, with_fastest
from tileir.poly.affine import Affine
from tileir.schedule import Nest, Refused, Segment, Use, dtype_of_product, factors_of_product, product
from tileir.stripe.check.views import is_dense
from tileir.stripe.ir import Block, Program, Statement, TensorShape

_LEAST_ADDS: Final = 256
"""Minimum number of multiply-adds of products per point of a kernel that walks against their preferred axis."""


@attrs.frozen
class ChannelsLast:
    """Lay out temporaries between products with constants with their channels innermost.

    Attributes:
        vector_bytes: Width of a vector register in bytes: products are vectorised along multiples of half this width.
    """

    name: ClassVar[str] = "channels_last"
    vector_bytes: int = attrs.field(default=32, validator=at_least(1))

    def __call__(self, program: Program) -> Program:
        """Return the program with other strides of temporaries."""
        constant = constants(program)
        if not constant:
            return program
        shapes = {each.name: each.shape for each in program.memory}
        old, dense = program.main.statements, {name: shape for name, shape in shapes.items() if is_dense(shape)}
        seen = tuple(with_own_axes_inside(each, dense) if isinstance(each, Block) else each for each in old)
        whole = with_kernels(program, seen)
        free = free_temporaries(whole)
        if not free:
            return program
        kernels = [_Kernel.of(kernel, constant, self.vector_bytes) for kernel in whole.main.blocks]
        axes = _spread(kernels, _agreed(kernels, free), free)
        axes = {name: axis for name, axis in axes.items() if fastest(shapes[name]) != axis}
        while against := _touched_against(kernels, axes, shapes):
            axes = {name: axis for name, axis in axes.items() if name not in against}
        if not axes:
            return program
        kept = (b if _touches(b, axes) else a for a, b in zip(old, seen, strict=True))
        return relaid(with_kernels(program, tuple(kept)), {n: with_fastest(shapes[n], a) for n, a in axes.items()})


def _touches(statement: Statement, tensors: Collection[str]) -> bool:
    return isinstance(statement, Block) and any(r.source in tensors for r in statement.refinements)


@attrs.frozen(repr=False)
class _Kernel:
    """Layout facts about a kernel of a program.

    Attributes:
        tensors: Views of ``main`` that the kernel uses.
        written: Views among these that it writes.
        nest: The kernel as a nest; None if it is no nest, and layouts are fixed.
        asked: Preferred innermost axis of each tensor of its products, or None; empty for other kernels.
        adds: Number of multiply-adds of its products; 0 for other kernels.
    """

    tensors: frozenset[str]
    written: frozenset[str]
    nest: Nest | None
    asked: Mapping[str, int | None]
    adds: int

    @classmethod
    def of(cls, kernel: Block, constant: Collection[str], vector_bytes: int) -> _Kernel:
        """Return a kernel of ``main``; ``constant`` are the names of constants."""
        tensors = frozenset(r.source for r in kernel.refinements if r.source)
        written = frozenset(r.source for r in kernel.refinements if r.source and r.direction.writes)
        nest = nest_of(kernel)
        if isinstance(nest, Refused) or any(map(sch.indirect_names, nest.segments)):
            return cls(tensors, written, None, {}, 0)
        products = [s for s in nest.segments if s.loops and dtype_of_product(s.statements, s.uses) is not None]
        if not products:
            return cls(tensors, written, nest, {}, 0)
        asked: dict[str, int | None] = {}
        for tensor, axis in _asked(nest, products, constant, vector_bytes):
            asked[tensor] = axis if asked.get(tensor, axis) == axis else None
        outer = product(i.range for i in nest.indices)
        return cls(tensors, written, nest, asked, outer * sum(product(i.range for i in s.loops) for s in products))

    def is_against(self, axes: Mapping[str, int]) -> bool:
        """Return whether a kernel without products would not walk along the same axis of all its tensors."""
        assert self.nest is not None
        uses = [(use, self.nest.sources[use.root]) for use in _outside(self.nest)]
        indices = {i.name for i in self.nest.indices}
        along = {_alone(use.access[axes[tensor]]) for use, tensor in uses if tensor in axes}
        if len(along) != 1 or not indices.issuperset(along):
            return True
        (index,) = along
        return any(use.stride(index) not in (0, 1) for use, tensor in uses if tensor not in axes)

    def following(self, tensor: str, axis: int) -> Iterator[tuple[str, int]]:
        """Yield the tensors and axes that a kernel walks along by the index of ``axis`` of ``tensor``."""
        assert self.nest is not None
        uses = [(self.nest.sources[use.root], use.access) for use in _outside(self.nest)]
        along = {_alone(access[axis]) for name, access in uses if name == tensor}
        for name, access in uses if len(along) == 1 and "" not in along else ():
            axes = [at for at, place in enumerate(access) if not along.isdisjoint(place.indices)]
            if len(axes) == 1 and _alone(access[axes[0]]) in along:
                yield name, axes[0]

    def turns(self, axes: Mapping[str, int], shapes: Mapping[str, TensorShape]) -> bool:
        """Return whether a kernel with products stores along another axis than its lanes."""
        asked = {name: self.asked.get(name) for name in self.written - axes.keys()}
        return any(axis is not None and fastest(shapes[name]) != axis for name, axis in asked.items())

    @property
    def points(self) -> int:
        """Number of points of a kernel, without sums of products."""
        nest = self.nest
        if nest is None:
            return 0
        outer = product(i.range for i in nest.indices)
        loops = () if self.adds else nest.segments
        return outer * max((product(i.range for i in segment.loops) for segment in loops), default=1)


def _outside(nest: Nest) -> tuple[Use, ...]:
    return (*sch.read_uses(nest), *sch.written_uses(nest))


def _alone(place: Affine) -> str:
    """Return the index that alone moves along an axis, by single steps; empty if there is none."""
    return place.indices[0] if len(place.indices) == 1 and place.coefficient(place.indices[0]) == 1 else ""


def _asked(
    nest: Nest, products: list[Segment], constant: Collection[str], vector_bytes: int
) -> Iterator[tuple[str, int | None]]:
    """Yield the tensors of a kernel with products, and its preferred axis of each; None for none."""
    lanes = {_lanes(nest, segment, constant, vector_bytes) for segment in products}
    (index,) = lanes if len(lanes) == 1 else ("",)
    others = {factor: loop for segment in products for factor, loop in _summed(nest, segment, constant, index)}
    longer = {use.root for s in nest.segments if s.loops and s not in products for use in sch.reads_of(nest, s)}
    for use in _outside(nest):
        name = "" if use.root in longer else others.get(use, index)
        axes = [axis for axis, place in enumerate(use.access) if name and _alone(place) == name]
        moving = sum(name in place.indices for place in use.access)
        yield nest.sources[use.root], axes[0] if index and len(axes) == moving == 1 else None


def _weight(nest: Nest, segment: Segment, constant: Collection[str]) -> tuple[Use, Use] | None:
    """Return the constant factor of a product, and the other one."""
    factors = factors_of_product(segment.statements, segment.uses)
    if factors is None or any(use.root in nest.local for use in factors):
        return None
    for weight, other in (factors, factors[::-1]):
        if nest.sources[weight.root] in constant:
            return weight, other
    return None


def _lanes(nest: Nest, segment: Segment, constant: Collection[str], vector_bytes: int) -> str:
    """Return the index along which the lanes of a product run; empty if there is none.

    It moves only a constant factor, or counts channels that have their own windows.
    """
    found = _weight(nest, segment, constant)
    if found is None:
        return ""
    weight, other = found
    moved = [i for i in nest.indices if i.range > 1 and weight.stride(i.name)]
    sizes = {i.name: i.range * weight.dtype.itemsize for i in moved}
    fit = [name for name, size in sizes.items() if size >= vector_bytes and 2 * size % vector_bytes == 0]
    own = len(moved) == 1 and any(_alone(place) == moved[0].name for place in other.access)
    return fit[0] if len(fit) == 1 and (own or not any(other.stride(i.name) for i in moved)) else ""


def _summed(nest: Nest, segment: Segment, constant: Collection[str], lanes: str) -> Iterator[tuple[Use, str]]:
    """Yield the other factor of a product with a constant, and the index that alone moves along an axis of it.

    That is a loop, or the index of lanes if it moves this factor as well.
    """
    found = _weight(nest, segment, constant)
    if found is None:
        return
    weight, other = found
    if lanes and other.stride(lanes):
        yield other, lanes
        return
    loops = [i.name for i in segment.loops if i.range > 1 and weight.stride(i.name)]
    alone = [name for name in map(_alone, other.access) if name in loops]
    yield other, alone[0] if len(alone) == 1 else ""


def _agreed(kernels: list[_Kernel], free: Collection[str]) -> dict[str, int]:
    """Return the axis of each temporary of ``free`` that all of its products prefer."""
    axes: dict[str, int] = {}
    gone = {name for kernel in kernels if kernel.nest is None for name in kernel.tensors}
    for kernel in kernels:
        for name, axis in kernel.asked.items():
            if axis is None or axes.setdefault(name, axis) != axis:
                gone.add(name)
    return {name: axis for name, axis in axes.items() if name in free and name not in gone}


def _spread(kernels: list[_Kernel], axes: Mapping[str, int], free: Collection[str]) -> dict[str, int]:
    """Return ``axes``, extended through kernels without products to other temporaries of ``free``."""
    found = dict(axes)
    fixed = {name for kernel in kernels for name in (kernel.tensors if kernel.adds or kernel.nest is None else ())}
    walking: dict[str, list[_Kernel]] = {}
    for kernel in kernels:
        if kernel.nest is not None and not kernel.adds:
            for name in kernel.tensors.intersection(free):
                walking.setdefault(name, []).append(kernel)
    waiting = list(found)
    while waiting:
        name = waiting.pop()
        for kernel in walking.get(name, ()):
            for other, axis in kernel.following(name, found[name]):
                if other in free and other not in fixed and other not in found:
                    found[other] = axis
                    waiting.append(other)
    return found


def _touched_against(
    kernels: list[_Kernel], axes: Mapping[str, int], shapes: Mapping[str, TensorShape]
) -> frozenset[str]:
    """Return the temporaries along whose other axes some kernel walks for long."""
    adds: dict[str, int] = dict.fromkeys(axes, 0)
    for kernel in kernels:
        for name in kernel.tensors & axes.keys() if kernel.adds else ():
            adds[name] += kernel.adds
    found: set[str] = set()
    for kernel in kernels:
        touched = kernel.tensors & axes.keys()
        if kernel.adds:
            touched -= kernel.written
        if touched and (kernel.turns(axes, shapes) if kernel.adds else kernel.is_against(axes)):
            found.update(name for name in touched if kernel.points * _LEAST_ADDS > adds[name])
    return frozenset(found)
