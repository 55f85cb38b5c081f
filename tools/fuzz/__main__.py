"""``python -m fuzz``: random programs until time is up; what fails is made small, and kept."""

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path

from fuzz.areas import AREAS
from fuzz.recording import cases
from fuzz.session import Session
from fuzz.worker import Worker, fault_of


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the result is 0 where nothing was found."""
    chosen = _parser().parse_args(arguments)
    if chosen.worker:
        seconds = chosen.seconds if chosen.seconds is not None else 60 * chosen.minutes
        Worker(AREAS[chosen.worker], chosen.seed, {*chosen.known}).run(
            chosen.start, chosen.step, chosen.programs, seconds
        )
        return 0
    if chosen.replay:
        return _replay(chosen.replay)
    seed = secrets.randbelow(10**6) if chosen.seed is None else chosen.seed
    areas = chosen.area or list(AREAS)
    minutes = chosen.minutes if chosen.programs is None else float("inf")
    session = Session(areas, seed, minutes, chosen.programs, chosen.start, chosen.jobs, chosen.corpus, _say)
    _say(f"seed {seed}, areas {', '.join(areas)}")
    session.run()
    _say(session.report())
    return 1 if session.findings else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__.partition(":")[2].strip())
    parser.add_argument("--minutes", type=float, default=1.0, help="how long to go on; 1 by default")
    parser.add_argument(
        "--area", action="append", choices=tuple(AREAS), help="may be given often; by default all areas"
    )
    parser.add_argument("--seed", type=int, help="of all cases; by default another one each time, which is told")
    parser.add_argument("--start", type=int, default=0, metavar="N", help="number of the first case")
    parser.add_argument("--programs", type=int, metavar="N", help="cases of each area, in place of a time")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="how many processes run at once")
    parser.add_argument("--corpus", type=Path, default=Path("fuzz-findings"), help="folder where findings are kept")
    parser.add_argument("--replay", type=Path, metavar="FOLDER", help="check the cases of a corpus instead")
    parser.add_argument("--worker", choices=tuple(AREAS), help=argparse.SUPPRESS)
    parser.add_argument("--known", action="append", default=[], help=argparse.SUPPRESS)
    parser.add_argument("--step", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    return parser


def _replay(folder: Path) -> int:
    failed = 0
    for path, area, case in cases(folder):
        fault = fault_of(AREAS[area], case)
        if fault is not None:
            failed += 1
            _say(f"{path}: {fault}")
    _say(f"{failed} of {sum(1 for _ in cases(folder))} cases fail")
    return 1 if failed else 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
