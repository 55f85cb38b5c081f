"""Discovery of back ends by entry points or registration. A broken back end does not hide others."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

import attrs

from tileir.core import BackendError, Renewable, distributions, grouped
from tileir.core.distributions import loaded, logged, name_of, reason_of
from tileir.runtime.interface import API_VERSION, TOP_RANK, Backend, DeviceInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from importlib.metadata import EntryPoint

GROUP: Final = "tileir.backends"
"""Group of the entry points: each has the name of a back end and refers to a
:class:`~tileir.runtime.interface.Backend`.
"""

OWN: Final = "tileir"
"""Distribution with the back ends that are asked first if the caller names no device."""

T = TypeVar("T")

AnyBackend: TypeAlias = Backend[Any]


def installed() -> tuple[EntryPoint, ...]:
    """Return the entry points of all installed distributions, sorted, without loading them."""
    return distributions.installed(GROUP)


@attrs.define(eq=False)
class Registry(Renewable):
    """Back ends of one context, each loaded on first use. Thread safe.

    Registered back ends precede installed back ends with equal names. A back end that cannot be loaded, or fails to
    list its devices, is skipped and logged once, as a warning of the logger ``tileir.runtime.discovery``.

    Attributes:
        find: Lists the entry points; called once.
    """

    find: Callable[[], Iterable[EntryPoint]] = installed
    _lock: threading.RLock = attrs.field(factory=threading.RLock, init=False)
    _entries: dict[str, list[EntryPoint]] | None = attrs.field(default=None, init=False)
    _registered: dict[str, AnyBackend] = attrs.field(factory=dict, init=False)
    _loaded: dict[str, AnyBackend | BackendError] = attrs.field(factory=dict, init=False)
    _devices: dict[str, tuple[DeviceInfo, ...] | BackendError] = attrs.field(factory=dict, init=False)

    @classmethod
    def of(cls, *backends: AnyBackend) -> Registry:
        """Return a registry of only these back ends; raises the errors of :meth:`register`."""
        registry = cls(find=tuple)
        for backend in backends:
            registry.register(backend)
        return registry

    def register(self, backend: AnyBackend) -> None:
        """Add a back end without entry point; it replaces an installed one with the name.

        Raises:
            BackendError: TIL802, it is not a back end, or was written for another interface; TIL803, a back end with
                that name was registered before, or is in use already.
        """
        if (fault := _fault(backend)) is not None:
            raise BackendError.of("TIL802", f"what was registered {fault}")
        with self._lock:
            name = backend.name
            if name in self._registered:
                raise BackendError.of("TIL803", f"a back end {name!r} was registered before; register each name once")
            if name in self._loaded:
                raise BackendError.of(
                    "TIL803", f"back end {name!r} is in use already; register yours before the first use"
                )
            self._registered[name] = backend

    def names(self) -> tuple[str, ...]:
        """Return the names of all back ends, sorted, including those of broken back ends."""
        with self._lock:
            return tuple(sorted({*self._installed(), *self._registered}))

    def backend(self, name: str) -> AnyBackend:
        """Return a back end.

        Raises:
            BackendError: TIL801, there is none with that name; TIL802, it cannot be loaded; TIL803, two distributions
                provide it.
        """
        with self._lock:
            if name not in self._loaded:
                self._loaded[name] = self._load(name)
            return _or_raise(self._loaded[name])

    def devices(self, name: str) -> tuple[DeviceInfo, ...]:
        """Return the devices of a back end; cached.

        Raises:
            BackendError: The back end cannot be loaded, or gives a reason why it has no device.
        """
        with self._lock:
            if name not in self._devices:
                self._devices[name] = _list_devices(self.backend(name))
            return _or_raise(self._devices[name])

    def default(self) -> DeviceInfo | None:
        """Return the first device of the back end with the highest rank that has a device; negative ranks are excluded.

        Other distributions are loaded only if no back end of tileir itself has the top rank and a device, so that an
        installed plugin changes nothing and costs nothing.
        """
        with self._lock:
            ranked: list[tuple[int, str]] = []
            for rank, name in self._ranks():
                if rank >= TOP_RANK and self._offered(name):
                    return self._offered(name)[0]
                ranked.append((-rank, name))
            for rank, name in sorted(ranked):
                if rank <= 0 and self._offered(name):
                    return self._offered(name)[0]
        return None

    def renew(self) -> None:
        """Start with a fresh lock; a thread of the parent may hold the old one."""
        self._lock = threading.RLock()

    def _installed(self) -> dict[str, list[EntryPoint]]:
        """Return the entry points of each name, tileir's own first, as their distributions' files tell."""
        if self._entries is None:
            found = grouped((entry.name, entry) for entry in self.find())
            others = {name for name, entries in found.items() if OWN not in map(name_of, entries)}
            self._entries = {name: found[name] for name in sorted(found, key=lambda name: (name in others, name))}
        return self._entries

    def _load(self, name: str) -> AnyBackend | BackendError:
        if name in self._registered:
            return self._registered[name]
        entries = self._installed().get(name)
        if not entries:
            raise BackendError.of(
                "TIL801", f"there is no back end {name!r}; installed are {', '.join(self.names()) or 'none'}"
            )
        found = loaded("back end", name, entries, partial(_fault, name=name), ("TIL802", "TIL803"))
        return logged(found, __name__) if isinstance(found, BackendError) else cast("AnyBackend", found)

    def _ranks(self) -> Iterator[tuple[int, str]]:
        for name in dict.fromkeys((*sorted(self._registered), *self._installed())):
            try:
                yield self.backend(name).rank, name
            except BackendError:
                continue

    def _offered(self, name: str) -> tuple[DeviceInfo, ...]:
        try:
            return self.devices(name)
        except BackendError:
            return ()


def _fault(offer: object, name: str | None = None) -> str | None:
    """Return the reason why an object cannot serve as the back end of an entry point ``name``."""
    if not isinstance(offer, Backend):
        return f"is of type {type(offer).__name__}, not Backend"
    for attribute, kind in (("name", str), ("api_version", int), ("rank", int)):
        value = getattr(offer, attribute)
        if not isinstance(value, kind):
            return f"has {attribute} of type {type(value).__name__}, not {kind.__name__}"
    if offer.api_version != API_VERSION:
        remedy = "upgrade it" if offer.api_version < API_VERSION else "upgrade tileir"
        return f"is written for interface version {offer.api_version}, and this tileir has {API_VERSION}; {remedy}"
    if name in (None, offer.name):
        return None
    return f"calls itself {offer.name!r}; its entry point must have the same name"


def _list_devices(backend: AnyBackend) -> tuple[DeviceInfo, ...] | BackendError:
    try:
        listed: tuple[object, ...] = tuple(backend.devices())
    except BackendError as error:
        return BackendError(error.diagnostics)  # a proper reason for having no device
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # foreign code may raise anything
        problem = f"cannot list its devices: {reason_of(error)}"
        return logged(BackendError.of("TIL802", f"back end {backend.name!r} {problem}"), __name__)
    devices: list[DeviceInfo] = []
    for device in listed:
        if not isinstance(device, DeviceInfo) or not str(device.id).startswith(f"{backend.name}."):
            wanted = f"a DeviceInfo whose id is {backend.name}.0, {backend.name}.1 and so on"
            problem = f"back end {backend.name!r} lists {device!r}, not {wanted}"
            return logged(BackendError.of("TIL802", problem), __name__)
        devices.append(device)
    return tuple(devices)


def _or_raise(value: T | BackendError) -> T:
    """Raise a stored error as a copy, since a traceback keeps the objects of its callers alive, such as arrays."""
    if isinstance(value, BackendError):
        raise BackendError(value.diagnostics)
    return value
