"""Windows of constant weights written out."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.effort import examples
from strategies.passes import assert_same_meaning
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.driver.compiler import compile_stages
from tileir.passes.base import run
from tileir.passes.pipelines.resolution import pipeline_for
from tileir.passes.rewrites.immediates import Immediates
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Block, Constant, Intrinsic, Load, Program
from tileir.stripe.lower.lowering import lower
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

WINDOW = "function (I[H, W], K[KH, KW]) -> (O) { O[y, x : H - KH + 1, W - KW + 1] = +(I[y + j, x + i] * K[j, i]); }"
SOBEL = np.array([[1, 0, -1], [2, 0, -2], [1, 0, -1]])


def program_of(source: str, arrays: dict[str, Any], **bound: Any) -> Program:
    types = {name: TensorType(DType.of(array.dtype), array.shape) for name, array in arrays.items()}  # type: ignore[arg-type]
    return lower(infer(tileir.bind(source, bound), types))


def body(program: Program) -> Block:
    (kernel,) = program.main.blocks
    return kernel


def picture(dtype: str = "f4", shape: tuple[int, ...] = (6, 7)) -> Any:
    return np.random.default_rng(0).integers(-8, 8, shape).astype(dtype)


def test_each_weight_is_an_immediate_value() -> None:
    image = picture()
    before = program_of(WINDOW, {"I": image}, K=np.arange(1, 5, dtype=np.float32).reshape(2, 2))
    after = run((Immediates(),), before)
    kernel = body(after)
    assert [index.name for index in kernel.indices] == ["x", "y"]
    assert sorted(s.value for s in kernel.statements if isinstance(s, Constant)) == [0, 1, 2, 3, 4]
    assert sum(isinstance(s, Load) for s in kernel.statements) == 4
    assert "contraction" not in kernel.tags
    assert kernel.comments[-1] == "written out: 4 of 4 terms, with constants as immediate values"
    assert_same_meaning(before, after, {"I": image})


@pytest.mark.parametrize(
    ("source", "dtype", "terms"),
    [
        (WINDOW, "f4", 9),  # infinity times 0 is NaN
        (WINDOW.replace("O[y", "[[finite]] O[y"), "f4", 6),
        (WINDOW, "i4", 6),
        (WINDOW.replace("O[y", "B = as_float(I, 32); O[y").replace("+(I", "+(B"), "u1", 9),  # joined by inline later
    ],
)
def test_terms_of_0_are_left_out_where_that_changes_nothing(source: str, dtype: str, terms: int) -> None:
    image = picture(dtype)
    before = program_of(source, {"I": image}, K=SOBEL.astype("f4" if dtype == "u1" else dtype))
    after = run((Immediates(),), before)
    assert f"written out: {terms} of 9 terms" in after.main.blocks[-1].comments[-1]
    assert_same_meaning(before, after, {"I": image})


@pytest.mark.parametrize(("dtype", "weights"), [("u1", "f4"), ("i2", "f4"), ("u2", "f2"), ("i8", "f8"), ("?", "f4")])
def test_what_was_an_integer_is_finite(dtype: str, weights: str) -> None:
    after = run((Immediates(),), program_of(WINDOW, {"I": picture(dtype)}, K=SOBEL.astype(weights)))
    assert "6 of 9 terms" in after.main.blocks[0].comments[-1]


def test_infinity_times_0_stays_nan() -> None:
    image = picture()
    image[2, 2], image[4, 4] = np.inf, np.nan
    before = program_of(WINDOW, {"I": image}, K=SOBEL.astype("f4"))
    assert_same_meaning(before, run((Immediates(),), before), {"I": image})


def test_sums_are_never_negative_zero() -> None:
    before = program_of(WINDOW, {"I": picture()}, K=np.array([[1, 2]], np.float32))
    result = interpret(run((Immediates(),), before), {"I": np.full((6, 7), -0.0, np.float32)})["O"]
    assert not np.signbit(result).any()


def test_zero_weights_give_0() -> None:
    before = program_of(WINDOW, {"I": picture("i4")}, K=np.zeros((2, 2), np.int32))
    after = run((Immediates(),), before)
    assert not any(isinstance(s, Load) for s in body(after).statements)
    assert_same_meaning(before, after, {"I": picture("i4")})


@pytest.mark.sampled(13)
@pytest.mark.parametrize("aggregation", ["+", "*", ">", "<"])
@pytest.mark.parametrize("combination", ["+", "*", "=="])
@pytest.mark.parametrize("finite", ["", "[[finite]] "])
def test_all_aggregations(aggregation: str, combination: str, finite: str) -> None:
    source = WINDOW.replace("+(", f"{aggregation}(").replace("* K", f"{combination} K").replace("O[y", f"{finite}O[y")
    limit = {">": -np.inf, "<": np.inf}.get(aggregation, 0)
    weights = np.array([[0, limit], [1, 2]], np.float32)
    before = program_of(source, {"I": picture()}, K=weights)
    after = run((Immediates(),), before)
    assert after is not before
    with np.errstate(all="ignore"):
        assert_same_meaning(before, after, {"I": picture()})


def test_flat_structuring_elements_have_a_term_for_each_element() -> None:
    source = WINDOW.replace("+(", ">(").replace("* K", "+ K").replace("O[y", "[[finite]] O[y")
    cross = np.where(np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]]), 0, -np.inf).astype(np.float32)
    after = run((Immediates(),), program_of(source, {"I": picture()}, K=cross))
    assert "5 of 9 terms" in body(after).comments[-1]


@pytest.mark.parametrize(
    ("source", "shapes", "weights"),
    [
        ("function (I[N], K[M]) -> (O) { O[x : N] = +(I[x + j] * K[j]); }", {"I": (9,)}, (3,)),  # edges are tests
        ("function (I[N], K[M]) -> (O) { O[x, j : N, M] = =(I[x] * K[j]); }", {"I": (4,)}, (3,)),
        ("function (I[N], K[N]) -> (O) { O[] = +(I[x] * K[x]); }", {"I": (40,)}, (40,)),  # too long
        ("function (I[N], K[N]) -> (O) { O[x : N] = +(I[x] * K[x]); }", {"I": (4,)}, (4,)),  # no window
        ("function (I[N, C], K[M]) -> (O) { O[x : N - M + 1] = +(I[x + j, c] * K[j]); }", {"I": (5, 4)}, (3,)),
        ("function (I[N], K[M, C]) -> (O) { O[x, c : N - M + 1, C] = +(I[x + j] * K[j, c]); }", {"I": (5,)}, (3, 2)),
    ],
)
def test_others_stay(source: str, shapes: dict[str, tuple[int, ...]], weights: tuple[int, ...]) -> None:
    arrays = {name: picture(shape=shape) for name, shape in shapes.items()}
    before = program_of(source, arrays, K=picture(shape=weights))
    assert run((Immediates(),), before) is before


def test_longer_windows_stay_loops() -> None:
    before = program_of(WINDOW, {"I": picture()}, K=np.ones((4, 4), np.float32))
    assert run((Immediates(terms=15),), before) is before
    sparse = program_of(WINDOW, {"I": picture("i4")}, K=np.eye(4, dtype=np.int32))
    assert run((Immediates(terms=3, sparse=3),), sparse) is sparse
    assert run((Immediates(terms=3, sparse=4),), sparse) is not sparse
    fuller = program_of(WINDOW, {"I": picture("i4")}, K=np.tri(4, dtype=np.int32))
    assert run((Immediates(terms=9, sparse=99),), fuller) is fuller
    assert run((Immediates(weights=15),), before) is before
    assert run((Immediates(terms=16),), before) is not before


@st.composite
def windows(draw: st.DrawFn) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Strided and dilated windows over one or two axes, of all dtypes, with zeros among the weights."""
    rank = draw(st.integers(1, 2))
    stride, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    taps = tuple(draw(st.integers(1, 3)) for _ in range(rank))
    sizes = tuple((t - 1) * dilation + 1 + stride * draw(st.integers(0, 4)) for t in taps)
    left = draw(st.sampled_from(DType))
    right = draw(st.sampled_from(DType))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    image = rng.integers(-3, 4, sizes).astype(left.numpy)
    weights = rng.integers(-1, 2, taps).astype(right.numpy)
    names = "NM"[:rank]
    output = ", ".join(f"{i}" for i in "xy"[:rank])
    extent = ", ".join(f"({n} - {(t - 1) * dilation + 1}) / {stride} + 1" for n, t in zip(names, taps, strict=True))
    read = ", ".join(f"{stride} * {i} + {dilation} * {k}" for i, k in zip("xy", "ij"[:rank], strict=False))
    aggregation = draw(st.sampled_from("+*><"))
    combination = draw(st.sampled_from(["*", "+"]))
    mark = draw(st.sampled_from(["", "[[finite]] "]))
    source = (
        f"function (I[{', '.join(names)}], K[{', '.join('PQ'[:rank])}]) -> (O) {{ {mark}O[{output} : {extent}] ="
        f" {aggregation}(I[{read}] {combination} K[{', '.join('ij'[:rank])}]); }}"
    )
    return source, {"I": image}, {"K": weights}


