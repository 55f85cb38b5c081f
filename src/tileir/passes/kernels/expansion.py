"""Replacement of each kernel once for all its launches, with remarks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from tileir.core import attrs, grouped
from tileir.schedule.remarks import Done, Refused, Remarks, listener, refused, remark
from tileir.stripe import (
    Block,
    Direction,
    KernelTable,
    Launch,
    Program,
    Refinement,
    Statement,
    launched,
    launches,
    map_launches,
    sequential_works,
)

Outcome: TypeAlias = "tuple[Statement, ...] | Done | Refused"
"""None or more kernels in place of a kernel, perhaps with facts; or the kernel itself with a reason."""

UNCHANGED = refused("TR002")


def expanded(program: Program, function: Callable[[Block], Outcome]) -> Program:
    """Return a program with each kernel replaced by the result of ``function`` on the block of its first launch.

    The other launches get that replacement with their own names. A listener gets the outcomes.
    """
    outcomes: dict[int, Outcome] = {}
    for launch in launches(program.works):
        if launch.kernel not in outcomes:
            outcomes[launch.kernel] = _outcome(function, launched(program.kernels[launch.kernel], launch))
    if (remarks := listener()) is not None:
        _tell(remarks, program, outcomes)
    if all(isinstance(outcome, Refused) for outcome in outcomes.values()):
        return program
    memory = {each.name: each for each in program.memory}
    table = KernelTable()
    made: dict[int, _Expansion] = {}

    def expand(launch: Launch) -> tuple[Launch, ...]:
        outcome = outcomes[launch.kernel]
        if isinstance(outcome, Refused):
            return (table.relaunch(program.kernels[launch.kernel], launch),)
        if launch.kernel not in made:
            made[launch.kernel] = _Expansion.of(outcome, launch, table, memory)
        return made[launch.kernel].launches(launch)

    works = sequential_works(map_launches(program.works, expand))
    return attrs.evolve(program, kernels=tuple(table.kernels), works=works)


def _outcome(function: Callable[[Block], Outcome], block: Block) -> Outcome:
    """Return the result of a function on a kernel; a refusal if that is the kernel itself."""
    try:
        outcome = function(block)
    except Exception as error:  # it is raised again
        error.add_note(f"in the kernel {block.name!r}")
        raise
    return UNCHANGED if isinstance(outcome, tuple) and len(outcome) == 1 and outcome[0] is block else outcome


def called(launch: Launch) -> str:
    """Return the name of a launch in remarks: its own, or else the memory that it sees."""
    return launch.name or ",".join(launch.arguments)


def called_block(block: Block) -> str:
    """Return the name in remarks of a block's launch."""
    return block.name or ",".join(
        dict.fromkeys(view.source for view in block.refinements if view.direction is not Direction.NONE)
    )


def left(program: Program, why: Refused) -> Program:
    """Return the program itself after remarks that a step leaves all its kernels alone for one reason."""
    if listener() is not None:
        for number, launch in enumerate(launches(program.works)):
            remark(called(launch), why, number=number)
    return program


def _tell(remarks: Remarks, program: Program, outcomes: Mapping[int, Outcome]) -> None:
    names = grouped((launch.kernel, called(launch)) for launch in launches(program.works))
    for number, outcome in outcomes.items():
        facts = outcome.facts if isinstance(outcome, Done) else ()
        refusal = outcome if isinstance(outcome, Refused) else None
        remarks.add(names[number][0], refusal, facts, tuple(names[number]), number)


@attrs.frozen(repr=False)
class _Expansion:
    """Launches that replace one launch of a kernel, from which those for its other launches follow."""

    first: Launch
    after: tuple[Launch, ...]

    @classmethod
    def of(
        cls, outcome: Done | tuple[Statement, ...], first: Launch, table: KernelTable, memory: Mapping[str, Refinement]
    ) -> _Expansion:
        """Build the replacement of a launch from an outcome."""
        blocks = outcome.blocks if isinstance(outcome, Done) else outcome
        return cls(first, tuple(table.launch(each, memory) for each in blocks if isinstance(each, Block)))

    def launches(self, launch: Launch) -> tuple[Launch, ...]:
        """Return the replacement of another launch."""
        names = dict(zip(self.first.arguments, launch.arguments, strict=True))
        return tuple(self._like(each, launch, names) for each in self.after)

    def _like(self, made: Launch, launch: Launch, names: Mapping[str, str]) -> Launch:
        derived = bool(self.first.name) and made.name.startswith(self.first.name)
        return Launch(
            made.kernel,
            tuple(names.get(name, name) for name in made.arguments),
            launch.name + made.name.removeprefix(self.first.name) if derived else made.name,
            launch.comments if made.comments == self.first.comments else made.comments,
        )
