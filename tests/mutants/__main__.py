"""``python -m mutants [WORDS]``, in ``tests``: plants each fault in a process of its own and prints what catches it.

WORDS choose the faults whose names hold one of them; without any it is all, which takes about ten minutes on one
processor. For each fault a line says whether it was caught, after how many seconds and, below that, by what: pass,
kernel and element. A fault survives where nothing wrong comes of it; the line then says of how many programs something
else came at all. One that takes too long gets no verdict. The exit status is the number that was not caught. What
compilers say of kernels goes to the standard error. The table in ``caught.md`` gets a row for each of these faults.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from mutants import table
from mutants.nets import usual_trails
from mutants.planted import PLANTED
from mutants.verdicts import CAUGHT, judged

_MOST_LINES = 16


def main(words: list[str]) -> int:
    """Judge the mutants whose names hold one of ``words``; by default all. The result is how many nothing catches."""
    sys.path.append(str(Path(__file__).parents[2] / "plugins/tileir-c/src"))
    chosen = [mutant for mutant in PLANTED if not words or any(word in mutant.name for word in words)]
    usual = () if all(mutant.is_emitter for mutant in chosen) else usual_trails()  # once, for all processes
    caught = 0
    for mutant in chosen:
        start = time.monotonic()
        verdict = judged(mutant, usual)
        caught += verdict.word == CAUGHT
        table.write({**table.read(), mutant.name: table.run_of(mutant, verdict)})
        lines = verdict.message.splitlines()
        lines = lines if len(lines) <= _MOST_LINES else [*lines[:_MOST_LINES], "..."]
        sys.stdout.write(f"{verdict.word} {time.monotonic() - start:.0f} s: {mutant.name}\n")
        sys.stdout.write("".join(f"    {line}\n" for line in lines))
        sys.stdout.flush()
    sys.stdout.write(f"{caught} of {len(chosen)} caught\n")
    return len(chosen) - caught


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
