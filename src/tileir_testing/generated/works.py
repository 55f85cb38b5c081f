"""Random programs of launches, loops and branches over a few small kernels, which end whatever they compute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from tileir.core import DType, attrs
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.ir import Branch, Buffer, BufferRole, KernelFunction, Launch, Loop, Program, While, Work
from tileir.semtree.text.parser import parse_program
from tileir.semtree.text.printer import to_text
from tileir_testing.generated.choices import Choices

Array = np.ndarray[Any, Any]

SIZE: Final = 40
"""Elements of each buffer but the conditions."""

_KERNELS: Final = """
kernel set(out i32 c[40] noalias) grid(1) index($index) {
  for ($index i = 0; i < 40; i += 1) { c[i] = i32(0); }
}
kernel mix(out i32 c[40] noalias, in i32 a[40] noalias, in i32 b[40] noalias) grid(1) index($index) {
  for ($index i = 0; i < 40; i += 1) { c[i] = a[i] * i32(3) + b[i]; }
}
kernel less(out i32 c[40] noalias, in i32 a[40] noalias) grid(1) index($index) {
  for ($index i = 0; i < 40; i += 1) { c[i] = a[i] - cast<i32>(i); }
}
kernel bump(inout i32 c[40] noalias) grid(1) index($index) {
  for ($index i = 0; i < 40; i += 1) { c[i] = c[i] + i32(1); }
}
kernel below(out bool c[1] noalias, in i32 a[40] noalias, in i32 b[40] noalias) grid(1) index($index) {
  c[0] = a[0] < (b[0] & i32(3));
}
kernel odd(out bool c[1] noalias, in i32 a[40] noalias) grid(1) index($index) {
  c[0] = (a[1] & i32(1)) == i32(1);
}
kernel same(out bool c[1] noalias, in bool a[1] noalias, in bool b[1] noalias) grid(1) index($index) {
  c[0] = a[0] == b[0];
}
"""
_NAMES: Final = ("set", "mix", "less", "bump", "below", "odd", "same")
_NUMBERS: Final = {name: number for number, name in enumerate(_NAMES)}
_DEPTH: Final = 3
_STATES: Final = ("x", "y", *(f"t{number}" for number in range(5)), "r", "s")
_FLAGS: Final = ("given", *(f"f{number}" for number in range(4)))
_ROLES: Final = {
    "x": BufferRole.INPUT, "y": BufferRole.INPUT, "given": BufferRole.INPUT,
    "r": BufferRole.OUTPUT, "s": BufferRole.OUTPUT,
}  # fmt: skip


@attrs.frozen(eq=False)
class WorksCase:
    """A program, and its inputs by name."""

    program: Program
    inputs: Mapping[str, Array]

    def expected(self) -> dict[str, Array]:
        """Return the interpreter's results."""
        return run_program(self.program, self.inputs, ALL_CHECKS)

    def check(self, outputs: Mapping[str, Array]) -> None:
        """Compare the outputs of another run; raise AssertionError, with the program, for a difference."""
        for name, ours in self.expected().items():
            np.testing.assert_array_equal(outputs[name], ours, f"output {name} of\n{to_text(self.program)}")


def works_case(choices: Choices, index: DType = DType.I64) -> WorksCase:
    """Return a random legal program; ``index`` is the type of its kernels' indices."""
    made = _Works(choices)
    works = [*made.works(_DEPTH), *made.unwritten()]
    names = (*_STATES, *_FLAGS, *made.own)
    buffers = tuple(_buffer(name) for name in names)
    inputs: dict[str, Array] = {
        name: np.array([choices.integer(0, 7) for _ in range(SIZE)], np.int32) for name in ("x", "y")
    }
    inputs["given"] = np.array([choices.integer(0, 1) == 1])
    return WorksCase(Program(kernels(index), buffers, tuple(works)), inputs)


