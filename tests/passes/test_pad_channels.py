"""Few channels of convolutions, padded so that a pixel is a piece that one instruction copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from passes.test_masked_products import FIRST, LAST, OF_WEIGHTS, WARPGROUPS, WARPS, check, products, stages
from strategies.effort import examples
from strategies.passes import arrays_for
from tileir.core.dtype import DType
from tileir.passes.base import run
from tileir.passes.layouts.pad_channels import PadChannels
from tileir.passes.rewrites.canonicalise import Canonicalise
from tileir.semtree.text.printer import to_text
from tileir.stripe.check.verifier import verify
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from tileir.passes.schedules.groups.matrix.contraction import MatrixContraction
    from tileir.stripe.ir import Program

PADDED = PadChannels(fragments=WARPS.fragments, least_reuse=1)
LONG_ROWS = Canonicalise(merge=False, channels=8)


def program(text: str, dtype: DType, *shapes: tuple[int, ...]) -> Program:
    types = {name: TensorType(dtype, shape) for name, shape in zip("AB", shapes, strict=True)}
    return lower(infer(parse(text), types))


def copies(text: str, dtype: DType, *shapes: tuple[int, ...], step: PadChannels = PADDED) -> dict[str, tuple[int, ...]]:
    """Return the shapes of what a pass adds."""
    after = run((step,), program(text, dtype, *shapes))
    return {r.name: r.shape.sizes for r in after.entry.refinements if r.name.endswith("_padded")}


@given(
    form=st.sampled_from((LAST, FIRST)),
    picture=st.tuples(st.integers(2, 7), st.integers(2, 7)),
    channels=st.tuples(st.integers(1, 9), st.integers(1, 5)),
    window=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    steps=st.tuples(st.integers(0, 2), st.integers(1, 2), st.integers(1, 2)),
    dtype=st.sampled_from((DType.F16, DType.BF16)),
    most=st.sampled_from((4, 8)),
)
@examples(60)
def test_the_meaning_stays(
    form: str,
    picture: tuple[int, int],
    channels: tuple[int, int],
    window: tuple[int, int],
    steps: tuple[int, int, int],
    dtype: DType,
    most: int,
) -> None:
    (c, f), (border, stride, dilation) = channels, steps
    assume(all(n + 2 * border > dilation * (w - 1) for n, w in zip(picture, window, strict=True)))
    shapes: tuple[tuple[int, ...], ...] = ((2, *picture, c), (*window, c, f))
    if form is FIRST:
        shapes = ((2, c, *picture), (f, c, *window))
    before = program(form.format(b=border, s=stride, d=dilation), dtype, *shapes)
    step = PadChannels(("mma_m16n8k16_f16", "mma_m16n8k16_bf16"), most=most, waste=2, least_reuse=1)
    after = run((step,), before)
    verify(after)
    arrays = arrays_for(before)
    for name, expected in interpret(before, arrays).items():
        np.testing.assert_array_equal(interpret(after, arrays)[name], expected)


def test_channels_are_last_and_a_power_of_two() -> None:
    text = FIRST.format(b=1, s=1, d=1)
    assert copies(text, DType.F16, (2, 3, 8, 9), (16, 3, 3, 3)) == {
        "A_padded": (2, 8, 9, 4),
        "B_padded": (16, 3, 3, 4),
    }


@pytest.mark.parametrize(
    ("dtype", "channels", "step"),
    [
        (DType.F32, 3, PADDED),  # a word is a piece
        (DType.F16, 4, PADDED),
        (DType.F16, 2, PADDED),
        (DType.F16, 5, PadChannels(fragments=WARPS.fragments, most=8, least_reuse=1)),  # three of eight would be zeros
        (DType.F16, 3, PadChannels(least_reuse=1)),  # nothing multiplies such matrices
        (DType.BF16, 3, PADDED),
        (DType.F16, 3, PadChannels(fragments=WARPS.fragments, least_reuse=4096)),
        (DType.F16, 3, PadChannels(fragments=WARPS.fragments, least_reuse=1, least_points=1 << 30)),
    ],
)
def test_others_stay_as_they_are(dtype: DType, channels: int, step: PadChannels) -> None:
    text = LAST.format(b=1, s=1, d=1)
    assert not copies(text, dtype, (2, 8, 8, channels), (3, 3, channels, 16), step=step)


def test_channels_of_results_stay_as_they_are() -> None:
    assert not copies(OF_WEIGHTS, DType.F16, (2, 8, 8, 3), (2, 8, 8, 16))


@pytest.mark.sampled(0)
@pytest.mark.parametrize(
    ("form", "step", "shapes"),
    [
        (LAST, WARPS, {"A": (1, 6, 8, 3), "B": (3, 5, 3, 17)}),
        (FIRST, WARPS, {"A": (1, 3, 5, 8), "B": (17, 3, 3, 3)}),
        (LAST, WARPGROUPS, {"A": (1, 3, 20, 3), "B": (2, 5, 3, 32)}),
    ],
)
@pytest.mark.parametrize("spots", [0, 2])
def test_pixels_are_copied_as_one_piece(
    form: str, step: MatrixContraction, shapes: dict[str, tuple[int, ...]], spots: int
) -> None:
    """Under tests that hold for all channels of a pixel; infinities and NaN meet no zero that was put there."""
    found = stages(form.format(b=1, s=1, d=1), shapes, step, PADDED, LONG_ROWS)
    assert products(found) >= 1
    text = "".join(map(to_text, found.sem.kernels))
    assert "async A_stage" in text
    assert ": 4] = A_padded[" in text
    check(found, shapes, spots)
