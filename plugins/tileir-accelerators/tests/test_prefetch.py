from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given

import tileir
from strategies.effort import examples
from strategies.passes import assert_same_meaning, program_of, programs
from tileir.core.targets.target import Target
from tileir.passes.pipelines.catalog import pipeline_for
from tileir.stripe.check.verifier import verify
from tileir.stripe.ir import Special
from tileir_accelerators.tiling.prefetch import Prefetch

if TYPE_CHECKING:
    from tileir.stripe.ir import Block, Program

COLUMN = """
block [j:4]:4 (
  in X[0, j] fp32:I(32, 1):(4, 1):4 B
  in Y[0] fp32:I(32):(1):4 B
  out O[j]:add fp32:I(1):(1):4 B
) {
  0: block [i:32]:32 (
    in X[i, 0] fp32:I(1, 1):(4, 1):4 B
    in Y[i] fp32:I(1):(1):4 B
    out O[0]:add fp32:I(1):(1):4 B
  ) {
    0: $x = load(X)
    1: $y = load(Y)
    2: $p = mul($x, $y)
    3: O = store($p)
  }
}
"""
SIZES = {"X": (32, 4), "Y": (32,), "O": (4,)}


def _asked(block: Block) -> list[tuple[str, object]]:
    own = [(s.inputs[0], dict(s.parameters)["ahead"]) for s in block.statements if isinstance(s, Special)]
    return own + [found for inner in block.blocks for found in _asked(inner)]


def test_that_loops_ask_for_what_moves_by_cache_lines() -> None:
    program = program_of([COLUMN], SIZES)
    after = Prefetch(ahead=4, least_bytes=16)(program)
    verify(after)
    assert_same_meaning(program, after)
    assert _asked(after.main.blocks[0]) == [("X", 16)]
    assert Prefetch(ahead=4, least_bytes=16)(after) is after


@pytest.mark.parametrize(
    "step", [Prefetch(ahead=4), Prefetch(ahead=32, least_bytes=0), Prefetch(least_bytes=0, reqs=("other",))]
)
def test_that_near_short_and_other_loops_stay(step: Prefetch) -> None:
    program = program_of([COLUMN], SIZES)
    assert step(program) is program


@given(programs(6))
@examples(60)
def test_that_meaning_is_kept(program: Program) -> None:
    after = Prefetch(ahead=1, least_bytes=0)(program)
    verify(after)
    assert_same_meaning(program, after)


@pytest.mark.parametrize("device", tileir.devices(), ids=lambda device: device.id)
def test_that_scheduled_programs_run_with_prefetches(device: tileir.DeviceInfo) -> None:
    text = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"
    a, b = (np.arange(64 * 64, dtype=np.float32).reshape(64, 64) % 7 for _ in range(2))
    compiled = tileir.compile(
        text, [a, b], device=device, passes=(*pipeline_for(Target()), Prefetch(ahead=2, least_bytes=0))
    )
    np.testing.assert_array_equal(compiled(a, b), a @ b)
    assert any(_asked(kernel) for kernel in compiled.scheduled.main.blocks)