def kernels(index: DType = DType.I64) -> tuple[KernelFunction, ...]:
    """Return the kernels that all these programs have in common."""
    return parse_program(f"program {{{_KERNELS}}}".replace("$index", index.value)).kernels


def _buffer(name: str) -> Buffer:
    flag = name in _FLAGS or name.startswith("go")
    role = _ROLES.get(name, BufferRole.TEMPORARY)
    return Buffer(name, DType.BOOL if flag else DType.I32, (1,) if flag else (SIZE,), role)


@attrs.define(repr=False)
class _Works:
    """Generator of works that read only memory written on every path.

    Attributes:
        choices: The source of choices.
        written: Memory that is certainly written before the next work.
        own: The counters and conditions of loops, which only these write.
    """

    choices: Choices
    written: list[str] = attrs.field(factory=lambda: ["x", "y", "given"], init=False)
    own: list[str] = attrs.field(factory=list, init=False)

    def works(self, depth: int) -> list[Work]:
        """Choose one or more works, with loops and branches up to this depth."""
        found: list[Work] = []
        for _ in range(self.choices.integer(1, 4)):
            kind = self.choices.integer(0, 6) if depth else 0
            if kind == 4:
                found.append(Loop(self.choices.integer(1, 3), tuple(self.works(depth - 1))))
            elif kind == 5:
                found.append(self._branch(depth))
            elif kind == 6:
                found.extend(self._loop(depth))
            else:
                found.append(self._launch())
        return found

    def unwritten(self) -> Iterator[Work]:
        """Yield launches that write the outputs that nothing has written for sure."""
        for name in ("r", "s"):
            if name not in self.written:
                yield _launch("mix", name, self._state(), self._state())

    def _branch(self, depth: int) -> Branch:
        condition = self.choices.pick(self._of(_FLAGS))
        with self._aside() as then_written:
            then = self.works(depth - 1)
        with self._aside() as else_written:
            otherwise = self.works(depth - 1) if self.choices.integer(0, 2) else []
        self.written.extend(name for name in then_written if name in else_written)
        return Branch(condition, tuple(then), tuple(otherwise))

    def _loop(self, depth: int) -> Iterator[Work]:
        """Yield a loop of at most three turns, by a counter of its own."""
        number = len(self.own) // 2
        counter, condition = f"n{number}", f"go{number}"
        self.own += [counter, condition]
        yield _launch("set", counter)
        yield _launch("below", condition, counter, self._state())
        with self._aside():
            inside = self.works(depth - 1)
            again = _launch("below", condition, counter, self._state())
        yield Loop(While(condition), (*inside, _launch("bump", counter), again))

    @contextmanager
    def _aside(self) -> Iterator[list[str]]:
        """Choose works that may not run; return the memory that they write in addition."""
        before, further = self.written, list[str]()
        self.written = [*before]
        yield further
        further += self.written[len(before) :]
        self.written = before

    def _launch(self) -> Launch:
        name = self.choices.pick(("mix", "mix", "less", "bump", "odd", "same"))
        if name == "bump":
            targets = [state for state in self._of(_STATES) if state not in _ROLES or state in "rs"]
            return _launch("bump", self.choices.pick(targets)) if targets else _launch("set", self._target(_STATES))
        places = _FLAGS if name == "same" else _STATES
        operands = [self.choices.pick(self._of(places)) for _ in range(2 if name in ("mix", "same") else 1)]
        target = self._target(_STATES if name in ("mix", "less") else _FLAGS, operands)
        return _launch(name, target, *operands)

    def _state(self) -> str:
        return self.choices.pick(self._of(_STATES))

    def _of(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if name in self.written]

    def _target(self, names: Sequence[str], operands: Sequence[str] = ()) -> str:
        found = self.choices.pick([n for n in names if _ROLES.get(n) is not BufferRole.INPUT and n not in operands])
        self.written.append(found)
        return found


def _launch(kernel: str, *arguments: str) -> Launch:
    return Launch(_NUMBERS[kernel], arguments)
