from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.kernels import PROGRAMS, inputs, stripe_program
from strategies.passes import assert_same_meaning, programs
from strategies.pipelines import cpu
from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.core.fragments import named
from tileir.core.targets.target import Target
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import Pass, run, with_kernels
from tileir.passes.layouts.transpose import Transpose
from tileir.passes.pipelines.catalog import parse_pipeline
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.lower.lowering import lower as lower_kernels
from tileir.stripe.check.verifier import verify
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Block, Buffer, Tags
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed import ir as typed
from tileir.typed.inference.inference import infer

if TYPE_CHECKING:
    from tileir.stripe.ir import Program

SECOND_TRANSPOSED = "matmul, second transposed"


def program(text: str, **shapes: tuple[int, ...]) -> Program:
    return lower(infer(parse(text), {n: typed.TensorType(DType.F32, shape) for n, shape in shapes.items()}))


def strides(found: Program, name: str) -> tuple[int, ...]:
    return found.main.refinement(name).shape.strides


def turned() -> Program:
    text = "function (A[M, N], B[M, N]) -> (O) { U[j, i : N, M] = =(A[i, j]); O[i, j : M, N] = +(U[j, i] * B[i, j]); }"
    return program(text, A=(6, 8), B=(6, 8))


def test_a_temporary_lies_as_its_users_walk() -> None:
    before = turned()
    (name,) = (r.name for r in before.entry.refinements if "tmp" in r.tags)
    after = run((Transpose(),), before)
    assert (strides(before, name), strides(after, name)) == ((6, 1), (1, 8))
    assert_same_meaning(before, after)
    assert Transpose()(after) is after
    assert Transpose(temporaries=False)(before) is before


def test_an_operand_is_copied_where_it_is_read_often() -> None:
    before = stripe_program(SECOND_TRANSPOSED)
    after = run((Transpose(),), before)
    copy, kernel = after.main.blocks
    assert copy.name == "lay_B"
    assert strides(after, "B_laid") == (1, 23)
    assert kernel.refinement("B").source == "B_laid"
    assert_same_meaning(before, after, inputs(SECOND_TRANSPOSED))
    assert Transpose(least_reuse=18)(before) is before
    assert Transpose(operands=False)(before) is before
    assert Transpose(reqs=("elsewhere",))(before) is before
    assert Transpose()(after) is after


def test_one_copy_serves_several_kernels() -> None:
    text = (
        "function (A[M, K], B[N, K], D[M, K]) -> (C, E) "
        "{ C[i, j : M, N] = +(A[i, k] * B[j, k]); E[i, j : M, N] = +(D[i, k] * B[j, k]); }"
    )
    before = program(text, A=(16, 8), B=(24, 8), D=(16, 8))
    after = run((Transpose(),), before)
    assert [block.name.partition("(")[0] for block in after.main.blocks] == ["lay_B", "kernel_0", "kernel_1"]
    assert_same_meaning(before, after)


@pytest.mark.parametrize(("tagged", "copied"), [("C", True), ("E", True), ("D", False)])
def test_others_read_a_copy_that_kernels_with_the_tags_get(tagged: str, copied: bool) -> None:
    """Only where it is what they ask for: nothing is copied for them alone."""
    text = (
        "function (A[M, K], B[N, K], D[M, K]) -> (C, E) "
        "{ C[i, j : M, N] = +(A[i, k] * B[j, k]); E[i, j : M, N] = +(D[i, k] * B[j, k]); }"
    )

    def asking(kernel: Block) -> Block:
        tags = ("asking",) if any(r.source == tagged and r.direction.writes for r in kernel.refinements) else ()
        return attrs.evolve(kernel, tags=kernel.tags.add(*tags))

    plain = program(text, A=(16, 8), B=(24, 8), D=(16, 8))
    before = with_kernels(plain, tuple(map(asking, plain.main.blocks)))
    after = run((Transpose(reqs=("asking",), temporaries=False),), before)
    read = {block.refinement("B").source for block in after.main.blocks if block.name.startswith("kernel")}
    assert read == {"B_laid" if copied else "B"}
    assert_same_meaning(before, after)


