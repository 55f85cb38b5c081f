"""Reverse mode: one walk from results to the values that they are differentiated by, linear in its length."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.typed.derivatives.loops import pull_scan, results_on
from tileir.typed.derivatives.rules import pullback
from tileir.typed.derivatives.sweep import Sweep
from tileir.typed.ir import Scan, operands

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileir.typed.emission import Emission
    from tileir.typed.ir import Operation
    from tileir.typed.values import Tensor


def reverse(
    emission: Emission,
    results: Sequence[Tensor],
    cotangents: Sequence[Tensor],
    wanted: Sequence[Tensor],
    *,
    even_ties: bool = False,
) -> tuple[Tensor, ...]:
    """Emit the derivatives of ``Σ results · cotangents`` with respect to each of ``wanted``.

    Sweeps of the same results and cotangents share their work.

    Args:
        emission: Where all of them are defined, and where operations go.
        results: Float tensors.
        cotangents: For each result a tensor of its dtype, whose shape broadcasts to its.
        wanted: Float tensors.
        even_ties: Whether what arrives at a maximum or minimum is split evenly among tied elements.

    Returns:
        A tensor of the same dtype and shape for each of ``wanted``; zeros where no result depends on it.

    """
    key = (tuple(y.name for y in results), tuple(t.name for t in cotangents), even_ties)
    sweep = emission.sweeps.get(key)
    if sweep is None:
        sweep = emission.sweeps[key] = Sweep(emission, even_ties, frozenset(key[0]))
        for result, cotangent in zip(results, cotangents, strict=True):
            sweep.contribute(result.name, cotangent)
    stem = emission.stem
    _walk(sweep, frozenset(y.name for y in results), frozenset(x.name for x in wanted))
    emission.stem = stem
    return tuple(_final(sweep, x) for x in wanted)


def _walk(sweep: Sweep, results: frozenset[str], wanted: frozenset[str]) -> None:
    """Find the cotangents of ``wanted``, and of all between them and the results."""
    active = set(wanted - sweep.finished)
    if not active:
        return
    path = _path(sweep.emission.operations, results, active)
    missing = active - sweep.finished
    sweep.want(missing)
    loops = results_on(path)
    for operation in reversed(path):
        if missing.isdisjoint(operands(operation)):
            continue
        cotangent = sweep.cotangent(operation.name)
        if isinstance(operation, Scan):
            contributions = pull_scan(sweep, loops[operation.name], reverse)
        elif cotangent is not None:
            contributions = pullback(sweep, operation, cotangent)
        else:
            continue
        for name, contribution in contributions:
            sweep.contribute(name, contribution)
    sweep.finished |= missing
    sweep.want(frozenset())


def _path(operations: Sequence[Operation], results: frozenset[str], active: set[str]) -> list[Operation]:
    """Return the float operations up to the last result that depend on ``active``, and add their names to it."""
    path: list[Operation] = []
    end = 0
    for operation in operations:
        if operation.dtype.is_float and not active.isdisjoint(operands(operation)):
            path.append(operation)
            active.add(operation.name)
            if operation.name in results:
                end = len(path)
    return path[:end]


def _final(sweep: Sweep, wanted: Tensor) -> Tensor:
    cotangent = sweep.cotangent(wanted.name)
    if cotangent is None:
        cotangent = sweep.constant(0.0, wanted)
    return sweep.expanded(cotangent, wanted.shape)
