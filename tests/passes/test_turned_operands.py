"""Tensors with their axes in another order, read where they are by reductions that read each element often."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.effort import examples
from strategies.passes import assert_same_meaning
from tileir.core.dtype import DType
from tileir.core.fragments import named
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.fusion.inline import Inline
from tileir.passes.rewrites.dead_code import DeadCode
from tileir.schedule.remarks import Remarks, listening
from tileir.stripe.ir import Program
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

READS = {"N": ("A[m, k]", "B[k, n]"), "T": ("S[m, k]", "U[k, n]")}
TURNED = {
    "NN": "",
    "NT": "U[k, n : L, N] = =(B[n, k]);",
    "TN": "S[m, k : M, K] = =(A[k, m]);",
    "TT": "S[m, k : M, K] = =(A[k, m]); U[k, n : L, N] = =(B[n, k]);",
}


def product(kind: str, sizes: tuple[int, int, int], dtype: DType = DType.I32, more: str = "") -> Program:
    """Return a product of two matrices, each of which may be turned first."""
    rows, depth, columns = sizes
    first = "A[M, K]" if kind[0] == "N" else "A[K, M]"
    second = "B[L, N]" if kind[1] == "N" else "B[N, L]"
    left, right = READS[kind[0]][0], READS[kind[1]][1]
    results = "(O, R)" if more else "(O)"
    text = (
        f"function ({first}, {second}) -> {results} {{ {TURNED[kind]} O[m, n : M, N] = +({left} * {right}); {more} }}"
    )
    types = {
        "A": TensorType(dtype, (rows, depth) if kind[0] == "N" else (depth, rows)),
        "B": TensorType(dtype, (depth, columns) if kind[1] == "N" else (columns, depth)),
    }
    return lower(infer(parse(text), types))


def kernels(program: Program, *, turned: bool = True) -> int:
    return len(run((Inline(turned=turned), DeadCode()), program).main.blocks)


@given(
    kind=st.sampled_from(("NN", "NT", "TN", "TT")),
    sizes=st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9)),
    dtype=st.sampled_from((DType.F32, DType.I32, DType.F16, DType.F64)),
    turned=st.booleans(),
)
@examples(80)
def test_products_keep_their_meaning(kind: str, sizes: tuple[int, int, int], dtype: DType, *, turned: bool) -> None:
    program = product(kind, sizes, dtype)
    assert_same_meaning(program, run((Inline(turned=turned), DeadCode(), Accumulate()), program))


@pytest.mark.parametrize(
    ("kind", "sizes", "left"),
    [
        ("NT", (4, 20, 30), 1),  # terms of a sum are neighbours in what is largest
        ("NT", (30, 20, 4), 2),  # the other operand is larger
        ("NT", (20, 20, 20), 1),
        ("TN", (20, 20, 20), 2),  # neighbours go to different sums
        ("TN", (30, 20, 4), 1),  # so large that elements are read few times
        ("TT", (4, 20, 30), 2),
    ],
)
def test_which_operands_are_read_in_their_own_order(kind: str, sizes: tuple[int, int, int], left: int) -> None:
    program = product(kind, sizes)
    assert kernels(program) == left
    assert kernels(program, turned=False) == 1 + kind.count("T")


@pytest.mark.parametrize(
    ("sizes", "dtype", "left"),
    [
        ((16, 24, 32), DType.F16, 0),
        ((16, 24, 32), DType.BF16, 0),
        ((16, 24, 33), DType.F16, 0),
        ((20, 24, 32), DType.F16, 1),  # rows of the left one are no whole vectors
        ((16, 20, 32), DType.F16, 1),  # nor those of the right one
        ((16, 24, 32), DType.F32, 0),  # words are loaded, or copied to another order later
        ((16, 24, 32), DType.I32, 2),  # there is no instruction
    ],
)
def test_instructions_read_matrices_in_either_order(sizes: tuple[int, int, int], dtype: DType, left: int) -> None:
    program = product("TT", sizes, dtype)
    after = run((Inline(fragments=named("sm_90a")), DeadCode()), program)
    others = len(product("NN", sizes, dtype).main.blocks)  # sums of halves are rounded by a kernel of its own
    assert len(after.main.blocks) == left + others
    assert_same_meaning(program, after)


def test_windows_are_given_copies_in_another_order() -> None:
    text = """function (A[K, M], B[P, K, N]) -> (O) {
        S[m, k : M, K] = =(A[k, m]);
        O[m, n : M - P + 1, N] = +(S[m + p, k] * B[p, k, n]);
    }"""
    types = {"A": TensorType(DType.F16, (16, 32)), "B": TensorType(DType.F16, (3, 16, 24))}
    program = lower(infer(parse(text), types))
    after = run((Inline(fragments=named("sm_90a")), DeadCode()), program)
    assert len(after.main.blocks) == len(program.main.blocks)


def test_a_copy_that_others_read_is_made() -> None:
    assert kernels(product("NT", (4, 20, 30), more="R[k : L] = +(U[k, n] * U[k, n]);")) == 3


def test_what_is_computed_on_the_way_is_stored() -> None:
    text = """function (A[M, K], B[N, K]) -> (O) {
        E = B * 2;
        U[k, n : K, N] = =(E[n, k]);
        O[m, n : M, N] = +(A[m, k] * U[k, n]);
    }"""
    types = {"A": TensorType(DType.I32, (3, 20)), "B": TensorType(DType.I32, (30, 20))}
    program = lower(infer(parse(text), types))
    after = run((Inline(turned=True), DeadCode()), program)
    assert len(after.main.blocks) == 2
    assert_same_meaning(program, after)


@given(
    axes=st.permutations(range(4)),
    sizes=st.tuples(st.integers(1, 2), st.integers(3, 9), st.integers(3, 9), st.integers(1, 9)),
    window=st.sampled_from((1, 3)),
    stride=st.integers(1, 2),
    each=st.booleans(),
    dtype=st.sampled_from((np.float32, np.float64, np.int32, np.float16)),
)
@examples(20)
def test_convolutions_of_turned_images_are_as_the_interpreter_has_them(
    axes: list[int],
    sizes: tuple[int, int, int, int],
    window: int,
    stride: int,
    dtype: type[np.generic],
    *,
    each: bool,
) -> None:
    random = np.random.default_rng(0)
    images, height, width, channels = sizes
    whole = random.integers(-4, 5, (images, channels, height, width)).astype(dtype)
    x = np.ascontiguousarray(np.transpose(whole, np.argsort(axes)))
    groups = channels if each else 1
    w = random.integers(-4, 5, (channels, channels // groups, window, window)).astype(dtype)
    builder = tileir.FunctionBuilder()
    data, kernel = builder.input("X", "A", "B", "C", "D"), builder.input("W", "K", "P", "R", "S")
    turned = tileir.ops.transpose(data, tuple(axes))
    result = tileir.ops.conv(turned, kernel, stride=stride, padding=window // 2, groups=groups)
    function = builder.build(Y=tileir.ops.transpose(result, (0, 2, 3, 1)))
    expected = tileir.evaluate(function, {"X": x, "W": w})
    np.testing.assert_array_equal(tileir.compile(function, {"X": x, "W": w})(x, w), expected)


def told(program: Program, step: Inline) -> list[tuple[str, str]]:
    """Return what the pass says of the products: codes, and tensors."""
    kept = Remarks()
    with listening(kept):
        run((step,), program)
    return [(r.code, str(dict(r.facts).get("tensor", ""))) for r in kept.all() if r.code != "TR626"]


def test_reductions_are_told_what_became_of_their_operands() -> None:
    assert told(product("NN", (4, 20, 30)), Inline(turned=True)) == [("TR651", "")]
    assert told(product("NT", (4, 20, 30)), Inline(turned=True)) == [("TR001", "U")]
    assert told(product("NT", (4, 20, 30)), Inline()) == [("TR654", "U")]
    assert told(product("NT", (4, 20, 30)), Inline(reqs=("other",))) == [("TR003", "")]
    assert told(product("NT", (4, 20, 30)), Inline(turned=True, max_statements=4)) == [("TR653", "U")]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("E = A * 2; O[i : M] = +(E[i, 0]);", "TR626"),
        ("E = A * 2; O[i : M] = +(E[i, j]);", "TR001"),
        ("E = exp(A); O[i : M] = +(E[i, j]); P = E + 1;", "TR655"),
        ("E = A * 2; O[i : M] = +(E[i, 2 * j]), j < 4;", "TR001"),
    ],
)
def test_reductions_are_told_why_they_load(body: str, code: str) -> None:
    results = "(O, P)" if "P =" in body else "(O)"
    program = lower(
        infer(parse(f"function (A[M, N]) -> {results} {{ {body} }}"), {"A": TensorType(DType.F32, (4, 16))})
    )
    kept = Remarks()
    with listening(kept):
        run((Inline(),), program)
    codes = [remark.code for remark in kept.all() if remark.kernel.startswith("kernel_2") or "E" in remark.kernel]
    assert code in codes
