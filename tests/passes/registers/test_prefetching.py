"""Requests of steps for what later tiles read."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given, strategies as st

from strategies.contractions import Case
from strategies.effort import examples
from strategies.passes import assert_same_meaning
from tileir.core.dtype import DType
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.fusion.fuse import Fuse
from tileir.passes.rewrites.dead_code import DeadCode
from tileir.passes.rewrites.localise import Localise
from tileir.passes.rewrites.scalarise import Scalarise
from tileir.passes.schedules.registers.register_tile import RegisterTile
from tileir.stripe.ir import Program, Special

SMALL = RegisterTile(vector_bytes=16, registers=32, cache_bytes=1 << 14, panel_bytes=1 << 10)
PIXELS = """function (X[C, P], F[C, K]) -> (O) {
    O[p, k : P, K] = +(X[c, p] * F[c, k]);
}"""
EVERY_SECOND = """function (X[C, H, W], F[C, K]) -> (O) {
    O[y, x, k : H / 2, W / 2, K] = +(X[c, 2*y, 2*x] * F[c, k]);
}"""
SHORTCUT = """function (X[C, P], F[C, K], R[K, P]) -> (O) {
    S[k, p : K, P] = +(X[c, p] * F[c, k]);
    O = S + R;
}"""
SUMS = """function (X[I, C, P], F[I, C, K]) -> (O) {
    O[p, k : P, K] = +(X[i, c, p] * F[i, c, k]);
}"""
LAST = """function (X[P, C], F[C, K]) -> (O) {
    O[p, k : P, K] = +(X[p, c] * F[c, k]);
}"""
EVERY_SECOND_LAST = """function (X[P, C], F[C, K]) -> (O) {
    O[p, k : P / 2, K] = +(X[2*p, c] * F[c, k]);
}"""


def tiled(text: str, *shapes: tuple[int, ...], dtype: DType = DType.F32, step: RegisterTile = SMALL) -> Program:
    program = Case(text, dtype, dict(zip("XFR", shapes, strict=False))).program()
    return run((Accumulate(), Fuse(), Localise(), Scalarise(), step, DeadCode()), program)


def requests(program: Program) -> dict[str, set[int]]:
    """Return how many elements ahead steps ask, by what they read."""
    found: dict[str, set[int]] = {}
    for kernel in program.main.blocks:
        for block in kernel.nested():
            for statement in block.statements:
                if isinstance(statement, Special) and statement.name == "prefetch":
                    ahead = dict(statement.parameters)["ahead"]
                    assert isinstance(ahead, int)
                    found.setdefault(statement.inputs[0], set()).add(ahead)
    return found


def test_each_step_asks_for_the_last_line_of_the_next_tile() -> None:
    step = attrs.evolve(SMALL, rows=6, columns=2)
    assert requests(tiled(PIXELS, (40, 96), (40, 8), step=step)) == {"X": {6 + 5}}


def test_steps_ask_ahead_for_what_all_tiles_read_again() -> None:
    step = attrs.evolve(SMALL, rows=6, columns=2, reads=1 << 20)
    short, long, inner = (
        requests(tiled(text, *shapes, step=step))["F"]
        for text, *shapes in (
            (PIXELS, (40, 96), (40, 16)),
            (PIXELS, (400, 96), (400, 16)),
            (SUMS, (100, 6, 96), (100, 6, 16)),
        )
    )
    assert short == {8 + 7}  # the next panel: 12 multiply-adds of 40 steps are sooner done than memory answers
    assert long == {43 * 16 + 7}
    assert inner == {8 * 6 * 16 + 7}  # eight times all steps of the inner loop


def test_tiles_that_span_several_lines_ask_for_each() -> None:
    program = tiled(EVERY_SECOND, (40, 24, 96), (40, 8), step=attrs.evolve(SMALL, rows=12))
    assert requests(program) == {"X": {192 + 22, 192 + 22 - 16}}


def test_tiles_ask_first_for_what_they_read_last() -> None:
    step = attrs.evolve(SMALL, rows=4, columns=8)
    program = tiled(SHORTCUT, (40, 96), (40, 8), (8, 96), step=step)
    assert requests(program)["R"] == {0, 16}
    (kernel,) = program.main.blocks
    asking = next(b for b in kernel.nested() if any(isinstance(s, Special) for s in b.statements))
    assert [i.range for i in asking.indices] == [4]


def test_each_step_asks_for_its_share_of_rows_that_follow_each_other() -> None:
    step = attrs.evolve(SMALL, rows=6, columns=2)
    assert requests(tiled(LAST, (96, 40), (40, 8), step=step)) == {"X": {6 * 40}}
    assert requests(tiled(LAST, (96, 40), (40, 8), step=attrs.evolve(step, rows=3))) == {}  # lines would come often
    packing = attrs.evolve(step, reads=1, cache_bytes=1 << 10)
    assert "X" not in requests(tiled(LAST, (96, 40), (40, 32), step=packing))


@pytest.mark.parametrize(
    ("text", "shapes", "panel_bytes"),
    [
        (PIXELS, ((40, 96), (40, 8)), 1 << 20),  # caches hold all of it
        (PIXELS, ((4096, 6), (4096, 8)), 1 << 10),  # there is no later tile
        (EVERY_SECOND_LAST, ((97, 40), (40, 8)), 1 << 10),  # what the next step reads is beside it
    ],
)
def test_requests_have_to_pay(text: str, shapes: tuple[tuple[int, ...], ...], panel_bytes: int) -> None:
    step = attrs.evolve(SMALL, rows=6, columns=2, panel_bytes=panel_bytes)
    assert "X" not in requests(tiled(text, *shapes, step=step))


@given(
    st.sampled_from([DType.F16, DType.BF16, DType.F32, DType.F64]),
    st.sampled_from([PIXELS, EVERY_SECOND, SHORTCUT, LAST]),
    st.integers(2, 20),
    st.integers(2, 40),
    st.integers(4, 33),
)
@examples(4)
def test_meaning_stays(dtype: DType, text: str, channels: int, side: int, features: int) -> None:
    image = (channels, 2, side) if text == EVERY_SECOND else (side, channels) if text == LAST else (channels, side)
    shapes = {"X": image, "F": (channels, features)} | ({"R": (features, side)} if text == SHORTCUT else {})
    program = Case(text, dtype, shapes).program()
    passes = (Accumulate(), Fuse(), Localise(), Scalarise(), attrs.evolve(SMALL, panel_bytes=64), DeadCode())
    assert_same_meaning(program, run(passes, program))
