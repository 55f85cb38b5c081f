"""Derivatives of markers: an override gives what its template says, the others are the identity."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tileir.typed.dataflow import with_operands
from tileir.typed.ir import Cast, Elementwise, Value, operands

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tileir.typed.derivatives.sweep import Sweep
    from tileir.typed.inference.values import Tensor
    from tileir.typed.ir import Checkpoint, Operation, Override, Recall


def pull_same(sweep: Sweep, operation: Checkpoint | Recall, cotangent: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yield the cotangent itself."""
    if sweep.wanted(operation.input):
        sweep.toward(operation.input)
        yield operation.input, cotangent


def pull_override(sweep: Sweep, operation: Override, cotangent: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yield for each tensor of a pair its gradient, made of ``cotangent`` in place of the upstream."""
    instance = Instance.of(sweep, operation, cotangent)
    for name, gradient in operation.pairs:
        if sweep.wanted(name):
            sweep.toward(name)
            yield name, instance.value(gradient)


@attrs.define
class Instance:
    """The operations of a template with something in place of its upstream; each is emitted once.

    As long as operations work on elements, their results only broadcast to those of the template, as what stands for
    the upstream does. Values outside of the template are read as the backward pass reads them.
    """

    sweep: Sweep
    upstream: str | None
    made: dict[str, Tensor]

    @classmethod
    def of(cls, sweep: Sweep, override: Override, arriving: Tensor) -> Instance:
        """Return the instance of the template of ``override`` for what arrives at it."""
        made = {} if override.upstream is None else {override.upstream: arriving}
        return cls(sweep, override.upstream, made)

    def value(self, name: str) -> Tensor:
        """Return what ``name`` is in this instance."""
        pending = [name]
        while pending:
            wanted = pending[-1]
            if wanted in self.made:
                pending.pop()
                continue
            definition = self.sweep.definition(wanted)
            if isinstance(definition, Value) or self.upstream not in self.sweep.open_templates.get(wanted, ()):
                self.made[wanted] = self.sweep.value(wanted)
                continue
            missing = [operand for operand in operands(definition) if operand not in self.made]
            pending.extend(missing)
            if not missing:
                self.made[wanted] = self._instance(definition)
        return self.made[name]

    def _instance(self, operation: Operation) -> Tensor:
        inputs = {name: self.made[name] for name in operands(operation)}
        match operation:
            case Elementwise(op=op, inputs=names):
                return self.sweep.compute(op, *(inputs[name] for name in names))
            case Cast(input=name, dtype=dtype):
                return self.sweep.emission.cast(inputs[name], dtype)
            case _:
                whole = {name: self._whole(name, value).name for name, value in inputs.items()}
                emission = self.sweep.emission
                return emission.add(attrs.evolve(with_operands(operation, whole), name=emission.fresh()))

    def _whole(self, name: str, value: Tensor) -> Tensor:
        return self.sweep.expanded(value, self.sweep.definition(name).shape)
