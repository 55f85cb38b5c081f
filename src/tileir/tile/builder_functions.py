"""The functions of Tile for the Python builder, under their names in Tile.

All are elementwise and broadcast, unless stated otherwise. At least one argument is a tensor or a dimension. Some names
hide Python's, so import the module: ``from tileir.tile import builder_functions as tf``.
"""
# ruff: noqa: A001

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, overload

from tileir.core import Combine, DType, dtype_meant
from tileir.tile.building.contractions import Access, CombinedElements, conditional
from tileir.tile.building.indices import Dim
from tileir.tile.building.loops import while_loop as while_loop
from tileir.tile.building.recording import mistake
from tileir.tile.building.scans import scan as scan
from tileir.tile.building.tensors import (
    Operand,
    Tensor,
    call as call,  # any function by its name, assertions among them
    computed,
    recorder_of,
    value_of,
)


class Unary(Protocol):
    """A function of one operand."""

    def __call__(self, x: Operand) -> Tensor: ...  # noqa: D102  as its class says


class Binary(Protocol):
    """A function of two operands."""

    def __call__(self, x: Operand, y: Operand) -> Tensor: ...  # noqa: D102  as its class says


def unary(name: str, meaning: str, word: str = "", module: str = __name__) -> Unary:
    """Return the function that Tile calls ``word``, or by its Python name, with a docstring."""

    def function(x: Operand) -> Tensor:
        return call(word or name, x)

    _describe(function, name, meaning, module)
    return function


def binary(name: str, meaning: str, word: str = "", module: str = __name__) -> Binary:
    """Return a function of two operands, as :func:`unary` does."""

    def function(x: Operand, y: Operand) -> Tensor:
        return call(word or name, x, y)

    _describe(function, name, meaning, module)
    return function


def _describe(function: Callable[..., Tensor], name: str, meaning: str, module: str) -> None:
    function.__name__ = function.__qualname__ = name
    function.__module__, function.__doc__ = module, meaning


@overload
def where(condition: CombinedElements, then: Access) -> CombinedElements: ...
@overload
def where(condition: Operand, then: Operand, otherwise: Operand) -> Tensor: ...
def where(
    condition: Operand | CombinedElements, then: Operand | Access, otherwise: Operand | None = None
) -> Tensor | CombinedElements:
    """Return ``condition ? then : otherwise``.

    Inside a contraction the condition is ``A[i] == B[j]``, ``then`` is an element, and the contraction gets 0 if the
    condition is false.
    """
    if isinstance(condition, CombinedElements):
        if otherwise is not None:
            raise mistake("TIL210", "inside a contraction there is no third argument: it is 0")
        return conditional(condition, then)
    if otherwise is None or isinstance(then, Access):
        raise mistake("TIL207", "elementwise, 'where' takes 3 arguments: where(condition, then, otherwise)")
    return call("cond", condition, then, otherwise)


def cast(x: Operand, dtype: DType | str) -> Tensor:
    """Convert every element to another type, such as ``DType.BF16`` or ``"bf16"``."""
    try:
        return call(f"as_{DType(dtype).value}", x)
    except ValueError:
        raise mistake("TIL206", f"there is no element type {dtype!r}; {dtype_meant(dtype)}") from None


def expect(x: Operand, dtype: DType | str) -> Tensor:
    """Return ``x`` with a check that this is its dtype, which takes place when dtypes are known; a number adapts."""
    try:
        return call(f"expect_{DType(dtype).value}", x)
    except ValueError:
        raise mistake("TIL206", f"there is no element type {dtype!r}; {dtype_meant(dtype)}") from None


as_like = binary("as_like", "Return ``x`` in the dtype of ``y``; one without a dtype leaves it as it is.")
widen = unary("widen", "Return ``x`` in f32 where its floats have fewer than 32 bits; else as it is.")
quantize = unary("quantize", 'Return ``cast(x, "i8")``.')
abs = unary("abs", "Return the absolute value.")
sqrt = unary("sqrt", "Return the square root.")
rsqrt = unary("rsqrt", "Return 1 / sqrt(x).")
recip = unary("recip", "Return 1 / x.")
exp = unary("exp", "Return the exponential.")
log = unary("log", "Return the natural logarithm.")
sin = unary("sin", "Return the sine.")
cos = unary("cos", "Return the cosine.")
tan = unary("tan", "Return the tangent.")
asin = unary("asin", "Return the inverse sine.")
acos = unary("acos", "Return the inverse cosine.")
atan = unary("atan", "Return the inverse tangent.")
sinh = unary("sinh", "Return the hyperbolic sine.")
cosh = unary("cosh", "Return the hyperbolic cosine.")
tanh = unary("tanh", "Return the hyperbolic tangent.")
sigmoid = unary("sigmoid", "Return 1 / (1 + exp(-x)).")
erf = unary("erf", "Return the error function.")
relu = unary("relu", "Return x where it is positive, else 0.")
sign = unary("sign", "Return -1, 0 or 1.")
floor = unary("floor", "Return the greatest integer that is not above x.")
ceil = unary("ceil", "Return the least integer that is not below x.")
round = unary("round", "Return the nearest integer, the even one of two.")
trunc = unary("trunc", "Return x without its fraction.")
ident = unary("ident", "Return x itself.")
logical_not = unary("logical_not", "Return whether x is 0.")
max = binary("max", "Return the greater of two.")
min = binary("min", "Return the lesser of two.")
pow = binary("pow", "Return x to the power of y.")
mod = binary("mod", "Return the remainder of x / y, with the sign of x.")
logical_and = binary("logical_and", "Return whether neither is 0.")
logical_or = binary("logical_or", "Return whether not both are 0.")


