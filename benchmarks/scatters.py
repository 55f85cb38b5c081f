"""Histograms, gradients of embeddings and other scatters on tileir, NumPy and PyTorch, in one process and in turns.

    python benchmarks/scatters.py [--threads 2] [--only REGEX] [--rounds 7]

A row has the least times of all rounds, of one thread those of the processor, how many times as long the fastest peer
takes, and the greatest relative difference to it. NumPy runs on one thread whatever is asked for; PyTorch is left out
where it is not installed. Places are random and inside. Of updates that replace one element PyTorch takes any on
several threads, so that its results differ.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
import numpy as np

import tileir
from pictures import measured
from tileir import ops
from tileir.tile import builder_functions as tf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Array: TypeAlias = np.ndarray[Any, Any]


@attrs.frozen
class Case:
    """Updates of rows of a table: ``count`` of them, into ``size`` rows of ``row`` elements; () for single ones.

    ``counting`` is for those that add 1 to the bin of a value from 0 to 1. ``mode`` is that of :func:`ops.scatter`; the
    rows of ``set`` are a permutation, which is told, and those of ``last`` are replaced by the last of any updates.
    """

    name: str
    count: int
    size: int
    row: tuple[int, ...] = ()
    counting: bool = False
    mode: str = "add"


CASES: Final = (
    Case("histogram", 1 << 24, 256, counting=True),
    Case("weighted histogram", 1 << 22, 1000),
    Case("sums of groups", 1 << 20, 1 << 16),
    Case("few updates", 1 << 20, 1 << 20),
    Case("sums of classes", 1 << 18, 100, (16,)),
    Case("embedding", 8192, 30_000, (64,)),
    Case("wide embedding", 4096, 50_000, (768,)),
    Case("messages", 1 << 17, 1 << 14, (64,)),
    Case("odd columns", 1 << 16, 1 << 12, (37,)),
    Case("permutation", 1 << 20, 1 << 20, mode="set"),
    Case("permuted rows", 1 << 14, 1 << 14, (64,), mode="set"),
    Case("replaced", 1 << 20, 1 << 20, mode="last"),
    Case("replaced in a small table", 1 << 20, 256, mode="last"),
    Case("few replaced", 1000, 1 << 20, mode="last"),
    Case("replaced rows", 1 << 14, 1 << 12, (64,), mode="last"),
    Case("rows of a cache", 64, 4096, (1024,), mode="last"),
    Case("greatest", 1 << 18, 1 << 16, mode="max"),
    Case("greatest rows", 1 << 14, 1 << 12, (64,), mode="max"),
    Case("products of rows", 1 << 14, 1 << 12, (64,), mode="mul"),
)


def own(case: Case, places: Array, terms: Array, threads: int) -> Callable[[Array], Any]:
    """Return what tileir compiles, with a result that is kept."""
    f = tileir.FunctionBuilder()
    axes = ["C"] * len(case.row)
    table = np.zeros((case.size, *case.row), np.float32)
    if case.counting:
        x = f.input("X", "N")
        result = tf.scatter(ops.ones_like(x), tf.cast(x * case.size, "i32"), ops.zeros(x, [case.size]))
        arrays = [terms]
    else:
        d, i, t = f.input("D", "N", *axes), f.input("I", "N"), f.input("T", "V", *axes)
        result = tf.scatter(d, i, t)
        if case.mode != "add":
            result = ops.scatter(t, i, d, mode="set" if case.mode == "last" else case.mode, unique=case.mode == "set")
        arrays = [terms, places, np.zeros_like(table)]
    context = tileir.Context(options=tileir.Options(threads=threads))
    executable = tileir.compile(f.build(O=result), arrays, context=context)
    return lambda _: executable(*arrays, out=table)


def peers(case: Case, places: Array, terms: Array, threads: int) -> Iterator[tuple[str, Callable[[Array], Any]]]:
    """Yield peers by name: NumPy, and PyTorch where it is installed."""
    table = np.zeros((case.size, *case.row), np.float32)
    if case.mode != "add":
        yield from others(case, places, terms, threads)
        return

    def numpy(_: Array) -> Any:
        if case.counting:
            return np.bincount((terms * case.size).astype(np.int32), minlength=case.size)
        if not case.row:
            return np.bincount(places, terms, case.size)
        table[:] = 0
        np.add.at(table, places, terms)
        return table

    yield "NumPy", numpy
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        return
    torch.set_num_threads(threads)
    d, i = torch.from_numpy(terms), torch.from_numpy(places)
    result = torch.from_numpy(np.zeros((case.size, *case.row), np.float32))

    def added(_: Array) -> Any:
        return result.zero_().index_add_(0, i, d).numpy()

    def counted(_: Array) -> Any:
        numbers = (d * case.size).to(torch.int32) if case.counting else i
        return torch.bincount(numbers, None if case.counting else d, case.size).numpy()

    yield "index_add" if case.row else "bincount", added if case.row else counted
    if case.row:
        backward = torch.ops.aten.embedding_dense_backward
        yield "embedding's gradient", lambda _: backward(d, i, case.size, -1, False).numpy()
    elif not case.counting:
        yield "index_add", added


def others(case: Case, places: Array, terms: Array, threads: int) -> Iterator[tuple[str, Callable[[Array], Any]]]:
    """Yield peers of scatters that do not add, into zeros as above."""
    table = np.zeros((case.size, *case.row), np.float32)
    function = {"max": np.maximum, "mul": np.multiply}.get(case.mode)

    def numpy(_: Array) -> Any:
        result = table.copy()
        if function is None:
            result[places] = terms
        else:
            function.at(result, places, terms)
        return result

    yield "NumPy", numpy
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        return
    torch.set_num_threads(threads)
    t, d, i = torch.from_numpy(table), torch.from_numpy(terms), torch.from_numpy(places).long()
    if function is None:
        yield "index_copy", lambda _: t.index_copy(0, i, d).numpy()
        if case.mode == "last" and not case.row:
            yield "scatter", lambda _: t.scatter(0, i, d).numpy()
        return
    name = {"max": "amax", "mul": "prod"}[case.mode]
    yield "index_reduce", lambda _: t.index_reduce(0, i, d, name).numpy()
    if not case.row:
        yield "scatter_reduce", lambda _: t.scatter_reduce(0, i, d, name).numpy()


def row(case: Case, options: argparse.Namespace) -> str:
    """Return a row of the table."""
    random = np.random.default_rng(0)
    places = random.integers(0, case.size, case.count).astype(np.int32)
    if case.mode == "set":
        places = random.permutation(case.size)[: case.count].astype(np.int32)
    terms = random.random((case.count, *case.row), np.float32)
    filters: Mapping[str, Callable[[Array], Any]] = {
        "tileir": own(case, places, terms, options.threads),
        **dict(peers(case, places, terms, options.threads)),
    }
    times = measured(filters, terms, options.rounds, options.threads)
    mine = times.pop("tileir")
    best = min(times, key=times.__getitem__)
    expected = np.asarray(filters[best](terms), np.float64)
    difference = np.abs(np.asarray(filters["tileir"](terms)) - expected).max() / max(np.abs(expected).max(), 1e-30)
    others = ", ".join(f"{name} {seconds * 1e3:.2f}" for name, seconds in times.items())
    return f"| {case.name} | {mine * 1e3:.3f} | {others} | {times[best] / mine:.2f} | {difference:.1e} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", str(options.threads))
    print("| case | tileir, ms | peers, ms | best peer / tileir | difference |")
    print("|---|---:|---|---:|---:|")
    for case in CASES:
        if re.search(options.only, case.name):
            print(row(case, options), flush=True)


if __name__ == "__main__":
    main()
