"""Register tiles whose steps are dot products."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.passes import assert_same_meaning
from strategies.pipelines import cpu
from tileir.core import attrs
from tileir.core.dtype import DType
from tileir.core.fragments import named
from tileir.core.ops import Op
from tileir.core.targets.target import Target
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.fusion.fuse import Fuse
from tileir.passes.fusion.inline import Inline
from tileir.passes.schedules.registers.register_tile import RegisterTile
from tileir.semtree import ir as sem
from tileir.semtree.check.verifier import verify as verify_kernel
from tileir.semtree.dots import fragment_of
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.ir import Dot
from tileir.semtree.lower.lowering import lower as lower_kernels
from tileir.semtree.rewrite import expressions, map_expr, map_stmts, statements, walk, with_body
from tileir.semtree.simplify.simplifier import simplify
from tileir.semtree.transform.interleaving import interleave
from tileir.stripe.check.verifier import verify
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Block, Program
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType
from tileir_llvm.dots.checked import LEAST, checked_dots

FRAGMENTS = (*named("avx512vnni"), *named("avx512bf16"))
FLUSHING = frozenset(named("avx512bf16"))
TARGET = Target(vector_bytes=16, fragments=FRAGMENTS)
TILE = RegisterTile(vector_bytes=16, registers=16, dots=FRAGMENTS, threads=2, operations=0)


def product(left: DType, right: DType, sizes: tuple[int, int, int], second: str = "k, n") -> Program:
    rows, depth, columns = sizes
    text = (
        f"function (A[M, K], B[{second.upper()}]) -> (O) {{ P = as_int(A, 32); Q = as_int(B, 32);"
        f" O[m, n : M, N] = +(P[m, k] * Q[{second}]); }}"
    )
    shape = {"k": depth, "n": columns}
    types = {
        "A": TensorType(left, (rows, depth)),
        "B": TensorType(right, tuple(shape[i] for i in second.split(", "))),
    }
    return lower(infer(parse(text), types))


def tiled(program: Program, step: RegisterTile = TILE) -> Program:
    return run((Inline(), Accumulate(), Fuse(), step), program)


def tags(block: Block) -> set[str]:
    own = {tag for index in block.indices for tag, _ in index.words.items}
    return own.union(*map(tags, block.blocks))


def dots_of(kernel: sem.KernelFunction) -> list[Dot]:
    every = (node for stmt in statements(kernel.body) for root in expressions(stmt) for node in walk(root))
    return [node for node in every if isinstance(node, Dot)]


def arrays_of(expr: sem.Expr) -> set[str]:
    return {node.array for node in walk(expr) if isinstance(node, sem.Subscript)}


def kinds(program: Program) -> set[str]:
    return {fragment_of(node) for kernel in lower_kernels(program, TARGET).kernels for node in dots_of(kernel)}


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("left", "right", "kind"),
    [
        (DType.U8, DType.I8, "dot_m1n4k4_u8_i8"),
        (DType.I8, DType.U8, "dot_m1n4k4_u8_i8"),
        (DType.I8, DType.I8, "dot_m1n4k4_i8"),
        (DType.U8, DType.U8, "dot_m1n4k4_u8"),
        (DType.I16, DType.I16, "dot_m1n4k2_i16"),
    ],
)
@pytest.mark.parametrize("second", ["k, n", "n, k"])
def test_narrow_factors_of_wide_sums_become_dot_products(left: DType, right: DType, kind: str, second: str) -> None:
    program = product(left, right, (9, 16, 13), second)
    after = tiled(program)
    assert kinds(after) == {kind}
    random = np.random.default_rng(0)
    arrays = {
        name: random.integers(int(dtype.minimum), int(dtype.maximum) + 1, program.entry.refinement(name).shape.sizes)
        for name, dtype in (("A", left), ("B", right))
    }
    values = {
        name: value.astype(dtype.numpy) for (name, value), dtype in zip(arrays.items(), (left, right), strict=True)
    }
    wanted = interpret(program, values)["O"]
    np.testing.assert_array_equal(interpret(after, values)["O"], wanted)
    np.testing.assert_array_equal(run_program(lower_kernels(after, TARGET), values, ALL_CHECKS)["O"], wanted)


@pytest.mark.parametrize(
    ("left", "right", "depth"),
    [(DType.I16, DType.I8, 16), (DType.U8, DType.I8, 4)],
    ids=["of other widths", "a reduction of one step"],
)
def test_other_products_stay_as_they_are(left: DType, right: DType, depth: int) -> None:
    assert "dot" not in set().union(*map(tags, tiled(product(left, right, (9, depth, 13))).main.blocks))


def test_what_is_left_of_a_reduction_is_added_by_ordinary_instructions() -> None:
    after = tiled(product(DType.U8, DType.I8, (9, 18, 13)))
    assert kinds(after) == {"dot_m1n4k4_u8_i8"}
    text = str(lower_kernels(after, TARGET))
    assert "k_left < 2" in text
    scattered = tiled(product(DType.U8, DType.I8, (9, 18, 13), "n, k"))
    assert kinds(scattered) == set(), "what is left would be gathered at each step"


@given(
    st.sampled_from((DType.U8, DType.I8, DType.I16)),
    st.sampled_from((DType.U8, DType.I8, DType.I16)),
    st.tuples(st.integers(1, 9), st.integers(1, 24), st.integers(1, 21)),
    st.sampled_from(("k, n", "n, k")),
)
@examples(60)
def test_products_keep_their_meaning(left: DType, right: DType, sizes: tuple[int, int, int], second: str) -> None:
    program = product(left, right, sizes, second)
    after = tiled(program)
    verify(after)
    assert_same_meaning(program, after)


def flushing(kernel: sem.KernelFunction) -> sem.KernelFunction:
    """Return a kernel whose dot products take denormals for zero, as processors' instructions do."""

    def flushed(expr: sem.Expr) -> sem.Expr:
        kind = expr.type
        zero, normal = sem.Const(0.0, kind), sem.Const.of(2.0**-126, kind)
        return sem.Apply(Op.COND, (sem.Apply(Op.CMP_LT, (sem.Apply(Op.ABS, (expr,)), normal)), zero, expr))

    def instruction(expr: sem.Expr) -> sem.Expr:
        return flushed(Dot(*map(flushed, (expr.left, expr.right, expr.total)))) if isinstance(expr, Dot) else expr

    return with_body(kernel, map_stmts(lambda expr: map_expr(instruction, expr), kernel.body))


