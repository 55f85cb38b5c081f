"""Networks as ONNX models on an NVIDIA card beside PyTorch's compiler, whose launches are one graph of the card.

    python benchmarks/card_networks.py --only 'vit|bert' --batch 8 --dtype f32 f16 --jobs 12 --json result.json
    python benchmarks/card_networks.py --offline

PyTorch runs a twin of the network; its time is the better of its own calls and what ``torch.compile`` makes of them,
both replayed as graphs. Times are medians by the clock of the host, from one idle card to the next. Results are
compared with the twin in f32 (products without TF32). Models are compiled by ``--jobs`` processes at a time before
anything is measured; ``--offline`` does no more than that, for a card of compute capability 9.0 that need not be there.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from models import MODELS, Array, Network

NAMES = ("resnet_50", "mobilenet_v3", "vit_b", "convnext_t", "bert_base", "gpt2")
OFFLINE = "cuda.sm_90a"


def network_of(name: str, batch: int, dtype: str) -> Network:
    """Return a network in f32, or with weights and inputs of f16."""
    network = MODELS[name](batch)
    if dtype == "f32":
        return network
    graph = network.model.graph
    for weight in graph.initializer:
        if weight.data_type == TensorProto.FLOAT:
            narrow = np.clip(numpy_helper.to_array(weight), -6e4, 6e4).astype(np.float16)
            weight.CopyFrom(numpy_helper.from_array(narrow, weight.name))
    for port in (*graph.input, *graph.output):
        if port.type.tensor_type.elem_type == TensorProto.FLOAT:
            port.type.tensor_type.elem_type = TensorProto.FLOAT16
    feeds = {name: x.astype(np.float16) if x.dtype == np.float32 else x for name, x in network.feeds.items()}
    return Network(network.model, feeds)


def executable_of(network: Network, device: str) -> Any:
    """Return what tileir makes of a network."""
    import tileir
    import tileir_onnx

    function, arrays = tileir_onnx.load(network.model.SerializeToString()).prepared(network.feeds)
    assert function is not None
    assert list(arrays) == list(network.feeds)
    return tileir.compile(function, list(arrays.values()), device=device)


def compiled_peer(torch: Any, network: Network) -> Any:
    """Return what PyTorch makes of a network's twin."""
    torch._dynamo.reset()
    return torch.compile(twin_of(torch, network))


def twin_of(torch: Any, network: Network) -> Any:
    """Return a module on the card."""
    from torch_twin import twin

    half = any(each.data_type == TensorProto.FLOAT16 for each in network.model.graph.initializer)
    return twin(network.model, torch.float16 if half else torch.float32).cuda()


