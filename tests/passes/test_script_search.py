"""The search for scripts learns from times where the model is wrong."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.core.targets.target_file import hardware_of
from tileir.passes.cost.machine import machine_of
from tileir.passes.pipelines.catalog import parse_pipeline
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType
from tileir_performance.tuning.drawing import Room
from tileir_performance.tuning.drawn_scripts import ScriptedPipeline, ScriptSearch
from tileir_performance.tuning.sketches import Sketch

if TYPE_CHECKING:
    from collections.abc import Callable

PRODUCT = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"
PASSES = parse_pipeline("accumulate, canonicalise, vectorise, thread")


def search(seed: int) -> ScriptSearch:
    types = {"A": TensorType(DType.F32, (24, 40)), "B": TensorType(DType.F32, (40, 48))}
    target = Target(vector_bytes=32, vector_registers=16)
    program = lower(infer(parse(PRODUCT), types))
    return ScriptSearch(program, PASSES, machine_of(hardware_of(target), target), target.vector_bytes, seed)


def sketch_of(drawn: ScriptedPipeline) -> Sketch:
    ((_, sketch),) = drawn.sketches
    return sketch


@pytest.mark.sampled(0)
@pytest.mark.parametrize(
    "fast",
    [
        lambda sketch: sketch.unrolled == 1,
        lambda sketch: sketch.order[0] == "j",
        lambda sketch: not sketch.staged,
    ],
)
def test_what_is_like_fast_ones_is_timed_next(fast: Callable[[Sketch], bool]) -> None:
    """Some choice decides, against what the model expects; others count for nothing."""
    drawn, timed = search(0), list[tuple[ScriptedPipeline, float]]()
    shares = []
    for _ in range(4):
        chosen = drawn.round(timed)
        assert chosen
        shares.append(sum(fast(sketch_of(each)) for each in chosen) / len(chosen))
        timed += [(each, 1e-6 if fast(sketch_of(each)) else 1e-3) for each in chosen]
    assert shares[-1] > 0.7
    assert len({each.candidate.program.kernels for each, _ in timed}) == len(timed)


def test_distances_tell_choices_and_doublings() -> None:
    sketch = Sketch(("i", "j"), (4, 16), "j", 8, unrolled=2)
    assert sketch.distance(sketch) == 0
    assert sketch.distance(Sketch(("i", "j"), (2, 16), "j", 8, unrolled=8)) == 3
    assert sketch.distance(Sketch(("j", "i"), (16, 4), "j", 8, unrolled=2)) == 1  # the order alone
    random, room = Random(0), Room(("i", "j"), (64, 64), ("k",), ("j",), (), ("A", "B"), 8)
    for _ in range(50):
        one, other = room.draw(random), room.draw(random)
        assert one.distance(other) == pytest.approx(other.distance(one))
