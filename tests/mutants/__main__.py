"""``python -m mutants [WORDS]``, in ``tests``: plants each fault in a process of its own and prints what catches it."""

from __future__ import annotations

import multiprocessing
import sys
import time

from mutants.nets import caught, prepared_programs
from mutants.planted import PLANTED, Mutant
from mutants.planting import plant

LIMIT_SECONDS = 120


def main(words: list[str]) -> int:
    """Run the mutants whose names hold one of ``words``; by default all. The result is how many nothing catches."""
    chosen = [mutant for mutant in PLANTED if not words or any(word in mutant.name for word in words)]
    prepared_programs()  # once, for all processes
    context = multiprocessing.get_context("fork")
    survivors = 0
    for mutant in chosen:
        start = time.monotonic()
        process = context.Process(target=_judge, args=(mutant,))
        process.start()
        process.join(LIMIT_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()
        found = process.exitcode == 0
        survivors += not found
        sys.stdout.write(f"{'caught' if found else 'SURVIVED'} {time.monotonic() - start:.0f} s: {mutant.name}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{len(chosen) - survivors} of {len(chosen)} caught\n")
    return survivors


def _judge(mutant: Mutant) -> None:
    plant(mutant)
    finding = caught(mutant)
    if finding is None:
        sys.exit(1)
    sys.stdout.write("".join(f"    {line}\n" for line in str(finding).splitlines()))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
