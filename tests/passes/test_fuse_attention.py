"""Attention in one kernel: found in whatever form a program says it, and equal to what the program computes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from tileir import FunctionBuilder, ops
from tileir.core.dtype import DType
from tileir.core.fragments import FRAGMENTS as FRAGMENTS_OF, named
from tileir.core.targets.target import Target
from tileir.driver.compiler import compile_stages
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.fusion.attention import FuseAttention
from tileir.schedule.remarks import Remarks, listening
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.ir import BulkCopy, BulkStore, For, LoopKind, MatrixMultiply, WarpRole
from tileir.semtree.rewrite import statements
from tileir.stripe.attention import ATTEND, AttentionParameters
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Special
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from tileir.driver.compiler import Stages
    from tileir.stripe.ir import Program
    from tileir.tile.ir import Function

FRAGMENTS = ("mma_m16n8k16_f16", "mma_m16n8k16_bf16")
TARGET = Target(
    index_dtype=DType.I32, group_threads=256, alignment=256, vector_bytes=16, async_copies=True, fragments=FRAGMENTS
)
LOCAL_BYTES = 227 * 1024
BY_HAND = """function (Q[S, D], K[T, D], V[T, E]) -> (O) {{
    Z[s, t : S, T] = +(Q[s, d] * K[t, d]);
    X = {scores};
    M[s, 0 : S, 1] = >(X[s, t]);
    P = exp(X - M);
    L[s, 0 : S, 1] = +(P[s, t]);
    W = P / L;
    O[s, e : S, E] = +(W[s, t] * V[t, e]);
}}"""
WINDOW = "cond(index(Z, 1) <= index(Z, 0) + 3, cond(index(Z, 0) - 9 < index(Z, 1), Z * 0.5, -1e999), -1e999)"


def attention(
    *shapes: tuple[int, ...], dtype: DType = DType.F16, **options: Any
) -> tuple[Function, dict[str, TensorType]]:
    """Return the program of the operation, and the types of its inputs."""
    builder = FunctionBuilder()
    names = "QKV"
    inputs = [
        builder.input(name, *(f"{name}{n}" for n in range(len(s)))) for name, s in zip(names, shapes, strict=True)
    ]
    result = ops.scaled_dot_product_attention(*inputs, **options)
    return builder.build(O=result), {name: TensorType(dtype, s) for name, s in zip(names, shapes, strict=True)}


def stages(
    source: Function | str, types: dict[str, TensorType], *, whole: bool = False, boxes: bool = False, **options: int
) -> Stages:
    """Compile for warps, or for ``whole`` groups of four, of which one may copy ``boxes`` for others."""
    fragments = (*named("sm_90a"), *FRAGMENTS) if whole else FRAGMENTS
    target = attrs.evolve(TARGET, fragments=fragments, bulk_copies=boxes)
    return compile_stages(source, types, target, passes=(FuseAttention(fragments, **options), Accumulate()))


def specials(program: Program | None) -> list[Special]:
    assert program is not None
    return [s for block in program.main.blocks for s in block.statements if isinstance(s, Special)]


def values(types: dict[str, TensorType], seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    random = np.random.default_rng(seed)
    return {name: random.standard_normal(t.shape).astype(t.dtype.numpy) for name, t in types.items()}


def check(
    source: Function | str,
    types: dict[str, TensorType],
    given_values: dict[str, np.ndarray[Any, Any]] | None = None,
    exact: np.ndarray[Any, Any] | None = None,
    *,
    whole: bool = False,
    boxes: bool = False,
    **options: int,
) -> AttentionParameters:
    """Check that a program becomes one kernel that is right at every stage, without races and undefined values."""
    found = stages(source, types, whole=whole, boxes=boxes, **options)
    assert found.flat is not None
    assert found.passed is not None
    (special,) = specials(found.passed)
    assert special.name == ATTEND
    assert len(found.sem.kernels) == 1
    given_values = values(types) if given_values is None else given_values
    wanted = interpret(found.flat, given_values) if exact is None else {"O": exact}
    # Weights are rounded to the dtype before they are divided by their sum, not after.
    limit = {DType.F16: 4e-3, DType.BF16: 3e-2}[next(iter(types.values())).dtype]
    for result in (interpret(found.passed, given_values), run_program(found.sem, given_values, checks=ALL_CHECKS)):
        for name, array in wanted.items():
            np.testing.assert_allclose(result[name].astype(float), array.astype(float), atol=limit, rtol=limit)
    return AttentionParameters.of(special)


@examples(10)
@given(st.data())
def test_attention_of_any_sizes_is_one_kernel(data: st.DataObject) -> None:
    draw = data.draw
    queries, keys = draw(st.integers(2, 70)), draw(st.integers(2, 90))
    width, columns = (draw(st.sampled_from((16, 32, 48, 64))) for _ in range(2))
    heads, shared = draw(st.sampled_from(((1, 1), (2, 2), (4, 2), (2, 1))))
    dtype, causal = draw(st.sampled_from((DType.F16, DType.BF16))), draw(st.booleans())
    source, types = attention(
        (1, heads, queries, width), (1, shared, keys, width), (1, shared, keys, columns), dtype=dtype, causal=causal
    )
    plan = check(source, types, groups=draw(st.sampled_from((1, 1000))))
    assert plan.after == (0 if causal else None)


@pytest.mark.sampled(0)
@pytest.mark.parametrize(
    ("shapes", "dtype", "causal"),
    [
        (((2, 30, 32), (1, 130, 32), (1, 130, 64)), DType.F16, False),
        (((70, 32), (260, 32), (260, 32)), DType.BF16, True),
        (((66, 96), (129, 96), (129, 96)), DType.F16, True),
        (((70, 128), (400, 128), (400, 128)), DType.BF16, False),
    ],
)
def test_groups_of_four_warps_multiply_a_tile_while_they_weigh_the_next_one(
    shapes: tuple[tuple[int, ...], ...], dtype: DType, causal: bool
) -> None:
    source, types = attention(*shapes, dtype=dtype, causal=causal)
    plan = check(source, types, whole=True, local_bytes=LOCAL_BYTES)
    assert FRAGMENTS_OF[plan.fragment].threads == 128


@pytest.mark.sampled(0)
@pytest.mark.parametrize(
    ("shapes", "dtype", "causal", "groups"),
    [
        (((3, 130, 128), (3, 20, 128), (3, 20, 64)), DType.BF16, True, 4),
        (((2, 150, 96), (1, 270, 96), (1, 270, 96)), DType.F16, False, 3),
        (((150, 128), (150, 128), (150, 32)), DType.BF16, True, 1),
        (((70, 128), (400, 128), (400, 128)), DType.BF16, False, 1),
        (((2, 190, 64), (1, 256, 64), (1, 256, 64)), DType.BF16, False, 1),
    ],
)
def test_one_warp_copies_tiles_for_teams_and_groups_take_turns(
    shapes: tuple[tuple[int, ...], ...], dtype: DType, causal: bool, groups: int
) -> None:
    source, types = attention(*shapes, dtype=dtype, causal=causal)
    plan = check(source, types, whole=True, boxes=True, local_bytes=LOCAL_BYTES, groups=groups)
    found = stages(source, types, whole=True, boxes=True, local_bytes=LOCAL_BYTES, groups=groups)
    (kernel,) = found.sem.kernels
    multiplying, copying = (stmt for stmt in kernel.body if isinstance(stmt, WarpRole))
    teams = 2 if shapes[0][-1] > 64 else 3
    assert (plan.teams, multiplying.teams, copying.warps) == (teams, teams, 1)
    assert plan.groups == groups
    assert not any(isinstance(stmt, BulkCopy) for stmt in statements(multiplying.body))
    assert any(isinstance(stmt, BulkStore) for stmt in statements(multiplying.body))
    tiles = math.prod(shapes[0][:-2]) * -(-shapes[0][-2] // plan.rows)
    assert math.prod(kernel.grid) == min(groups, tiles)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("queries", "keys", "causal", "teams"),
    [
        ((2, 192), 256, False, 3),
        ((2, 160), 256, False, 1),  # a sixth of what three teams can do would be idle
        ((3, 192), 256, False, 1),  # or a quarter of their turns
        ((2, 192), 200, False, 1),  # there would be masks at an end
        ((2, 192), 256, True, 1),  # most of the first rows of a tile would see nothing of its last keys
        ((2, 1920), 1920, True, 3),
    ],
)
def test_three_teams_are_busy_all_the_time(queries: tuple[int, int], keys: int, causal: bool, teams: int) -> None:
    shapes = ((*queries, 64), (1, keys, 64), (1, keys, 64))
    source, types = attention(*shapes, causal=causal)
    found = stages(source, types, whole=True, boxes=True, local_bytes=LOCAL_BYTES, groups=2)
    (special,) = specials(found.passed)
    assert AttentionParameters.of(special).teams == teams


@pytest.mark.sampled(0)
def test_groups_of_four_warps_scale_sums_where_scores_grow() -> None:
    source, types = attention((40, 32), (270, 32), (270, 32))
    found = values(types, seed=1)
    found["K"] = (found["K"] * np.linspace(0.1, 12.0, 270)[:, None]).astype(np.float16)
    found["K"][3:100] = -np.inf
    found["Q"] = np.abs(found["Q"])
    found["Q"][::3] *= np.float16(0.01)
    queries, keys, rows = (found[name].astype(float) for name in "QKV")
    scores = queries @ keys.T / math.sqrt(32)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    wanted = weights / weights.sum(1, keepdims=True) @ rows
    check(source, types, found, wanted, whole=True, local_bytes=LOCAL_BYTES)


@pytest.mark.parametrize(("width", "groups"), [(80, 1), (64, 132)])
def test_what_groups_of_four_warps_do_not_fit_is_left_to_warps(width: int, groups: int) -> None:
    source, types = attention(*[(2, 200, width)] * 3)
    (special,) = specials(stages(source, types, whole=True, groups=groups, local_bytes=LOCAL_BYTES).passed)
    assert AttentionParameters.of(special).fragment == FRAGMENTS[0]


@pytest.mark.parametrize(("rows", "width"), [(40, 64), (200, 80), (200, 96)])
def test_weights_in_bytes_do_not_lie_where_instructions_take_them(rows: int, width: int) -> None:
    """Threads held other weights than those that products took: results were wrong."""
    source, types = attention(*[(64, rows, width)] * 3, dtype=DType.F8E5M2)
    remarks = Remarks()
    fuse = FuseAttention((*named("sm_90a"), "mma_m16n8k32_f8e5m2"), groups=132, local_bytes=LOCAL_BYTES)
    with listening(remarks):
        passed = compile_stages(source, types, TARGET, passes=(fuse, Accumulate())).passed
    assert specials(passed) == []
    assert "TR429" in [made.code for made in remarks.all()]


@pytest.mark.sampled(0)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("ascending", [False, True])
def test_scores_may_grow_and_fall_by_much_from_tile_to_tile(causal: bool, ascending: bool) -> None:
    """Sums are scaled where the greatest score of one of a thread's rows grew, and of other rows it need not have."""
    source, types = attention((70, 32), (150, 32), (150, 32), causal=causal)
    found = values(types, seed=1)
    steps = np.linspace(0.1, 12.0, 150) if ascending else np.linspace(12.0, 0.1, 150)
    found["K"] = (found["K"] * steps[:, None]).astype(np.float16)
    found["Q"][::3] *= np.float16(0.01)
    queries, keys, rows = (found[name].astype(float) for name in "QKV")
    scores = queries @ keys.T / math.sqrt(32)  # of which f16 keeps too few digits, where they are as great as here
    scores[~np.tri(70, 150, dtype=bool) & causal] = -np.inf
    weights = np.exp(scores - scores.max(1, keepdims=True))
    check(source, types, found, weights / weights.sum(1, keepdims=True) @ rows)


