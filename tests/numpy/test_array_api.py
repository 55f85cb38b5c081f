"""Functions of the array API standard on tensors, beside NumPy's own, with generated calls."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tileir

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DTYPES = ("f4", "f8", "i1", "i4", "u1", "i8")
SHAPES: tuple[tuple[int, ...], ...] = ((), (5,), (3, 4), (2, 3, 4))

FLOATS = (
    "acos acosh asin asinh atan atanh ceil cos cosh exp expm1 floor isfinite isinf isnan log log10 log1p log2 "
    "reciprocal sign signbit sin sinh sqrt square tan tanh trunc abs negative positive round logical_not conj real"
)
INTEGERS = (
    "abs bitwise_invert negative positive sign square floor ceil trunc round isfinite isinf isnan logical_not real"
)
PAIRS = (
    "add subtract multiply maximum minimum equal not_equal less less_equal greater greater_equal logical_and "
    "logical_or logical_xor floor_divide remainder divide"
)
FLOAT_PAIRS = "atan2 copysign hypot logaddexp nextafter pow"
INTEGER_PAIRS = "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift"
REDUCTIONS = "sum prod max min mean var std all any count_nonzero"
PLACES = "argmax argmin"
ALONG = "sort argsort cumulative_sum cumulative_prod flip diff"

OTHER: dict[str, tuple[Callable[[Any, Any], Any], ...]] = {
    "clip": (lambda xp, x: xp.clip(x, 0.25, 1), lambda xp, x: xp.clip(x, max=xp.full_like(x, 1))),
    "where": (lambda xp, x: xp.where(x > 0, x, -x), lambda xp, x: xp.where(x > 0, x, 0)),
    "astype": (lambda xp, x: xp.astype(x, xp.float32), lambda xp, x: xp.astype(x, xp.int32, copy=False)),
    "isin": (lambda xp, x: xp.isin(x, x[0]), lambda xp, x: xp.isin(x, x[1], invert=True)),
    "zeros_like": (lambda xp, x: xp.zeros_like(x), lambda xp, x: xp.zeros_like(x, dtype=xp.int32)),
    "ones_like": (lambda xp, x: xp.ones_like(x), lambda xp, x: xp.ones_like(x, dtype=xp.float32)),
    "full_like": (lambda xp, x: xp.full_like(x, 3), lambda xp, x: xp.full_like(x, 2.5, dtype=xp.float32)),
    "empty_like": (lambda xp, x: xp.empty_like(x) * 0,),
    "asarray": (lambda xp, x: xp.asarray(x), lambda xp, x: xp.asarray(x, dtype=xp.float32, copy=True)),
    "tril": (lambda xp, x: xp.tril(x), lambda xp, x: xp.tril(x, k=1)),
    "triu": (lambda xp, x: xp.triu(x), lambda xp, x: xp.triu(x, k=-1)),
    "meshgrid": (
        lambda xp, x: xp.meshgrid(x[0], x[:, 0]),
        lambda xp, x: xp.meshgrid(x[0], x[:, 0], indexing="ij"),
    ),
    "arange": (lambda xp, x: x + xp.arange(x.shape[1]), lambda xp, x: x * xp.arange(1, 9, 2)),
    "zeros": (lambda xp, x: x + xp.zeros(x.shape, dtype=xp.int8),),
    "ones": (lambda xp, x: x + xp.ones(x.shape, dtype=xp.int8),),
    "full": (lambda xp, x: x + xp.full(x.shape, 3, dtype=xp.int8),),
    "empty": (lambda xp, x: x + xp.empty(x.shape, dtype=xp.int8) * 0,),
    "eye": (lambda xp, x: x * xp.eye(x.shape[0], x.shape[1], k=1, dtype=xp.int8),),
    "linspace": (lambda xp, x: x * xp.linspace(0, 1, x.shape[1], dtype=xp.float32),),
    "matmul": (lambda xp, x: xp.matmul(x, x.T), lambda xp, x: xp.matmul(x, x[0])),
    "matrix_transpose": (lambda xp, x: xp.matrix_transpose(x),),
    "tensordot": (
        lambda xp, x: xp.tensordot(x, x.T, axes=1),
        lambda xp, x: xp.tensordot(x, x, axes=((0, 1), (0, 1))),
        lambda xp, x: xp.tensordot(x[0], x[1], axes=0),
    ),
    "vecdot": (lambda xp, x: xp.vecdot(x, x), lambda xp, x: xp.vecdot(x, x, axis=-2)),
    "broadcast_arrays": (lambda xp, x: xp.broadcast_arrays(x, x[0]),),
    "broadcast_to": (lambda xp, x: xp.broadcast_to(x, (2, *x.shape)),),
    "concat": (
        lambda xp, x: xp.concat([x, x[:1]]),
        lambda xp, x: xp.concat((x, x), axis=-1),
        lambda xp, x: xp.concat([x, x[0]], axis=None),
    ),
    "expand_dims": (lambda xp, x: xp.expand_dims(x, axis=0), lambda xp, x: xp.expand_dims(x, axis=-1)),
    "moveaxis": (lambda xp, x: xp.moveaxis(x, 0, -1), lambda xp, x: xp.moveaxis(x, (0, 1), (1, 0))),
    "permute_dims": (lambda xp, x: xp.permute_dims(x, (1, 0)),),
    "repeat": (lambda xp, x: xp.repeat(x, 2), lambda xp, x: xp.repeat(x, 3, axis=1)),
    "reshape": (lambda xp, x: xp.reshape(x, (-1,)), lambda xp, x: xp.reshape(x, (x.shape[1], x.shape[0]))),
    "roll": (lambda xp, x: xp.roll(x, 2), lambda xp, x: xp.roll(x, (1, -2), axis=(0, 1))),
    "squeeze": (lambda xp, x: xp.squeeze(x[:1], axis=0), lambda xp, x: xp.squeeze(x[:1, None], axis=(0, 1))),
    "stack": (lambda xp, x: xp.stack([x, x + x]), lambda xp, x: xp.stack((x, x), axis=-1)),
    "tile": (lambda xp, x: xp.tile(x, (2, 1)), lambda xp, x: xp.tile(x, (2, 1, 3))),
    "unstack": (lambda xp, x: xp.unstack(x), lambda xp, x: xp.unstack(x, axis=-1)),
    "searchsorted": (
        lambda xp, x: xp.searchsorted(xp.sort(x[0]), x[1]),
        lambda xp, x: xp.searchsorted(xp.sort(x[0]), x[:, 0], side="right"),
        lambda xp, x: xp.searchsorted(x[0], x[1], sorter=xp.argsort(x[0])),
    ),
    "take": (lambda xp, x: xp.take(x, np.array([2, 0]), axis=0), lambda xp, x: xp.take(x, np.array([0]), axis=1)),
    "take_along_axis": (lambda xp, x: xp.take_along_axis(x, xp.argsort(x, axis=1), axis=1),),
    "diff": (
        lambda xp, x: xp.diff(x, prepend=x[:, :1]),
        lambda xp, x: xp.diff(x, n=2, axis=0),
        lambda xp, x: xp.diff(x, append=x),
    ),
    "linalg.cross": (lambda xp, x: xp.linalg.cross(x[:, :3], x[:, 1:]), lambda xp, x: xp.linalg.cross(x, x, axis=0)),
    "linalg.diagonal": (lambda xp, x: xp.linalg.diagonal(x), lambda xp, x: xp.linalg.diagonal(x, offset=1)),
    "linalg.matmul": (lambda xp, x: xp.linalg.matmul(x, x.T),),
    "linalg.matrix_norm": (
        lambda xp, x: xp.linalg.matrix_norm(x * 1.0),
        lambda xp, x: xp.linalg.matrix_norm(x * 1.0, ord=1, keepdims=True),
    ),
    "linalg.matrix_power": (
        lambda xp, x: xp.linalg.matrix_power(x[:, :3], 3),
        lambda xp, x: xp.linalg.matrix_power(x[:, :3], 0),
    ),
    "linalg.matrix_transpose": (lambda xp, x: xp.linalg.matrix_transpose(x),),
    "linalg.outer": (lambda xp, x: xp.linalg.outer(x[0], x[1]),),
    "linalg.tensordot": (lambda xp, x: xp.linalg.tensordot(x, x.T, axes=1),),
    "linalg.trace": (lambda xp, x: xp.linalg.trace(x), lambda xp, x: xp.linalg.trace(x, offset=1)),
    "linalg.cholesky": (
        lambda xp, x: xp.linalg.cholesky(1.0 * x @ x.T + 9 * xp.eye(3)),
        lambda xp, x: xp.linalg.cholesky(1.0 * x @ x.T + 9 * xp.eye(3), upper=True),
    ),
    "linalg.det": (lambda xp, x: xp.linalg.det(1.0 * x[:, :3] + xp.eye(3)),),
    "linalg.inv": (lambda xp, x: xp.linalg.inv(1.0 * x[:, :3] + xp.eye(3)),),
    "linalg.slogdet": (lambda xp, x: tuple(xp.linalg.slogdet(1.0 * x[:, :3] + xp.eye(3))),),
    "linalg.solve": (lambda xp, x: xp.linalg.solve(1.0 * x[:, :3] + xp.eye(3), x[:, 3:]),),
    "linalg.vecdot": (lambda xp, x: xp.linalg.vecdot(x, x),),
    "linalg.vector_norm": (
        lambda xp, x: xp.linalg.vector_norm(x * 1.0),
        lambda xp, x: xp.linalg.vector_norm(x * 1.0, axis=1, ord=1, keepdims=True),
        lambda xp, x: xp.linalg.vector_norm(x * 1.0, axis=(0, 1), ord=float("inf")),
    ),
}
"""Calls of functions on matrices of three rows and four columns, by name."""


def cast_to(name: str) -> Callable[[Any, Any], Any]:
    return lambda xp, x: xp.astype(x, getattr(xp, name)).dtype == name


def called(name: str, **options: Any) -> Callable[..., Any]:
    return lambda xp, *arrays: getattr(xp, name)(*arrays, **options)


ABOUT: dict[str, Callable[[Any, Any], Any]] = {
    "result_type": lambda xp, x: xp.result_type(x, xp.float64) == np.result_type(x.dtype, "f8"),
    "__array_namespace_info__": lambda xp, _: (
        xp.__array_namespace_info__().dtypes(kind="signed integer").keys() == {"int8", "int16", "int32", "int64"}
        and not xp.__array_namespace_info__().capabilities()["data-dependent shapes"]
        and xp.__array_namespace_info__().devices() == [xp.__array_namespace_info__().default_device()]
        and xp.__array_namespace_info__().default_dtypes()["integral"] == "int64"
    ),
    "can_cast": lambda xp, x: xp.can_cast(x, xp.float64) == np.can_cast(x.dtype, "f8"),
    "isdtype": lambda xp, x: xp.isdtype(x.dtype, "numeric"),
    "finfo": lambda xp, _: xp.finfo(xp.float32).max == np.finfo("f4").max,
    "iinfo": lambda xp, _: xp.iinfo(xp.int8).max == 127,
    "from_dlpack": lambda xp, _: xp.from_dlpack(np.ones(2)).shape == (2,),
    "broadcast_shapes": lambda xp, x: xp.broadcast_shapes(x.shape, (1, 4)) == (3, 4),
    "e": lambda xp, _: xp.e == np.e,
    "inf": lambda xp, _: xp.inf == np.inf,
    "nan": lambda xp, _: xp.nan != xp.nan,
    "newaxis": lambda xp, _: xp.newaxis is None,
    "pi": lambda xp, _: xp.pi == np.pi,
    "bool": lambda xp, x: (x > 0).dtype == xp.bool,
    **{
        name: cast_to(name)
        for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
    },
}
"""Questions whose answers are values of Python, asked while a function is traced."""

OPERATORS = (
    "abs add and eq floordiv ge getitem gt invert le lshift lt matmul mod mul ne neg or pos pow rshift sub truediv xor "
    "radd rand rfloordiv rlshift rmatmul rmod rmul ror rpow rrshift rsub rtruediv rxor array_namespace"
)
ATTRIBUTES = "T dtype mT ndim shape size"

REFUSED = {
    "nonzero unique_all unique_counts unique_inverse unique_values": "the size of the result depends on values",
    "__bool__ __complex__ __float__ __index__ __int__": "a tensor has no value while a program is built",
    "__dlpack__ __dlpack_device__ device to_device __setitem__": "a tensor has no memory, and never changes",
    "imag complex64 complex128": "there are no complex numbers",
    "linalg.eig linalg.eigh linalg.eigvals linalg.eigvalsh linalg.matrix_rank linalg.pinv linalg.qr linalg.svd "
    "linalg.svdvals": "other decompositions are not offered",
}
"""Parts of the standard that tensors lack, with reasons."""


def values(dtype: str, shape: tuple[int, ...], *, small: bool = False) -> np.ndarray[Any, Any]:
    count = int(np.prod(shape))
    if dtype.startswith("f"):
        return (np.linspace(0.1, 0.9, count) if small else np.linspace(-2.4, 3.1, count)).astype(dtype).reshape(shape)
    numbers = (np.arange(count) * 7) % 11 - (0 if dtype.startswith("u") or small else 5)
    return (numbers % 5 + 1 if small else numbers).astype(dtype).reshape(shape)


def agree(function: Callable[..., Any], *arrays: np.ndarray[Any, Any]) -> None:
    with np.errstate(all="ignore"):
        expected = function(np, *arrays)
    found = tileir.evaluate(lambda *tensors: function(tensors[0].__array_namespace__(), *tensors), list(arrays))
    several = isinstance(expected, tuple | list)
    for wanted, given in zip(expected if several else [expected], found if several else [found], strict=True):
        wanted, given = np.asarray(wanted), np.asarray(given)
        assert given.shape == wanted.shape
        assert (given.dtype.kind in "iu") == (wanted.dtype.kind in "iu")
        if wanted.dtype.kind == "f":
            np.testing.assert_allclose(given, wanted, rtol=2e-5, atol=2e-6)
        else:
            np.testing.assert_array_equal(given, wanted)


def calls() -> Iterator[tuple[str, Callable[[Any, Any], Any], str, tuple[int, ...], bool]]:
    """Yield names of functions with a call of each, the dtype and shape of its argument, and whether that is small."""
    for shape in SHAPES:
        for dtype, name in itertools.product(("f4", "f8"), FLOATS.split()):
            yield name, called(name), dtype, shape, name.startswith(("a", "l"))
        for dtype, name in itertools.product(("i1", "i4", "u1", "i8"), INTEGERS.split()):
            if dtype != "u1" or name != "negative":
                yield name, called(name), dtype, shape, False
        for name in REDUCTIONS.split():
            axes = (None, (), *range(-len(shape), len(shape)), *([(0, -1)] if len(shape) > 1 else []))
            for dtype, axis, kept in itertools.product(("f4", "i1", "u1"), axes, (False, True)):
                call = called(name, axis=axis, keepdims=kept)
                yield name, call, dtype, shape, name in ("prod",)
        for name, dtype, axis in itertools.product(PLACES.split(), ("f4", "i4", "u1"), (None, *range(len(shape)))):
            for kept in (False, True):
                call = called(name, axis=axis, keepdims=kept)
                yield name, call, dtype, shape, False
        for name, dtype, axis in itertools.product(ALONG.split(), ("f4", "i4", "i1"), range(-len(shape), len(shape))):
            options = {"stable": True} if name == "argsort" else {}
            call = called(name, axis=axis, **options)
            yield name, call, dtype, shape, name == "cumulative_prod"
    for (name, those), dtype in itertools.product(OTHER.items(), ("f4", "i4", "i8")):
        for each in those:
            yield name, each, dtype, (3, 4), False


BY_NAME: dict[str, list[Any]] = {}
for _name, *_call in calls():
    BY_NAME.setdefault(_name, []).append(_call)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", BY_NAME)
def test_functions_of_one_array(name: str) -> None:
    for call, dtype, shape, small in BY_NAME[name]:
        array = values(dtype, shape, small=small)
        agree(call, array + 1 if name == "acosh" else abs(array) if name in ("sqrt", "reciprocal") else array)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", [*PAIRS.split(), *FLOAT_PAIRS.split(), *INTEGER_PAIRS.split()])
def test_functions_of_two_arrays(name: str) -> None:
    integers = ("i1", "i4", "u1", "i8") if name not in FLOAT_PAIRS.split() else ()
    floats = ("f4", "f8") if name not in INTEGER_PAIRS.split() else ()
    for dtype, (left, right) in itertools.product((*integers, *floats), [((3, 4), (4,)), ((), (5,)), ((2, 1), (1, 3))]):
        agree(
            called(name),
            abs(values(dtype, left)) if name == "pow" else values(dtype, left),
            values(dtype, right, small=True),
        )


@pytest.mark.parametrize("name", ABOUT)
def test_answers_while_a_function_is_traced(name: str) -> None:
    answers = []

    def asked(x: Any) -> Any:
        answers.append(ABOUT[name](x.__array_namespace__(), x))
        return x

    tileir.evaluate(asked, [values("f4", (3, 4))])
    assert answers == [True]


def test_the_standard_is_counted() -> None:
    from tileir.tile.building.tensors import Tensor

    works = {*BY_NAME, *PAIRS.split(), *FLOAT_PAIRS.split(), *INTEGER_PAIRS.split(), *ABOUT}
    methods = {f"__{name}__" for name in OPERATORS.split()} | set(ATTRIBUTES.split())
    assert all(hasattr(Tensor, name) for name in methods)
    left_out = {name for names in REFUSED for name in names.split()}
    assert not left_out & (works | methods)
    without_meaning = sum(len(names.split()) for names, why in REFUSED.items() if "offered" not in why)
    assert len(works | methods) / (len(works | methods) + len(left_out) - without_meaning) >= 0.95
    page = (Path(__file__).parents[2] / "docs" / "numpy.md").read_text()
    assert f"{len(works | methods)} of {len(works | methods) + len(left_out)}" in " ".join(page.split())
