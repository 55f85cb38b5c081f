"""Networks beside onnxruntime, in one process and in turns: ``python benchmarks/networks.py --only bert --batch 1 8``.

For each network and batch: milliseconds of both (median, least), their ratios (above 1 tileir is faster), the first
call with an empty cache and with a filled one, each in a fresh process, the greatest error of the result as a part of
its greatest magnitude, and with ``--kernels`` where the time goes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "plugins/tileir-onnx/tests"))

import numpy as np
import onnx

import light
import models

_WIDTHS = (16, 16, 12, 8, 8, 9)
_FIRST = """
import sys, time
import numpy as np
import tileir_onnx
begin = time.perf_counter()
model = tileir_onnx.load(sys.argv[1])
array = np.load(sys.argv[2])
model(array)
print(time.perf_counter() - begin)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", metavar="REGEX", help="networks whose name has a match")
    parser.add_argument("--batch", type=int, nargs="+", default=[1], help="sizes of batches")
    parser.add_argument("--threads", type=int, default=2, help="threads of both")
    parser.add_argument("--turns", type=int, default=15, help="turns, each of some calls")
    parser.add_argument("--kernels", type=int, default=0, metavar="N", help="list the N slowest kernels")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    options = parser.parse_args()
    os.environ["TILEIR_THREADS"] = str(options.threads)
    told, rows = f"{os.getloadavg()[0]:.1f}", []
    print(f"{options.threads} threads, load {told} at the beginning; milliseconds, median/least")
    heads = ("tileir", "onnxruntime", "ratio", "cold s", "disk s", "error")
    print(
        f"{'network':16}{'batch':>6}" + "".join(f"{head:>{width}}" for head, width in zip(heads, _WIDTHS, strict=True))
    )
    for name in (*light.NAMES, *models.MODELS):
        if not re.search(options.only, name):
            continue
        for batch in options.batch:
            if batch != 1 and name in light.NAMES:
                continue  # their reshapes fix the batch
            rows.append(measured(name, batch, options))
    if rows:
        medians = np.exp(np.mean([np.log(row["ratio"]) for row in rows]))
        print(f"geometric mean of the ratios of medians: {medians:.2f}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


def measured(name: str, batch: int, options: argparse.Namespace) -> dict[str, Any]:
    """Measure a network, print its row, and return it."""
    import onnxruntime  # type: ignore[import-untyped,unused-ignore]

    import tileir_onnx

    model = light.with_weights(name, softmax=False) if name in light.NAMES else models.MODELS[name](batch)
    port, array = light.image_of(model) if name in light.NAMES else ("x", models.input_of(model))
    with tempfile.TemporaryDirectory() as folder:
        file, data = Path(folder) / f"{name}.onnx", Path(folder) / "x.npy"
        onnx.save(model, file)
        np.save(data, array)
        del model
        cold, warm = (first_call(file, data, Path(folder) / "cache") for _ in range(2))
        own = tileir_onnx.load(file)
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads, settings.log_severity_level = options.threads, 3
        settings.add_session_config_entry("session.intra_op.allow_spinning", "0")  # else its threads take the cores
        peer = onnxruntime.InferenceSession(file, settings, providers=["CPUExecutionProvider"])
        result, (wanted,) = own(array), peer.run(None, {port: array})
        times = in_turns([lambda: own(array), lambda: peer.run(None, {port: array})], options.turns)
        row = {
            "network": name,
            "batch": batch,
            "tileir": times[0],
            "onnxruntime": times[1],
            "ratio": float(np.median(times[1]) / np.median(times[0])),
            "least": min(times[1]) / min(times[0]),
            "cold": cold,
            "disk": warm,
            "error": float(np.abs(result - wanted).max() / np.abs(wanted).max()),
        }
        shown(row)
        if options.kernels:
            slowest(own, array, port, options.kernels)
    return row


def first_call(file: Path, data: Path, cache: Path) -> float:
    """Return the seconds from reading a model to its first result, in a process of its own."""
    environment = {**os.environ, "TILEIR_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", _FIRST, str(file), str(data)]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(told.stdout)


def in_turns(calls: list[Any], turns: int) -> list[list[float]]:
    """Return milliseconds of calls, a few of one and then of the other, so that noise meets both."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(turns):
        for call, found in zip(calls, times, strict=True):
            call()  # what the other one left in caches is gone
            for _ in range(3):
                begin = time.perf_counter()
                call()
                found.append((time.perf_counter() - begin) * 1e3)
    return times


def shown(row: dict[str, Any]) -> None:
    """Print a row of the table."""
    own, peer = (f"{np.median(row[name]):.2f}/{min(row[name]):.2f}" for name in ("tileir", "onnxruntime"))
    ratio = f"{row['ratio']:.2f}, {row['least']:.2f}"
    rest = f"{ratio:>12}{row['cold']:>8.2f}{row['disk']:>8.2f}{row['error']:>9.0e}"
    print(f"{row['network']:16}{row['batch']:>6}{own:>16}{peer:>16}{rest}", flush=True)


def slowest(model: Any, array: Any, port: str, count: int) -> None:
    """Print the kernels that take longest."""
    import tileir

    function, arrays = model.prepared({port: array})
    try:
        found = tileir.explain(function, arrays, device=model.device, measure=True)
    except tileir.TileError as error:  # loops are measured as a whole only
        print(f"    {error}")
        return
    pairs = sorted(zip(found.measured, (each.name for each in found.kernels), strict=True), reverse=True)
    for seconds, kernel in pairs[:count]:
        print(f"    {seconds * 1e3:8.3f} ms  {kernel}")


if __name__ == "__main__":
    main()
