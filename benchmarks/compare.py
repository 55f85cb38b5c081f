"""Two checkouts in turns: how fast kernels, compiling, calls and the import are, new beside old, in one run.

    python benchmarks/compare.py OLD NEW [--threads 2] [--rounds 7] [--only REGEX] [--what run,compile,call,import]

OLD and NEW are checkouts, or revisions of the checkout that this file lies in. Both are installed from their wheels
into folders of their own, on top of the packages of this interpreter, and run the workloads of this checkout. In each
round both sides measure everything in turns, in fresh processes, since where a process happens to place its arrays
matters as much as many a change; which side begins alternates. Each round gives one ratio for each row, the time of
the old side over that of the new one, so that 1.1 is ten percent faster. The table has the median ratio of all rounds
and bounds of that median that hold with at least 95 % of confidence, whatever the distribution of noise (order
statistics, as in the sign test; with fewer than 6 rounds no such bounds exist, and the least and the greatest ratio
stand there). A row says faster or slower only where both bounds agree. Compare a checkout with itself to see the noise
of a machine.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np

from suite import WORKLOADS
from workers import Worker

HERE: Final = Path(__file__).resolve().parent
KINDS: Final = ("run", "compile", "call", "import")
CONFIDENCE: Final = 0.95
LEAST_ROUNDS: Final = 6
"""With fewer the least and the greatest of the ratios do not bound their median with that confidence."""


@attrs.frozen
class Side:
    """One of the two checkouts.

    Attributes:
        name: As it was given.
        packages: The folder where it is installed.

    """

    name: str
    packages: Path

    @property
    def environment(self) -> dict[str, str]:
        """Variables with which an interpreter imports this side's tileir, and keeps nothing on disk."""
        return {"PYTHONPATH": str(self.packages), "TILEIR_CACHE": "0"}

    def worker(self, threads: int) -> Worker:
        """Start a process that measures this side."""
        command = [sys.executable, str(HERE / "compare_worker.py"), str(self.packages)]
        return Worker.start(command, threads, self.environment)

    def import_seconds(self) -> float:
        """Import tileir after NumPy in a fresh process."""
        code = (
            "import numpy, time; start = time.perf_counter(); import tileir; print(time.perf_counter() - start);"
            f"assert tileir.__file__.startswith({str(self.packages)!r}), tileir.__file__"
        )
        environment = {**os.environ, **self.environment}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
        return float(done.stdout)


@attrs.define
class Row:
    """A measured thing.

    Attributes:
        kind: One of ``KINDS``.
        name: The workload, or which call.
        note: What else differs.
        old: Seconds of the old side in each round.
        new: Seconds of the new side in each round.

    """

    kind: str
    name: str
    note: str = ""
    old: list[float] = attrs.field(factory=list)
    new: list[float] = attrs.field(factory=list)

    @property
    def ratios(self) -> list[float]:
        """Old over new in each round."""
        return [old / new for old, new in zip(self.old, self.new, strict=True)]

    @property
    def ratio(self) -> float:
        """Median of the ratios."""
        return statistics.median(self.ratios)

    @property
    def verdict(self) -> str:
        """Say whether the new side is faster or slower beyond noise."""
        if len(self.ratios) < LEAST_ROUNDS:
            return "too few rounds to tell"
        low, high = bounds(self.ratios)
        return "faster" if low > 1 else "slower" if high < 1 else "same"

    def __str__(self) -> str:
        """Return the row of the table."""
        old, new = (_time(statistics.median(times)) for times in (self.old, self.new))
        low, high = bounds(self.ratios)
        told = "; ".join(filter(None, (self.verdict, self.note)))
        return f"| {self.kind} | {self.name} | {old} | {new} | {self.ratio:.3f} | {low:.3f} to {high:.3f} | {told} |"


def bounds(values: Sequence[float]) -> tuple[float, float]:
    """Return two of the values between which the median of their distribution lies with ``CONFIDENCE``.

    With n values in order, the median lies outside of the k-th from both ends with probability 2 * P(B < k) for a
    binomial B of n fair coins (the sign test). For fewer than 6 values no two of them suffice: the outermost are taken.
    """
    ordered, count = sorted(values), len(values)
    outside, cut = 0.0, 0
    while cut < count // 2:
        outside += 2 * math.comb(count, cut) / 2**count
        if outside > 1 - CONFIDENCE:
            break
        cut += 1
    return ordered[max(0, cut - 1)], ordered[min(count - 1, count - cut)]


