"""Gradients of attention in kernels that compute weights again: found in programs, and equal to exact gradients."""

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
from tileir.core.fragments import named
from tileir.core.targets.target import Target
from tileir.driver.compiler import compile_stages
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import with_kernels
from tileir.passes.fusion.attention import FuseAttention
from tileir.schedule.remarks import Remarks, listening
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.ir import WarpRole
from tileir.stripe.attention import ATTEND, ATTEND_BACK, AttentionParameters
from tileir.stripe.check.verifier import diagnose
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Special
from tileir.tile.builder_functions import as_like, gradient, index, where
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.driver.compiler import Stages
    from tileir.tile.ir import Function

    Array = np.ndarray[Any, Any]

FRAGMENTS = ("mma_m16n8k16_f16", "mma_m16n8k16_bf16")
TARGET = Target(
    index_dtype=DType.I32, group_threads=256, alignment=256, vector_bytes=16, async_copies=True, fragments=FRAGMENTS
)
LOCAL_BYTES = 227 * 1024
Shape = tuple[int, ...]


def attended(
    q: Any, k: Any, v: Any, *, before: int | None = None, after: int | None = None, hidden: float = -math.inf
) -> Any:
    """Return attention of one head in a band, by hand."""
    scores = ops.matmul(q, ops.transpose(k)) * 32**-0.5
    columns, rows = index(scores, 1), index(scores, 0)
    if after is not None and math.isfinite(hidden):
        scores = scores + where(columns <= rows + after, as_like(0.0, scores), hidden)
    elif after is not None:
        scores = where(columns <= rows + after, scores, -math.inf)
    if before is not None:
        scores = where(rows - before <= columns, scores, -math.inf)
    return ops.matmul(ops.softmax(scores), v)


def program(
    shapes: tuple[Shape, Shape, Shape],
    dtype: DType,
    attention: Callable[..., Any],
    *,
    forward: bool = True,
    more: Callable[[dict[str, Any]], Any] | None = None,
) -> tuple[Function, dict[str, TensorType]]:
    """Return the gradients of attention, given that of its result, which is an output as well with ``forward``."""
    builder = FunctionBuilder()
    every = (*shapes, (*shapes[0][:-1], shapes[2][-1]))
    tensors = {
        name: builder.input(name, *(f"{name}{n}" for n in range(len(shape))))
        for name, shape in zip("QKVG", every, strict=True)
    }
    result = attention(*(tensors[name] for name in "QKV"))
    loss = ops.sum(result * tensors["G"])
    results = {f"d{name}": gradient(loss, tensors[name]) for name in "QKV"} | ({"O": result} if forward else {})
    if more is not None:
        results["more"] = more(results | tensors)
    types = {name: TensorType(dtype, shape) for name, shape in zip("QKVG", every, strict=True)}
    return builder.build(**results), types


