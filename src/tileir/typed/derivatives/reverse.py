"""Reverse mode: one walk from results to the values that they are differentiated by, linear in its length."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.typed.derivatives.loops import pull_scan, results_on
from tileir.typed.derivatives.rules import pullback
from tileir.typed.derivatives.sweep import Sweep
from tileir.typed.ir import Scan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tileir.typed.inference.emission import Emission
    from tileir.typed.inference.values import Tensor
    from tileir.typed.ir import Operation


def reverse(
    emission: Emission,
    results: Sequence[Tensor],
    cotangents: Sequence[Tensor],
    wanted: Sequence[Tensor],
    *,
    even_ties: bool = False,
) -> tuple[Tensor, ...]:
    """Emit the derivatives of ``Σ results · cotangents`` with respect to each of ``wanted``.

    Sweeps of the same results and cotangents share their work: each operation is visited once for each operand.

    Args:
        emission: Where all of them are defined, and where operations go.
        results: Float tensors.
        cotangents: For each result a tensor of its arithmetic type, whose shape broadcasts to its.
        wanted: Float tensors.
        even_ties: Whether what arrives at a maximum or minimum is split evenly among tied elements.

    Returns:
        A tensor of the arithmetic type and the shape of each of ``wanted``; zeros where no result depends on it.

    """
    key = (tuple(y.name for y in results), tuple(t.name for t in cotangents), even_ties)
    sweep = emission.sweeps.get(key)
    if sweep is None:
        sweep = emission.sweeps[key] = Sweep(emission, even_ties, frozenset(key[0]))
        for result, cotangent in zip(results, cotangents, strict=True):
            sweep.contribute(result.name, cotangent)
    stem = emission.stem
    _walk(sweep, frozenset(x.name for x in wanted))
    emission.stem = stem
    return tuple(_final(sweep, x) for x in wanted)


def _walk(sweep: Sweep, wanted: frozenset[str]) -> None:
    """Find the cotangents of ``wanted``, and of all between them and what has its cotangent already."""
    path = sweep.path
    missing = set(wanted - sweep.finished)
    pending = list(missing)
    visited: set[int] = set()
    while pending:
        for position in path.readers.get(pending.pop(), ()):
            visited.add(position)
            name = path.operations[position].name
            if name not in sweep.finished and name not in missing:
                missing.add(name)
                pending.append(name)
    sweep.want(missing)
    operations = [path.operations[position] for position in sorted(visited)]
    loops = results_on(operations)
    for operation in reversed(operations):
        for name, contribution in _contributions(sweep, operation, loops):
            sweep.contribute(name, contribution)
    sweep.finished |= missing
    sweep.want(frozenset())


def _contributions(
    sweep: Sweep, operation: Operation, loops: Mapping[str, Sequence[Scan]]
) -> Iterable[tuple[str, Tensor]]:
    """Return what arrives at the operands of ``operation``."""
    if isinstance(operation, Scan):
        return pull_scan(sweep, loops[operation.name], reverse)
    cotangent = sweep.cotangent(operation.name)
    return () if cotangent is None else pullback(sweep, operation, cotangent)


def _final(sweep: Sweep, wanted: Tensor) -> Tensor:
    cotangent = sweep.cotangent(wanted.name)
    if cotangent is None:
        cotangent = sweep.zero(wanted)
    return sweep.expanded(cotangent, wanted.shape)