def test_scores_of_minus_infinity_and_nan_are_kept() -> None:
    source, types = attention((40, 16), (80, 16), (80, 16))
    found = values(types, seed=2)
    found["Q"] = np.abs(found["Q"])
    found["K"][3:70] = -np.inf  # whole tiles of keys that get no weight
    found["Q"][7] = np.nan
    check(source, types, found)


def test_wide_heads_have_fewer_rows() -> None:
    plan = check(*attention((40, 128), (33, 128), (33, 128)))
    assert (plan.tall, plan.keys) != (32, 64)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("scores", "before", "after"), [("Z", None, None), ("Z * 0.5", None, None), (WINDOW, 8, 3)])
def test_softmax_by_hand_is_found(scores: str, before: int | None, after: int | None) -> None:
    types = {name: TensorType(DType.F16, (40, 32)) for name in "QKV"}
    plan = check(BY_HAND.format(scores=scores), types)
    assert (plan.before, plan.after) == (before, after)
    assert not plan.finite


@pytest.mark.parametrize("name", ["mask", "bias"])
def test_masks_as_arrays_are_found_where_they_are_bands(name: str) -> None:
    builder = FunctionBuilder()
    inputs = [builder.input(each, "B", "H", "S", "D") for each in "QKV"]
    seen = np.tri(40, dtype=bool)
    array = seen if name == "mask" else np.where(seen, 0.0, -np.inf).astype(np.float32)
    given_mask: dict[str, Any] = {name: builder.constant(array)}
    function = builder.build(O=ops.scaled_dot_product_attention(*inputs, **given_mask))
    plan = check(function, {each: TensorType(DType.BF16, (1, 2, 40, 32)) for each in "QKV"})
    assert (plan.before, plan.after) == (None, 0)
    assert plan.finite


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("test", "hidden", "band"),
    [
        ("index(Z, 1) <= index(Z, 0) + 3", -65536.0, (None, 3)),
        ("index(Z, 1) <= index(Z, 0) - 5", -65536.0, (None, -5)),  # some queries see nothing, and weigh all keys
        ("index(Z, 0) - 9 < index(Z, 1)", -1.5, (8, None)),
        ("index(Z, 1) <= index(Z, 0)", 2.0, (None, 0)),
    ],
)
def test_numbers_may_be_added_to_scores_outside_of_a_band(
    test: str, hidden: float, band: tuple[int | None, int | None]
) -> None:
    types = {name: TensorType(DType.BF16, (40, 32)) for name in "QKV"}
    plan = check(BY_HAND.format(scores=f"Z * 0.5 + cond({test}, 0.0, {hidden})"), types)
    assert (plan.before, plan.after, plan.hidden, plan.finite) == (*band, hidden, False)