def exact(given_values: dict[str, Array], before: int | None, after: int | None) -> dict[str, Array]:
    """Return attention and its gradients in f64; some heads may share keys."""
    q, k, v, g = (np.atleast_3d(given_values[name].astype(float)) for name in "QKVG")
    if given_values["Q"].ndim == 2:
        q, k, v, g = (given_values[name].astype(float)[None] for name in "QKVG")
    shared = q.shape[-3] // k.shape[-3]
    keys, values = (np.repeat(each, shared, -3) for each in (k, v))
    scale = q.shape[-1] ** -0.5
    scores = q @ keys.swapaxes(-1, -2) * scale
    rows, columns = np.ogrid[: scores.shape[-2], : scores.shape[-1]]
    if after is not None:
        scores[..., columns > rows + after] = -np.inf
    if before is not None:
        scores[..., columns < rows - before] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    given = g @ values.swapaxes(-1, -2)
    change = weights * (given - (weights * given).sum(-1, keepdims=True)) * scale

    def summed(each: Array, name: str) -> Array:
        *batch, heads, length, width = each.shape
        parts: Array = each.reshape(*batch, heads // shared, shared, length, width)
        total: Array = parts.sum(-3)
        return total.reshape(given_values[name].shape)

    return {
        "O": (weights @ values).reshape(given_values["G"].shape),
        "dQ": (change @ keys).reshape(given_values["Q"].shape),
        "dK": summed(change.swapaxes(-1, -2) @ q, "K"),
        "dV": summed(weights.swapaxes(-1, -2) @ g, "V"),
    }


def stages(source: Function, types: dict[str, TensorType], *, whole: bool = False, boxes: bool = False) -> Stages:
    """Compile for warps, or for ``whole`` groups of four, of which one may copy ``boxes`` for others."""
    fragments = (*named("sm_90a"), *FRAGMENTS) if whole else FRAGMENTS
    target = attrs.evolve(TARGET, fragments=fragments, bulk_copies=boxes)
    return compile_stages(
        source, types, target, passes=(FuseAttention(fragments, local_bytes=LOCAL_BYTES), Accumulate())
    )


def plans(found: Stages) -> list[tuple[str, int, AttentionParameters]]:
    """Return the specials of a program: names, how many outputs they have, and parameters."""
    assert found.passed is not None
    specials = [s for block in found.passed.main.blocks for s in block.statements if isinstance(s, Special)]
    return [(special.name, len(special.outputs), AttentionParameters.of(special)) for special in specials]


def values(types: dict[str, TensorType], seed: int = 0) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    return {name: random.standard_normal(t.shape).astype(t.dtype.numpy) for name, t in types.items()}


def check(found: Stages, given_values: dict[str, Array], before: int | None, after: int | None) -> None:
    """Check that a program is right at every stage, without races and undefined values."""
    assert found.passed is not None
    assert [name for name, _, _ in plans(found)] == [ATTEND, ATTEND_BACK, ATTEND_BACK]
    wanted = exact(given_values, before, after)
    limit = 3e-3 if given_values["Q"].dtype == np.float16 else 2e-2
    for result in (interpret(found.passed, given_values), run_program(found.sem, given_values, checks=ALL_CHECKS)):
        for name, array in result.items():
            error = np.linalg.norm(array.astype(float) - wanted[name]) / np.linalg.norm(wanted[name])
            assert error < limit, (name, error)


@examples(4)
@given(st.data())
def test_gradients_of_any_sizes_are_three_kernels(data: st.DataObject) -> None:
    draw = data.draw
    heads, shared = draw(st.sampled_from(((1, 1), (2, 1))))
    queries, keys = draw(st.integers(2, 40)), draw(st.integers(2, 50))
    width, columns = (draw(st.sampled_from((16, 32, 48, 80))) for _ in range(2))
    dtype, causal = draw(st.sampled_from((DType.F16, DType.BF16))), draw(st.booleans())
    batch = draw(st.sampled_from(((), (1,))))
    shapes = ((*batch, heads, queries, width), (*batch, shared, keys, width), (*batch, shared, keys, columns))
    source, types = program(
        shapes, dtype, lambda *t: ops.scaled_dot_product_attention(*t, causal=causal), forward=draw(st.booleans())
    )
    check(stages(source, types), values(types), None, 0 if causal else None)


@pytest.mark.sampled(0)
@pytest.mark.parametrize(
    ("shapes", "dtype", "causal", "boxes"),
    [
        (((40, 32), (66, 32), (66, 64)), DType.F16, False, False),
        (((70, 64), (80, 64), (80, 32)), DType.BF16, True, False),
        (((40, 128), (66, 128), (66, 128)), DType.F16, True, False),
        (((2, 40, 128), (1, 66, 128), (1, 66, 128)), DType.F16, True, True),
    ],
)
def test_groups_of_four_warps_compute_gradients(
    shapes: tuple[Shape, Shape, Shape], dtype: DType, causal: bool, boxes: bool
) -> None:
    source, types = program(shapes, dtype, lambda *t: ops.scaled_dot_product_attention(*t, causal=causal))
    found = stages(source, types, whole=True, boxes=boxes)
    assert any(isinstance(stmt, WarpRole) for each in found.sem.kernels for stmt in each.body) is boxes
    assert [plan.threads for name, _, plan in plans(found) if name == ATTEND_BACK] == [128, 128]
    check(found, values(types), None, 0 if causal else None)


@pytest.mark.sampled(0)
@pytest.mark.parametrize(("before", "after"), [(5, 3), (7, None), (None, 2), (20, -1)])
def test_keys_see_queries_in_the_band_that_queries_see_them_in(before: int | None, after: int | None) -> None:
    shape = (50, 32)
    source, types = program((shape,) * 3, DType.F16, lambda *t: attended(*t, before=before, after=after))
    found = stages(source, types)
    rows, columns = (plan for name, _, plan in plans(found) if name == ATTEND_BACK)
    assert (rows.before, rows.after) == (columns.after, columns.before) == (before, after)
    if after != -1:
        check(found, values(types), before, after)


@pytest.mark.sampled(0)
def test_hidden_keys_get_gradients_where_numbers_are_added_to_scores() -> None:
    shape = (50, 32)
    source, types = program((shape,) * 3, DType.F16, lambda *t: attended(*t, after=2, hidden=-3.0))
    found, given_values = stages(source, types), values(types)
    assert [plan.hidden for _, _, plan in plans(found)] == [-3.0] * 3
    assert found.flat is not None
    wanted, result = interpret(found.flat, given_values), run_program(found.sem, given_values, checks=ALL_CHECKS)
    for name, array in wanted.items():
        np.testing.assert_allclose(result[name].astype(float), array.astype(float), atol=2e-2, rtol=2e-2)


@pytest.mark.sampled(0)
def test_great_scores_give_finite_gradients() -> None:
    shape = (40, 32)
    source, types = program((shape,) * 3, DType.F16, attended)
    given_values = values(types)
    given_values["Q"] *= np.float16(12)
    given_values["K"] *= np.float16(12)  # sums of exponentials are beyond f32
    check(stages(source, types), given_values, None, None)


def wide(x: Any) -> Any:
    return ops.cast(x, DType.F32)


def with_kept(q: Any, k: Any, v: Any, g: Any, out: Any, logs: Any, *, after: int | None, zeros: bool) -> dict[str, Any]:
    """Return gradients by the result and the logarithms of sums of exponentials that a pass before has kept."""
    scores = ops.matmul(wide(q), wide(ops.swapaxes(k, -1, -2))) * 32**-0.5
    if after is not None:
        scores = where(index(scores, 2) <= index(scores, 1) + after, scores, -math.inf)
    if zeros:
        logs = where(logs == -math.inf, math.inf, logs)
    weights = ops.exp(scores - ops.expand_dims(logs, 2))
    dots = ops.sum(wide(g) * wide(out), [2], keepdims=True)
    changes = weights * (ops.matmul(wide(g), wide(ops.swapaxes(v, -1, -2))) - dots) * 32**-0.5
    changes, weights = (wide(as_like(each, q)) for each in (changes, weights))
    return {
        "dQ": as_like(ops.matmul(changes, k), q),
        "dK": as_like(ops.matmul(ops.swapaxes(changes, -1, -2), q), q),
        "dV": as_like(ops.matmul(ops.swapaxes(weights, -1, -2), g), q),
    }


@pytest.mark.sampled(0)
@pytest.mark.parametrize(("after", "zeros"), [(None, False), (0, True), (-3, True)])
def test_gradients_by_what_is_kept_are_two_kernels_of_attention(after: int | None, zeros: bool) -> None:
    shapes = {"Q": (2, 40, 32), "K": (2, 50, 32), "V": (2, 50, 48), "G": (2, 40, 48), "O": (2, 40, 48), "L": (2, 40)}
    builder = FunctionBuilder()
    tensors = [builder.input(name, *(f"{name}{n}" for n in range(len(s)))) for name, s in shapes.items()]
    q, k, v, g, out, logs = tensors
    source = builder.build(**with_kept(q, k, v, g, out, logs, after=after, zeros=zeros))
    types = {name: TensorType(DType.F32 if name == "L" else DType.F16, shape) for name, shape in shapes.items()}
    found = values(types)
    scores = found["Q"].astype(float) @ found["K"].astype(float).swapaxes(1, 2) * 32**-0.5
    seen = np.ones((40, 50), bool) if after is None else np.tri(40, 50, after, dtype=bool)
    scores[:, ~seen] = -np.inf
    with np.errstate(divide="ignore", invalid="ignore"):
        logs_of = np.log(np.exp(scores).sum(-1))
    weights = np.where(seen, np.exp(scores - np.where(np.isneginf(logs_of), np.inf, logs_of)[..., None]), 0.0)
    found["L"] = logs_of.astype(np.float32)
    found["O"] = (weights @ found["V"].astype(float)).astype(np.float16)
    given_rows = found["G"].astype(float)
    change = given_rows @ found["V"].astype(float).swapaxes(1, 2)
    change = weights * (change - (weights * change).sum(-1, keepdims=True)) * 32**-0.5
    wanted = {
        "dQ": change @ found["K"].astype(float),
        "dK": change.swapaxes(1, 2) @ found["Q"].astype(float),
        "dV": weights.swapaxes(1, 2) @ given_rows,
    }
    made = stages(source, types)
    assert made.passed is not None
    assert [name for name, _, _ in plans(made)] == [ATTEND_BACK, ATTEND_BACK]
    for result in (interpret(made.passed, found), run_program(made.sem, found, checks=ALL_CHECKS)):
        for name, array in wanted.items():
            assert np.linalg.norm(result[name].astype(float) - array) < 3e-3 * np.linalg.norm(array)


@pytest.mark.sampled(0)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16])
def test_logarithms_of_sums_come_with_results(causal: bool, dtype: DType) -> None:
    builder = FunctionBuilder()
    q, k, v = (builder.input(name, *(f"{name}{n}" for n in range(4))) for name in "QKV")
    result, _, _, sums = ops.attention(q, k, v, causal=causal, scores="sums")
    types = {name: TensorType(dtype, (1, 2 if name == "Q" else 1, 70, 32)) for name in "QKV"}
    made = stages(builder.build(O=result, L=sums), types)
    assert made.passed is not None
    assert [(name, outputs) for name, outputs, _ in plans(made)] == [(ATTEND, 2)]
    assert len(made.sem.kernels) == 2
    found = values(types)
    queries, keys, rows = (found[name].astype(float) for name in "QKV")
    scores = queries @ keys.swapaxes(-1, -2) * 32**-0.5
    scores[..., ~np.tri(70, dtype=bool) & causal] = -np.inf
    total = np.exp(scores).sum(-1)
    limit = 4e-3 if dtype is DType.F16 else 3e-2
    for each in (interpret(made.passed, found), run_program(made.sem, found, checks=ALL_CHECKS)):
        np.testing.assert_allclose(each["L"].astype(float), np.log(total), atol=limit)
        wanted = np.exp(scores) @ rows / total[..., None]
        np.testing.assert_allclose(each["O"].astype(float), wanted, atol=limit, rtol=limit)


