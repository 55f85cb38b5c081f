"""Finds back ends by their entry points, or is given them. A broken one hides no other."""

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
"""Entry points of this group have the back end's name, and name a :class:`~tileir.runtime.interface.Backend`."""

OWN: Final = "tileir"
"""The distribution whose back ends are asked first where nobody names a device."""

T = TypeVar("T")

AnyBackend: TypeAlias = Backend[Any]


def installed() -> tuple[EntryPoint, ...]:
    """Return the entry points of all installed distributions, sorted, none of them loaded."""
    return distributions.installed(GROUP)


@attrs.define(eq=False)
class Registry(Renewable):
    """The back ends of one context, each loaded when it is first asked for. Thread safe.

    What was registered comes before what is installed under the same name. A back end that cannot be loaded, or fails
    while it lists its devices, is skipped and logged once, as a warning of the logger ``tileir.runtime.discovery``.

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
        """Return a registry of these back ends only, whatever is installed; raises what :meth:`register` does."""
        registry = cls(find=tuple)
        for backend in backends:
            registry.register(backend)
        return registry

    def register(self, backend: AnyBackend) -> None:
        """Offer a back end that has no entry point, or stand it before the installed one of its name.

        Raises:
            BackendError: TIL802, it is no back end, or written for another interface; TIL803, one of its name was
                registered before, or is in use already.

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
        """Return the names of all back ends, sorted; working or not."""
        with self._lock:
            return tuple(sorted({*self._installed(), *self._registered}))

    def backend(self, name: str) -> AnyBackend:
        """Return a back end.

        Raises:
            BackendError: TIL801, there is none of that name; TIL802, it cannot be loaded; TIL803, two
                distributions provide it.

        """
        with self._lock:
            if name not in self._loaded:
                self._loaded[name] = self._load(name)
            return _or_raise(self._loaded[name])

    def devices(self, name: str) -> tuple[DeviceInfo, ...]:
        """Return the devices that a back end sees; asked once.

        Raises:
            BackendError: it cannot be loaded, or says why it has no device.

        """
        with self._lock:
            if name not in self._devices:
                self._devices[name] = _list_devices(self.backend(name))
            return _or_raise(self._devices[name])

    def default(self) -> DeviceInfo | None:
        """Return the first device of the back end with the highest rank that has one; negative ranks do not count.

        The back ends of tileir itself are looked at first, and others only where none of them has the top rank and a
        device: what somebody installs beside it changes nothing, and costs nothing.
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
        """Start with a lock that no thread of the parent holds."""
        self._lock = threading.RLock()

    def _installed(self) -> dict[str, list[EntryPoint]]:
        """Return the entry points of each name, tileir's own names first: whose one is, its files tell."""
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
    """Return why something cannot serve as a back end, whose entry point has this name."""
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
        return BackendError(error.diagnostics)  # it says in good order why there is none
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # as above
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
    """Raise what is kept, as an error of its own: a traceback keeps all that its callers hold, such as arrays."""
    if isinstance(value, BackendError):
        raise BackendError(value.diagnostics)
    return value
