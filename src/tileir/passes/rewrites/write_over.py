"""Overwriting of a temporary by the result of its last reader, element by element."""

from __future__ import annotations

from typing import ClassVar

from tileir.core import attrs
from tileir.passes.kernels.merge import nest_of
from tileir.passes.layouts.transpose import fastest
from tileir.passes.rewrites.redundant_temporaries import EmbeddedTensors, views_of
from tileir.passes.schedules.registers.steps import LINE
from tileir.poly.coverage import injective
from tileir.schedule import Nest, Refused
from tileir.stripe.ir import Block, Load, Program, Refinement, Store


@attrs.frozen
class WriteOver:
    """Let reductions overwrite a temporary that they read elementwise for the last time, such as a shortcut.

    In ``S[i, j] = +(A[i, k] * B[k, j]); T = S + X``, ``T`` is stored in ``X`` if that is a temporary with its last use.
    Rows that are no whole cache lines stay: tiles at their ends may compute elements again.
    """

    name: ClassVar[str] = "write_over"

    def __call__(self, program: Program) -> Program:
        """Return the program with these results in the temporaries."""
        scan = _Scan.of(program)
        for number, kernel in enumerate(program.main.statements):
            if isinstance(kernel, Block) and kernel.blocks:
                scan.visit(number, kernel)
        return scan.after() if scan.moved else program


@attrs.frozen
class _Scan(EmbeddedTensors):
    def visit(self, number: int, kernel: Block) -> None:
        """Record the result of a kernel if it can overwrite one of its inputs."""
        views = [view for view in views_of(kernel) if view.source in self.temporaries]
        last = [view for view in views if self.touching[view.source][-1] == number]
        if not last or isinstance(nest := nest_of(kernel), Refused):
            return
        for made in (view for view in views if self.touching[view.source][0] == number):
            shape = self.shape(made.source)
            whole = shape.dims and shape.sizes[fastest(shape)] * shape.dtype.itemsize % LINE == 0
            for read in last if whole else ():
                alone = sum(view.source in (made.source, read.source) for view in views) == 2
                if alone and self.shape(read.source) == shape and _is_over(nest, read, made):
                    self.moved[made.source] = self.place(read.source)
                    return

    def _view(self, view: Refinement) -> Refinement:
        return attrs.evolve(view, source=self.place(view.source).whole) if view.source in self.moved else view


def _is_over(nest: Nest, read: Refinement, made: Refinement) -> bool:
    """Return whether each point reads one element of a view before it writes the corresponding one of another."""
    seen = [(segment, use) for segment in nest.segments for use in segment.uses if use.root in (read.name, made.name)]
    if (read.shape, read.access) != (made.shape, made.access) or len(seen) != 2 or seen[0][0] is not seen[1][0]:
        return False
    (segment, source), (_, target) = sorted(seen, key=lambda pair: pair[1].direction.writes)
    loads = [n for n, s in enumerate(segment.statements) if isinstance(s, Load) and s.source == source.name]
    stores = [n for n, s in enumerate(segment.statements) if isinstance(s, Store) and s.into == target.name]
    if segment.loops or not loads or not stores or loads[-1] > stores[0] or target.merges:
        return False
    same = (source.access, source.strides) == (target.access, target.strides)
    single = max((*source.sizes, *target.sizes), default=1) == 1
    return same and single and injective(target.access, {i.name: i.range for i in nest.indices}, ())
