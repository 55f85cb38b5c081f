from __future__ import annotations

import attrs
import pytest
from hypothesis import given

from strategies.effort import examples
from strategies.passes import assert_same_meaning, programs, vector_sums
from tileir.core.errors import VerifyError
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.analysis.dependences import ComputeDeps
from tileir.passes.base import run
from tileir.passes.fusion.fuse import Fuse
from tileir.stripe.check.verifier import diagnose, verify
from tileir.stripe.flattening import with_entry
from tileir.stripe.ir import Program


def kernels() -> Program:
    return vector_sums("XYA", "XAB", "YAC", "BCO", size=4)


def test_kernels_wait_for_what_they_share() -> None:
    program = kernels()
    after = run((ComputeDeps(reqs=("main",)),), program)
    assert [kernel.deps for kernel in after.main.blocks] == [(), (0,), (0,), (1, 2)]
    assert all(not statement.deps for statement in after.main.blocks[0].statements)
    inside = run((ComputeDeps(),), program).main.blocks[0]
    assert [statement.deps for statement in inside.statements] == [(), (), (0, 1), (2,)]


def test_what_has_its_deps_is_left_as_it_is() -> None:
    after = ComputeDeps()(kernels())
    assert ComputeDeps()(after) is after
    assert ComputeDeps(reqs=("nothing",))(after) is after


def _with_deps(program: Program, *deps: tuple[int, ...]) -> Program:
    kernels = tuple(attrs.evolve(k, deps=d) for k, d in zip(program.main.blocks, deps, strict=True))
    main = attrs.evolve(program.main, statements=kernels)
    return with_entry(program, attrs.evolve(program.entry, statements=(main,)))


def test_the_verifier_asks_for_an_order_of_all_that_clash() -> None:
    program = kernels()
    verify(_with_deps(program, (), (0,), (1,), (2,)))
    verify(_with_deps(program, (), (), (), ()))
    with pytest.raises(VerifyError, match="statement 3 of test / test must wait for 2"):
        verify(_with_deps(program, (), (0,), (0,), (1,)))
    codes = [fault.code for fault in diagnose(_with_deps(program, (), (0,), (), ()))]
    assert codes == ["TIL513"] * 3


@given(programs())
@examples(60)
def test_deps_are_legal_and_change_nothing_else(program: Program) -> None:
    for passes in ((), (Accumulate(), Fuse())):
        before = run(passes, program)
        after = run((ComputeDeps(),), before)
        assert_same_meaning(before, after)
        assert ComputeDeps()(after) is after
