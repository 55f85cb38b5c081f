"""Elements that the statements of a kernel access while the interpreter runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import attrs
import numpy as np
import pytest

from tileir.semtree.interpret import execution, interpreter
from tileir.semtree.interpret.evaluation import FIRST_FREE
from tileir.semtree.interpret.execution import StatementCompiler
from tileir.semtree.interpret.memory import Checks, WatchedMemory
from tileir.semtree.rewrite import bodies

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tileir.semtree.interpret.evaluation import Frame
    from tileir.semtree.ir import KernelFunction, Stmt

Array: TypeAlias = np.ndarray[Any, Any]


@attrs.define(eq=False)
class Touched:
    """The arrays and variables that one statement read and wrote, in all its runs together."""

    stmt: Stmt
    reads: set[str] = attrs.field(factory=set)
    writes: set[str] = attrs.field(factory=set)
    sets: set[str] = attrs.field(factory=set)


def observe(kernel: KernelFunction, arrays: Sequence[Array]) -> list[Touched]:
    """Run a kernel, and return what each statement that ran has touched."""
    found: dict[int, Touched] = {}
    running: list[Touched] = []

    class Observed(WatchedMemory):
        def reads(self, place: Any, agent: Any) -> None:
            super().reads(place, agent)
            if running:
                running[-1].reads.add(self.name)

        def writes(self, place: Any, agent: Any, new: Any) -> None:
            super().writes(place, agent, new)
            if running:
                running[-1].writes.add(self.name)

        def updates(self, place: int, agent: Any) -> None:
            super().updates(place, agent)
            if running:
                running[-1].reads.add(self.name)
                running[-1].writes.add(self.name)

        def copied(self, place: Any, agent: Any, copier: int, message: int) -> None:
            super().copied(place, agent, copier, message)
            if running:
                running[-1].writes.add(self.name)

    class Observing(StatementCompiler):
        def _action(self, stmt: Stmt) -> Callable[[Frame], None]:
            action = super()._action(stmt)
            touched = found.setdefault(id(stmt), Touched(stmt))
            nested = bool(bodies(stmt))

            def run(frame: Frame) -> None:
                before = list(frame[FIRST_FREE:])
                running.append(touched)
                action(frame)
                running.pop()
                for name, slot in self.expressions._slots.items():
                    new = frame[slot]
                    if not nested and not isinstance(new, WatchedMemory) and new is not before[slot - FIRST_FREE]:
                        touched.sets.add(name)

            return run

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execution, "WatchedMemory", Observed)
        patch.setattr(interpreter, "WatchedMemory", Observed)
        patch.setattr(interpreter, "StatementCompiler", Observing)
        interpreter.compile_kernel(kernel, Checks(undefined=True)).run(arrays)
    return list(found.values())
