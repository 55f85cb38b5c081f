"""Choice of the fastest axis for a factor of a matrix product, along which its tiles can be copied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Final

from tileir.core.dtype import DType
from tileir.core.fragments import Fragment, OperandMemory
from tileir.passes.analysis.accesses import PAGE_BYTES
from tileir.passes.analysis.walks import Walk
from tileir.stripe.ir import TensorShape

LEAST: Final = 16
"""Minimum number of contiguous elements for which a copy pays."""

_OUTER: Final = "1:"
"""Prefix of counters of a kernel's own indices; those of inner loops have a greater depth."""

_HALF: Final = 2
"""Bytes per element of factors whose rows are copied to align with cache lines."""

_LONG: Final = 96
_WIDE: Final = 64
"""Minimum terms of a sum, and minimum contiguous terms and outputs per side, for copies of words to rows of boxes."""


def factor_axis(
    walk: Walk,
    together: Sequence[Walk],
    sizes: Sequence[int],
    dtypes: Mapping[str, DType],
    fragments: Iterable[Fragment],
) -> int | None:
    """Return the axis of a factor's tensor that should be the fastest; None if the product has no preference.

    ``together`` are all walks of the kernel, ``sizes`` those of the tensor, ``dtypes`` those of all. Tiles of a factor
    are copied in wide pieces along an index that is summed over and moves both factors, or along one of the outputs. If
    neighbours are the pixels of a window, or the places in it, pieces would be misaligned. If none of ``fragments``
    applies, a thread has neighbouring outputs, and transposes factors that are contiguous along the sum.
    """
    other = _other(walk, together)
    if other is None:
        return None
    fastest, is_summed = _fastest(walk), _roles(walk, other, _kept(together))
    if fastest is None:
        return None
    long = [axis for axis in is_summed if axis != fastest and sizes[axis] >= LEAST]
    if fastest in is_summed:
        even = [axis for axis in long if sizes[axis] % 2 == 0]
        is_odd = has_odd_rows(walk, together, sizes, dtypes)
        return min(even, key=lambda axis: walk.strides[axis], default=None) if is_odd else None
    shared, own = ([axis for axis in long if is_summed[axis] is each] for each in (True, False))
    best = shared or own if _takes(walk, other, dtypes, fragments) else own or shared
    return max(best, key=lambda axis: sizes[axis], default=None)


def has_odd_rows(walk: Walk, together: Sequence[Walk], sizes: Sequence[int], dtypes: Mapping[str, DType]) -> bool:
    """Return whether rows of a 16-bit factor are not whole words: threads would copy its elements one by one."""
    other, fastest = _other(walk, together), _fastest(walk)
    is_summed = {} if other is None else _roles(walk, other, _kept(together))
    if fastest is None or fastest not in is_summed or dtypes[walk.tensor].itemsize != _HALF:
        return False
    row = 1
    for stride, axis in sorted((walk.strides[axis], axis) for axis, affine in enumerate(walk.access) if affine.indices):
        if stride != row or is_summed.get(axis) is not is_summed[fastest]:
            return row >= LEAST and stride % 2 > 0
        row *= sizes[axis]
    return False


def _roles(walk: Walk, other: Walk, kept: set[str]) -> dict[int, bool]:
    """Return the axes of a factor that an index alone moves, each with whether that index is summed over."""
    found: dict[int, bool] = {}
    for axis in range(len(walk.access)):
        name = _alone(walk, axis)
        if name is None or (name in kept and other.stride(name)):
            continue
        if name in kept:
            found[axis] = False
        elif any(_alone(other, each) == name for each in range(len(other.access))):
            found[axis] = True
    return found


def depth_axis(
    walk: Walk,
    together: Sequence[Walk],
    sizes: Sequence[int],
    dtypes: Mapping[str, DType],
    fragments: Iterable[Fragment],
) -> int | None:
    """Return the axis of a factor's tensor along the sum, if instructions need contiguous elements along that.

    None if the factor has them, or if none of ``fragments`` for ``dtypes``, those of all tensors, needs them. If
    threads can load one of the factors as it is, the smaller one is copied.
    """
    other = _other(walk, together)
    own = {dtypes[each.tensor] for each in (walk, other) if each is not None}
    rows = [row for row in fragments if row.a.where is OperandMemory.LOCAL and {row.a.dtype, row.b.dtype} == own]
    if other is None or not rows or any(row.b.turns for row in rows):
        return None
    kept = _kept(together)
    if not _is_across(walk, kept):
        return None
    if any(row.a.turns for row in rows) and not (_is_across(other, kept) and _is_smaller(walk, other, together)):
        return None
    shared = [axis for axis in range(len(walk.access)) if (name := _alone(walk, axis)) and name not in kept]
    shared = [axis for axis in shared if sizes[axis] >= LEAST and other.stride(_indices_of(walk, axis))]
    return max(shared, key=lambda axis: sizes[axis], default=None)


