"""Windows with a border of zeros in memory of groups: every lane reads something, and nothing more is added."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.passes import arrays_for, assert_same_meaning
from tileir.core.dtype import DType
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.rewrites.canonicalise import Canonicalise
from tileir.passes.schedules.registers.register_tile import RegisterTile
from tileir.stripe.blocks import Binding
from tileir.stripe.check.verifier import verify
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Block, LoadIndex, Program
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

EDGES = RegisterTile(vector_bytes=16, registers=16, edges=10)


@attrs.frozen
class Window:
    """A window of each channel alone over the rows and columns of images."""

    images: int = 2
    channels: int = 4
    height: int = 9
    width: int = 13
    window: tuple[int, int] = (3, 3)
    dilation: int = 1
    before: tuple[int, int] = (1, 1)
    less: int = 0
    kernels: int = 1
    dtype: DType = DType.F32
    weighted: bool = True

    def program(self) -> Program:
        """Return the sums, or sums of products with weights, with accumulators."""
        down, right = (before * self.dilation for before in self.before)
        place = f"X[n, c, y + {self.dilation} * i - {down}, x + {self.dilation} * j - {right}]"
        rows, columns = self.height, max(1, self.width - self.less)
        output = f"Y[n, c, k, y, x : {self.images}, {self.channels}, {self.kernels}, {rows}, {columns}]"
        if self.weighted:
            text = f"function (X[N, C, H, W], K[C, M, R, S]) -> (Y) {{ {output} = +({place} * K[c, k, i, j]); }}"
        else:
            box = f"i < {self.window[0]}, j < {self.window[1]}"
            text = f"function (X[N, C, H, W]) -> (Y) {{ {output} = +({place}), {box}; }}"
        types = {"X": TensorType(self.dtype, (self.images, self.channels, self.height, self.width))}
        if self.weighted:
            types["K"] = TensorType(self.dtype, (self.channels, self.kernels, *self.window))
        return run((Accumulate(), Canonicalise()), lower(infer(parse(text), types)))


def has_borders(program: Program) -> bool:
    memory = (r for kernel in program.main.blocks for r in kernel.refinements)
    return any(r.name.startswith("X_rows") for r in memory)


def test_lanes_run_over_the_edges_in_one_kernel() -> None:
    after = EDGES(Window().program())
    (kernel,) = after.main.blocks
    (memory,) = (r for r in kernel.refinements if r.name == "X_rows")
    assert memory.shape.sizes == (11, 15)
    assert [i.range for i in kernel.indices if i.binding is Binding.GRID] == [2, 4]


def test_wide_windows_have_borders_in_a_further_cache() -> None:
    """Fewer steps are not worth a copy of planes that the nearest cache does not hold."""
    assert has_borders(
        EDGES(Window(images=3, channels=3, height=200, width=80, window=(7, 7), before=(3, 3)).program())
    )


@pytest.mark.sampled(0)
@pytest.mark.parametrize(("width", "vector_bytes"), [(56, 16), (57, 16), (112, 16), (192, 64), (224, 64)])
def test_lanes_beyond_an_edge_are_known_when_compiling(width: int, vector_bytes: int) -> None:
    """Tiles that several would share in a loop would test each vector at each step."""

    def tested(block: Block, fixed: frozenset[str]) -> Iterator[bool]:
        fixed |= {i.name for i in block.indices if i.binding in (Binding.UNROLL, Binding.LANE)}
        for statement in block.statements:
            if isinstance(statement, LoadIndex):
                yield fixed.issuperset(statement.affine.indices)
        for inner in block.blocks:
            yield from tested(inner, fixed)

    program = Window(images=3, channels=3, width=width, window=(7, 7), before=(3, 3), height=14).program()
    after = attrs.evolve(EDGES, vector_bytes=vector_bytes)(program)
    assert has_borders(after)
    known = list(tested(after.main, frozenset()))
    assert known
    assert all(known)
    assert_same_meaning(program, after)


@pytest.mark.parametrize(
    "window",
    [
        Window(images=1),  # four groups would leave threads without work
        Window(height=200, width=80),  # planes that the cache does not hold
        Window(window=(3, 17), before=(1, 8), width=40),  # too many steps to unroll
    ],
)
def test_what_has_no_such_borders(window: Window) -> None:
    program = window.program()
    assert not has_borders(EDGES(program))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("width", [13, 90])
def test_weights_that_are_not_finite_meet_no_zeros(value: float, width: int) -> None:
    program = Window(width=width).program()
    after = EDGES(program)
    assert has_borders(after)
    arrays = arrays_for(program)
    arrays["K"][0, 0, 0, 0] = value
    (expected,), (actual,) = (interpret(each, arrays).values() for each in (program, after))
    np.testing.assert_array_equal(actual, expected)
    assert np.isfinite(expected[:, 0, 0, 0]).all()


@st.composite
def windows(draw: st.DrawFn) -> Window:
    """Windows of all shapes, over images that may be smaller."""
    window = (draw(st.integers(1, 5)), draw(st.integers(1, 8)))
    return Window(
        images=draw(st.integers(2, 3)),
        channels=draw(st.sampled_from((3, 4, 5))),
        height=draw(st.integers(1, 7)),
        width=draw(st.one_of(st.integers(1, 20), st.integers(30, 40))),
        window=window,
        dilation=draw(st.sampled_from((1, 1, 2, 3))),
        before=(draw(st.integers(0, window[0])), draw(st.integers(0, window[1]))),
        less=draw(st.integers(0, 4)),
        kernels=draw(st.integers(1, 2)),
        dtype=draw(st.sampled_from((DType.F32, DType.F64, DType.I32))),
        weighted=draw(st.booleans()),
    )


@given(windows(), st.sampled_from((8, 16, 32)), st.sampled_from((4, 16)))
@examples(50)
def test_windows_keep_their_meaning(window: Window, vector_bytes: int, registers: int) -> None:
    program = window.program()
    after = run((attrs.evolve(EDGES, vector_bytes=vector_bytes, registers=registers),), program)
    verify(after)
    assert_same_meaning(program, after)


@pytest.mark.parametrize("product", ["Scale[] * X[n, x + i - 1]", "X[n, x + i - 1] * Scale[]"])
def test_a_number_is_no_window(product: str) -> None:
    """Factors of the product may be numbers, as where a derivative by an image multiplies with a scale."""
    text = f"function (X[N, W], Scale[]) -> (Y) {{ Y[n, x : 16, 13] = +({product}), i < 3; }}"
    types = {"X": TensorType(DType.F32, (16, 13)), "Scale": TensorType(DType.F32, ())}
    program = run((Accumulate(), Canonicalise()), lower(infer(parse(text), types)))
    assert_same_meaning(program, EDGES(program), arrays_for(program))
