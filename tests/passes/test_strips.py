"""Chains of stencils in strips of rows, and the one kernel that they become."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.effort import examples
from strategies.families import Written
from strategies.passes import assert_same_meaning
from strategies.pictures import MODES, picture
from tileir import ops
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.algorithms.unroll_window import UnrollWindow
from tileir.passes.analysis.rows import writing
from tileir.passes.base import run
from tileir.passes.fusion.fuse import Fuse
from tileir.passes.pipelines.resolution import pipeline_for
from tileir.passes.regions.join_parts import JoinBorder
from tileir.passes.regions.join_strips import JoinStrips
from tileir.passes.regions.separate import Separate
from tileir.passes.regions.split_border import SplitBorder
from tileir.passes.regions.strips import Strips
from tileir.passes.rewrites.canonicalise import Canonicalise
from tileir.passes.rewrites.dead_code import DeadCode
from tileir.passes.rewrites.forward import Forward
from tileir.passes.rewrites.localise import Localise
from tileir.passes.rewrites.scalarise import Scalarise
from tileir.passes.schedules.vectors.thread import Thread
from tileir.passes.schedules.vectors.vectorise import Vectorise
from tileir.stripe.blocks import Binding
from tileir.stripe.check.verifier import verify
from tileir.stripe.ir import Block, Direction, Program
from tileir.stripe.lower.lowering import lower
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from tileir.passes.base import Pass
    from tileir.tile.builder import Tensor


def before(*, merge: bool = True) -> tuple[Pass, ...]:
    """Return the passes before strips; with indices of neighbouring elements merged into one, or as they are."""
    first = (Canonicalise(merge=False), UnrollWindow(cut_bytes=0), Forward(mark=True), Accumulate(), DeadCode(), Fuse())
    then = (Forward(), Localise(), Scalarise(), DeadCode(), Canonicalise(merge=merge))
    return (*first, *then, SplitBorder(points=0, share=0, rows=1), Canonicalise(merge=merge), Separate())


AFTER = (Vectorise(vector_bytes=16, chunk=8, rows=2), JoinStrips(), JoinBorder(), Thread())
ALWAYS = Strips(rows=2, least_bytes=0, again=1000, least=2)


def window(f: tileir.FunctionBuilder, x: Tensor, rows: int, columns: int, mode: str, *, least: bool = False) -> Tensor:
    """Return the greatest of each window of a padded picture, or the least."""
    options: Any = {"value": 3} if mode == "constant" else {}
    margins = [(rows // 2, rows // 2), (columns // 2, columns // 2), (0, 0)]
    padded = ops.pad(x, margins[: len(x.dims)], mode=mode, **options)
    y, z, c, i, j = f.indices("y x c i j")
    result = f.tensor(f"R{x.reference.strip('%')}", *x.dims)
    several = len(x.dims) > len((rows, columns))
    element = padded[(y + i, z + j, c) if several else (y + i, z + j)]
    limited, place = element.given(i < rows).given(j < columns), (y, z, c) if several else (y, z)
    result[place] >= limited  # noqa: B015 (writes a contraction)
    return result


def chain(mode: str, windows: list[tuple[int, int]], *shape: int) -> Program:
    """Return a program of windows one after the other, before the pass."""
    f = tileir.FunctionBuilder()
    x = f.input("X", *"HWC"[: len(shape)])
    for rows, columns in windows:
        x = window(f, x, rows, columns, mode)
    return run(before(), lower(infer(f.build(O=x - 1), {"X": TensorType(DType.I32, shape)})))


def strips(program: Program) -> dict[str, int]:
    """Return how many kernels go over each number of strips."""
    found: dict[str, int] = {}
    for kernel in program.main.blocks:
        for index in kernel.indices:
            if "strip" in index.tags:
                found[f"{index.range} strips"] = found.get(f"{index.range} strips", 0) + 1
    return found


def allocated(kernel: Block) -> list[tuple[int, ...]]:
    return [r.shape.sizes for r in kernel.refinements if r.direction is Direction.NONE]


def same(program: Program, step: Strips = ALWAYS) -> Program:
    """Return a program after all passes, whose meaning is that before them."""
    cut = run((step,), program)
    assert_same_meaning(program, cut)
    after = run(AFTER, cut)
    verify(after)
    assert_same_meaning(program, after)
    return after


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(21, 66), (20, 24, 3)])
@pytest.mark.parametrize(
    "windows", [[(3, 1), (1, 3)], [(1, 3), (3, 1)], [(3, 3), (3, 3)], [(3, 1), (5, 3), (1, 3)]], ids=str
)
def test_chains_keep_their_meaning(mode: str, shape: tuple[int, ...], windows: list[tuple[int, int]]) -> None:
    program = chain(mode, windows, *shape)
    # The first rows of a picture that wraps around read the last ones of the picture before, so all of that is needed.
    assert bool(strips(run((ALWAYS,), program))) is (mode != "wrap" or all(rows == 1 for rows, _ in windows[1:]))
    same(program)


@pytest.mark.parametrize(("sizes", "channel", "shape"), [("H, W", "", (12, 20)), ("H, W, C", ", c", (14, 5, 2))])
def test_stencils_that_the_border_cuts_are_in_strips(sizes: str, channel: str, shape: tuple[int, ...]) -> None:
    def step(name: str, read: str) -> str:
        along = f"+({read}[y + 2 * i - 1, x{channel}]), i < 2;"
        across = f">({read}[y, x + i - 1{channel}]), i < 3;"
        return "".join(f"{name}{n}[y, x{channel} : {sizes}] = {each}" for n, each in enumerate((along, across)))

    text = f"{step('A', 'X')} T = X - A0 * A1; {step('B', 'T')} O = B0 - B1;"
    program = run(before(), Written(f"function (X[{sizes}]) -> (O) {{ {text} }}", {"X": shape}).program())
    assert strips(run((ALWAYS,), program))
    same(program)


def test_what_passes_between_kernels_is_allocated_for_a_strip() -> None:
    after = same(chain("edge", [(3, 1), (1, 3)], 21, 66))
    (kernel,) = (k for k in after.main.blocks if any(i.name == "strip" for i in k.indices))
    assert allocated(kernel) == [(1, 2, 66)]
    assert [i.range for i in kernel.indices if i.binding is Binding.GRID] == [9]  # rows 1 to 18


def test_strips_are_lower_where_others_do_not_fit() -> None:
    step = attrs.evolve(ALWAYS, most_bytes=2 * 66 * 4 - 1)
    after = same(chain("edge", [(3, 1), (1, 3)], 21, 66), step)
    (kernel,) = (k for k in after.main.blocks if any(i.name == "strip" for i in k.indices))
    assert allocated(kernel) == [(1, 1, 66)]


def test_strips_that_overlap_compute_rows_again() -> None:
    after = same(chain("edge", [(3, 3), (3, 3), (3, 3)], 30, 66))
    (kernel,) = (k for k in after.main.blocks if any(i.name == "strip" for i in k.indices))
    assert sorted(allocated(kernel)) == [(1, 4, 66), (1, 6, 66)]


@pytest.mark.parametrize(
    "step",
    [
        attrs.evolve(ALWAYS, least_bytes=21 * 66 * 4 + 1),
        attrs.evolve(ALWAYS, most_bytes=66 * 4 - 1),
        attrs.evolve(ALWAYS, least=20),
    ],
)
def test_what_does_not_pay_is_left_alone(step: Strips) -> None:
    program = chain("edge", [(3, 1), (1, 3)], 21, 66)
    assert run((step,), program) is program


def test_higher_strips_do_less_again() -> None:
    program = chain("edge", [(3, 3), (3, 3)], 40, 66)
    for again, rows in ((1000, 2), (30, 4), (15, 8)):
        (height,) = {
            i.range
            for kernel in run((attrs.evolve(ALWAYS, again=again),), program).main.blocks
            for i in kernel.indices[1:2]
            if "strip" in kernel.tags and any(r.source == "O" for r in kernel.refinements)
        }
        assert height == rows
    never = attrs.evolve(ALWAYS, again=0)
    assert run((never,), program) is program


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(21, 66), (20, 24, 3)])
def test_kernels_that_write_several_tensors_are_cut_as_well(mode: str, shape: tuple[int, ...]) -> None:
    f = tileir.FunctionBuilder()
    x = f.input("X", *"HWC"[: len(shape)])
    padded = ops.pad(x, [(1, 1), (0, 0), (0, 0)][: len(shape)], mode=mode)
    y, z, c, i = f.indices("y x c i")
    place, seen = ((y, z, c), (y + i, z, c)) if len(shape) == 3 else ((y, z), (y + i, z))
    least, greatest = f.tensor("Least", *x.dims), f.tensor("Greatest", *x.dims)
    least[place] <= padded[seen].given(i < 3)  # noqa: B015
    greatest[place] >= padded[seen].given(i < 3)  # noqa: B015
    result = window(f, least, 1, 3, mode) - window(f, greatest, 1, 5, mode)
    program = run(before(), lower(infer(f.build(O=result), {"X": TensorType(DType.I32, shape)})))
    several = any(len(writing(kernel)) > 1 for kernel in program.main.blocks)
    assert (several, bool(strips(run((ALWAYS,), program)))) == (True, True)
    same(program)


def test_a_picture_that_others_read_too_is_not_cut() -> None:
    f = tileir.FunctionBuilder()
    x = f.input("X", "H", "W")
    first = window(f, x, 3, 1, "edge")
    second = window(f, first, 1, 3, "edge")
    program = run(before(), lower(infer(f.build(A=first, O=second), {"X": TensorType(DType.I32, (21, 66))})))
    assert run((ALWAYS,), program) is program


@examples(60)
@given(data=st.data(), rows=st.integers(1, 4))
def test_pictures_keep_their_meaning(data: st.DataObject, rows: int) -> None:
    text, shapes = data.draw(st.composite(picture)())
    program = run(before(merge=data.draw(st.booleans())), Written(text, shapes).program())
    same(program, attrs.evolve(ALWAYS, rows=rows))


def test_what_is_not_finite_stays_in_its_windows() -> None:
    f = tileir.FunctionBuilder()
    x = f.input("X", "H", "W")
    function = f.build(O=window(f, window(f, x, 5, 1, "reflect"), 1, 5, "reflect"))
    program = run(before(), lower(infer(function, {"X": TensorType(DType.F32, (40, 70))})))
    picture = np.zeros((40, 70), np.float32)
    picture[20, 6], picture[7, 3] = np.nan, np.inf
    cut = run((ALWAYS, *AFTER), program)
    assert_same_meaning(program, cut, {"X": picture})


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("threads", "height", "width", "strips"),
    [
        (1, 256, 512, False),
        (1, 1200, 512, True),
        (2, 256, 512, True),
        (2, 32, 512, False),
        (2, 64, 24_000, True),
        (2, 64, 40_000, False),
    ],
)
def test_threads_share_strips_of_what_the_cache_of_one_could_hold(
    threads: int, height: int, width: int, strips: bool
) -> None:
    """Intermediate tensors of half, twice, half and a sixteenth of the second-level cache.

    Of long rows, a strip of four is three quarters of it, and more than it holds.
    """
    f = tileir.FunctionBuilder()
    x = f.input("I", "H", "W")
    function = f.build(O=window(f, window(f, x, 3, 1, "edge"), 1, 3, "edge"))
    target = Target(threads=threads)
    assert target.cache_bytes[1] == 512 * 1024
    program = lower(infer(function, {"I": TensorType(DType.F32, (height, width))}))
    after = run(pipeline_for(target), program)
    assert any(index.name == "strip" for kernel in after.main.blocks for index in kernel.indices) == strips