def index(x: Tensor, axis: int) -> Tensor:
    """Return the coordinate of each element of ``x`` along an axis, as a tensor of its shape."""
    return call("index", x, axis)


def shape(x: Tensor) -> Tensor:
    """Return the sizes of ``x`` as a vector."""
    return call("shape", x)


def size(x: Tensor, axis: int) -> Tensor:
    """Return the number of elements of ``x`` along an axis: a constant that may occur in sizes."""
    return call("size", x, axis)


def expect_sizes(x: Operand, *sizes: Dim | int) -> Tensor:
    """Return ``x`` with a check of its sizes, which takes place when shapes are known."""
    return call("expect_sizes", x, *sizes)


def reshape(x: Tensor, *sizes: Dim | int) -> Tensor:
    """Return the same elements, in row-major order, under other sizes."""
    return call("reshape", x, *sizes)


def argsort(x: Tensor, axis: int, descending: bool = False, count: Dim | int | None = None) -> Tensor:
    """Return the positions of the elements of ``x`` in sorted order along ``axis``: all, or the first ``count``.

    The order is stable, and NaN is greater than all numbers.
    """
    options = (int(descending),) if count is None else (int(descending), count)
    return call("argsort", x, axis, *(options if descending or count is not None else ()))


def gather(data: Tensor, indices: Tensor) -> Tensor:
    """Return ``data[indices]`` along the first axis; indices outside of it are clamped."""
    return call("gather", data, indices)


def scatter(updates: Tensor, indices: Tensor, like: Tensor) -> Tensor:
    """Add up ``updates`` at ``indices`` of the first axis of zeros; only the first size of ``like`` counts."""
    return call("scatter", updates, indices, like)


def scatter_assign(updates: Tensor, indices: Tensor, like: Tensor) -> Tensor:
    """Replace rows of ``like`` at ``indices`` by ``updates``, no two of which have the same index."""
    return call("scatter_assign", updates, indices, like)


def scatter_last(updates: Tensor, indices: Tensor, like: Tensor) -> Tensor:
    """Replace rows of ``like`` at ``indices`` by ``updates``, of several with the same index by the last one."""
    return call("scatter_last", updates, indices, like)


def scatter_max(updates: Tensor, indices: Tensor, like: Tensor) -> Tensor:
    """Return the greatest of the updates at each of ``indices``; the least number of the dtype if there is none."""
    return call("scatter_max", updates, indices, like)


def scatter_min(updates: Tensor, indices: Tensor, like: Tensor) -> Tensor:
    """Return the least of the updates at each of ``indices``; the greatest number of the dtype if there is none."""
    return call("scatter_min", updates, indices, like)


def scatter_mul(updates: Tensor, indices: Tensor, like: Tensor) -> Tensor:
    """Multiply ``updates`` at ``indices`` of the first axis of ones; only the first size of ``like`` counts."""
    return call("scatter_mul", updates, indices, like)


def softmax(x: Tensor) -> Tensor:
    """Return the softmax over the last axis of a tensor of rank 2."""
    return call("builtin_softmax", x)


def logsoftmax(x: Tensor) -> Tensor:
    """Return the logarithm of the softmax over the last axis of a tensor of rank 2."""
    return call("builtin_logsoftmax", x)


def binary_crossentropy(prediction: Tensor, target: Operand, scale: Operand) -> Tensor:
    """Return ``-t * log(p) - (1 - t) * log(1 - p)``; ``scale`` divides its gradient."""
    return call("builtin_binary_crossentropy", prediction, target, scale)


def override_gradient(y: Tensor, *pairs: tuple[Tensor, Operand]) -> Tensor:
    """Return ``y``; in backward passes, each pair (x, g) gives x the gradient g, and nothing else gets any.

    ``g`` broadcasts to the shape of x, and may depend on ``upstream(y)``, the gradient of y.
    """
    return call("override_gradient", y, *(part for pair in pairs for part in pair))


def upstream(y: Tensor) -> Tensor:
    """Return the gradient of ``y`` in backward passes: a placeholder for the gradients of an override of y."""
    return call("upstream", y)


stop_gradient = unary("stop_gradient", "Return ``x``, through which no gradient goes.")
checkpoint = unary(
    "checkpoint",
    "Return ``x``, which is kept for the backward pass; values that are not marked are then computed again.",
)


def reverse_grad(x: Tensor, scale: Operand) -> Tensor:
    """Return ``x``, with its gradient multiplied by ``-scale``."""
    return call("reverse_grad", x, scale)


