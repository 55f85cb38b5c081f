"""Functions of one text, by their names, and its imports."""

from __future__ import annotations

from tileir.core import Span, attrs
from tileir.tile.ir import Function


@attrs.frozen
class Definition:
    """A function, and its name if it has one; ``span`` is that of the name, or of a function without one."""

    name: str | None
    function: Function
    span: Span | None


@attrs.frozen
class Import:
    """``import function as name from "path";``, for one function.

    Attributes:
        function: Its name in the file at ``path``.
        name: Its name here.
        path: The file: ``folder/file.tile`` beside this one, or ``package:folder/file.tile``.
        span: The place of the function.
        path_span: The place of the path.
    """

    function: str
    name: str
    path: str
    span: Span
    path_span: Span


@attrs.frozen
class File:
    """Functions of a text in order, and the functions of other files that they may call."""

    definitions: tuple[Definition, ...]
    imports: tuple[Import, ...] = ()
