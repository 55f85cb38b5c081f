"""Names of installed distributions, and of their entry points.

The properties of :class:`importlib.metadata.Distribution` parse all of a distribution's metadata each time, with
Python's e-mail package, which takes longer to load than everything else that is needed to find a back end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileir.core.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.metadata import Distribution, EntryPoint

_FILES: Final = ("METADATA", "PKG-INFO")
"""Possible files of a distribution's metadata: in an installed wheel, or in a source tree."""


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
    """Return the name of the distribution of an entry point; None if it has none."""
    return None if entry.dist is None else named(entry.dist)[0]


def distribution_of(entry: EntryPoint) -> str:
    """Return name and version of the distribution of an entry point, for messages."""
    return "an unknown distribution" if entry.dist is None else " ".join(named(entry.dist))


def version_of(name: str) -> str:
    """Return the version of the distribution with a name.

    Raises:
        importlib.metadata.PackageNotFoundError: It is not installed.
    """
    from importlib.metadata import distribution  # importing tileir must stay cheap

    return named(distribution(name))[1]


def installed(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group in all installed distributions, sorted, none of them loaded."""
    from importlib.metadata import entry_points  # importing tileir must stay cheap

    found = {(each.name, each.value, distribution_of(each)): each for each in entry_points(group=group)}
    return tuple(found[key] for key in sorted(found))


def loaded(
    noun: str,
    name: str,
    entries: Sequence[EntryPoint],
    wrong: Callable[[object], str | None],
    codes: tuple[str, str],
) -> object | BackendError:
    """Return the object of an entry point, or the reason why it cannot serve: foreign code may fail in any way.

    Args:
        noun: The noun for this kind in messages.
        name: Its name.
        entries: All entry points of this kind that have the name.
        wrong: Returns the reason why something cannot serve; None if it can.
        codes: The codes of a load failure, and of a name that several distributions provide.
    """
    if len(entries) > 1:
        both = " and ".join(f"{distribution_of(entry)} ({entry.value})" for entry in entries)
        return BackendError.of(codes[1], f"{noun} {name!r} is provided by {both}; uninstall one of them")
    subject = f"{noun} {name!r} of {distribution_of(entries[0])}"
    try:
        offer = entries[0].load()
        fault = wrong(offer)
    except BackendError as error:
        return BackendError(error.diagnostics)  # without a traceback, which keeps all frames of its callers
    except KeyboardInterrupt:  # of the user: the next request loads it again
        raise
    except BaseException as error:  # foreign code may fail in any way
        fault = f"cannot be loaded: {reason_of(error)}; reinstall, upgrade or uninstall it"
    return offer if fault is None else BackendError.of(codes[0], f"{subject} {fault}")


def reason_of(error: BaseException) -> str:
    """Return the message of a foreign error, whose own ``str`` may fail."""
    try:
        said = str(error)
    except Exception:  # foreign code may fail in any way
        said = "it cannot be shown"
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def logged(error: BackendError, logger: str) -> BackendError:
    """Log a skipped entry point when that is found; the result is kept, so that this happens once."""
    import logging  # for faults only

    logging.getLogger(logger).warning("skipped: %s", error.diagnostics[0].message)
    return error
