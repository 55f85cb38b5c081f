"""Networks beside onnxruntime and others, in one process and in turns: ``python benchmarks/networks.py --batch 1 8``.

For each network and batch: milliseconds of tileir (median, least), those of each peer and the ratio of medians (above 1
tileir is faster), at batch 1 the first call with an empty cache and with a filled one, each in a fresh process, the
greatest error of the results as a part of their greatest magnitude, and with ``--kernels`` where the time goes.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "plugins/tileir-onnx/tests"))

import numpy as np
import onnx

import light
import network_peers
from models import MODELS, Array, Network

_LONG = 0.1
"""Seconds from which on a call is measured once a turn, without one before it that fills caches."""

_FIRST = """
import sys, time
import numpy as np
import tileir_onnx
begin = time.perf_counter()
model = tileir_onnx.load(sys.argv[1])
feeds = dict(np.load(sys.argv[2]))
model.run(feeds)
print(time.perf_counter() - begin)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", metavar="REGEX", help="networks whose name has a match")
    parser.add_argument("--batch", type=int, nargs="+", default=[1], help="sizes of batches")
    parser.add_argument("--threads", type=int, default=2, help="threads of all, and the processors that they run on")
    parser.add_argument(
        "--peers", nargs="+", default=["onnxruntime"], choices=network_peers.PEERS, help="who else runs"
    )
    parser.add_argument("--seconds", type=float, default=3.0, help="how long calls of a network are measured")
    parser.add_argument("--no-first", action="store_true", help="measure no first calls")
    parser.add_argument("--kernels", type=int, default=0, metavar="N", help="list the N slowest kernels")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    print(f"{options.threads} threads, load {os.getloadavg()[0]:.1f} at the beginning; milliseconds, ratios of medians")
    peers = "".join(f"{peer:>19}" for peer in options.peers)
    print(f"{'network':16}{'batch':>6}{'tileir':>18}{peers}{'cold s':>8}{'disk s':>8}{'error':>8}")
    rows = []
    for name in (*light.NAMES, *MODELS):
        for batch in options.batch if re.search(options.only, name) else ():
            if batch == 1 or name in MODELS:  # reshapes of the light ones fix the batch
                rows.append(measured(name, batch, options))
                gc.collect()
    for peer in options.peers:
        logs = [np.log(row["ratios"][peer]) for row in rows if peer in row["ratios"]]
        if logs:
            least = min((row["ratios"][peer], row["network"]) for row in rows if peer in row["ratios"])
            mean = f"geometric mean of {len(logs)} ratios {np.exp(np.mean(logs)):.2f}"
            print(f"{peer}: {mean}, the least one {least[0]:.2f} ({least[1]})")
    for row in rows:
        for peer, why in row["missing"].items():
            print(f"{row['network']} on {peer}: {why}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


def network_of(name: str, batch: int) -> Network:
    """Return a network of the onnx wheel, or one of ours."""
    if name in MODELS:
        return MODELS[name](batch)
    model = light.with_weights(name, softmax=False)
    return Network(model, dict([light.image_of(model)]))


def measured(name: str, batch: int, options: argparse.Namespace) -> dict[str, Any]:
    """Measure a network, print its row, and return it."""
    network = network_of(name, batch)
    with tempfile.TemporaryDirectory() as folder:
        file, data = Path(folder) / f"{name}.onnx", Path(folder) / "x.npz"
        onnx.save(network.model, file)
        np.savez(data, **network.feeds)  # type: ignore[arg-type,unused-ignore]
        aged = time.time() - 60
        os.utime(file, (aged, aged))  # models are older than what calls them, and files of this moment not trusted
        cold, warm = float("nan"), float("nan")
        if batch == 1 and not options.no_first:
            cold, warm = (first_call(file, data, Path(folder) / "cache") for _ in range(2))
        makers = {"tileir": network_peers.tileir, **{peer: network_peers.PEERS[peer] for peer in options.peers}}
        calls: dict[str, network_peers.Run] = {}
        missing: dict[str, str] = {}
        for peer, make in makers.items():
            try:
                run = make(network, file, options.threads)
                run()
                calls[peer] = run
            except Exception as fault:  # a peer may have no such operator, or may not be there
                if peer == "tileir":
                    raise
                missing[peer] = str(fault).strip().partition("\n")[0]
        results = [[np.array(each) for each in run()] for run in calls.values()]
        error = network_peers.error_of(results[0], results[1], network.feeds) if len(results) > 1 else float("nan")
        times = dict(zip(calls, in_turns(list(calls.values()), options.seconds), strict=True))
        medians = {peer: float(np.median(found)) for peer, found in times.items()}
        row = {
            "network": name,
            "batch": batch,
            "times": times,
            "ratios": {peer: median / medians["tileir"] for peer, median in medians.items() if peer != "tileir"},
            "missing": missing,
            "cold": cold,
            "disk": warm,
            "error": error,
        }
        shown(row, options.peers)
        if options.kernels:
            slowest(file, network.feeds, options.kernels)
    return row


def first_call(file: Path, data: Path, cache: Path) -> float:
    """Return the seconds from reading a model to its first result, in a process of its own."""
    environment = {**os.environ, "TILEIR_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", _FIRST, str(file), str(data)]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(told.stdout)


def in_turns(calls: Sequence[network_peers.Run], seconds: float) -> list[list[float]]:
    """Return milliseconds of calls, a few of one, then of the next, so that noise meets all; three turns or more."""
    times: list[list[float]] = [[] for _ in calls]
    end, turns = time.perf_counter() + seconds, 0
    while turns < 3 or (time.perf_counter() < end and turns < 100):
        turns += 1
        for call, found in zip(calls, times, strict=True):
            time.sleep(0.002)  # threads of the one before may still wait for work
            short = not found or found[-1] < _LONG * 1e3
            if short:
                call()  # what the other ones left in caches is gone
            for _ in range(3 if short else 1):
                begin = time.perf_counter()
                call()
                found.append((time.perf_counter() - begin) * 1e3)
    return times


def shown(row: Mapping[str, Any], peers: Sequence[str]) -> None:
    """Print a row of the table."""
    own = row["times"]["tileir"]
    cells = [f"{row['network']:16}{row['batch']:>6}{f'{np.median(own):.2f}/{min(own):.2f}':>18}"]
    for peer in peers:
        found = row["times"].get(peer)
        cell = "-" if found is None else f"{np.median(found):.2f} ({row['ratios'][peer]:.2f})"
        cells.append(f"{cell:>19}")
    cells.append(f"{row['cold']:>8.2f}{row['disk']:>8.2f}{row['error']:>8.0e}")
    print("".join(cells), flush=True)


def slowest(file: Path, feeds: Mapping[str, Array], count: int) -> None:
    """Print the kernels that take longest."""
    import tileir
    import tileir_onnx

    function, arrays = tileir_onnx.load(file).prepared(feeds)
    if function is None:
        return
    try:
        found = tileir.explain(function, arrays, measure=True)
    except tileir.TileError as error:  # loops are measured as a whole only
        print(f"    {error}")
        return
    pairs = sorted(zip(found.measured, (each.name for each in found.kernels), strict=True), reverse=True)
    for seconds, kernel in pairs[:count]:
        print(f"    {seconds * 1e3:8.3f} ms  {kernel}")


if __name__ == "__main__":
    main()
