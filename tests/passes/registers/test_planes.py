"""Windows over planes of channels that lanes run along: planes are copied whole, or in strips of rows."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.effort import examples
from strategies.passes import arrays_for, assert_same_meaning
from tileir import FunctionBuilder, ops
from tileir.core import DType
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.fusion.fuse import Fuse
from tileir.passes.rewrites.canonicalise import Canonicalise
from tileir.passes.rewrites.dead_code import DeadCode
from tileir.passes.rewrites.localise import Localise
from tileir.passes.rewrites.scalarise import Scalarise
from tileir.passes.schedules.registers.register_tile import RegisterTile
from tileir.stripe.check.verifier import verify
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Binding, Block, Direction, Program
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

TILES = RegisterTile(vector_bytes=16, registers=32)


@attrs.frozen
class Window:
    """Windows of each channel alone over images, with something behind them."""

    images: int = 2
    channels: int = 9
    height: int = 7
    width: int = 6
    window: tuple[int, int] = (3, 3)
    stride: tuple[int, int] = (1, 1)
    dilation: int = 1
    before: tuple[int, int] = (1, 1)
    after: tuple[int, int] = (1, 1)
    dtype: DType = DType.F32
    weighted: bool = True
    kept: bool = False

    def program(self) -> Program:
        """Return sums, or sums of products with weights, and a bias, with accumulators."""
        sizes = [
            (size + before + after - self.dilation * (window - 1) - 1) // stride + 1
            for size, before, after, window, stride in zip(
                (self.height, self.width), self.before, self.after, self.window, self.stride, strict=True
            )
        ]
        rows, columns = (max(1, size) for size in sizes)
        down, right = (
            f"{stride} * {out} + {self.dilation} * {tap} - {before}"
            for stride, out, tap, before in zip(self.stride, "yx", "ij", self.before, strict=True)
        )
        output = f"S[n, c, y, x : {self.images}, {self.channels}, {rows}, {columns}]"
        product = " * K[c, i, j]" if self.weighted else ""
        box = "" if self.weighted else f", i < {self.window[0]}, j < {self.window[1]}"
        factor = ", K[C, I, J]" if self.weighted else ""
        text = (
            f"function (X[N, C, H, W], B[C, U, V]{factor}) -> (Y) "
            f"{{ {output} = +(X[n, c, {down}, {right}]{product}){box}; Y = S + B; }}"
        )
        types = {
            "X": TensorType(self.dtype, (self.images, self.channels, self.height, self.width)),
            "B": TensorType(self.dtype, (self.channels, 1, 1)),
        }
        if self.weighted:
            types["K"] = TensorType(self.dtype, (self.channels, *self.window))
        alone = () if self.kept else (Localise(), Scalarise(), DeadCode())  # else sums are read where they are stored
        return run((Accumulate(), Fuse(), *alone, Canonicalise()), lower(infer(parse(text), types)))


def planes(program: Program) -> list[tuple[int, ...]]:
    """Return the sizes of the memory for planes of each kernel."""

    def below(block: Block) -> list[tuple[int, ...]]:
        own = [
            r.shape.sizes for r in block.refinements if r.name.startswith("X_planes") and r.direction is Direction.NONE
        ]
        return [*own, *(sizes for inner in block.blocks for sizes in below(inner))]

    return below(program.main)


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("window", "sizes"),
    [
        (Window(channels=8), [(42, 4)]),
        (Window(channels=9), [(42, 4), (42, 1)]),
        (Window(channels=11), [(42, 4), (42, 4)]),  # the last four begin where others are not over
        (Window(channels=8, width=13, stride=(2, 2)), [(7 * 13, 4)]),
        (Window(channels=8, width=30, stride=(1, 2)), [(7 * 30, 4)]),
        (Window(channels=8, width=12, window=(5, 5), before=(2, 2), after=(2, 2)), [(7 * 12, 4)]),
        (Window(channels=8, before=(0, 0), after=(0, 0), stride=(2, 2)), [(7 * 5, 4)]),  # the last column is not read
        (Window(channels=8, weighted=False), [(42, 4)]),
        (Window(channels=8, width=40, window=(5, 5), before=(2, 2), after=(2, 2)), [(7 * 40, 4)]),
        (Window(channels=8, width=12), []),  # lanes along rows are as good
        (Window(channels=3), []),
        (Window(channels=8, window=(1, 1), before=(0, 0), after=(0, 0)), []),
    ],
)
def test_planes_are_copied_where_rows_are_short_or_strided(window: Window, sizes: list[tuple[int, ...]]) -> None:
    after = TILES(window.program())
    verify(after)
    assert planes(after) == sizes


def test_large_planes_are_copied_in_strips() -> None:
    window = Window(channels=4, height=40, width=9, stride=(2, 2))
    after = attrs.evolve(TILES, panel_bytes=2048)(window.program())
    assert planes(after) == [(11, 9, 4)]  # strips of five rows of results
    assert_same_meaning(window.program(), after)
    tall = Window(channels=4, height=40, width=9, window=(15, 3), before=(7, 1), after=(7, 1))
    assert planes(attrs.evolve(TILES, panel_bytes=2048)(tall.program())) == []  # strips would share most of their rows


def test_strips_keep_all_threads_busy() -> None:
    window = Window(images=1, channels=4, height=64, width=7)
    kernel, *_ = attrs.evolve(TILES, threads=2, operations=1)(window.program()).main.blocks
    assert [i.range for i in kernel.indices if i.binding is Binding.GRID] == [8]


@st.composite
def windows(draw: st.DrawFn) -> Window:
    """Windows of all shapes and steps, over images that may be smaller."""
    window = (draw(st.integers(1, 5)), draw(st.integers(1, 5)))
    return Window(
        images=draw(st.integers(1, 2)),
        channels=draw(st.integers(2, 9)),
        height=draw(st.integers(1, 12)),
        width=draw(st.integers(1, 18)),
        window=window,
        stride=(draw(st.integers(1, 3)), draw(st.integers(1, 3))),
        dilation=draw(st.sampled_from((1, 1, 2))),
        before=(draw(st.integers(0, window[0])), draw(st.integers(0, window[1]))),
        after=(draw(st.integers(0, window[0])), draw(st.integers(0, window[1]))),
        dtype=draw(st.sampled_from((DType.F16, DType.F32, DType.F64, DType.I32))),
        weighted=draw(st.booleans()),
        kept=draw(st.booleans()),
    )


@given(windows(), st.sampled_from((8, 16, 32)), st.sampled_from((256, 1024, 1 << 18)), st.integers(1, 3))
@examples(60)
def test_windows_keep_their_meaning(window: Window, vector_bytes: int, panel_bytes: int, threads: int) -> None:
    program = window.program()
    tiles = attrs.evolve(
        TILES, vector_bytes=vector_bytes, panel_bytes=panel_bytes, threads=threads, operations=1, edges=10
    )
    after = run((tiles, attrs.evolve(tiles, edges=0)), program)
    verify(after)
    assert_same_meaning(program, after)


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_weights_that_are_not_finite_meet_no_border(value: float) -> None:
    program = Window(channels=8).program()
    after = TILES(program)
    assert planes(after)
    arrays = arrays_for(program)
    arrays["K"][0, 0, 0] = value
    (expected,), (actual,) = (interpret(each, arrays).values() for each in (program, after))
    np.testing.assert_array_equal(actual, expected)
    assert np.isfinite(expected[:, 0, 0, 0]).all()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("channels", "height", "width", "kernel", "stride", "pad"),
    [
        (48, 7, 7, 5, 1, 2),
        (40, 14, 14, 5, 2, 2),
        (72, 28, 28, 3, 2, 1),
        (24, 112, 112, 3, 2, 1),
        (33, 9, 15, 7, 1, 3),
        (19, 30, 11, 2, 2, 0),
        (64, 1, 9, 3, 1, 1),
    ],
)
@pytest.mark.parametrize(("dtype", "tolerance"), [(DType.F32, 1e-6), (DType.F64, 1e-14), (DType.F16, 1e-3)])
def test_depthwise_convolutions(
    channels: int, height: int, width: int, kernel: int, stride: int, pad: int, dtype: DType, tolerance: float
) -> None:
    rng = np.random.default_rng(0)
    stored = dtype.numpy
    x = rng.standard_normal((2, channels, height, width)).astype(stored)
    w = rng.standard_normal((channels, 1, kernel, kernel)).astype(stored)
    f = FunctionBuilder()
    y = ops.conv(f.input("X", *x.shape, dtype=dtype), f.constant(w), stride=stride, padding=pad, groups=channels)
    found = np.asarray(tileir.jit(f.build(Y=ops.sigmoid(y)))(x)).astype(np.float64)
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    slid = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), (2, 3))[:, :, ::stride, ::stride]
    sums = np.einsum("ncyxij,cij->ncyx", slid, w[:, 0].astype(np.float64))
    assert np.abs(found - 1 / (1 + np.exp(-sums))).max() < 4 * tolerance
