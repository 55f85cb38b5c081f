"""Functions known by their entry in the cache on disk, and made when their statements are needed.

An entry ``source-…`` describes the function that a front end made of files: inputs and outputs, the digest of the
function, and the places of its constants in the files, or their elements. Its key covers the status of the files, which
counts as unchanged content, and the sources of tileir and of the front end. Calling a model that was compiled before
thus neither reads its weights nor builds a function of its graph.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np

from tileir.core import (
    ArrayValue,
    DType,
    TileError,
    attrs,
    collection_paused,
    content_hash,
    from_json,
    settled,
    to_json,
)
from tileir.runtime import default_context
from tileir.runtime.caches.disk_cache import DiskCache, digest_of
from tileir.runtime.caches.file_digests import path_of, recall_digests
from tileir.runtime.caches.source_digest import source_digest
from tileir.tile.checks.integers import sizing_inputs
from tileir.tile.ir import Function
from tileir.tile.traversal import arrays

SOURCE: Final = "source"

INLINE: Final = 1 << 12
"""Size in bytes up to which program entries include constant arrays of functions."""

Files: TypeAlias = Mapping[str, tuple[int, ...] | None]
"""Resolved paths of files, each with the status from :func:`tileir.core.array_value.settled`."""

_ALIGNMENT: Final = 64

_MOST_ELEMENTS: Final = 1 << 24
"""Maximum total bytes of constants outside of files for which an entry is made."""


@attrs.frozen(eq=False, slots=False)
class KnownFunction:
    """Tile function that is made when its statements are accessed.

    Attributes:
        frame: The function without its statements.
        identity: Digest of the function, from :func:`tileir.content_hash`.
        constants: Its arrays of more than :data:`INLINE` bytes.
    """

    frame: Function = attrs.field(repr=False)
    identity: str
    constants: tuple[ArrayValue, ...] = attrs.field(repr=False)
    _make: Callable[[], Function] = attrs.field(repr=False)

    @cached_property
    def function(self) -> Function:
        """The function itself."""
        return self._make()

    def __eq__(self, other: object) -> bool:
        """Compare digests."""
        return isinstance(other, KnownFunction) and self.identity == other.identity

    def __hash__(self) -> int:
        """Return the hash of the digest."""
        return hash(self.identity)


def large_arrays(function: Function) -> tuple[ArrayValue, ...]:
    """Return the constant arrays that program entries only store as digests."""
    return tuple(array for array in arrays(function) if len(array.data) > INLINE)


def recalled(files: Files, maker: str, asked: str, make: Callable[[], Function]) -> KnownFunction | None:
    """Return the cached function made of files; None if there is none.

    Args:
        files: The files, each with its status before it was read. Content counts as unchanged while path, device,
            inode, size and modification times stay.
        maker: The package that makes functions of files, whose sources count.
        asked: Other settings that determine the function.
        make: Makes the function when its statements are needed.
    """
    disk, key = default_context().disk_cache, _key(files, maker, asked)
    parts = _entry(disk, key)
    if disk is None or key is None or parts is None:
        return None
    try:
        about = json.loads(parts["about"])
        sources = [np.memmap(name, np.uint8, "r") for name in about["files"]]
        if not _unchanged(files):
            return None
        with collection_paused():
            frame = from_json(parts["frame"], Function)
        kept_elements = np.frombuffer(parts["elements"], np.uint8)
        constants = tuple(_constant(row, [*sources, kept_elements]) for row in about["constants"])
        return KnownFunction(frame, str(about["identity"]), constants, make)
    except (TileError, OSError, KeyError, ValueError, TypeError, IndexError) as error:
        disk.drop(SOURCE, key, f"it cannot be decoded: {error}")
        return None


def kept(files: Files, maker: str, asked: str, function: Function) -> KnownFunction | Function:
    """Return a function that was made of files, after storing it in the cache on disk for :func:`recalled`.

    It is not stored if a file changed just before or since, nor if sizes follow from values of inputs.
    """
    disk, key = default_context().disk_cache, _key(files, maker, asked)
    if disk is None or key is None or sizing_inputs(function):
        return function
    recall_digests(arrays(function), disk)
    frame, identity = attrs.evolve(function, statements=()), content_hash(function)
    known = KnownFunction(frame, identity, large_arrays(function), lambda: function)
    parts = _parts(known, files)
    if parts is not None and _unchanged(files):
        disk.put(SOURCE, key, parts, {"file": next(iter(files))})
    return known


def recalled_note(files: Files, maker: str, asked: str) -> str | None:
    """Return the note that :func:`keep_note` stored for these files, maker and question; None if there is none."""
    parts = _entry(default_context().disk_cache, _key(files, maker, asked))
    return parts["note"].decode() if parts is not None and "note" in parts else None


def keep_note(files: Files, maker: str, asked: str, note: str) -> None:
    """Store a package's information about files, unless one changed just before or since."""
    disk, key = default_context().disk_cache, _key(files, maker, asked)
    if disk is not None and key is not None and _unchanged(files):
        disk.put(SOURCE, key, {"note": note.encode()}, {"file": next(iter(files))})


def _entry(disk: DiskCache | None, key: str | None) -> Mapping[str, bytes] | None:
    return None if disk is None or key is None or not disk.holds(SOURCE, key) else disk.get(SOURCE, key)


def _key(files: Files, maker: str, asked: str) -> str | None:
    sources = [source_digest(package) for package in ("tileir", maker)]
    if not files or None in (*sources, *files.values()):
        return None
    described = (part for name, status in files.items() for part in (name, str(status)))
    return digest_of(SOURCE, *described, "", *map(str, sources), asked)


def _unchanged(files: Files) -> bool:
    return all(settled(name) == status for name, status in files.items())


def _parts(known: KnownFunction, files: Files) -> Mapping[str, bytes] | None:
    """Return the parts of a function's entry; None if too many elements are in no file."""
    places = {name: place for place, name in enumerate(files)}
    names: dict[int, str | None] = {}
    rows: list[tuple[int, int, str, tuple[int, ...], str]] = []
    elements = bytearray()
    for array in {array.digest: array for array in known.constants}.values():
        elements += bytes(-len(elements) % _ALIGNMENT)
        where = -1, len(elements)
        if (origin := array.origin) is not None:
            if id(origin.mapped) not in names:
                names[id(origin.mapped)] = path_of(origin.mapped)
            name = names[id(origin.mapped)]
            if name is not None and name in files and (not origin.copied or origin.status == files[name]):
                where = places[name], origin.mapped.offset + origin.offset
        if where[0] < 0:
            elements += array.data
        if len(elements) > _MOST_ELEMENTS:
            return None
        rows.append((*where, array.dtype.value, array.shape, array.digest))
    about = {"identity": known.identity, "files": list(files), "constants": rows}
    return {"about": json.dumps(about).encode(), "frame": to_json(known.frame), "elements": bytes(elements)}


def _constant(row: Any, sources: Sequence[np.ndarray[Any, Any]]) -> ArrayValue:
    """Return a constant from files or from its entry."""
    place, begin, kind, shape, digest = row
    dtype = DType(kind)
    part = sources[place][begin : begin + prod(shape) * dtype.itemsize]
    value = ArrayValue.of(part.view(dtype.numpy).reshape(shape))
    vars(value)["digest"] = str(digest)  # computed like the property
    return value
