"""Peeling of borders: a kernel is split where its constraints begin to hold for all of a reduction.

Loops over an image that test for its edge at every step can neither keep rows of results in registers nor use vectors
along the tested index. In the interior no test fails: it gets a kernel of its own without tests, which only the
boundary kernels keep. It is the separation of full from partial tiles of Kim et al., "Multi-level tiling: M for the
price of one" (SC 2007), for boxes cut by constraints.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from tileir.core.nodes import attrs
from tileir.passes.analysis.accesses import reads_neighbours
from tileir.passes.base import KernelPass, at_least
from tileir.passes.kernels import SCHEDULED, is_scheduled
from tileir.passes.regions.interior import divided, inside_evenly
from tileir.passes.rewrites.canonicalise import simplified
from tileir.poly.affine import Affine
from tileir.schedule.remarks import Done, Refused, refused
from tileir.stripe import ir as stripe

_LANES: Final = 8
"""Minimum number of values of an index for vector lanes, instead of a cut index."""


@attrs.frozen
class Separate(KernelPass):
    """Peel borders off kernels: the interior, where no constraint can fail, becomes a separate kernel.

    The boundary at both ends forms a second kernel, which is split further along other indices: for an image, into its
    interior, the middles of its sides, and its corners. Narrow ends stay whole if vector lanes run along an index
    without constraints: loop bounds implement their tests, and a kernel for the corners takes longer to compile than it
    saves. If no index has contiguous lanes, the interior is split further instead, since back ends vectorise loops with
    constant bounds. Kernels that open aggregation scopes, have a schedule, or have constraints only in inner blocks are
    left alone.

    Attributes:
        reqs: Tags of the kernels to split.
        least: Minimum number of interior values of an index.
        share: Minimum share of the interior in the range of an index, in percent.
        operations: Minimum number of estimated operations of a kernel that is split.
        most: Maximum number of indices along which a kernel is split, each applied to the previous boundary.
        narrow: Maximum number of boundary values of an index, at both ends together, for which a further split is
            skipped.
    """

    name: ClassVar[str] = "separate"
    reqs: tuple[str, ...] = ()
    least: int = attrs.field(default=4, validator=at_least(1))
    share: int = attrs.field(default=50, validator=at_least(0))
    operations: int = attrs.field(default=1 << 16, validator=at_least(0))
    most: int = attrs.field(default=2, validator=at_least(0))
    narrow: int = attrs.field(default=4, validator=at_least(0))

    def _kernel(self, kernel: stripe.Block) -> Done | Refused:
        if is_scheduled(kernel):
            return SCHEDULED
        if scopes := [r.name for r in kernel.refinements if r.opens_scope]:
            return refused("TR105", view=scopes[0])
        if (operations := _operations(kernel)) < self.operations:
            return refused("TR611", operations=operations, least=self.operations)
        parts: list[stripe.Block] = []
        left, ends = kernel, 0
        untested = _untested(kernel)
        inwards = not any(reads_neighbours(kernel, i.name) for i in untested)
        for _ in range(self.most):
            cut = self._cut(left, kernel.ranges)
            if isinstance(cut, Refused):
                if not parts:
                    return cut
                break
            ends, inwards = max(ends, cut.ends), inwards and not cut.contiguous
            if parts and ends <= self.narrow and not inwards and any(i.range >= _LANES for i in untested):
                break
            within, outside = divided(left, cut.index, cut.low, cut.high)
            part, left = (outside, within) if inwards else (within, outside)
            parts.append(part)
        if not parts:
            return refused("TR614")
        made = tuple(s for part in (*parts, left) if (s := simplified(part)) is not None)
        return Done(made, (("kernels", len(made)),))

    def _cut(self, kernel: stripe.Block, known: Mapping[str, int]) -> _Interior | Refused:
        """Choose where to cut: along contiguous memory, as vectors may need, and with the largest interior.

        Among equals, the innermost index wins. Indices that are not ``known`` count the ends of an earlier cut.
        """
        ranges: dict[str, int] = {}
        tests = _tests(kernel, {i.name: Affine.index(i.name) for i in kernel.indices}, ranges)
        best: _Interior | Refused = refused("TR613")
        for index in kernel.indices:
            if index.affine is not None or index.name not in known:
                continue
            low, high = inside_evenly(index, tests, {**kernel.ranges, **ranges})
            if low == 0 and high == index.range:
                continue
            if high - low < self.least or 100 * (high - low) < self.share * index.range:
                if isinstance(best, Refused):
                    best = refused("TR612", index=index.name, range=index.range, inside=max(0, high - low))
                continue
            cut = _Interior(index, low, high, contiguous=reads_neighbours(kernel, index.name))
            if isinstance(best, Refused) or cut.rank >= best.rank:
                best = cut
        return best


@attrs.frozen(repr=False)
class _Interior:
    """Interior of an index, values ``low`` to ``high``, exclusive; equally many are outside at each end, or none."""

    index: stripe.Index
    low: int
    high: int
    contiguous: bool

    @property
    def rank(self) -> tuple[bool, int]:
        """Order of preference."""
        return self.contiguous, self.high - self.low

    @property
    def ends(self) -> int:
        """Number of values outside."""
        return self.index.range - (self.high - self.low)


def _untested(kernel: stripe.Block) -> list[stripe.Index]:
    tests = _tests(kernel, {i.name: Affine.index(i.name) for i in kernel.indices}, {})
    tested = {name for test in tests for name in test.indices}
    return [i for i in kernel.indices if i.affine is None and i.name not in tested]


def _operations(block: stripe.Block) -> int:
    return block.points * sum(_operations(s) if isinstance(s, stripe.Block) else 1 for s in block.statements)


def _tests(block: stripe.Block, values: Mapping[str, Affine], ranges: dict[str, int]) -> list[Affine]:
    """Return the constraints in a kernel over its own indices and those of nested blocks, whose ranges are added.

    ``values`` holds the indices of ``block``.
    """
    tests: list[Affine] = []
    for inner in block.blocks:
        below: dict[str, Affine] = {}
        for index in inner.indices:
            name = f"{len(ranges)}.{index.name}"  # no index of a kernel has a dot
            ranges[name] = index.range
            start = Affine() if index.affine is None else index.affine.substitute(values)
            below[index.name] = start + Affine.index(name)
        tests.extend(constraint.substitute(below) for constraint in inner.constraints)
        tests.extend(_tests(inner, below, ranges))
    return tests
