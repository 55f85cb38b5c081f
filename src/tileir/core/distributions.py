"""What installed distributions call themselves.

The properties of :class:`importlib.metadata.Distribution` parse all of a distribution's metadata anew each time, with
Python's e-mail package, which takes longer to load than all else that it takes to find a back end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

_FILES: Final = ("METADATA", "PKG-INFO")
"""Where a distribution's metadata may stand: in a wheel that was installed, or in a source tree."""


def named(distribution: Distribution) -> tuple[str, str]:
    """Return name and version of a distribution."""
    text = next(filter(None, map(distribution.read_text, _FILES)), "")
    fields: dict[str, str] = {}
    for line in text.splitlines():
        if not line:  # the headers end here
            break
        key, _, value = line.partition(":")
        fields.setdefault(key.lower(), value.strip())
    if "name" in fields and "version" in fields:
        return fields["name"], fields["version"]
    return distribution.name, distribution.version


def name_of(entry: EntryPoint) -> str | None:
    """Return the name of the distribution of an entry point; None where it has none."""
    return None if entry.dist is None else named(entry.dist)[0]


def distribution_of(entry: EntryPoint) -> str:
    """Return name and version of the distribution of an entry point, for people."""
    return "an unknown distribution" if entry.dist is None else " ".join(named(entry.dist))


def version_of(name: str) -> str:
    """Return the version of the distribution with a name.

    Raises:
        importlib.metadata.PackageNotFoundError: It is not installed.
    """
    from importlib.metadata import distribution  # importing tileir must stay cheap

    return named(distribution(name))[1]
