"""Digests of arrays of mapped files, kept on disk, so that a file that did not change is not read to tell what it has.

An entry ``file-…`` stands for one file, with its path, device, inode, size and time of change, and has the digests of
arrays in it by their offset, dtype and shape. It is written where the file changed at least two seconds before its
digests were computed, as clocks of file systems are coarse, and its status stayed the same meanwhile.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from tileir.core import ArrayValue, grouped
from tileir.runtime.caches.disk_cache import DiskCache, digest_of

FILE: Final = "file"
SETTLED_SECONDS: Final = 2.0
"""Age of the last change from which on a later one has another time."""

_DIGEST: Final = re.compile("[0-9a-f]{64}")
_MAPS: Final = Path("/proc/self/maps")


def recall_digests(values: Iterable[ArrayValue], disk: DiskCache) -> None:
    """Give arrays of mapped files the digests that a cache has of them, and store those that it lacks.

    Only where the system tells that what is mapped is the file that has the path now.
    """
    unknown = {id(value): value for value in values if value.mapped is not None and "digest" not in vars(value)}
    places = [(place, value) for value in unknown.values() if (place := _place(value)) is not None]
    for path, found in grouped((path, (where, value)) for (path, where), value in places).items():
        status = _settled(path)
        if status is not None:
            _recall(digest_of(FILE, path, *map(str, status)), path, status, found, disk)


def _recall(
    key: str, path: str, status: tuple[int, ...], arrays: list[tuple[str, ArrayValue]], disk: DiskCache
) -> None:
    known = _stored(disk, key)
    for where, value in arrays:
        if where in known:
            vars(value)["digest"] = known[where]  # what the property would compute
    computed = {where: value.digest for where, value in arrays if where not in known}
    if computed and _settled(path) == status:
        content = json.dumps({**known, **computed}, sort_keys=True).encode()
        disk.put(FILE, key, {"digests": content}, {"file": path})


def _stored(disk: DiskCache, key: str) -> Mapping[str, str]:
    parts = disk.get(FILE, key) if disk.holds(FILE, key) else None
    try:
        found = {} if parts is None else json.loads(parts["digests"])
        return {where: digest for where, digest in found.items() if _DIGEST.fullmatch(digest)}
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        disk.drop(FILE, key, f"it has no digests: {error}")
        return {}


def _place(value: ArrayValue) -> tuple[str, str] | None:
    """Return the file that an array is mapped from, and where it stands there; None for other arrays."""
    mapped = value.mapped
    if mapped is None or not mapped.filename:
        return None
    path = os.path.realpath(mapped.filename)
    address = np.frombuffer(value.data, np.uint8).ctypes.data
    if _mapped_at(address) != path:
        return None
    return path, f"{mapped.offset + address - mapped.ctypes.data} {value}"


def _mapped_at(address: int) -> str | None:
    """Return the path that a mapped file has now; None where the system does not tell, or it is deleted."""
    try:
        for line in _MAPS.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
            begin, _, end = line.split(" ", 1)[0].partition("-")
            if int(begin, 16) <= address < int(end, 16):
                fields = line.split(None, 5)
                return fields[5] if len(fields) > 5 else None
    except (OSError, ValueError):
        return None
    return None


def _settled(path: str) -> tuple[int, ...] | None:
    """Return what tells a file from what it was before; None where it is gone, or has just changed."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    if time.time() - found.st_mtime < SETTLED_SECONDS:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
