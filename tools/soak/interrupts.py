"""Interrupts at any moment of compiling, running, submitting and stepping."""

from __future__ import annotations

import dis
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from random import Random
from types import CodeType, FrameType
from typing import Any, Final

import attrs
import numpy as np

from soak.children import environment
from soak.programs import Program, programs
from tileir.driver.calls.stepper import stepper
from tileir.driver.jit import jit
from tileir.runtime.caches.disk_cache import DiskCache
from tileir.runtime.context import Context
from tileir_performance.tuning.search import tune

TRACED: Final = (f"{os.sep}tileir", f"{os.sep}threading.py", f"{os.sep}contextlib.py")
"""Parts of the names of files whose lines are moments."""

ACCUMULATE: Final = "function (S[N], X[N]) -> (T, Y) { T = S + X; Y = T * 2; }"
BURSTS: Final = (1, 1, 2, 5)
PATIENCE: Final = 120.0
"""Seconds after which what was interrupted counts as hanging."""


@attrs.define(repr=False)
class _Interrupter:
    """Raises at one of the moments that it counts: beginnings of lines and calls in our files."""

    left: int
    seen: int = 0

    def __call__(self, frame: FrameType, event: str, _: object) -> Any:
        if not any(part in frame.f_code.co_filename for part in TRACED) or _leaves_condition(frame.f_code):
            return None
        if event == "call" and frame.f_lasti != _first(frame.f_code):
            # A generator goes on, or is closed when nobody refers to it, on Python 3.11 even if it was never entered:
            # then Python ignores what it raises.
            return self
        if event == "call" or (event == "line" and frame.f_lasti not in _uninterrupted(frame.f_code)):
            self.seen += 1
            if self.seen == self.left:
                raise KeyboardInterrupt
        return self


@cache
def _leaves_condition(code: CodeType) -> bool:
    """Return whether a function is how Python's conditions, and what is made of them, let go of their lock.

    They do it in Python. An interrupt on the first lines of that leaves the lock taken, of a semaphore or an executor
    of Python's, too: that is a gap of CPython's, which nothing around it can close.
    """
    return code.co_name == "__exit__" and code.co_filename == threading.__file__


@cache
def _first(code: CodeType) -> int:
    """Return the offset of the instruction at which a function, or a generator for the first time, is entered."""
    return next((each.offset for each in dis.get_instructions(code) if each.opname == "RESUME"), -1)


@cache
def _uninterrupted(code: CodeType) -> frozenset[int]:
    """Return offsets of instructions at which a tracer is called for a line, but no exception may be raised.

    Where a ``with`` statement starts to be left, Python handles no signal before it calls ``__exit__``: an exception
    raised there would leave a lock taken, which no interrupt does. After a jump back, Python 3.12 finds no handler
    for what a tracer raises; an interrupt there finds its own. No handler covers an instruction that does nothing, such
    as that of a line with ``try``, since nothing is raised there.
    """
    instructions = [*dis.get_instructions(code)]
    offsets: set[int] = set()
    for number, instruction in enumerate(instructions):
        previous = instructions[number - 1]
        if instruction.opname == "WITH_EXCEPT_START":
            offsets.add(previous.offset)
        elif instruction.opname == "NOP":
            offsets.add(instruction.offset)
        elif instruction.opname.startswith("JUMP_BACKWARD"):
            offsets |= {instruction.offset, instruction.argval}
        elif [_loads_none(one) for one in instructions[number : number + 3]] == [True] * 3:  # arguments of __exit__
            first = number
            while instructions[first - 1].opname == "SWAP":  # puts what is returned below: once, from 3.14 on twice
                first -= 1
            offsets.add(instructions[first].offset)
    return frozenset(offsets)


def _loads_none(instruction: dis.Instruction) -> bool:
    return instruction.opname == "LOAD_CONST" and instruction.argval is None


def moments(operation: Callable[[], object]) -> int:
    """Return at how many moments :func:`interrupted` can interrupt an operation in this thread."""
    return _traced(operation, -1)


def interrupted(operation: Callable[[], object], moment: int) -> bool:
    """Do something, with an interrupt at a moment, counted from 1; return whether it was cut short."""
    try:
        _traced(operation, moment)
    except BaseException as error:
        if _is_interrupted(error):
            return True
        raise
    return False


