"""Generated programs on several devices: all of them and the typed interpreter must agree.

Integers must be equal; floats may differ by the bounds of `generated/bounds.py` for each element.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from tileir.core import TileError, attrs, dtype_of
from tileir.tile.ir import Function
from tileir.tile.text.printer import to_text
from tileir_testing.batches import run_together
from tileir_testing.generated.case import Case, fault_of, program
from tileir_testing.subject import Array, Subject
from tileir_testing.values import ulps_apart

INTERPRETER: Final = "interpreter"

_REPORT_SECONDS: Final = 10.0


@attrs.define(repr=False)
class _Tally:
    """Counts of comparisons so far."""

    programs: int = 0
    elements: int = 0
    floats: int = 0
    worst: dict[str, float] = attrs.field(factory=dict)

    def add(self, results: Mapping[str, Mapping[str, Array]]) -> None:
        """Count the results of one program, by device."""
        self.programs += 1
        for name, right in results[INTERPRETER].items():
            self.elements += right.size
            if right.size == 0 or not dtype_of(right).is_float:
                continue
            self.floats += right.size
            for device, values in results.items():
                apart = float(np.max(ulps_apart(np.asarray(values[name]), right)))
                self.worst[device] = max(self.worst.get(device, 0.0), apart)


@attrs.frozen
class Comparison:
    """Programs to compare, and the devices that they run on.

    Attributes:
        subjects: The devices.
        seed: Of the programs.
        start: Number of the first one.
        programs: How many.
        batch: How many are compiled as one.
        say: Takes a line of the report.

    """

    subjects: tuple[Subject, ...]
    seed: int
    start: int
    programs: int
    batch: int
    say: Callable[[str], None]

    def run(self) -> bool:
        """Run all programs, or those before the first one on which devices disagree; return whether they agree."""
        tally, began, reported = _Tally(), time.monotonic(), 0.0
        for first in range(self.start, self.start + self.programs, self.batch):
            numbers = range(first, min(first + self.batch, self.start + self.programs))
            cases = [program(self.seed, number) for number in numbers]
            by_device = {_name(subject): self._results(subject, cases) for subject in self.subjects}
            for position, (number, case) in enumerate(zip(numbers, cases, strict=True)):
                results = {INTERPRETER: case.expected(), **{n: r[position] for n, r in by_device.items()}}
                fault = _disagreement(case, results)
                if fault is not None:
                    self._report(number, case, fault)
                    return False
                tally.add(_successes(results))
            seconds = time.monotonic() - began
            if seconds - reported >= _REPORT_SECONDS:
                reported = seconds
                self.say(f"{tally.programs} of {self.programs} programs, {seconds:.0f} s")
        self._conclude(tally, time.monotonic() - began)
        return True

    def _results(self, subject: Subject, cases: Sequence[Case]) -> list[Mapping[str, Array] | Exception]:
        """Run some programs together; where that fails, or is wrong, run each alone."""
        try:
            together = run_together(subject, cases)
            for case, results in zip(cases, together, strict=True):
                case.check(results)
        except (TileError, AssertionError, KeyError):
            return [_alone(subject, case) for case in cases]
        return list(together)

    def _report(self, number: int, case: Case, fault: str) -> None:
        self.say(f"program {number} of seed {self.seed}: {fault}")
        self.say(repr(reduced(case, lambda smaller: self._fails(smaller))))
        self.say(f"again: --seed {self.seed} --start {number} --programs 1")

    def _fails(self, case: Case) -> bool:
        results: dict[str, Mapping[str, Array] | Exception] = {INTERPRETER: case.expected()}
        results.update({_name(subject): _alone(subject, case) for subject in self.subjects})
        return _disagreement(case, results) is not None

    def _conclude(self, tally: _Tally, seconds: float) -> None:
        self.say(f"{tally.programs} programs agree, {tally.elements} elements, {seconds:.0f} s")
        for device, apart in tally.worst.items():
            if device != INTERPRETER:
                self.say(f"{device}: floats at most {apart:g} ulp from the interpreter, of {tally.floats}")


def _name(subject: Subject) -> str:
    return subject.device.id


def _alone(subject: Subject, case: Case) -> Mapping[str, Array] | Exception:
    try:
        return subject.run(case.text, case.inputs)
    except Exception as error:  # a device that fails disagrees with those that do not
        return error


def _disagreement(case: Case, results: Mapping[str, Mapping[str, Array] | Exception]) -> str | None:
    """Return which two disagree about which element, or None."""
    for device, values in results.items():
        if isinstance(values, Exception):
            return f"{device} fails: {type(values).__name__}: {values}"
    allowed = case.differences()
    for (one, left), (other, right) in itertools.combinations(_successes(results).items(), 2):
        for name in allowed:
            fault = fault_of(np.asarray(right[name]), np.asarray(left[name]), allowed[name])
            if fault is not None:
                return f"{other} and {one} disagree: {name}{fault}"
    return None


def _successes(results: Mapping[str, Mapping[str, Array] | Exception]) -> dict[str, Mapping[str, Array]]:
    return {device: values for device, values in results.items() if not isinstance(values, Exception)}


def reduced(case: Case, fails: Callable[[Case], bool]) -> Case:
    """Return a smaller program that fails as well: one output, and no statement that can go."""
    for output in case.function.outputs:
        smaller = _with(case, attrs.evolve(case.function, outputs=(output,)))
        if _still(smaller, fails):
            case = smaller
            break
    for statement in reversed(case.function.statements):
        kept = tuple(other for other in case.function.statements if other is not statement)
        smaller = _with(case, attrs.evolve(case.function, statements=kept))
        if _still(smaller, fails):
            case = smaller
    return case


def _with(case: Case, function: Function) -> Case:
    return case._replace(function=function, text=to_text(function))


def _still(case: Case, fails: Callable[[Case], bool]) -> bool:
    try:
        return fails(case)
    except TileError:  # what is left is no program
        return False
