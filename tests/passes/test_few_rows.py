"""Rows that are too few to keep a card busy one by one: a group takes each, instead of a launch for every step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.effort import examples
from strategies.passes import assert_same_meaning
from tileir import ops
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.core.targets.target_file import hardware_of, with_facts
from tileir.driver.compiler import compile_stages
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.algorithms.split_reduction import SplitReduction
from tileir.passes.base import run
from tileir.passes.fusion.fuse import Fusion
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret as interpret_typed
from tileir.typed.ir import TensorType
from tileir_cuda.architectures import ARCHITECTURES, target_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.driver.compiler import Stages

CARDS: Final = {
    row.name: target_of(row, row.card, row.multiprocessors, row.cache_bytes) for row in ARCHITECTURES.values()
}
HOPPER: Final = CARDS["sm_90a"]
OPENCL: Final = with_facts(Target(pipeline="nvidia-hopper"))

ROWS: Final[dict[str, Callable[..., Any]]] = {
    "softmax": ops.softmax,
    "log softmax": ops.log_softmax,
    "layer norm": ops.layer_norm,
    "rms norm": ops.rms_norm,
    "unit length": ops.l2_normalise,
    "range": lambda x: (x - ops.min(x, -1, keepdims=True)) / (1.0 + ops.max(x, -1, keepdims=True)),
    "centred": lambda x: x - ops.mean(x, -1, keepdims=True),
    "gelu of a norm": lambda x: ops.gelu(ops.layer_norm(x) * 2.0 + 1.0),
    "softmax of what is read": lambda x: ops.softmax(x) * x,
    "spread": lambda x: ops.std(x, -1),
    "logarithm of a sum": lambda x: ops.logsumexp(x, -1),
    "sum": lambda x: ops.sum(x, -1, keepdims=True),
}


def compiled(name: str, shape: tuple[int, ...], dtype: DType, target: Target) -> Stages:
    builder = tileir.FunctionBuilder()
    result = ROWS[name](builder.input("X", *(f"D{axis}" for axis in range(len(shape)))))
    return compile_stages(builder.build(R=result), {"X": TensorType(dtype, shape)}, target)


SHAPES: Final = ((1, 7), (64, 96), (5, 1000), (256, 4096), (1, 50257), (8, 128, 768), (2048, 16), (3, 3, 31), (1023, 2))


@pytest.mark.sampled(7)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_each_is_one_kernel(name: str, shape: tuple[int, ...]) -> None:
    program = compiled(name, shape, DType.F32, HOPPER).sem
    assert len(program.works) == 1
    (kernel,) = program.kernels
    assert kernel.operations <= 4096 * math.prod(kernel.grid) * math.prod(kernel.group)  # threads share a row


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.F32, DType.F64])
@pytest.mark.parametrize("card", CARDS)
def test_all_cards_decide_alike(card: str, dtype: DType) -> None:
    for shape in ((64, 96), (256, 4096), (1, 8192)):
        assert len(compiled("softmax", shape, dtype, CARDS[card]).sem.works) == 1


def test_what_the_card_and_the_target_file_say_is_the_same() -> None:
    """The one with 48 KiB for a group, as OpenCL has it, keeps rows of up to 128 KiB in registers."""
    assert hardware_of(HOPPER) == hardware_of(OPENCL)
    for shape in ((64, 96), (256, 4096), (1, 32768)):
        assert len(compiled("softmax", shape, DType.F32, OPENCL).sem.works) == 1


@pytest.mark.parametrize(
    ("shape", "works"),
    [
        ((600, 50257), 1),  # exponentials in 196 KiB of shared memory
        ((600, 70000), 1),  # more than a group has: computed again
        ((16, 70000), 1),
        ((2048, 100000), 1),
        ((1, 131072), 3),  # a group alone would take longer than launches do
    ],
)
def test_rows_are_joined_as_far_as_they_fit(shape: tuple[int, int], works: int) -> None:
    found = compiled("softmax", shape, DType.F32, HOPPER).sem
    assert len(found.works) == works


@given(
    name=st.sampled_from(sorted(ROWS)),
    shape=st.one_of(
        st.tuples(st.integers(1, 6), st.integers(1, 200)),
        st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 70)),
    ),
    card=st.sampled_from([HOPPER, OPENCL, Target(vector_bytes=16, threads=2, group_threads=16, group_width=4,
                                                  local_bytes=2048, index_dtype=DType.I32, pipeline="gpu")]),
    seed=st.integers(0, 1000),
)  # fmt: skip
@examples(25)
def test_rows_mean_the_same(name: str, shape: tuple[int, ...], card: Target, seed: int) -> None:
    stages = compiled(name, shape, DType.F32, card)
    values = {"X": np.random.default_rng(seed).standard_normal(shape).astype(np.float32)}
    found = run_program(stages.sem, values, ALL_CHECKS)
    assert stages.graph is not None
    np.testing.assert_allclose(found["R"], interpret_typed(stages.graph, values)["R"], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("rows", "few_bytes", "kernels"), [(4, 0, 2), (4, 255, 2), (4, 256, 1), (8, 0, 1), (1, 256, 1)]
)
def test_few_rows_are_joined_where_each_is_short(rows: int, few_bytes: int, kernels: int) -> None:
    text = "function (X[M, N]) -> (O) { P[m, 0 : M, 1] = >(X[m, n]); O = X - P; }"
    flat = lower(infer(parse(text), {"X": TensorType(DType.F32, (rows, 64))}))
    fusion = Fusion(rows=True, least_row=1, least_points=8, few_bytes=few_bytes)
    joined = run((Accumulate(), fusion), flat)
    assert len(joined.main.blocks) == kernels
    assert_same_meaning(flat, joined)


WRITTEN_TWICE: Final = {
    "maxima over what is there": "R[k, l : 2, 3] = <(X[l] + X[i]); O[i : 2] = >(R[2 * i + j, j]) default X;",
    "sums among what is there": "O[2 * i : 2] = +(X[i + j]), j < 2 default X;",
    "a row over another": "Y = X * 2; O[i : 2] = =(Y[1 - i]) default X;",
    "results among zeros": "P[0 : 1] = >(X[i]); E = X - P; O[1 + 2 * i : 5] = =(E[i]);",
}


@pytest.mark.parametrize("name", WRITTEN_TWICE)
@pytest.mark.parametrize("card", [HOPPER, OPENCL], ids=["cuda", "opencl"])
def test_rows_that_are_written_twice_mean_the_same(name: str, card: Target) -> None:
    """Threads would write over each other's elements where the two orders differ: then two kernels write them."""
    values = {"X": np.array([3, 5], np.int32)}
    function = parse(f"function (X[N]) -> (O) {{ {WRITTEN_TWICE[name]} }}")
    stages = compile_stages(function, {"X": TensorType(DType.I32, (2,))}, card)
    found = run_program(stages.sem, values, ALL_CHECKS)
    assert stages.graph is not None
    np.testing.assert_array_equal(found["O"], interpret_typed(stages.graph, values)["O"])


