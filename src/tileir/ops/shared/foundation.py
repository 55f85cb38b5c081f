"""Building blocks of all operations: axes, sizes, index variables and contractions of tensors.

This is the only file of the library that knows the internals of the builder. Mistakes are raised at the user's line.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import ParamSpec, TypeAlias, TypeVar

from tileir.core import Aggregation, DType, TileError, dtype_meant
from tileir.tile.building.contractions import CombinedElements
from tileir.tile.building.dtypes import dtype_of as known_dtype, fixed_dtype_of
from tileir.tile.building.indices import Dim, Index, Polynomial, dim_of
from tileir.tile.building.recording import mistake
from tileir.tile.building.results import contraction
from tileir.tile.building.sizes import broadcast, sizes_of
from tileir.tile.building.tensors import Operand, Tensor, call, computed, recorder_of, value_of
from tileir.tile.ir import Attribute, Constraint, IndexName

__all__ = [
    "Aggregation",
    "Axes",
    "CombinedElements",
    "Constraint",
    "Dim",
    "Index",
    "Operand",
    "Polynomial",
    "Size",
    "Tensor",
    "aggregate",
    "axes_of",
    "axis_of",
    "axis_within",
    "broadcast_dims",
    "broadcast_index",
    "call",
    "cast_to",
    "chosen",
    "dim_like",
    "dims_of",
    "dtype_of",
    "equal_sizes",
    "expand",
    "finite",
    "floating",
    "for_sums",
    "full",
    "index_of",
    "indices_of",
    "inside",
    "integer_of",
    "like",
    "mistake",
    "mistaken",
    "narrowed",
    "position",
    "promoted",
    "rank_of",
    "real",
    "rounded_once",
    "tensor_of",
    "wide",
]

Size: TypeAlias = Dim | int
Axes: TypeAlias = "int | Sequence[int] | None"
_Choice = TypeVar("_Choice")
_P = ParamSpec("_P")


def mistaken(message: str, *notes: str) -> TileError:
    """Build the error for an argument that an operation cannot take (TIL217), to be raised by the caller."""
    return mistake("TIL217", message, *notes)


def dims_of(x: Operand) -> tuple[Dim, ...]:
    """Return the sizes of a tensor; a number or dimension has none.

    Raises:
        TileError: TIL209, they depend on an input that was declared without dimensions.

    """
    if not isinstance(x, Tensor):
        return ()
    sizes = sizes_of(x.recorder, x.reference)
    if sizes is None:
        raise mistake(
            "TIL209",
            "this operation needs the sizes of its tensors; declare the dimensions of the inputs, "
            'as in f.input("X", "N", "C")',
        )
    return sizes


def rank_of(x: Operand) -> int:
    """Return the number of axes of a tensor; a number or dimension has none.

    Raises:
        TileError: TIL209, it depends on an input that was declared without dimensions.
    """
    if not isinstance(x, Tensor):
        return 0
    known = x.recorder.ranks.get(x.reference)
    return len(dims_of(x)) if known is None else known


def axis_of(x: Operand, axis: int) -> int:
    """Return an axis of ``x`` counted from the front; a negative one counts from the end.

    Raises:
        TileError: TIL217, it is no integer; TIL314, there is no such axis.

    """
    return axis_within(rank_of(x), axis)


def axis_within(rank: int, axis: int) -> int:
    """Return an axis of a tensor of this rank, counted from the front; errors as for :func:`axis_of`."""
    number = integer_of(axis, "an axis")
    if not -rank <= number < rank:
        count = f"axes 0 to {rank - 1}" if rank else "no axes"
        raise mistake("TIL314", f"the axis is {number}, but the tensor has {count}")
    return number % rank


def axes_of(x: Operand, axes: Axes) -> tuple[int, ...]:
    """Return axes of ``x`` in ascending order, counted from the front; None stands for all of them.

    Raises:
        TileError: TIL217, something is no integer, or an axis is given twice; TIL314, there is no such axis.
    """
    rank = rank_of(x)
    if axes is None:
        return tuple(range(rank))
    wanted = axes if isinstance(axes, list | tuple) else (axes,)
    found = sorted(axis_within(rank, axis) for axis in wanted)
    if len(set(found)) != len(found):
        raise mistaken(f"an axis stands twice among {tuple(wanted)}")
    return tuple(found)


def integer_of(value: object, what: str) -> int:
    """Return an integer of Python or NumPy.

    Raises:
        TileError: TIL217, it is something else.

    """
    if isinstance(value, bool):
        raise mistaken(f"{what} is an integer, not {value}")
    try:
        return operator.index(value)  # type: ignore[arg-type]  # anything, from users
    except TypeError:
        raise mistaken(f"{what} is an integer, not {value!r:.60}") from None


def chosen(value: _Choice, choices: Sequence[_Choice], what: str) -> _Choice:
    """Return an option that is one of ``choices``.

    Raises:
        TileError: TIL217, it is another one.
    """
    if value not in choices:
        known = ", ".join(repr(choice) for choice in choices)
        raise mistaken(f"{what} is one of {known}, not {value!r:.60}")
    return value


def index_of(x: Operand | CombinedElements, name: str) -> Index:
    """Return the index variable ``name``. Within one contraction equal names are one variable."""
    return Index(IndexName(name), recorder_of((x,)))


def indices_of(x: Tensor, stem: str = "i") -> tuple[Index, ...]:
    """Return one index variable for each axis of ``x``: ``i0, i1, …``."""
    return tuple(Index(IndexName(f"{stem}{axis}"), x.recorder) for axis in range(rank_of(x)))


def aggregate(
    aggregation: Aggregation,
    combined: CombinedElements,
    indices: Sequence[Polynomial | Dim | int],
    sizes: Sequence[Size],
    *,
    default: Tensor | None = None,
    no_defract: bool = False,
) -> Tensor:
    """Aggregate elements into a new tensor: ``O[indices : sizes] = aggregation(combined)``.

    Elements that no index point writes are those of ``default``, or 0.
    """
    options = {"default": default, "no_defract": no_defract}
    return contraction(combined.recorder, aggregation, combined, indices, sizes, **options)  # type: ignore[arg-type]


def finite(x: Tensor) -> AbstractContextManager[None]:
    """Return a context in which contractions promise that no infinity or NaN affects their results."""
    return x.recorder.attributed(Attribute("finite"))


def dim_like(x: Operand, size: Size) -> Dim:
    """Return a size as a dimension of the builder of ``x``.

    Raises:
        TileError: It is no size, or belongs to another builder.

    """
    return dim_of(recorder_of((x,)), size)


def tensor_of(x: Operand, value: Operand | bool) -> Tensor:
    """Return a tensor, number or dimension as a tensor of the builder of ``x``; numbers get rank 0."""
    if isinstance(value, Tensor):
        return value
    recorder = recorder_of((x,))
    return computed(recorder, value_of(recorder, value))


def dtype_of(dtype: DType | str) -> DType:
    """Return the type with a name such as ``"i32"``.

    Raises:
        TileError: TIL206, there is no such type.
    """
    try:
        return DType(dtype)
    except ValueError:
        raise mistake("TIL206", f"there is no element type {dtype!r:.60}; {dtype_meant(dtype)}") from None


def cast_to(x: Operand, dtype: DType | str) -> Tensor:
    """Convert every element to another type, such as ``DType.I32`` or ``"i32"``; errors as for :func:`dtype_of`."""
    return call(f"as_{dtype_of(dtype).value}", x)


def broadcast_dims(*operands: Operand) -> tuple[Dim, ...]:
    """Return the common broadcast sizes of the operands."""
    return broadcast([dims_of(operand) for operand in operands])


def expand(x: Tensor, sizes: Sequence[Size]) -> Tensor:
    """Return ``x`` broadcast to ``sizes``: along new leading axes, and along axes of size 1.

    Raises:
        TileError: TIL310, ``x`` has more axes, or an axis of another size, where that is known before compiling;
            TIL301 or TIL312 when compiling, an axis has another size.

    """
    skipped = len(sizes) - rank_of(x)
    if skipped < 0:
        raise mistake("TIL310", f"a tensor of rank {rank_of(x)} cannot be broadcast to {len(sizes)} axes")
    dims = [dim_like(x, size) for size in sizes]
    output = tuple(index_of(x, f"i{axis}") for axis in range(len(dims)))
    read = [
        broadcast_index(i, dim, size) for i, dim, size in zip(output[skipped:], dims_of(x), dims[skipped:], strict=True)
    ]
    element = x[tuple(index for index, _ in read)]
    return aggregate(Aggregation.ASSIGN, element.given(*(c for _, group in read for c in group)), output, dims)


def broadcast_index(index: Index, dim: Dim, size: Dim) -> tuple[Polynomial | int, tuple[Constraint, ...]]:
    """Return the index for an axis of size ``dim`` that is broadcast to ``size``, and the constraint that checks both.

    The axis is read at 0 if it has size 1, which may be known only when compiling, and else at ``index``.

    Raises:
        TileError: TIL310, both are known, and do not agree.
    """
    if dim == size:
        return index, ()
    if dim.value == 1:
        return 0, ()
    if dim.value is not None and size.value is not None:
        raise mistake("TIL310", f"an axis of size {dim.value} cannot be broadcast to {size.value}")
    checked = dim.call("broadcast", size).call("match", size)
    return index * (dim.max(1) / size.max(1)), (index < checked,)


def equal_sizes(index: Polynomial, left: Dim, right: Dim) -> tuple[Constraint, ...]:
    """Return the constraint that two sizes over which ``index`` runs are equal: none if they are written alike.

    Raises:
        TileError: TIL310, both are known, and differ; when compiling it would be TIL312.
    """
    if left == right:
        return ()
    if left.value is not None and right.value is not None:
        raise mistake("TIL310", f"two sizes have to be equal, but are {left.value} and {right.value}")
    return (index < left.call("match", right),)


def inside(position: Dim, size: Dim) -> Dim:
    """Return a position of an axis, from 0 on, with a check that it is below the size.

    Raises:
        TileError: TIL314, it is not, if that is known before compiling; when compiling it is TIL312.
    """
    if position.value is not None and size.value is not None:
        if position.value >= size.value:
            raise mistake("TIL314", f"an axis of size {size.value} has no position {position.value}")
        return position
    return position.min(size.call("match", size.max(position + 1)))


def full(x: Operand, sizes: Sequence[Size], value: Operand | bool, dtype: DType | str | None = None) -> Tensor:
    """Return a tensor of ``sizes`` whose elements are all ``value``, for the builder of ``x``.

    A literal has its natural dtype, i32, f32 or bool, unless ``dtype`` is given.
    """
    scalar = tensor_of(x, value) if dtype is None else cast_to(tensor_of(x, value), dtype)
    return expand(scalar, sizes) if sizes else scalar


def like(x: Tensor, value: Operand | bool) -> Tensor:
    """Return ``value``, a number or tensor, broadcast with ``x``; a number takes the dtype of ``x``.

    It is a choice whose condition is always true, so it costs no memory and ``x`` gets no gradient.
    """
    return call("cond", call("as_bool", tensor_of(x, 1)), tensor_of(x, value), x)


def position(x: Operand, axis: int, reach: Size) -> Tensor:
    """Return the coordinate of each element along an axis: in i64 if ``reach`` does not fit in i32, else in i32.

    Args:
        x: A tensor.
        axis: The axis, counted from the front.
        reach: The greatest magnitude of numbers computed from the coordinates.
    """
    return call("index", x, axis, reach)


def real(dim: Size) -> Dim | float:
    """Return a size as a float that is known when compiling, so that division of integers by it gives floats."""
    return dim * dim_of(dim.recorder, 1.0) if isinstance(dim, Dim) else float(dim)


def floating(x: Operand) -> Tensor:
    """Return a tensor as floats: integers, whose differences would wrap around, become f32 or f64."""
    return x * 1.0 if isinstance(x, Tensor) else call("mul", x, 1.0)


def wide(x: Tensor) -> Tensor:
    """Return a tensor as floats of 32 bits at least, in which sums and squares neither overflow nor wrap."""
    return x if _are_wide(x) else call("widen", floating(x))


def for_sums(x: Operand) -> Tensor:
    """Return a tensor in the dtype of its sums: integers stay integers."""
    return x if isinstance(x, Tensor) and _are_wide(x) else call("widen", x)


def _are_wide(*tensors: Tensor) -> bool:
    """Return whether tensors are known to be floats of one dtype, of 32 bits at least, so that no cast changes them."""
    first, *others = (fixed_dtype_of(each.recorder, each.reference) for each in tensors)
    is_wide = first is not None and first.is_float and first.bits >= DType.F32.bits
    return is_wide and all(each is first for each in others)


def wide_together(*tensors: Tensor) -> list[Tensor]:
    """Return tensors in the float dtype to which they are promoted, of 32 bits at least."""
    if _are_wide(*tensors):
        return [*tensors]
    one = functools.reduce(operator.mul, [call("as_like", 1, wide(tensor)) for tensor in tensors])
    return [call("as_like", tensor, one) for tensor in tensors]


def narrowed(value: Tensor, *operands: object) -> Tensor:
    """Return the result of a wide computation in the float dtype to which its operands are promoted.

    Operands that are not tensors are ignored.
    """
    tensors = [operand for operand in operands if isinstance(operand, Tensor)]
    if not tensors or _are_wide(value, *tensors):
        return value
    ones = [call("as_like", 1, tensor) for tensor in tensors] if len(tensors) > 1 else tensors
    return call("as_like", value, floating(functools.reduce(operator.mul, ones)))


def rounded_once(operation: Callable[_P, Tensor]) -> Callable[_P, Tensor]:
    """Let an operation of floats compute in 32 bits at least, and round its result to its own dtype once.

    All tensors among its arguments are passed through :func:`wide`; the dtype of the result is that to which they are
    promoted, or the float that goes with an integer.
    """

    @functools.wraps(operation)
    def rounded(*args: _P.args, **kwargs: _P.kwargs) -> Tensor:
        given = (*args, *kwargs.values())
        tensors = [each for each in given if isinstance(each, Tensor)]
        wider = iter(wide_together(*tensors) if _is_mixed(tensors) else map(wide, tensors))
        values = [next(wider) if isinstance(each, Tensor) else each for each in given]
        named = dict(zip(kwargs, values[len(args) :], strict=True))
        result = operation(*values[: len(args)], **named)  # type: ignore[arg-type]  # of the same kinds
        return narrowed(result, *given)

    return rounded


def promoted(value: Tensor, *operands: object) -> Tensor:
    """Return the result of a computation on widened floats in the dtype to which its operands are promoted.

    Integers stay integers. Numbers take part, as they do beside tensors; all else does not.
    """
    given = [operand for operand in operands if isinstance(operand, Tensor | int | float)]
    if _are_wide(value, *(operand for operand in given if isinstance(operand, Tensor))):
        return value
    kinds = [call("as_like", 1, operand) if isinstance(operand, Tensor) else operand for operand in given]
    return call("as_like", value, functools.reduce(operator.mul, kinds))


def _is_mixed(tensors: Sequence[Tensor]) -> bool:
    """Return whether an integer, which has no width as a float, is beside a tensor of another dtype."""
    kinds = {known_dtype(each.recorder, each.reference) for each in tensors}
    return len(kinds) > 1 and any(kind is not None and not kind.is_float for kind in kinds)