@contextmanager
def installed(name: str, folder: Path) -> Iterator[Side]:
    """Install a checkout, or a revision of this one, into a folder."""
    source, packages = Path(name), folder / "packages"
    revision = not (source / "pyproject.toml").exists()
    if revision:
        source = folder / "checkout"
        _git("worktree", "add", "--detach", "--quiet", str(source), name)
    try:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(packages), str(source)]
        subprocess.run(pip, check=True)
        yield Side(name, packages)
    finally:
        if revision:
            _git("worktree", "remove", "--force", str(source))


def _git(*arguments: str) -> None:
    done = subprocess.run(["git", "-C", str(HERE), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr.strip())


def _note_on_results(sides: Sequence[Side]) -> str:
    """Tell how far what both sides computed is apart."""
    old, new = (np.load(side.packages / "result.npy") for side in sides)
    if np.array_equal(old, new, equal_nan=True):
        return ""
    apart = np.abs(old.astype(np.float64) - new).max() / np.abs(old.astype(np.float64)).max()
    return f"results differ by {apart:.1e}"


def measure_round(sides: Sequence[Side], number: int, rows: Sequence[Row], options: argparse.Namespace) -> None:
    """Let both sides measure each row once, in fresh processes; the old one begins in every other round."""
    workers = [side.worker(options.threads) for side in sides]
    turns = list(zip(sides, workers, ("old", "new"), strict=True))
    for row in rows:
        if row.kind == "run":
            for worker in workers:
                worker.ask(build=row.name)
            row.note = _note_on_results(sides)
        for side, worker, times in turns if number % 2 == 0 else reversed(turns):
            getattr(row, times).append(_seconds(row, side, worker, options.seconds))
    for worker in workers:
        worker.end()


def _seconds(row: Row, side: Side, worker: Worker, seconds: float) -> float:
    match row.kind:
        case "import":
            return side.import_seconds()
        case "run":
            return float(worker.ask(run=seconds))
    return float(worker.ask(**{row.kind: row.name}))


def rows_of(kinds: Sequence[str], only: str) -> list[Row]:
    """Return the rows that were asked for, without times."""
    import compare_worker as known

    names = [workload.name for workload in WORKLOADS if re.search(only, workload.name)]
    by_kind = {"run": names, "compile": (*names, known.CHAIN), "call": known.CALLS, "import": ("tileir after NumPy",)}
    return [Row(kind, name) for kind in kinds for name in by_kind[kind]]


def summary(rows: Sequence[Row]) -> str:
    """Return the geometric mean of the ratios of each kind, and its least."""
    lines = []
    for kind in KINDS:
        ratios = [row.ratio for row in rows if row.kind == kind]
        if ratios:
            mean, least = math.exp(statistics.fmean(map(math.log, ratios))), min(ratios)
            slower = [row.name for row in rows if row.kind == kind and row.verdict == "slower"]
            told = f"; slower: {', '.join(slower)}" if slower else ""
            lines.append(f"{kind}: geometric mean of old / new {mean:.3f}, least {least:.3f}{told}")
    return "\n".join(lines)


def _time(seconds: float) -> str:
    unit, factor = next(
        ((unit, factor) for unit, factor in (("s", 1.0), ("ms", 1e3)) if seconds * factor >= 1), ("us", 1e6)
    )
    return f"{seconds * factor:.3g} {unit}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="checkout or revision")
    parser.add_argument("new", help="checkout or revision")
    parser.add_argument("--threads", type=int, default=2, help="threads of both sides")
    parser.add_argument("--rounds", type=int, default=7, help="how often the sides take turns")
    parser.add_argument("--seconds", type=float, default=0.3, help="time of each side in each round")
    parser.add_argument("--only", default="", help="regular expression that chooses workloads")
    parser.add_argument("--what", default=",".join(KINDS), help="kinds of measurements, with commas between them")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    options = parser.parse_args()
    options.what = options.what.split(",")
    unknown = set(options.what) - set(KINDS)
    if unknown:
        parser.error(f"there is no kind {min(unknown)!r}; the kinds are {', '.join(KINDS)}")
    return options


def main() -> None:
    """Install both sides, measure, and print a table."""
    options = _arguments()
    rows = rows_of(options.what, options.only)
    with tempfile.TemporaryDirectory() as folder:
        homes = [Path(folder, side) for side in ("old", "new")]
        for home in homes:
            home.mkdir()
        with installed(options.old, homes[0]) as old, installed(options.new, homes[1]) as new:
            for number in range(options.rounds):
                measure_round((old, new), number, rows, options)
                print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    print("| | | old | new | old / new | bounds | |\n|---|---|---|---|---|---|---|", *rows, sep="\n")
    print(f"\n{summary(rows)}")
    if options.json:
        data: list[dict[str, Any]] = [attrs.asdict(row) for row in rows]
        options.json.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
