"""Elements at constant places near each other, as vectors whose lanes are put in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.effort import examples
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.passes.base import run
from tileir.passes.pipelines.catalog import parse_pipeline
from tileir.passes.rewrites.dead_code import DeadCode
from tileir.passes.schedules.vectors.permute_gather import PermuteGather
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.lower.lowering import lower as lower_to_kernels
from tileir.stripe.check.verifier import verify
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Direction
from tileir.stripe.lower.lowering import lower
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from tileir.stripe.ir import Program

    Array = np.ndarray[Any, np.dtype[Any]]

BEFORE = "canonicalise{merge=false},fuse,localise,scalarise,dead_code,constant_propagate,canonicalise"
PIXELS = """function (X[H, W, C], P[N], Q[N], K[N]) -> (Y) {
    Flat = reshape(X, H * W, C);
    Zero = 0;
    Shape[y, n : H, N] = =(Zero[]);
    Row = index(Shape, 0) * W;
    A = gather(Flat, Row + max(min(P, W - 1), 0));
    B = gather(Flat, Row + max(min(Q, W - 1), 0));
    Y = A + (B - A) * reshape(K, N, 1);
}"""


def program_of(picture: Array, first: Array, second: Array, weights: Array, text: str = PIXELS) -> Program:
    bound = tileir.bind(text, P=first.astype(np.int32), Q=second.astype(np.int32), K=weights)
    dtype = DType.F32 if picture.dtype == np.float32 else DType.I32
    return run(parse_pipeline(BEFORE), lower(infer(bound, {"X": TensorType(dtype, picture.shape)})))


def held(program: Program) -> int:
    """Return how many vectors of neighbours the kernels of a program keep in registers at once."""
    found = 0
    for kernel in program.main.blocks:
        for block in kernel.blocks[:1]:
            found += sum(r.direction is Direction.NONE for r in block.refinements)
    return found


def check(program: Program, picture: Array, lanes: int = 8, **others: Array) -> Program:
    """Return the program after the pass; its meaning stays, on the way down too."""
    arrays = {"X": picture, **others}
    after = run((DeadCode(),), PermuteGather(vector_bytes=4 * lanes)(program))
    verify(after)
    wanted = interpret(program, arrays)["Y"]
    np.testing.assert_array_equal(interpret(after, arrays)["Y"], wanted)
    kernels = lower_to_kernels(run(parse_pipeline("bound_places,thread"), after), Target())
    np.testing.assert_array_equal(run_program(kernels, arrays)["Y"], wanted)
    return after


def picture_of(rows: int, columns: int, channels: int) -> Array:
    return np.random.default_rng(1).random((rows, columns, channels)).astype(np.float32)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("columns", [16, 21, 37])
def test_pixels_between_others_take_one_vector_for_two_neighbours(channels: int, columns: int) -> None:
    picture, places = picture_of(3, columns, channels), (np.arange(2 * columns) - 1) // 2
    program = program_of(picture, places, places + 1, np.full(2 * columns, 0.25, np.float32))
    assert held(check(program, picture, 16)) == 1


def test_places_far_from_each_other_take_a_vector_each() -> None:
    picture, places = picture_of(2, 40, 1), np.arange(40)
    program = program_of(picture, places, places[::-1], np.ones(40, np.float32))
    assert held(check(program, picture)) == 2


@pytest.mark.parametrize(
    "places",
    [
        np.arange(40) * 3 % 40,  # a vector does not reach
        np.where(np.arange(40) == 20, 0, np.arange(40)),
        np.arange(40) * 2,
    ],
)
def test_places_that_no_vector_reaches_stay(places: Array) -> None:
    picture = picture_of(2, 40, 1)
    program = program_of(picture, places, np.arange(40), np.ones(40, np.float32))
    assert PermuteGather(vector_bytes=32)(program) is program


@pytest.mark.parametrize(
    ("text", "columns", "count"),
    [
        (PIXELS, 7, 40),  # a row is shorter than a vector
        (PIXELS, 40, 7),  # and so are the results
        (PIXELS.replace("B - A", "B - index(Y0, 1) * A").replace("Y =", "Y0 = A;\n Y ="), 40, 40),
        (PIXELS.replace("max(min(P, W - 1), 0)", "max(min(P + as_i32(X[0, 0, 0]), W - 1), 0)"), 40, 40),
    ],
)
def test_other_kernels_stay(text: str, columns: int, count: int) -> None:
    picture, places = picture_of(2, columns, 1), np.arange(count)
    text = text.replace("as_i32(X[0, 0, 0])", "as_i32(Corner)")
    text = text.replace("Zero = 0;", "Zero = 0; Corner[] = =(X[0, 0, 0]);") if "Corner" in text else text
    program = program_of(picture, places, places, np.ones(count, np.float32), text)
    assert PermuteGather(vector_bytes=32)(program) is program


def test_narrow_vectors_and_programs_without_constants_stay() -> None:
    picture, places = picture_of(2, 40, 1), np.arange(40)
    program = program_of(picture, places, places, np.ones(40, np.float32))
    assert PermuteGather(vector_bytes=16)(program) is program
    types = {"X": TensorType(DType.F32, (2, 40, 1)), "K": TensorType(DType.F32, (40,))}
    function = infer(tileir.parse(PIXELS), {**types, **dict.fromkeys("PQ", TensorType(DType.I32, (40,)))})
    unknown = run(parse_pipeline(BEFORE), lower(function))
    assert PermuteGather(vector_bytes=32)(unknown) is unknown


@given(
    st.integers(1, 4),
    st.integers(4, 40),
    st.sampled_from([0.3, 0.5, 0.8, 1.0, 1.4, 2.0, 3.7]),
    st.sampled_from([8, 16]),
    st.integers(-3, 3),
    st.sampled_from([np.float32, np.int32]),
)
@examples(60)
def test_resampled_rows_keep_their_meaning(
    channels: int, columns: int, scale: float, lanes: int, shift: int, dtype: type
) -> None:
    count = max(1, int(columns * scale))
    places = np.floor((np.arange(count) + 0.5) / scale - 0.5).astype(np.int64)
    picture: Array = (picture_of(2, columns, channels) * 100).astype(dtype)
    program = program_of(picture, places, places + shift, np.arange(count).astype(dtype))
    check(program, picture, lanes)


ROWS = """function (X[H, W, C], R[M], P[N], K[N], V[M]) -> (Y) {
    Upper = gather(X, R);
    Lines = LINES;
    Flat = reshape(Lines, M * W, C);
    Zero = 0;
    Shape[y, n : M, N] = =(Zero[]);
    Y = gather(Flat, index(Shape, 0) * W + max(min(P, W - 1), 0)) * reshape(K, N, 1);
}"""


def rows_of(lines: str, channels: int = 3, scale: int = 2, text: str = ROWS) -> tuple[Program, dict[str, Array]]:
    """Return a program that computes lines of six rows and then takes columns of them, and its arguments."""
    columns, count = 24, 24 * scale
    places = (np.arange(count) // scale).astype(np.int32)
    bound = tileir.bind(text.replace("LINES", lines), P=places, K=np.linspace(0, 1, count).astype(np.float32))
    types = {"X": TensorType(DType.F32, (4, columns, channels)), "V": TensorType(DType.F32, (6,))}
    function = infer(bound, {**types, "R": TensorType(DType.I32, (6,))})
    given: dict[str, Array] = {
        "X": picture_of(4, columns, channels),
        "R": np.array([0, 3, -1, 7, 2, 1], np.int32),
        "V": np.arange(6, dtype=np.float32),
    }
    return run(parse_pipeline(BEFORE), lower(function)), given


@pytest.mark.sampled(4)
@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("lines", ["Upper", "Upper * 2 + 1", "Upper * reshape(V, M, 1, 1)", "Upper - gather(X, R + 1)"])
def test_rows_are_computed_where_vectors_of_them_are_read(lines: str, channels: int) -> None:
    program, given = rows_of(lines, channels)
    after = check(program, given.pop("X"), 16 if channels < 4 else 8, **given)
    assert len(after.main.blocks) == len(program.main.blocks) - 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("lines", "scale", "text"),
    [
        ("Upper", 2, ROWS.replace("-> (Y)", "-> (Y, Lines)")),  # somebody else reads them
        ("Upper", 60, ROWS),  # it would be computed many times
        ("Upper" + " + sin(Upper)" * 20, 2, ROWS),
        ("Upper + index(Upper, 1)", 2, ROWS),
        ("Upper * Upper[0]", 2, ROWS),
    ],
)
def test_other_rows_are_stored(lines: str, scale: int, text: str) -> None:
    if "[0]" in lines:  # by a sum along the row
        text, lines = (
            text.replace("Lines = ", "Sum[m, c : M, C] = +(Upper[m, w, c]);\n Lines = "),
            "Upper * reshape(Sum, M, 1, C)",
        )
    program, given = rows_of(lines, 3, scale, text)
    after = run((DeadCode(),), PermuteGather(vector_bytes=64)(program))
    assert after is not program
    assert len(after.main.blocks) == len(program.main.blocks)
    if len(given) == 3 and "Sum" not in text:
        wanted = interpret(program, given)["Y"]
        np.testing.assert_array_equal(interpret(after, given)["Y"], wanted)
