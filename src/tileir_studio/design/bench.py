"""Cache of a worker for formulas: pictures as they were read, and formulas as they were crafted."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np

from tileir.core import TileError, attrs, fail
from tileir_cli.pictures.files import as_levels
from tileir_formula.running.crafting import CraftedFormula, craft
from tileir_studio.serve.uploads import read
from tileir_studio.views.subject import text_of, texts_of, word_or_none

Array = np.ndarray[Any, np.dtype[Any]]

_PICTURES: Final = 6
_FORMULAS: Final = 12
_RANKS: Final = (2, 3)


@attrs.frozen
class Assignment:
    """A formula, the pictures that it reads, and its device.

    Attributes:
        formula: Crafted; with one live parameter where a control is dragged.
        pictures: Levels from 0 to 255, in u8, for each input.
        dragged: An equal formula from the last move of a control, with that parameter live; None where there was none.
    """

    formula: CraftedFormula
    pictures: tuple[Array, ...]
    dragged: CraftedFormula | None = None


@attrs.define
class Bench:
    """The pictures and formulas that were used last."""

    _pictures: OrderedDict[str, Array] = attrs.field(factory=OrderedDict, init=False)
    _formulas: OrderedDict[tuple[str, str | None], CraftedFormula] = attrs.field(factory=OrderedDict, init=False)
    _dragged: CraftedFormula | None = attrs.field(default=None, init=False)

    def assignment(self, request: Mapping[str, Any], folder: Path) -> Assignment:
        """Return the formula and the pictures of a request.

        ``text`` is the formula, ``inputs`` names an upload for each input, ``device`` is the id of a device, and
        ``path`` and ``value`` are of a control that is dragged, whose value is an argument then.

        Raises:
            TileError: TIL913, the request is of another form; TIL912, an input has no picture, or one that cannot be
                read; or any error of crafting.
        """
        formula = self.crafted(text_of(request), word_or_none(request, "device"))
        path = word_or_none(request, "path")
        dragged = None
        if path is None:
            last = self._dragged
            dragged = last if last is not None and (last.text, last.device) == (formula.text, formula.device) else None
        else:
            formula = self._dragged = self._moved(formula, path, word_or_none(request, "value") or "")
        given = texts_of(request, "inputs")
        missing = [name for name in formula.formula.inputs if name not in given]
        if missing:
            raise fail("TIL912", f"give a picture for each input; {', '.join(missing)} has none")
        pictures = tuple(self.picture(given[name], folder) for name in formula.formula.inputs)
        return Assignment(formula, pictures, dragged)

    def _moved(self, formula: CraftedFormula, path: str, value: str) -> CraftedFormula:
        """Return a formula with the value of a control that is dragged, reusing the kernels of the last move.

        The page sends a text with the new value for each move; the formula of the last move tells whether all else is
        equal.
        """
        moved, last = formula.with_value(path, value), self._dragged
        if last is None or last.device != moved.device or last.live != moved.live:
            return moved
        with suppress(TileError):
            continued = last.with_value(path, value)
            return continued if continued.text == moved.text else moved
        return moved

    def crafted(self, text: str, device: str | None) -> CraftedFormula:
        """Return a formula, from memory where it is there; raises as :func:`tileir.craft`."""
        key = (text, device)
        found = self._formulas.pop(key, None)
        self._formulas[key] = formula = craft(text, device=device) if found is None else found
        while len(self._formulas) > _FORMULAS:
            self._formulas.popitem(last=False)
        return formula

    def picture(self, name: str, folder: Path) -> Array:
        """Return the levels of an upload, from memory where they are there.

        Raises:
            TileError: TIL912, there is no such upload, or it is no picture.
        """
        found = self._pictures.pop(name, None)
        self._pictures[name] = picture = _levels(read(folder, name)) if found is None else found
        while len(self._pictures) > _PICTURES:
            self._pictures.popitem(last=False)
        return picture


def _levels(array: Array) -> Array:
    if array.ndim not in _RANKS or not array.size:
        raise fail("TIL912", f"an array of shape {list(array.shape)} is no picture; give one with two or three axes")
    levels = as_levels(array)
    levels.flags.writeable = False
    return levels
