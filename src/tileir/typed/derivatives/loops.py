"""Loops in reverse mode: a loop in the other direction, whose step recomputes the forward step and pulls back.

Its carries are the cotangents of the carries and, beginning with zeros, sums of those of the constants; cotangents of
the sequences are stacked. It reads the values of the carries before each forward step, which are kept for that, and
nothing else that the forward steps computed. The result is an ordinary loop, which can be differentiated again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.core import DType, Op, accumulator, arithmetic_type, attrs, fail, grouped
from tileir.typed.dataflow import loop_of
from tileir.typed.inference.emission import Emission
from tileir.typed.inference.values import Tensor
from tileir.typed.ir import Elementwise, Function, Operation, Scan, ScanPart, ScanResult, Shape, Value, operands

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tileir.typed.derivatives.reverse import Sweep

    Reverse = Callable[..., tuple[Tensor, ...]]


def results_on(path: Sequence[Operation]) -> dict[str, tuple[Scan, ...]]:
    """Return all results of each loop by the name of the first one, and nothing by the names of the others.

    When a walk backwards reaches the first one, the cotangents of all are final.
    """
    loops = grouped((loop_of(operation), operation) for operation in path if isinstance(operation, Scan))
    found: dict[str, tuple[Scan, ...]] = {}
    for first, *others in loops.values():
        found[first.name] = (first, *others)
        found.update((scan.name, ()) for scan in others)
    return found


def pull_scan(sweep: Sweep, results: Sequence[Scan], reverse: Reverse) -> Iterator[tuple[str, Tensor]]:
    """Yield (operand, contribution) for a loop, as :func:`tileir.typed.derivatives.rules.pullback` does.

    ``reverse`` differentiates inside the step: :func:`tileir.typed.derivatives.reverse.reverse`.
    """
    cotangents: dict[ScanResult, Tensor] = {}
    for scan in results:  # each sweep through the loop has given another name to the values that it keeps
        found = sweep.cotangent(scan.name)
        if found is not None:
            before = cotangents.get(scan.result)
            cotangents[scan.result] = found if before is None else sweep.add(before, found)
    if cotangents:
        check_counted(results[0])
        backward = _Backward.of(sweep, results[0], cotangents)
        backward.step(reverse)
        yield from backward.contributions()


def check_counted(scan: Scan) -> int:
    """Return the number of steps of a loop.

    Raises:
        TileError: TIL333, it is known only at run time.
    """
    if scan.count is None:
        message = (
            "there is no derivative through a loop that runs while something holds; run a scan of so many steps as are "
            "enough, or let stop_gradient(…) of the result say that nothing goes backward here"
        )
        raise fail("TIL333", message, scan.span)
    return scan.count


@attrs.define(eq=False, repr=False)
class _Backward:
    """The loop of reverse mode while it is built.

    Attributes:
        sweep: The sweep around the loop.
        scan: A result of the forward loop.
        cotangents: The cotangents of its results.
        wanted: The inputs of its step that need cotangents: carries, and others on which results depend.
        emission: The step: that of the forward loop, followed by its pullback.
        carries: Values that a step hands to the next one, each with its first value around the loop.
        sequences: Slices, each with the sequence.
        constants: Values that steps read, each with the value around the loop.
        made: Results of a step: new carries and outputs, by the position of the input of the step that gets them.
    """

    sweep: Sweep
    scan: Scan
    cotangents: Mapping[ScanResult, Tensor]
    wanted: tuple[int, ...]
    emission: Emission
    carries: list[tuple[Value, str]] = attrs.field(factory=list, init=False)
    sequences: list[tuple[Value, str]] = attrs.field(factory=list, init=False)
    constants: list[tuple[Value, str]] = attrs.field(factory=list, init=False)
    made: list[tuple[int, Tensor]] = attrs.field(factory=list, init=False)

    @classmethod
    def of(cls, sweep: Sweep, scan: Scan, cotangents: Mapping[ScanResult, Tensor]) -> _Backward:
        """Return the loop of reverse mode before its pullback is added."""
        return cls(sweep, scan, cotangents, _active(sweep, scan), Emission.resuming(scan.body))

    def step(self, reverse: Reverse) -> None:
        """Build the step and the arguments of the loop."""
        self._forward_inputs()
        body, count = self.scan.body, len(self.scan.carries)
        results: list[Tensor] = []
        arriving: list[Tensor] = []
        for number in self._wanted_carries():
            value = body.inputs[number]
            first = self.cotangents.get(ScanResult(ScanPart.FINAL, number))
            results.append(self.emission.defined(body.outputs[number]))
            arriving.append(self._carry(value, arithmetic_type(value.dtype), first))
        for number, name in enumerate(body.outputs[count:]):
            cotangent = self.cotangents.get(ScanResult(ScanPart.OUTPUT, number))
            if cotangent is not None:
                results.append(self.emission.defined(name))
                arriving.append(self._slice(f"D{name}", cotangent, len(results[-1].shape)))
        self.emission.stem = "gradient"
        inputs = [self.emission.defined(body.inputs[number].name) for number in self.wanted]
        found = reverse(self.emission, results, arriving, inputs, even_ties=self.sweep.even_ties)
        for number, cotangent in zip(self.wanted, found, strict=True):
            self._put_out(number, cotangent)

    def _put_out(self, number: int, cotangent: Tensor) -> None:
        """Pass on or put out the cotangent of an input of the forward step."""
        part = self.scan.body.inputs[number]
        if number < len(self.scan.carries):
            kept = self.cotangents.get(ScanResult(ScanPart.HISTORY, number))
            if kept is not None:
                here = self._slice(f"D{part.name}_kept", kept, len(part.shape))
                cotangent = self.emission.elementwise(Op.ADD, cotangent, here)
        elif number >= len(self.scan.carries) + len(self.scan.sequences):
            total = self._carry(part, accumulator(part.dtype), None)
            cotangent = self.emission.elementwise(Op.ADD, total, self.emission.cast(cotangent, total.dtype))
        name = self.emission.names.fresh(f"D{part.name}_new")
        copy = Elementwise(name, Op.IDENT, (cotangent.name,), cotangent.dtype, cotangent.shape, span=self.scan.span)
        self.made.append((number, self.emission.add(copy)))

    def contributions(self) -> Iterator[tuple[str, Tensor]]:
        """Emit the loop, and yield the cotangent of each operand."""
        carries, sequences = len(self.scan.carries), len(self.scan.sequences)
        stacked = range(carries, carries + sequences)
        handed = [pair for pair in self.made if pair[0] not in stacked]
        put_out = [pair for pair in self.made if pair[0] in stacked]
        inputs = (*self.carries, *self.sequences, *self.constants)
        body = Function(
            tuple(value for value, _ in inputs),
            tuple(tensor.name for _, tensor in (*handed, *put_out)),
            tuple(self.emission.operations),
        )
        results = [(*pair, ScanResult(ScanPart.FINAL, position)) for position, pair in enumerate(handed)]
        results += [(*pair, ScanResult(ScanPart.OUTPUT, position)) for position, pair in enumerate(put_out)]
        for number, tensor, result in results:
            operand = operands(self.scan)[number]
            if self.sweep.wanted(operand):
                yield operand, self._result(body, tensor, result)

    def _result(self, body: Function, made: Tensor, result: ScanResult) -> Tensor:
        emission = self.sweep.emission
        shape = made.shape if result.part is ScanPart.FINAL else (check_counted(self.scan), *made.shape)
        return emission.add(
            Scan(
                emission.fresh(),
                body,
                self.scan.count,
                not self.scan.reverse,
                tuple(name for _, name in self.carries),
                tuple(name for _, name in self.sequences),
                tuple(name for _, name in self.constants),
                result,
                made.dtype,
                shape,
                span=self.scan.span,
            )
        )

    def _forward_inputs(self) -> None:
        """Pass the inputs of the forward step: the carries before it, and the others as they are."""
        scan, sweep = self.scan, self.sweep
        carries, sequences = len(scan.carries), len(scan.sequences)
        for number, (value, name) in enumerate(zip(scan.body.inputs, operands(scan), strict=True)):
            if number < carries:
                self.sequences.append((value, self._history(number, value)))
            elif number < carries + sequences:
                self.sequences.append((value, sweep.value(name).name))
            else:
                self.constants.append((value, sweep.value(name).name))

    def _history(self, number: int, value: Value) -> str:
        """Return the values of a carry before each step, which the forward loop stacks from now on."""
        emission = self.sweep.emission
        name = emission.names.fresh(f"{value.name}_kept")
        shape = (check_counted(self.scan), *value.shape)
        result = ScanResult(ScanPart.HISTORY, number)
        emission.add(attrs.evolve(self.scan, name=name, result=result, dtype=value.dtype, shape=shape))
        return name

    def _wanted_carries(self) -> Iterator[int]:
        return (number for number in self.wanted if number < len(self.scan.carries))

    def _input(self, stem: str, dtype: DType, shape: Shape) -> Value:
        value = Value(self.emission.names.fresh(stem), dtype, shape)
        self.emission.parameters((value,))
        return value

    def _carry(self, part: Value, dtype: DType, first: Tensor | None) -> Tensor:
        """Add a carry that begins with ``first``, or zeros, and return it."""
        value = self._input(f"D{part.name}", dtype, part.shape)
        if first is None:
            first = self.sweep.constant(0.0, Tensor(value.name, dtype, value.shape))
        self.carries.append((value, self.sweep.expanded(first, value.shape).name))
        return Tensor(value.name, dtype, value.shape)

    def _slice(self, stem: str, stacked: Tensor, rank: int) -> Tensor:
        """Return an element of a cotangent of stacked values of this rank; if it is equal for all, it is a constant."""
        if len(stacked.shape) > rank and stacked.shape[0] == self.scan.count:
            value = self._input(stem, stacked.dtype, stacked.shape[1:])
            self.sequences.append((value, stacked.name))
        else:
            shape = stacked.shape[1:] if len(stacked.shape) > rank else stacked.shape
            value = self._input(stem, stacked.dtype, shape)
            self.constants.append((value, self.sweep.reshaped(stacked, shape).name))
        return Tensor(value.name, value.dtype, value.shape)


def _active(sweep: Sweep, scan: Scan) -> tuple[int, ...]:
    """Return the float inputs of the step with wanted cotangents, and carries that depend on them."""
    body, names = scan.body, operands(scan)
    inputs = [
        number for number, value in enumerate(body.inputs) if value.dtype.is_float and sweep.wanted(names[number])
    ]
    while True:
        active = {body.inputs[number].name for number in inputs}
        for operation in body.operations:
            if operation.dtype.is_float and not active.isdisjoint(operands(operation)):
                active.add(operation.name)
        more = [n for n in range(len(scan.carries)) if body.outputs[n] in active and n not in inputs]
        if not more:
            return tuple(sorted(inputs))
        inputs += more
