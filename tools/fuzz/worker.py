"""One process of the fuzzer: makes and checks the cases of an area one after the other, and tells of each.

It says a line of JSON for each case before it begins, so that who started it knows which case killed it, and
one for each finding and at the end.
"""

from __future__ import annotations

import json
import re
import sys
import time
import traceback
from collections import Counter
from typing import Any, Final

import attrs

from fuzz.area import Area, Case, Refused
from fuzz.devices import COMPILED
from fuzz.recording import Recorded, shrunk

_VARIABLE: Final = re.compile(r"'[^']*'|\b(?!TIL|\w*Error)[A-Z]\w*\b|-?\b\d[\d.e+-]*|-?\b(nan|inf|True|False)\b")
"""Parts in which equal findings may differ: quoted names, names of tensors, and numbers that are no part of a code."""

SHRINKING: Final = 20.0
"""Seconds for which a finding is made smaller."""


def seed_of(seed: int, area: str, number: int) -> str:
    """Return what the choices of a case depend on."""
    return f"{seed}/{area}/{number}"


@attrs.define
class Worker:
    """Runs the cases of one area.

    Attributes:
        area: The area.
        seed: Of all cases.
        seen: Findings that were told already: their kinds, by :func:`kind_of`.
        counts: Cases, comparisons, refusals, and programs compiled for each device so far.

    """

    area: Area
    seed: int
    seen: set[str] = attrs.field(factory=set)
    counts: Counter[str] = attrs.field(factory=Counter)

    def run(self, first: int, step: int, programs: int | None, seconds: float) -> None:
        """Run cases ``first``, ``first + step`` and so on, until there were enough or time is up."""
        stop = time.monotonic() + seconds
        number = first
        while (programs is None or self.counts["cases"] < programs) and time.monotonic() < stop:
            say(at=number)
            self.one(number)
            number += step
        say(counts=dict(self.counts), next=number)

    def one(self, number: int) -> None:
        """Make and check one case."""
        choices = Recorded.seeded(seed_of(self.seed, self.area.name, number))
        case = self.area.make(choices)
        self.counts["cases"] += 1
        fault = self._fault(case)
        if fault is None:
            return
        kind = kind_of(fault)
        if kind in self.seen:
            self.counts["repeated"] += 1
            return
        self.seen.add(kind)
        made = shrunk(choices.made, lambda record: self._fails_alike(record, kind), SHRINKING)
        smaller = self.area.make(Recorded(again=made))
        say(finding=smaller, fault=fault_of(self.area, smaller) or fault, number=number)

    def _fails_alike(self, record: Recorded, kind: str) -> bool:
        fault = fault_of(self.area, self.area.make(record))
        return fault is not None and kind_of(fault) == kind

    def _fault(self, case: Case) -> str | None:
        before = Counter(COMPILED)
        try:
            self.counts["comparisons"] += self.area.check(case)
        except Refused as refusal:
            self.counts[f"refused {refusal}"] += 1
        except Exception as error:  # any is a finding
            return told(error)
        finally:
            self.counts.update({f"for {device}": count for device, count in (COMPILED - before).items()})
        return None


def fault_of(area: Area, case: Case) -> str | None:
    """Check a case; return what is wrong with it, or None."""
    try:
        area.check(case)
    except Refused:
        return None
    except Exception as error:  # any is a finding
        return told(error)
    return None


def told(error: Exception) -> str:
    """Return what a finding says: its exception, and where it was raised unless it is our own assertion."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = "" if isinstance(error, AssertionError) else f" ({frame.name}, {frame.filename.rpartition('/')[2]})"
    return f"{type(error).__name__}{place}: {error}"


def kind_of(fault: str) -> str:
    """Return what equal findings share: the first line of the fault without numbers and quoted names."""
    line = fault.partition("\n")[0]
    return _VARIABLE.sub("_", line)[:200]


def say(**line: Any) -> None:
    """Write a line of JSON for the process that started this one."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
