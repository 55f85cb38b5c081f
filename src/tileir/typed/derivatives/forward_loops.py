"""Loops in forward mode: the same loop, whose step also moves what moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tileir.core.dtype import arithmetic_type
from tileir.core.ops import Op
from tileir.typed.inference.emission import Emission
from tileir.typed.inference.values import Tensor
from tileir.typed.ir import Elementwise, Function, Scan, ScanPart, ScanResult, Value, operands

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tileir.typed.derivatives.forward import Motion

    Forward = Callable[..., tuple[Tensor, ...]]


def push_scan(motion: Motion, scan: Scan, forward: Forward) -> Tensor | None:
    """Return how a result of a loop moves; None where it does not.

    All results of a loop give the same new loop, which runs once. ``forward`` differentiates inside the step:
    :func:`tileir.typed.derivatives.forward.forward`.
    """
    given = [motion.tangent(name) for name in operands(scan)]
    if all(tangent is None for tangent in given):
        return None
    return _Forward.of(motion, scan, given).result(forward)


@attrs.define(repr=False)
class _Forward:
    """The new loop while it is being made.

    Attributes:
        motion: How values around the loop move.
        scan: A result of the loop.
        given: How its operands move.
        active: The inputs of the step that move, and what is made of them.
        emission: The new step.
        tangents: For inputs of the step that move, an input for how; and what it is around the loop.
        spread: Places of sequences that move alike in all steps, so that their tangents are constants.

    """

    motion: Motion
    scan: Scan
    given: Sequence[Tensor | None]
    active: frozenset[str]
    emission: Emission
    tangents: dict[int, tuple[Value, str]] = attrs.field(factory=dict, init=False)
    spread: set[int] = attrs.field(factory=set, init=False)

    @classmethod
    def of(cls, motion: Motion, scan: Scan, given: Sequence[Tensor | None]) -> _Forward:
        """Return the new loop before anything was added to the old one."""
        return cls(motion, scan, given, _active(scan, given), Emission.resuming(scan.body))

    def result(self, forward: Forward) -> Tensor | None:
        """Emit the loop, for the result that moves."""
        scan, body = self.scan, self.scan.body
        for number, value in enumerate(body.inputs):
            if value.name in self.active:
                self.tangents[number] = self._tangent(number, value)
        carries, sequences = len(scan.carries), len(scan.sequences)
        moving = [number for number, name in enumerate(body.outputs) if self._moves(number, name)]
        results = [self._tensor(body.outputs[number]) for number in moving]
        inputs = [self._tensor(body.inputs[number].name) for number in self.tangents]
        parameters = [Tensor(value.name, value.dtype, value.shape) for value, _ in self.tangents.values()]
        found = forward(self.emission, results, inputs, parameters, even_ties=self.motion.even_ties)
        made = {number: self._copy(tensor) for number, tensor in zip(moving, found, strict=True)}
        place = self._place(made)
        if place is None:
            return None
        added = list(self._added(range(carries)))
        slices = list(self._added(range(carries, carries + sequences)))
        others = list(self._added(range(carries + sequences, len(body.inputs))))
        new = Function(
            (
                *body.inputs[:carries],
                *(value for value, _ in added),
                *body.inputs[carries : carries + sequences],
                *(value for value, _ in slices),
                *body.inputs[carries + sequences :],
                *(value for value, _ in others),
            ),
            (
                *body.outputs[:carries],
                *(made[number].name for number in range(carries) if number in made),
                *body.outputs[carries:],
                *(made[number].name for number in range(carries, len(body.outputs)) if number in made),
            ),
            tuple(self.emission.operations),
        )
        return self.motion.emission.add(
            attrs.evolve(
                scan,
                name=self.motion.emission.fresh(),
                body=new,
                carries=(*scan.carries, *(name for _, name in added)),
                sequences=(*scan.sequences, *(name for _, name in slices)),
                constants=(*scan.constants, *(name for _, name in others)),
                result=place,
            )
        )

    def _moves(self, number: int, name: str) -> bool:
        """Return whether a new carry or an output of the step needs a tangent: carries do where they have one."""
        return number in self.tangents if number < len(self.scan.carries) else name in self.active

    def _place(self, made: dict[int, Tensor]) -> ScanResult | None:
        """Return which result of the new loop is how the old result moves."""
        carries, (part, number) = len(self.scan.carries), attrs.astuple(self.scan.result, recurse=False)
        if part is ScanPart.OUTPUT:
            before, total = carries + number, len(self.scan.body.outputs) - carries
            first = carries
        else:
            before, total, first = number, carries, 0
        if before not in made:
            return None
        return ScanResult(part, total + sum(1 for place in range(first, before) if place in made))

    def _added(self, places: range) -> Iterator[tuple[Value, str]]:
        """Yield tangents that stand behind the inputs of these places: carries, slices or constants."""
        sequences = range(len(self.scan.carries), len(self.scan.carries) + len(self.scan.sequences))
        if places.start > 0 and places.start == sequences.stop:
            yield from (self.tangents[number] for number in sorted(self.spread))
        yield from (self.tangents[number] for number in places if number in self.tangents.keys() - self.spread)

    def _tangent(self, number: int, value: Value) -> tuple[Value, str]:
        """Return an input of the new step for how one of the old step moves, and what it is around the loop."""
        carries, sequences = len(self.scan.carries), len(self.scan.sequences)
        given = self.given[number]
        if given is None:  # a carry that does not move at first
            given = self.motion.zero(self._tensor(value.name))
        if number < carries:
            return self._input(value, value.shape), self.motion.expanded(given, value.shape).name
        if number >= carries + sequences:
            return self._input(value, given.shape), given.name
        stacked = len(given.shape) > len(value.shape)
        if stacked and given.shape[0] == self.scan.count:
            return self._input(value, given.shape[1:]), given.name
        self.spread.add(number)
        alike = self.motion.reshaped(given, given.shape[1:]) if stacked else given
        return self._input(value, alike.shape), alike.name

    def _input(self, value: Value, shape: tuple[int, ...]) -> Value:
        tangent = Value(self.emission.names.fresh(f"D{value.name}"), arithmetic_type(value.dtype), shape)
        self.emission.parameters((tangent,))
        return tangent

    def _copy(self, tensor: Tensor) -> Tensor:
        """Give a value a name of its own, since no two outputs can be the same."""
        name = self.emission.names.fresh(f"{tensor.name}_new")
        return self.emission.add(Elementwise(name, Op.IDENT, (tensor.name,), tensor.dtype, tensor.shape))

    def _tensor(self, name: str) -> Tensor:
        definition = self.emission.definitions[name]
        return Tensor(name, definition.dtype, definition.shape)


def _active(scan: Scan, given: Sequence[Tensor | None]) -> frozenset[str]:
    """Return the inputs of the step that move in some step, and what is made of them."""
    body = scan.body
    active = {value.name for value, tangent in zip(body.inputs, given, strict=True) if tangent is not None}
    while True:
        for operation in body.operations:
            if operation.dtype.is_float and not active.isdisjoint(operands(operation)):
                active.add(operation.name)
        pairs = zip(body.inputs[: len(scan.carries)], body.outputs, strict=False)
        more = {value.name for value, name in pairs if name in active} - active
        if not more:
            return frozenset(active)
        active |= more
