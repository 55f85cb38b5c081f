"""Atomic checkpoints: distributed arrays in a folder, with a file of each rank and a manifest.

.. code-block:: text

    manifest.json    the arrays, and the places of their parts
    parts-7-0        the parts of rank 0 in the seventh checkpoint of this folder, concatenated, and its mark

Files are written under another name, flushed to the disk and renamed; the manifest comes last, and then files of
earlier checkpoints are removed. So a folder has a valid checkpoint at any time from the first on, even if ranks are
killed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tileir.core import ArgumentError, DType, TileError, attrs, fail, from_json, nearest, to_json, with_short_traceback
from tileir.driver.calls.arguments import check_kind
from tileir.driver.distribution.arrays import DistributedArray, array
from tileir.driver.distribution.engines import engine_called, refusing
from tileir.runtime.transports import agree
from tileir.typed.boxes import Box, Interval, elements, overlap, shared, sizes_of
from tileir.typed.sharding.mesh import Mesh

if TYPE_CHECKING:
    from tileir.driver.distribution.arrays import Cut
    from tileir.runtime.transports import Array, Engine, Transport

MANIFEST: Final = "manifest.json"

_PARTS: Final = re.compile(r"\.?parts-(\d+)-\d+")
"""Names of files with parts, including incomplete files."""


_MARK: Final = 16
"""Bytes of a mark, which distinguishes files with equal names of different checkpoints."""


@attrs.frozen
class Piece:
    """Elements of an array, by their places in it, from an offset in a file on."""

    file: str
    offset: int
    box: tuple[tuple[int, int], ...]


@attrs.frozen
class SavedArray:
    """Array of a checkpoint, in pieces that together have all of its elements."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    pieces: tuple[Piece, ...]


@attrs.frozen
class Manifest:
    """Arrays of a checkpoint, JSON of additional data, and the mark at the end of its files."""

    arrays: tuple[SavedArray, ...]
    about: str
    mark: str

    def ends(self) -> dict[str, int]:
        """Return the bytes of elements in each file."""
        found: dict[str, int] = {}
        for each in self.arrays:
            for piece in each.pieces:
                end = piece.offset + elements(piece.box) * each.dtype.itemsize
                found[piece.file] = max(end, found.get(piece.file, 0))
        return found


@attrs.frozen(eq=False)
class Checkpoint:
    """Arrays and additional data of a checkpoint.

    Attributes:
        arrays: Arrays by name.
        about: Data passed to :func:`save`.
    """

    arrays: Mapping[str, DistributedArray]
    about: Mapping[str, Any]


@with_short_traceback
def save(folder: str | Path, arrays: Mapping[str, DistributedArray], about: Mapping[str, Any] | None = None) -> None:
    """Write arrays to a folder, replacing its previous checkpoint; all ranks call it.

    Args:
        folder: The folder, created if missing; all ranks see it.
        arrays: Arrays by name, on one mesh.
        about: JSON data for :func:`load`, such as the number of steps.

    Raises:
        ArgumentError: TIL352, there are no arrays, or they are on several meshes; TIL707, they are not arrays, or have
            no names, or ``about`` is not JSON.
        BackendError: TIL814, a rank failed to write; the folder keeps its previous checkpoint.
    """
    check_kind("arrays", arrays, Mapping, "a mapping from names to distributed arrays")
    for name, each in arrays.items():
        check_kind("the name of an array", name, str, "a text")
        check_kind(name, each, DistributedArray, "what tileir.distributed.array returns")
    found = tuple(arrays.values())
    if len({(each.mesh, id(each.engine)) for each in found}) != 1:
        raise ArgumentError.of("TIL352", f"arrays of one mesh are saved together, and there are {list(found)!r:.200}")
    mesh, place = found[0].mesh, Path(folder)
    with refusing(found[0].engine, mesh.size):
        told = _told(about)

    def work(end: Transport) -> None:
        number, mark = _begun(place, end)
        manifest = Manifest(tuple(_planned(arrays, number)), told, mark.hex())
        file = f"parts-{number}-{end.rank}"
        place.mkdir(parents=True, exist_ok=True)
        own = [each.name for each in manifest.arrays for piece in each.pieces if piece.file == file]
        if own:
            parts = [arrays[name].on_host(end.rank) for name in own]
            _write(place / file, [*parts, np.frombuffer(mark, np.uint8)])
        text = to_json(manifest)
        agree(end, {"what they save": text.decode(), "where they save": str(place)})  # all have written their parts
        if end.rank == 0:
            _write(place / MANIFEST, [np.frombuffer(text, np.uint8)])
            for path in place.iterdir():
                before = _PARTS.fullmatch(path.name)
                if before is not None and int(before[1]) != number:
                    path.unlink()
        agree(end, {"what they save": text.decode()})  # the manifest is there

    found[0].engine.launch(mesh.size, work)


