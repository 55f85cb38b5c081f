"""A run of the fuzzer: processes for the areas, one after the other or several at once, and what they find.

Each process runs the cases of one area and says which one it begins. So a crash or a hang has a case too, and the next
process goes on behind it.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, Final

from fuzz.areas import AREAS
from fuzz.recording import Recorded, save
from fuzz.worker import SHRINKING, kind_of, seed_of
from soak.children import environment
from tileir.core.nodes import attrs

TURN: Final = 30.0
"""Seconds that an area runs before the next one has its turn."""

_LONGEST: Final = 300.0
"""Seconds after which an area that runs alone begins a new process, so that no leak adds up."""


_COMPLAINT: Final = 2000
"""Most reported bytes of a crashed process's standard error."""


@attrs.frozen(repr=False)
class _EndedError(Exception):
    """A process is gone, or says nothing any more, in the middle of a case."""

    number: int
    silent: bool = attrs.field(kw_only=True)


@attrs.define
class Session:
    """A run of the fuzzer over areas, in several processes.

    Attributes:
        areas: Names of areas.
        seed: Of all cases.
        minutes: How long the session takes.
        programs: The most cases of each area; None for as many as there is time for.
        start: Number of the first case.
        jobs: How many processes run at once.
        corpus: Where findings are written.
        say: Takes a line of the report.
        command: What starts a process that runs cases.
        silence: Seconds without a word after which a case counts as one that hangs.
        counts: Of each area.
        findings: How many cases failed.

    """

    areas: Sequence[str]
    seed: int
    minutes: float
    programs: int | None
    start: int
    jobs: int
    corpus: Path
    say: Callable[[str], None]
    command: Sequence[str] = (sys.executable, "-m", "fuzz")
    silence: float = 120.0 + SHRINKING
    counts: dict[str, Counter[str]] = attrs.field(factory=dict, init=False)
    findings: int = attrs.field(default=0, init=False)
    _kinds: set[tuple[str, str]] = attrs.field(factory=set, init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)

    def run(self) -> None:
        """Run until time is up, or until each area has had its cases."""
        self.counts = {area: Counter() for area in self.areas}
        stop = time.monotonic() + 60 * self.minutes
        jobs = [threading.Thread(target=self._job, args=(number, stop)) for number in range(self.jobs)]
        for job in jobs:
            job.start()
        for job in jobs:
            job.join()

    def _job(self, job: int, stop: float) -> None:
        """Run the cases whose number is the job's, modulo the number of jobs; the area with the least time is next."""
        following = dict.fromkeys(self.areas, self.start + job)
        spent = dict.fromkeys(self.areas, 0.0)
        most = None if self.programs is None else self.start + self.programs
        turn = min(TURN, 60 * self.minutes / len(self.areas)) if len(self.areas) > 1 else _LONGEST
        while following and (now := time.monotonic()) < stop:
            area = min(following, key=lambda name: spent[name])
            following[area] = self._part(area, following[area], most, min(turn, stop - now))
            spent[area] += time.monotonic() - now
            if most is not None and following[area] >= most:
                del following[area]

    def _part(self, area: str, first: int, most: int | None, seconds: float) -> int:
        """Run one process for some seconds; return the number of the case that comes next."""
        command = [*self.command, "--worker", area, "--seed", str(self.seed)]
        command += ["--start", str(first), "--step", str(self.jobs), "--seconds", str(seconds)]
        with self._lock:
            command += [word for name, kind in sorted(self._kinds) if name == area for word in ("--known", kind)]
        if most is not None:
            command += ["--programs", str(-(-(most - first) // self.jobs))]
        with (
            tempfile.TemporaryFile() as complaints,
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=complaints, text=True, env=environment()
            ) as process,
        ):
            lines: queue.SimpleQueue[str] = queue.SimpleQueue()
            reader = threading.Thread(target=_read, args=(process, lines), daemon=True)
            reader.start()
            try:
                return self._heard(area, first, lines)
            except _EndedError as end:
                process.kill()
                code = process.wait()
                silence = f"nothing was heard for {self.silence:.0f} seconds"
                fault = silence if end.silent else f"the process ended with {code}"
                case = AREAS[area].make(Recorded.seeded(seed_of(self.seed, area, end.number)))
                self._found(area, case, f"{fault}\n{_last(complaints)}", end.number)
                return end.number + self.jobs
            finally:
                reader.join()

    def _heard(self, area: str, number: int, lines: queue.SimpleQueue[str]) -> int:
        """Take in all that a process says; return the number of the case that comes next."""
        while True:
            try:
                line = lines.get(timeout=self.silence)
            except queue.Empty:
                raise _EndedError(number, silent=True) from None
            if not line:
                raise _EndedError(number, silent=False)
            told = json.loads(line)
            number = told.get("at", number)
            if "finding" in told:
                self._found(area, told["finding"], told["fault"], told["number"])
            if "counts" in told:
                self._count(area, told["counts"])
                return int(told["next"])

    def _count(self, area: str, counts: dict[str, int]) -> None:
        with self._lock:
            self.counts[area].update(counts)

    def _found(self, area: str, case: dict[str, Any], fault: str, number: int) -> None:
        again = f"--area {area} --seed {self.seed} --start {number} --programs 1"
        kind = area, kind_of(fault)
        with self._lock:
            if kind in self._kinds:
                self.counts[area]["repeated"] += 1
                return
            self._kinds.add(kind)
            self.findings += 1
            self.counts[area]["findings"] += 1
            path = save(self.corpus, area, case, fault, again)
            self.say(f"{area}: {fault}\n  kept as {path}; again: {again}")

    def report(self) -> str:
        """Return a table of the counts of each area."""
        lines = [
            f"{'area':<14}{'programs':>10}{'comparisons':>13}{'refused':>9}{'findings':>10}{'repeated':>10}"
            f"{'LLVM':>9}{'OpenCL':>9}"
        ]
        for area, counts in self.counts.items():
            refused = sum(count for name, count in counts.items() if name.startswith("refused"))
            cells = (counts["cases"], counts["comparisons"], refused, counts["findings"], counts["repeated"])
            compiled = f"{counts['for llvm']:>9}{counts['for opencl']:>9}"
            lines.append(f"{area:<14}{cells[0]:>10}{cells[1]:>13}{cells[2]:>9}{cells[3]:>10}{cells[4]:>10}{compiled}")
        return "\n".join(lines)


def _read(process: subprocess.Popen[str], lines: queue.SimpleQueue[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put("")


def _last(complaints: IO[bytes]) -> str:
    """Return the end of what a process wrote to its standard error."""
    complaints.seek(max(0, complaints.seek(0, os.SEEK_END) - _COMPLAINT))
    return complaints.read().decode(errors="replace")
