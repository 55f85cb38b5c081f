from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from strategies.effort import examples
from strategies.kernels import PROGRAMS, inputs, stripe_program
from strategies.passes import assert_same_meaning
from tileir import FunctionBuilder
from tileir.core.dtype import DType
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.algorithms.split_reduction import SplitReduction
from tileir.passes.base import run
from tileir.stripe.ir import Program
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType


@pytest.mark.parametrize("name", PROGRAMS)
def test_splitting_keeps_the_meaning(name: str) -> None:
    program = stripe_program(name)
    assert_same_meaning(program, run((SplitReduction(parts=3, operations=1),), program), inputs(name))


def test_a_long_reduction_becomes_parts_and_their_sum() -> None:
    (kernel,) = stripe_program("greatest of all").main.blocks
    partial, final = run((SplitReduction(parts=4, operations=1),), stripe_program("greatest of all")).main.blocks
    parts = partial.indices[0]
    assert (parts.name, parts.range) == ("m_part", 7)  # the least divisor of 7 that is at least 4
    assert [index.range for index in final.indices] == [7]
    assert final.name == f"{kernel.name}_merge"


def test_parts_of_an_axis_of_prime_size_are_not_sought_far_beyond_the_wanted_number() -> None:
    types = {"X": TensorType(DType.F32, (2**61 - 1,))}
    program = lower(infer(parse("function (X[N]) -> (S) { S[] = +(X[i]); }"), types))
    partial, _ = run((SplitReduction(parts=64),), program).main.blocks
    assert partial.indices[0].range == 64


