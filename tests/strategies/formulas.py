"""Random formulas, whose names need not exist."""

from __future__ import annotations

import attrs
from hypothesis import strategies as st

from tileir_formula.definitions.function_file import read_functions
from tileir_formula.ir import (
    Argument,
    Boundary,
    Colour,
    Formula,
    Mask,
    Merge,
    Near,
    Number,
    Region,
    Repeat,
    Source,
    Step,
    Subject,
    Weights,
    Word,
)
from tileir_formula.text.reading import WORDS

SOBEL = """\
// Edges of a photograph
inputs photo, paper
gray = luminance of photo // one channel
across = convolve(weights=[-1 0 1; -2 0 2; -1 0 1]) of gray outside clamp
down = convolve(weights=[-1 -2 -1; 0 0 0; 1 2 1]) of gray
edges = magnitude of across, down
repeat 5 until change below 0.01 {
  // small steps
  gaussian(radius=2) where output within 10% of pixel with blend(amount=0.5) paper
  median(size=3) where not input within 8 of #ff8000
}
threshold(level=0.25, soft=yes) of $4 where region(0, 0, 100, 200)
// done
results edges, $6
"""

FUNCTIONS = {
    function.name: function
    for function in read_functions(
        """\
/// blur: averages the pixels around each one.
/// radius = 1 from 0 to 9 step 1: how far
/// amount = 0.5 from 0 to 1 step 0.1: how much
function (Image[H, W, C], Radius, Amount) -> (Result) {
    Padded = border(Image, Radius, Radius);
    Sum[y, x, c : H, W, C] = +(Padded[y + i, x + j, c]), i < 2 * Radius + 1, j < 2 * Radius + 1;
    Result = Image + (Sum / ((2 * Radius + 1) * (2 * Radius + 1)) - Image) * Amount;
}
/// weigh: weighs the pixels around each one.
/// weights = [0 0 0; 0 1 0; 0 0 0] up to 9: of the rows and columns
/// boundary = clamp
function (Image[H, W, C], Weights[M, N]) -> (Result) {
    Padded = border(Image, M / 2, N / 2);
    Result[y, x, c : H, W, C] = +(Padded[y + i, x + j, c] * Weights[i, j]);
}
/// tint: adds a colour.
/// colour = #102030: which
/// mode = light among light, dark: adds, or takes away
/// amount = 1 from 0 to 4 step 0.5: how much
/// soft = no: half of it
function (Image[H, W, C], Colour[C], Mode, Amount, Soft) -> (Result) {
    Sign = 1 - 2 * Mode;
    Result = Image + Colour * (Amount * Sign) / (1 + Soft);
}
/// halve: leaves every other row and column out.
function (Image[H, W, C]) -> (Result) {
    Result[y, x, c : H / 2, W / 2, C] = +(Image[2 * y, 2 * x, c]);
}
/// add: adds a picture.
function (Image[H, W, C], Other[H, W, C]) -> (Result) {
    Result = Image + Other;
}
/// mix: goes towards another picture.
/// amount = 0.5 from 0 to 1 step 0.1: how far
function (Image[H, W, C], Other[H, W, C], Amount) -> (Result) {
    Result = Image + (Other - Image) * Amount;
}
"""
    )
}
"""Functions with parameters of all kinds, with and without a window, and one of another size."""

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True).filter(lambda name: name not in WORDS)
NUMBERS = st.builds(Number, st.integers(-1000, 1000) | st.floats(-1e9, 1e9))
COLOURS = st.builds(Colour, *(st.integers(0, 255),) * 3)
ROWS = st.integers(1, 3).flatmap(
    lambda length: st.lists(st.tuples(*(st.floats(-1e6, 1e6),) * length), min_size=1, max_size=3).map(tuple)
)
VALUES = NUMBERS | st.builds(Word, NAMES) | COLOURS | st.builds(Weights, ROWS)
ARGUMENTS = st.lists(st.builds(Argument, NAMES, VALUES), max_size=3).map(tuple)
SOURCES = st.builds(Source, NAMES | st.integers(1, 9))
CONDITIONS = (
    st.builds(Near, st.sampled_from(Subject), NUMBERS, st.booleans(), st.none() | COLOURS, st.booleans())
    | st.builds(Mask, SOURCES, st.booleans())
    | st.builds(Region, NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.booleans())
)
COMMENTS = st.text(st.characters(categories=("L", "N", "P", "S")), max_size=8)
STEPS = st.builds(
    Step,
    NAMES,
    st.none() | NAMES,
    st.lists(SOURCES, max_size=2).map(tuple),
    ARGUMENTS,
    st.none() | st.sampled_from(Boundary),
    st.none() | CONDITIONS,
    st.none() | st.builds(Merge, NAMES, SOURCES, ARGUMENTS),
    st.lists(COMMENTS, max_size=2).map(tuple),
    st.none() | COMMENTS,
)
GROUPS = st.recursive(
    STEPS,
    lambda inner: st.builds(
        Repeat,
        NUMBERS,
        st.lists(inner, max_size=3).map(tuple),
        st.none() | NUMBERS,
        st.lists(COMMENTS, max_size=1).map(tuple),
        st.none() | COMMENTS,
        st.lists(COMMENTS, max_size=1).map(tuple),
    ),
    max_leaves=6,
)


def _commented(formula: Formula, above: tuple[str, ...], remark: str | None) -> Formula:
    """Return a formula with comments beside its results, if it has any."""
    return attrs.evolve(formula, result_comments=above, result_remark=remark) if formula.results else formula


FORMULAS = st.builds(
    _commented,
    st.builds(
        Formula,
        st.lists(GROUPS, max_size=4).map(tuple),
        st.lists(NAMES, min_size=1, max_size=3).map(tuple),
        st.lists(SOURCES, max_size=2).map(tuple),
        comments=st.lists(COMMENTS, max_size=1).map(tuple),
        input_remark=st.none() | COMMENTS,
        last_comments=st.lists(COMMENTS, max_size=1).map(tuple),
    ),
    st.lists(COMMENTS, max_size=1).map(tuple),
    st.none() | COMMENTS,
)
