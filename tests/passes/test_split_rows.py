"""Few long rows in parts: what all parts have found is merged by each, and the meaning stays."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import pytest
from hypothesis import example, given, strategies as st

import tileir
from strategies.effort import examples
from strategies.passes import assert_same_meaning, programs
from tileir import ops
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.driver.compiler import compile_stages
from tileir.passes.algorithms.split_rows import SplitRows
from tileir.passes.base import run
from tileir.schedule.remarks import Remarks, listening
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.stripe.lower.lowering import lower
from tileir.tile.builder_functions import gradient
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret as interpret_typed
from tileir.typed.ir import TensorType
from tileir_cuda.architectures import ARCHITECTURES, target_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.driver.compiler import Stages
    from tileir.stripe.ir import Program

_CARD: Final = ARCHITECTURES["sm_90a"]
HOPPER: Final = target_of(_CARD, _CARD.card, _CARD.multiprocessors, _CARD.cache_bytes)
SMALL: Final = Target(
    vector_bytes=16, threads=8, group_threads=8, group_width=4, local_bytes=8192, index_dtype=DType.I32, pipeline="gpu"
)
"""Rows of more than 2 KiB are long for it, of which there may be seven."""

SPLIT: Final = SplitRows(parts=4, most_parts=4, row_bytes=16, rows=8)


def standardised(x: Any, axes: Any) -> Any:
    centred = x - ops.mean(x, axes, keepdims=True)
    return centred * ops.rsqrt(ops.mean(centred * centred, axes, keepdims=True) + 1e-5)


ALONG: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "softmax": ops.softmax,
    "log softmax": ops.log_softmax,
    "standardised": standardised,
    "root mean square": lambda x, axes: x * ops.rsqrt(ops.mean(x * x, axes, keepdims=True) + 1e-6),
    "share of squares": lambda x, axes: x * x / ops.sum(x * x, axes, keepdims=True),
    "logarithm of a sum": ops.logsumexp,
    "its gradient": lambda x, axes: gradient(ops.sum(ops.logsumexp(x, axes)), x),
    "range, and what is in it": lambda x, axes: (
        ops.max(x, axes, keepdims=True),
        (x - ops.min(x, axes, keepdims=True)) / (1.0 + ops.max(x, axes, keepdims=True)),
    ),
    "behind other work": lambda x, axes: ops.softmax(ops.tanh(x) * 2.0, axes) + 1.0,
    "masked": lambda x, axes: ops.softmax(ops.where(x < 0.5, x, -math.inf), axes),
    "two, one behind the other": lambda x, axes: standardised(ops.softmax(x, axes) * x, axes),
}
LAUNCHES: Final = {"root mean square": 2, "share of squares": 2, "two, one behind the other": 5}
"""Kernels of those that take not three: one for each aggregate that waits for others, and one more."""


def compiled(name: str, shape: tuple[int, ...], axes: Any, dtype: DType, target: Target) -> Stages:
    builder = tileir.FunctionBuilder()
    found = ALONG[name](builder.input("X", *(f"D{axis}" for axis in range(len(shape)))), axes)
    found = found if isinstance(found, tuple) else (found,)
    function = builder.build(**{f"R{number}": one for number, one in enumerate(found)})
    return compile_stages(function, {"X": TensorType(dtype, shape)}, target)


@pytest.mark.sampled(40)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.BF16])
@pytest.mark.parametrize("shape", [(1, 1 << 17), (1, 1 << 18), (2, 300_000), (8, 1 << 18), (3, 1 << 20), (7, 250_007)])
@pytest.mark.parametrize("name", ALONG)
def test_long_rows_take_two_or_three_launches(name: str, shape: tuple[int, int], dtype: DType) -> None:
    if math.prod(shape) // shape[0] * dtype.itemsize <= 450_000:
        pytest.skip("a group takes each row")
    found = compiled(name, shape, 1, dtype, HOPPER).sem
    # Where the last part has a test, what comes before the first aggregate is a kernel of its own.
    assert len(found.works) <= LAUNCHES.get(name, 3) + shape[1] % 2
    for kernel in found.kernels:  # as many groups as keep the device busy, but where nothing goes along rows
        assert 100 <= math.prod(kernel.grid) <= 2000 or math.prod(kernel.grid) <= shape[0]


TEXTS: Final = {
    "share": "S[m, 0 : M, 1] = +(X[m, n]); O = X - S;",
    "range": "L[m, 0 : M, 1] = <(X[m, n]); H[m, 0 : M, 1] = >(X[m, n]); R = H - L; O = X * 3 - R; P = X - L;",
    "twice": "S[m, 0 : M, 1] = +(X[m, n]); C = X * M - S; D = C * C; V[m, 0 : M, 1] = +(D[m, n]); O = C - V;",
    "aggregate as a result": "O[m, 0 : M, 1] = >(X[m, n]); Y = X - O; P[m : M] = +(Y[m, n]);",
    "along the other axis, too": "S[m, 0 : M, 1] = +(X[m, n]); Y = X - S; O[n : N] = +(Y[m, n]); P = Y - X;",
    "two axes": "S[] = +(X[m, n]); O = X - S;",
    "of products": "S[m, 0 : M, 1] = +(X[m, n] * W[n]); O = X - S;",
    "backwards": "S[m, 0 : M, 1] = +(X[m, n]); Y = X - S; O[m, N - 1 - n : M, N] = =(Y[m, n]);",
    "met by another row": "S[m : M] = +(X[m, n]); O[m, n : M, N] = =(X[m, n] * S[m]); P[n : N] = =(X[0, n] * S[0]);",
    "over a default": "S[m : N] = +(X[m, n]) default W; O[m, n : M, N] = =(X[m, n] * S[m + 1]);",
    "part of a row": "S[m, 0 : M, 1] = +(X[m, n]); P = X - S; O[m, n : M, N - 8] = =(X[m, n] * S[m, 0]);",
    "aggregate of part of a row": "S[m, 0 : M, 1] = +(X[m, n]); P = X - S; O[m : M] = +(X[m, n] * Z[n]);",
    "along its first axis": "S[m, 0 : M, 1] = +(X[m, n]); P = X - S; O[m : M] = +(X[m, n] * X[n, 0]);",
    "kept in memory": "S[m, 0 : M, 1] = +(X[m, n]); T = S * 2; O = X - T; P = T + 1;",
}


def flat(text: str, shape: tuple[int, int]) -> Program:
    """Return a function of whole numbers, whose sums are the same in any order."""
    sizes = {"X": shape, "W": shape[1:], "Z": (shape[1] // 2,)}
    inputs = {name: TensorType(DType.I32, size) for name, size in sizes.items()}
    return lower(infer(parse(f"function (X[M, N], W[N], Z[K]) -> (O{', P' * ('P' in text)}) {{ {text} }}"), inputs))


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@given(
    rows=st.integers(1, 8),
    columns=st.integers(9, 120),
    split=st.builds(SplitRows, parts=st.integers(1, 40), most_parts=st.just(40), part_bytes=st.just(64),
                    row_bytes=st.just(16), rows=st.sampled_from([1, 8])),
)  # fmt: skip
@example(rows=3, columns=64, split=SPLIT)  # two parts of each row, which all texts have
@examples(6)
def test_parts_keep_the_meaning(text: str, rows: int, columns: int, split: SplitRows) -> None:
    program = flat(text, (rows, columns))
    assert_same_meaning(program, run((split,), program))


@pytest.mark.parametrize("name", ["part of a row", "aggregate of part of a row", "along its first axis"])
def test_kernels_along_part_of_a_row_stay_whole(name: str) -> None:
    program = flat(TEXTS[name], (8, 32))
    after = run((SPLIT,), program)
    assert program.main.blocks[2] in after.main.blocks
    assert_same_meaning(program, after)


@given(program=programs())
@examples(60)
def test_parts_of_any_program_keep_its_meaning(program: Program) -> None:
    assert_same_meaning(program, run((attrs.evolve(SPLIT, row_bytes=0),), program), whole=False)


def test_every_part_merges_what_all_have_found() -> None:
    program = run((SPLIT,), flat(TEXTS["share"], (2, 32)))
    parts, merge, rest = program.main.blocks
    assert [(i.name, i.range) for i in parts.indices] == [("m", 2), ("n_part", 2), ("n", 16)]
    assert [i.range for i in merge.indices] == [2, 2, 2]  # rows, those who merge, and what they do
    assert [str(each) for view in merge.refinements for each in view.access] == ["m", "0", "n_part", "m", "0", "each"]
    assert [i.range for i in rest.indices] == [2, 2, 16]
    sizes = {each.name: each.shape.sizes for each in program.memory}
    assert sizes == {"X": (2, 32), "W": (32,), "Z": (16,), "O": (2, 32), "S_parts": (2, 1, 2), "S_each": (2, 1, 2)}


def test_the_last_part_may_be_shorter() -> None:
    parts, _, rest = run((SPLIT,), flat(TEXTS["share"], (1, 131))).main.blocks
    assert [i.range for i in parts.indices if i.range > 1] == [3, 64]  # multiples of what is read at once
    ends = [str(end) for each in (parts, rest) for end in each.constraints]
    assert ends == ["130 - n - 64*n_part", "130 - i2 - 64*i2_part"]


@pytest.mark.parametrize(
    ("text", "shape", "split", "code"),
    [
        ("share", (1, 64), SplitRows(), "TR620"),
        ("share", (1, 4), SPLIT, "TR669"),
        ("share", (9, 64), SPLIT, "TR669"),
        ("met by another row", (2, 64), attrs.evolve(SPLIT, row_bytes=256), "TR669"),
    ],
)
def test_others_stay_whole(text: str, shape: tuple[int, int], split: SplitRows, code: str) -> None:
    program = flat(TEXTS[text], shape)
    remarks = Remarks()
    with listening(remarks):
        assert run((split,), program) is program
    assert {remark.code for remark in remarks.all()} == {code}


@pytest.mark.parametrize("text", ["S[m, 0 : M, 1] = +(X[m, n]); O = S + 1;", "O[m : M] = +(X[m, n] * W[n]);"])
def test_aggregates_that_meet_no_rows_are_left_to_others(text: str) -> None:
    program, remarks = flat(text, (1, 64)), Remarks()
    with listening(remarks):
        assert run((SPLIT,), program) is program
    assert "TR670" in {remark.code for remark in remarks.all()}


@given(
    name=st.sampled_from(sorted(ALONG)),
    shape=st.one_of(
        st.tuples(st.integers(1, 8), st.integers(1030, 2600)),
        st.tuples(st.integers(1, 8), st.sampled_from([1040, 1536, 2048, 2560])),
        st.tuples(st.integers(1, 3), st.integers(2, 12), st.integers(130, 300)),
    ),
    axes=st.sampled_from([-1, 0, None]),
    dtype=st.sampled_from([DType.F16, DType.BF16, DType.F32]),
    seed=st.integers(0, 1000),
)
@examples(20)
def test_long_rows_mean_the_same(name: str, shape: tuple[int, ...], axes: int | None, dtype: DType, seed: int) -> None:
    along = tuple(range(len(shape))) if axes is None else axes % len(shape)
    stages = compiled(name, shape, along, dtype, SMALL)
    values = {"X": np.random.default_rng(seed).standard_normal(shape).astype(dtype.numpy)}
    found = run_program(stages.sem, values, ALL_CHECKS)
    assert stages.graph is not None
    expected = interpret_typed(stages.graph, values)
    tolerance = {DType.F32: 2e-4, DType.F16: 2e-2, DType.BF16: 1e-1}[dtype]
    for result, array in expected.items():
        np.testing.assert_allclose(
            found[result].astype(np.float32), array.astype(np.float32), rtol=tolerance, atol=tolerance
        )