def channel_axis(walk: Walk, together: Sequence[Walk], sizes: Sequence[int]) -> int | None:
    """Return the channel axis of the inputs of a weight gradient of a window, channel by channel.

    The tensor under the window moves with all indices of the output, the gradient of its results with all but those of
    places: threads take neighbouring channels, and have several places each. None for other kernels.
    """
    reads, kept = [each for each in together if not each.writes], _kept(together)
    if len(reads) != 2 or walk not in reads or not kept or len({each.points for each in reads}) > 1:
        return None
    other, slid = sorted(reads, key=lambda each: len(_indices(each) & kept))
    places = kept - _indices(other)
    if not kept <= _indices(slid) or not places or not (_indices(other) - kept) or _indices(other) - _indices(slid):
        return None
    moved = [name for affine in slid.access if places & {*affine.indices} for name in affine.indices]
    if not any(name not in kept for name in moved):
        return None
    fastest = _fastest(walk)
    own = [
        axis
        for axis in range(len(walk.access))
        if (name := _alone(walk, axis)) in kept and name not in places and sizes[axis] >= LEAST and other.stride(name)
    ]
    return None if fastest in own else min(own, key=lambda axis: abs(walk.strides[axis]), default=None)


def far_axis(walk: Walk, together: Sequence[Walk], shape: TensorShape, near_bytes: int) -> int | None:
    """Return the axis of a factor's tensor along the sum, if most of its steps begin in another page.

    An example is a transposed left matrix of a product: each tile of the result reads a line of every page. None for
    the factor that is contiguous along an output, since vectors are loaded along that, and if the matrix has no more
    than ``near_bytes``, the size of a cache.
    """
    other, fastest, kept = _other(walk, together), _fastest(walk), _kept(together)
    if other is None or fastest is None or not _is_across(walk, kept):
        return None
    across = _indices_of(walk, fastest)
    if other.stride(across) or any(each.stride(across) == 1 for each in together if each.writes):
        return None
    summed = [axis for axis, affine in enumerate(walk.access) if not kept.issuperset(affine.indices)]
    nearest = min(summed, key=lambda axis: abs(walk.strides[axis]), default=None)
    if nearest is None or any(_alone(walk, axis) is None for axis in summed) or shape.sizes[nearest] < LEAST:
        return None
    own = [axis for axis, a in enumerate(walk.access) if axis in summed or not any(map(other.stride, a.indices))]
    size = shape.dtype.itemsize
    is_large = size * prod(shape.sizes[axis] for axis in own) > near_bytes
    return nearest if is_large and 2 * abs(walk.strides[nearest]) * size > PAGE_BYTES else None


def window_axis(
    walk: Walk,
    together: Sequence[Walk],
    sizes: Sequence[int],
    dtypes: Mapping[str, DType],
    fragments: Iterable[Fragment],
) -> int | None:
    """Return the axis of a factor of windows that should be the fastest for dot products by ``fragments``.

    Their terms are contiguous along the sum in the tensor under the window, and their lanes are neighbouring outputs of
    the other factor. None if the factor already has this layout, or if either cannot have it.
    """
    other = _other(walk, together)
    if other is None or not _takes(walk, other, dtypes, fragments):
        return None
    kept = _kept(together)
    asked = []
    for one, two in ((walk, other), (other, walk)):
        alone = [(axis, name) for axis in range(len(one.access)) if (name := _alone(one, axis))]
        slides = _slides(one)
        asked.append(
            [axis for axis, name in alone if (name in kept) is not slides and (two.stride(name) != 0) is slides]
        )
    if _slides(walk) is _slides(other) or not all(asked) or _fastest(walk) in asked[0]:
        return None
    return max(asked[0], key=lambda axis: sizes[axis])


def _slides(walk: Walk) -> bool:
    return any(len(affine.indices) > 1 for affine in walk.access)


def have_parted_rows(
    walk: Walk, together: Sequence[Walk], dtypes: Mapping[str, DType], fragments: Iterable[Fragment], line: int
) -> bool:
    """Return whether rows of both factors, which instructions take from local memory, are misaligned to ``line`` bytes.

    Pieces of such rows straddle cache lines: on an H100 a product of f16 at 3000 took 140 us, and one at 3008 83. A
    single misaligned factor costs less than its copy (154 us at 4096 x 3000 x 4096, 162 with it), as do words of TF32
    (202 and 257 at 3000). If several indices move one axis, as in windows, rows of tiles are no rows of the tensor.
    """
    other = _other(walk, together)
    if other is None:
        return False
    own = {dtypes[each.tensor] for each in (walk, other)}
    if not any(each.a.where is OperandMemory.LOCAL and {each.a.dtype, each.b.dtype} == own for each in fragments):
        return False
    return all(_has_parted_rows(each, dtypes[each.tensor].itemsize, line) for each in (walk, other))


def _has_parted_rows(walk: Walk, size: int, line: int) -> bool:
    moved = [axis for axis, affine in enumerate(walk.access) if affine.indices]
    last = len(walk.strides) - 1
    if size != _HALF or walk.strides[last] != 1 or last not in moved:
        return False
    return all(_alone(walk, axis) for axis in moved) and any(stride * size % line for stride in walk.strides[:last])