FIRST = """function (A[N, C, Y, X], B[F, C, P, Q]) -> (R) {
    R[n, f, y, x : N, F, Y, X] = +(A[n, c, y + p - 1, x + q - 1] * B[f, c, p, q]);
}"""
LAST = """function (A[N, Y, X, C], B[F, P, Q, C]) -> (R) {
    R[n, y, x, f : N, Y, X, F] = +(A[n, y + p - 1, x + q - 1, c] * B[f, p, q, c]);
}"""
OF_WEIGHTS = """function (A[N, C, Y, X], D[N, F, Y, X]) -> (R) {
    R[f, c, p, q : F, C, 3, 3] = +(A[n, c, y + p - 1, x + q - 1] * D[n, f, y, x]);
}"""
ONE_BY_ONE = "function (A[N, C, X], B[F, C]) -> (R) { R[n, f, x : N, F, X] = +(A[n, c, x] * B[f, c]); }"
DEPTHWISE = """function (A[N, C, Y, X], B[C, P, Q]) -> (R) {
    R[n, c, y, x : N, C, Y, X] = +(A[n, c, y + p - 1, x + q - 1] * B[c, p, q]);
}"""
PLACES = """function (A[N, C, Y, X], D[N, C, Y, X]) -> (R) {
    R[c, p, q : C, 3, 3] = +(A[n, c, y + p - 1, x + q - 1] * D[n, c, y, x]);
}"""
OUTER = "function (A[Y, X], B[N]) -> (R) { R[n, y, x : N, Y, X / 2] = =(A[y, 2*x + 1] * B[n]); }"
FACTORS = Transpose(temporaries=False, factors=True, least_reuse=2)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("text", "shapes", "copies"),
    [
        (FIRST, {"A": (2, 16, 4, 5), "B": (3, 16, 3, 3)}, {"A": (320, 1, 80, 16), "B": (144, 1, 48, 16)}),
        (FIRST, {"A": (2, 12, 4, 5), "B": (3, 12, 3, 3)}, {}),
        (FIRST, {"A": (2, 16, 4, 5), "B": (3, 16, 1, 1)}, {}),
        (LAST, {"A": (2, 4, 5, 16), "B": (3, 3, 3, 16)}, {}),
        (OF_WEIGHTS, {"A": (2, 16, 4, 5), "D": (2, 3, 4, 5)}, {"A": (320, 1, 80, 16)}),
        (ONE_BY_ONE, {"A": (2, 16, 5), "B": (3, 16)}, {}),
        (DEPTHWISE, {"A": (16, 4, 6, 6), "B": (4, 3, 3)}, {}),
        (OUTER, {"A": (16, 8), "B": (4,)}, {}),
        (PLACES, {"A": (2, 16, 4, 5), "D": (2, 16, 4, 5)}, {"A": (320, 1, 80, 16), "D": (320, 1, 80, 16)}),
        (PLACES, {"A": (2, 12, 4, 5), "D": (2, 12, 4, 5)}, {}),
    ],
)
def test_factors_are_copied_along_what_they_share_where_neighbours_are_a_window(
    text: str, shapes: dict[str, tuple[int, ...]], copies: dict[str, tuple[int, ...]]
) -> None:
    before = program(text, **shapes)
    for steps in ((FACTORS,), (Accumulate(), FACTORS)):
        after = run(steps, before)
        verify(after)
        laid = {r.name[0]: r.shape.strides for r in after.main.refinements if r.name.endswith("_laid")}
        assert laid == copies
        assert_same_meaning(before, after)
    assert FACTORS(after) is after
    assert attrs.evolve(FACTORS, least_points=1 << 20)(before) is before


@pytest.mark.parametrize(
    ("fragments", "copies"),
    [
        ((), {"A": (1, 320, 80, 16), "B": (1, 144, 48, 16)}),
        (named("sm_90a"), {"A": (320, 1, 80, 16), "B": (144, 1, 48, 16)}),
    ],
    ids=["threads", "instructions"],
)
def test_threads_multiply_factors_that_are_copied_along_outputs_and_instructions_along_the_sum(
    fragments: tuple[str, ...], copies: dict[str, tuple[int, ...]]
) -> None:
    before = program(FIRST, A=(16, 16, 4, 5), B=(16, 16, 3, 3))
    after = run((attrs.evolve(FACTORS, fragments=fragments),), before)
    verify(after)
    assert {r.name[0]: r.shape.strides for r in after.main.refinements if r.name.endswith("_laid")} == copies
    assert_same_meaning(before, after)