ROLLED: Final = "A[m, n + 1 : M, N] = =(X[m, n]); B[m, n + 1 - N : M, N] = =(X[m, n]) default A;"
WRITTEN_IN_PART: Final = {
    "least of a row": f"{ROLLED} O[m : M] = <(B[m, n]);",
    "sums of two rows": f"{ROLLED} S[m : M] = +(B[m, n]); T[m : M] = +(B[m, n] * X[m, n]); O = S * T;",
    "each element": f"{ROLLED} O[m, N - 1 - n : M, N] = =(B[m, n]);",
    "rolled again": f"{ROLLED} C[m, n + 1 : M, N] = =(B[m, n]); O[m, n + 1 - N : M, N] = =(B[m, n]) default C;",
    "before it is written": f"{ROLLED} S[m : M] = +(A[m, n]); O[m, n : M, N] = =(B[m, n] + S[m]);",
    "the last element": "P[m : M] = >(X[m, n]); A = -X; B[m, N - 1 : M, N] = =(P[m]) default A; O[m : M] = +(B[m, n]);",
}
"""One kernel stores some elements of a row among others, which the next one reads with them."""


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", WRITTEN_IN_PART)
@pytest.mark.parametrize("shape", [(1, 33), (4, 16), (16, 5), (33, 7)])
@pytest.mark.parametrize(
    "card", [HOPPER, OPENCL, with_facts(Target(pipeline="amd-cdna3"))], ids=["cuda", "opencl", "amd"]
)
def test_rows_are_read_when_all_threads_have_stored(name: str, shape: tuple[int, int], card: Target) -> None:
    values = {"X": np.random.default_rng(0).integers(5, 50, shape).astype(np.int32)}
    function = parse(f"function (X[M, N]) -> (O) {{ {WRITTEN_IN_PART[name]} }}")
    stages = compile_stages(function, {"X": TensorType(DType.I32, shape)}, card)
    found = run_program(stages.sem, values, ALL_CHECKS)
    assert stages.graph is not None
    np.testing.assert_array_equal(found["O"], interpret_typed(stages.graph, values)["O"])


