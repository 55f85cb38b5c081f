"""Tracebacks that end at the user's call of tileir: the message and the user's own line explain the error."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FunctionType
from typing import Final, ParamSpec, TypeVar

from tileir.core.errors import TileError
from tileir.core.text.advice import meant

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound="type[object]")
F = TypeVar("F", bound="Callable[..., object]")

_PACKAGES: Final = ("tileir", "tileir_cli", "tileir_formula", "tileir_performance", "tileir_studio", "tileir_testing")
_ROOTS: Final = tuple(str(Path(__file__).parents[3] / package) + os.sep for package in _PACKAGES)
_LIBRARY: Final = str(Path(os.__file__).parent) + os.sep
"""As they were imported, maybe by a link: code has these paths."""


def with_short_traceback(function: Callable[P, R]) -> Callable[P, R]:
    """Return ``function``, whose errors show one frame of tileir, since inner frames do not help the user.

    Frames are kept if a function of the user is among them, and if the error is no :class:`TileError`. IPython and
    pytest leave the one frame out, too. The error for an unknown argument suggests a similar one.
    """

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        __tracebackhide__ = True
        try:
            return function(*args, **kwargs)
        except TileError as error:
            raise shortened(error)  # noqa: B904  it is the same error
        except TypeError as error:
            wrong = _misspelt(function, kwargs, error)
            if wrong is None:
                raise
            raise wrong from None

    return called


def made_at_the_call(cls: C) -> C:
    """Do this for the constructor of a class: its own one, not the one that replaces it at the first call."""
    own = getattr(cls.__init__, "__wrapped__", cls.__init__)
    cls.__init__ = with_short_traceback(own)  # type: ignore[method-assign]  # it is that of the class
    return cls


def with_whole_traceback(function: F) -> F:
    """Exempt a property that nearly all code reads, and that hardly ever fails, from :func:`methods_at_the_call`."""
    function.__wrapped__ = function  # type: ignore[attr-defined]  # as if it were wrapped
    return function


def methods_at_the_call(cls: C) -> C:
    """Do this for the public methods and properties that a class defines, in place; these call its other methods."""
    for name, member in tuple(vars(cls).items()):
        if name.startswith("_") and not name.startswith("__"):
            continue
        if isinstance(member, FunctionType) and _is_ours(member):
            setattr(cls, name, with_short_traceback(member))
        elif isinstance(member, property) and isinstance(member.fget, FunctionType) and _is_ours(member.fget):
            setattr(cls, name, property(with_short_traceback(member.fget), member.fset, member.fdel, member.__doc__))
    return cls


def shortened(error: TileError) -> TileError:
    """Return the error without the frames of its traceback, if all are tileir's, or Python's own between these."""
    traceback = error.__traceback__
    while traceback is not None:
        if not is_inside(traceback.tb_frame.f_code.co_filename):
            return error
        traceback = traceback.tb_next
    return error.with_traceback(None)


def is_inside(file: str) -> bool:
    """Return whether a file is tileir's, or of Python's own library, which has cached properties, for example."""
    return file.startswith(_ROOTS) or (file.startswith(_LIBRARY) and "-packages" not in file)


def _misspelt(function: Callable[..., object], given: Mapping[str, object], error: TypeError) -> TypeError | None:
    """Return Python's error with the argument that a name may have meant; None for any other error."""
    if error.__traceback__ is None or error.__traceback__.tb_next is not None:
        return None  # the function was entered
    import inspect  # for faults only, and slow to load

    parameters = inspect.signature(function).parameters.values()
    known = [each.name for each in parameters if each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD)]
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return None
    unknown = next((name for name in given if name not in known), None)
    found = None if unknown is None else meant(unknown, known)
    if found is None or found in given:
        return None
    called = function.__qualname__.removesuffix(".__init__")
    return TypeError(f"{called}() has no argument {unknown!r}; did you mean {found!r}?")


def _is_ours(function: FunctionType) -> bool:
    """Return whether a function is hand-written and not yet wrapped."""
    return function.__code__.co_filename.startswith(_ROOTS) and not hasattr(function, "__wrapped__")
