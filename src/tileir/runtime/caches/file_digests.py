"""Digests of arrays in mapped files, cached on disk so that unchanged files need not be read to identify content.

An entry ``file-…`` describes one file, by path, device, inode, size and modification time, and has the digests of its
arrays by offset, dtype and shape. It is written only if the file was modified at least two seconds before the arrays
were digested or copied, as file system clocks are coarse, and if its status did not change meanwhile.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from tileir.core import ArrayValue, Origin, grouped, settled
from tileir.runtime.caches.disk_cache import DiskCache, digest_of

FILE: Final = "file"

_LARGE: Final = 1 << 24
"""Bytes of arrays from which on several threads compute their digests, which takes some hundredths of a second."""

_DIGEST: Final = re.compile("[0-9a-f]{64}")
_MAPS: Final = Path("/proc/self/maps")


def recall_digests(values: Iterable[ArrayValue], disk: DiskCache) -> None:
    """Set digests of arrays of mapped files from a cache, and store those that it lacks.

    Only if the system tells that the mapped file is the current file at its path.
    """
    unknown = {id(value): value for value in values if value.origin is not None and "digest" not in vars(value)}
    paths: dict[int, str | None] = {}
    for value in unknown.values():
        if (origin := value.origin) is not None and id(origin.mapped) not in paths:
            paths[id(origin.mapped)] = path_of(origin.mapped)
    places = [
        (path, (_place(origin, value), value))
        for value in unknown.values()
        if (origin := value.origin) is not None and (path := paths[id(origin.mapped)]) is not None
    ]
    for path, found in grouped(places).items():
        status = settled(path)
        if status is not None:
            current = [(where, value) for where, value in found if _is_of(status, value.origin)]
            _recall(digest_of(FILE, path, *map(str, status)), path, status, current, disk)


def _is_of(status: tuple[int, ...], origin: Origin | None) -> bool:
    return origin is not None and (not origin.copied or origin.status == status)


def _recall(
    key: str, path: str, status: tuple[int, ...], arrays: list[tuple[str, ArrayValue]], disk: DiskCache
) -> None:
    known = _stored(disk, key)
    computed = _computed([each for each in arrays if each[0] not in known])
    for where, value in arrays:
        vars(value)["digest"] = known.get(where) or computed[where]  # what the property would compute
    if computed and settled(path) == status:
        content = json.dumps({**known, **computed}, sort_keys=True).encode()
        disk.put(FILE, key, {"digests": content}, {"file": path})


def _computed(arrays: list[tuple[str, ArrayValue]]) -> dict[str, str]:
    """Return the digests of arrays by place; several threads read large ones, those first that take longest."""
    if sum(len(value.data) for _, value in arrays) < _LARGE:
        return {where: value.hashed() for where, value in arrays}
    from concurrent.futures import ThreadPoolExecutor  # slow to import

    arrays = sorted(arrays, key=lambda each: -len(each[1].data))
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return dict(threads.map(lambda each: (each[0], each[1].hashed()), arrays))


def _stored(disk: DiskCache, key: str) -> Mapping[str, str]:
    parts = disk.get(FILE, key) if disk.holds(FILE, key) else None
    try:
        found = {} if parts is None else json.loads(parts["digests"])
        return {where: digest for where, digest in found.items() if _DIGEST.fullmatch(digest)}
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        disk.drop(FILE, key, f"it has no digests: {error}")
        return {}


def _place(origin: Origin, value: ArrayValue) -> str:
    return f"{origin.mapped.offset + origin.offset} {value}"


def path_of(mapped: np.memmap[Any, Any]) -> str | None:
    """Return the path of a mapped file; None unless the system tells that it is the current file there."""
    if not mapped.filename or not mapped.size:
        return None
    path = os.path.realpath(mapped.filename)
    return path if _mapped_at(mapped.ctypes.data) == path else None


def _mapped_at(address: int) -> str | None:
    """Return the current path of the file mapped at an address; None if unknown or deleted."""
    try:
        for line in _MAPS.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
            begin, _, end = line.split(" ", 1)[0].partition("-")
            if int(begin, 16) <= address < int(end, 16):
                fields = line.split(None, 5)
                return fields[5] if len(fields) > 5 else None
    except (OSError, ValueError):
        return None
    return None