@pytest.mark.parametrize(("dtype", "pixels", "copies"), [(DType.BF16, 49, 1), (DType.F16, 50, 0), (DType.F32, 49, 0)])
def test_rows_that_are_no_words_are_copied_whatever_the_tags(dtype: DType, pixels: int, copies: int) -> None:
    types = {"A": typed.TensorType(dtype, (2, 16, pixels)), "B": typed.TensorType(dtype, (3, 16))}
    before = lower(infer(parse(ONE_BY_ONE), types))
    after = run((attrs.evolve(FACTORS, reqs=("asking",)),), before)
    laid = {r.name: r.shape.strides for r in after.main.refinements if r.name.endswith("_laid")}
    assert laid == ({"A_laid": (784, 1, 16)} if copies else {})
    assert_same_meaning(before, after)
    assert attrs.evolve(FACTORS, reqs=("asking",))(after) is after


@given(programs(8), st.booleans())
@examples(100)
def test_copies_of_factors_keep_the_meaning(before: Program, first: bool) -> None:
    steps: tuple[Pass, ...] = (Accumulate(),) if first else ()
    after = run((*steps, FACTORS), before)
    verify(after)
    assert_same_meaning(before, after)


LEFT_TURNED = "function (A[K, M], B[K, N]) -> (R) { R[i, j : M, N] = +(A[k, i] * B[k, j]); }"
FAR = Transpose(temporaries=False, far_bytes=32 * 1024, least_reuse=4)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("text", "shapes", "copies"),
    [
        (LEFT_TURNED, {"A": (16, 600), "B": (16, 4)}, {"A": (1, 16)}),
        (
            "function (A[K, M], B[N, K], V[N]) -> (R) { C[i, j : M, N] = +(A[k, i] * B[j, k]); R = C + V; }",
            {"A": (16, 600), "B": (4, 16), "V": (4,)},
            {"A": (1, 16)},
        ),
        (
            "function (A[K, M], B[K, N]) -> (R) { R[j, i : N, M] = +(A[k, i] * B[k, j]); }",
            {"A": (16, 4), "B": (16, 600)},
            {"B": (1, 16)},
        ),
        (
            "function (A[Y, X, M], B[Y, X, N]) -> (R) { R[i, j : M, N] = +(A[y, x, i] * B[y, x, j]); }",
            {"A": (2, 16, 600), "B": (2, 16, 4)},
            {"A": (9600, 1, 16)},
        ),
    ],
    ids=["left turned", "both turned", "result turned", "two sums"],
)
def test_a_matrix_with_each_step_in_another_page_is_copied_to_neighbours(
    text: str, shapes: dict[str, tuple[int, ...]], copies: dict[str, tuple[int, ...]]
) -> None:
    before = program(text, **shapes)
    for steps in ((FAR,), (Accumulate(), FAR)):
        after = run(steps, before)
        verify(after)
        laid = {r.name[0]: r.shape.strides for r in after.main.refinements if r.name.endswith("_laid")}
        assert laid == copies
        assert_same_meaning(before, after)
    assert FAR(after) is after


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        (
            "function (A[M, K], B[K, N]) -> (R) { R[i, j : M, N] = +(A[i, k] * B[k, j]); }",
            {"A": (16, 600), "B": (600, 16)},
        ),
        (
            "function (A[K, M], B[K, N]) -> (R) { R[j, i : N, M] = +(A[k, i] * B[k, j]); }",
            {"A": (16, 600), "B": (16, 4)},
        ),
        ("function (A[K, M]) -> (R) { R[i, j : M, M] = +(A[k, i] * A[k, j]); }", {"A": (16, 600)}),
        (LEFT_TURNED, {"A": (16, 600), "B": (16, 3)}),
        (LEFT_TURNED, {"A": (16, 512), "B": (16, 4)}),
        (LEFT_TURNED, {"A": (8, 1200), "B": (8, 4)}),
        (
            "function (A[Z, K, M], B[Z, K, N]) -> (R) { R[z, i, j : Z, M, N] = +(A[z, k, i] * B[z, k, j]); }",
            {"A": (2, 16, 500), "B": (2, 16, 4)},
        ),
        (
            "function (A[Z, C, X], B[F, C]) -> (R) { R[z, f, x : Z, F, X] = +(A[z, c, x] * B[f, c]); }",
            {"A": (2, 16, 600), "B": (4, 16)},
        ),
        (
            "function (A[X, M], B[X, N]) -> (R) { R[p, i, j : 3, M, N] = +(A[x + p - 1, i] * B[x, j]); }",
            {"A": (16, 600), "B": (16, 4)},
        ),
    ],
    ids=["plain", "lanes along it", "square", "few columns", "near pages", "few steps", "batch", "channels", "window"],
)
def test_other_matrices_stay_where_they_are(text: str, shapes: dict[str, tuple[int, ...]]) -> None:
    before = program(text, **shapes)
    assert run((FAR,), before) is before


