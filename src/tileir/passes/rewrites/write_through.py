"""Elimination of copies: producers of a temporary write to the target of its copy."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from tileir.core import attrs
from tileir.passes.base import selected_kernel
from tileir.passes.rewrites.redundant_temporaries import EmbeddedTensors, Place, copied, is_plain
from tileir.poly.affine import Affine
from tileir.stripe.ir import Block, Direction, Program, Refinement, Statement


@attrs.frozen
class WriteThrough:
    """Eliminate concatenation copies: let producers write to their part of the result.

    A concatenation of many tensors, which is a tree of binary concatenations, then copies each element at most once,
    and a network whose layers add channels to earlier channels keeps a single tensor. Several kernels must access the
    temporary, since fusion handles a single one. The copy must take the whole temporary, untransposed, into an output
    or another temporary. No later statement may access the temporary, and none in between the target. In the program of
    two kernels and a copy::

        T[i : 4] = X[i];  T[4 + i : 4] = Y[i];  O[2 + i : 8] = T[i]

    the two write to ``O[2 + i : 4]`` and ``O[6 + i : 4]``, and the copy is removed.

    Attributes:
        reqs: Tags that the copy must carry.
    """

    name: ClassVar[str] = "write_through"
    reqs: tuple[str, ...] = ()

    def __call__(self, program: Program) -> Program:
        """Return the program without these temporaries."""
        scan = _Scan.of(program)
        copies = [
            (number, statement)
            for number, statement in enumerate(program.main.statements)
            if isinstance(statement, Block) and selected_kernel(statement, self.reqs) and copied(statement) is not None
        ]
        for number, statement in reversed(copies):  # the target of a copy is read, and copied, later
            scan.visit(number, statement)
        return scan.after() if scan.moved else program


_Box: TypeAlias = tuple[tuple[int, int], ...]
"""First element and end of a box along each axis of a tensor."""


@attrs.frozen
class _Scan(EmbeddedTensors):
    """Temporaries found to lie in the targets of their copies."""

    def visit(self, number: int, kernel: Block) -> None:
        """Record a kernel that copies a temporary whose producers can write to the target."""
        copy = copied(kernel)
        if copy is None:
            return
        read, written = copy
        offsets, touching = self._offsets(kernel, read, written), self.touching[read.source]
        if offsets is None or read.source not in self.temporaries or touching[-1] != number:
            return
        if written.source not in self.temporaries and written.source not in self.outputs:
            return
        kernels = [self.program.main.statements[at] for at in touching[:-1]]
        if (
            len(kernels) < 2
            or not all(map(is_plain, kernels))
            or not all(self._keeps_axes(each, read.source) for each in kernels)
        ):
            return
        outer = self.place(written.source)
        sums = tuple(a + b for a, b in zip(outer.offsets, offsets, strict=True))
        part = attrs.evolve(outer, offsets=sums)
        if self._is_free(read.source, part, touching[0], number):
            self.moved[read.source] = part
            self.gone.add(number)

    def _offsets(self, kernel: Block, read: Refinement, written: Refinement) -> tuple[int, ...] | None:
        """Return the offset of a copy along each axis; None unless it shifts the whole tensor."""
        shape, other = (self.shape(view.source) for view in (read, written))
        if len(shape.dims) != len(other.dims) or shape.dtype is not other.dtype:
            return None
        if read.shape.strides != shape.strides or written.shape.strides != other.strides:
            return None
        indices = [place.indices for place in read.access]
        whole = [Affine.index(names[0]) if names else Affine() for names in indices]
        sizes = [kernel.ranges[names[0]] if names else 1 for names in indices]
        distinct = len({name for names in indices for name in names}) == len(kernel.indices) == sum(map(bool, indices))
        if list(read.access) != whole or sizes != list(shape.sizes) or not distinct:
            return None
        shifts = [there - here for here, there in zip(read.access, written.access, strict=True)]
        if not all(shift.is_constant for shift in shifts):
            return None
        return tuple(int(shift.offset) for shift in shifts)

    def _keeps_axes(self, kernel: Statement, tensor: str) -> bool:
        """Return whether a kernel sees a tensor with its own axes, not reshaped."""
        strides = self.shape(tensor).strides
        views = kernel.refinements if isinstance(kernel, Block) else ()
        return all(view.shape.strides == strides for view in views if view.source == tensor)

    def _is_free(self, name: str, part: Place, first: int, last: int) -> bool:
        """Return whether no statement from ``first`` to before ``last`` accesses the new place of a temporary."""
        sizes = self.shape(name).sizes
        box = tuple((at, at + size) for at, size in zip(part.offsets, sizes, strict=True))
        for number in range(first, last):
            statement = self.program.main.statements[number]
            if number in self.gone:
                continue
            if not isinstance(statement, Block) or not all(
                self._is_apart(statement, view, part.whole, box) for view in statement.refinements
            ):
                return False
        return True

    def _is_apart(self, kernel: Block, view: Refinement, whole: str, box: _Box) -> bool:
        """Return whether a kernel accesses no element of a box in a tensor through one of its views."""
        if view.direction is Direction.NONE or (place := self.place(view.source)).whole != whole:
            return True
        if view.shape.strides != self.shape(view.source).strides:
            return False
        bounds = [(at + offset).bounds(kernel.ranges) for at, offset in zip(view.access, place.offsets, strict=True)]
        touched = [(low, high + size) for (low, high), size in zip(bounds, view.shape.sizes, strict=True)]
        return any(one[1] <= other[0] or other[1] <= one[0] for one, other in zip(box, touched, strict=True))
