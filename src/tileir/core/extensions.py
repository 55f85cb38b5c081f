"""Named extensions of any distribution: passes, schedules, targets, operations, commands, languages, and more.

Each kind has a group of entry points, beside ``tileir.backends`` and ``tileir.formulas``. An entry point is loaded when
its name is first used. A broken one hides no others: its users get the reason, and listings skip it, with a warning in
the log. Names that come with tileir take precedence and cannot be replaced.
"""

from __future__ import annotations

import enum
import threading
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from tileir.core import distributions
from tileir.core.distributions import logged
from tileir.core.errors import BackendError
from tileir.core.graphs.grouping import grouped
from tileir.core.process.forking import Renewable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from importlib.metadata import EntryPoint

    Found: TypeAlias = Mapping[str, Sequence[EntryPoint]]

_CODES: Final = ("TIL811", "TIL812")


class Kind(enum.Enum):
    """Kinds of things that entry points offer; the value is their group."""

    PASS = "tileir.passes"
    SCHEDULE = "tileir.schedules"
    TARGET = "tileir.targets"
    OPERATION = "tileir.operations"
    LISTING = "tileir.listings"
    COMMAND = "tileir.commands"
    LANGUAGE = "tileir.languages"
    FRONTEND = "tileir.frontends"
    TRANSPORT = "tileir.transports"

    __hash__ = object.__hash__

    @property
    def noun(self) -> str:
        """The word for one of them in messages."""
        return "front end" if self is Kind.FRONTEND else self.name.lower()


def installed(kind: Kind) -> tuple[EntryPoint, ...]:
    """Return the entry points of a kind in all installed distributions, none of them loaded."""
    return distributions.installed(kind.value)


@attrs.define(eq=False)
class Extensions(Renewable):
    """Installed extensions of each kind, found at the first request. Thread safe.

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
        """Search again, for example after an installation into the running process."""
        with self._lock:
            self._found.clear()
            self._loaded.clear()

    def entries(self, kind: Kind) -> Found:
        """Return the entry points of a kind by their names."""
        with self._lock:
            if kind not in self._found:
                self._found[kind] = grouped((entry.name, entry) for entry in self.find(kind))
            return self._found[kind]

    def names(self, kind: Kind) -> tuple[str, ...]:
        """Return the names of a kind, sorted; working or not."""
        return tuple(sorted(self.entries(kind)))

    def get(self, kind: Kind, name: str, wrong: Callable[[object], str | None]) -> object:
        """Return the object of an entry point.

        Args:
            kind: The requested kind.
            name: A name of :meth:`names`.
            wrong: Returns the reason why something cannot serve; None if it can.

        Raises:
            BackendError: TIL811, it cannot be loaded, or cannot serve; TIL812, two distributions provide it.
        """
        with self._lock:
            key = (kind, name)
            if key not in self._loaded:
                found = distributions.loaded(kind.noun, name, self.entries(kind)[name], wrong, _CODES)
                self._loaded[key] = logged(found, __name__) if isinstance(found, BackendError) else found
            loaded = self._loaded[key]
        if isinstance(loaded, BackendError):
            raise BackendError(loaded.diagnostics)  # an error of its own: a traceback keeps all frames of its callers
        return loaded


EXTENSIONS: Final = Extensions()
"""The offers of installed distributions other than tileir."""
