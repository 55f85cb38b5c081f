"""NVIDIA cards of one host, between which NCCL is: beside one of them, and beside PyTorch on as many.

python cards_of_a_host.py --ranks 2 --json result.json
python cards_of_a_host.py --check

Each rank is a process with a card. A program on all cards is compared with the whole program on one, which every rank
runs at that time on its own card, and with PyTorch's way to do the work on all. Seconds are those of the slowest rank,
for a call among many that are handed over one after the other; of several rounds in turns the least. ``--check`` runs
all programs at small sizes on threads of the host, and compares with NumPy.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np

import tileir
from tileir import ops
from tileir.core import Aggregation
from tileir.runtime.transports import Merge
from tileir.tile.builder_functions import gradient

Cuts = Mapping[str, tuple[str | None, ...]]

PRODUCT = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"
DRAWN = (
    "function (R[M]) -> (A) { A = sin(R); }",
    "function (R[M], C[N]) -> (A) { P[i, j : M, N] = +(R[i] * C[j]); A = sin(P); }",
    "function (R[M], C[N], D[K]) -> (A) {"
    " Q[i, j : M, N] = +(R[i] * C[j]); P[i, j, k : M, N, K] = +(Q[i, j] * D[k]); A = sin(P); }",
)
"""Elements that look drawn at random, by the number of axes."""

JACOBI = """
function (U[H, W]) -> (V) {
  Along[y, x : H, W] = +(U[y + 2 * i - 1, x]), i < 2;
  Across[y, x : H, W] = +(U[y, x + 2 * i - 1]), i < 2;
  V = U + 0.2 * (Along + Across - 4 * U);
}
"""
HEAT = """
function (U[D, H, W]) -> (V) {
  Over[z, y, x : D, H, W] = +(U[z + 2 * i - 1, y, x]), i < 2;
  Along[z, y, x : D, H, W] = +(U[z, y + 2 * i - 1, x]), i < 2;
  Across[z, y, x : D, H, W] = +(U[z, y, x + 2 * i - 1]), i < 2;
  V = U + 0.1 * (Over + Along + Across - 6 * U);
}
"""
MLP = """
function (X[T, W], U[W, I], D[I, W]) -> (Y) {
  H[t, i : T, I] = +(X[t, w] * U[w, i]);
  G = H / (1 + exp(-H));
  Y[t, w : T, W] = +(G[t, i] * D[i, w]);
}
"""
RATE = 1e-3
TOGETHER = 20
"""Sums that are recorded as one graph."""

OPTIONS = tileir.Options(fast_math=True)
"""Those of all programs: recorded are calls on arrays that were made with the same ones."""


@attrs.frozen
class Job:
    """A program, how it is cut, and what it does.

    Attributes:
        name: For the table.
        program: Text, or what makes a function.
        shapes: Of the inputs by name.
        cuts: Of inputs that are cut.
        outputs: Of results.
        dtype: Of the inputs.
        updates: Of the state of a stepper; without any it is called with arrays that stay.
        work: Operations of the whole program in a call; 0 where bytes bound it.
        steps: Steps of time in a call, of which seconds are told for one.
        peer: Makes PyTorch's call for shapes on a rank, given torch and how many ranks there are.

    """

    name: str
    program: str | Callable[[], Any]
    shapes: Mapping[str, tuple[int, ...]]
    cuts: Cuts
    outputs: Cuts
    dtype: tileir.DType = tileir.DType.F32
    updates: Mapping[str, str] = attrs.field(factory=dict)
    work: float = 0.0
    steps: int = 1
    peer: Callable[[Any, Mapping[str, tuple[int, ...]], int], Callable[[], Any]] | None = None


def layer() -> tileir.Function:
    """Return a step of training of a layer of a transformer: weights, and what they are next."""
    f = tileir.FunctionBuilder()
    x = f.input("X", "B", "T", "Width")
    axes: dict[str, tuple[str, ...]] = dict.fromkeys(("Query", "Key", "Value"), ("Width", "Heads", "Head"))
    axes |= {"Out": ("Heads", "Head", "Width"), "Up": ("Width", "Inner"), "Down": ("Inner", "Width")}
    weights = {name: f.input(name, *each) for name, each in axes.items()}
    normed = ops.rms_norm(x)
    heads = [ops.einsum("btw,whd->bhtd", normed, weights[name]) for name in ("Query", "Key", "Value")]
    y = x + ops.einsum("bhtd,hdw->btw", ops.scaled_dot_product_attention(*heads, causal=True), weights["Out"])
    y = y + ops.matmul(ops.silu(ops.matmul(ops.rms_norm(y), weights["Up"])), weights["Down"])
    loss = ops.mean(y * y)
    slopes = gradient(loss, *weights.values())
    return f.build(**{f"New{name}": weights[name] - RATE * slope for name, slope in zip(weights, slopes, strict=True)})


def parallel_mlp(torch: Any, shapes: Mapping[str, tuple[int, ...]], ranks: int) -> Callable[[], Any]:
    """Return an MLP of PyTorch whose inner width is shared out by its tensor parallelism."""
    parallel = importlib.import_module("torch.distributed.tensor.parallel")
    mesh = importlib.import_module("torch.distributed.device_mesh").init_device_mesh("cuda", (ranks,))
    (width, inner), kind = shapes["U"], {"device": "cuda", "dtype": torch.bfloat16}
    up, down = torch.nn.Linear(width, inner, False, **kind), torch.nn.Linear(inner, width, False, **kind)
    model = torch.nn.Sequential(up, torch.nn.SiLU(), down)
    plan = {"0": parallel.ColwiseParallel(), "2": parallel.RowwiseParallel()}
    model = parallel.parallelize_module(model, mesh, plan)
    x = torch.randn(shapes["X"], **kind)

    def call() -> Any:
        with torch.no_grad():
            return model(x)

    return call


def data_parallel_layer(torch: Any, shapes: Mapping[str, tuple[int, ...]], ranks: int) -> Callable[[], Any]:
    """Return a step of training of PyTorch's own for the layer, by DistributedDataParallel where there are several."""
    batch, time_, width = shapes["X"]
    heads, kind = shapes["Query"][1], {"device": "cuda", "dtype": torch.bfloat16}

    class Layer(torch.nn.Module):  # type: ignore[misc]  # nothing is known of torch here
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.out = (torch.nn.Linear(width, n * width, False, **kind) for n in (3, 1))
            self.up = torch.nn.Linear(width, shapes["Up"][1], False, **kind)
            self.down = torch.nn.Linear(shapes["Up"][1], width, False, **kind)

        def forward(self, x: Any) -> Any:
            f = torch.nn.functional
            q, k, v = self.qkv(f.rms_norm(x, (width,))).view(*x.shape[:2], 3, heads, -1).permute(2, 0, 3, 1, 4)
            y = x + self.out(f.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
            return y + self.down(f.silu(self.up(f.rms_norm(y, (width,)))))

    model: Any = Layer()
    if ranks > 1:
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[torch.cuda.current_device()])
    model = torch.compile(model)
    x = torch.randn(batch // ranks, time_, width, **kind)
    updated = torch.optim.SGD(model.parameters(), lr=RATE, fused=True)

    def call() -> None:
        updated.zero_grad(set_to_none=True)
        model(x).square().mean().backward()
        updated.step()

    return call


def product(size: int, name: str, cuts: Cuts, outputs: Cuts) -> Job:
    """Return a product of square matrices."""
    shapes = {"A": (size, size), "B": (size, size)}
    return Job(f"{name} {size}", PRODUCT, shapes, cuts, outputs, tileir.DType.BF16, work=2.0 * size**3)


def stencil(name: str, text: str, shape: tuple[int, ...], steps: int) -> Job:
    """Return a stencil in time; ranks exchange halos once in a call, which are as deep as it has steps."""
    cut = ("x", *[None] * (len(shape) - 1))
    together = "" if steps == 1 else f", {steps} steps a call"

    def program() -> Any:
        return tileir.distributed.repeated(text, {"U": "V"}, steps, arguments=[("f32", shape)])

    return Job(
        f"{name} {shape[0]}{together}", program, {"U": shape}, {"U": cut}, {"V": cut}, updates={"U": "V"}, steps=steps
    )


def jobs(scale: int) -> list[Job]:
    """Return all programs, with sizes divided by a scale."""
    rows, columns, whole, bf16 = ("x", None), (None, "x"), (None, None), tileir.DType.BF16
    texts, width, inner = 8192 // scale, 8192 // scale, 28672 // scale
    heads = dict.fromkeys(("Query", "Key", "Value"), (2048 // scale, 16, 128 // scale))
    weights: dict[str, tuple[int, ...]] = {**heads, "Out": (16, 128 // scale, 2048 // scale)}
    weights |= {"Up": (2048 // scale, 8192 // scale), "Down": (8192 // scale, 2048 // scale)}
    stays = {name: (None,) * len(shape) for name, shape in weights.items()}
    layer_work = 3 * 16 * 1024 * (2.0 * (4 * 2048**2 + 2 * 2048 * 8192) + 2 * 1024 * 2048)
    mlp = {"X": (texts, width), "U": (width, inner), "D": (inner, width)}
    plates = [(16384 // scale, 16384 // scale), (4096 // scale, 4096 // scale)]
    cube = (1024 // scale, 1024 // scale, 1024 // scale)
    return [
        *(product(n // scale, "product, rows", {"A": rows, "B": whole}, {"C": rows}) for n in (8192, 16384)),
        product(8192 // scale, "SUMMA", {"A": columns, "B": rows}, {"C": columns}),
        Job(
            f"MLP, inner width {inner}",
            MLP,
            mlp,
            {"X": whole, "U": columns, "D": rows},
            {"Y": whole},
            bf16,
            work=4.0 * texts * width * inner,
            peer=parallel_mlp,
        ),
        *(stencil("Jacobi", JACOBI, plates[0], steps) for steps in (1, 8)),
        *(stencil("Jacobi", JACOBI, plates[1], steps) for steps in (1, 8, 16)),
        *(stencil("heat", HEAT, cube, steps) for steps in (1, 8)),
        Job(
            "layer, batches",
            layer,
            {"X": (16, 1024 // scale, 2048 // scale), **weights},
            {"X": (*rows, None), **stays},
            {f"New{name}": cut for name, cut in stays.items()},
            bf16,
            {name: f"New{name}" for name in weights},
            layer_work,
            peer=data_parallel_layer,
        ),
    ]


def distributed(
    job: Job, mesh: dict[str, int], engine: Any, target: tileir.Target | None = None
) -> tuple[Callable[[], Any], Callable[[], dict[str, Any]]]:
    """Return a call of a program on ranks, on arrays that are there, and its results so far, by name."""
    source = job.program if isinstance(job.program, str) else job.program()
    program = tileir.partition(
        source,
        mesh,
        job.cuts,
        outputs=job.outputs,
        arguments={name: (job.dtype, shape) for name, shape in job.shapes.items()},
        target=target,
    )
    run = tileir.distribute(program, engine, options=OPTIONS)
    given = {name: drawn(shape, job, name, mesh, engine) for name, shape in job.shapes.items()}
    if job.updates:
        state = {name: given[name] for name in job.updates}
        step = run.stepper(job.updates, state)
        rest = {name: array for name, array in given.items() if name not in state}
        return lambda: step(**rest), lambda: {job.updates[name]: array for name, array in step.state.items()}
    found: list[Any] = [None]

    def call() -> None:
        found[0] = run(**given)

    return call, lambda: {next(iter(job.outputs)): found[0]}


def drawn(shape: tuple[int, ...], job: Job, name: str, mesh: dict[str, int], engine: Any) -> Any:
    """Return an array whose elements each rank makes on its card."""
    random = np.random.default_rng(list(name.encode()))
    seeds = [(9 * random.standard_normal(size)).astype(job.dtype.numpy) for size in shape]
    scaled = DRAWN[len(shape) - 1].replace("sin(", f"{0.1 if len(shape) > 1 else 1.0} * sin(")
    cut = {"A": job.cuts[name]}
    program = tileir.partition(scaled, mesh, outputs=cut, arguments=seeds)
    given = {value.name: seed for value, seed in zip(program.function.inputs, seeds, strict=True)}
    return tileir.distribute(program, engine, options=OPTIONS).results(given)["A"]


def seconds(torch: Any, call: Callable[[], Any], budget: float) -> float:
    """Return the seconds of a call of the slowest rank, of many in a row."""

    def timed(count: int) -> float:
        torch.distributed.barrier()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(count):
            call()
        torch.cuda.synchronize()
        took = torch.tensor([(time.perf_counter() - begin) / count], device="cuda")
        torch.distributed.all_reduce(took, torch.distributed.ReduceOp.MAX)
        return float(took)

    count = max(3, min(500, int(budget / timed(3))))
    return timed(count)


def measured(torch: Any, job: Job, engines: tuple[Any, Any], ranks: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return the seconds of a program on all cards and on one, and those of PyTorch."""
    begin = time.perf_counter()
    target = tileir.default_context().device(f"cuda.{torch.cuda.current_device()}").target
    shared, results = distributed(job, {"x": ranks}, engines[0], target)
    alone, expected = distributed(job, {"x": 1}, engines[1], target)
    ways = {"all": shared, "one": alone}
    if job.peer is not None:
        ways["torch"] = job.peer(torch, job.shapes, ranks)
        ways["torch on one"] = job.peer(torch, job.shapes, 1) if job.updates else lambda: None
    for call in (shared, alone):
        call()
    row: dict[str, Any] = {"job": job.name, "ranks": ranks, "error": error_between(results(), expected())}
    for call in ways.values():
        for _ in range(10):
            call()
    row["prepared"] = time.perf_counter() - begin
    for _ in range(options.rounds):
        for way, call in ways.items():
            took = seconds(torch, call, options.seconds) / job.steps
            row[way] = min(row.get(way, float("inf")), took)
    if job.work:
        row["rate"] = job.work / row["all"]
    return row


def error_between(found: Mapping[str, Any], right: Mapping[str, Any]) -> float:
    """Return the greatest difference of some elements of results, by that of what is right."""
    worst = 0.0
    for name, array in found.items():
        few = tuple(slice(None, None, max(1, size // 7)) for size in array.shape)
        mine, theirs = (np.asarray(each[few], np.float64) for each in (array, right[name]))
        worst = max(worst, float(np.abs(mine - theirs).max() / np.abs(theirs).max()))
    return worst


def bandwidth(torch: Any, engine: Any, ranks: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return bytes a second over the bus of sums over all ranks, ours and PyTorch's: by calls, and within graphs."""
    rows = []
    for size in [1 << each for each in range(20, 31, 2)]:

        def ours(end: Any, size: int = size) -> dict[str, float]:
            part = tileir.to_device(np.ones(size // 4, np.float32), end.device)
            group, theirs = range(ranks), torch.ones(size // 4, device="cuda")
            calls: dict[str, Callable[[], Any]] = {
                "all": lambda: end.merged([Merge([part], part, Aggregation.SUM)], group),
                "torch": lambda: torch.distributed.all_reduce(theirs),
            }
            executor: Any = part.home.executor
            streams = {"all": torch.cuda.ExternalStream(executor.dlpack_stream), "torch": torch.cuda.Stream()}
            for call in calls.values():
                call()
            torch.cuda.synchronize()
            graphs = {name: recorded(torch, call, streams[name]) for name, call in calls.items()}
            found: dict[str, float] = {}
            for _ in range(options.rounds):
                for name, call in calls.items():
                    for way, each, count in ((name, call, 1), (f"{name} recorded", graphs[name], TOGETHER)):
                        took = seconds(torch, each, options.seconds / 4) / count
                        found[way] = min(found.get(way, took), took)
            return found

        (found,) = engine.launch(ranks, ours).values()
        rates = {f"{name} GB/s": 2 * (ranks - 1) / ranks * size / took * 1e-9 for name, took in found.items()}
        rows.append({"job": f"all-reduce of {size >> 20} MiB", "ranks": ranks, **found, **rates})
    return rows


def recorded(torch: Any, call: Callable[[], Any], stream: Any) -> Callable[[], None]:
    """Return what hands over a graph of many calls in a stream."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        graph.capture_begin(capture_error_mode="thread_local")
        for _ in range(TOGETHER):
            call()
        graph.capture_end()
    replay: Callable[[], None] = graph.replay
    return replay


def worker(options: argparse.Namespace) -> None:
    """Run as one rank."""
    torch = importlib.import_module("torch")
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(rank)
    store = torch.distributed.FileStore(os.environ["STORE"], ranks)
    card = torch.device("cuda", rank)
    torch.distributed.init_process_group("nccl", store=store, rank=rank, world_size=ranks, device_id=card)
    torch.manual_seed(0)
    nccl = importlib.import_module("tileir_nccl")
    if rank == 0:  # a free port, which is in use from now on
        store.set("port", str(importlib.import_module("tileir_nccl.meeting").hub_at("127.0.0.1", 0)))
    start = nccl.Start(rank, ranks, rank, port=int(store.get("port")))
    engine, own = nccl.Cards(start=start, timeout=120), nccl.Cards(start=nccl.Start(0, 1, 0), devices=(f"cuda.{rank}",))
    rows: list[dict[str, Any]] = []

    def told(row: dict[str, Any]) -> None:
        rows.append(row)
        if rank == 0:
            numbers = {name: f"{value:.4g}" if isinstance(value, float) else value for name, value in row.items()}
            print(*(f"{name}: {value}" for name, value in numbers.items()), sep="; ", flush=True)
            options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")

    if not options.only or "all-reduce" in options.only:
        for row in bandwidth(torch, engine, ranks, options):
            told(row)
    for job in jobs(1):
        if not options.only or any(each in job.name for each in options.only):
            try:
                row = measured(torch, job, (engine, own), ranks, options)
                told(row | {"speedup": row["one"] / row["all"]})
            except tileir.TileError as error:
                told({"job": job.name, "failed": str(error)})
    torch.distributed.destroy_process_group()


def check() -> None:
    """Compare programs on two threads of the host with one."""
    for job in jobs(64):
        found = []
        for ranks in (2, 1):
            call, results = distributed(job, {"x": ranks}, "inprocess")
            for _ in range(2):
                call()
            found.append(results())
        error = error_between(*found)
        print(f"{job.name:<32} error {error:.0e}", flush=True)
        if not error < (1e-5 if job.dtype is tileir.DType.F32 else 3e-2):
            raise SystemExit(f"{job.name}: results differ")


def main() -> None:
    """Start the ranks, and wait for them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2, help="cards (default: 2)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each way is timed (default: 3)")
    parser.add_argument("--seconds", type=float, default=0.3, help="for each way in each round (default: 0.3)")
    parser.add_argument("--json", type=Path, default=Path("cards_of_a_host.json"))
    parser.add_argument("--only", nargs="*", default=[], help="parts of the names of what to run")
    parser.add_argument("--check", action="store_true", help="compare values at small sizes, without cards")
    options = parser.parse_args()
    if options.check:
        check()
        return
    if "RANK" in os.environ:
        worker(options)
        return
    with tempfile.TemporaryDirectory() as folder:
        told = {**os.environ, "WORLD_SIZE": str(options.ranks), "STORE": str(Path(folder, "store"))}
        ranks = [
            subprocess.Popen([sys.executable, *sys.argv], env={**told, "RANK": str(rank)})
            for rank in range(options.ranks)
        ]
        if sum(abs(rank.wait()) for rank in ranks):
            raise SystemExit("a rank failed")


if __name__ == "__main__":
    main()