def seconds_of(torch: Any, call: Callable[[], Any], runs: int = 30) -> float:
    """Return the median of the seconds from an idle card to the next time that it is idle."""
    for _ in range(3):
        call()
    times = []
    for _ in range(runs):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def graph_of(torch: Any, call: Callable[[], Any]) -> Callable[[], None]:
    """Return a graph of the card that has all launches of a call."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    replay: Callable[[], None] = graph.replay
    return replay


def error_of(found: Sequence[Array], wanted: Sequence[Array]) -> float:
    """Return the greatest ratio of the norm of a difference to that of what is wanted."""
    pairs = [(np.asarray(x, np.float64), np.asarray(y, np.float64)) for x, y in zip(found, wanted, strict=True)]
    return max(float(np.linalg.norm(x - y) / np.linalg.norm(y)) for x, y in pairs)


def measured(torch: Any, name: str, batch: int, dtype: str, *, compiler: bool) -> dict[str, Any]:
    """Return milliseconds of both sides, and the errors of ours and of the peer in this dtype."""
    row: dict[str, Any] = {"network": name, "batch": batch, "dtype": dtype}
    network = network_of(name, batch, dtype)
    inputs = [torch.from_numpy(each).cuda() for each in network.feeds.values()]
    own = twin_of(torch, network)
    wide = own.float()(*(each.float() if each.is_floating_point() else each for each in inputs))
    exact = [each.cpu().numpy() for each in wide]
    own = own.half() if dtype == "f16" else own
    row["peer_error"] = error_of([each.float().cpu().numpy() for each in own(*inputs)], exact)
    begin = time.perf_counter()
    executable = executable_of(network, "cuda")
    found = executable(*inputs)
    row["first"] = time.perf_counter() - begin
    listed = list(found) if isinstance(found, (tuple, list)) else [found]
    row["error"] = error_of([torch.from_dlpack(each).float().cpu().numpy() for each in listed], exact)
    row["kernels"] = len(executable.sem.works)
    row["tileir"] = seconds_of(torch, lambda: executable(*inputs)) * 1e3
    row["eager"] = seconds_of(torch, graph_of(torch, lambda: own(*inputs))) * 1e3
    if compiler:
        fused = compiled_peer(torch, network)
        fused(*inputs)
        row["compiled"] = seconds_of(torch, graph_of(torch, lambda: fused(*inputs))) * 1e3
    row["ratio"] = min(row["eager"], row.get("compiled", row["eager"])) / row["tileir"]
    return row


def prepared(rows: Sequence[tuple[str, int, str]], jobs: int, words: Sequence[str]) -> None:
    """Compile in processes, some at a time, so that caches on disk have all of it."""
    waiting, begin = list(rows), time.monotonic()
    running: list[subprocess.Popen[bytes]] = []
    while waiting or running:
        running = [each for each in running if each.poll() is None]
        while waiting and len(running) < jobs:
            name, batch, dtype = waiting.pop(0)
            command = [sys.executable, __file__, "--prepare", "--only", f"^{name}$", "--batch", str(batch), "--dtype"]
            running.append(subprocess.Popen([*command, dtype, *words]))
        time.sleep(0.05)
    print(f"compiled in {time.monotonic() - begin:.1f} s", flush=True)


def prepare(torch: Any, name: str, batch: int, dtype: str, device: str, *, compiler: bool) -> None:
    """Compile one network on either side."""
    network, begin = network_of(name, batch, dtype), time.perf_counter()
    executable = executable_of(network, device)
    end = time.perf_counter()
    if compiler:
        compiled_peer(torch, network)(*(torch.from_numpy(each).cuda() for each in network.feeds.values()))
    beside = f", PyTorch in {time.perf_counter() - end:.1f} s" if compiler else ""
    told = f"{len(executable.sem.works)} kernels in {end - begin:.1f} s{beside}"
    print(f"{name} {batch} {dtype}: {told}", flush=True)


def main() -> None:
    """Compile networks, and measure them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="REGEX", help="networks whose name has a match")
    parser.add_argument("--batch", type=int, nargs="+", default=[8])
    parser.add_argument("--dtype", nargs="+", default=["f32"], choices=["f32", "f16"])
    parser.add_argument("--seconds", type=float, default=float("inf"), help="measure no further network after these")
    parser.add_argument("--jobs", type=int, default=4, help="processes that compile")
    parser.add_argument("--no-compiler", action="store_true", help="measure PyTorch's own calls only")
    parser.add_argument("--offline", action="store_true", help="compile only, without a card")
    parser.add_argument("--prepare", action="store_true", help="compile in this process, and measure nothing")
    parser.add_argument("--json", type=Path, default=Path(tempfile.gettempdir()) / "card_networks.json")
    options = parser.parse_args()
    import torch

    torch.set_grad_enabled(False)
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    compiler = not (options.no_compiler or options.offline)
    names = [name for name in NAMES if re.search(options.only, name)]
    chosen = [(name, batch, dtype) for dtype in options.dtype for batch in options.batch for name in names]
    if options.offline or options.prepare:
        for each in chosen:
            prepare(torch, *each, OFFLINE if options.offline else "cuda", compiler=compiler)
        return
    begin, rows = time.monotonic(), []
    prepared(chosen, options.jobs, [] if compiler else ["--no-compiler"])
    for each in chosen:
        if time.monotonic() - begin > options.seconds:
            break
        try:
            row = measured(torch, *each, compiler=compiler)
        except Exception as error:  # the others are still of interest
            print(*each, type(error).__name__, str(error)[:300], flush=True)
            continue
        rows.append(row)
        times = "".join(f"{word} {row[word]:8.3f} ms  " for word in ("tileir", "eager", "compiled") if word in row)
        errors = f"errors {row['error']:.0e} {row['peer_error']:.0e}"
        head = f"{row['network']:14}{row['batch']:3} {row['dtype']}"
        print(f"{head} {times}{row['ratio']:.2f}  {row['kernels']} kernels  {errors}", flush=True)
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    if rows:
        mean = statistics.geometric_mean(row["ratio"] for row in rows)
        print(f"{torch.cuda.get_device_name()}: geometric mean {mean:.2f} of {len(rows)}")


if __name__ == "__main__":
    main()
