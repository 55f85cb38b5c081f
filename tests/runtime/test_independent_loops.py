"""Loops that need nothing of each other, side by side in a program."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tileir.core.dtype import DType
from tileir.runtime.plans.dependencies import ancestors, chain, dependencies
from tileir.runtime.plans.placement import place
from tileir.runtime.plans.plan import in_turns, loops_together
from tileir.semtree.ir import (
    Buffer,
    BufferRole,
    KernelFunction,
    Launch,
    Loop,
    Param,
    ParamAccess,
    Program,
    While,
    Work,
)
from tileir.semtree.launches import launches, used_buffers

ACCESSES = {"r": ParamAccess.READ, "w": ParamAccess.WRITE, "u": ParamAccess.READ_WRITE}


def program(*works: str) -> Program:
    """Return a program of launches such as ``"r:a w:b"``; in loops where ``3 x`` stands in front, or ``while a x``."""
    kernels, made, names = [], list[Work](), {"a"}
    for number, text in enumerate(works):
        head, _, tail = text.rpartition(" x ")
        uses = [use.split(":") for use in tail.split()]
        params = tuple(Param(f"p{at}", DType.I8, 1, ACCESSES[access]) for at, (access, _) in enumerate(uses))
        kernels.append(KernelFunction(f"k{number}", params, ()))
        launch = Launch(number, tuple(name for _, name in uses))
        made.append(Loop(int(head) if head.isdigit() else While("a"), (launch,)) if head else launch)
        names |= {name for _, name in uses}
    buffers = tuple(Buffer(name, DType.I8, (1,), BufferRole.TEMPORARY) for name in sorted(names))
    return Program(tuple(kernels), buffers, tuple(made))


def numbers(whole: Program) -> list[int]:
    """Return the numbers of the kernels, in the order in which they run."""
    return [launch.kernel for launch in launches(whole.works)]


@pytest.mark.parametrize(
    ("works", "order", "after"),
    [
        (["w:a", "3 x r:a w:b", "w:c", "5 x r:c w:d", "r:b r:d w:e"], [0, 2, 1, 3, 4], ((), (0,), (1,), (1,), (2, 3))),
        (["3 x w:a", "r:a w:b", "w:c", "3 x r:c w:d"], [2, 0, 3, 1], ((), (0,), (0,), (1, 2))),
        (["3 x w:a", "r:a w:b", "3 x r:b w:c", "3 x w:d"], [0, 3, 1, 2], ((), (), (0, 1), (2,))),
        (["3 x w:a", "3 x r:a w:b"], [0, 1], ((), (0,))),
        (["3 x w:b", "while x w:c"], [0, 1], ((), (0,))),
        (["3 x w:a", "w:b"], [0, 1], ((), (0,))),
        (["3 x w:b", "3 x w:c", "3 x r:b w:d", "3 x r:b w:e"], [0, 1, 2, 3], ((), (), (0, 1), (0, 1))),
    ],
)
def test_loops_meet(works: list[str], order: list[int], after: tuple[tuple[int, ...], ...]) -> None:
    whole = program(*works)
    found = loops_together(whole)
    assert numbers(found) == order
    assert (found is whole) == (order == sorted(order))
    assert in_turns(found) == after


USES = st.lists(st.tuples(st.sampled_from("rwu"), st.sampled_from("abcdef")), min_size=1, max_size=2)


@given(st.lists(st.tuples(st.sampled_from(["", "3 x ", "while x "]), USES), max_size=10))
def test_what_depends_stays_in_order_and_what_overlaps_shares_nothing(
    works: list[tuple[str, list[tuple[str, str]]]],
) -> None:
    whole = program(*(head + " ".join(f"{access}:{name}" for access, name in uses) for head, uses in works))
    found = loops_together(whole)
    order = numbers(found)
    assert sorted(order) == list(range(len(works)))
    before = ancestors(dependencies(whole))
    assert all(order.index(early) < order.index(late) for late in order for early in order if before[late] >> early & 1)
    assert loops_together(found) is found
    after = in_turns(found)
    earlier, own = ancestors(after), ancestors(dependencies(found))
    assert all(own[number] & ~earlier[number] == 0 for number in range(len(works)))
    places = place(found, after).places
    for late, bits in enumerate(earlier):
        for early in range(late):
            if not bits >> early & 1:
                first, second = (set(used_buffers((found.works[each],))) for each in (early, late))
                apart = [(places[a], places[b]) for a in first for b in second if a != b]
                assert all(a.offset + a.nbytes <= b.offset or b.offset + b.nbytes <= a.offset for a, b in apart)


def test_long_programs_stay_as_they_are() -> None:
    whole = program("3 x w:a", *["w:b"] * 1100, "3 x w:c")
    assert loops_together(whole) is whole
    assert in_turns(whole) == chain(1102)