@pytest.mark.sampled(0)
@pytest.mark.parametrize("boxes", [False, True])
def test_masks_of_great_numbers_are_found_as_libraries_hand_them_over(boxes: bool) -> None:
    builder = FunctionBuilder()
    inputs = [builder.input(each, "H", "S", "D") for each in "QKV"]
    mask = builder.constant(np.where(np.tri(150, dtype=bool), 0.0, -65536.0).astype(DType.BF16.numpy))
    function = builder.build(O=ops.scaled_dot_product_attention(*inputs, bias=mask))
    types = {each: TensorType(DType.BF16, (2, 150, 64)) for each in "QKV"}
    plan = check(function, types, whole=True, boxes=boxes, local_bytes=LOCAL_BYTES)
    assert (plan.after, plan.hidden, FRAGMENTS_OF[plan.fragment].threads) == (0, -65536.0, 128)


def test_layers_share_masks_and_constants() -> None:
    """Tensors that do not depend on scores may have other readers; masked keys are all there."""
    builder = FunctionBuilder()
    inputs = [builder.input(each, "B", "H", "S", "D") for each in "QKV"]
    mask = builder.constant(np.where(np.tri(40, dtype=bool), 0.0, -np.inf).astype(np.float32))
    result, *_ = ops.attention(*inputs, mask=mask)
    result, *_ = ops.attention(result, *inputs[1:], mask=mask)
    types = {each: TensorType(DType.F16, (1, 2, 40, 32)) for each in "QKV"}
    made = stages(builder.build(O=result), types)
    plans = [AttentionParameters.of(special) for special in specials(made.passed)]
    assert [(plan.before, plan.after) for plan in plans] == [(None, 0)] * 2
    found = values(types)
    keys, rows = (found[name].astype(float) for name in "KV")
    wanted = found["Q"].astype(float)
    for _ in range(2):
        scores = np.where(np.tri(40, dtype=bool), wanted @ keys.swapaxes(-1, -2) / math.sqrt(32), -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        wanted = weights / weights.sum(-1, keepdims=True) @ rows
    np.testing.assert_allclose(run_program(made.sem, found)["O"].astype(float), wanted, atol=8e-3)


def test_queries_that_see_nothing_give_zeros_where_the_program_says_so() -> None:
    scores = "cond(index(Z, 1) <= index(Z, 0) - 5, Z, -1e999)"
    text = BY_HAND.format(scores=scores).replace("exp(X - M)", "exp(X - cond(M == -1e999, 0.0, M))")
    text = text.replace("P / L", "P / cond(L == 0.0, 1.0, L)")
    types = {name: TensorType(DType.F16, (40, 16)) for name in "QKV"}
    assert check(text, types).zeros


def test_queries_that_see_nothing_give_nan_otherwise() -> None:
    types = {name: TensorType(DType.F16, (40, 16)) for name in "QKV"}
    check(BY_HAND.format(scores="cond(index(Z, 1) <= index(Z, 0) - 5, Z, -1e999)"), types)


def test_tiles_that_nobody_sees_are_not_visited() -> None:
    def loop(**options: Any) -> For:
        found = stages(*attention((256, 64), (256, 64), (256, 64), **options))
        return next(
            s
            for s in found.sem.kernels[0].body
            if isinstance(s, For)
            and s.kind is LoopKind.SERIAL
            and any(isinstance(inner, MatrixMultiply) for inner in statements(s.body))
        )

    assert str(loop().end) == "i32(4)"
    assert str(loop(causal=True).end) == "end"  # it depends on the queries of the group


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (BY_HAND.format(scores="Z * 0.5").replace("-> (O)", "-> (O, W)"), "TR441"),
        (BY_HAND.format(scores="Z * -0.5"), "TR442"),
        (BY_HAND.format(scores="tanh(Z)"), "TR442"),
        (BY_HAND.format(scores="cond(index(Z, 1) <= 2 * index(Z, 0), Z, -1e999)"), "TR442"),
        (BY_HAND.format(scores="Z + cond(index(Z, 1) <= index(Z, 0), 0.0, -1e30)"), "TR442"),
        (BY_HAND.format(scores="Z + cond(index(Z, 1) <= index(Z, 0), 0.0, -1e999)"), "TR442"),
        (BY_HAND.format(scores=f"{WINDOW} + cond(index(Z, 1) <= index(Z, 0), 0.0, -9.0)"), "TR442"),
    ],
)
def test_other_programs_are_left_alone_with_a_remark(text: str, code: str) -> None:
    types = {name: TensorType(DType.F16, (48, 32)) for name in "QKV"}
    remarks = Remarks()
    with listening(remarks):
        found = stages(text, types)
    assert found.passed is not None
    assert found.flat is not None
    assert specials(found.passed) == []
    assert len(found.passed.kernels) == len(found.flat.kernels)
    assert code in [made.code for made in remarks.all()]


