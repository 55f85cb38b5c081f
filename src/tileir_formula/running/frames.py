"""Videos as frames: pictures of a folder in the order of their names, or a ``.npy`` stack; one at a time in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol
from uuid import uuid4

import numpy as np

from tileir.core import attrs, fail
from tileir.runtime.array_files import as_saved
from tileir_cli.pictures.files import depth_of, is_picture
from tileir_cli.values import dtype_and_file, load, read_array, save

Array = np.ndarray[Any, np.dtype[Any]]

STACK: Final = ".npy"

MOST_CHANNELS: Final = 4
"""A stack with three axes, the last of them longer than this, is one of pictures without channels."""


class Frames(Protocol):
    """Pictures by their numbers."""

    def __len__(self) -> int:
        """Return the number of pictures."""

    def __getitem__(self, number: int, /) -> Array:
        """Return one picture."""

    def name(self, number: int) -> str:
        """Return the name of a file for one picture."""

    def depth(self, number: int, /) -> int:
        """Return the bits of each channel of one picture: 8 or 16."""


@attrs.frozen(repr=False)
class _Folder:
    paths: tuple[Path, ...]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, number: int, /) -> Array:
        return load_picture(self.paths[number])

    def name(self, number: int) -> str:
        return f"{self.paths[number].stem}.png"

    def depth(self, number: int, /) -> int:
        return depth_of(self.paths[number])


@attrs.frozen(repr=False)
class _Stack:
    array: Array

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, number: int, /) -> Array:
        frame: Array = np.ascontiguousarray(self.array[number])
        return frame

    def name(self, number: int) -> str:
        return f"{number:0{len(str(len(self.array) - 1))}}.png"

    def depth(self, _: int, /) -> int:
        return 8


def load_picture(path: Path) -> Array:
    """Return a picture, or the array of a ``.npy`` file.

    Raises:
        TileError: TIL901, the file cannot be read.

    """
    value = load(path.name, str(path))
    if not isinstance(value, np.ndarray):
        raise fail("TIL902", f"{path} is no picture; name a picture, a .npy file, or a folder of frames")
    return value


def frames_of(path: Path) -> Frames | None:
    """Return the frames of a folder or a stack; None for a single picture.

    Raises:
        TileError: TIL901, the folder has no pictures, or the stack cannot be read; TIL702, its elements have no type.

    """
    dtype, path = dtype_and_file(str(path))
    if path.is_dir():
        paths = tuple(sorted(each for each in path.iterdir() if is_picture(each)))
        if not paths:
            raise fail("TIL901", f"there is no picture in {path}")
        return _Folder(paths)
    if path.suffix != STACK:
        return None
    try:
        array = read_array(path, dtype, mapped=True)
    except (OSError, ValueError, EOFError) as error:
        raise fail("TIL901", f"cannot read {path}: {error}") from None
    stacked = array.ndim == 4 or (array.ndim == 3 and array.shape[-1] > MOST_CHANNELS)
    return _Stack(array) if stacked else None


class Writer(Protocol):
    """Takes the results of frames, in order."""

    def __call__(self, number: int, result: Array, /) -> None:
        """Write the result of one frame."""


@contextmanager
def written_to(path: Path, frames: Frames) -> Iterator[Writer]:
    """Write results to a folder, a picture for each, or to a stack, which appears whole or not at all.

    Raises:
        TileError: TIL901, a file cannot be written; TIL904, a result is no picture.
    """
    if path.suffix != STACK:
        with _reported(path):
            path.mkdir(parents=True, exist_ok=True)
        yield lambda number, result: save(path / frames.name(number), result, frames.depth(number))
        return
    real = Path(os.path.realpath(path))  # a link stays one
    temporary = real.with_name(f".{real.name}.{uuid4().hex}")
    stack: list[Array] = []

    def write(number: int, result: Array) -> None:
        with _reported(path):
            if not stack:
                shape = (len(frames), *result.shape)
                stack.append(np.lib.format.open_memmap(temporary, mode="w+", dtype=as_saved(result).dtype, shape=shape))
            stack[0][number] = as_saved(result)

    try:
        yield write
        with _reported(path):
            stack.clear()
            temporary.replace(real)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _reported(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise fail("TIL901", f"cannot write {path}: {error}") from None
