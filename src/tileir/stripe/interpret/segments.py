"""The special ``add_segments``, computed by NumPy part by part."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tileir.core import Aggregation
from tileir.stripe.interpret.memory import Array, View, check_offsets
from tileir.stripe.ir import Special
from tileir.stripe.segments import Segments


def add_segments(special: Special, views: Mapping[str, View]) -> None:
    """Execute a special that adds updates with equal keys, one after the other."""
    plan = Segments.of(special)
    inputs, outputs = ([views[name] for name in names] for names in (special.inputs, special.outputs))
    for name, view in zip((*special.inputs, *special.outputs), (*inputs, *outputs), strict=True):
        check_offsets(name, view.offsets(), view.memory)
    keys, updates, *places = (view.memory.data[view.offsets()] for view in inputs)
    rows, size = outputs[0].shape.dims[0].size, keys.size
    keys, updates = np.clip(keys.ravel(), 0, rows - 1), updates.reshape(size, -1)
    if places:
        updates = updates[places[0].ravel()]
    numbers, dtype = outputs[0].memory.numbers, outputs[0].shape.dtype
    updates = numbers.cast(updates, dtype)
    table, carried = outputs[0].offsets().reshape(rows, -1), [view.offsets().reshape(-1) for view in outputs[1:]]
    for part, start in enumerate(range(0, size, plan.part or size)):
        own = keys[start : start + (plan.part or size)]
        edges = np.concatenate(([0], np.flatnonzero(np.diff(own)) + 1))
        sums = np.zeros((len(edges), updates.shape[1]), updates.dtype)
        numbers.merge_at(
            Aggregation.SUM,
            dtype,
            sums,
            np.searchsorted(edges, np.arange(len(own)), "right") - 1,
            updates[start:][: len(own)],
        )
        inner = slice(None)
        if plan.part:
            inner = slice(1, len(edges) - 1)
            last = sums[-1] if len(edges) > 1 else np.zeros_like(sums[0])
            both = np.stack([own[0], own[-1]]), np.stack([sums[0], last])
            for view, offsets, values in zip(outputs[1:], carried, both, strict=True):
                there = offsets.reshape(-1, values.size)[part]
                _put(view, there, values.reshape(-1))
        _put(outputs[0], table[own[edges[inner]]], sums[inner])


def _put(view: View, offsets: Array, values: Array) -> None:
    if view.memory.written is not None:
        view.memory.written[offsets] = True
    view.memory.data[offsets] = values