def halves(text: str, sizes: dict[str, tuple[int, ...]]) -> Program:
    return lower(infer(parse(text), {name: TensorType(DType.BF16, size) for name, size in sizes.items()}))


WINDOWS = (
    "function (A[H, W, K], B[I, J, K, N]) -> (O) { O[y, x, n : H, W, N] = +(A[y+i-1, x+j-1, k] * B[i, j, k, n]); }"
)


TWO = """function (A[M, K], B[K, N], C[M, L], D[L, N]) -> (O) {
    P[m, n : M, N] = +(A[m, k] * B[k, n]); Q[m, n : M, N] = +(C[m, k] * D[k, n]); O = P + Q;
}"""


def test_several_reductions_of_a_tile_are_dot_products() -> None:
    program = halves(TWO, {"A": (9, 16), "B": (16, 13), "C": (9, 23), "D": (23, 13)})
    after = run(cpu(TARGET), program)
    assert_same_meaning(program, after)
    (kernel, *_) = lower_kernels(after, TARGET).kernels
    assert {fragment_of(node) for node in dots_of(kernel)} == {"dot_m1n4k2_bf16"}
    assert {array for node in dots_of(kernel) for array in arrays_of(node.right)} == {"B_panel", "D_panel"}


def of_halves(draw: st.DrawFn) -> Program:
    rows, depth, columns = draw(st.integers(1, 9)), draw(st.integers(1, 40)), draw(st.integers(4, 21))
    if draw(st.booleans()):
        sizes = {"A": (3, rows, depth), "B": (3, 3, depth, columns)}
        return halves(WINDOWS, sizes)
    second = draw(st.sampled_from(("k, n", "n, k")))
    text = f"function (A[M, K], B[{second.upper()}]) -> (O) {{ O[m, n : M, N] = +(A[m, k] * B[{second}]); }}"
    return halves(text, {"A": (rows, depth), "B": (depth, columns) if second == "k, n" else (columns, depth)})


@given(st.data(), st.sampled_from((1.0, LEAST, LEAST / 2, 2.0**-64, 2.0**-130)), st.integers(0, 2**32 - 1))
@examples(60)
def test_instructions_that_take_denormals_for_zero_are_exact_behind_checks(
    data: st.DataObject, size: float, seed: int
) -> None:
    program = data.draw(st.composite(of_halves)())
    lowered = lower_kernels(tiled(program, attrs.evolve(TILE, edges=data.draw(st.sampled_from((0, 1000))))), TARGET)
    after = attrs.evolve(lowered, kernels=tuple(interleave(simplify(kernel)) for kernel in lowered.kernels))
    kernels = tuple(flushing(checked_dots(kernel, FLUSHING)) for kernel in after.kernels)
    for kernel in kernels:
        verify_kernel(kernel)
    random = np.random.default_rng(seed)
    arrays = {}
    for name in ("A", "B"):
        signs = random.choice((-1, 0, 1, 2), program.entry.refinement(name).shape.sizes)
        few = random.random(signs.shape) < 0.05
        arrays[name] = (signs * np.where(few, size, 1.0)).astype(DType.BF16.numpy)
    found, wanted = (run_program(each, arrays)["O"] for each in (attrs.evolve(after, kernels=kernels), after))
    np.testing.assert_array_equal(found, wanted)


def test_nothing_is_left_out_where_factors_are_tiny() -> None:
    """Without checks, the same instructions lose what the last test looks for."""
    after = lower_kernels(tiled(halves("function (A[M, K], B[K, N]) -> (O) { O[m, n : M, N] = +(A[m, k] * B[k, n]); }",
                                       {"A": (9, 16), "B": (16, 13)})), TARGET)  # fmt: skip
    arrays = {"A": np.full((9, 16), 2.0**-130, DType.BF16.numpy), "B": np.full((16, 13), 2.0**100, DType.BF16.numpy)}
    checked = tuple(flushing(checked_dots(kernel, FLUSHING)) for kernel in after.kernels)
    assert not run_program(attrs.evolve(after, kernels=tuple(map(flushing, after.kernels))), arrays)["O"].any()
    assert (run_program(attrs.evolve(after, kernels=checked), arrays)["O"] == 2.0**-26).all()


def test_inputs_under_windows_are_looked_through_once_and_those_of_products_where_they_are_read() -> None:
    windows = halves(WINDOWS, {"A": (3, 9, 16), "B": (3, 3, 16, 13)})
    products = halves(TWO, {"A": (9, 16), "B": (16, 13), "C": (9, 16), "D": (16, 13)})
    steps = attrs.evolve(TILE, edges=1000)
    for program, whole in ((windows, True), (products, False)):
        lowered = lower_kernels(run(cpu(TARGET), program) if program is products else tiled(program, steps), TARGET)
        kernel = next(k for k in map(simplify, lowered.kernels) if dots_of(k))
        loops = [stmt for stmt in checked_dots(kernel, FLUSHING).body if isinstance(stmt, sem.For)]
        assert any(loop.step == 32 for loop in loops) is whole
