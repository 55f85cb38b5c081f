from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from tileir.core.dtype import DType
from tileir.runtime.placement import place
from tileir.semtree.ir import Buffer, BufferRole, Launch, Program


def program(sizes: dict[str, int], launches: list[tuple[str, ...]]) -> Program:
    buffers = tuple(Buffer(name, DType.I8, (size,), BufferRole.TEMPORARY) for name, size in sizes.items())
    return Program((), buffers, tuple(Launch(0, names) for names in launches))


def test_a_chain_needs_two_blocks() -> None:
    names = [f"t{number}" for number in range(10)]
    chain: list[tuple[str, ...]] = list(itertools.pairwise(names))
    placement = place(program(dict.fromkeys(names, 100), chain))
    assert placement.sizes == (100, 100)


def test_the_smallest_fitting_block_is_reused() -> None:
    sizes = {"big": 100, "small": 10, "later": 8, "last": 90}
    placement = place(program(sizes, [("big", "small"), ("later", "last")]))
    assert placement.blocks["later"] == placement.blocks["small"]
    assert placement.blocks["last"] == placement.blocks["big"]
    assert sorted(placement.sizes) == [10, 100]


def test_only_temporaries_that_are_used_are_placed() -> None:
    whole = Program(
        (),
        (
            Buffer("in", DType.I8, (5,), BufferRole.INPUT),
            Buffer("unused", DType.I8, (5,), BufferRole.TEMPORARY),
            Buffer("used", DType.F64, (5,), BufferRole.TEMPORARY),
        ),
        (Launch(0, ("in", "used")),),
    )
    assert place(whole).blocks == {"used": 0}
    assert place(whole).sizes == (40,)


@given(
    sizes=st.lists(st.integers(0, 50), min_size=1, max_size=8),
    launches=st.lists(st.lists(st.integers(0, 7), min_size=1, max_size=3), min_size=1, max_size=10),
)
def test_what_lives_at_one_time_never_shares(sizes: list[int], launches: list[list[int]]) -> None:
    named = {f"t{number}": size for number, size in enumerate(sizes)}
    steps = [tuple(f"t{number % len(sizes)}" for number in launch) for launch in launches]
    placement = place(program(named, steps))
    spans = {
        name: [number for number, step in enumerate(steps) if name in step]
        for name in named
        if any(name in step for step in steps)
    }
    for name, uses in spans.items():
        assert placement.sizes[placement.blocks[name]] >= named[name]
        for other, others in spans.items():
            if name != other and placement.blocks[name] == placement.blocks[other]:
                assert uses[-1] < others[0] or others[-1] < uses[0]
