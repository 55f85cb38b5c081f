"""Turned copies of what windows slide over: one of both tensors goes, and nothing else changes."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.passes import assert_same_meaning, program_of, programs
from tileir.core.dtype import DType
from tileir.passes.base import run
from tileir.passes.layouts.eliminate_transposes import EliminateTransposes
from tileir.stripe.check.verifier import verify
from tileir.stripe.ir import Program
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

DEPTHWISE = "+(T[n, c, y + i - 1, x + j - 1] * W[c, i, j])"
BY_DATA = "+(T[n, c, y, x] * W[c, i, j])"
PATCHES = "+(T[n, c, 2*y + i, 2*x + j] * W[c, i, j])"


def made(body: str, shapes: dict[str, tuple[int, ...]], dtype: DType = DType.F32) -> Program:
    """Return a program: ``body`` says what of ``shapes`` is made, after ``function``."""
    return lower(infer(parse(f"function {body}"), {name: TensorType(dtype, shape) for name, shape in shapes.items()}))


def turned(program: Program) -> int:
    """Return how many tensors the pass spares a program, of which it checks the meaning."""
    after = run((EliminateTransposes(),), program)
    verify(after)
    assert_same_meaning(program, after)
    return len(program.memory) - len(after.memory)


NHWC = {"X": (2, 5, 4, 3), "W": (3, 3, 3)}
NCHW = {"X": (2, 3, 5, 4), "W": (3, 3, 3)}
READ = "T[n, c, y, x : N, C, H, V] = =(X[n, y, x, c]);"
ARGUMENTS = "(X[N, H, V, C], W[C, I, J])"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("body", "shapes", "gone"),
    [
        (f"{ARGUMENTS} -> (O) {{ {READ} O[n, c, y, x : N, C, H, V] = {DEPTHWISE}; }}", NHWC, 1),
        (f"{ARGUMENTS} -> (O) {{ {READ} O[n, c, y + i, x + j : N, C, H + 2, V + 2] = {BY_DATA}; }}", NHWC, 1),
        (f"{ARGUMENTS} -> (O) {{ {READ} S = T * 2.0; O[n, c, y, x : N, C, 2, 2] = {PATCHES}; }}", NHWC, 1),
        # on both sides
        (
            f"{ARGUMENTS} -> (R) {{ {READ} O[n, c, y, x : N, C, H, V] = {DEPTHWISE};"
            " R[n, y, x, c : N, H, V, C] = =(O[n, c, y, x]); }",
            NHWC,
            2,
        ),
        # the first elements of a window alone, and of what it reads
        (
            f"{ARGUMENTS} -> (R) {{ {READ} O[n, c, y, x : N, C, H, V] = {DEPTHWISE};"
            " R[n, y, x, c : N, H - 1, V, C] = =(O[n, c, y, x]); }",
            NHWC,
            1,
        ),
        (
            f"{ARGUMENTS} -> (O) {{ T[n, c, y, x : N, C, H, V - 1] = =(X[n, y, x, c]);"
            f" O[n, c, y, x : N, C, H, V] = {DEPTHWISE}; }}",
            NHWC,
            0,
        ),
        # what is computed of a window element by element
        (
            f"{ARGUMENTS} -> (R) {{ {READ} O[n, c, y, x : N, C, H, V] = {DEPTHWISE};"
            " P = O + 1.0; R[n, y, x, c : N, H, V, C] = =(P[n, c, y, x]); }",
            NHWC,
            2,
        ),
        # an output in both orders, and twice in one
        (f"{ARGUMENTS} -> (O, T) {{ {READ} O[n, c, y, x : N, C, H, V] = {DEPTHWISE}; }}", NHWC, 0),
        (
            f"{ARGUMENTS} -> (O, R, S) {{ {READ} O[n, c, y, x : N, C, H, V] = {DEPTHWISE};"
            " P = T + 1.0; R[n, y, x, c : N, H, V, C] = =(P[n, c, y, x]);"
            " S[n, y, x, c : N, H, V, C] = =(P[n, c, y, x]); }",
            NHWC,
            2,
        ),
        # another kernel sees other axes of what stays, and makes a scalar
        (
            f"{ARGUMENTS} -> (O, Q, Z) {{ {READ} U = reshape(X, N, H * V * C); S = T * 2.0; Z[] = +(U[n, p]);"
            " O[n, c, y, x : N, C, H, V] = +(S[n, c, y + i - 1, x + j - 1] * W[c, i, j]); Q[n : N] = +(U[n, p]); }",
            NHWC,
            1,
        ),
        # nothing slides; channels are apart where they come from; a part only; other axes of the copy
        (f"{ARGUMENTS} -> (O) {{ {READ} O[n, c : N, C] = +(T[n, c, y, x] * W[c, 0, 0]); }}", NHWC, 0),
        (
            "(X[N, C, H, V], W[C, I, J]) -> (O) { T[n, y, x, c : N, H, V, C] = =(X[n, c, y, x]);"
            " O[n, y, x, c : N, H, V, C] = +(T[n, y + i - 1, x + j - 1, c] * W[c, i, j]); }",
            NCHW,
            0,
        ),
        (
            f"{ARGUMENTS} -> (O) {{ T[n, c, y, x : N, C, H, V - 1] = =(X[n, y, x + 1, c]);"
            f" O[n, c, y, x : N, C, H, V - 1] = {DEPTHWISE}; }}",
            NHWC,
            0,
        ),
        (
            f"{ARGUMENTS} -> (O, Q) {{ {READ} U = reshape(T, N, C, H * V);"
            f" O[n, c, y, x : N, C, H, V] = {DEPTHWISE}; Q[n, c : N, C] = +(U[n, c, p]); }}",
            NHWC,
            0,
        ),
        # a window slides along more axes than the copy has
        (
            "(X[N, P, C], W[C, I, J]) -> (O) { T[n, c, p : N, C, P] = =(X[n, p, c]); U = reshape(T, N, C, 5, 4);"
            " O[n, c, y, x : N, C, 5, 4] = +(U[n, c, y + i - 1, x + j - 1] * W[c, i, j]); }",
            {"X": (2, 20, 3), "W": (3, 3, 3)},
            0,
        ),
    ],
)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.I32])
def test_turned_copies(body: str, shapes: dict[str, tuple[int, ...]], gone: int, dtype: DType) -> None:
    if dtype is DType.I32:
        body = body.replace(".0", "")
    assert turned(made(body, shapes, dtype)) == gone


def test_elements_that_are_written_again_stay_as_they_were() -> None:
    """The copied tensor is written again before the window reads the copy."""
    shapes = {"A": (4, 3), "B": (4, 3), "X": (4, 3), "T": (3, 4), "O": (3, 2)}

    def copy(source: str, into: str, place: str = "i, j") -> str:
        return f"""block [i:4, j:3]:12 (
            in {source}[i, j] fp32:I(1, 1):(3, 1):4 B
            out {into}[{place}]:assign fp32:I(1, 1):({3 if place == "i, j" else 4}, 1):4 B
        ) {{
          0: $x = load({source})
          1: {into} = store($x)
        }}"""

    window = """block [j:3, p:2, k:3]:18 (
            in T[j, p + k] fp32:I(1, 1):(4, 1):4 B
            out O[j, p]:add fp32:I(1, 1):(2, 1):4 B
        ) {
          0: $x = load(T)
          1: O = store($x)
        }"""
    again = program_of([copy("A", "X"), copy("X", "T", "j, i"), copy("B", "X"), window], shapes, ("O",))
    assert run((EliminateTransposes(),), again) is again
    assert turned(program_of([copy("A", "X"), copy("X", "T", "j, i"), window], shapes, ("O",))) == 2


@st.composite
def windows(draw: st.DrawFn) -> Program:
    """Return windows between turned copies, of which the last may be of the first elements only, in drawn orders."""
    axes = ("n", "c", "y", "x")
    names = {"n": "N", "c": "C", "y": "H", "x": "V"}
    order, back = draw(st.permutations(axes)), draw(st.permutations(axes))
    shape = {"N": draw(st.integers(1, 2)), "C": draw(st.integers(1, 3)), "H": draw(st.integers(2, 4)), "V": 3}
    between = draw(st.sampled_from(("T", "T + T", "max(T, 1.0)")))
    kind = draw(st.sampled_from((DEPTHWISE, BY_DATA.replace("[n, c, y, x]", "[n, c, y + i - 1, x + j - 1]"))))
    written = ", ".join(names[a] for a in order), ", ".join(order)
    left = {a: draw(st.sampled_from((0, 0, 1))) if shape[names[a]] > 1 else 0 for a in axes}
    result = ", ".join(back), ", ".join(f"{names[a]} - {left[a]}" for a in back)
    body = f"""(X[{written[0]}], W[C, I, J]) -> (R{draw(st.sampled_from(("", ", S", ", T")))}) {{
        U[n, c, y, x : N, C, H, V] = =(X[{written[1]}]); T = U + 1.0;
        P = {between};
        O[n, c, y, x : N, C, H, V] = {kind.replace("T[", "P[")};
        R[{result[0]} : {result[1]}] = =(O[n, c, y, x]); S = P * 2.0; }}"""
    return made(body, {"X": tuple(shape[names[a]] for a in order), "W": (shape["C"], 3, 3)})


@given(windows())
@examples(20)
def test_windows_keep_their_meaning(program: Program) -> None:
    turned(program)


@given(programs(12))
@examples(20)
def test_programs_keep_their_meaning(program: Program) -> None:
    turned(program)
