"""Contexts, which own devices, compilers, executors and options. Only the default context is global."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Hashable, Iterator, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self

from tileir.core import ArgumentError, BackendError, Renewable, attrs, made_at_the_call, meant
from tileir.runtime.caches.cache import Cache
from tileir.runtime.caches.disk_cache import DiskCache, default_disk_cache
from tileir.runtime.devices.home import DeviceMemory
from tileir.runtime.discovery import Registry
from tileir.runtime.interface import Backend, Compiler, DeviceInfo, Executor, Options
from tileir.runtime.offers import TrimmingExecutor, executor_mistakes
from tileir.runtime.plans.calls import Calls
from tileir.runtime.plans.resources import Resources, spare_bytes
from tileir.runtime.results import ROOMS

DEVICE_VARIABLE: Final = "TILEIR_DEVICE"
"""Environment variable with the id of the default device, if neither the caller nor the context names a device."""

PROGRAMS: Final = 256
"""Number of compiled programs that a context keeps."""


def _ids(devices: Any) -> tuple[str, ...]:
    """Return the ids of devices.

    Raises:
        ArgumentError: TIL707, they are not devices.
    """
    if isinstance(devices, Sequence) and not isinstance(devices, str):
        ids = tuple(each.id if isinstance(each, DeviceInfo) else each for each in devices)
        if all(isinstance(each, str) for each in ids):
            return ids
    raise ArgumentError.of("TIL707", f"devices are named by a list of their ids, not by {devices!r:.80}")


@made_at_the_call
@attrs.define(eq=False)
class Context(Renewable):
    """Devices and everything that runs on them. Thread safe.

    Attributes:
        device_id: Default of :meth:`device`.
        rank_devices: Devices for the ranks of a partitioned program that run as threads: ``Context(devices=[…])``.
        options: Default options for compiling.
        registry: Source of back ends.
        programs: Most recently used compiled programs, by keys that their owners choose.
        disk_cache: Cache that outlives the process; by default as environment and platform say, None for no cache.
    """

    device_id: str | None = None
    options: Options = attrs.field(factory=Options)
    registry: Registry = attrs.field(factory=Registry, repr=False)
    programs: Cache[Hashable, Any] = attrs.field(factory=lambda: Cache(PROGRAMS), repr=False)
    disk_cache: DiskCache | None = attrs.field(factory=default_disk_cache)
    rank_devices: tuple[str, ...] = attrs.field(default=(), converter=_ids, alias="devices", kw_only=True)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False, repr=False)
    _compilers: dict[tuple[str, Options], Compiler[Any]] = attrs.field(factory=dict, init=False, repr=False)
    _executors: dict[tuple[str, Options], Executor[Any]] = attrs.field(factory=dict, init=False, repr=False)
    _resources: dict[tuple[str, Options], Resources] = attrs.field(factory=dict, init=False, repr=False)
    _homes: dict[str, tuple[Options, DeviceMemory]] = attrs.field(factory=dict, init=False, repr=False)
    _calls: Calls = attrs.field(factory=Calls, init=False, repr=False)

    @disk_cache.validator
    def _check_disk_cache(self, _: attrs.Attribute[DiskCache | None], value: object) -> None:
        if value is not None and not isinstance(value, DiskCache):
            message = f"disk_cache is a tileir.DiskCache or None, not a value of type {type(value).__name__}"
            raise ArgumentError.of("TIL707", message)

    def __attrs_post_init__(self) -> None:
        _contexts[id(self)] = self
        super().__attrs_post_init__()

    def renew(self) -> None:
        """Start with a fresh lock; a thread of the parent may hold the old one."""
        self._lock = threading.Lock()

    def register(self, backend: Backend[Any]) -> None:
        """Register a back end of the embedding program; see :meth:`tileir.runtime.discovery.Registry.register`."""
        self.registry.register(backend)

    def devices(self) -> tuple[DeviceInfo, ...]:
        """Return the devices of all working back ends; :meth:`failures` reports the others."""
        found: list[DeviceInfo] = []
        for name in self.registry.names():
            try:
                found.extend(self.registry.devices(name))
            except BackendError:
                continue
        return tuple(found)

    def failures(self) -> Mapping[str, BackendError]:
        """Return the reason of each back end that fails to list devices."""
        failed: dict[str, BackendError] = {}
        for name in self.registry.names():
            try:
                self.registry.devices(name)
            except BackendError as error:
                failed[name] = error
        return MappingProxyType(failed)

    def notes(self) -> Mapping[str, tuple[str, ...]]:
        """Return notes of back ends with devices on further devices that they could offer."""
        said: dict[str, tuple[str, ...]] = {}
        for name in self.registry.names():
            try:
                self.registry.devices(name)
                notes = tuple(self.registry.backend(name).notes())
            except KeyboardInterrupt:
                raise
            except BaseException:  # foreign code may raise anything; its notes are not worth an error
                continue
            if notes:
                said[name] = notes
        return MappingProxyType(said)

    def device(self, device: str | DeviceInfo | None = None) -> DeviceInfo:
        """Return the device with an id, the first device of a back end with that name, or a described device.

        A back end may also know devices that it does not list, such as ``cuda.sm_90a``, to compile for.

        Without an id, the context's id applies, then the environment variable ``TILEIR_DEVICE``, then the ranks of the
        back ends (:meth:`tileir.runtime.discovery.Registry.default`).

        Raises:
            BackendError: TIL801, there is no such device; the notes list existing devices and failures.
        """
        device_id = device.id if isinstance(device, DeviceInfo) else device
        if device_id is not None and not isinstance(device_id, str):
            raise self._no_device(f"a device is named by its id, not by {device_id!r}")
        wanted = device_id or self.device_id or os.environ.get(DEVICE_VARIABLE) or None
        if wanted is None:
            default = self.registry.default()
            if default is None:
                named = "name a device, or " if self.devices() else ""
                raise self._no_device(f"no back end offers a device by default; {named}install tileir[llvm]")
            return default
        backend = wanted.partition(".")[0]
        if backend in self.registry.names():
            described = None if wanted == backend else self.registry.backend(backend).described(wanted)
            if described is not None:
                return described
            for offered in self.registry.devices(backend):
                if wanted in (offered.id, backend):
                    return offered
        offered_ids = [device.id for device in self.devices()]
        near = meant(wanted, [*offered_ids, *(each.partition(".")[0] for each in offered_ids)])
        raise self._no_device(f"there is no device {wanted!r}{'' if near is None else f'; did you mean {near}?'}")

    def compiler(self, device: DeviceInfo, options: Options | None = None) -> Compiler[Any]:
        """Return the compiler for a device; cached."""
        chosen = self.options if options is None else options
        with self._lock:
            key = (device.id, chosen)
            if key not in self._compilers:
                self._compilers[key] = self.registry.backend(device.backend).compiler(device, chosen)
            return self._compilers[key]

    def executor(self, device: DeviceInfo, options: Options | None = None) -> Executor[Any]:
        """Return the executor of a device; cached."""
        chosen = self.options if options is None else options
        with self._lock:
            key = (device.id, chosen)
            if key not in self._executors:
                self._executors[key] = self.registry.backend(device.backend).executor(device, chosen)
                _tell(executor_mistakes(self._executors[key]))
            return self._executors[key]

    def home(self, device: DeviceInfo) -> DeviceMemory:
        """Return a device as a place for arrays, with the options of the context; cached."""
        options, found = self._homes.get(device.id, (None, None))
        if found is None or options is not self.options or found.device is not device:
            from tileir.runtime.devices.home import DeviceMemory  # only arrays of devices need it

            found = DeviceMemory(device, self.executor(device, attrs.evolve(self.options, quick=False)))
            self._homes[device.id] = (self.options, found)
        return found

    def home_at(self, place: tuple[int, int]) -> DeviceMemory | None:
        """Return the place for arrays with a DLPack device number, or None if :meth:`home` has not made it."""
        for options, home in tuple(self._homes.values()):
            if home.device.dlpack == place and options is self.options:
                return home
        return None

    def resources(self, device: DeviceInfo, options: Options | None = None) -> Resources:
        """Return the resources that plans on a device share; cached."""
        chosen = self.options if options is None else options
        executor = self.executor(device, chosen)
        with self._lock:
            key = (device.id, chosen)
            if key not in self._resources:
                processors = os.cpu_count() or 1
                threads, spare = min(chosen.threads or processors, processors), spare_bytes(device.memory_bytes)
                self._resources[key] = Resources(executor, threads, self._calls, spare)
            return self._resources[key]

    def trim(self) -> int:
        """Release memory that is kept for reuse, and return its size in bytes; the next calls take longer.

        It includes temporaries of executables, also of those in the cache of :func:`tileir.jit`, memory that back ends
        keep of dead buffers, and memory of results on the host, which all contexts of a process share. Waits for
        running work; arrays stay.
        """
        with self._lock:
            resources, executors = tuple(self._resources.values()), tuple(self._executors.values())
        for each in resources:
            each.trim()
        found = sum(executor.trim() for executor in executors if isinstance(executor, TrimmingExecutor))
        return found + ROOMS.trim()

    def close(self) -> None:
        """Close all executors, which waits for their work; the context can be used again afterwards.

        Calls inside a loop on a condition, which might never end, fail with TIL807 before its next iteration.
        """
        self.programs.clear()
        with self._lock:
            resources = tuple(self._resources.values())
            self._resources.clear()
        for each in resources:  # all of them first, as calls of one may wait for those of another
            each.stop()
        for each in resources:
            each.close()
        with self._lock:
            executors = tuple(self._executors.values())
            self._executors.clear()
            self._homes.clear()
            self._compilers.clear()
        for executor in executors:
            executor.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _no_device(self, message: str) -> BackendError:
        listed = ", ".join(device.id for device in self.devices())
        notes = [f"devices are {listed}"] if listed else []
        for failure in self.failures().values():
            notes.extend(diagnostic.message for diagnostic in failure.diagnostics)
        return BackendError.of("TIL801", message, None, *notes)


def trim() -> int:
    """Do :meth:`Context.trim` for all contexts of this process, and return the number of bytes released.

    Other libraries on the device then have more memory, for example PyTorch after :class:`torch.OutOfMemoryError`.
    """
    found = [reference() for reference in _contexts.valuerefs()]
    return sum(context.trim() for context in found if context is not None)


_contexts: Final[weakref.WeakValueDictionary[int, Context]] = weakref.WeakValueDictionary()
_default: list[Context] = []
_default_lock: Final = threading.Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_default_lock.acquire, after_in_parent=_default_lock.release, after_in_child=_default_lock.release
    )


def default_context() -> Context:
    """Return the default context, made on first use."""
    with _default_lock:
        if not _default:
            _default.append(Context())
        return _default[0]


def owner_of(context: object) -> Context:
    """Return the context that a caller passed, or the default context.

    Raises:
        ArgumentError: TIL707, it is not a context.
    """
    if context is None:
        return default_context()
    if isinstance(context, Context):
        return context
    kind = type(context).__name__
    raise ArgumentError.of("TIL707", f"context is a tileir.Context, not a value of type {kind}")


def _tell(mistakes: Iterator[str]) -> None:
    """Log probable mistakes for the authors of a back end."""
    for mistake in mistakes:
        import logging  # few programs need it

        logging.getLogger(__name__).warning("%s", mistake)
