"""A bounded cache whose values are made once, however many threads ask."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import attrs

from tileir.core.process.forking import Renewable

K = TypeVar("K", bound="Hashable")
V = TypeVar("V")


@attrs.define(eq=False, repr=False)
class _Slot(Generic[V]):
    """Value that one thread makes while others wait; ``askers`` counts all these threads."""

    lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    value: tuple[V] | None = attrs.field(default=None, init=False)
    askers: int = attrs.field(default=0, init=False)


@attrs.define(eq=False)
class Cache(Renewable, Generic[K, V]):
    """Cache of at most ``size`` values with LRU eviction. Thread safe, also in forked children."""

    size: int
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _slots: OrderedDict[K, _Slot[V]] = attrs.field(factory=OrderedDict, init=False)

    def get(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of ``key``, calling ``make`` on a miss; errors of ``make`` are not cached."""
        with self._lock:
            slot = self._slots.get(key)
            if slot is None:
                slot = self._slots[key] = _Slot()
                while len(self._slots) > self.size:
                    self._slots.popitem(last=False)
            else:
                self._slots.move_to_end(key)
            found = slot.value
            slot.askers += found is None
        if found is None:
            try:
                with slot.lock:
                    if slot.value is None:
                        slot.value = (make(),)
                    found = slot.value
            finally:
                self._leave(key, slot)
        return found[0]

    def _leave(self, key: K, slot: _Slot[V]) -> None:
        """Release the slot of a value that could not be made, unless another thread is about to make it."""
        with self._lock:
            slot.askers -= 1
            if slot.value is None and not slot.askers and self._slots.get(key) is slot:
                del self._slots[key]

    def renew(self) -> None:
        """Forget values that threads of the parent were making."""
        self._lock = threading.Lock()
        self._slots = OrderedDict((key, slot) for key, slot in self._slots.items() if slot.value is not None)

    def clear(self) -> None:
        """Drop all values."""
        with self._lock:
            self._slots.clear()

    def __contains__(self, key: K) -> bool:
        """Return whether ``key`` has a value; False while another thread makes it."""
        with self._lock:
            slot = self._slots.get(key)
            return slot is not None and slot.value is not None

    def __len__(self) -> int:
        return len(self._slots)
