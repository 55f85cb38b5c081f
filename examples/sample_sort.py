"""Sort numbers that are shared out over ranks: each gets those between two of the values that split a sample evenly.

python sample_sort.py                                       two threads
mpiexec -n 2 python sample_sort.py --keys 100000000         two processes

How many numbers go from one rank to another is known only when it runs. So this is written for the messages between
ranks of which collectives of programs are made, and each rank ends with as many numbers as fall to it: the parts of the
sorted array are of uneven sizes. It needs the distribution tileir-mpi.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from mpi4py import MPI

from tileir import distributed
from tileir.runtime.transports import Transport

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

SAMPLE = 256
"""Sampled keys of each rank for each rank, from which the splitters are chosen."""


def keys(place: Array) -> Array:
    """Return the keys at some places: a hash of these (Steele et al., 2014), so that ranks need no generator."""
    mixed = (place.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    return (mixed >> np.uint64(32)).astype(np.uint32)


def gathered(end: Transport, part: Array, sizes: Sequence[int]) -> list[Array]:
    """Return the parts of all ranks, whose sizes are known."""
    found = [np.empty(size, part.dtype) for size in sizes]
    end.all_gather(part, found, range(end.size))
    return found


def exchanged(end: Transport, own: Array, say: Any) -> Array:
    """Return what one rank has of all keys when they are sorted; all ranks call it."""
    own = np.sort(own)
    say(end, "sorted what each rank has")
    most = SAMPLE * end.size
    counts = [int(each[0]) for each in gathered(end, np.array([min(most, own.size)]), [1] * end.size)]
    chosen = np.linspace(0, max(own.size - 1, 0), counts[end.rank]).astype(np.int64)
    sample = np.sort(np.concatenate(gathered(end, own[chosen], counts)))
    borders = sample[[number * sample.size // end.size for number in range(1, end.size)]] if sample.size else sample
    sent = np.split(own, np.searchsorted(own, borders))
    sizes = gathered(end, np.array([each.size for each in sent]), [end.size] * end.size)
    received = [np.empty(int(each[end.rank]), own.dtype) for each in sizes]
    others = [rank for rank in range(end.size) if rank != end.rank]
    end.exchange(
        [(rank, sent[rank]) for rank in others if sent[rank].size],
        [(rank, received[rank]) for rank in others if received[rank].size],
    )
    received[end.rank] = sent[end.rank]
    say(end, "exchanged")
    return np.sort(np.concatenate(received), kind="stable")  # which merges what is sorted in runs


def sort(array: distributed.DistributedArray, say: Any) -> distributed.DistributedArray:
    """Return the elements of an array of one axis in order, cut unevenly along the axis ``x`` of its mesh."""

    def work(end: Transport) -> tuple[Array, list[int]]:
        part = exchanged(end, array.on_host(end.rank), say)
        return part, [int(each[0]) for each in gathered(end, np.array([part.size]), [1] * end.size)]

    found = array.engine.launch(array.mesh.size, work)
    stops = np.cumsum(next(iter(found.values()))[1]).tolist()
    split = distributed.Split(("x",), tuple(zip([0, *stops[:-1]], stops, strict=True)))
    return distributed.from_parts({rank: part for rank, (part, _) in found.items()}, array.mesh, (split,), array.engine)


def main() -> None:
    """Sort, and say which keys are in the middle."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000, help="how many (default: a million)")
    parser.add_argument("--ranks", type=int, default=2, help="threads where mpiexec did not start it (default: 2)")
    parser.add_argument("--engine", default="mpi", help="between the ranks (default: mpi), such as nccl")
    options = parser.parse_args()
    ranks = MPI.COMM_WORLD.size if MPI.COMM_WORLD.size > 1 else options.ranks
    given = distributed.array(keys, {"x": ranks}, ("x",), shape=(options.keys,), transport=options.engine)

    def say(end: Transport, text: str) -> None:
        if end.rank == 0:  # one rank speaks for all
            sys.stderr.write(f"{text}\n")

    found = sort(given, say)
    shown = found[:: max(1, options.keys // 1000)]
    ordered = [bool((part[1:] >= part[:-1]).all()) for part in (*map(found.on_host, found.parts), shown)]
    if not all(ordered):
        raise SystemExit("the keys are not in order")
    if 0 in found.parts:
        digest = hashlib.sha256(shown.tobytes()).hexdigest()[:16]
        print(f"{ranks} ranks: {found.size} keys, {shown[len(shown) // 2]} in the middle, digest {digest}")


if __name__ == "__main__":
    main()
