from __future__ import annotations

import itertools

from hypothesis import given, strategies as st

from tileir.core.dtype import DType
from tileir.runtime.plans.dependencies import ancestors
from tileir.runtime.plans.placement import SORTED_TEMPORARIES, Offset, Placement, _best_gap, place
from tileir.semtree.ir import Buffer, BufferRole, Launch, Program


def program(sizes: dict[str, int], launches: list[tuple[str, ...]]) -> Program:
    buffers = tuple(Buffer(name, DType.I8, (size,), BufferRole.TEMPORARY) for name, size in sizes.items())
    return Program((), buffers, tuple(Launch(0, names) for names in launches))


def test_a_chain_needs_two_pieces() -> None:
    names = [f"t{number}" for number in range(10)]
    chain: list[tuple[str, ...]] = list(itertools.pairwise(names))
    placement = place(program(dict.fromkeys(names, 128), chain))
    assert placement.sizes == (256,)
    assert (placement.temporary_bytes, placement.peak_bytes) == (1280, 256)
    assert {found.offset for found in placement.places.values()} == {0, 128}


def test_the_gap_that_wastes_least_is_taken() -> None:
    taken = [(0, 100), (1024, 1100), (1408, 1500), (2048, 4096)]  # gaps: 896 from 128, 256 from 1152, 512 from 1536
    assert [_best_gap(taken, nbytes, 128) for nbytes in (200, 256, 300, 600, 900)] == [1152, 1152, 1536, 128, 4096]
    assert _best_gap([(0, 512), (0, 128), (256, 300)], 64, 128) == 512  # ranges may overlap


def test_temporaries_of_several_sizes_share_one_that_is_larger() -> None:
    sizes = {"large": 1024, "one": 512, "two": 512}
    placement = place(program(sizes, [("large",), ("one", "two")]))
    assert (placement.temporary_bytes, placement.peak_bytes) == (2048, 1024)


def test_offsets_are_aligned() -> None:
    placement = place(program({"a": 1, "b": 1, "c": 1}, [("a", "b", "c")]), alignment=512)
    assert sorted(found.offset for found in placement.places.values()) == [0, 512, 1024]


def test_many_temporaries_are_placed_in_order() -> None:
    names = [f"t{number}" for number in range(SORTED_TEMPORARIES * 4)]
    chain: list[tuple[str, ...]] = list(itertools.pairwise(names))
    assert place(program(dict.fromkeys(names, 128), chain)).sizes == (256,)


def test_branches_that_may_overlap_share_nothing() -> None:
    whole = program(dict.fromkeys("abcd", 128), [("a",), ("a", "b"), ("c",), ("c", "d")])
    assert place(whole).peak_bytes == 256
    assert place(whole, [(), (0,), (), (2,)]).peak_bytes == 512
    assert place(whole, [(), (0,), (1,), (2,)]).peak_bytes == 256


def test_without_parts_the_smallest_fitting_block_is_reused() -> None:
    sizes = {"big": 100, "small": 10, "later": 8, "last": 90}
    placement = place(program(sizes, [("big", "small"), ("later", "last")]), parts=False)
    assert placement.places["later"].block == placement.places["small"].block
    assert placement.places["last"].block == placement.places["big"].block
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
    assert place(whole).places == {"used": Offset(0, 0, 40)}
    assert place(whole).sizes == (40,)
    assert place(program({}, [])).sizes == ()


def test_empty_temporaries_have_a_place_too() -> None:
    assert place(program({"a": 0, "b": 0}, [("a", "b")])) == Placement(
        (0,), {"a": Offset(0, 0, 0), "b": Offset(0, 0, 0)}, 0
    )


@given(
    sizes=st.lists(st.integers(0, 500), min_size=1, max_size=8),
    launches=st.lists(st.lists(st.integers(0, 7), min_size=1, max_size=3), min_size=1, max_size=10),
    parts=st.booleans(),
)
def test_what_lives_at_one_time_never_shares(sizes: list[int], launches: list[list[int]], parts: bool) -> None:
    named = {f"t{number}": size for number, size in enumerate(sizes)}
    steps = [tuple(f"t{number % len(sizes)}" for number in launch) for launch in launches]
    placement = place(program(named, steps), parts=parts)
    spans = {
        name: [number for number, step in enumerate(steps) if name in step]
        for name in named
        if any(name in step for step in steps)
    }
    assert placement.temporary_bytes == sum(named[name] for name in spans)
    for name, uses in spans.items():
        where = placement.places[name]
        assert where.nbytes == named[name]
        assert placement.sizes[where.block] >= where.offset + named[name] if where.nbytes else True
        for other, others in spans.items():
            if name != other and shared_bytes(where, placement.places[other]) > 0:
                assert uses[-1] < others[0] or others[-1] < uses[0]


@given(
    launches=st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=2), min_size=1, max_size=10),
    edges=st.sets(st.tuples(st.integers(0, 9), st.integers(0, 9))),
)
def test_what_may_run_at_one_time_never_shares(launches: list[list[int]], edges: set[tuple[int, int]]) -> None:
    steps = [tuple(f"t{number}" for number in launch) for launch in launches]
    after = [
        tuple(sorted(early for early, late in edges if late == step and early < step)) for step in range(len(steps))
    ]
    placement = place(program({f"t{number}": 128 for number in range(6)}, steps), after)
    before = ancestors(after)
    for one, other in itertools.combinations(placement.places, 2):
        if shared_bytes(placement.places[one], placement.places[other]) > 0:
            ones, others = ([step for step, names in enumerate(steps) if name in names] for name in (one, other))
            in_order = all(before[late] >> early & 1 for early in ones for late in others)
            reversed_order = all(before[late] >> early & 1 for early in others for late in ones)
            assert in_order or reversed_order


def shared_bytes(one: Offset, other: Offset) -> int:
    if one.block != other.block:
        return 0
    return min(one.offset + one.nbytes, other.offset + other.nbytes) - max(one.offset, other.offset)