@pytest.mark.parametrize("shape", [(3, 16, 5), (2, 7, 33), (1, 4, 4)])
@pytest.mark.parametrize("card", [HOPPER, OPENCL], ids=["cuda", "opencl"])
def test_planes_are_read_when_all_threads_have_stored(shape: tuple[int, ...], card: Target) -> None:
    """Rolled along two axes: each time, a part is stored among what is there."""
    values = {"X": np.random.default_rng(0).integers(5, 50, shape).astype(np.int32)}
    function = parse("""function (X[L, M, N]) -> (B, O) {
        A[l, m, n + 1 : L, M, N] = =(X[l, m, n]);
        B[l, m, n + 1 - N : L, M, N] = =(X[l, m, n]) default A;
        C[l, m + 1, n : L, M, N] = =(B[l, m, n]);
        O[l, m + 1 - M, n : L, M, N] = =(B[l, m, n]) default C;
    }""")
    stages = compile_stages(function, {"X": TensorType(DType.I32, shape)}, card)
    found = run_program(stages.sem, values, ALL_CHECKS)
    np.testing.assert_array_equal(found["B"], np.roll(values["X"], 1, 2))
    np.testing.assert_array_equal(found["O"], np.roll(values["X"], (1, 1), (1, 2)))


def test_results_among_zeros_are_stored_behind_the_zeros_of_all_threads() -> None:
    """Of 600 rows, as many as keep a card busy, threads of one kernel set zeros over results of others."""
    values = {"X": np.arange(24000, dtype=np.int32).reshape(600, 40)}
    function = parse("function (X[M, N]) -> (O) { O[m, 3 * n : M, 3 * N] = =(X[m, n]); }")
    stages = compile_stages(function, {"X": TensorType(DType.I32, (600, 40))}, HOPPER)
    wanted: np.ndarray = np.zeros((600, 120), np.int32)
    wanted[:, ::3] = values["X"]
    np.testing.assert_array_equal(run_program(stages.sem, values, ALL_CHECKS)["O"], wanted)


@pytest.mark.parametrize(
    ("text", "shapes", "parts"),
    [
        ("O[m : M] = +(A[m, n]);", {"A": (4, 1 << 15)}, 0),
        ("O[m : M] = +(A[m, n]);", {"A": (4, 1 << 16)}, 16),  # 256 KiB: a second kernel begins before they are read
        ("O[n : N] = +(A[m, n]);", {"A": (1 << 13, 4)}, 64),  # columns
        ("O[m, k : M, K] = +(A[m, n] * B[k, n]);", {"A": (4, 1 << 13), "B": (4, 1 << 13)}, 4),  # a product of matrices
        ("O[m : M] = +(A[m, n] * B[n]);", {"A": (4, 1 << 13), "B": (1 << 13,)}, 0),
    ],
)
def test_sums_of_short_rows_stay_whole(text: str, shapes: dict[str, tuple[int, ...]], parts: int) -> None:
    dims = {"A": "A[M, N]", "B": "B[K, N]" if len(shapes.get("B", ())) == 2 else "B[N]"}
    header = ", ".join(dims[name] for name in shapes)
    types = {name: TensorType(DType.F32, shape) for name, shape in shapes.items()}
    flat = lower(infer(parse(f"function ({header}) -> (O) {{ {text} }}"), types))
    after = run((SplitReduction(parts=64, operations=1, columns=128, group_bytes=1 << 17),), flat)
    made = [r.shape.sizes[0] for r in after.entry.refinements if r.name.endswith("_parts")]
    assert made == ([parts] if parts else [])


@pytest.mark.parametrize(
    ("text", "split"),
    [
        ("S[n : N] = +(X[m, n]); O = X * 2;", True),  # others read X again, and nothing meets the sums
        ("S[0, n : 1, N] = +(X[m, n]); O = X / S;", False),
        ("S[0, n : 1, N] = +(X[m, n]); T = S / 3; O = X - T;", False),
        ("P[0, n : 1, N] = >(X[m, n]); E = exp(X - P); S[0, n : 1, N] = +(E[m, n]); O = log(S) + P;", False),
        ("P[m, 0 : M, 1] = >(X[m, n]); E = X - P; S[n : N] = +(E[m, n]); O = E * 2;", True),  # results of other rows
    ],
)
def test_columns_stay_whole_where_more_follows_over_the_same(text: str, split: bool) -> None:
    outputs = "(O, S)" if "[n : N]" in text else "(O)"
    types = {"X": TensorType(DType.F32, (1 << 13, 1 << 10))}
    flat = lower(infer(parse(f"function (X[M, N]) -> {outputs} {{ {text} }}"), types))
    options = SplitReduction(parts=528, operations=1, columns=128, group_bytes=1 << 17, beside_bytes=32, groups=100)
    after = run((options,), flat)
    assert any(r.name.startswith("S") and r.name.endswith("_parts") for r in after.entry.refinements) == split
