"""Joint computation of rows, or of vectors of a row, that share loads.

Windows along a row at neighbouring vectors overlap like those of neighbouring rows: a window of 17 elements and that of
the next vector of 8 have 9 of 17 vectors in common, which are unaligned and often straddle cache lines. Loads, not
sums, are then the bottleneck; and independent chains of sums hide the latency of each step. At the sides of pictures,
with strided lanes, scalar computation may be better (:func:`computed_apart`).

A function of a vector is a chain of twenty or forty dependent operations, of which a processor overlaps two or three.
Vectors of several registers give as many chains, which are interleaved step by step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import ClassVar, Final

from tileir.core import NameScope, Op, attrs
from tileir.passes.fusion.inline import CHEAP
from tileir.passes.kernels import schedule as sch
from tileir.passes.kernels.unroll_and_jam import most_live, unroll_and_jam
from tileir.poly.affine import Affine
from tileir.schedule import Item, Known, Leaf, Loop, Nest, Refused, Replaced, Segment, Tail, Tree, with_loops_replaced
from tileir.schedule.application import Rearrangement
from tileir.schedule.steps.loops import Bind, Cut, Reorder, Split
from tileir.stripe.ir import Binding, Convert, Intrinsic, Load, LoadIndex, scalar_inputs, scalar_output

_SAVED: Final = 4
"""Vectors are computed together if that saves at least one in this number of loads."""

_CHAIN: Final = 8
"""Operations of a function per value that it keeps live."""

_ABREAST: Final = 4
"""Interleaved chains that hide the latency of additions and products: four cycles, two per cycle."""

_PLACES: Final = 512
"""Maximum loads of a body without loops."""

_DATA: Final = 2
"""Maximum operations per load of a lane that cost no more than computing and inserting the lane in a vector."""


def vectors_beside(nest: Nest, vector: str, lanes: int, most: int) -> int:
    """Return the number of vectors of a row to compute together: 1, or up to ``most`` that share loads.

    Args:
        nest: An elementwise kernel of one segment.
        vector: The index along the lanes.
        lanes: Elements of a vector.
        most: Maximum number of vectors.
    """
    reads = {(nest.sources[use.root], use.address) for use in sch.read_uses(nest) if use.stride(vector)}
    best, fewest = 1, (_SAVED - 1) * len(reads) / _SAVED
    for count in range(2, most + 1):
        moved = ({vector: Affine.index(vector) + lanes * number} for number in range(count))
        loads = len({(source, place.substitute(values)) for values in moved for source, place in reads}) / count
        if loads <= fewest:
            best, fewest = count, loads
    return best


def vectors_abreast(nest: Nest, registers: int) -> int:
    """Return the number of registers for a vector, a power of two: 1 without functions of floats.

    Args:
        nest: An elementwise kernel of one segment.
        registers: Number of vector registers, which hold the live values of all vectors.
    """
    (segment,) = nest.segments
    made = [each for each in segment.statements if isinstance(each, Intrinsic) and each.op.info.approximates]
    if not made or any(isinstance(each, Load) and each.index is not None for each in segment.statements):
        return 1
    held = most_live(segment.statements) + max(each.op.info.weight_in(each.dtype) for each in made) // _CHAIN
    return sch.power_of_two_below(max(1, min(registers // held, _ABREAST)))


def computed_apart(nest: Nest, vector: str, points: int) -> bool:
    """Return whether ``points`` at the side of a picture, with constant places, are better computed one by one.

    Strided lanes are loaded one by one in any case, and assembled into a vector; with little arithmetic, that takes
    longer than scalar computation, where known places cost nothing.
    """
    (segment,) = nest.segments
    data, lanes = set[str | None](), set[str | None]()
    loads, operations = 0, 0
    for statement in segment.statements:
        if not lanes.isdisjoint(scalar_inputs(statement)) or (
            isinstance(statement, LoadIndex) and statement.affine.coefficient(vector)
        ):
            lanes.add(scalar_output(statement))
        if isinstance(statement, Load):
            loads += statement.index in lanes
            data.add(statement.into)
        elif not data.isdisjoint(scalar_inputs(statement)):
            data.add(scalar_output(statement))
            operations += isinstance(statement, Intrinsic | Convert)
            if isinstance(statement, Intrinsic) and statement.op not in (*CHEAP, Op.FMA):
                return False
    return bool(loads) and operations <= _DATA * loads and loads * points <= _PLACES


@attrs.frozen(repr=False)
class Vectors:
    """The loops below the grid: a loop ``inner`` over rows, if any, around the vectors of a run, or ``beside`` each.

    Attributes:
        name: The index along the rows.
        lanes: Elements of a vector.
        names: Names in use.
        sources: The tensor behind each root of a use.
        inner: The loop over rows; empty for none.
        beside: Whether rows are computed together (unroll-and-jam).
        together: Statements that serve all these rows; None if each row has its own.
        vectors: Number of vectors of a row that are computed together.
    """

    name: str
    lanes: int
    names: NameScope
    sources: Mapping[str, str]
    inner: str = ""
    beside: bool = False
    together: Segment | None = None
    vectors: int = 1

    def steps(self, loop: str, runs: Sequence[tuple[int, int]]) -> Iterator[Rearrangement]:
        """Yield steps that split a loop into runs, each with a number of vectors and lanes."""
        several = [each for run in runs for each in self._parts(*run)]
        parts = [self.names.fresh(f"{self.name}_run") for _ in several] if len(several) > 1 else [loop]
        if len(several) > 1:
            yield Cut(loop, tuple(accumulate(count * lanes for count, lanes, _ in several[:-1])), tuple(parts))
        for part, (_, lanes, vectors) in zip(parts, several, strict=False):
            step, lane = (self.names.fresh(f"{self.name}_{what}") for what in ("vector", "lane"))
            whole = self.beside and lanes == self.lanes
            if whole:
                yield _Rows(self.together, part, self.name)
            if vectors > 1:
                near, number = (self.names.fresh(f"{self.name}_{what}") for what in ("near", "beside"))
                yield Split(part, lanes * vectors, (step, near), Tail.EVEN)
                yield Split(near, lanes, (number, lane), Tail.EVEN)
                yield _Jam(number, self.sources)
            else:
                yield Split(part, lanes, (step, lane), Tail.EVEN)
            if self.inner and not (whole and self.together):
                yield Reorder((step, self.inner, lane) if self.beside else (self.inner, step, lane))
            yield Bind(lane, Binding.LANE)

    def _parts(self, count: int, lanes: int) -> Iterator[tuple[int, int, int]]:
        """Yield the parts of a run: elements in vectors, lanes, and vectors that are computed together."""
        vectors = self.vectors if lanes == self.lanes and not self.inner else 1
        whole = count // vectors * vectors
        if whole:
            yield whole, lanes, vectors
        if whole < count:
            yield count - whole, lanes, 1


@attrs.frozen(repr=False)
class _Rows:
    """Step that replaces the loop over rows in a run by their joint computation; None unrolls it."""

    name: ClassVar[str] = "beside"
    together: Segment | None
    run: str
    vector: str

    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:  # noqa: ARG002  # all steps are called alike
        """Return the tree with rows computed together."""
        return with_loops_replaced(tree, self.run, lambda run, _: Replaced((attrs.evolve(run, body=self._rows(run)),)))

    def _rows(self, run: Loop) -> tuple[Item, ...]:
        if self.together is None:
            return tuple(attrs.evolve(item, binding=Binding.UNROLL) for item in run.body if isinstance(item, Loop))
        every = Leaf(self.together.statements, self.together.uses, self.together.constraints, self.together.tags)
        return (every.substitute({self.vector: Affine.index(run.name)}),)


@attrs.frozen(repr=False)
class _Jam:
    """Step that moves a loop over vectors into the body of their lanes; or unrolls it if they would share nothing."""

    name: ClassVar[str] = "jam"
    loop: str
    sources: Mapping[str, str]

    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:  # noqa: ARG002  # all steps are called alike
        """Return the tree with vectors computed together."""
        return with_loops_replaced(tree, self.loop, lambda loop, _: Replaced((self._jammed(loop),)))

    def _jammed(self, loop: Loop) -> Loop:
        (lane,) = loop.body
        assert isinstance(lane, Loop)  # it was split off
        (body,) = lane.body
        assert isinstance(body, Leaf)  # no loop over rows is inside
        values = [Affine(offset=number) for number in range(loop.size)]
        segment = Segment((), body.constraints, body.uses, body.statements, body.tags)
        together = unroll_and_jam(segment, loop.name, values, self.sources)
        if together is None:
            return attrs.evolve(loop, binding=Binding.UNROLL)
        every = Leaf(together.statements, together.uses, together.constraints, together.tags)
        return attrs.evolve(lane, body=(every,))
