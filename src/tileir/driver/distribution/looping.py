"""Loops of partitioned programs in whose steps ranks meet: a rank runs one step after the other, from the host."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tileir.core import Aggregation
from tileir.driver.distribution.on_device import at_home, resident
from tileir.runtime.devices.home import Home
from tileir.typed.ir import ScanPart, operands
from tileir.typed.sharding.local import Rounds

if TYPE_CHECKING:
    from tileir.runtime.transports import Transport


def looped(
    rounds: Rounds,
    values: Mapping[str, Any],
    home: Home | None,
    transport: Transport,
    run: Callable[[dict[str, Any]], Mapping[str, Any]],
) -> dict[str, Any]:
    """Return a rank's parts of the results of a loop.

    Args:
        rounds: It; all ranks come to it.
        values: What the rank has of values, by name.
        home: Where it has them; None for on the host. Slices of sequences and what steps put out pass through the host.
        transport: Between the ranks, which agree before each step of a loop that a condition ends.
        run: Makes one step, from the inputs of the step to its outputs, by name.

    """
    loop, function = rounds.loop, rounds.step.function
    names, carries, rest = (
        [each.name for each in function.inputs],
        len(loop.carries),
        len(loop.carries + loop.sequences),
    )
    passed, count = [values[name] for name in operands(loop)], loop.count or 0
    sequences = [_on_host(each, home) for each in passed[carries:rest]]
    state = passed[:carries]
    stacked: dict[str, Any] = {}
    numbers: Iterable[int] = range(count) if loop.count is not None else itertools.count()
    for number in numbers:
        if loop.count is None and not _agreed(loop.name, bool(_on_host(state[0], home)), transport):
            break
        place = count - 1 - number if loop.reverse else number
        slices = [_here(np.asarray(each[place], order="C"), home) for each in sequences]
        made = run(dict(zip(names, [*state, *slices, *passed[rest:]], strict=True)))
        new = [made[name] for name in function.outputs]
        for name, result in rounds.results.items():
            if result.part is not ScanPart.FINAL:
                is_before = result.part is ScanPart.HISTORY
                one = _on_host(state[result.number] if is_before else new[carries + result.number], home)
                stacked.setdefault(name, np.empty((count, *one.shape), one.dtype))[place] = one
        state = new[:carries]
    found = {}
    for name, result in rounds.results.items():
        if result.part is ScanPart.FINAL:  # which may be what was passed, and is kept for longer
            found[name] = _here(np.array(_on_host(state[result.number], home)), home)
        else:
            found[name] = _here(stacked[name], home)
    return found


def _agreed(name: str, more: bool, transport: Transport) -> bool:
    """Return whether any rank makes one more step: all do then, also where devices have rounded otherwise."""
    transport.place = f"a step of {name!r}"
    found = transport.all_reduce(np.array([more], np.uint8), Aggregation.MAX, range(transport.size))
    return bool(found[0])


def _on_host(value: Any, home: Home | None) -> Any:
    return value if home is None else at_home(value, home).numpy()


def _here(array: Any, home: Home | None) -> Any:
    return array if home is None else resident(array, home)
