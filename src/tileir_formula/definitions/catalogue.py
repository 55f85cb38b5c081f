"""The functions that formulas can call: tileir's own, those of installed distributions, and those of files."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from tileir.core import ArgumentError, Diagnostic, TileError, attrs
from tileir_formula.definitions.function_file import read_functions
from tileir_formula.definitions.functions import Function

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "tileir.formulas"
"""Entry points of this group name the text of a file of functions, or a sequence of such texts and of
:class:`~tileir_formula.definitions.functions.Function`."""

FOLDER: Final = Path(__file__).parents[1] / "library"

Offer: TypeAlias = "str | Function"


@attrs.frozen
class Catalogue:
    """Functions by name, and failures to load.

    Attributes:
        functions: Callable functions.
        failures: The reason for each skipped entry point.
    """

    functions: Mapping[str, Function]
    failures: tuple[Diagnostic, ...] = ()

    def extended(self, functions: Iterable[Function]) -> Catalogue:
        """Return a catalogue with further functions, which stand before others of their names."""
        added = {function.name: function for function in functions}
        return Catalogue(MappingProxyType({**self.functions, **added}), self.failures)


def read_file(path: Path) -> tuple[Function, ...]:
    """Read a file of functions.

    Raises:
        ArgumentError: TIL901, it cannot be read, or is not UTF-8.
        TileError: A description in it breaks a rule.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise ArgumentError.of("TIL901", f"{path} cannot be read: {error}") from None
    return read_functions(text, str(path))


@cache
def own_functions() -> Mapping[str, Function]:
    """Return tileir's own functions, sorted by name."""
    functions = [function for path in sorted(FOLDER.glob("*.tile")) for function in read_file(path)]
    return MappingProxyType({function.name: function for function in sorted(functions, key=lambda each: each.name)})


@cache
def default_catalogue() -> Catalogue:
    """Return tileir's own functions and those of installed distributions; loaded once.

    Failing ones are skipped with a logged warning, so that they hide no other function.
    """
    from importlib.metadata import entry_points  # it loads the e-mail package, which few need

    return catalogue_of(sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)))


def catalogue_of(entries: Iterable[EntryPoint]) -> Catalogue:
    """Return tileir's own functions and those that entry points name."""
    functions = dict(own_functions())
    failures: list[Diagnostic] = []
    for entry in entries:
        try:
            offered = _load(entry)
        except TileError as error:
            failures.extend(error.diagnostics)
            continue
        for function in offered:
            if function.name in functions:
                message = f"{_subject(entry)} describes {function.name!r}, which exists before; it has to be renamed"
                failures.append(Diagnostic("TIL202", message))
            else:
                functions[function.name] = function
    for failure in failures:
        logging.getLogger("tileir.formula").warning("skipped: %s", failure.message)
    return Catalogue(MappingProxyType(functions), tuple(failures))


def _load(entry: EntryPoint) -> list[Function]:
    """Return the functions that an entry point names.

    Raises:
        TileError: It cannot be loaded, or is something else.

    """
    try:
        offer = entry.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # code of others may fail in any way
        message = f"{_subject(entry)} cannot be loaded: {type(error).__name__}; reinstall or uninstall it"
        raise ArgumentError.of("TIL226", message) from None
    offers: tuple[object, ...] = tuple(offer) if isinstance(offer, list | tuple) else (offer,)
    functions: list[Function] = []
    for each in offers:
        if isinstance(each, Function):
            functions.append(each)
        elif isinstance(each, str):
            functions.extend(read_functions(each, entry.value))
        else:
            message = f"{_subject(entry)} is a {type(each).__name__}; name the text of a file of functions"
            raise ArgumentError.of("TIL226", message)
    return functions


def _subject(entry: EntryPoint) -> str:
    return f"the entry point {entry.name!r} ({entry.value})"
