"""Processes that share a cold cache on disk, some of which are killed."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

from soak.children import environment
from soak.programs import programs
from tileir.runtime.caches.disk_cache import DiskCache
from tileir.runtime.context import Context

PROGRAMS: Final = 8
LONGEST_SECONDS: Final = 4.0
"""Time after which the last process is killed, in seconds."""


def faults_of_killed_processes(
    device: str, directory: Path, processes: int, kills: int, seed: int, patience: float = 600.0
) -> list[str]:
    """Start processes on one cache that does not exist yet, and kill some of them.

    Returns:
        What went wrong, each in a sentence: a survivor that failed, found something wrong or did not end, an entry that
        is broken, or a later process that the cache harms.

    """
    chosen = Random(seed)
    command = [sys.executable, "-m", __name__, device, str(directory)]
    started = [
        subprocess.Popen([*command, str(number)], stderr=subprocess.PIPE, env=environment())
        for number in range(processes)
    ]
    victims = set(chosen.sample(range(processes), kills))
    begin = time.monotonic()
    for moment, victim in sorted((chosen.random() * LONGEST_SECONDS, victim) for victim in victims):
        time.sleep(max(0.0, begin + moment - time.monotonic()))
        started[victim].kill()
    faults: list[str] = []
    for number, process in enumerate(started):
        try:
            _, complaint = process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            process.kill()
            faults.append(f"process {number} hangs")
            continue
        if process.returncode and number not in victims:
            faults.append(f"process {number} ended with {process.returncode}: {complaint.decode()[-500:]}")
    return faults + _faults_of_cache(device, directory)


def _faults_of_cache(device: str, directory: Path) -> list[str]:
    cache = DiskCache(directory)
    faults = []
    try:
        entries = cache.entries()
    except FileNotFoundError:  # all were killed before they stored anything
        entries = ()
    faults += [f"{entry.kind}-{entry.key} is broken" for entry in entries if cache.get(entry.kind, entry.key) is None]
    return faults + _wrong_programs(device, directory, 0)


def _wrong_programs(device: str, directory: Path, seed: int) -> list[str]:
    order = list(programs(PROGRAMS))
    Random(seed).shuffle(order)
    with Context(device_id=device, disk_cache=DiskCache(directory)) as context:
        wrong = [program for program in order if not program.is_right(context, seed)]
    return [f"{program.text} {program.shapes} is wrong" for program in wrong]


def main(arguments: Sequence[str]) -> int:
    """Compile and run all programs with the cache at a place: what one process does."""
    device, directory, seed = arguments
    wrong = _wrong_programs(device, Path(directory), int(seed))
    sys.stderr.writelines(wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
