"""Reverse mode: one walk, linear in its length, from results to the values that they are differentiated by.

A sweep holds the cotangents found so far, and the names for which cotangents are wanted. The walk recomputes some
forward values instead of reading them; the result is a typed function as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet
from functools import cached_property
from operator import attrgetter
from typing import TypeAlias

from tileir.core import Op, arithmetic_type, attrs, grouped, needed, reached
from tileir.typed.derivatives.algebra import Algebra
from tileir.typed.derivatives.loops import pull_scan, results_on
from tileir.typed.derivatives.reductions import refuse_patterns
from tileir.typed.derivatives.rules import pullback
from tileir.typed.inference.emission import Emission
from tileir.typed.inference.values import Tensor
from tileir.typed.ir import (
    ArrayConstant,
    Checkpoint,
    Constant,
    Elementwise,
    Function,
    Operation,
    Recall,
    Scan,
    Upstream,
    operands,
)
from tileir.typed.simplify.simplifier import simplify
from tileir.typed.templates import free_upstreams


def to_recall(operations: Sequence[Operation], results: Iterable[str]) -> frozenset[str]:
    """Return the values before the last checkpoint on which ``results`` depend, except those that are kept.

    Without a checkpoint there are none. Values after the last one are read as they are: the backward pass begins with
    them.
    """
    last = _last_checkpoint(operations, set(results))
    if last is None:
        return frozenset()
    before = operations[:last]
    open_templates = free_upstreams(before)
    return frozenset(
        operation.name
        for operation in before
        if not isinstance(operation, Constant | ArrayConstant | Checkpoint | Upstream)
        and operation.name not in open_templates
    )


def next_sweep(operations: Iterable[Operation]) -> int:
    """Return an unused number for a backward pass."""
    return 1 + max((operation.sweep for operation in operations if isinstance(operation, Recall)), default=-1)


def _last_checkpoint(operations: Sequence[Operation], needed: set[str]) -> int | None:
    """Return the position of the last checkpoint that ``needed`` depends on."""
    if not any(isinstance(operation, Checkpoint) for operation in operations):
        return None
    for position in range(len(operations) - 1, -1, -1):
        operation = operations[position]
        if operation.name in needed:
            if isinstance(operation, Checkpoint):
                return position
            needed.update(operands(operation))
    return None


SweepKey: TypeAlias = tuple[tuple[str, ...], tuple[str, ...], bool]
"""The differentiated values, their cotangents, and whether ties are split evenly."""


@attrs.frozen(eq=False)
class Path:
    """The float operations that some results depend on, in program order, and the positions of readers of each value.

    The results do not depend on operations that are added later, so it remains valid.
    """

    operations: Sequence[Operation]
    readers: Mapping[str, Sequence[int]]

    @classmethod
    def to(cls, operations: Sequence[Operation], results: AbstractSet[str]) -> Path:
        """Return the path that ends in ``results``."""
        floats = [operation for operation in operations if operation.dtype.is_float]
        path = needed(floats, results, attrgetter("name"), operands)
        reads = ((name, number) for number, each in enumerate(path) for name in dict.fromkeys(operands(each)))
        return cls(path, grouped(reads))


@attrs.define(eq=False)
class Sweep(Algebra):
    """Cotangents of values: the derivatives of the results with respect to them.

    A cotangent has the arithmetic type of its value, and a shape that broadcasts to that of its value. Contributions
    are added up as they arrive; a cotangent is final after the visit of its operation.

    Attributes:
        results: The values that are differentiated.
        finished: Values whose cotangents are final; if one has none, its cotangent is 0.
    """

    results: frozenset[str] = frozenset()
    finished: set[str] = attrs.field(factory=set, init=False)
    _cotangents: dict[str, Tensor] = attrs.field(factory=dict, init=False)
    _wanted: AbstractSet[str] = attrs.field(factory=frozenset, init=False)
    _recalled: dict[str, Tensor] = attrs.field(factory=dict, init=False)

    def value(self, name: str) -> Tensor:
        """Return the value of ``name`` as the backward pass reads it: recomputed where checkpoints ask for that."""
        if name not in self._to_recall:
            return super().value(name)
        found = self._recalled.get(name)
        if found is None:
            definition, copy = self.definition(name), self.emission.names.fresh(name)
            recall = Recall(copy, name, self._number, definition.dtype, definition.shape)
            found = self._recalled[name] = self.emission.add(recall)
        return self.emission.current(found)

    @cached_property
    def path(self) -> Path:
        """The operations that the sweep goes through."""
        return Path.to(self.emission.operations, self.results)

    @cached_property
    def _to_recall(self) -> AbstractSet[str]:
        return to_recall(self.emission.operations, self.results)

    @cached_property
    def _number(self) -> int:
        return next_sweep(self.emission.operations)

    def wanted(self, name: str) -> bool:
        """Return whether a contribution to the cotangent of ``name`` is needed; rules skip the others."""
        return name in self._wanted

    def want(self, names: AbstractSet[str]) -> None:
        """Set the values for which contributions are needed from now on."""
        self._wanted = names

    def toward(self, name: str) -> None:
        """Name operations that are emitted from now on after the derivative with respect to ``name``."""
        self.emission.stem = f"D{name}"

    def contribute(self, name: str, contribution: Tensor) -> None:
        """Add to the cotangent of ``name``, in the arithmetic type of that value."""
        contribution = self.emission.cast(contribution, arithmetic_type(self.definition(name).dtype))
        before = self.cotangent(name)
        self._cotangents[name] = contribution if before is None else self.add(before, contribution)

    def cotangent(self, name: str) -> Tensor | None:
        """Return the cotangent of ``name``, or None if it is 0 or has no contribution yet."""
        found = self._cotangents.get(name)
        return None if found is None else self.emission.current(found)


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
        emission: The emission that defines all of them, and the destination of operations.
        results: Float tensors.
        cotangents: For each result a tensor of its arithmetic type, whose shape broadcasts to its.
        wanted: Float tensors.
        even_ties: Whether the cotangent of a maximum or minimum is split evenly among tied elements.

    Returns:
        A tensor of the arithmetic type and the shape of each of ``wanted``; zeros if no result depends on it.

    Raises:
        TileError: TIL335, the bits of a number are read between them.
    """
    key = (tuple(y.name for y in results), tuple(t.name for t in cotangents), even_ties)
    sweep = emission.sweeps.get(key)
    if sweep is None:
        sweep = emission.sweeps[key] = Sweep(emission, even_ties, frozenset(key[0]))
        for result, cotangent in zip(results, cotangents, strict=True):
            sweep.contribute(result.name, cotangent)
    refuse_patterns(emission.operations, frozenset(key[0]), {x.name for x in wanted})
    stem = emission.stem
    _walk(sweep, frozenset(x.name for x in wanted))
    emission.stem = stem
    return tuple(_final(sweep, x) for x in wanted)


