"""``python -m tileir.testing``: runs the kit on a device, or compares several devices with one another."""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tileir.core import TileError
from tileir.core.extensions import Kind
from tileir_testing.compare import Comparison
from tileir_testing.subject import Subject

FOLDER: Final = Path(__file__).parent / "conformance"
AREAS: Final = tuple(sorted(path.stem.removeprefix("test_") for path in FOLDER.glob("test_*.py")))

PROGRAMS: Final = 2000
"""How many programs devices are compared on."""

BATCH: Final = 8

_WORKERS: Final = ("-n", "--numprocesses")
"""Options of pytest-xdist that ask for several processes."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the result is 0 where everything is as it should be."""
    parser = argparse.ArgumentParser(prog="python -m tileir.testing", description=__doc__.partition(":")[2].strip())
    parser.add_argument("name", nargs="?", help="device, back end, or module:OBJECT of one that is not installed")
    parser.add_argument("areas", nargs="*", metavar="AREA", help=f"what to test: {', '.join(AREAS)}; by default all")
    parser.add_argument("--compare", nargs="+", metavar="NAME", help="devices to run generated programs on")
    parser.add_argument("--programs", type=int, metavar="N", help="how many programs to generate")
    parser.add_argument("--seed", type=int, default=0, help="of the generated programs")
    parser.add_argument("--start", type=int, default=0, metavar="N", help="number of the first generated program")
    parser.add_argument("--batch", type=int, metavar="N", help="how many programs are compiled as one")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="how many processes compare programs")
    kinds = [kind.noun for kind in Kind]
    parser.add_argument("--extension", choices=kinds, metavar="KIND", help=f"test the {', '.join(kinds)} NAME instead")
    parser.add_argument("--ranks", type=int, default=2, metavar="N", help="how many ranks a transport has")
    parser.epilog = "All other options are given to pytest, such as -x, -v or -k WORDS."
    chosen, options = parser.parse_known_args(arguments)
    if (chosen.name is None) == (chosen.compare is None):
        parser.error("name one back end, or several with --compare")
    if chosen.extension is not None and chosen.name is not None:
        return _check_extension(Kind[chosen.extension.upper()], chosen.name, chosen.ranks)
    unknown = [area for area in chosen.areas if area not in AREAS]
    if unknown:
        parser.error(f"there is no area {unknown[0]!r}; the areas are {', '.join(AREAS)}")
    if chosen.compare is None:
        return _run_kit(chosen, options)
    return _compare(chosen) if chosen.jobs <= 1 else _compare_in_parts(chosen)


def _check_extension(kind: Kind, name: str, ranks: int) -> int:
    """Check what a distribution offers; the result is 0 where it is as it should be, 2 where there is nothing."""
    from tileir_testing.extensions import check_installed

    try:
        check_installed(kind, name, ranks)
    except AssertionError as error:
        sys.stdout.write(f"{kind.noun} {name}: {error}\n")
        return 1
    except (TileError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"{kind.noun} {name}: all checks passed\n")
    return 0


def _compare(chosen: argparse.Namespace) -> int:
    def say(line: str) -> None:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    try:
        subjects = tuple(Subject.of(name) for name in chosen.compare)
    except TileError as error:
        say(str(error))
        return 2
    programs, batch = (given or usual for given, usual in ((chosen.programs, PROGRAMS), (chosen.batch, BATCH)))
    comparison = Comparison(subjects, chosen.seed, chosen.start, programs, batch, say)
    return 0 if comparison.run() else 1


def _compare_in_parts(chosen: argparse.Namespace) -> int:
    """Compare a part of the programs in each of several processes."""
    programs, jobs = chosen.programs or PROGRAMS, chosen.jobs
    bounds = [chosen.start + programs * job // jobs for job in range(jobs + 1)]
    common = ["--compare", *chosen.compare, "--seed", str(chosen.seed), "--batch", str(chosen.batch or BATCH)]
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "tileir.testing", *common, "--start", str(first), "--programs", str(end - first)]
        )
        for first, end in itertools.pairwise(bounds)
        if end > first
    ]
    return max(process.wait() for process in running)


def _run_kit(chosen: argparse.Namespace, options: Sequence[str]) -> int:
    """Run pytest in a process of its own, since tileir is imported here already and it rewrites what it imports."""
    if importlib.util.find_spec("pytest") is None:
        sys.stderr.write("the conformance kit needs pytest: pip install 'tileir[testing]'\n")
        return 2
    try:
        Subject.of(chosen.name)  # before all tests are read
    except TileError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    command = [sys.executable, "-m", "pytest", "-c", str(FOLDER / "kit.ini"), "--noconftest"]
    command += ["-p", "tileir_testing.plugin", "-p", "no:cacheprovider", "-q", "--no-header", "--kit-summary"]
    command += ["--backend", chosen.name, "--seed", str(chosen.seed)]
    command += ["--start", str(chosen.start)]
    files = [str(FOLDER / f"test_{area}.py") for area in chosen.areas or AREAS]
    for option in ("programs", "batch"):
        if getattr(chosen, option) is not None:
            command += [f"--{option}", str(getattr(chosen, option))]
    if any(option.startswith(_WORKERS) for option in options):
        command += ["--dist", "worksteal"]  # neighbours stay together: else several workers compile the same batch
    return subprocess.run([*command, *options, *files], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