@pytest.mark.parametrize(
    ("shapes", "dtype", "code"),
    [
        (((40, 64), (40, 64), (40, 64)), DType.F32, "TR429"),
        (((40, 24), (40, 24), (40, 32)), DType.F16, "TR435"),
        (((40, 256), (40, 256), (40, 32)), DType.F16, "TR435"),
        (((40, 20), (40, 20), (40, 32)), DType.F16, "TR443"),
    ],
)
def test_what_instructions_do_not_fit_is_left_alone(
    shapes: tuple[tuple[int, ...], ...], dtype: DType, code: str
) -> None:
    source, types = attention(*shapes, dtype=dtype)
    remarks = Remarks()
    with listening(remarks):
        found = stages(source, types)
    assert specials(found.passed) == []
    assert code in [made.code for made in remarks.all()]


def test_what_follows_may_use_the_result() -> None:
    builder = FunctionBuilder()
    inputs = [builder.input(name, "S", "D") for name in "QKV"]
    result = ops.scaled_dot_product_attention(*inputs)
    types = {name: TensorType(DType.F16, (48, 32)) for name in "QKV"}
    found = stages(builder.build(O=result, twice=ops.softmax(result)), types)
    assert len(specials(found.passed)) == 1  # what follows uses the result alone


def parts(
    shapes: tuple[tuple[int, ...], ...], found: dict[str, np.ndarray[Any, Any]] | None = None, **options: Any
) -> AttentionParameters:
    """Check attention whose keys groups share, at every stage, without races and undefined values."""
    source, types = attention(*shapes, **options)
    made = stages(source, types, groups=6, local_bytes=LOCAL_BYTES)
    assert made.passed is not None
    assert made.flat is not None
    (special,) = specials(made.passed)
    found = values(types) if found is None else found
    wanted = interpret(made.flat, found)["O"].astype(float)
    limit = 4e-3 if types["Q"].dtype is DType.F16 else 3e-2
    for result in (interpret(made.passed, found), run_program(made.sem, found, checks=ALL_CHECKS)):
        np.testing.assert_allclose(result["O"].astype(float), wanted, atol=limit, rtol=limit)
    return AttentionParameters.of(special)