def _is_interrupted(error: BaseException | None) -> bool:
    """Return whether an interrupt led to an error: Python's own locks fail otherwise where one strikes them."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _traced(operation: Callable[[], object], moment: int) -> int:
    before, interrupter = sys.gettrace(), _Interrupter(moment)
    sys.settrace(interrupter)
    try:
        operation()
    finally:
        sys.settrace(before)
    return interrupter.seen


OPERATIONS: Final = ("compile", "call", "submit", "step", "close")
"""Operations that are interrupted at chosen moments."""

TUNING_SECONDS: Final = 0.3


@attrs.define(eq=False, repr=False)
class _Scene:
    """A context, and what is done with it under interrupts."""

    context: Context
    program: Program
    seed: int = 0

    def operation(self, name: str) -> Callable[[], object]:
        """Return something to interrupt."""
        left, right = self.program.inputs(self.seed)
        function = jit(self.program.text, context=self.context)
        match name:
            case "compile":
                return lambda: self.program.is_right(self.context, self.seed)
            case "call":
                executable = function.specialise(left, right)
                return lambda: executable(left, right)
            case "submit":
                executable = function.specialise(left, right)
                return lambda: executable.submit(left, right).result()
            case "close":

                def call_and_close() -> None:
                    function(left, right)
                    self.context.close()

                return call_and_close
            case "tune":
                arguments = {"A": left, "B": right}
                return lambda: tune(self.program.text, arguments, context=self.context, time_limit=TUNING_SECONDS)
            case _:
                return self._step()

    def _step(self) -> Callable[[], object]:
        one = np.ones(6, np.float32)
        step = stepper(ACCUMULATE, {"S": "T"}, {"S": np.zeros(6, np.float32)}, context=self.context)
        step(one)

        def once() -> None:
            before = step.state["S"]
            try:
                step(one)
            finally:
                after = step.state["S"]
                if not (np.array_equal(after, before) or np.array_equal(after, before + 1)):
                    raise AssertionError(f"a step from {before} left {after}")

        return once

    def is_sound(self) -> bool:
        """Return whether another thread can compile, run, submit and close now."""
        found: list[bool] = []

        def work() -> None:
            left, right = self.program.inputs(self.seed + 1)
            executable = jit(self.program.text, context=self.context).specialise(left, right)
            right_now = np.array_equal(executable.submit(left, right).result(), self.program.expected(left, right))
            found.append(right_now and self.program.is_right(self.context, self.seed))
            self.context.close()

        worker = threading.Thread(target=work, daemon=True)
        worker.start()
        worker.join(PATIENCE)
        return found == [True] and not worker.is_alive()


def faults_of_chosen_moments(device: str, operation: str, trials: int, seed: int, directory: Path | None) -> list[str]:
    """Interrupt an operation, one of :data:`OPERATIONS`, at moments chosen at random, each in a context of its own.

    Args:
        device: Where it runs.
        operation: What is interrupted.
        trials: At how many moments.
        seed: What decides which.
        directory: Where a cache on disk is made; None for none.

    Returns:
        What was wrong afterwards, each in a sentence.

    """
    chosen = Random(f"{seed} {operation}")
    program = programs(3)[2]

    def scene(number: int) -> _Scene:
        disk = None if directory is None else DiskCache(directory / str(number))
        return _Scene(Context(device_id=device, disk_cache=disk), program)

    moments(scene(-1).operation(operation))  # what is done once in a process
    count = moments(scene(-2).operation(operation))
    faults = []
    for trial in range(trials):
        moment = chosen.randint(1, count)
        stage = scene(trial)
        interrupted(stage.operation(operation), moment)
        if not stage.is_sound():
            faults.append(f"{operation} on {device}, interrupted at moment {moment} of {count}, left something wrong")
    return faults


def faults_of_signals(device: str, processes: int, rounds: int, seed: int) -> list[str]:
    """Send SIGINT, once, twice and in bursts, to processes that compile, run and tune.

    Returns:
        Which processes crashed, failed, hung, or had something wrong afterwards, each in a sentence.

    """
    faults = []
    for number in range(processes):
        command = [sys.executable, "-m", __name__, device, str(rounds), str(seed + number)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=PATIENCE * rounds, env=environment()
            )
        except subprocess.TimeoutExpired:
            faults.append(f"process {number} hangs")
            continue
        if done.returncode:
            faults.append(f"process {number} ended with {done.returncode}: {done.stderr[-800:]}")
    return faults


def main(arguments: Sequence[str]) -> int:
    """Compile and run under signals, and see each time that all is well afterwards."""
    device, rounds, seed = arguments
    chosen = Random(seed)
    left = 0

    def handler(*_: object) -> None:
        nonlocal left
        if left > 0:
            left -= 1
            raise KeyboardInterrupt

    def send(delay: float, count: int) -> None:
        time.sleep(delay)
        for _ in range(count):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(chosen.random() / 100)

    signal.signal(signal.SIGINT, handler)
    available = programs(int(rounds) * 3)
    for number in range(int(rounds)):
        stage = _Scene(Context(device_id=device, disk_cache=None), available[3 * number + chosen.randrange(3)])
        operation = stage.operation(chosen.choice((*OPERATIONS, "tune")))
        left = chosen.choice(BURSTS)
        sender = threading.Thread(target=send, args=(chosen.random() / 10, left))
        _absorbed(sender.start, max(BURSTS))
        _absorbed(operation, max(BURSTS))
        left = 0
        if not stage.is_sound():
            sys.stderr.write(f"round {number} left something wrong\n")
            return 1
    return 0


def _absorbed(operation: Callable[[], object], depth: int) -> None:
    """Do something that so many interrupts may cut short."""
    try:
        if depth:
            _absorbed(operation, depth - 1)
        else:
            operation()
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