def _walk(sweep: Sweep, wanted: frozenset[str]) -> None:
    """Find the cotangents of ``wanted``, and of all values between them and those with final cotangents."""
    path = sweep.path

    def reading(name: str) -> set[str]:
        return {path.operations[position].name for position in path.readers.get(name, ())} - sweep.finished

    missing = set(reached(wanted - sweep.finished, reading))
    visited = {position for name in missing for position in path.readers.get(name, ())}
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
    """Return contributions to the operands of ``operation``."""
    if isinstance(operation, Scan):
        return pull_scan(sweep, loops[operation.name], reverse)
    cotangent = sweep.cotangent(operation.name)
    return () if cotangent is None else pullback(sweep, operation, cotangent)


def _final(sweep: Sweep, wanted: Tensor) -> Tensor:
    cotangent = sweep.cotangent(wanted.name)
    if cotangent is None:
        cotangent = sweep.zero(wanted)
    return sweep.expanded(cotangent, wanted.shape)


def gradient(function: Function, wrt: Sequence[str], of: Sequence[str], *, even_ties: bool) -> Function:
    """Return the function of ``DX`` for each X of ``wrt``: the gradient of the sum of all elements of ``of``.

    Args:
        function: A function that :func:`tileir.typed.verifier.verify` accepts.
        wrt: Names of float values of the function.
        of: Names of float values of the function.
        even_ties: Whether the cotangent of a maximum or minimum is split evenly among tied elements.
    """
    emission = Emission.resuming(function)
    names = [emission.names.fresh(f"D{name}") for name in wrt]
    results, values = ([emission.defined(name) for name in group] for group in (of, wrt))
    ones = [emission.constant(1.0, arithmetic_type(y.dtype)) for y in results]
    found = reverse(emission, results, ones, values, even_ties=even_ties)
    for name, value in zip(names, found, strict=True):
        emission.add(Elementwise(name, Op.IDENT, (value.name,), value.dtype, value.shape))
    return simplify(attrs.evolve(function, outputs=tuple(names), operations=tuple(emission.operations)))
