"""Choice of tiles, with reasons."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import assume, given, strategies as st

from strategies.contractions import Case
from tileir.core.dtype import DType
from tileir.core.ops import Aggregation
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.kernels.forms import may_overlap
from tileir.passes.kernels.merge import reduction_nest
from tileir.passes.regions.separate import Separate
from tileir.passes.schedules.registers.cost import (
    Limits,
    Rows,
    Tiling,
    _Candidate,
    against_vector,
    choose,
    overlapping,
    row_pieces,
)
from tileir.schedule.nest import Nest, Use
from tileir.schedule.remarks import Refused, refused
from tileir.stripe.ir import Direction, Index

WIDE = Limits(
    vector_bytes=64, max_lanes=0, registers=32, cache_bytes=1 << 15, panel_bytes=1 << 19, reads=512, rows=0, columns=0
)
NARROW = attrs.evolve(WIDE, vector_bytes=32, registers=16)
PRODUCT = "function (A[M, K], B[K, N]) -> (O) { O[m, n : M, N] = +(A[m, k] * B[k, n]); }"
DEPTHWISE = (
    "function (X[H, W, C], F[I, J, C]) -> (O) "
    "{ O[y, x, c : H - I + 1, W - J + 1, C] = +(X[y + i, x + j, c] * F[i, j, c]); }"
)
TURNED = "function (A[K, M], B[N, K]) -> (O) { O[m, n : M, N] = +(A[k, m] * B[n, k]); }"
CONVOLUTION = (
    "function (X[N, C, H, W], F[D, C, I, J]) -> (O) "
    "{ O[n, d, y, x : N, D, H, W] = +(X[n, c, y + i - 1, x + j - 1] * F[d, c, i, j]); }"
)
POOL = "function (X[H, W, C]) -> (O) { O[y, x, c : H / 2, W / 2, C] = >(X[2*y + i, 2*x + j, c]), i < 2, j < 2; }"


def plan(
    text: str, shapes: dict[str, tuple[int, ...]], limits: Limits = WIDE, dtype: DType = DType.F32
) -> Tiling | Refused:
    program = run((Accumulate(), Separate()), Case(text, dtype, shapes).program())
    nest = reduction_nest(program.main.blocks[0])
    assert isinstance(nest, Nest)
    return choose(nest, limits, {})


def tile(text: str, shapes: dict[str, tuple[int, ...]], limits: Limits = WIDE) -> tuple[dict[str, int], int]:
    chosen = plan(text, shapes, limits)
    assert isinstance(chosen, Tiling)
    return {r.index.name: r.height for r in chosen.rows}, chosen.columns


def product(rows: int, depth: int, columns: int) -> dict[str, tuple[int, ...]]:
    return {"A": (rows, depth), "B": (depth, columns)}


def test_a_large_product_gets_a_tile_that_fills_the_registers() -> None:
    assert tile(PRODUCT, product(600, 600, 640)) == ({"m": 6}, 4)
    assert tile(PRODUCT, product(600, 600, 640), NARROW) == ({"m": 6}, 2)


def test_rows_that_divide_the_output_are_better_than_more_of_them() -> None:
    assert tile(PRODUCT, product(8, 300, 64)) == ({"m": 4}, 4)


def test_columns_are_not_left_over_for_little() -> None:
    for vectors in range(1, 9):
        _, columns = tile(PRODUCT, product(24, 300, 16 * vectors))
        assert vectors % columns == 0 or vectors in (5, 7)


def test_few_rows_that_meet_in_the_cache() -> None:
    (rows, _), (meeting, _) = (tile(PRODUCT, product(1400, depth, 32)) for depth in (1000, 1024))
    assert rows["m"] > 8 >= meeting["m"]


@pytest.mark.parametrize(("size", "channels"), [(56, 64), (28, 128), (44, 32)])
def test_rows_of_a_tile_are_pixels_that_are_near_and_not_images(size: int, channels: int) -> None:
    """Each image that is a row of its own reads other pages: there are as many as channels of it."""
    shapes = {"X": (8, channels, size, size), "F": (64, channels, 3, 3)}
    nest = reduction_nest(run((Accumulate(),), Case(CONVOLUTION, DType.F32, shapes).program()).main.blocks[0])
    assert isinstance(nest, Nest)
    chosen = choose(nest, NARROW, {})
    assert isinstance(chosen, Tiling)
    assert [rows.index.name for rows in chosen.rows] == ["x"]


@pytest.mark.parametrize(("images", "channels"), [(8, 64), (16, 128)])
def test_rows_of_a_tile_overlap_where_windows_do_rather_than_be_images(images: int, channels: int) -> None:
    """Windows in several images read more than the nearest cache holds; overlapping windows fit."""
    text = DEPTHWISE.replace("X[H", "X[N, H").replace("O[y", "O[n, y").replace(": H", ": N, H").replace("X[y", "X[n, y")
    rows, _ = tile(text, {"X": (images, 56, 56, channels), "F": (7, 7, channels)})
    assert "n" not in rows
    assert rows.keys() & {"x", "y"}


def test_one_row_takes_many_columns() -> None:
    assert tile(PRODUCT, product(1, 512, 4096)) == ({}, 16)


@pytest.mark.parametrize("depth", [8, 127, 128, 129, 4000])
def test_sums_that_read_each_element_once_take_many_columns_however_deep_they_are(depth: int) -> None:
    """No cache has a panel from before, also where it could hold four columns of 128 rows."""
    text = "function (A[M, N]) -> (O) { O[n : N] = +(A[m, n]); }"
    assert tile(text, {"A": (depth, 128)}) == ({}, 8)


def test_rows_of_two_indices_fill_a_tile_that_one_cannot() -> None:
    text = "function (A[Y, K, X], B[K, N]) -> (O) { O[y, x, n : Y, X, N] = +(A[y, k, x] * B[k, n]); }"
    assert tile(text, {"A": (2, 50, 3), "B": (50, 64)}) == ({"y": 2, "x": 3}, 4)


def test_rows_share_weights_where_channels_are_apart() -> None:
    rows, columns = tile(DEPTHWISE, {"X": (30, 50, 64), "F": (3, 3, 64)})
    assert list(rows) == ["x"]
    assert columns == 4


@pytest.mark.parametrize(
    ("channels", "stride", "width", "height"), [(64, 1, 114, 14), (64, 2, 114, 8), (64, 2, 226, 6), (16, 2, 226, 14)]
)
def test_tiles_in_many_pages_move_on_by_about_the_line_that_is_fetched_ahead(
    channels: int, stride: int, width: int, height: int
) -> None:
    """Few pages are followed further than to the next line."""
    step = "" if stride == 1 else f"{stride}*"
    text = (
        f"function (X[C, H, W], F[D, C, I, J]) -> (O) {{ O[d, y, x : D, (H - I) / {stride} + 1, (W - J) / {stride} + 1]"
        f" = +(X[c, {step}y + i, {step}x + j] * F[d, c, i, j]); }}"
    )
    rows, _ = tile(text, {"X": (channels, width, width), "F": (64, channels, 3, 3)})
    assert rows == {"x": height}


def test_a_pool_reads_memory_in_its_order() -> None:
    assert tile(POOL, {"X": (32, 32, 64)}) == ({}, 4)


def test_a_strided_operand_is_packed_and_a_dense_one_is_not() -> None:
    text = "function (A[M, K], B[N, K]) -> (O) { O[m, n : M, N] = +(A[m, k] * B[n, k]); }"
    strided = plan(text, {"A": (600, 64), "B": (64, 64)})
    dense = plan(PRODUCT, product(6000, 600, 64))
    assert isinstance(strided, Tiling)
    assert isinstance(dense, Tiling)
    assert [use.root for use in strided.packed] == [strided.packed[0].root]
    assert dense.packed == ()


@pytest.mark.parametrize(("channels", "width", "expected"), [(64, 16, "d"), (64, 1026, "x")])
def test_lanes_run_across_the_result_where_its_rows_do_not_fill_vectors(
    channels: int, width: int, expected: str
) -> None:
    text = (
        "function (X[C, H, W], F[D, C, I, J]) -> (O) "
        "{ O[d, y, x : D, H - I + 1, W - J + 1] = +(X[c, y + i, x + j] * F[d, c, i, j]); }"
    )
    chosen = plan(text, {"X": (channels, 50, width), "F": (64, channels, 3, 3)})
    assert isinstance(chosen, Tiling)
    assert chosen.vector.name == expected


def test_lanes_that_are_apart_do_not_merge_into_memory() -> None:
    text = "function (A[M, K], B[K, N]) -> (O) { O[n, m : N, M] = +(A[m, k] * B[k, n]); }"
    program = Case(text, DType.F32, {"A": (3, 50), "B": (50, 64)}).program()
    nest = reduction_nest(run((Accumulate(),), program).main.blocks[0])
    assert isinstance(nest, Nest)
    assert against_vector(nest, "n") is None
    merging = tuple(
        attrs.evolve(s, uses=tuple(attrs.evolve(u, aggregation=Aggregation.SUM) for u in s.uses)) for s in nest.segments
    )
    why = against_vector(attrs.evolve(nest, segments=merging), "n")
    assert why is not None
    assert why.code == "TR308"


@pytest.mark.parametrize(
    ("size", "expected"), [(1, refused("TR503")), (3, refused("TR301", index="m", range=3, lanes=16))]
)
def test_no_index_has_room_for_lanes(size: int, expected: Refused) -> None:
    assert plan(PRODUCT, product(size, 20, size)) == expected


def test_pieces_cover_all_rows() -> None:
    rows = (Rows(Index("a", 7), 3), Rows(Index("b", 4), 4))
    assert list(row_pieces(rows)) == [(2, {"a": 3, "b": 4}), (1, {"a": 1, "b": 4})]
    assert list(row_pieces(())) == [(1, {})]


def test_elements_are_stored_twice_only_where_nothing_depends_on_them() -> None:
    program = run((Accumulate(),), Case(PRODUCT, DType.F32, product(4, 3, 21)).program())
    nest = reduction_nest(program.main.blocks[0])
    assert isinstance(nest, Nest)
    (output,) = (view for view in nest.kernel.refinements if view.direction is Direction.OUT)
    assert may_overlap(nest)

    def stored_as(use: Use) -> Use:
        return (
            attrs.evolve(use, direction=Direction.INOUT, aggregation=Aggregation.MAX)
            if use.root == output.name
            else use
        )

    merging = [attrs.evolve(s, uses=tuple(map(stored_as, s.uses))) for s in nest.segments]
    assert not may_overlap(attrs.evolve(nest, segments=tuple(merging)))
    in_place = tuple(
        attrs.evolve(view, source=output.source) if view.direction is Direction.IN else view
        for view in nest.kernel.refinements
    )
    assert not may_overlap(attrs.evolve(nest, kernel=attrs.evolve(nest.kernel, refinements=in_place)))


def test_columns_that_are_left_over_are_few_pieces() -> None:
    assert [overlapping(left, 4) for left in range(12)] == [0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3]
    assert [overlapping(left, 4, only_whole=True) for left in range(8)] == [0, 1, 1, 1, 0, 2, 2, 2]


def test_columns_that_overlap_cost_less_than_narrower_tiles() -> None:
    program = run((Accumulate(),), Case(PRODUCT, DType.F32, product(28, 300, 63)).program())
    nest = reduction_nest(program.main.blocks[0])
    assert isinstance(nest, Nest)
    plans = [choose(nest, WIDE, {}, overlaps=overlaps) for overlaps in (False, True)]
    (apart, overlapped) = (each for each in plans if isinstance(each, Tiling))
    assert not apart.overlaps
    assert overlapped.overlaps
    assert overlapped.cost < apart.cost


@pytest.mark.sampled(2)
@pytest.mark.parametrize("text", [PRODUCT, TURNED, CONVOLUTION, DEPTHWISE])
@given(st.lists(st.integers(2, 70), min_size=4, max_size=4), st.sampled_from([WIDE, NARROW]))
def test_lanes_that_could_not_be_cheaper_are_not_tried_in_vain(text: str, sizes: list[int], limits: Limits) -> None:
    """Whatever index has the lanes, its tiles cost no less than the bound by which it is left out."""
    m, n, k, few = *sizes[:3], 1 + sizes[3] % 3
    shapes: dict[str, dict[str, tuple[int, ...]]] = {
        PRODUCT: {"A": (m, k), "B": (k, n)},
        TURNED: {"A": (k, m), "B": (n, k)},
        CONVOLUTION: {"X": (few, k, m, n), "F": (few * 16, k, few, 3)},
        DEPTHWISE: {"X": (m + 2, n + 2, k), "F": (few, 3, k)},
    }
    nest = reduction_nest(run((Accumulate(),), Case(text, DType.F32, shapes[text]).program()).main.blocks[0])
    assume(isinstance(nest, Nest))
    assert isinstance(nest, Nest)
    tiles: list[Tiling] = []
    best = _Candidate.best

    def noted(candidate: _Candidate) -> Tiling | Refused:
        tiling = best(candidate)
        if isinstance(tiling, Tiling):
            assert candidate.least <= tiling.cost * (1 + 1e-9)
            tiles.append(tiling)
        return tiling

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Candidate, "best", noted)
        chosen = choose(nest, limits, {})
        patch.setattr(_Candidate, "least", 0.0)  # all are tried
        assert choose(nest, limits, {}) == chosen
    assert isinstance(chosen, Refused) or chosen.cost == min(tiling.cost for tiling in tiles)
