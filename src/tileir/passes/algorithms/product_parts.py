"""Splitting of the sums of a matrix product (split-K), for groups that would have no tile otherwise."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from tileir.core import DType, NameScope, attrs
from tileir.passes.analysis.accesses import address, always_reached
from tileir.poly.affine import Affine
from tileir.schedule.nest import product
from tileir.stripe import ir as stripe


def product_parts(
    kernel: stripe.Block, written: Collection[str], sizes: Mapping[str, int], *, tile: int, groups: int, least: int
) -> tuple[stripe.Index, int] | None:
    """Return the index of a matrix product, and its parts, by which ``groups`` have a ``tile`` of outputs each.

    None if tiles keep the device, or its memory, busy, or if parts would not be faster. ``written`` are the indices of
    outputs, ``sizes`` the elements of tensors. There are at least about ``least`` parts.
    """
    if not is_product(kernel, written):
        return None
    points, outer = (product(i.range for i in kernel.indices if i.name in written or every) for every in (True, False))
    read = sum(sizes.get(view.source, points) for view in _inputs(kernel))
    tiles = -(-outer // tile)
    if tiles >= groups or (points < _MEETINGS * read and _WAITING * tiles >= groups):
        return None
    cost = _Cost(kernel, written, tiles, groups, points // outer)
    lies = all(any(abs(address(view).coefficient(name)) == 1 for name in written) for view in _inputs(kernel))
    near = {name for view in _inputs(kernel) for name, step in address(view).terms if abs(step) == 1}
    rows = {} if is_window(kernel) else _rows(kernel, written)
    copied = points >= _COPIED or all(view.shape.dtype.itemsize == _HALF for view in _inputs(kernel))
    row = _least_row(kernel, few=2 * tiles <= groups) or points
    ways = [
        (cost.of(index, parts), number, parts)
        for number, index in enumerate(kernel.indices)
        if index.name not in written
        for parts in _divisors(index.range, max(2, least // 2), _MOST * groups)
        if points // outer // parts >= LONG
        and (lies or parts == index.range or (copied and (index.name not in near or index.range // parts >= row)))
        and (lies or index.name not in rows or rows[index.name] * index.range // parts >= _RUN)
    ]
    most = cost.of(kernel.indices[0], 1) * _FASTER
    for each, number, parts in sorted(ways):
        if each > most:
            break
        if is_whole(kernel, written, kernel.indices[number], parts):
            return kernel.indices[number], parts
    return None


def _rows(kernel: stripe.Block, written: Collection[str]) -> dict[str, int]:
    """Return the indices of the sum along which an input is dense, and the elements before their next step."""
    found: dict[str, int] = {}
    for view in _inputs(kernel):
        steps = {step: name for name, step in address(view).terms}
        step = 1
        while (name := steps.get(step, "")) and name not in written:
            found[name] = min(step, found.get(name, step))
            step *= kernel.ranges[name]
    return found


def _least_row(kernel: stripe.Block, *, few: bool) -> int:
    """Return the minimum number of contiguous elements of a part along a sum; 0 if the sum is not split along them."""
    if any(view.shape.dtype is not DType.F32 for view in _inputs(kernel)):
        return 0
    return _ROW_OF_WINDOW if is_window(kernel) else _ROW if few else 0


def is_window(kernel: stripe.Block) -> bool:
    """Return whether an input is read at places that are sums of indices, as in a window."""
    return any(len(access.indices) > 1 for view in _inputs(kernel) for access in view.access)


def is_whole(kernel: stripe.Block, written: Collection[str], index: stripe.Index, parts: int) -> bool:
    """Return whether each output has a term in every part: outputs without valid terms keep their content."""
    within = -(-index.range // parts)
    part = NameScope.of(i.name for i in kernel.indices).fresh(index.name)
    value = Affine.of({part: within, index.name: 1})
    outer = {**{name: kernel.ranges[name] for name in written}, part: parts}
    inner = {i.name: within if i is index else i.range for i in kernel.indices if i.name not in written}
    tests = [each.substitute({index.name: value}) for each in kernel.constraints]
    end = [index.range - 1 - value] if index.range < parts * within else []
    own = [each for each in kernel.constraints if outer.keys() >= {*each.indices}]  # excluded points are no outputs
    return not tests or always_reached([*tests, *end], outer, inner, own)


@attrs.frozen
class _Cost:
    """Cost of a product with ``tiles`` of ``terms`` each, relative to one that always keeps ``groups`` busy."""

    kernel: stripe.Block
    written: Collection[str]
    tiles: int
    groups: int
    terms: int

    def of(self, index: stripe.Index, parts: int) -> float:
        """Return the time with ``parts`` parts of an index: groups work in rounds, and partial sums are read again."""
        rounds = -(-self.tiles * parts // self.groups)
        turns = (rounds if rounds > 1 else _ALONE) * self.groups / (self.tiles * parts)
        loops = (i.range // (parts if i is index else 1) for i in self.kernel.indices if i.name not in self.written)
        longest = min(max(loops, default=1), 2 * _STEP)
        steps = -(-longest // _STEP) * _STEP / longest * (1 if longest > _STEP else _SHALLOW)
        widest = max(view.shape.dtype.itemsize for view in _inputs(self.kernel))
        again = _AGAIN.get(widest, 0) if parts > 1 else 0
        return turns * steps + parts * again / self.terms


_MEETINGS: Final = 64
"""Products per element read from which on multiplying takes longer than reading."""

_WAITING: Final = 3
"""Ratio of the bandwidth that one group can use to its even share of the memory bandwidth."""

_COPIED: Final = 1 << 28
"""Products from which on factors that are contiguous along the sum are copied to be so along outputs: parts then have
no shorter rows. Factors of two bytes are read so fast that this makes no difference.
"""

_HALF: Final = 2

_RUN: Final = 64
"""Minimum contiguous elements along a sum in a part if factors are not copied."""

_ROW: Final = 256
"""Minimum contiguous f32 elements along a sum of parts if every other group would have no tile."""

_ROW_OF_WINDOW: Final = 128
"""Minimum for windows, if some group would have no tile: each row is read once for every place in a window."""

LONG: Final = 256
"""Minimum terms of a part of a product, since its sums are written and read again."""

_MOST: Final = 4
"""Maximum number of parts for each group that keeps the device busy."""

_ALONE: Final = 1.33
"""Slowdown of a product with one group per processor: no other group multiplies while one waits."""

_FASTER: Final = 0.8
"""Maximum relative time at which a product is split."""

_STEP: Final = 16
"""Terms per instruction; tiles are copied in steps of at least two of them."""

_SHALLOW: Final = 1.4
"""Slowdown of a product with only :data:`_STEP` terms per step, as threads synchronise more often."""

_AGAIN: Final = {2: 512, 4: 64}
"""Terms multiplied in the time of writing and reading a sum, by the bytes of a factor."""


def _inputs(kernel: stripe.Block) -> tuple[stripe.Refinement, ...]:
    return tuple(view for view in kernel.refinements if view.direction is stripe.Direction.IN)


def is_product(kernel: stripe.Block, written: Collection[str]) -> bool:
    """Return whether a kernel multiplies two inputs, each moved by output indices that do not move the other."""
    if "comb_op_mul" not in kernel.tags or len(_inputs(kernel)) != 2:
        return False
    one, two = ({name for a in view.access for name in a.indices} & set(written) for view in _inputs(kernel))
    return bool(one - two) and bool(two - one)


def _divisors(value: int, least: int, most: int) -> Iterator[int]:
    return (each for each in range(least, min(value, most) + 1) if value % each == 0)