@pytest.mark.parametrize(
    ("caches", "kernels"), [((4096, 65536), ["lay_A", "kernel_0"]), ((4096, 262144), ["kernel_0"])]
)
def test_processors_copy_such_matrices_where_no_cache_near_them_holds_these(
    caches: tuple[int, ...], kernels: list[str]
) -> None:
    after = run(cpu(Target(vector_bytes=32, cache_bytes=caches)), program(LEFT_TURNED, A=(32, 1100), B=(32, 256)))
    assert list(dict.fromkeys(block.name.partition("(")[0] for block in after.main.blocks)) == kernels


WINDOWS = "function (A[C, X], B[K, C, J]) -> (R) { R[k, x : K, X] = +(A[c, x + j - 1] * B[k, c, j]); }"
ALONG = "function (A[X, C], B[J, C, K]) -> (R) { R[x, k : X, K] = +(A[x + j - 1, c] * B[j, c, k]); }"
HALVES = Transpose(temporaries=False, dots=named("avx512bf16"), least_reuse=4)


def halves(text: str, **shapes: tuple[int, ...]) -> Program:
    return lower(infer(parse(text), {n: typed.TensorType(DType.BF16, shape) for n, shape in shapes.items()}))


def test_dot_products_get_windows_along_the_sum_and_weights_along_outputs() -> None:
    before = halves(WINDOWS, A=(6, 20), B=(8, 6, 3))
    for steps in ((HALVES,), (Accumulate(), HALVES)):
        after = run(steps, before)
        verify(after)
        laid = {r.name[0]: r.shape.strides for r in after.main.refinements if r.name.endswith("_laid")}
        assert laid == {"A": (1, 6), "B": (1, 24, 8)}
        assert_same_meaning(before, after)


@pytest.mark.parametrize(
    "before",
    [
        program(WINDOWS, A=(6, 20), B=(8, 6, 3)),
        halves(WINDOWS, A=(6, 10), B=(8, 6, 3)),
        halves(ALONG, A=(20, 6), B=(3, 6, 8)),
        halves("function (A[M, K], B[N, K]) -> (R) { R[i, j : M, N] = +(A[i, k] * B[j, k]); }", A=(9, 9), B=(9, 9)),
    ],
    ids=["no instructions", "read seldom", "as they should be", "no windows"],
)
def test_dot_products_take_others_as_they_lie(before: Program) -> None:
    assert run((attrs.evolve(HALVES, least_reuse=12),), before) is before


def test_constants_may_be_copied_but_keep_their_layout() -> None:
    before, values = stripe_program(SECOND_TRANSPOSED), inputs(SECOND_TRANSPOSED)
    data = values.pop("B").astype("<f4").tobytes()
    memory = tuple(
        attrs.evolve(r, constant=True, tags=Tags.of("constant")) if r.name == "B" else r for r in before.memory
    )
    fixed = attrs.evolve(before, memory=memory, inputs=("A",), buffers=(Buffer("B", data),))
    verify(fixed)
    after = run((Transpose(),), fixed)
    assert [r.name for r in after.entry.refinements if r.constant] == ["B"]
    assert_same_meaning(fixed, after, values)


@given(programs(8), st.booleans(), st.sampled_from((1, 3)))
@examples(100)
def test_layouts_keep_the_meaning(before: Program, first: bool, reuse: int) -> None:
    steps: tuple[Pass, ...] = (Accumulate(),) if first else ()
    after = run((*steps, Transpose(least_reuse=reuse)), before)
    verify(after)
    assert_same_meaning(before, after)


@pytest.mark.sampled(15)
@pytest.mark.parametrize("name", PROGRAMS)
def test_other_layouts_can_be_lowered(name: str) -> None:
    before, values = stripe_program(name), inputs(name)
    after = run((Transpose(least_reuse=1), Accumulate()), before)
    found = run_program(lower_kernels(after, Target()), values)
    for output, array in interpret(before, values).items():
        np.testing.assert_array_equal(found[output], array)


def test_options_are_checked() -> None:
    with pytest.raises(TileError) as caught:
        parse_pipeline("transpose{least_reuse=0}")
    assert caught.value.diagnostics[0].code == "TIL543"
