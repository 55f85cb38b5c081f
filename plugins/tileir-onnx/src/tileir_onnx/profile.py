"""Times of a session's calls and kernels, as a trace for Chrome and Perfetto."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import define, field

import tileir
from tileir import TileError
from tileir_onnx.model import Model


@define(eq=False)
class Profile:
    """Events of a session, and the signatures whose kernels are measured at the end."""

    prefix: str
    _events: list[dict[str, Any]] = field(factory=list, init=False)
    _seen: dict[Any, tuple[Model, dict[str, Any]]] = field(factory=dict, init=False)
    _begin: int = field(factory=time.perf_counter_ns, init=False)

    def add(self, name: str, category: str, begin: int, end: int, **told: Any) -> None:
        """Add an event between two times of :func:`time.perf_counter_ns`."""
        event = {"ph": "X", "pid": os.getpid(), "tid": category, "cat": category, "name": name}
        times = {"ts": (begin - self._begin) / 1e3, "dur": (end - begin) / 1e3}
        self._events.append({**event, **times, "args": told})

    def note(self, model: Model, feeds: Mapping[str, Any]) -> None:
        """Record the arguments of the model, once for each signature."""
        key = tuple((name, _signature(each)) for name, each in sorted(feeds.items()))
        self._seen.setdefault(key, (model, dict(feeds)))

    def write(self) -> str:
        """Measure the kernels of each signature, write the file, and return its name."""
        for model, feeds in self._seen.values():
            here = time.perf_counter_ns()
            for name, seconds in _kernels(model, feeds):
                end = here + round(seconds * 1e9)
                self.add(name, "Node", here, end)
                here = end
        path = Path(f"{self.prefix}{time.strftime('%Y-%m-%d_%H-%M-%S')}.json")
        path.write_text(json.dumps(self._events), encoding="utf-8")
        return str(path)


def _signature(given: Any) -> Any:
    """Return the signature of arrays, lists and numbers, on which kernels depend."""
    if isinstance(given, list | tuple):
        return tuple(map(_signature, given))
    return (tuple(given.shape), str(given.dtype)) if hasattr(given, "shape") else type(given)


def _kernels(model: Model, feeds: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Return the kernels of a signature, and their seconds; none if the executed kernels depend on data."""
    function, arrays = model.prepared(feeds)
    if function is None:
        return []
    try:
        found = tileir.explain(function, arrays, device=model.device, measure=True)
    except TileError:  # programs with loops are only measured as a whole
        return []
    return [(kernel.name, seconds) for kernel, seconds in zip(found.kernels, found.measured, strict=True)]
