"""Programs on an NVIDIA card beside PyTorch on the same card: device time, caches flushed between runs; medians.

    python benchmarks/cards.py --json result.json --seconds 240
    python benchmarks/cards.py --check

Results are kept in the file after each workload, and workloads that are there already are left out, so that the whole
table can be measured in shards of a few minutes. PyTorch's time is the better of its own calls and, with
``--compiled``, of the kernels into which its compiler fuses them. Both sides are handed over while the card is kept
busy, so that no time of the host is seen, and are timed by events of the card. Programs that memory bounds are told
beside a copy, too, that moves as many bytes as they have to: inputs and results, each once. ``--check`` compares all
values at small sizes, without a card.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import math
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import card_workloads
import tileir
from card_workload import Workload, small
from tileir.typed.ir import TensorType

FLUSHED = 256 << 20
BUSY_CYCLES = 6_000_000
"""A few milliseconds, in which the host hands over what is to be timed."""

BAR = 0.9
"""The part of the speed of a copy that programs should reach which memory bounds."""


def compiled(workload: Workload, device: str | None) -> Any:
    """Return the executable of a workload."""
    builder = tileir.FunctionBuilder()
    names = [f"X{number}" for number in range(len(workload.shapes))]
    tensors = [
        builder.input(name, *(f"{name}D{axis}" for axis in range(len(shape))))
        for name, shape in zip(names, workload.shapes, strict=True)
    ]
    results = workload.program(*tensors)
    results = results if isinstance(results, tuple) else (results,)
    function = builder.build(**{f"R{number}": result for number, result in enumerate(results)})
    types = [TensorType(workload.dtype, shape) for shape in workload.shapes]
    profile = device is not None and not workload.is_loop
    context = tileir.Context(options=tileir.Options(fast_math=workload.fast_math, profile=profile))
    return tileir.compile(function, types, device=device, context=context)


def inputs_of(torch: Any, workload: Workload, place: str) -> list[Any]:
    """Return random tensors of PyTorch, small enough that sums stay in range."""
    generator = torch.Generator(device=place).manual_seed(0)
    names = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "f8e4m3fn": "float8_e4m3fn"}
    dtype = getattr(torch, names[workload.dtype.value])
    scale = 1.0 if workload.group in ("attention", "memory") or workload.dtype.is_storage else 0.1
    return [(torch.randn(shape, generator=generator, device=place) * scale).to(dtype) for shape in workload.shapes]


def listed(result: Any) -> list[Any]:
    """Return a result, or several, as a list."""
    return list(result) if isinstance(result, (tuple, list)) else [result]


def error_between(torch: Any, found: list[Any], expected: list[Any]) -> float:
    """Return the greatest ratio of the norm of a difference to that of what is expected."""
    worst = 0.0
    for mine, theirs in zip(found, expected, strict=True):
        wide = theirs.float()
        worst = max(worst, float((torch.as_tensor(mine).to(wide.device).float() - wide).norm() / wide.norm()))
    return worst


def device_time(torch: Any, call: Callable[[], Any], runs: int) -> float:
    """Return the median of the seconds that a card takes for a call, with nothing of its data in the caches.

    A call returns a pending one that tells its time by the card's own clock, or anything else, which is timed between
    two events of the stream.
    """
    swept = torch.empty(FLUSHED, dtype=torch.int8, device="cuda")
    times: list[float] = []
    for _ in range(runs + 2):
        swept.zero_()
        torch.cuda._sleep(BUSY_CYCLES)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        kept = call()
        end.record()
        end.synchronize()
        seconds = begin.elapsed_time(end) * 1e-3
        if isinstance(kept, tileir.PendingCall):
            kept.wait()
            seconds = math.nan if kept.duration is None else kept.duration
        times.append(seconds)
        del kept
    return statistics.median(times[2:])


@functools.cache
def copy_time(torch: Any, moved: int, runs: int) -> float:
    """Return the seconds of a copy that reads and writes so many bytes, of which one half is read."""
    source, target = (torch.zeros(max(moved // 2, 1), dtype=torch.int8, device="cuda") for _ in range(2))
    return device_time(torch, lambda: target.copy_(source), runs)


def graph_of(torch: Any, call: Callable[[], Any]) -> Callable[[], None]:
    """Return a graph of the card that has all launches of a call."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    replay: Callable[[], None] = graph.replay
    return replay


def measure(torch: Any, workload: Workload, runs: int, *, compiler: bool) -> dict[str, Any]:
    """Return the times of both sides in seconds, and the error of ours."""
    tensors = inputs_of(torch, workload, "cuda")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = workload.fast_math

    def peer(*arguments: Any) -> Any:
        return workload.peer(torch, *arguments)

    expected = listed(peer(*tensors))
    theirs = [device_time(torch, lambda: peer(*tensors), runs)]
    if compiler and workload.fused:
        torch._dynamo.reset()  # all peers have one code object, of which it compiles eight before it gives up
        fused = torch.compile(peer)
        fused(*tensors)
        theirs.append(device_time(torch, lambda: fused(*tensors), runs))
    if workload.is_loop:
        theirs.append(device_time(torch, graph_of(torch, lambda: peer(*tensors)), runs))
    row: dict[str, Any] = {"workload": workload.title, "group": workload.group, "torch": min(theirs)}
    begin = time.perf_counter()
    try:
        executable = compiled(workload, "cuda")
        row["compile"] = time.perf_counter() - begin
        found = [torch.from_dlpack(array) for array in listed(executable.submit(*tensors).pending_results)]
        torch.cuda.synchronize()
    except tileir.TileError as error:
        return row | {"failed": str(error).splitlines()[0]}
    row["error"] = error_between(torch, found, expected)
    row["moved"] = sum(tensor.nbytes for tensor in (*tensors, *found))
    del found, expected

    row["tileir"] = device_time(torch, lambda: (executable if workload.is_loop else executable.submit)(*tensors), runs)
    if workload.group == "memory":
        row["copy"] = copy_time(torch, row["moved"], runs)
    row["kernels"] = len(executable.sem.works)
    row["operations"] = workload.operations / row["tileir"]
    return row


