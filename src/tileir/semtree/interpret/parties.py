"""Threads that run together, for the interpreter: all of a group, or those that have one role, beside other parties."""

from __future__ import annotations

from collections.abc import Generator, Mapping

from tileir.core import attrs, fail
from tileir.semtree.interpret.evaluation import AGENT, Frame
from tileir.semtree.interpret.instructions import Step, Steps, Waiting
from tileir.semtree.interpret.orders import Clock
from tileir.semtree.ir import Arrive, Await, Barrier, KernelFunction


@attrs.define(eq=False)
class Party:
    """Threads in lock step, from one statement at which they wait to the next.

    Attributes:
        kernel: What they run.
        who: Who they are, for messages.
        frames: Their states.
        steps: What each of them does.
        clocks: The clocks that go on when they meet at a barrier, by the numbers of parties.
        runs: Whether there is more to do.

    """

    kernel: KernelFunction
    who: str
    frames: list[Frame]
    steps: Steps
    clocks: Mapping[int, Clock]
    runs: bool = True
    _threads: list[Generator[Step, None, None]] = attrs.field(init=False)
    _reached: list[Step | None] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self._threads = [self.steps(frame) for frame in self.frames]

    @property
    def may_go_on(self) -> bool:
        """True if no thread waits for a message."""
        return all(each.is_over() for each in self._reached if isinstance(each, Waiting))

    @property
    def waits_for(self) -> str:
        """The message that the threads wait for, in words."""
        (step, *_) = (each.stmt for each in self._reached if isinstance(each, Waiting))
        if isinstance(step, Await):
            return f"await a flag of {step.flag.array!r}"
        return "meet" if isinstance(step, Barrier) else f"{step.step.value} the channel {step.channel.array!r}"

    def go_on(self) -> None:
        """Run all threads up to where they wait next.

        Raises:
            TileError: TIL555, some wait elsewhere than others.
        """
        reached = self._reached = [next(thread, None) for thread in self._threads]
        stmts = [each.stmt if isinstance(each, Waiting) else each for each in reached]
        self.runs = any(stmt is not None for stmt in stmts)
        if any(stmt is not stmts[0] for stmt in stmts):
            raise fail("TIL555", f"kernel {self.kernel.name!r}: {self.who} do not meet at the same barrier")
        if isinstance(stmts[0], Barrier | Arrive | Await):  # those that exchange operands order nothing in memory
            for clock in self.clocks.values():
                clock.stretch += 1
            for frame in self.frames:
                agent = frame[AGENT]
                for party, clock in self.clocks.items():
                    agent.known[party] = clock.stretch + agent.released


def run_in_turn(parties: list[Party]) -> None:
    """Run parties that wait for each other, each as far as it gets.

    Raises:
        TileError: TIL555, all wait for ever, or some threads of one elsewhere than others.
    """
    while running := [party for party in parties if party.runs]:
        if not any(party.may_go_on for party in running):
            what = ", and ".join(f"{party.who} waits to {party.waits_for}" for party in running)
            raise fail("TIL555", f"kernel {running[0].kernel.name!r}: {what}: they would wait for ever")
        for party in running:
            while party.runs and party.may_go_on:
                party.go_on()
