"""Finds back ends by their entry points. A broken one hides no other."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import attrs

from tileir.core.errors import BackendError, Diagnostic
from tileir.core.forking import renew_in_children
from tileir.runtime.interface import API_VERSION, Backend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from importlib.metadata import EntryPoint

    from tileir.runtime.interface import DeviceInfo

GROUP: Final = "tileir.backends"
"""Entry points of this group have the back end's name, and name a :class:`~tileir.runtime.interface.Backend`."""

T = TypeVar("T")

AnyBackend: TypeAlias = Backend[Any]


def installed() -> tuple[EntryPoint, ...]:
    """Return the entry points of all installed distributions, sorted, none of them loaded."""
    from importlib.metadata import entry_points  # it loads the e-mail package, which importing tileir should not

    found = {(e.name, e.value, _distribution(e)): e for e in entry_points(group=GROUP)}
    return tuple(found[key] for key in sorted(found))


@attrs.define(eq=False)
class Registry:
    """The back ends of one context, each loaded when it is first asked for. Thread safe.

    Attributes:
        find: Lists the entry points; called once.

    """

    find: Callable[[], Iterable[EntryPoint]] = installed
    _lock: threading.RLock = attrs.field(factory=threading.RLock, init=False)
    _entries: dict[str, list[EntryPoint]] | None = attrs.field(default=None, init=False)
    _loaded: dict[str, AnyBackend | BackendError] = attrs.field(factory=dict, init=False)
    _devices: dict[str, tuple[DeviceInfo, ...] | BackendError] = attrs.field(factory=dict, init=False)

    def names(self) -> tuple[str, ...]:
        """Return the names of the back ends that are installed, sorted; working or not."""
        with self._lock:
            if self._entries is None:
                self._entries = {}
                for entry in self.find():
                    self._entries.setdefault(entry.name, []).append(entry)
            return tuple(sorted(self._entries))

    def backend(self, name: str) -> AnyBackend:
        """Return a back end.

        Raises:
            BackendError: TIL801, there is none of that name; TIL802, it cannot be loaded; TIL803, two
                distributions provide it.

        """
        with self._lock:
            names = self.names()
            if name not in self._loaded:
                entries = [] if self._entries is None else self._entries.get(name, [])
                if not entries:
                    raise _error("TIL801", f"there is no back end {name!r}; installed are {', '.join(names) or 'none'}")
                self._loaded[name] = _load(name, entries)
            return _or_raise(self._loaded[name])

    def __attrs_post_init__(self) -> None:
        renew_in_children(self)

    def renew(self) -> None:
        """Start with a lock that no thread of the parent holds."""
        self._lock = threading.RLock()

    def devices(self, name: str) -> tuple[DeviceInfo, ...]:
        """Return the devices that a back end sees; asked once.

        Raises:
            BackendError: it cannot be loaded, or says why it has no device.

        """
        with self._lock:
            if name not in self._devices:
                self._devices[name] = _list_devices(self.backend(name))
            return _or_raise(self._devices[name])


def _load(name: str, entries: list[EntryPoint]) -> AnyBackend | BackendError:
    if len(entries) > 1:
        both = " and ".join(f"{_distribution(entry)} ({entry.value})" for entry in entries)
        return _error("TIL803", f"back end {name!r} is provided by {both}; uninstall one of them")
    entry = entries[0]
    try:
        loaded = entry.load()
    except BackendError as error:
        return error
    except Exception as error:  # code of others may fail in any way, and must not hide the other back ends
        reason = f"{type(error).__name__}: {error}"
        return _error("TIL802", f"back end {name!r} of {_distribution(entry)} cannot be loaded: {reason}")
    if not isinstance(loaded, Backend):
        kind = type(loaded).__name__
        return _error("TIL802", f"{entry.value} of {_distribution(entry)} is of type {kind}, not Backend")
    if loaded.api_version != API_VERSION:
        versions = f"interface version {loaded.api_version}, and this tileir has {API_VERSION}"
        return _error("TIL802", f"back end {name!r} of {_distribution(entry)} is written for {versions}")
    return loaded


def _list_devices(backend: AnyBackend) -> tuple[DeviceInfo, ...] | BackendError:
    try:
        return tuple(backend.devices())
    except BackendError as error:
        return error
    except Exception as error:  # as above
        reason = f"{type(error).__name__}: {error}"
        return _error("TIL802", f"back end {backend.name!r} cannot list its devices: {reason}")


def _or_raise(value: T | BackendError) -> T:
    if isinstance(value, BackendError):
        raise value
    return value


def _distribution(entry: EntryPoint) -> str:
    return "an unknown distribution" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"


def _error(code: str, message: str) -> BackendError:
    return BackendError((Diagnostic(code, message),))
