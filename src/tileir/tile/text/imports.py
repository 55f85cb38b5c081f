"""Files that a text imports functions from: beside it, or shipped by a package."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import truediv
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tileir.core import Diagnostic, ParseError, Span, TileError, VerifyError, attrs, fail, meant
from tileir.tile.text.file import File, Import
from tileir.tile.text.linking import Unit, check, units_of

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

SUFFIX: Final = ".tile"
"""How the names of files end that can be imported."""


@attrs.frozen
class Folder:
    """A folder of files, on disk or in a package, however it is stored.

    Attributes:
        root: The folder.
        prefix: What errors put before the names of files.
        is_installed: Whether it is that of a package, which installers may make of links.

    """

    root: Traversable
    prefix: str
    is_installed: bool = False

    @classmethod
    def at(cls, path: Path) -> Folder:
        """Return a folder on disk."""
        return cls(path, "" if path == Path() else f"{path}/")

    def file(self, parts: Sequence[str], span: Span) -> Found:
        """Return a file in it.

        Raises:
            TileError: TIL230, there is none, or a link leads out of the folder.

        """
        name = self.prefix + "/".join(parts)
        inside = reduce(truediv, parts[:-1], self.root)
        place = inside / parts[-1]
        try:
            if not self.is_installed and not Path(str(place)).resolve().is_relative_to(Path(str(self.root)).resolve()):
                raise fail("TIL230", f"{name} is a link out of the folder, from which nothing is read", span)
            if not place.is_file():
                raise fail("TIL230", f"there is no file {name}", span)
            text = place.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise fail("TIL230", f"cannot read {name}: {error}", span) from None
        key = str(place.resolve() if isinstance(place, Path) else place)
        prefix = self.prefix + "".join(f"{part}/" for part in parts[:-1])
        return Found(key, name, text, attrs.evolve(self, root=inside, prefix=prefix))


@attrs.frozen
class Found:
    """A file that was read: what tells it from others, what errors call it, its text, and the folder that it is in."""

    key: str
    name: str
    text: str
    folder: Folder


def imported(file: File, folder: Folder | None, read: Callable[[str, str], File]) -> Mapping[str, Unit]:
    """Return the functions that a text imports, by the names that it has for them.

    Args:
        file: What was read of the text.
        folder: The folder that it is in; None for a text that is in none.
        read: Reads a text, with what errors call it.

    Raises:
        TileError: TIL230, something is not there.
        ParseError: The text of a file is wrong.
        VerifyError: A function in a file breaks a rule.

    """
    scope: dict[str, Unit] = {}
    files: dict[str, tuple[File, tuple[Unit, ...], Import]] = {}
    pending: list[tuple[File, Folder | None, dict[str, Unit]]] = [(file, folder, scope)]
    while pending:
        current, here, names = pending.pop()
        for each in current.imports:
            found = _found(each, here)
            if found.key not in files:
                other, inside = _read(found, each, read), dict[str, Unit]()
                files[found.key] = other, units_of(other, inside), each
                pending.append((other, found.folder, inside))
            names[each.name] = _function(each, files[found.key][1], found.name)
    for other, units, each in files.values():
        try:
            check(other, units)
        except VerifyError as error:
            raise VerifyError(_noted(error, each)) from None
    return scope


def _read(found: Found, each: Import, read: Callable[[str, str], File]) -> File:
    try:
        return read(found.text, found.name)
    except ParseError as error:
        raise ParseError(_noted(error, each)) from None


def _noted(error: TileError, each: Import) -> list[Diagnostic]:
    note = f"imported at {each.path_span.source.name}:{each.path_span.line}"
    return [attrs.evolve(fault, notes=(*fault.notes, note)) for fault in error.diagnostics]


def _function(each: Import, units: Sequence[Unit], name: str) -> Unit:
    known = {unit.name: unit for unit in units if unit.name}
    found = known.get(each.function)
    if found is None:
        near = meant(each.function, known)
        hint = f"it has {', '.join(known) or 'none that has a name'}"
        hint = hint if near is None else f"did you mean {near!r}?"
        raise fail("TIL230", f"{name} has no function {each.function!r}; {hint}", each.span)
    return found


def _found(each: Import, folder: Folder | None) -> Found:
    package, colon, inside = each.path.rpartition(":")
    parts = inside.split("/")
    if not inside.endswith(SUFFIX) or "\\" in inside or not {"", ".", ".."}.isdisjoint(parts):
        message = (
            f"{each.path!r:.80} is no file to import from; write the path of one below the folder of this text, as in"
            f" 'layers{SUFFIX}' or 'nets/layers{SUFFIX}', or one of a package, 'package:layers{SUFFIX}'"
        )
        raise fail("TIL230", message, each.path_span)
    if colon:
        return _package(package, parts, each.path_span).file(parts, each.path_span)
    if folder is None:
        message = (
            "this text is in no folder, so that nothing is beside it: read it from its pathlib.Path, or say"
            " tileir.parse(text, folder=…)"
        )
        raise fail("TIL230", message, each.path_span)
    return folder.file(parts, each.path_span)


def _package(name: str, parts: Sequence[str], span: Span) -> Folder:
    """Return the folder of a package that has a file, if one of its folders does; no code of the package is run."""
    from importlib import resources, util  # few programs import anything

    try:
        spec = util.find_spec(name) if name.isidentifier() else None
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.submodule_search_locations is None:
        raise fail(
            "TIL230", f"there is no package {name!r:.80}; the word in front of ':' is that of an installed one", span
        )
    places = [Path(each) for each in spec.submodule_search_locations]
    found = [place for place in places if place.joinpath(*parts).is_file()] or [p for p in places if p.is_dir()]
    root = found[0] if found else resources.files(util.module_from_spec(spec))
    return Folder(root, f"{name}:", is_installed=True)