@given(case=windows())
@examples(150)
def test_drawn_windows(case: tuple[str, dict[str, Any], dict[str, Any]]) -> None:
    source, arrays, bound = case
    with np.errstate(all="ignore"):
        before = program_of(source, arrays, **bound)
        after = run((Immediates(),), before)
        assert_same_meaning(before, after, arrays)
        target = Target(vector_bytes=16)
        stages = compile_stages(
            tileir.bind(source, bound),
            {name: TensorType(DType.of(array.dtype), array.shape) for name, array in arrays.items()},  # type: ignore[arg-type]
            target,
            passes=pipeline_for(target),
        )
        scheduled = interpret(stages.scheduled, arrays)["O"]
        np.testing.assert_array_equal(scheduled, interpret(before, arrays)["O"])


def test_what_is_left_of_a_chain_runs_on_a_device() -> None:
    source = """function (I[H, W], K[KH, KW], L[KH, KW]) -> (O) {
      B = as_float(I, 32) * 0.5;
      [[finite]] X[y, x : H - KH + 1, W - KW + 1] = +(B[y + j, x + i] * K[j, i]);
      [[finite]] Y[y, x : H - KH + 1, W - KW + 1] = +(B[y + j, x + i] * L[j, i]);
      O = sqrt(X * X + Y * Y);
    }"""
    image = np.random.default_rng(1).integers(0, 255, (40, 70)).astype(np.uint8)
    function = tileir.bind(source, K=SOBEL.astype(np.float32), L=SOBEL.T.astype(np.float32))
    np.testing.assert_allclose(tileir.jit(function)(image), tileir.evaluate(function, image), rtol=1e-6)
    executable = tileir.compile(function, [image])
    assert "K" not in {buffer.name for buffer in executable.sem.buffers}


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match="terms must be at least 0"):
        Immediates(terms=-1)
    assert attrs.evolve(Immediates(), finite=True).finite


def test_products_are_rounded_with_their_sum() -> None:
    after = run((Immediates(),), program_of(WINDOW, {"I": picture()}, K=np.ones((2, 2), np.float32)))
    assert {s.op.value for s in body(after).statements if isinstance(s, Intrinsic)} == {"fma"}