def test_the_parts_are_a_temporary_of_the_program() -> None:
    program = run((SplitReduction(parts=4, operations=1),), stripe_program("greatest of all"))
    (temporary,) = [r for r in program.entry.refinements if "tmp" in r.tags]
    assert temporary.name == "O_parts"
    assert temporary.shape.sizes == (7,)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("greatest of all", SplitReduction(parts=1, operations=1)),  # one thread
        ("greatest of all", SplitReduction(parts=4)),  # little work
        ("matmul", SplitReduction(parts=4, operations=1)),  # outputs enough for all threads
        ("cumulative sum", SplitReduction(parts=32, operations=1)),  # the reduction index is constrained
        ("transpose", SplitReduction(parts=4, operations=1)),  # no reduction
    ],
)
def test_other_kernels_stay_whole(name: str, options: SplitReduction) -> None:
    program = stripe_program(name)
    assert run((options,), program) is program


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", PROGRAMS)
def test_counted_parts_keep_the_meaning(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tileir.passes.algorithms.split_reduction._LEAST", 2)
    program = stripe_program(name)
    split = run((SplitReduction(parts=6, operations=1, columns=4), Accumulate()), program)
    assert_same_meaning(program, split, inputs(name))


SUM = "function (A[N]) -> (O) { O[] = +(A[n]); }"
MATMUL = "function (A[M, K], B[K, N]) -> (O) { O[i, j : M, N] = +(A[i, k] * B[k, j]); }"
STATISTICS = "function (A[N, H, W, C]) -> (O) { O[c : C] = +(A[n, h, w, c]); }"
ROWS = "function (A[M, N]) -> (O) { O[n : N] = +(A[m, n]); }"


@pytest.mark.parametrize(
    ("text", "shape", "parts"),
    [
        (SUM, (1 << 20,), 64),
        (SUM, (10**6 + 3,), 60),  # a prime: 60 parts, the last one shorter
        (ROWS, (4096, 256), 30 // 2 + 1),  # two groups of columns, 15 parts wanted, and 16 divide
        (ROWS, (96, 1 << 16), 0),  # columns keep the device busy
        (ROWS, (96, 4096), 0),  # parts would have few points
    ],
)
def test_parts_are_counted_by_what_groups_take(text: str, shape: tuple[int, ...], parts: int) -> None:
    program = lower(infer(parse(text), {"A": TensorType(DType.F32, shape)}))
    after = run((SplitReduction(parts=60 if len(shape) == 1 else 30, columns=128),), program)
    sizes = [r.shape.sizes[0] for r in after.entry.refinements if "tmp" in r.tags]
    assert sizes == ([parts] if parts else [])


@pytest.mark.parametrize(
    ("text", "shape", "parts"),
    [
        (ROWS, (1 << 16, 16), 64),  # all columns are one group
        (ROWS, (1 << 14, 300), 32),  # two groups share 64 parts
        (ROWS, (1 << 14, 2048), 0),  # eight groups
        (ROWS, (65537, 16), 64),  # a prime: the last part is shorter
        (ROWS, (512, 16), 0),  # little work
        (STATISTICS, (32, 28, 28, 64), 32),  # whole pictures, which lie in memory in one piece
        (STATISTICS, (8, 28, 28, 64), 28),  # too few pictures
        (MATMUL, (64, 1 << 16), 0),  # columns of a product: what they read, others read as well
    ],
)
def test_columns_that_a_group_takes_count_as_one_output(text: str, shape: tuple[int, ...], parts: int) -> None:
    types = {"A": TensorType(DType.F32, shape), "B": TensorType(DType.F32, (shape[-1], 64))}
    typed = infer(parse(text), {name: types[name] for name in ("AB" if text == MATMUL else "A")})
    step = SplitReduction(parts=64, outputs=8, points=256, operations=16384, beside_bytes=1024)
    assert parts_of(run((step,), lower(typed))) == ([parts] if parts else [])


@pytest.mark.parametrize(
    ("rows", "depth", "columns", "parts"),
    [
        (64, 1 << 16, 64, 64),  # one tile
        (128, 1 << 15, 128, 16),  # four tiles share 64 parts
        (64, 1 << 12, 64, 16),  # parts of 256 terms
        (64, 1 << 10, 64, 0),  # too short for as many parts as keep threads busy
        (512, 1 << 14, 64, 0),  # eight tiles
        (32, 1 << 11, 32, 8),
    ],
)
def test_sums_of_products_with_few_tiles_are_cut(rows: int, depth: int, columns: int, parts: int) -> None:
    types = {"A": TensorType(DType.F32, (rows, depth)), "B": TensorType(DType.F32, (depth, columns))}
    step = SplitReduction(parts=64, outputs=8, points=16384, operations=262144, tile=4096)
    assert parts_of(run((step,), lower(infer(parse(MATMUL), types)))) == ([parts] if parts else [])


@pytest.mark.parametrize(
    ("rows", "columns", "constant", "parts"),
    [
        (64, 128, True, 0),  # eight panels of 16 columns
        (64, 128, False, 8),
        (64, 112, True, 8),  # seven
        (16, 128, True, 8),  # half a tile
    ],
)
def test_sums_of_products_with_panels_stay_whole(rows: int, columns: int, constant: bool, parts: int) -> None:
    f = FunctionBuilder()
    x = f.input("X", rows, 2048)
    values = np.ones((2048, columns), np.float32)
    function = f.build(Y=x @ (f.constant(values) if constant else f.input("W", 2048, columns)))
    kinds = {"X": (rows, 2048), "W": (2048, columns)}
    types = {name: TensorType(DType.F32, kinds[name]) for name in ("X",) + (() if constant else ("W",))}
    step = SplitReduction(parts=64, outputs=8, points=16384, operations=262144, tile=4096, panel_bytes=64)
    assert parts_of(run((step,), lower(infer(function, types)))) == ([parts] if parts else [])


TURNED = """function (A[M, K], W[N, K]) -> (O) {
    B[k, n : K, N] = =(W[n, k]);
    O[i, j : M, N] = +(A[i, k] * B[k, j]);
}"""


def test_a_transposed_copy_is_judged_by_what_it_copies() -> None:
    """Rows of W are contiguous along the sum, and each is a result: columns of B only seem to lie side by side."""
    step = SplitReduction(parts=64, outputs=8, points=16384, operations=262144, beside_bytes=1024)
    shapes = {"A": (1, 768), "W": (768, 768), "B": (768, 768)}
    types = {name: TensorType(DType.F32, shape) for name, shape in shapes.items()}
    turned = infer(parse(TURNED), {name: types[name] for name in "AW"})
    plain = infer(parse(MATMUL), {name: types[name] for name in "AB"})
    assert parts_of(run((step,), lower(turned))) == []
    assert parts_of(run((step,), lower(plain))) == [24]


def test_sums_of_products_in_parts_keep_their_meaning() -> None:
    types = {"A": TensorType(DType.I32, (4, 2048)), "B": TensorType(DType.I32, (2048, 3))}
    program = lower(infer(parse(MATMUL), types))
    after = run((SplitReduction(parts=8, outputs=8, operations=1, tile=12),), program)
    assert parts_of(after) == [8]
    random = np.random.default_rng(0)
    values = {name: random.integers(-9, 9, kind.shape).astype(np.int32) for name, kind in types.items()}
    assert_same_meaning(program, after, values)


@pytest.mark.parametrize(
    ("text", "dtype", "depth", "parts"),
    [
        (MATMUL, DType.F32, 64, 8),  # deep
        (MATMUL, DType.F32, 256, 0),  # not much deeper than a part may be
        (MATMUL, DType.F32, 0, 0),
        (MATMUL, DType.I32, 64, 0),  # exact at any depth
        (MATMUL, DType.BF16, 64, 0),  # no more exact than its inputs
        (MATMUL.replace("+(", ">("), DType.F32, 64, 0),  # no sum
    ],
)
def test_deep_contractions_are_cut_for_accuracy(text: str, dtype: DType, depth: int, parts: int) -> None:
    types = {"A": TensorType(dtype, (64, 512)), "B": TensorType(dtype, (512, 64))}
    after = run((SplitReduction(columns=32, depth=depth),), lower(infer(parse(text), types)))
    made = [r.shape.sizes[0] for r in after.entry.refinements if r.name.endswith("_parts")]
    assert made == ([parts] if parts else [])


EAGER = {"LONG": 1, "_RUN": 1, "_MEETINGS": 0, "_FASTER": 100, "_AGAIN": {}, "_COPIED": 0}
"""Constants by which products of any size are cut into parts."""


def weights_gradient(window: int, pad: int, stride: int = 1) -> str:
    """Return the gradient of a convolution by its weights."""
    place = f"{stride}*p + i - {pad}, {stride}*q + j - {pad}"
    return (
        "function (X[N, H, W, C], G[N, P, Q, K]) -> (O) "
        f"{{ O[k, i, j, c : K, {window}, {window}, C] = +(X[n, {place}, c] * G[n, p, q, k]); }}"
    )


BORDERED = """function (X[N, H, W, C], K[F, P, Q, C]) -> (O) {
    O[n, y, x, f : N, H, W, F] = +(X[n, y + p - 1, x + q - 1, c] * K[f, p, q, c]);
}"""


def parts_of(program: Program) -> list[int]:
    return [r.shape.sizes[0] for r in program.entry.refinements if r.name.endswith("_parts")]


@pytest.mark.parametrize(
    ("text", "sizes", "parts"),
    [
        (weights_gradient(3, 1), (32, 56, 64), {2: 32, 4: 32}),  # four tiles and a half: a part for each picture
        (
            weights_gradient(3, 1),
            (32, 14, 256),
            {2: 7, 4: 7},
        ),  # parts of two rows each: pictures are what steps go along
        (weights_gradient(3, 1), (32, 7, 512), {}),  # tiles for all groups
    ],
)
@pytest.mark.parametrize("dtype", [DType.F16, DType.I32])
def test_groups_without_a_tile_take_parts_of_products(
    text: str, sizes: tuple[int, int, int], parts: dict[int, int], dtype: DType
) -> None:
    batch, edge, channels = sizes
    types = {name: TensorType(dtype, (batch, edge, edge, channels)) for name in "XG"}
    step = SplitReduction(parts=528, columns=128, groups=132, tile=8192)
    made = parts_of(run((step,), lower(infer(parse(text), types))))
    assert made == ([parts[dtype.itemsize]] if dtype.itemsize in parts else [])


@pytest.mark.parametrize(("batch", "parts"), [(64, [4]), (32, [2]), (8, [])])
def test_pictures_are_cut_wherever_their_rows_lie(batch: int, parts: list[int]) -> None:
    """A part has other pictures, and no shorter rows: it needs no copy of them."""
    text = """function (X[N, C, H, W], G[N, K, P, Q]) -> (O) {
        O[k, c, i, j : K, C, 3, 3] = +(X[n, c, p + i - 1, q + j - 1] * G[n, k, p, q]);
    }"""
    types = {"X": TensorType(DType.BF16, (batch, 128, 7, 7)), "G": TensorType(DType.BF16, (batch, 32, 7, 7))}
    step = SplitReduction(parts=528, columns=128, groups=132, tile=8192)
    assert parts_of(run((step,), lower(infer(parse(text), types)))) == parts


@pytest.mark.parametrize(
    ("dtype", "depth", "parts"), [(DType.F32, 8192, [8]), (DType.F32, 1280, [4]), (DType.F16, 8192, [])]
)
def test_rows_that_lie_along_the_sum_are_cut_where_parts_of_them_are_long(
    dtype: DType, depth: int, parts: list[int]
) -> None:
    types = {"A": TensorType(dtype, (512, depth)), "B": TensorType(dtype, (depth, 512))}
    step = SplitReduction(parts=528, columns=128, groups=132, tile=8192)
    assert parts_of(run((step,), lower(infer(parse(MATMUL), types)))) == parts


@pytest.mark.parametrize(
    ("dtype", "channels", "parts"), [(DType.F32, 512, [4]), (DType.F32, 128, []), (DType.F16, 512, [])]
)
def test_channels_of_windows_are_cut_where_some_groups_have_no_tile(
    dtype: DType, channels: int, parts: list[int]
) -> None:
    types = {"X": TensorType(dtype, (32, 7, 7, channels)), "K": TensorType(dtype, (512, 3, 3, channels))}
    step = SplitReduction(parts=528, columns=128, groups=132, tile=8192)
    assert parts_of(run((step,), lower(infer(parse(BORDERED), types)))) == parts


def test_products_that_wait_for_memory_are_left_whole() -> None:
    types = {"A": TensorType(DType.F16, (16, 8192)), "B": TensorType(DType.F16, (8192, 8192))}
    step = SplitReduction(parts=528, columns=128, groups=132, tile=8192)
    assert parts_of(run((step,), lower(infer(parse(MATMUL), types)))) == []


def test_outputs_without_any_term_keep_what_they_held() -> None:
    """Of the ends of two windows some meet nothing: no part may say that these are zero."""
    text = """function (X[N, H, C], G[N, P, K]) -> (O) {{
        O[i, j, k, c : {0}, {0}, K, C] = +(X[n, p + i + j, c] * G[n, p, k]);
    }}"""
    types = {"X": TensorType(DType.F16, (8192, 6, 64)), "G": TensorType(DType.F16, (8192, 4, 64))}
    step = SplitReduction(parts=528, columns=128, groups=132, tile=8192)
    assert parts_of(run((step,), lower(infer(parse(text.format(3)), types)))) == [32]
    assert parts_of(run((step,), lower(infer(parse(text.format(4)), types)))) == []


def test_parts_lie_as_results_do() -> None:
    """The merging kernel reads along memory: along the innermost long index of results."""
    for result, kept in (
        ("k, i, j, c", (256, 3, 3, 256)),
        ("k, c, i, j", (256, 3, 3, 256)),
        ("i, j, c, k", (3, 3, 256, 256)),
    ):
        sizes = ", ".join({"k": "K", "c": "C"}.get(name, "3") for name in result.split(", "))
        text = weights_gradient(3, 1).replace("k, i, j, c : K, 3, 3, C", f"{result} : {sizes}")
        types = {name: TensorType(DType.F16, (32, 14, 14, 256)) for name in "XG"}
        step = SplitReduction(parts=528, columns=128, groups=132, tile=8192)
        after = run((step,), lower(infer(parse(text), types)))
        (parts,) = (each for each in after.memory if each.name.endswith("_parts"))
        assert parts.shape.sizes == (7, *kept)


def test_parts_of_products_over_channels_first() -> None:
    """Rows of pixels stay as long as they are: both factors are copied later, which few products are worth."""
    text = """function (X[N, C, H, W], G[N, K, P, Q]) -> (O) {
        O[k, c, i, j : K, C, 3, 3] = +(X[n, c, p + i - 1, q + j - 1] * G[n, k, p, q]);
    }"""
    step = SplitReduction(parts=528, columns=128, groups=132, tile=8192)
    for batch, parts in ((32, [7]), (1, [])):
        types = {name: TensorType(DType.F32, (batch, 256, 14, 14)) for name in "XG"}
        assert parts_of(run((step,), lower(infer(parse(text), types)))) == parts


@pytest.mark.parametrize("depth", [24, 30, 96])
@pytest.mark.parametrize("text", [MATMUL, BORDERED], ids=["rows", "windows"])
def test_parts_of_rows_keep_the_meaning(text: str, depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (EAGER | {"_ROW": 2, "_ROW_OF_WINDOW": 2}).items():
        monkeypatch.setattr(f"tileir.passes.algorithms.product_parts.{name}", value)
    rows = {"A": (6, depth), "B": (depth, 5)}
    shapes = rows if text == MATMUL else {"X": (1, 3, 2, depth), "K": (5, 3, 3, depth)}
    program = lower(infer(parse(text), {name: TensorType(DType.F32, shape) for name, shape in shapes.items()}))
    split = run((SplitReduction(parts=2, operations=1, columns=64, groups=8, tile=10), Accumulate()), program)
    assert parts_of(split)
    assert_same_meaning(program, split)


@given(
    sizes=st.tuples(st.integers(1, 3), st.integers(3, 9), st.integers(2, 4), st.integers(2, 4)),
    window=st.integers(1, 3),
    pad=st.integers(0, 2),
    stride=st.integers(1, 2),
    groups=st.integers(4, 12),
    tile=st.integers(10, 80),
)
@examples(60)
def test_parts_of_products_keep_the_meaning(
    sizes: tuple[int, int, int, int], window: int, pad: int, stride: int, groups: int, tile: int
) -> None:
    batch, edge, channels, features = sizes
    out = (edge + 2 * pad - window) // stride + 1
    assume(out > 0)
    types = {
        "X": TensorType(DType.I32, (batch, edge, edge, channels)),
        "G": TensorType(DType.I32, (batch, out, out, features)),
    }
    program = lower(infer(parse(weights_gradient(window, pad, stride)), types))
    step = SplitReduction(parts=2, operations=1, columns=64, groups=groups, tile=tile)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in EAGER.items():
            patch.setattr(f"tileir.passes.algorithms.product_parts.{name}", value)
        split = run((step, Accumulate()), program)
    assert_same_meaning(program, split)


@pytest.mark.parametrize("dtype", [DType.F32, DType.I64])
def test_axes_that_several_indices_move_are_cut_where_each_place_has_one_value(dtype: DType) -> None:
    """Such are gradients by weights of windows that move by two elements, residue by residue; a fourth is no place."""
    text = """function (X[N, R, Q, C], G[N, P, C]) -> (O) {
        O[c, 2 * t + r : C, 3] = +(X[n, r, p + t, c] * G[n, p, c]), r < 2, t < 2;
    }"""
    types = {"X": TensorType(dtype, (16, 2, 9, 4)), "G": TensorType(dtype, (16, 8, 4))}
    program = lower(infer(parse(text), types))
    after = run((SplitReduction(parts=16, operations=0, columns=4),), program)
    assert len(parts_of(after)) == 1
    assert_same_meaning(program, after)


@pytest.mark.parametrize(
    ("batch", "rows", "counts"),
    [(4, 8, (4, 4)), (1, 16, (8,)), (64, 8, (64, 4)), (4, 7, (4,))],
    ids=["two indices", "rows", "narrow", "prime"],
)
def test_gradients_of_one_channel_are_cut_along_two_indices(batch: int, rows: int, counts: tuple[int, ...]) -> None:
    """No part is without a term for some place: of 8 rows a part has two, as none of the first row meets the last."""
    text = """function (X[N, P, Q, C], G[N, P, Q, C]) -> (O) {
        O[c, i, j : C, 3, 3] = +(X[n, p + i - 1, q + j - 1, c] * G[n, p, q, c]);
    }"""
    types = {name: TensorType(DType.F32, (batch, rows, 32, 16)) for name in "XG"}
    program = lower(infer(parse(text), types))
    after = run((SplitReduction(parts=64, operations=0, columns=64, group_bytes=64, outputs=1),), program)
    (parts,) = (r.shape.sizes for r in after.entry.refinements if r.name.endswith("_parts"))
    assert parts == (*counts, 3, 3, 16)
    assert_same_meaning(program, after)
