"""Gradients by Tile's ``vjp`` beside PyTorch's own backward pass, in turns, on the same inputs; and a training step.

    python benchmarks/backward.py --torch PYTHON [--threads 2] [--rounds 5] [--only REGEX] [--json FILE]

PYTHON is an interpreter that has PyTorch and NumPy. What tileir computes is the whole gradient from the inputs; PyTorch
keeps what its forward pass computed, and its backward pass alone is timed. In the rows that say "both", both sides
compute the value as well as its gradients; of the training step, both do all. What is computed is compared.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from backward_texts import WORKLOADS
from workers import Worker

WORKER = Path(__file__).with_name("backward_worker.py")
SIDES = ("tileir", "torch")


def difference(folder: Path) -> float:
    """Return how far the gradients of both sides are apart, relative to the greatest element of each."""
    ours, theirs = (np.load(folder / f"{side}.npz") for side in SIDES)
    pairs = [(ours[name], theirs[name]) for name in theirs.files]
    return max(float(np.abs(a - b.reshape(a.shape)).max() / np.abs(b).max()) for a, b in pairs)


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Run all workloads, the sides in turns, and print a row for each."""
    rows = []
    print("| gradient | tileir | PyTorch | PyTorch / tileir | difference | compile |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        pythons = (sys.executable, options.torch)
        workers = [
            Worker.start([python, str(WORKER), side, str(options.threads), folder], options.threads)
            for python, side in zip(pythons, SIDES, strict=True)
        ]
        for name in (*(workload.name for workload in WORKLOADS), "training step"):
            if not re.search(options.only, name):
                continue
            cold, _ = (worker.ask(build=name) for worker in workers)
            apart = difference(Path(folder))
            times: list[list[float]] = [[], []]
            for _ in range(options.rounds):
                for worker, found in zip(workers, times, strict=True):
                    found.extend(worker.ask(time=0.3))
            ours, theirs = map(statistics.median, times)
            row = {"name": name, "tileir": ours, "torch": theirs, "difference": apart, "compile": cold}
            rows.append(row)
            print(
                f"| {name} | {ours * 1e3:.3f} ms | {theirs * 1e3:.3f} ms | {theirs / ours:.2f} | {apart:.1e} |"
                f" {cold:.2f} s |",
                flush=True,
            )
        for worker in workers:
            worker.end()
    return rows


def main() -> None:
    """Measure, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", required=True, metavar="PYTHON", help="an interpreter that has PyTorch")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    rows = measure(options)
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