def compile_all(titles: list[str], jobs: int) -> None:
    """Compile workloads in processes, so that the cache on disk has them when they are measured."""
    begin = time.monotonic()
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        faults = [fault for fault in pool.map(compile_one, titles) if fault]
    print(
        f"compiled {len(titles)} programs in {time.monotonic() - begin:.1f} s, {len(faults)} failed", *faults, sep="\n"
    )


def compile_one(title: str) -> str:
    """Compile the workload of that title, and return what went wrong."""
    try:
        compiled(next(one for one in card_workloads.workloads() if one.title == title), "cuda")
    except tileir.TileError as error:
        return f"{title}: {error}"
    return ""


def told(row: dict[str, Any]) -> str:
    """Return a line of the table."""
    if "failed" in row:
        return f"{row['workload']:<64} {row['torch'] * 1e6:9.1f} us  {row['failed'][:90]}"
    rate = f"{row['operations'] / 1e12:6.1f} TF" if row["operations"] else ""
    rate = f"{row['copy'] / row['tileir']:.2f} copy" if "copy" in row else rate
    return (
        f"{row['workload']:<64}{row['tileir'] * 1e6:9.1f} us{row['torch'] * 1e6:9.1f} us"
        f"{row['torch'] / row['tileir']:7.2f} {rate:>10} {row['kernels']:3} kernels  error {row['error']:.0e}"
    )


def summary(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the geometric mean of each group, and of all; then what share of a copy's speed programs have."""
    groups = {row["group"]: None for row in rows}
    for group in (*groups, None):
        ratios = [row["torch"] / row["tileir"] for row in rows if "tileir" in row and group in (None, row["group"])]
        failed = sum("failed" in row and group in (None, row["group"]) for row in rows)
        if ratios:
            mean = math.exp(statistics.fmean(map(math.log, ratios)))
            yield f"{group or 'all'}: {mean:.2f} of {len(ratios)}, least {min(ratios):.2f}, {failed} failed"
    shares = sorted((row["copy"] / row["tileir"], row["workload"]) for row in rows if "copy" in row)
    if shares:
        mean = math.exp(statistics.fmean(math.log(share) for share, _ in shares))
        slow = [f"{share:.2f} {title}" for share, title in shares if share < BAR]
        yield f"beside a copy: {mean:.2f} of {len(shares)}, {len(slow)} under {BAR}"
        yield from slow


def check(torch: Any, only: str) -> None:
    """Compare the values of all workloads at small sizes, on the default device."""
    for workload in card_workloads.workloads(small):
        if only not in workload.title:
            continue
        tensors = inputs_of(torch, workload, "cpu")
        expected = listed(workload.peer(torch, *(tensor.float() for tensor in tensors)))
        found = listed(compiled(workload, None)(*tensors))
        error = error_between(torch, [np.asarray(array, np.float32) for array in found], expected)
        print(f"{workload.title:<64} error {error:.0e}", flush=True)
        if not error < {"f32": 1e-4, "f16": 1e-2, "bf16": 8e-2, "f8e4m3fn": 1e-2}[workload.dtype.value]:
            raise SystemExit(f"{workload.title}: the values differ")


def main() -> None:
    """Measure what the file has not yet, and print all that it has."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path("cards.json"))
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no workload after these")
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--only", default="", help="part of the names of the workloads to run")
    parser.add_argument("--groups", nargs="*", help="such as products, convolutions, scatters, networks")
    parser.add_argument("--compiled", action="store_true", help="let PyTorch's compiler fuse, too")
    parser.add_argument("--jobs", type=int, default=0, help="compile all in so many processes first")
    parser.add_argument("--check", action="store_true", help="compare values at small sizes, without a card")
    options = parser.parse_args()
    torch = importlib.import_module("torch")
    torch.set_grad_enabled(False)
    if options.check:
        check(torch, options.only)
        return
    torch.backends.cudnn.benchmark = True
    begin = time.monotonic()
    rows = json.loads(options.json.read_text(encoding="utf-8")) if options.json.exists() else []
    done = {row["workload"] for row in rows}
    wanted = [
        workload
        for workload in card_workloads.workloads()
        if options.only in workload.title and (not options.groups or workload.group in options.groups)
        if workload.title not in done
    ]
    if options.jobs:
        compile_all([workload.title for workload in wanted], options.jobs)
    for workload in wanted:
        if time.monotonic() - begin > options.seconds:
            break
        rows.append(measure(torch, workload, options.runs, compiler=options.compiled))
        print(told(rows[-1]), flush=True)
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print(torch.cuda.get_device_name(), *summary(rows), sep="\n")


if __name__ == "__main__":
    main()
