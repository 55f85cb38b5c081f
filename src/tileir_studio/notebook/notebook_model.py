"""Model of the designer's widget in the kernel: its text, and answers to the jobs of its page."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import anywidget
import numpy as np
import traitlets

from tileir.core import TileError, fail
from tileir.runtime import to_array
from tileir_formula.running.crafting import CraftedFormula, craft
from tileir_formula.text.parser import parse
from tileir_studio.design.designer import DESIGNER
from tileir_studio.design.sample import sample_picture
from tileir_studio.serve.jobs import answer, faults_event
from tileir_studio.serve.session import Event, Session
from tileir_studio.serve.uploads import keep, store

_STATIC: Final = files("tileir_studio") / "static"
_JOBS: Final = frozenset({*DESIGNER, "devices"})
"""Jobs of the page; those of the explorer are not among them."""

_RANKS: Final = (2, 3)


class FormulaDesigner(anywidget.AnyWidget):
    """The designer as a widget.

    Attributes:
        value: The text of the formula, shared with the page.

    """

    _esm = (_STATIC / "widget.js").read_text("utf-8")
    _css = (_STATIC / "widget.css").read_text("utf-8")
    value = traitlets.Unicode().tag(sync=True)
    _start = traitlets.Dict().tag(sync=True)

    def __init__(self, text: str, contents: Sequence[bytes]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tileir-designer-")
        self._session = Session(Path(self._folder.name))
        names = [keep(self._session.folder, content) for content in contents or [sample_picture()]]
        super().__init__(value=text, _start=_start_of(text, names, given=bool(contents)))
        self.on_msg(self._answer)

    def formula(self, **options: Any) -> CraftedFormula:
        """Return the text as a formula that runs on pictures; options and errors as for :func:`tileir.craft`."""
        return craft(self.value, **options)

    def close(self) -> None:
        """End the widget, and forget its pictures."""
        super().close()
        self._folder.cleanup()

    def _answer(self, _: Any, asked: Mapping[str, Any], buffers: Sequence[bytes | memoryview]) -> None:
        """Send the events of a job, with the number that the page gave it."""
        for event in self._events(asked, buffers):
            said = {"number": asked.get("number"), "event": event.name, "view": event.view}
            self.send({**said, "names": list(event.pictures)}, list(event.pictures.values()))
        self.send({"number": asked.get("number"), "event": "done", "view": None, "names": []}, [])

    def _events(self, asked: Mapping[str, Any], buffers: Sequence[bytes | memoryview]) -> Iterator[Event]:
        job, request = asked.get("job"), asked.get("request", {})
        if job == "upload" and buffers:
            try:
                name = store(self._session.folder, bytes(buffers[0]))
            except TileError as error:
                yield faults_event(error)
                return
            yield from answer(self._session, {"job": "upload", "upload": name})
        elif job in _JOBS and isinstance(request, dict):
            yield from answer(self._session, {**request, "job": job})
        else:
            yield faults_event(fail("TIL913", f"the designer has no job {str(job)[:64]!r}"))


def _start_of(text: str, names: Sequence[str], *, given: bool) -> dict[str, Any]:
    """Return the data that the page begins with: a picture, and one for each further input."""
    try:
        inputs = parse(text).inputs
    except TileError:
        inputs = ()
    further = dict(zip(inputs, names, strict=False)) if given else {}
    called = {name: f"picture {number + 1}" for number, name in enumerate(names)} if given else {}
    return {"name": "", "picture": names[0], "files": called, "inputs": further, "view": "designer"}


def contents_of(pictures: Sequence[Any]) -> list[bytes]:
    """Return pictures as ``.npy`` files; raises TileError, TIL912, for an array that is no picture."""
    return [_npy(number, each) for number, each in enumerate(pictures)]


def _npy(number: int, picture: Any) -> bytes:
    array = to_array(f"picture {number}", picture)
    if array.ndim not in _RANKS or not array.size:
        raise fail("TIL912", f"an array of shape {list(array.shape)} is no picture; give one with two or three axes")
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()
