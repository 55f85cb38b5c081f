"""Temporaries whose planes begin at different places of a cache, where sums step from plane to plane.

A sum over the channels of pictures of 64 x 64 f32 goes 16 KiB on with each step. All places so far apart meet in the
same few sets of a cache, which hold a few of them: what neighbouring tiles read again is gone by then. With a line of
the cache behind each plane, neighbouring planes are in neighbouring sets::

    X[n, c, y, x] at 524288 n + 4096 c + 64 y + x       becomes       X[n, c, y, x] at 526336 n + 4112 c + 64 y + x
"""

from __future__ import annotations

from typing import ClassVar, Final

from tileir.core.nodes import attrs
from tileir.passes.analysis.places import Level
from tileir.passes.analysis.walks import Walk, walks
from tileir.passes.base import at_least
from tileir.passes.layouts.transpose import free_temporaries, relaid
from tileir.stripe.ir import Block, Dim, Program, Refinement, TensorShape

_WAYS: Final = 16
"""Places of one set: as many planes as no cache holds more of."""


@attrs.frozen
class PartPlanes:
    """Leave a line of the cache behind each plane of a temporary, where planes that a sum steps through meet in sets.

    Attributes:
        way_bytes: How far apart places are that meet in one set of the nearest cache.
        line_bytes: How long a line of the cache is.
        least_reuse: It pays where a kernel reads each element so often at least.
    """

    name: ClassVar[str] = "part_planes"
    way_bytes: int = attrs.field(default=4096, validator=at_least(1))
    line_bytes: int = attrs.field(default=64, validator=at_least(1))
    least_reuse: int = attrs.field(default=64, validator=at_least(1))

    def __call__(self, program: Program) -> Program:
        """Return the program with other strides."""
        free, main = free_temporaries(program), Level(program.main)
        shapes: dict[str, TensorShape] = {}
        for kernel in program.main.blocks if free else ():
            for walk in self._crowded(kernel, main):
                if walk.tensor in free and walk.tensor not in shapes:
                    shapes[walk.tensor] = self._parted(main.view(walk.tensor).shape)
        return relaid(program, shapes) if shapes else program

    def _crowded(self, kernel: Block, main: Level) -> list[Walk]:
        """Return the accesses of a kernel that meet in sets of a cache while it sums up."""
        together = walks(kernel, main)
        kept = frozenset(name for walk in together if walk.writes for place in walk.access for name in place.indices)
        return [walk for walk in together if not walk.writes and self._is_crowded(walk, main.view(walk.tensor), kept)]

    def _is_crowded(self, walk: Walk, tensor: Refinement, kept: frozenset[str]) -> bool:
        """Return whether an access steps from plane to plane of one set, along axes that ``kept`` indices leave alone.

        ``kept`` are the indices that move what the kernel writes.
        """
        size, planes = tensor.shape.dtype.itemsize, 1
        for place, dim in zip(walk.access, tensor.shape.dims, strict=True):
            if place.terms and kept.isdisjoint(place.indices) and not dim.stride * size % self.way_bytes:
                planes *= dim.size
        return planes > _WAYS and walk.points >= self.least_reuse * tensor.shape.elements

    def _parted(self, shape: TensorShape) -> TensorShape:
        """Return a shape with a line behind what is as long as places of one set are apart."""
        dims, stride = list(shape.dims), 1
        for axis in sorted(range(len(dims)), key=lambda axis: (dims[axis].stride, -axis)):
            if dims[axis].size > 1 and not stride * shape.dtype.itemsize % self.way_bytes:
                stride += self.line_bytes // shape.dtype.itemsize
            dims[axis] = Dim(dims[axis].size, stride)
            stride *= dims[axis].size
        return attrs.evolve(shape, dims=tuple(dims))
