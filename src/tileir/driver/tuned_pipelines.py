"""Fastest pipelines found by tuning for a program on a device, kept in the cache on disk.

An entry ``winner-…`` has the pipeline as JSON. Its key covers the function, the dtypes and shapes, all facts of the
device, and the versions of the compiler, so that a winner only applies where it was measured. An entry ``tuning-…``
with this key has the trials of an unfinished search.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from tileir.core import TileError, attrs
from tileir.driver.compilation import Request, generator_of
from tileir.runtime.caches.carried_entries import Entries
from tileir.runtime.caches.disk_cache import DiskCache, digest_of
from tileir.runtime.interface import Compiler, DeviceInfo

if TYPE_CHECKING:
    from tileir.passes.base import Pass

WINNER: Final = "winner"
TUNING: Final = "tuning"


@attrs.frozen
class Trial:
    """Trial of a pipeline.

    Attributes:
        passes: The pipeline as JSON.
        predicted: Time predicted by the model.
        seconds: Measured time; None if it failed.
        fault: Reason of the failure; empty on success.
    """

    passes: str
    predicted: float
    seconds: float | None = None
    fault: str = ""


def winner_key(request: Request, compiler: Compiler[Any], device: DeviceInfo) -> str | None:
    """Return the key of a program on a device; None if there is none. The passes of ``request`` do not count."""
    program = (request if request.passes is None else attrs.evolve(request, passes=None)).key
    theirs = generator_of(compiler, device)
    return None if program is None or theirs is None else digest_of(WINNER, program, *theirs)


def stored_winner(disk: Entries, key: str) -> tuple[Pass, ...] | None:
    """Return the winning pipeline; None if nothing was tuned, or it is no longer a pipeline."""
    parts = disk.get(WINNER, key) if disk.holds(WINNER, key) else None
    if parts is None:
        return None
    from tileir.passes.pipelines.catalog import load_pipeline  # it loads all passes, and most programs have no winner

    try:
        return load_pipeline(parts["passes"].decode())
    except (TileError, KeyError, UnicodeDecodeError) as error:
        disk.drop(WINNER, key, f"it is no pipeline: {error}")
        return None


def tuned(request: Request, disk: Entries, compiler: Compiler[Any], device: DeviceInfo) -> Request:
    """Return a request with its winning passes; the request itself if nothing was tuned."""
    key = winner_key(request, compiler, device)
    passes = None if key is None else stored_winner(disk, key)
    return request if passes is None else attrs.evolve(request, passes=passes)


def store_winner(disk: DiskCache, key: str, passes: Iterable[Pass], device: str, note: str) -> bool:
    """Store a pipeline as the winner, and return whether that was possible; ``note`` describes the gain for people."""
    from tileir.passes.pipelines.pipeline import to_json as pipeline_json

    return disk.put(WINNER, key, {"passes": pipeline_json(passes).encode()}, {"device": device, "note": note})


def stored_trials(disk: DiskCache, key: str) -> tuple[Trial, ...]:
    """Return the trials of an unfinished search; none if there is no such search."""
    parts = disk.get(TUNING, key) if disk.holds(TUNING, key) else None
    if parts is None:
        return ()
    try:
        rows = json.loads(parts["trials"])
        return tuple(
            Trial(str(row[0]), float(row[1]), None if row[2] is None else float(row[2]), row[3]) for row in rows
        )
    except (KeyError, ValueError, TypeError, IndexError) as error:
        disk.drop(TUNING, key, f"it cannot be decoded: {error}")
        return ()


def store_trials(disk: DiskCache, key: str, trials: Iterable[Trial], device: str) -> None:
    """Store the trials so far, so that a killed search can be resumed."""
    rows = [[each.passes, each.predicted, each.seconds, each.fault] for each in trials]
    content = json.dumps(rows).encode()
    disk.put(TUNING, key, {"trials": content}, {"device": device, "note": f"{len(rows)} trials"})