def takes_boxes_alone(
    walk: Walk, together: Sequence[Walk], shapes: Mapping[str, TensorShape], fragments: Iterable[Fragment]
) -> bool:
    """Return whether instructions should take a factor from local memory, which it can only reach as boxes.

    These are 32-bit words, which box copies round to TF32, where the instructions would truncate them. Otherwise
    threads load and round the factors, which is as fast if sums are short, since the results take most of the time, if
    few terms are contiguous, and if outputs are few on one side: on an H200, 64 products of 1024 x 1024 x 65 took 150
    us so and 177 with boxes and copies for these, 3x3 over 32x56x56x33 66 and 105, and 3x3 from 32x56x56x65 to 33
    channels 108 and 142.
    """
    other = _other(walk, together)
    if other is None:
        return False
    own = {shapes[each.tensor].dtype for each in (walk, other)}
    local = (each for each in fragments if each.rounded and each.a.where is OperandMemory.LOCAL)
    if not any({each.a.dtype, each.b.dtype} == own for each in local):
        return False
    kept, outputs = _kept(together), max(each.points for each in together if each.writes)
    wide = _sides(walk, other, shapes, kept) >= _WIDE <= _sides(other, walk, shapes, kept)
    summed = (_extent(walk, name, shapes) for name in _indices(walk) & _indices(other) - kept)
    return wide and walk.points >= _LONG * outputs and max(summed, default=0) >= _WIDE


def _sides(walk: Walk, other: Walk, shapes: Mapping[str, TensorShape], kept: set[str]) -> int:
    """Return the approximate number of outputs of the indices that move only one factor."""
    return prod(_extent(walk, name, shapes) or _WIDE for name in (_indices(walk) - _indices(other)) & kept)


def _extent(walk: Walk, index: str, shapes: Mapping[str, TensorShape]) -> int:
    """Return the extent of the axis of a tensor that an index alone moves; 0 if there is none."""
    sizes = shapes[walk.tensor].sizes
    return max((sizes[axis] for axis in range(len(walk.access)) if _alone(walk, axis) == index), default=0)


def have_rows(walk: Walk) -> bool:
    """Return whether one index alone moves a walk along the last axis of its tensor, which is contiguous."""
    return walk.strides[-1:] == (1,) and _alone(walk, len(walk.strides) - 1) is not None


def _takes(walk: Walk, other: Walk, dtypes: Mapping[str, DType], fragments: Iterable[Fragment]) -> bool:
    """Return whether an instruction is for factors of the dtypes of two walks."""
    own = {dtypes[each.tensor] for each in (walk, other)}
    return any({row.a.dtype, row.b.dtype} == own for row in fragments)


def _other(walk: Walk, together: Sequence[Walk]) -> Walk | None:
    """Return the other factor of a product of two, whose tiles are multiplied by tiles of the first."""
    reads = [each for each in together if not each.writes]
    points = max((each.points for each in reads), default=0)
    factors = [each for each in reads if each.points == points]
    if len(factors) != 2 or walk not in factors:
        return None
    (other,) = (each for each in factors if each is not walk)
    kept = _kept(together)
    panels = [(_indices(one) - _indices(two)) & kept for one, two in ((walk, other), (other, walk))]
    return other if all(panels) and (_indices(walk) & _indices(other)) - kept else None


def _kept(together: Sequence[Walk]) -> set[str]:
    """Return the indices of outputs; if no output walk is known, as for results with other axes, all outer indices."""
    found = {name for each in together if each.writes for name in _indices(each)}
    names = {name for each in together for name in _indices(each)}
    outer = {name for name in names if name.startswith(_OUTER)}
    return found or (outer if outer < names else set())


def _fastest(walk: Walk) -> int | None:
    moved = [axis for axis, affine in enumerate(walk.access) if affine.indices]
    return min(moved, key=lambda axis: (abs(walk.strides[axis]), -axis), default=None)


def _is_across(walk: Walk, kept: set[str]) -> bool:
    """Return whether a factor is contiguous along an output."""
    axis = _fastest(walk)
    return axis is not None and _alone(walk, axis) in kept


def _is_smaller(walk: Walk, other: Walk, together: Sequence[Walk]) -> bool:
    reach, others = (max(abs(stride) for stride in each.strides) for each in (walk, other))
    return (reach, together.index(walk)) <= (others, together.index(other))


def _indices_of(walk: Walk, axis: int) -> str:
    return walk.access[axis].indices[0]


def _indices(walk: Walk) -> set[str]:
    return {name for affine in walk.access for name in affine.indices}


def _alone(walk: Walk, axis: int) -> str | None:
    """Return the index that moves a walk along an axis by single steps, if it moves nothing else."""
    affine = walk.access[axis]
    if len(affine.indices) != 1 or affine.coefficient(affine.indices[0]) != 1:
        return None
    name = affine.indices[0]
    return name if all(name not in each.indices for n, each in enumerate(walk.access) if n != axis) else None
