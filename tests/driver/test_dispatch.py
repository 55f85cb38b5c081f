"""Listings of the launches and buffers of executables."""

from __future__ import annotations

import numpy as np

import tileir
from strategies.plans import plan_of
from strategies.stripe_works import BRANCH
from tileir.core.targets.target import Target
from tileir.driver.dispatch import dispatch_of
from tileir.semtree.lower.lowering import lower
from tileir.semtree.text.parser import parse_program
from tileir_testing.conformance.test_works import LOOP

CHAIN = """
function (A[N], B[N]) -> (R) {
    S[] = +(A[i]);
    C = A * S;
    T[] = >(C[i]);
    R = C - T * B;
}
"""


def test_launches_and_lives() -> None:
    executable = tileir.compile(CHAIN, [np.zeros(1 << 12, np.float32), np.zeros(1 << 12, np.float32)])
    dispatch = executable.dispatch
    lives = {each.name: each for each in dispatch.buffers}
    assert len(dispatch.launches) == len(executable.sem.works)
    assert [each.role for each in dispatch.buffers if each.name in ("A", "B", "R")] == ["input", "input", "output"]
    for number, launch in enumerate(dispatch.launches):
        assert launch.runs == 1
        for name in (*launch.reads, *launch.writes):
            assert lives[name].first <= number <= lives[name].last
    temporaries = [each for each in dispatch.buffers if each.role == "temporary"]
    assert temporaries
    assert sum(each.nbytes for each in temporaries) == dispatch.temporary_bytes
    for one in temporaries:
        for other in temporaries:
            apart = one.last < other.first or other.last < one.first
            assert one is other or apart or one.block != other.block or not _share(one, other)


def _share(one: object, other: object) -> bool:
    starts = [getattr(each, "offset", 0) for each in (one, other)]
    ends = [start + getattr(each, "nbytes", 0) for start, each in zip(starts, (one, other), strict=True)]
    return max(starts) < min(ends)


def test_two_buffers_are_enough_for_a_chain() -> None:
    sums = "\n".join(f"T{k}[i : N] = +(T{k - 1}[j]), i - j < 2;" for k in range(1, 9))
    source = f"function (T0[N]) -> (R) {{ {sums} R = T8 * 2.0; }}"
    dispatch = tileir.compile(source, [np.zeros(1 << 16, np.float32)]).dispatch
    big = [each for each in dispatch.buffers if each.role == "temporary" and each.nbytes >= 1 << 18]
    assert len(big) > 2
    assert len({each.offset for each in big}) == 2


SCAN = """
function (A[N]) -> (S) {
    S = scan (A) 9 times function (C) -> (D) { M[] = >(C[i]); D = C * 0.5 + M; };
}
"""


def test_loops_run_several_times() -> None:
    dispatch = tileir.compile(SCAN, [np.ones(100, np.float32)]).dispatch
    assert max(launch.runs for launch in dispatch.launches) > 1
    assert all(launch.conditions == () for launch in dispatch.launches)
    assert all(each.first <= each.last < len(dispatch.launches) for each in dispatch.buffers)


def test_launches_tell_their_conditions() -> None:
    scheduled = tileir.compile(SCAN, [np.ones(100, np.float32)]).scheduled
    program = parse_program(LOOP.replace("$index", "i64"))
    dispatch = dispatch_of(scheduled, plan_of(program))
    assert [(launch.kernel, launch.runs, launch.conditions) for launch in dispatch.launches] == [
        ("copy", 1, ()),
        ("below", 1, ()),
        ("double", 1, ("while go", "if doubled")),
        ("bump", 3, ("while go", "unless doubled")),
        ("below", 1, ("while go",)),
        ("copy", 1, ()),
    ]


def test_launches_in_branches_are_told() -> None:
    dispatch = dispatch_of(BRANCH, plan_of(lower(BRANCH, Target())))
    assert [(launch.kernel, launch.conditions) for launch in dispatch.launches] == [
        ("C", ()),
        ("O", ("if C",)),
        ("O", ("unless C",)),
    ]


def test_a_condition_lives_as_long_as_something_depends_on_it() -> None:
    dispatch = dispatch_of(BRANCH, plan_of(lower(BRANCH, Target())))
    assert [(each.name, each.first, each.last) for each in dispatch.buffers if each.name == "C"] == [("C", 0, 2)]