@examples(3)
@given(st.data())
def test_groups_share_the_keys_of_few_queries(data: st.DataObject) -> None:
    draw = data.draw
    keys, sharers = draw(st.integers(256, 330)), draw(st.sampled_from((1, 3)))
    queries = draw(st.integers(1, 20 if sharers == 1 else 2))
    width, columns = (draw(st.sampled_from((16, 32, 80))) for _ in range(2))
    heads = sharers if queries > 1 else 3
    plan = parts(
        ((heads, queries, width), (1, keys, width), (1, keys, columns)),
        dtype=draw(st.sampled_from((DType.F16, DType.BF16))),
    )
    assert plan.parts is not None
    assert plan.parts > 1
    assert plan.stages == 4  # local memory has room for them


@pytest.mark.sampled(0)
def test_parts_in_which_queries_see_nothing_do_not_come_in() -> None:
    shapes = ((3, 32), (300, 32), (300, 32))
    found = values(attention(*shapes)[1], seed=2)
    found["Q"] = np.abs(found["Q"])
    found["K"][:200] = -np.inf
    found["K"][290:] *= np.float16(20)
    plan = parts(shapes, found)
    assert plan.parts is not None
    assert plan.share(300) < 200
    found["K"][:] = -np.inf  # no query sees anything
    parts(shapes, found)


@pytest.mark.parametrize(("queries", "keys", "causal"), [(600, 300, False), (3, 60, False), (20, 300, True)])
def test_keys_are_not_shared_where_there_are_many_groups_or_few_tiles(queries: int, keys: int, causal: bool) -> None:
    source, types = attention((queries, 32), (keys, 32), (keys, 32), causal=causal)
    (special,) = specials(stages(source, types, groups=4, local_bytes=LOCAL_BYTES).passed)
    assert AttentionParameters.of(special).parts is None


def test_vectors_narrower_than_an_element_are_one_element() -> None:
    check(*attention((20, 32), (24, 32), (24, 32)), vector_bytes=1)
