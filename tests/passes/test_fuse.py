from __future__ import annotations

from hypothesis import given, settings
from strategies.passes import assert_same_meaning, programs

from tileir.passes.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.fuse import Fuse
from tileir.stripe.ir import Program


@given(programs(12))
@settings(max_examples=150, deadline=None)
def test_meaning_stays(program: Program) -> None:
    assert_same_meaning(program, run((Accumulate(), Fuse()), program))


@given(programs(12))
@settings(max_examples=150, deadline=None)
def test_meaning_stays2(program: Program) -> None:
    assert_same_meaning(program, run((Accumulate(), Fuse(max_reductions=3)), program))
