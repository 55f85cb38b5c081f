from __future__ import annotations

from hypothesis import given, strategies as st

from tileir.core.dtype import DType
from tileir.runtime.plans.dependencies import ancestors, chain, dependencies
from tileir.semtree.ir import Buffer, BufferRole, KernelFunction, Launch, Param, ParamAccess, Program

ACCESSES = {"r": ParamAccess.READ, "w": ParamAccess.WRITE, "u": ParamAccess.READ_WRITE}


def program(*launches: str) -> Program:
    """Return a program of launches such as ``"r:a w:b"``."""
    kernels, made, names = [], [], set()
    for number, text in enumerate(launches):
        uses = [use.split(":") for use in text.split()]
        params = tuple(Param(f"p{at}", DType.I8, 1, ACCESSES[access]) for at, (access, _) in enumerate(uses))
        kernels.append(KernelFunction(f"k{number}", params, ()))
        made.append(Launch(number, tuple(name for _, name in uses)))
        names |= {name for _, name in uses}
    buffers = tuple(Buffer(name, DType.I8, (1,), BufferRole.TEMPORARY) for name in sorted(names))
    return Program(tuple(kernels), buffers, tuple(made))


def test_reads_follow_writes_and_writes_follow_reads() -> None:
    assert dependencies(program("w:a", "r:a w:b", "r:a w:c", "w:a", "r:a r:b")) == ((), (0,), (0,), (1, 2), (3,))


def test_writes_follow_writes() -> None:
    assert dependencies(program("w:a", "w:a", "u:a")) == ((), (0,), (1,))


def test_independent_branches_do_not_wait() -> None:
    assert dependencies(program("w:a", "w:b", "r:a w:c", "r:b w:d", "r:c r:d")) == ((), (), (0,), (1,), (2, 3))


def test_what_follows_from_others_is_left_out() -> None:
    assert dependencies(program("w:a", "r:a w:b", "r:a r:b w:c"))[2] == (1,)


def test_a_buffer_that_is_read_and_written_at_once_is_both() -> None:
    assert dependencies(program("w:a", "r:a w:a", "r:a", "r:a w:a")) == ((), (0,), (1,), (2,))


def test_a_chain_is_in_order() -> None:
    assert chain(3) == ((), (0,), (1,))
    assert ancestors(chain(3)) == (0, 0b1, 0b11)


@given(
    st.lists(st.lists(st.tuples(st.sampled_from("rwu"), st.sampled_from("abcd")), min_size=1, max_size=3), max_size=10)
)
def test_conflicting_launches_are_ordered(launches: list[list[tuple[str, str]]]) -> None:
    after = dependencies(program(*(" ".join(f"{access}:{name}" for access, name in uses) for uses in launches)))
    before = ancestors(after)
    for late, uses in enumerate(launches):
        for early in range(late):
            conflict = any(
                name == other and access + kind != "rr" for access, name in uses for kind, other in launches[early]
            )
            assert bool(before[late] >> early & 1) or not conflict
        assert all(early < late for early in after[late])
