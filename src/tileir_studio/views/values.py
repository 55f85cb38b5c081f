"""Inputs of a request to arrays, and results to views of the page."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tileir.core import DType, TileError, fail
from tileir.driver.calls.arguments import tensor_types, type_of_text
from tileir_cli.pictures.files import as_levels
from tileir_cli.values import number_of
from tileir_performance.tuning.measurement import random_array
from tileir_studio.serve.uploads import read
from tileir_studio.views.views import ResultView

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tileir.tile.ir import Function
    from tileir.typed.ir import TensorType
    from tileir_studio.views.subject import Subject

    Array = np.ndarray[Any, np.dtype[Any]]

UPLOAD: Final = "upload:"

MOST_ELEMENTS: Final = 1 << 28
"""The most elements of the random arrays of one program."""

_SHOWN_SIDE: Final = 1024
"""The most pixels of each side of a picture that is shown."""


def types_of(function: Function, subject: Subject, folder: Path) -> dict[str, TensorType]:
    """Return the type of each input.

    Raises:
        TileError: An input is missing, or its value means nothing; all such faults at once.
    """
    given = {name: _described(name, text, folder) for name, text in subject.values}
    known = {tensor.name for tensor in function.inputs}
    return tensor_types(function, {name: value for name, value in given.items() if name in known})


def arrays_of(types: Mapping[str, TensorType], subject: Subject, folder: Path) -> dict[str, Any]:
    """Return an array or number for each input: the given one, else random numbers, equal in every run.

    Raises:
        TileError: TIL708, the arrays would be too large; TIL912, an upload is gone.
    """
    texts = dict(subject.values)
    if sum(int(np.prod(kind.shape)) for kind in types.values()) > MOST_ELEMENTS:
        raise fail("TIL708", f"the inputs have more than {MOST_ELEMENTS} elements together; make them smaller")
    rng = np.random.default_rng(0)
    return {name: _value(texts[name], kind, folder, rng) for name, kind in types.items()}


def _value(text: str, kind: TensorType, folder: Path, rng: np.random.Generator) -> Any:
    if text.startswith(UPLOAD):
        return read(folder, text.removeprefix(UPLOAD))
    number = number_of(text)
    return random_array(kind.dtype, kind.shape, rng) if number is None else number


def _described(name: str, text: str, folder: Path) -> Any:
    if text.startswith(UPLOAD):
        return read(folder, text.removeprefix(UPLOAD))
    number = number_of(text)
    if number is not None:
        return number
    try:
        described = type_of_text(text)
    except TileError as error:
        raise fail("TIL702", f"input {name!r}: {error.diagnostics[0].message}") from None
    if described is None:
        forms = "a type such as f32[64, 64] for random numbers, a number, or give a file"
        raise fail("TIL702", f"input {name!r}: write {forms}; {text[:64]!r} is none of them")
    return described


def result_view(name: str, array: Array) -> tuple[ResultView, bytes | None]:
    """Return the view of a result, and a PNG where it can be seen as a picture."""
    dtype = DType.of(array.dtype)
    kind = f"{dtype.value if dtype else array.dtype}[{', '.join(map(str, array.shape))}]"
    shown = np.array2string(array, threshold=64, edgeitems=3, separator=", ", max_line_width=100)
    picture = _png(array)
    if array.size == 0 or array.dtype.kind == "V":
        return ResultView(name, kind, shown), picture
    wide = array.astype(np.float64, copy=False)
    finite = wide[np.isfinite(wide)]
    if not finite.size:
        return ResultView(name, kind, shown), picture
    picture_name = None if picture is None else name
    least, most, mean = float(finite.min()), float(finite.max()), float(finite.mean())
    return ResultView(name, kind, shown, least, most, mean, picture_name), picture


def _png(array: Array) -> bytes | None:
    """Return a PNG of an array that has the shape of a picture; values beyond 0 to 1 are cut off."""
    if array.ndim not in (2, 3) or min(array.shape[:2]) < 2:
        return None
    step = max(1, -(-max(array.shape[:2]) // _SHOWN_SIDE))
    try:
        levels = as_levels(array[::step, ::step])
    except TileError:
        return None
    from PIL import Image  # slow to import, and only pictures need it

    buffer = io.BytesIO()
    Image.fromarray(levels).save(buffer, format="PNG", compress_level=1)
    return buffer.getvalue()
