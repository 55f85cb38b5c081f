"""Linear algebra: what is refused, the order of sums of products, and random subscripts against NumPy."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

import tileir
from strategies.operations import fault_of, run, sample
from tileir import ops
from tileir.tile.text.printer import to_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.tile.builder import Tensor


FRACTION: Any = 1.5  # where an integer belongs


@pytest.mark.parametrize(
    ("attempt", "code", "message"),
    [
        (lambda x, s: ops.matmul(x, s), "TIL305", "at least 1 axes are needed; this tensor has rank 0"),
        (lambda x, _: ops.tensordot(x, x, 3), "TIL217", "3 axes cannot be summed over: the tensors have 2 and 2"),
        (
            lambda x, _: ops.tensordot(x, x, ([0], [0, 1])),
            "TIL217",
            "there are 1 axes of one tensor, but 2 of the other",
        ),
        (lambda x, _: ops.tensordot(x, x, ([2], [0])), "TIL314", "the axis is 2"),
        (lambda x, s: ops.gemm(x, s), "TIL305", "gemm multiplies matrices; this tensor has rank 0"),
        (lambda x, _: ops.diagonal(x, first=1), "TIL217", "an axis stands twice among (1, 1)"),
        (lambda x, _: ops.diagonal(x, offset=FRACTION), "TIL217", "offset has to be an integer, not 1.5"),
        (lambda x, _: ops.trace(x, first=2), "TIL314", "the axis is 2"),
        (lambda _, s: ops.diag(s), "TIL305", "diag takes a vector or a matrix; this tensor has rank 0"),
        (lambda _, s: ops.tril(s), "TIL305", "at least 2 axes are needed; this tensor has rank 0"),
        (lambda x, _: ops.einsum("ij,jk", x), "TIL217", "'ij,jk' describes 2 tensors, but there are 1"),
        (lambda x, _: ops.einsum("ijk", x), "TIL217", "'ijk' has 3 letters, but its tensor has rank 2"),
        (lambda x, _: ops.einsum("i", x), "TIL217", "'i' has 1 letters, but its tensor has rank 2"),
        (lambda x, _: ops.einsum("ij->ik", x), "TIL217", "has a letter that is unknown or stands twice: 'k'"),
        (lambda x, _: ops.einsum("ij->ii", x), "TIL217", "has a letter that is unknown or stands twice: 'i'"),
        (lambda x, _: ops.einsum("i1->i", x), "TIL217", "subscripts are letters, commas, '...' and '->', not 'i1->i'"),
        (lambda x, _: ops.einsum("i.j", x), "TIL217", "subscripts are letters"),
        (lambda x, _: ops.einsum("", x), "TIL217", "'' has 0 letters, but its tensor has rank 2"),
        (
            lambda x, _: ops.matmul(ops.reshape(x, 2, 3), ops.reshape(x, 2, 3)),
            "TIL310",
            "two sizes have to be equal, but are 2 and 3",
        ),
    ],
)
def test_mistakes(attempt: Callable[[Tensor, Tensor], object], code: str, message: str) -> None:
    f = tileir.FunctionBuilder()
    x, s = f.input("X", "A", "B"), f.scalar("S")
    found = fault_of(lambda: attempt(x, s), __file__)
    assert found[0] == code
    assert message in found[1]


@pytest.mark.parametrize(
    ("build", "shapes", "code", "message"),
    [
        (ops.matmul, [(2, 3), (4, 5)], "TIL312", "'X1_0' is 4 and 'X0_1' is 3, but both must match"),
        (ops.matmul, [(2, 2, 3), (4, 3, 5)], "TIL301", "they must be equal, or one of them 1"),
        (ops.inner, [(2, 3), (4, 5)], "TIL312", "both must match"),
        (lambda x, y: ops.einsum("ij,ij", x, y), [(2, 3), (2, 4)], "TIL301", "they must be equal, or one of them 1"),
        (lambda x: ops.einsum("ii", x), [(2, 3)], "TIL312", "both must match"),
    ],
)
def test_mistakes_that_depend_on_sizes(
    build: Callable[..., Tensor], shapes: list[tuple[int, ...]], code: str, message: str
) -> None:
    found = fault_of(lambda: run(lambda *tensors: build(*tensors), *(sample(*shape) for shape in shapes)), __file__)
    assert found[0] == code
    assert message in found[1]


def statements(subscripts: str, *names: str) -> list[str]:
    """Return the contractions of a sum of products, whose tensors have the dimensions with these names."""
    f = tileir.FunctionBuilder()
    tensors = [f.input(f"X{position}", *dims.split()) for position, dims in enumerate(names)]
    return [line.strip() for line in to_text(f.build(Y=ops.einsum(subscripts, *tensors))).splitlines() if " = " in line]


def test_products_of_two_are_one_contraction() -> None:
    assert statements("bij,bjk->bik", "B I J", "B J K") == [
        "Y[x0, x1, x3 : B, I, K] = +(X0[x0, x1, x2] * X1[x0, x2, x3]);"
    ]
    assert statements("ii->", "N N") == ["Y[] = +(X0[x0, x0]);"]


def test_products_of_many_keep_what_is_between_small() -> None:
    """A vector comes first wherever it stands; nothing of more axes than needed is made."""
    assert statements("ij,jk,k->i", "I J", "J K", "K") == [
        "T[x0 : J] = +(X1[x0, x1] * X2[x1]);",
        "Y[x0 : I] = +(X0[x0, x1] * T[x1]);",
    ]
    assert statements("i,ij,jk->k", "I", "I J", "J K") == [
        "T[x1 : J] = +(X0[x0] * X1[x0, x1]);",
        "Y[x1 : K] = +(X2[x0, x1] * T[x0]);",
    ]


def test_what_one_tensor_has_alone_is_summed_before() -> None:
    assert statements("ij,jk->k", "I J", "J K")[:3] == [
        "T = widen(as_like(X0, as_like(1, X0) * as_like(1, X1)));",
        "T_0[x1 : J] = +(T[x0, x1]);",
        "T_1[x1 : K] = +(T_0[x0] * X1[x0, x1]);",
    ]


def test_chains_of_many_matrices_are_short_programs() -> None:
    letters = [chr(ord("a") + position) for position in range(26)]
    terms = ",".join(first + second for first, second in pairwise(letters))
    sizes = [f"D{first} D{second}" for first, second in pairwise(letters)]
    assert len(statements(f"{terms}->az", *sizes)) == 24


SIZES = {"i": 2, "j": 3, "k": 2, "l": 1, "M": 4}
terms = st.text(st.sampled_from(sorted(SIZES)), max_size=3)


@given(data=st.data(), inputs=st.lists(terms, min_size=1, max_size=4), dots=st.booleans())
def test_sums_of_products_are_those_of_numpy(data: st.DataObject, inputs: list[str], dots: bool) -> None:
    letters = sorted(set("".join(inputs)))
    output = "".join(data.draw(st.permutations(letters)))[: data.draw(st.integers(0, len(letters)))]
    hidden = [data.draw(st.lists(st.sampled_from([1, 3]), max_size=2)) if dots else [] for _ in inputs]
    assume(sum(map(len, hidden)) <= 5)
    shapes = [(*h, *(SIZES[letter] for letter in term)) for h, term in zip(hidden, inputs, strict=True)]
    subscripts = ",".join(("..." if dots else "") + term for term in inputs) + "->" + ("..." if dots else "") + output
    arrays = [sample(*shape, seed=position) for position, shape in enumerate(shapes)]
    actual = run(lambda *tensors: ops.einsum(subscripts, *tensors), *arrays)
    np.testing.assert_allclose(actual, np.einsum(subscripts, *arrays), rtol=1e-12, atol=1e-12)


def test_dtypes_are_promoted() -> None:
    x, y = np.ones((2, 3), np.int8), np.ones((3, 2), np.float32)
    assert run(ops.matmul, x, y).dtype == np.float32
    assert run(lambda t: ops.tril(t), x).dtype == np.int8
    assert run(lambda t: ops.einsum("ij->", t > 0), x).dtype == np.int32


@pytest.mark.parametrize("offset", [1 << 31, -(1 << 31) - 1, 1 << 40, -(1 << 40)])
def test_diagonals_beyond_32_bits_are_outside(offset: int) -> None:
    x = np.arange(1, 7, dtype=np.int8).reshape(2, 3)
    for operation in (ops.tril, ops.triu):
        whole = (operation is ops.tril) == (offset > 0)
        found = run(lambda x, operation=operation: operation(x, offset=offset), x)
        np.testing.assert_array_equal(found, x if whole else 0 * x)
        assert found.dtype == np.int8
    np.testing.assert_array_equal(run(lambda x: ops.eye(x, 2, 3, offset=offset), x), np.zeros((2, 3)))


def test_triangles_of_bools_are_bools() -> None:
    x = np.ones((2, 2), bool)
    np.testing.assert_array_equal(run(ops.tril, x), np.tril(x), strict=True)
    np.testing.assert_array_equal(run(ops.triu, x), np.triu(x), strict=True)


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,jk->ik", [(2, 1), (3, 4)]),
        ("ij,jk->ik", [(2, 3), (1, 4)]),
        ("ij,jk->ik", [(2, 1), (1, 4)]),
        ("ij,jk->ik", [(2, 0), (1, 4)]),
        ("ij,jk,kl->il", [(2, 1), (1, 4), (4, 5)]),
        ("ij,jk,jl->ikl", [(2, 1), (1, 4), (3, 5)]),
        ("ij,ij->ij", [(2, 1), (1, 3)]),
        ("i,i->", [(1,), (4,)]),
        ("ij,jk->i", [(2, 1), (3, 4)]),
        ("ii,i->i", [(3, 3), (1,)]),
        ("ii,i->i", [(1, 1), (3,)]),
        ("a...,a...->...", [(1, 3), (4, 1)]),
        ("ij,kj->", [(1, 1), (2, 3)]),
    ],
)
def test_axes_of_size_1_are_broadcast(subscripts: str, shapes: list[tuple[int, ...]]) -> None:
    tensors = [sample(*shape, seed=place) for place, shape in enumerate(shapes)]
    found = run(lambda *tensors: ops.einsum(subscripts, *tensors), *tensors)
    np.testing.assert_allclose(found, np.einsum(subscripts, *tensors), rtol=1e-12, atol=1e-12)


def test_diagonals_are_not_broadcast() -> None:
    found = fault_of(lambda: run(lambda x: ops.einsum("ii->i", x), sample(1, 3)), __file__)
    assert found[0] == "TIL312"


@pytest.mark.parametrize("shapes", [((2, 3), ()), ((2,), (3, 4)), ((2, 3, 2), (2,)), ((), ()), ((0,), (2, 3))])
def test_kronecker_products_of_other_ranks(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    x, y = sample(*shapes[0]), sample(*shapes[1], seed=1)
    np.testing.assert_allclose(run(ops.kron, x, y), np.kron(x, y), rtol=1e-12)
