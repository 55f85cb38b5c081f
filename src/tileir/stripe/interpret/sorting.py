"""The special ``order``, computed by NumPy part by part."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tileir.stripe.interpret.memory import View
from tileir.stripe.ir import Special
from tileir.stripe.sorting import Sorting


def sort_rows(special: Special, views: Mapping[str, View]) -> None:
    """Execute a special whose views are rows: stable, with NaN as the greatest element."""
    plan, rows = Sorting.of(special), [views[name].loaded(name).ravel() for name in special.inputs]
    keys, payload = rows[0], rows[1] if len(rows) > 1 else np.arange(len(rows[0]))
    numbers, found = views[special.inputs[0]].memory.numbers, []
    for start, end in plan.stretches(len(keys)):
        places = numbers.order(keys[start:end], 0, descending=plan.descending)
        found.append(start + places[: plan.keep or None])
    chosen = np.concatenate(found)
    for name, row in zip(special.outputs, (payload, keys), strict=False):
        shape = views[name].shape
        views[name].fill(name, row[chosen][: shape.elements].reshape(shape.sizes))