@with_short_traceback
def load(
    folder: str | Path,
    mesh: Mesh | Mapping[str, int],
    shardings: Mapping[str, Cut],
    *,
    transport: str | Engine = "inprocess",
) -> Checkpoint:
    """Return the arrays that :func:`save` wrote to a folder, on any mesh: each rank reads its parts.

    Args:
        folder: The folder.
        mesh: Number of ranks along each named axis.
        shardings: By array name, for each axis the mesh axis along which it is cut. Arrays without an entry are whole
            on each rank.
        transport: The engine between ranks, as for :func:`tileir.distribute`.

    Raises:
        ArgumentError: TIL351, TIL352, mesh and shardings do not fit the arrays; TIL607, the folder has no checkpoint,
            or a damaged one; TIL707, ``shardings`` is not a mapping.
        BackendError: TIL814, a rank could not read.
    """
    check_kind("shardings", shardings, Mapping, "a mapping from the names of arrays to their shardings")
    made = mesh if isinstance(mesh, Mesh) else Mesh(mesh)
    engine, arrays = engine_called(transport), {}
    with refusing(engine, made.size):
        manifest = _read(Path(folder))
        for name in shardings:
            known = [each.name for each in manifest.arrays]
            if name not in known:
                raise ArgumentError.of("TIL352", f"{folder} has no array {name!r}{nearest(name, known)}")
    for each in manifest.arrays:
        cut = shardings.get(each.name, (None,) * len(each.shape))
        arrays[each.name] = array(_Reader(Path(folder), each), made, cut, transport=engine)
    return Checkpoint(arrays, json.loads(manifest.about))


def _told(about: Mapping[str, Any] | None) -> str:
    try:
        return json.dumps(dict(about or {}))
    except (TypeError, ValueError) as error:
        raise ArgumentError.of("TIL707", f"what is saved beside arrays is what JSON can hold: {error}") from error


def saved(folder: str | Path) -> bool:
    """Return whether a folder has a checkpoint, for example to resume a job."""
    return (Path(folder) / MANIFEST).exists()


@attrs.frozen
class _Reader:
    """Saved array with NumPy's slicing; only files with selected elements are read."""

    folder: Path
    saved: SavedArray

    @property
    def shape(self) -> tuple[int, ...]:
        return self.saved.shape

    def __getitem__(self, key: tuple[slice, ...]) -> Array:
        box = tuple((each.start, each.stop) for each in key)
        result = np.empty(sizes_of(box), self.saved.dtype.numpy)
        for piece in self.saved.pieces:
            if overlap(piece.box, box):
                there = np.memmap(self.folder / piece.file, result.dtype, "r", piece.offset, sizes_of(piece.box))
                both = shared(piece.box, box)
                result[_within(both, box)] = there[_within(both, piece.box)]
        return result


def _within(inner: Sequence[Interval], outer: Box) -> tuple[slice, ...]:
    return tuple(slice(low - start, high - start) for (low, high), (start, _) in zip(inner, outer, strict=True))


