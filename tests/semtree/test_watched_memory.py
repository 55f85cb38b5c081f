"""Watched memory reports the same of one element as of neighbours, however it is accessed."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from hypothesis import given, strategies as st

from strategies.effort import examples
from tileir.core.errors import TileError
from tileir.semtree.interpret.memory import COPIER, Agent, WatchedMemory
from tileir.semtree.interpret.orders import Clock

if TYPE_CHECKING:
    from tileir.semtree.interpret.memory import Place

SIZE = 3
Access: TypeAlias = tuple[str, int, int, int, int, float]

accesses = st.lists(
    st.tuples(
        st.sampled_from(["read", "read", "write", "write", "copy", "receive"]),
        st.integers(0, SIZE - 1),  # the element
        st.integers(0, 2),  # the thread, or the group
        st.integers(0, 2),  # how much later
        st.integers(0, 2),  # for how long others are not known
        st.sampled_from([0.0, 1.0, np.nan]),
    ),
    max_size=12,
)


def told(steps: list[Access], *, groups: bool, threads: int, neighbours: bool) -> list[str]:
    """Return what memory says of each access, which goes by one element or by neighbours that are one."""
    defined = np.array([True] + [False] * (SIZE - 1))
    memory = WatchedMemory("A", np.zeros(SIZE), "kernel", defined, groups, threads)
    clock, said = Clock(), []
    for kind, element, who, later, unknown, value in steps:
        clock.stretch += later
        place: Place = slice(element, element + 1) if neighbours else element
        received = {COPIER: 1} if kind == "receive" else {}
        agent = Agent(who, who, clock, [max(0, clock.stretch - unknown)], received=received)
        try:
            if kind == "write":
                memory.writes(place, agent, np.full(1, value) if neighbours else np.array(value))
                memory.data[place] = value
            elif kind == "copy":
                memory.copied(slice(element, element + 1), agent, COPIER, 0)
                memory.arrived(slice(element, element + 1))
            else:
                memory.reads(place, agent)
            said.append("")
        except TileError as error:
            said.append(str(error))
    return said


@examples(400)
@given(steps=accesses, groups=st.booleans(), threads=st.sampled_from([1, 3]))
def test_one_element_is_watched_as_neighbours_are(steps: list[Access], groups: bool, threads: int) -> None:
    assert told(steps, groups=groups, threads=threads, neighbours=False) == told(
        steps, groups=groups, threads=threads, neighbours=True
    )


def test_races_of_one_element() -> None:
    races = {
        "two write other values": [("write", 0, 0, 0, 1, 1.0), ("write", 0, 1, 0, 1, 2.0)],
        "one reads what another wrote": [("write", 0, 0, 0, 1, 1.0), ("read", 0, 1, 0, 1, 0.0)],
        "one writes what another read": [("read", 0, 0, 0, 1, 0.0), ("write", 0, 1, 0, 1, 0.0)],
        "one writes what several read": [
            ("read", 0, 0, 0, 1, 0.0), ("read", 0, 1, 0, 1, 0.0), ("write", 0, 1, 0, 1, 0.0),
        ],
        "one reads too soon what is copied": [("copy", 0, 0, 0, 1, 0.0), ("read", 0, 1, 1, 0, 0.0)],
        "a copy is over what is read": [("read", 0, 1, 0, 1, 0.0), ("copy", 0, 0, 0, 1, 0.0)],
    }  # fmt: skip
    for name, steps in races.items():
        assert "TIL558" in told(steps, groups=False, threads=3, neighbours=False)[-1], name
    sound = {
        "two write one value": [("write", 0, 0, 0, 1, 1.0), ("write", 0, 1, 0, 1, 1.0)],
        "a barrier is between": [("write", 0, 0, 0, 1, 1.0), ("read", 0, 1, 1, 0, 0.0)],
        "all read": [("read", 0, 0, 0, 1, 0.0), ("read", 0, 1, 0, 1, 0.0)],
        "what was copied is received": [("copy", 0, 0, 0, 1, 0.0), ("receive", 0, 1, 1, 0, 0.0)],
    }
    for name, steps in sound.items():
        assert told(steps, groups=False, threads=3, neighbours=False)[-1] == "", name
