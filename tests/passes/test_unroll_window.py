"""Small windows as chains of scalar operations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.contractions import Case
from strategies.effort import examples
from strategies.families import Written, written
from strategies.passes import assert_same_meaning
from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.passes.algorithms.unroll_window import UnrollWindow
from tileir.passes.base import run
from tileir.schedule.remarks import Remarks, listening
from tileir.stripe.check.verifier import verify
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Intrinsic, Load, Program
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

WINDOW = "function (I[H, W], K[P, Q]) -> (O) { O[y, x : 4, 6] = +(I[y + i, x + j] * K[i, j]); }"
SHAPES = {"I": (6, 8), "K": (3, 3)}


def after(text: str, dtype: DType = DType.F32, **shapes: tuple[int, ...]) -> Program:
    return run((UnrollWindow(),), Case(text, dtype, shapes or SHAPES).program())


def operations(program: Program) -> list[Op]:
    return [s.op for s in program.main.blocks[0].statements if isinstance(s, Intrinsic)]


def test_products_are_fused_into_sums_of_floats() -> None:
    program = after(WINDOW)
    assert program.main.blocks[0].ranges == {"x": 6, "y": 4}
    assert operations(program) == [Op.MUL] + 8 * [Op.FMA]
    assert operations(after(WINDOW, DType.I32)) == [Op.MUL] + 8 * [Op.MUL, Op.ADD]


def test_maxima_need_no_weights() -> None:
    text = "function (I[H, W]) -> (O) { O[y, x : 4, 6] = >(I[y + i, x + j]), i < 3, j < 3; }"
    assert operations(after(text, I=(6, 8))) == 8 * [Op.MAX]


def test_maxima_of_rows_are_shared_by_windows_below_each_other() -> None:
    text = "function (I[H, W]) -> (O) { O[y, x : 4, 6] = >(I[y + j, x + i]), i < 3, j < 2; }"
    (kernel,) = after(text, I=(6, 8)).main.blocks
    maxima = [s.inputs for s in kernel.statements if isinstance(s, Intrinsic)]
    loaded = {s.into for s in kernel.statements if isinstance(s, Load)}
    assert [len(loaded & set(inputs)) for inputs in maxima] == [2, 1, 2, 1, 0]


def test_elements_of_the_window_are_loaded_once() -> None:
    text = "function (I[H, W]) -> (O) { O[y, x : 6, 6] = +(I[y, x + j] * I[y, x + 2 - j]), j < 3; }"
    (kernel,) = after(text, I=(6, 8)).main.blocks
    assert sum(isinstance(s, Load) for s in kernel.statements) == 3


CUT = {
    "in a line": ("{0}[x : N] = {2}({1}[x + i - 1]), i < 3;", (9,)),
    "wider than the tensor": ("{0}[x : N] = {2}({1}[x + i - 4]), i < 9;", (3,)),
    "at one end, with holes": ("{0}[x : N] = {2}({1}[x + 3 * i]), i < 2;", (7,)),
    "along two axes": ("{0}[y, x : N, M] = {2}({1}[y + i - 1, x + 2 * j - 2]), i < 3, j < 3;", (6, 7)),
    "beside a whole axis": ("{0}[y, x : N, M] = {2}({1}[y + i - 2, x]), i < 5;", (4, 5)),
    "in space": ("{0}[z, y, x : N, M, L] = {2}({1}[z + i - 1, y + j, x + 1 - k]), i < 2, j < 2, k < 2;", (3, 4, 5)),
}
"""Windows that the border cuts, by the result, the operand and the aggregation."""


def two_windows(step: str, how: str, sizes: str, between: str = "T = A * 2;") -> str:
    """Return a program of two windows, and what is between them."""
    first, second = step.format("A", "X", how), step.format("B", "T", how)
    return f"function (X[{sizes}]) -> (A, B) {{ {first} {between} {second} }}"


@pytest.mark.parametrize("name", CUT)
@pytest.mark.parametrize(("how", "dtype"), [("+", DType.I32), (">", DType.F32), ("*", DType.I64), ("<", DType.U8)])
def test_windows_that_the_border_cuts_leave_out_what_is_beyond(name: str, how: str, dtype: DType) -> None:
    step, shape = CUT[name]
    program = Case(two_windows(step, how, ", ".join("NML"[: len(shape)])), dtype, {"X": shape}).program()
    written_out = run((UnrollWindow(cut_bytes=0),), program)
    assert any(kernel.constraints for kernel in program.main.blocks)
    assert not any(kernel.constraints for kernel in written_out.main.blocks)
    verify(written_out)
    assert_same_meaning(program, written_out)


def test_what_is_left_out_is_not_multiplied() -> None:
    """A weight that is not finite makes nothing of what is beyond the border."""
    step = "{0}[x : N] = {2}({1}[x + i - 1] * K[i]);"
    text = two_windows(step, "+", "N").replace("(X[N])", "(X[N], K[P])")
    program = Case(text, DType.F32, {"X": (5,), "K": (3,)}).program()
    written_out = run((UnrollWindow(cut_bytes=0),), program)
    given = {"X": np.ones(5, np.float32), "K": np.array([np.inf, 1, 1], np.float32)}
    assert interpret(written_out, given)["A"].tolist() == [2, np.inf, np.inf, np.inf, np.inf]
    assert_same_meaning(program, written_out, given)


LINE = CUT["in a line"][0]


@pytest.mark.parametrize(
    ("text", "most"),
    [
        (two_windows(LINE, "+", "N"), 37),  # bytes, one more than there are
        ("function (X[N]) -> (A) { " + LINE.format("A", "X", "+") + " }", 0),  # alone
        (two_windows(LINE, "+", "N", "T[x : N] = +(A[k] * A[x]);"), 0),  # more than elements is between
        (two_windows("{0}[x : N] = {2}({1}[x + i - 4]), i < 3;", ">", "N"), 0),  # some elements are zeros
        (two_windows("{0}[x : N] = {2}({1}[x + i - 1]), i < 3, x + i < 7;", "+", "N"), 0),  # cut by more
    ],
)
def test_other_windows_that_constraints_cut_stay(text: str, most: int) -> None:
    program = Case(text, DType.F32, {"X": (9,)}).program()
    assert run((UnrollWindow(cut_bytes=most),), program) is program


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("function (A[M, K], B[K, N]) -> (O) { O[i, j : M, N] = +(A[i, k] * B[k, j]); }", {"A": (4, 3), "B": (3, 4)}),
        ("function (A[M, K]) -> (O) { O[i : M] = +(A[i, k]); }", {"A": (8, 3)}),
        ("function (I[N]) -> (O) { O[x : 8] = +(I[x + i - 1]), i < 3; }", {"I": (8,)}),  # the border cuts windows
        ("function (I[N]) -> (O) { O[x : 8] = +(I[x + i]), i < 70; }", {"I": (77,)}),
        ("function (I[N]) -> (O) { O[x : 8] = =(I[x + 1]); }", {"I": (9,)}),
        (
            "function (I[N, C], K[P, C, D]) -> (O) { O[x, d : 8, D] = +(I[x + i, c] * K[i, c, d]); }",
            {"I": (10, 2), "K": (3, 2, 4)},
        ),
    ],
)
def test_all_else_stays(text: str, shapes: dict[str, tuple[int, ...]]) -> None:
    program = Case(text, DType.F32, shapes).program()
    assert run((UnrollWindow(),), program) is program


def kernels(text: str, **shapes: tuple[int, ...]) -> list[dict[str, int]]:
    """Return the ranges of the kernels after the pass."""
    types = {name: TensorType(DType.F32, shape) for name, shape in shapes.items()}
    before = lower(infer(parse(text), types))
    program = run((UnrollWindow(),), before)
    assert_same_meaning(before, program)
    return [kernel.ranges for kernel in program.main.blocks]


WEIGHTED = (
    "function (I[P, W], K[H, N, W], L[H, N, W]) -> (S, T) {{ "
    "S[y, x : H, W] = +(I[y + i, x] * K[y, i, x]); T[y, x : H, W] = +({}); }}"
)


@pytest.mark.parametrize(
    ("term", "written_out"),
    [("K[y, i, x]", True), ("L[y, i, x]", False), ("K[y, 2 - i, x]", False), ("K[y, i, x] * L[y, i, x]", False)],
)
def test_sums_of_the_weights_of_a_window_are_written_out_beside_it(term: str, written_out: bool) -> None:
    found = kernels(WEIGHTED.format(term), I=(6, 8), K=(4, 3, 8), L=(4, 3, 8))
    assert [ranges.get("i") for ranges in found] == [None, None if written_out else 3]


def test_of_what_is_written_out_beside_a_window_no_refusal_is_told() -> None:
    shapes = {"I": (6, 8), "K": (4, 3, 8), "L": (4, 3, 8)}
    types = {name: TensorType(DType.F32, shape) for name, shape in shapes.items()}
    for term, refusals in (("K[y, i, x]", []), ("L[y, i, x]", ["TR678"])):
        kept = Remarks()
        with listening(kept):
            run((UnrollWindow(),), lower(infer(parse(WEIGHTED.format(term)), types)))
        assert [remark.code for remark in kept.all() if not remark.fired] == refusals


def test_sums_of_weights_alone_stay() -> None:
    assert "i" in kernels("function (K[H, N, W]) -> (T) { T[y, x : H, W] = +(K[y, i, x]); }", K=(4, 3, 8))[0]


@pytest.mark.parametrize(("channels", "written_out"), [(3, True), (5, False)])
def test_windows_over_planes_make_pixels(channels: int, written_out: bool) -> None:
    text = "function (I[C, P, Q], K[A, B]) -> (O) { O[y, x, c : 4, 6, C] = +(I[c, y + i, x + j] * K[i, j]); }"
    (ranges,) = kernels(text, I=(channels, 6, 8), K=(3, 3))
    assert ("i" not in ranges) is written_out


@given(case=written("pictures"), most=st.integers(1, 9))
@examples(60)
def test_meaning_stays(case: Written, most: int) -> None:
    program = case.program()
    assert_same_meaning(program, run((UnrollWindow(most=most),), program))


def test_an_infinity_meets_weights_of_zero() -> None:
    program = Case(WINDOW, DType.F32, SHAPES).program()
    inputs = {"I": np.zeros((6, 8), np.float32), "K": np.zeros((3, 3), np.float32)}
    inputs["I"][2, 2] = np.inf
    expected = interpret(program, inputs)["O"]
    assert np.isnan(expected).sum() == 9
    np.testing.assert_array_equal(interpret(run((UnrollWindow(),), program), inputs)["O"], expected)
