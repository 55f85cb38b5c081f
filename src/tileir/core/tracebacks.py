"""Tracebacks that end where the user called tileir: what is wrong is in the message, and in the user's own line."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from tileir.core.errors import TileError

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound="type[object]")

_ROOT: Final = str(Path(__file__).resolve().parents[1]) + os.sep


def at_the_call(function: Callable[P, R]) -> Callable[P, R]:
    """Return ``function``, whose errors show one frame of tileir: those inside of it tell the user nothing.

    Frames stay where a function of the user's is among them, and where the error is no :class:`TileError`.
    """

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TileError as error:
            raise shortened(error)  # noqa: B904  it is the same error

    return called


def methods_at_the_call(cls: C) -> C:
    """Do so with all methods and properties that a class defines, in place."""
    for name, member in tuple(vars(cls).items()):
        if isinstance(member, FunctionType) and _is_ours(member):
            setattr(cls, name, at_the_call(member))
        elif isinstance(member, property) and isinstance(member.fget, FunctionType) and _is_ours(member.fget):
            setattr(cls, name, property(at_the_call(member.fget), member.fset, member.fdel, member.__doc__))
    return cls


def shortened(error: TileError) -> TileError:
    """Return the error without the frames of its traceback, if all of them are tileir's."""
    traceback = error.__traceback__
    while traceback is not None:
        if not traceback.tb_frame.f_code.co_filename.startswith(_ROOT):
            return error
        traceback = traceback.tb_next
    return error.with_traceback(None)


def _is_ours(function: FunctionType) -> bool:
    """Return whether somebody wrote a function, and nobody has wrapped it yet."""
    return function.__code__.co_filename.startswith(_ROOT) and not hasattr(function, "__wrapped__")
