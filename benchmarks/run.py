"""The benchmark: every workload on tileir and its peers, in the same run, interleaved; medians.

    python benchmarks/run.py --threads 2 --plaidml /path/to/python-with-plaidml --json result.json

Without ``--plaidml`` the PlaidML column stays empty.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from workers import timed


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2, help="threads of every peer")
    parser.add_argument("--only", default="", help="regular expression that chooses workloads")
    parser.add_argument("--plaidml", default=os.environ.get("TILEIR_BENCH_PLAIDML"), help="interpreter with PlaidML")
    parser.add_argument("--seconds", type=float, default=1.0, help="time of each peer in each round")
    parser.add_argument("--rounds", type=int, default=3, help="how often the peers take turns")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--no-compile", action="store_true", help="skip the figures of compiling and launching")
    return parser.parse_args()


def _plaidml(python: str, text: str, inputs: dict[str, Any], expected: Any, seconds: float) -> dict[str, Any]:
    import numpy as np

    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder, "inputs.npz"), **inputs)
        np.save(Path(folder, "output.npy"), expected)
        script = Path(__file__).with_name("plaidml_peer.py")
        command = [python, str(script), f"{folder}/inputs.npz", f"{folder}/output.npy", str(seconds)]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1:]}
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def measure(options: argparse.Namespace, peaks: dict[str, float]) -> list[dict[str, Any]]:
    """Return one row of figures for each workload."""
    import numpy as np

    import tileir
    from suite import WORKLOADS

    rows = []
    for workload in WORKLOADS:
        if not re.search(options.only, workload.name):
            continue
        inputs = workload.inputs()
        out = np.zeros(workload.shape, workload.dtype)
        expected = np.zeros(workload.shape, workload.dtype)
        call = tileir.jit(workload.text)
        call(**inputs, out=out)
        workload.numpy(inputs, expected)
        error = float(np.abs(out.astype(np.float64) - expected).max() / np.abs(expected).max())
        ours: list[float] = []
        numpy: list[float] = []
        for _ in range(options.rounds):
            ours += timed(lambda: call(**inputs, out=out), options.seconds)  # noqa: B023
            numpy += timed(lambda: workload.numpy(inputs, expected), options.seconds)  # noqa: B023
        row: dict[str, Any] = {
            "workload": workload.name,
            "tileir": statistics.median(ours),
            "numpy": statistics.median(numpy),
            "error": error,
            "correct": error <= workload.tolerance,
        }
        if options.plaidml:
            peer = _plaidml(options.plaidml, workload.text, inputs, expected, options.seconds * options.rounds)
            row["plaidml"] = statistics.median(peer["times"]) if "times" in peer else None
            row["plaidml_note"] = peer.get("failed") or f"error {peer['error']:.1e}"
        amount = workload.nbytes if workload.bound == "memory" else workload.operations
        row["rate"] = amount / row["tileir"]
        row["peak_share"] = row["rate"] / peaks.get(workload.bound, float("nan"))
        row["bound"] = workload.bound
        rows.append(row)
        _print_row(row)
    return rows


def _print_row(row: dict[str, Any]) -> None:
    unit = "GB/s" if row["bound"] == "memory" else "Gop/s" if row["bound"] == "i32" else "GFLOP/s"
    plaidml = row.get("plaidml")
    print(
        f"{row['workload']:<34}{row['tileir'] * 1e3:10.3f}{row['numpy'] * 1e3:10.3f}"
        f"{plaidml * 1e3 if plaidml else float('nan'):10.3f}{row['numpy'] / row['tileir']:9.2f}"
        f"{plaidml / row['tileir'] if plaidml else float('nan'):9.2f}"
        f"{row['rate'] / 1e9:10.1f} {unit:<8}{row['peak_share'] * 100:5.0f}%"
        f"  {'' if row['correct'] else 'WRONG'}",
        flush=True,
    )


def compiling() -> dict[str, float]:
    """Return the figures of compiling and launching, and print them."""
    import compiling as measured

    small, large = measured.scaling(5_000)
    numpy, after = measured.import_cost()
    single, split = measured.launch_cost()
    figures = {
        "text to semtree, 5000 statements, s": small,
        "text to semtree, 10000 statements, s": large,
        "cost of doubling the program": large / small,
        "import numpy, ms": numpy * 1e3,
        "import tileir after numpy, ms": after * 1e3,
        "first call of a matmul 512, ms": measured.first_call() * 1e3,
        "launch of an empty kernel, 1 thread, us": single * 1e6,
        "launch of an empty kernel, 2 threads, us": split * 1e6,
        "call on 64 elements, us": measured.small_call() * 1e6,
    }
    for name, value in figures.items():
        print(f"{name:<44}{value:10.3f}")
    return figures


def main() -> None:
    """Measure and print; write JSON where asked."""
    options = _arguments()
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(options.threads)  # before NumPy is imported
    available = sorted(os.sched_getaffinity(0))[: options.threads]
    os.sched_setaffinity(0, available)
    sys.path.insert(0, str(Path(__file__).parent))
    import peaks

    limits = {"f32": peaks.fma_rate(len(available)), "memory": peaks.stream_rate()}
    print(f"{len(available)} threads; measured peaks: {limits['f32'] / 1e9:.0f} GFLOP/s f32 multiply-add,"
          f" {limits['memory'] / 1e9:.1f} GB/s triad")  # fmt: skip
    heading = f"{'workload':<34}{'ours ms':>10}{'numpy':>10}{'plaidml':>10}{'x numpy':>9}{'x plaid':>9}"
    print(f"{heading}{'rate':>10} {'':<8}{'peak':>6}")
    rows = measure(options, limits)
    figures = {} if options.no_compile else compiling()
    if options.json:
        data = {"threads": len(available), "peaks": limits, "workloads": rows, "compiling": figures}
        options.json.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