@pytest.mark.parametrize(
    ("more", "left"),
    [
        (lambda t: ops.softmax(ops.matmul(t["Q"], ops.transpose(t["K"])) * 32**-0.5), 0),
        (lambda t: t["dQ"] + t["dK"] * t["O"], 3),
    ],
)
def test_results_may_be_used_and_weights_may_not(more: Callable[..., Any], left: int) -> None:
    shape = (40, 32)
    source, types = program((shape,) * 3, DType.F16, attended, more=more)
    remarks = Remarks()
    with listening(remarks):
        found = stages(source, types)
    assert len(plans(found)) == left
    assert ("TR441" in [made.code for made in remarks.all()]) == (left == 0)


@pytest.mark.sampled(0)
def test_gradients_of_a_layer_use_the_attention_itself() -> None:
    """The result is multiplied again, and the gradients of parts of one tensor come together."""
    builder = FunctionBuilder()
    x, out = builder.input("X", "N", "T", "E"), builder.input("W", "F", "H")
    parts = ops.permute(ops.reshape(x, x.dims[0], x.dims[1], 3, 2, 32), (2, 0, 3, 1, 4))
    query, key, value = ops.unstack(parts, 3)
    mixed = ops.permute(ops.scaled_dot_product_attention(query, key, value), (0, 2, 1, 3))
    result = ops.matmul(ops.reshape(mixed, x.dims[0], x.dims[1], 64), out)
    loss = ops.sum(result * result)
    source = builder.build(dX=gradient(loss, x), dW=gradient(loss, out))
    types = {"X": TensorType(DType.BF16, (1, 24, 192)), "W": TensorType(DType.BF16, (64, 16))}
    given_values = values(types)
    found = stages(source, types)
    assert [name for name, _, _ in plans(found)] == [ATTEND, ATTEND_BACK, ATTEND_BACK]
    wide = {name: TensorType(DType.F32, t.shape) for name, t in types.items()}
    reference = compile_stages(source, wide, TARGET, passes=(Accumulate(),))
    assert reference.flat is not None
    wanted = interpret(reference.flat, {name: array.astype(np.float32) for name, array in given_values.items()})
    result_of_pass = run_program(found.sem, given_values, checks=ALL_CHECKS)
    for name, array in wanted.items():
        assert np.linalg.norm(result_of_pass[name].astype(float) - array) < 3e-2 * np.linalg.norm(array)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("number", "change", "words"),
    [
        (1, lambda s: attrs.evolve(s, inputs=(*s.inputs[:2], *s.inputs[3:1:-1], *s.inputs[4:])), "needs rows"),
        (1, lambda s: attrs.evolve(s, inputs=(*s.inputs[:4], s.inputs[0], s.inputs[5])), "needs rows"),
        (2, lambda s: attrs.evolve(s, outputs=s.outputs[:1]), "needs rows"),
        (2, lambda s: attrs.evolve(s, outputs=s.outputs[::-1]), "outputs like its rows"),
        (0, lambda s: attrs.evolve(s, outputs=(s.outputs[0],) * 2), "logarithms in f32"),
        (0, lambda s: attrs.evolve(s, parameters=(*s.parameters, ("parts", 2))), "two axes"),
    ],
)
def test_specials_with_views_that_do_not_fit_are_refused(
    number: int, change: Callable[[Special], Special], words: str
) -> None:
    source, types = program(((40, 32), (56, 32), (56, 48)), DType.F16, attended, forward=False)
    found = stages(source, types).passed
    assert found is not None
    blocks = list(found.main.blocks)
    places = [n for n, block in enumerate(blocks) if any(isinstance(s, Special) for s in block.statements)]
    block = blocks[places[number]]
    blocks[places[number]] = attrs.evolve(block, statements=(change(block.statements[0]),))  # type: ignore[arg-type]
    faults = diagnose(with_kernels(found, tuple(blocks)))
    assert any(words in fault.message for fault in faults), faults


