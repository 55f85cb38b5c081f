from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tileir.core.dtype import DType
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed import ir as typed
from tileir.typed.inference.inference import infer
from tileir_accelerators.tiling.tensorise import Stencil, StencilIndex, best_match, matches

if TYPE_CHECKING:
    from tileir.stripe.ir import Block

MATMUL = "function (A[M, K], B[K, N]) -> (C) { C[m, n : M, N] = +(A[m, k] * B[k, n]); }"
CONVOLUTION = "function (I[X, CI], K[KX, CI, CO]) -> (O) { O[x, co : X, CO] = +(I[x + kx - 1, ci] * K[kx, ci, co]); }"
CONVOLUTION_2D = (
    "function (I[X, Y, CI], K[KX, KY, CI, CO]) -> (O) "
    "{ O[x, y, co : X, Y, CO] = +(I[x + kx - 1, y + ky - 1, ci] * K[kx, ky, ci, co]); }"
)
K16_X16 = Stencil(
    (
        StencilIndex("k", 16, (-1,), (0, -1)),
        StencilIndex("x", 16, (-1,), (-1, 0)),
        StencilIndex("c", -1, (0,), (-1, -1)),
    )
)
K16_X4_Y4 = Stencil(
    (
        StencilIndex("k", 16, (-1,), (0, -1)),
        StencilIndex("x", 4, (-1,), (-1, 0)),
        StencilIndex("y", 4, (-1,), (-1, 0)),
        StencilIndex("c", -1, (0,), (-1, -1)),
    )
)
XSMM = Stencil(
    (
        StencilIndex("m", 64, (-1,), (-1, 0)),
        StencilIndex("n", 16, (1,), (0, 1)),
        StencilIndex("k", 64, (0,), (1, -1)),
    )
)


def kernel(text: str, **shapes: tuple[int, ...]) -> Block:
    """Return the block of a function of one contraction, on bytes."""
    types = {name: typed.TensorType(DType.I8, shape) for name, shape in shapes.items()}
    return lower(infer(parse(text), types)).main.blocks[0]


def matmul(size: int) -> Block:
    return kernel(MATMUL, A=(size, size), B=(size, size))


def roles(block: Block, *stencils: Stencil) -> dict[str, str]:
    match = best_match(block, stencils, 32, strict=False)
    assert match is not None
    return {role.name: name for name, role in match.roles}


@pytest.mark.parametrize(
    ("block", "stencils", "strict", "cost"),
    [
        (matmul(100), (K16_X16,), False, 1_255_968),
        (kernel(CONVOLUTION, I=(100, 64), K=(3, 64, 64)), (K16_X16,), False, 1_378_944),
        (kernel(CONVOLUTION_2D, I=(100, 100, 56), K=(3, 3, 56, 56)), (K16_X16, K16_X4_Y4), False, 323_280_000),
        (matmul(1024), (XSMM,), True, 1_074_266_112),
    ],
    ids=["product of 100", "convolution of one axis", "convolution of two axes", "strict product of 1024"],
)
def test_the_costs_of_the_reference(block: Block, stencils: tuple[Stencil, ...], strict: bool, cost: int) -> None:
    match = best_match(block, stencils, 32, strict=strict)
    assert match is not None
    assert match.cost == cost


def test_strict_sizes_must_divide() -> None:
    assert best_match(matmul(100), (XSMM,), 32, strict=True) is None
    assert best_match(matmul(100), (XSMM,), 32, strict=False) is not None


def test_the_cheaper_stencil_wins() -> None:
    block = kernel(CONVOLUTION_2D, I=(100, 100, 56), K=(3, 3, 56, 56))
    match = best_match(block, (K16_X16, K16_X4_Y4), 32, strict=False)
    assert match is not None
    assert match.stencil is K16_X4_Y4
    assert dict(zip((i.name for i in block.indices), match.sizes, strict=True)) == {
        "ci": 56, "co": 16, "kx": 1, "ky": 1, "x": 4, "y": 4,
    }  # fmt: skip


def test_rules_tell_indices_apart() -> None:
    assert roles(matmul(64), K16_X16) == {"x": "m", "k": "n", "c": "k"}
    exact = Stencil((StencilIndex("lane", 8, (1,)),))
    assert roles(matmul(64), exact) == {"lane": "n"}
    assert best_match(matmul(64), (Stencil((StencilIndex("lane", 8, (2,)),)),), 32, strict=False) is None


def test_all_ways_to_match_are_tried() -> None:
    block = kernel(CONVOLUTION_2D, I=(8, 12, 4), K=(3, 3, 4, 4))
    found = {tuple(name for name, _ in match.roles) for match in matches(block, (K16_X4_Y4,), 0, strict=False)}
    assert found == {("co", x, y, c) for x, y in (("x", "y"), ("y", "x")) for c in ("ci", "kx", "ky")}


def test_more_rules_than_views_and_no_indices_match_nothing() -> None:
    assert best_match(matmul(4), (Stencil((StencilIndex("a", 2, (-1, -1)),)),), 0, strict=False) is None
    assert best_match(matmul(4), (Stencil((StencilIndex("a", 2, (), (0, 0, 0)),)),), 0, strict=False) is None
    assert best_match(matmul(4), (Stencil(),), 0, strict=False) is None


def test_a_stencil_may_have_a_start_of_its_own() -> None:
    slow = Stencil(K16_X16.idxs, "slow", 1000)
    fast = Stencil(K16_X16.idxs, "fast", 0)
    match = best_match(matmul(100), (slow, fast), 32, strict=False)
    assert match is not None
    assert (match.stencil.name, match.cost) == ("fast", 112 * 112 * 100)


@pytest.mark.parametrize(
    "build",
    [
        lambda: StencilIndex("a", 0),
        lambda: StencilIndex("a", -2),
        lambda: StencilIndex("a", 1, (-2,)),
        lambda: StencilIndex("a", 1, (), (-3,)),
        lambda: Stencil((StencilIndex("a"),) * 9),
    ],
)
def test_what_cannot_be_a_stencil_is_refused(build: object) -> None:
    assert callable(build)
    with pytest.raises(ValueError, match="stencil"):
        build()