def simple_reduce(x: Tensor, *sizes: Dim | int) -> Tensor:
    """Sum ``x`` down to ``sizes``, which are aligned with its last axes."""
    return call("simple_reduce", x, *sizes)


def reduce(combine: Combine | str, x: Tensor, *axes: int) -> tuple[Tensor, ...]:
    """Return the components of the state of all elements of ``x`` along ``axes``, counted from 0, which they lack.

    Args:
        combine: One of :class:`tileir.core.combines.Combine`, or its name, such as ``"argmax"``.
        x: A tensor of any dtype that the combine takes.
        axes: The axes to reduce; none for all axes.

    Raises:
        TileError: TIL215, there is no such combine.
    """
    names = [each.value for each in Combine]
    name = combine.value if isinstance(combine, Combine) else combine
    if name not in names:
        raise mistake("TIL215", f"a combine is one of {', '.join(names)}, not {name!r:.40}")
    state = call(f"reduce_{name}", x, *axes)
    return tuple(call("element", state, place) for place in range(Combine(name).components))


@overload
def gradient(y: Tensor | Sequence[Tensor], x: Tensor, second: Tensor, /, *xs: Tensor) -> tuple[Tensor, ...]: ...
@overload
def gradient(y: Tensor | Sequence[Tensor], x: Tensor, /) -> Tensor: ...
def gradient(y: Tensor | Sequence[Tensor], /, *xs: Tensor) -> Tensor | tuple[Tensor, ...]:
    """Return the gradients of the sum of all elements of ``y`` with respect to each of ``xs``.

    ``y`` may be several tensors, whose sums are added. An x on which y does not depend gets zeros.
    """
    return _derivatives("gradient", (_tuple_of(y),), xs)


@overload
def vjp(
    y: Tensor | Sequence[Tensor],
    cotangent: Operand | Sequence[Operand],
    x: Tensor,
    second: Tensor,
    /,
    *xs: Tensor,
) -> tuple[Tensor, ...]: ...
@overload
def vjp(y: Tensor | Sequence[Tensor], cotangent: Operand | Sequence[Operand], x: Tensor, /) -> Tensor: ...
def vjp(
    y: Tensor | Sequence[Tensor], cotangent: Operand | Sequence[Operand], /, *xs: Tensor
) -> Tensor | tuple[Tensor, ...]:
    """Return the gradient of ``y`` with the given ``cotangent`` by each of ``xs``: the transposed Jacobian times it.

    If ``y`` is several tensors there is a cotangent for each; it broadcasts to the shape of its tensor.
    """
    return _derivatives("vjp", (_tuple_of(y), _tuple_of(cotangent, xs)), xs)


@overload
def jvp(y: Tensor, x: Tensor | Sequence[Tensor], tangent: Operand | Sequence[Operand]) -> Tensor: ...
@overload
def jvp(
    y: Sequence[Tensor], x: Tensor | Sequence[Tensor], tangent: Operand | Sequence[Operand]
) -> tuple[Tensor, ...]: ...
def jvp(
    y: Tensor | Sequence[Tensor], x: Tensor | Sequence[Tensor], tangent: Operand | Sequence[Operand]
) -> Tensor | tuple[Tensor, ...]:
    """Return the tangent of ``y`` for the ``tangent`` of ``x``: the Jacobian times it.

    If ``x`` is several tensors there is a tangent for each; it broadcasts to the shape of its tensor. The result is one
    tensor for each ``y``.
    """
    arguments = (_tuple_of(x), _tuple_of(tangent, x))
    result = call("jvp", _tuple_of(y), *arguments)
    return tuple(call("element", result, place) for place in range(len(y))) if isinstance(y, Sequence) else result


def _derivatives(function: str, arguments: tuple[Operand, ...], xs: tuple[Tensor, ...]) -> Tensor | tuple[Tensor, ...]:
    """Return a result for each x: one tensor for one x, else a tuple."""
    result = call(function, *arguments, *xs)
    return result if len(xs) == 1 else tuple(call("element", result, place) for place in range(len(xs)))


def _tuple_of(values: Operand | Sequence[Operand], beside: Operand | Sequence[Operand] = ()) -> Operand:
    """Return several values as one tuple, and one as it is; ``beside`` identifies the builder if all are numbers."""
    if isinstance(values, Tensor | Dim | int | float):
        return values
    given: object = values  # by a caller who may not check types
    if not isinstance(given, Sequence) or not given:
        raise mistake("TIL215", f"pass a tensor, or several in a tuple, instead of {values!r:.40}")
    first, *others = values
    if all(isinstance(value, int | float) for value in values):
        known = (beside,) if isinstance(beside, Tensor | Dim | int | float) else tuple(beside)
        recorder = recorder_of(known)
        first = computed(recorder, value_of(recorder, first))
    return call("tuple", first, *others)


def prng(state: Tensor, *sizes: Dim | int) -> tuple[Tensor, Tensor]:
    """Return uniform random numbers of the given sizes in [0, 1), and the next state."""
    step = call("prng_step", state, *sizes)
    return call("prng_value", step), call("prng_state", step)