def _read(folder: Path) -> Manifest:
    """Return the manifest of a folder after checking its files.

    Raises:
        ArgumentError: TIL607.
    """
    path = folder / MANIFEST
    try:
        manifest = from_json(path.read_bytes(), Manifest)
        json.loads(manifest.about)
    except FileNotFoundError as error:
        message = f"there is no checkpoint in {folder}: {MANIFEST} is missing; name the folder that was saved to"
        raise ArgumentError.of("TIL607", message) from error
    except OSError as error:
        raise ArgumentError.of("TIL607", f"cannot read {path}: {error}") from error
    except (TileError, ValueError) as error:
        told = error.diagnostics[0].message if isinstance(error, TileError) else error
        raise ArgumentError.of("TIL607", f"{path} is no manifest: {told}") from error
    for each in manifest.arrays:
        if not _covered(each):
            raise ArgumentError.of("TIL607", f"{path} has no pieces of all of {each.name!r}; take another checkpoint")
    for file, end in manifest.ends().items():
        fault = _fault_of(folder / file, end, manifest.mark)
        if fault is not None:
            names = ", ".join(
                repr(each.name) for each in manifest.arrays if any(piece.file == file for piece in each.pieces)
            )
            message = f"{fault}: it has elements of {names}; bring it back, or take another checkpoint"
            raise ArgumentError.of("TIL607", message)
    return manifest


def _fault_of(path: Path, end: int, mark: str) -> str | None:
    """Return the fault of a file of parts, which ends with the mark of its checkpoint; None if it is valid."""
    needed = end + _MARK
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(min(end, size))
            found = file.read(_MARK).hex()
    except FileNotFoundError:
        return f"{path} is missing"
    except OSError as error:
        return f"{path} cannot be read ({error})"
    if size != needed:
        return f"{path} has {size} bytes of {needed}"
    return None if found == mark else f"{path} is from another checkpoint"


def _covered(saved: SavedArray) -> bool:
    """Return whether the pieces of an array lie in it and in files of parts, and have its number of elements."""
    inside = all(
        _PARTS.fullmatch(piece.file)
        and piece.offset >= 0
        and len(piece.box) == len(saved.shape)
        and all(0 <= low <= high <= size for (low, high), size in zip(piece.box, saved.shape, strict=True))
        for piece in saved.pieces
    )
    return inside and sum(elements(piece.box) for piece in saved.pieces) >= prod(saved.shape)


def _planned(arrays: Mapping[str, DistributedArray], number: int) -> Iterator[SavedArray]:
    """Yield the places of parts in files; of equal parts the first rank writes its own."""
    ends: dict[int, int] = {}
    for name, each in arrays.items():
        dtype = DType.of(each.dtype)
        assert dtype is not None  # there are no other arrays
        owners: dict[Box, int] = {}
        for rank in range(each.mesh.size):
            owners.setdefault(each.box(rank), rank)
        pieces = []
        for box, rank in owners.items():
            pieces.append(Piece(f"parts-{number}-{rank}", ends.get(rank, 0), box))
            ends[rank] = pieces[-1].offset + elements(box) * dtype.itemsize
        yield SavedArray(name, dtype, each.shape, tuple(piece for piece in pieces if elements(piece.box)))


def _begun(folder: Path, end: Transport) -> tuple[int, bytes]:
    """Return number and mark of the next checkpoint, which the first rank determines for all."""
    names = [path.name for path in folder.iterdir()] if end.rank == 0 and folder.is_dir() else []
    known = [int(match[1]) for match in map(_PARTS.fullmatch, names) if match is not None]
    drawn = np.frombuffer(os.urandom(_MARK), np.int64)
    found = [np.empty(1 + drawn.size, np.int64) for _ in range(end.size)]
    end.all_gather(np.array([max(known, default=0) + 1, *drawn]), found, range(end.size))
    return int(found[0][0]), found[0][1:].tobytes()


def _write(path: Path, contents: Sequence[Array]) -> None:
    """Write a file that appears once all of it is on the disk.

    Raises:
        TileError: TIL901, it cannot be written.
    """
    temporary = path.with_name(f".{path.name}")
    try:
        with temporary.open("wb") as file:
            for each in contents:
                file.write(np.ascontiguousarray(each).reshape(-1).view(np.uint8).data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        if os.name == "posix":  # the name as well is to survive a loss of power
            folder = os.open(path.parent, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise fail("TIL901", f"cannot write {path}: {error}") from error