def with_causal(t: dict[str, Any]) -> dict[str, Any]:
    loss = ops.sum(attended(*(t[name] for name in "QKV")) * t["G"])
    return gradients_of(loss, t) | {"O": attended(t["Q"], t["K"], t["V"], after=0)}


def with_other_values(t: dict[str, Any]) -> dict[str, Any]:
    loss = ops.sum(attended(t["Q"], t["K"], t["V"]) * t["G"])
    return gradients_of(loss, t) | {"O": attended(t["Q"], t["K"], t["H"])}


def gradients_of(loss: Any, t: dict[str, Any], names: str = "QKV") -> dict[str, Any]:
    return {f"d{name}": gradient(loss, t[name]) for name in names}


def of_two_losses(first: str, second: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return what makes some gradients of one loss, and some of another one, of one attention."""

    def made(t: dict[str, Any]) -> dict[str, Any]:
        result = attended(t["Q"], t["K"], t["V"])
        one, other = (ops.sum(result * t[name]) for name in "GH")
        return gradients_of(one, t, first) | gradients_of(other, t, second)

    return made


def scaled_otherwise(t: dict[str, Any]) -> dict[str, Any]:
    scores = ops.matmul(t["Q"], ops.transpose(t["K"]))
    one, other = (ops.sum(ops.matmul(ops.softmax(scores * scale), t["V"]) * t["G"]) for scale in (0.2, 0.5))
    return gradients_of(one, t, "QK") | gradients_of(other, t, "V")


def heads(t: dict[str, Any]) -> dict[str, Any]:
    """Return gradients where some of the inputs, which have two axes, are shared by heads."""
    turned = ops.permute(t["K"], (*range(len(t["K"].dims) - 2), -1, -2))
    result = ops.matmul(ops.softmax(ops.matmul(t["Q"], turned) * 32**-0.5), t["V"])
    return gradients_of(ops.sum(result * t["G"]), t) | {"O": result}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("make", "shared", "names"),
    [
        (with_causal, "QKVG", "QKVG"),
        (with_other_values, "QKVGH", "QKVGH"),
        (of_two_losses("QK", "V"), "QKVGH", "QKVGH"),
        (of_two_losses("QV", "K"), "QKVGH", "QKVGH"),
        (of_two_losses("KV", "Q"), "QKVGH", "QKVGH"),
        (scaled_otherwise, "QKVG", "QKVG"),
        *((heads, shared, "QKVG") for shared in ("Q", "V", "G", "KV", "QK")),
    ],
)
def test_parts_of_several_attentions_stay_apart(
    make: Callable[[dict[str, Any]], dict[str, Any]], shared: str, names: str
) -> None:
    """They share queries and keys, but not the rest; or some heads share what others have for themselves."""
    builder = FunctionBuilder()
    shapes = {name: (20, 16) if name in shared else (2, 20, 16) for name in names}
    tensors = {name: builder.input(name, *(f"{name}{n}" for n in range(len(s)))) for name, s in shapes.items()}
    source = builder.build(**make(tensors))
    types = {name: TensorType(DType.F16, shape) for name, shape in shapes.items()}
    given_values = values(types)
    found = stages(source, types)
    wide = {name: TensorType(DType.F64, shape) for name, shape in shapes.items()}
    reference = compile_stages(source, wide, TARGET, passes=(Accumulate(),)).flat
    assert reference is not None
    assert found.passed is not None
    wanted = interpret(reference, {name: array.astype(float) for name, array in given_values.items()})
    result = interpret(found.passed, given_values)
    for name, array in wanted.items():
        assert np.linalg.norm(result[name].astype(float) - array) < 3e-3 * np.linalg.norm(array), name
