"""Processes that time things in turns, so that no side's threads are awake while another one is measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs


@attrs.frozen
class Worker:
    """A process that answers one JSON request for each line, by ``serve``."""

    process: subprocess.Popen[str]

    @classmethod
    def start(cls, command: Sequence[str], threads: int, environment: Mapping[str, str] | None = None) -> Worker:
        """Start it with no more threads than asked for, and with further environment variables."""
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        variables = {**os.environ, **dict.fromkeys(names, str(threads)), **(environment or {})}
        pipe = subprocess.PIPE
        return cls(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=variables))

    def ask(self, **request: object) -> Any:
        """Send a request and return the answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(request), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"a side ended while it was asked for {request}")
        return json.loads(line)

    def end(self) -> None:
        """Close its input, and wait until it is gone."""
        self.process.communicate()


def serve(answer: Callable[[dict[str, Any]], object]) -> None:
    """Answer requests until standard input ends."""
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


def timed(call: Callable[[], object], seconds: float) -> list[float]:
    """Return the seconds of each of some calls, of three at least."""
    times: list[float] = []
    stop = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < stop:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times
