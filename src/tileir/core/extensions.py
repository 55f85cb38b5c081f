"""Things by name from anybody's wheel: passes, schedules, targets, operations, listings and commands.

Each kind has a group of entry points, beside ``tileir.backends`` and ``tileir.formulas``. An entry point is loaded when
its name is first used. What cannot be loaded hides nothing else: who names it gets the reason, and whoever lists what
there is skips it, with a warning in the log. What comes with tileir is looked at first, and cannot be replaced.
"""

from __future__ import annotations

import enum
import threading
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from tileir.core.distributions import distribution_of
from tileir.core.errors import BackendError
from tileir.core.forking import Renewable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from importlib.metadata import EntryPoint

    Found: TypeAlias = Mapping[str, tuple[EntryPoint, ...]]


class Kind(enum.Enum):
    """What an entry point offers; the value is its group."""

    PASS = "tileir.passes"
    SCHEDULE = "tileir.schedules"
    TARGET = "tileir.targets"
    OPERATION = "tileir.operations"
    LISTING = "tileir.listings"
    COMMAND = "tileir.commands"

    __hash__ = object.__hash__

    @property
    def noun(self) -> str:
        """What messages call one of them."""
        return self.name.lower()


def installed(kind: Kind) -> tuple[EntryPoint, ...]:
    """Return the entry points of a kind in all installed distributions, none of them loaded."""
    from importlib.metadata import entry_points  # it is slow to load, and few need it

    found = {(each.name, each.value, distribution_of(each)): each for each in entry_points(group=kind.value)}
    return tuple(found[key] for key in sorted(found))


@attrs.define(eq=False)
class Extensions(Renewable):
    """What is installed of each kind, found when it is first asked for. Thread safe.

    Attributes:
        find: Lists the entry points of a kind; called once for each.

    """

    find: Callable[[Kind], Iterable[EntryPoint]] = installed
    _lock: threading.RLock = attrs.field(factory=threading.RLock, init=False)
    _found: dict[Kind, Found] = attrs.field(factory=dict, init=False)
    _loaded: dict[tuple[Kind, str], object] = attrs.field(factory=dict, init=False)

    def renew(self) -> None:
        """Start with a lock that no thread of the parent holds."""
        self._lock = threading.RLock()

    def forget(self) -> None:
        """Look again at what is installed, as after something was installed into the running process."""
        with self._lock:
            self._found.clear()
            self._loaded.clear()

    def entries(self, kind: Kind) -> Found:
        """Return the entry points of a kind by their names."""
        with self._lock:
            if kind not in self._found:
                found: dict[str, tuple[EntryPoint, ...]] = {}
                for entry in self.find(kind):
                    found[entry.name] = (*found.get(entry.name, ()), entry)
                self._found[kind] = found
            return self._found[kind]

    def names(self, kind: Kind) -> tuple[str, ...]:
        """Return the names of a kind, sorted; working or not."""
        return tuple(sorted(self.entries(kind)))

    def get(self, kind: Kind, name: str, wrong: Callable[[object], str | None]) -> object:
        """Return what an entry point names.

        Args:
            kind: What is asked for.
            name: A name of :meth:`names`.
            wrong: Says why something cannot serve; None where it can.

        Raises:
            BackendError: TIL811, it cannot be loaded, or cannot serve; TIL812, two distributions provide it.

        """
        with self._lock:
            key = (kind, name)
            if key not in self._loaded:
                self._loaded[key] = _load(kind, name, self.entries(kind)[name], wrong)
            loaded = self._loaded[key]
        if isinstance(loaded, BackendError):
            raise BackendError(loaded.diagnostics)  # an error of its own: a traceback keeps all that its callers hold
        return loaded


EXTENSIONS: Final = Extensions()
"""What the distributions offer that are installed beside tileir."""


def _load(
    kind: Kind, name: str, entries: tuple[EntryPoint, ...], wrong: Callable[[object], str | None]
) -> object | BackendError:
    if len(entries) > 1:
        both = " and ".join(f"{distribution_of(entry)} ({entry.value})" for entry in entries)
        return _failure("TIL812", f"{kind.noun} {name!r} is provided by {both}; uninstall one of them")
    (entry,) = entries
    subject = f"{kind.noun} {name!r} of {distribution_of(entry)}"
    try:
        loaded = entry.load()
        fault = wrong(loaded)
    except KeyboardInterrupt:  # the user's: it is loaded again when it is asked for again
        raise
    except BaseException as error:  # code of others may fail in any way, even exit, and must not hide anything else
        reason = f"{type(error).__name__}: {_said(error)}"
        return _failure("TIL811", f"{subject} cannot be loaded: {reason}; reinstall, upgrade or uninstall it")
    return loaded if fault is None else _failure("TIL811", f"{subject} {fault}")


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # some errors of others cannot even be shown
        return "it cannot be shown"


def _failure(code: str, message: str) -> BackendError:
    import logging  # for faults only

    logging.getLogger(__name__).warning("skipped: %s", message)
    return BackendError.of(code, message)
