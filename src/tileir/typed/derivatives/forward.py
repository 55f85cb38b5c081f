"""Forward mode: one walk from the values that vary to the results, in which each operation computes its tangent.

It uses the linear maps of reverse mode, which is its transpose, also where maxima tie: with ``ties="all"`` their
tangents are added up. Gradients of overrides are transposed, too.

The tangent of a loop is the loop itself, extended by tangents in its step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import attrgetter
from typing import assert_never

from tileir.core import Op, arithmetic_type, attrs, fail, needed
from tileir.typed.derivatives import contractions, elementwise, reductions, rules, scatters
from tileir.typed.derivatives.algebra import Algebra
from tileir.typed.derivatives.loops import check_counted
from tileir.typed.derivatives.reductions import refuse_patterns, sources
from tileir.typed.derivatives.reverse import reverse
from tileir.typed.inference.emission import Emission
from tileir.typed.inference.values import Tensor
from tileir.typed.ir import (
    Argsort,
    ArrayConstant,
    Cast,
    Checkpoint,
    Collective,
    Constant,
    Contraction,
    Coordinate,
    Elementwise,
    Function,
    Gather,
    Operation,
    Override,
    Recall,
    Reduce,
    Reshape,
    Scan,
    ScanPart,
    ScanResult,
    Scatter,
    ShapeOf,
    Upstream,
    Value,
    operands,
)


def forward(
    emission: Emission,
    results: Sequence[Tensor],
    moving: Sequence[Tensor],
    tangents: Sequence[Tensor],
    *,
    even_ties: bool = False,
) -> tuple[Tensor, ...]:
    """Emit the tangents of ``results`` for tangents of ``moving``.

    Args:
        emission: The emission that defines all of them, and the destination of operations.
        results: Float tensors.
        moving: Float tensors. If one depends on others, their tangents contribute to its tangent.
        tangents: For each of ``moving`` a tensor of its arithmetic type, whose shape broadcasts to its.
        even_ties: Whether tied elements contribute their mean tangent to a maximum or minimum.

    Returns:
        A tensor of the arithmetic type and the shape of each of ``results``; zeros for constant results.

    Raises:
        TileError: TIL335, the bits of a number are read between them.
    """
    refuse_patterns(emission.operations, {y.name for y in results}, {x.name for x in moving})
    motion = Tangents(emission, even_ties)
    for value, tangent in zip(moving, tangents, strict=True):
        motion.move(value.name, tangent)
    stem = emission.stem
    for operation in _path(emission.operations, {y.name for y in results}, {x.name for x in moving}):
        emission.stem = f"D{operation.name}"
        found = pushforward(motion, operation)
        if found is not None:
            motion.move(operation.name, emission.cast(found, arithmetic_type(operation.dtype)))
    emission.stem = stem
    found_all = (motion.tangent(y.name) for y in results)
    zeros = (motion.zero(y) for y in results)
    pairs = zip(results, found_all, zeros, strict=True)
    return tuple(motion.expanded(zero if found is None else found, y.shape) for y, found, zero in pairs)


@attrs.define(eq=False)
class Tangents(Algebra):
    """Tangents of values. A tangent has the arithmetic type of its value, and a shape that broadcasts to its."""

    _tangents: dict[str, Tensor] = attrs.field(factory=dict, init=False)

    def move(self, name: str, tangent: Tensor) -> None:
        """Add ``tangent`` to the tangent of ``name``."""
        before = self._tangents.get(name)
        self._tangents[name] = tangent if before is None else self.add(before, tangent)

    def tangent(self, name: str) -> Tensor | None:
        """Return the tangent of ``name``; None if it is 0."""
        return self._tangents.get(name)


def _path(operations: Sequence[Operation], results: set[str], moving: set[str]) -> list[Operation]:
    """Return in order the float operations that depend on ``moving`` and that ``results`` depend on."""
    active = set(moving)
    moved = []
    for operation in operations:
        if operation.dtype.is_float and not active.isdisjoint(sources(operation)):
            active.add(operation.name)
            moved.append(operation)
    return needed(moved, results, attrgetter("name"), sources)


def pushforward(motion: Tangents, operation: Operation) -> Tensor | None:
    """Return the tangent of ``operation``; None if it is 0.

    The shape broadcasts to that of ``operation``, and the dtype may be wider.
    """
    match operation:
        case Elementwise():
            return _elementwise(motion, operation)
        case Cast(input=name) | Checkpoint(input=name) | Recall(input=name) | Collective(input=name):
            return motion.tangent(name)
        case Reshape(input=name, shape=shape):
            tangent = motion.tangent(name)
            before = motion.definition(name).shape
            return None if tangent is None else rules.reshaped(motion, tangent, before, shape)
        case Gather(data=data, indices=indices):
            tangent = motion.tangent(data)
            rows = motion.definition(data).shape
            return None if tangent is None else rules.gathered(motion, tangent, rows, indices)
        case Scatter():
            return _scatter(motion, operation)
        case Contraction():
            default = None if operation.default is None else motion.tangent(operation.default)
            tangents = [motion.tangent(access.tensor) for access in operation.inputs]
            return contractions.pushforward(motion, operation, tangents, default)
        case Reduce(input=name):
            tangent = motion.tangent(name)
            return None if tangent is None else reductions.pushforward(motion, operation, tangent)
        case Scan():
            return _scan(motion, operation)
        case Override():
            return _override(motion, operation)
        case Constant() | ArrayConstant() | Coordinate() | ShapeOf() | Argsort() | Upstream():
            return None
        case _:
            assert_never(operation)


def _elementwise(motion: Tangents, operation: Elementwise) -> Tensor | None:
    site = elementwise.Site.of(motion, operation)
    terms = [
        partial(site, site.widened(tangent))
        for name, partial in zip(operation.inputs, elementwise.partials(site), strict=True)
        if partial is not None and (tangent := motion.tangent(name)) is not None
    ]
    return reduce(motion.add, terms) if terms else None


def _scatter(motion: Tangents, operation: Scatter) -> Tensor | None:
    tangent = motion.tangent(operation.updates)
    if operation.into is not None:
        rows = motion.tangent(operation.into)
        return None if tangent is None and rows is None else scatters.replaced(motion, operation, tangent, rows)
    if tangent is None:
        return None
    moved = scatters.chosen(motion, operation, tangent)
    return scatters.added(motion, operation, moved)


def _override(motion: Tangents, operation: Override) -> Tensor | None:
    """Transpose the template in reverse mode, from the gradients of the pairs to the upstream.

    Raises:
        TileError: TIL325, it is not linear in its upstream, so there is no transpose.
    """
    pairs = [(x, g) for x, g in operation.pairs if motion.tangent(x) is not None]
    if operation.upstream is None or not pairs:
        return None
    emission = motion.emission
    arriving = motion.value(operation.upstream)
    gradients = [motion.value(g) for _, g in pairs]
    cotangents = [
        motion.reduced(tangent, motion.definition(x).shape, gradient.shape)
        for (x, _), gradient in zip(pairs, gradients, strict=True)
        if (tangent := motion.tangent(x)) is not None
    ]
    before = len(emission.operations)
    (found,) = reverse(emission, gradients, cotangents, [arriving], even_ties=motion.even_ties)
    still_open = {name for name, needed in motion.open_templates.items() if arriving.name in needed}
    for made in emission.operations[before:]:
        if not still_open.isdisjoint(operands(made)):
            still_open.add(made.name)
    if found.name in still_open:
        message = (
            "this gradient is not proportional to what arrives, so it says nothing about forward mode; take the "
            "derivative without jvp"
        )
        raise fail("TIL325", message, operation.span)
    return found


def _scan(motion: Tangents, scan: Scan) -> Tensor | None:
    """Return the tangent of a result of a loop; None if it is 0.

    All results of a loop give the same new loop, which runs once.
    """
    given = [motion.tangent(name) for name in operands(scan)]
    if all(tangent is None for tangent in given):
        return None
    check_counted(scan)
    return _Forward.of(motion, scan, given).result()


@attrs.define(eq=False, repr=False)
class _Forward:
    """The new loop while it is built.

    Attributes:
        motion: The tangents around the loop.
        scan: A result of the loop.
        given: The tangents of its operands.
        active: The inputs of the step that vary, and the values that depend on them.
        emission: The new step.
        tangents: For inputs of the step that vary, the input for the tangent and the name of its value around the loop.
        spread: Positions of sequences with a tangent that is equal in all steps, and so a constant.
    """

    motion: Tangents
    scan: Scan
    given: Sequence[Tensor | None]
    active: frozenset[str]
    emission: Emission
    tangents: dict[int, tuple[Value, str]] = attrs.field(factory=dict, init=False)
    spread: set[int] = attrs.field(factory=set, init=False)

    @classmethod
    def of(cls, motion: Tangents, scan: Scan, given: Sequence[Tensor | None]) -> _Forward:
        """Return the new loop before anything is added to the old one."""
        return cls(motion, scan, given, _active(scan, given), Emission.resuming(scan.body))

    def result(self) -> Tensor | None:
        """Emit the loop, for the tangent of the result."""
        scan, body = self.scan, self.scan.body
        for number, value in enumerate(body.inputs):
            if value.name in self.active:
                self.tangents[number] = self._tangent(number, value)
        carries, sequences = len(scan.carries), len(scan.sequences)
        moving = [number for number, name in enumerate(body.outputs) if self._moves(number, name)]
        results = [self.emission.defined(body.outputs[number]) for number in moving]
        inputs = [self.emission.defined(body.inputs[number].name) for number in self.tangents]
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
        """Return whether a new carry or an output of the step needs a tangent: carries do if their inputs have one."""
        return number in self.tangents if number < len(self.scan.carries) else name in self.active

    def _place(self, made: dict[int, Tensor]) -> ScanResult | None:
        """Return the result of the new loop that is the tangent of the old result."""
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
        """Yield the tangents of the inputs at these positions: carries, slices or constants."""
        sequences = range(len(self.scan.carries), len(self.scan.carries) + len(self.scan.sequences))
        if places.start > 0 and places.start == sequences.stop:
            yield from (self.tangents[number] for number in sorted(self.spread))
        yield from (self.tangents[number] for number in places if number in self.tangents.keys() - self.spread)

    def _tangent(self, number: int, value: Value) -> tuple[Value, str]:
        """Return the input of the new step for the tangent of an old input, and its value around the loop."""
        carries, sequences = len(self.scan.carries), len(self.scan.sequences)
        given = self.given[number]
        if given is None:  # a carry that is constant before the first step
            given = self.motion.zero(self.emission.defined(value.name))
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
        """Copy a value under a name of its own, since no two outputs can be the same value."""
        name = self.emission.names.fresh(f"{tensor.name}_new")
        return self.emission.add(Elementwise(name, Op.IDENT, (tensor.name,), tensor.dtype, tensor.shape))


def _active(scan: Scan, given: Sequence[Tensor | None]) -> frozenset[str]:
    """Return the inputs of the step that vary in some step, and the values that depend on them."""
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
