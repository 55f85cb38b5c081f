"""State of a worker between requests, and the events that answer them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from tileir.core import attrs
from tileir_studio.design.bench import Bench
from tileir_studio.views.snapshot import Snapshot, snapshot_of
from tileir_studio.views.subject import Subject


@attrs.frozen
class Event:
    """A finding of a job: a view as plain values, and pictures that belong to it, by name."""

    name: str
    view: Any
    pictures: Mapping[str, bytes] = attrs.field(factory=dict)


STALE: Final = "stale"
"""The event of a job that was given up."""

_SNAPSHOTS: Final = 4
"""Compiled programs that are kept: those of two columns, before and after an edit."""


@attrs.define
class Session:
    """State of a worker: the folder of uploads, and the programs, pictures and formulas that it used last.

    Attributes:
        folder: Where uploads are.
        request: The number of the current request.
        given_up: The number of the last request that is stale; another thread may set it.
    """

    folder: Path
    request: int = attrs.field(default=0, init=False)
    given_up: int = attrs.field(default=-1, init=False)
    bench: Bench = attrs.field(factory=Bench, init=False)
    _snapshots: OrderedDict[Subject, Snapshot] = attrs.field(factory=OrderedDict, init=False)

    @property
    def is_stale(self) -> bool:
        """True if the answer is no longer needed; jobs check it between their parts."""
        return self.given_up >= self.request

    def snapshot(self, subject: Subject) -> Snapshot:
        """Return a compiled program, from memory where it is there.

        Raises:
            TileError: As :func:`tileir_studio.views.snapshot.snapshot_of`.
        """
        found = self._snapshots.pop(subject, None)
        self._snapshots[subject] = snapshot = snapshot_of(subject, self.folder) if found is None else found
        while len(self._snapshots) > _SNAPSHOTS:
            self._snapshots.popitem(last=False)
        return snapshot


Job: TypeAlias = Callable[[Session, Mapping[str, Any]], Iterator[Event]]
"""A function that yields the events of one kind of request as they come, and raises TileError for faults."""
