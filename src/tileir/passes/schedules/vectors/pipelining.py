"""Software pipelining of rows: rows that share loads run together, or each a loop behind the previous one.

While one computes, others wait for memory (Lam, "Software pipelining: an effective scheduling technique for VLIW
machines", PLDI 1988). It applies to the loops of a kernel, over a few of its points.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tileir.core import NameScope, attrs
from tileir.passes.kernels import schedule as sch
from tileir.poly.affine import Affine
from tileir.schedule import Nest, Segment, Use, factors_of_product, renamed, with_values
from tileir.stripe import ir as stripe


def pipelined(nest: Nest, rows: int) -> Nest:
    """Return a nest whose points are ``rows`` points of ``nest``, with loop n of one beside loop n + 1 of the next.

    The identical nest if no two loops have equal ranges, or if ``rows`` divides no index.
    """
    loops = nest.reductions
    index = next((i for i in reversed(nest.indices) if i.range % rows == 0 and i.range > rows), None)
    if rows < 2 or index is None or len(loops) < 2 or any(len(s.loops) > 1 or s.constraints for s in nest.segments):
        return nest
    if len({segment.loops[0].range for segment in loops}) > 1:
        return nest
    return beside(nest, index, rows, index.range // rows)


def with_shared_reads(nest: Nest) -> stripe.Index | None:
    """Return the index of rows that sum products of their own elements with elements that all share, if any.

    Rows that are computed together load shared elements once.
    """
    loops = nest.reductions
    if len(loops) != 1 or any(len(s.loops) > 1 or s.constraints for s in nest.segments):
        return None
    if factors_of_product(loops[0].statements, loops[0].uses) is None or len(sch.reads_of(nest, loops[0])) != 2:
        return None
    strides = {i: [use.stride(i.name) for use in sch.reads_of(nest, loops[0])] for i in nest.indices}
    return next((i for i in reversed(nest.indices) if 0 in strides[i] and any(strides[i])), None)


def beside(nest: Nest, index: stripe.Index, rows: int, count: int, *, start: int = 0, lag: int = 1) -> Nest:
    """Return a nest whose points are ``rows`` points along an index of ``nest``, each ``lag`` loops behind the last.

    It has ``count`` of them, from ``start`` on.
    """
    names = nest.taken_names()
    block = attrs.evolve(index, name=names.fresh(f"{index.name}_rows"), range=count)
    copies = [
        _Copy.of(nest, index, sch.part(block, rows) + (start + number), f"_{number}", names) for number in range(rows)
    ]
    stages = _stages(nest.segments)
    segments: list[Segment] = []
    for step in range(len(stages) + lag * (rows - 1)):
        numbers = ((copy, step - lag * n) for n, copy in enumerate(copies))
        stage_of = [(copy, stages[number]) for copy, number in numbers if 0 <= number < len(stages)]
        segments.extend(copy.segment(own) for copy, stage in stage_of for own in stage if not own.loops)
        together = [copy.segment(s) for copy, stage in stage_of for s in stage if s.loops]
        if together:
            loop = attrs.evolve(together[0].loops[0], name=names.fresh(together[0].loops[0].name))
            segments.append(_together(together, loop))
    allocations = tuple(r for copy in copies for r in copy.allocations)
    views = tuple(r for r in nest.kernel.refinements if r.direction is not stripe.Direction.NONE)
    kernel = attrs.evolve(nest.kernel, refinements=(*views, *allocations))
    indices = sch.present(block if i is index else i for i in nest.indices)
    return Nest(kernel, indices, tuple(segments))


def _stages(segments: Iterable[Segment]) -> list[list[Segment]]:
    """Return runs of segments, each ending with a loop, except perhaps the last."""
    stages: list[list[Segment]] = [[]]
    for segment in segments:
        stages[-1].append(segment)
        if segment.loops:
            stages.append([])
    return stages if stages[-1] else stages[:-1]


@attrs.frozen(repr=False)
class _Copy:
    """Copy of one point: the value of its index, and names for its own memory."""

    values: Mapping[str, Affine]
    roots: Mapping[str, str]
    allocations: tuple[stripe.Refinement, ...]
    suffix: str

    @classmethod
    def of(cls, nest: Nest, index: stripe.Index, value: Affine, suffix: str, names: NameScope) -> _Copy:
        """Return the copy of a nest at ``value`` of ``index``, with fresh names for its allocations."""
        roots = {r.name: names.fresh(f"{r.name}{suffix}") for r in nest.allocations}
        allocations = tuple(attrs.evolve(r, name=roots[r.name]) for r in nest.allocations)
        return cls({index.name: value}, roots, allocations, suffix)

    def segment(self, segment: Segment) -> Segment:
        """Return a segment for this point."""
        views = {use.name: f"{use.name}{self.suffix}" for use in segment.uses}
        outputs = filter(None, map(stripe.scalar_output, segment.statements))
        scalars = {name: f"{name}{self.suffix}" for name in outputs}
        uses = (
            attrs.evolve(use.substitute(self.values), name=views[use.name], root=self.roots.get(use.root, use.root))
            for use in segment.uses
        )
        statements = (renamed(with_values(s, self.values), scalars, views) for s in segment.statements)
        return attrs.evolve(segment, uses=tuple(uses), statements=tuple(statements))


def _together(segments: list[Segment], loop: stripe.Index) -> Segment:
    uses: list[Use] = []
    statements: list[stripe.Statement] = []
    for segment in segments:
        values = {segment.loops[0].name: Affine.index(loop.name)}
        uses.extend(use.substitute(values) for use in segment.uses)
        statements.extend(with_values(statement, values) for statement in segment.statements)
    return Segment((loop,), (), tuple(uses), tuple(statements), segments[0].tags)
