"""Operators that run subgraphs, branches and loops, and those on sequences and optional values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from attrs import frozen

from tileir import TileError, ops
from tileir.tile.builder import Dim, Tensor
from tileir.tile.builder_functions import scan as loop_over, where, while_loop
from tileir_onnx.graph import Array, Graph
from tileir_onnx.importing import Call, Importer, Items, MissingError, Sized, StepError, Value, parts
from tileir_onnx.rows.table import row

_UNROLLED: Final = 64
"""Maximum number of nodes of an unrolled loop."""
_BOUND: Final = 20_000
"""Maximum number of nodes of an unrolled loop that cannot be a loop of tileir."""

Body: TypeAlias = Callable[[Importer, tuple[Tensor, ...]], "tuple[Value, ...]"]


@row("If", raw=True)
def branch(call: Call, condition: Value, *, then_branch: Graph, else_branch: Graph) -> tuple[Value, ...]:
    known = call.value(0, condition)
    if known is not None:
        return call.inner(then_branch if np.all(known) else else_branch)
    found = []
    for port, left, right in zip(then_branch.outputs, call.inner(then_branch), call.inner(else_branch), strict=True):
        if any(isinstance(each, Items | Sized) or each is None for each in (left, right)):
            call.check_value(0, condition)
            raise call.fault("the condition is known only when the model runs, and branches put out no tensors")
        then, otherwise = call.tensor(left), call.tensor(right)
        if then.dtype != otherwise.dtype or _differ(then.shape, otherwise.shape):
            call.check_value(0, condition)
            told = f"{then} in one branch, and {otherwise} in the other"
            raise call.fault(f"the condition is known only when the model runs, and {port.name!r} is {told}")
        found.append(where(ops.reshape(call.tensor(condition)), then, otherwise))
    return tuple(found)


def _differ(shape: Sequence[Dim | int], other: Sequence[Dim | int]) -> bool:
    pairs = zip(shape, other, strict=False)
    return len(shape) != len(other) or any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs)


@row("Loop", raw=True)
def loop(call: Call, trips: Value, condition: Value, *initial: Value, body: Graph) -> tuple[Value, ...]:
    count = None if trips is None else call.value(0, trips)
    holds = np.bool_(True) if condition is None else call.value(1, condition)
    times: Any = None if count is None else count.reshape(-1)[0]
    if not isinstance(times, Dim) and times is not None:
        times = max(0, int(times))
    if holds is not None and not np.all(holds):
        times = 0
    looped = _LoopImport(call, body, initial, times, trips, condition)
    nodes = max(1, sum(1 for _ in body.nodes))
    is_short = isinstance(times, int) and times * nodes <= _BOUND
    if isinstance(times, int) and (times * nodes <= _UNROLLED or not all(map(_is_tensor, initial))):
        unrolled = looped.unrolled() if is_short else None
        if unrolled is not None:
            return unrolled
    try:
        if holds is not None and times is not None:
            found = looped.counted()
            if found is not None:
                return found
        return looped.conditional()
    except (TileError, StepError) as error:
        unrolled = looped.unrolled() if is_short else None
        if unrolled is not None:
            return unrolled
        for position, value in enumerate((trips, condition)):
            call.check_value(position, value)
        if isinstance(error, TileError):
            raise
        raise call.fault(str(error)) from None


def _is_tensor(value: Value) -> bool:
    return isinstance(value, Tensor) or (isinstance(value, np.ndarray) and value.dtype != object)


@frozen(eq=False)
class _LoopImport:
    """Loop, and the ways to import it.

    Attributes:
        call: The node.
        body: Its graph, from the number of the step, its condition, and the carry to the next condition, the new carry,
            and outputs.
        initial: Initial carry.
        times: Maximum number of steps; None if it depends on data.
        trips: Input with that number.
        condition: Input with the initial condition.
    """

    call: Call
    body: Graph
    initial: tuple[Value, ...]
    times: Any
    trips: Value
    condition: Value

    def unrolled(self) -> tuple[Value, ...] | None:
        """Return the results of all unrolled steps; None if conditions are not known."""
        carried: tuple[Value, ...] = self.initial
        put_out: list[tuple[Value, ...]] = []
        number = len(carried)
        for step in range(self.times):
            holds, *results = self.call.inner(self.body, np.array(step), np.array(True), *carried)
            if not isinstance(holds, np.ndarray):
                return None
            carried = tuple(results[:number])
            put_out.append(tuple(results[number:]))
            if not np.all(holds):
                break
        if put_out:
            return (*carried, *(_stacked(self.call, each) for each in zip(*put_out, strict=True)))
        return (*carried, *self._nothing(len(self.body.outputs) - 1 - number))

    def _nothing(self, outputs: int) -> tuple[Tensor, ...]:
        """Return the empty outputs of a loop without steps."""
        if not outputs:
            return ()
        results = self.call.inner(self.body, np.array(0), np.array(True), *self.initial)[-outputs:]
        return tuple(ops.stack([self.call.tensor(each)])[:0] for each in results)

    def counted(self) -> tuple[Value, ...] | None:
        """Return the results of a scan; None if the graph computes the condition itself."""
        unknown = False

        def body(importer: Importer, given: tuple[Tensor, ...]) -> tuple[Value, ...]:
            nonlocal unknown
            number, *carried = given
            holds, *results = importer.run(self.body, self._names(number, np.array(True), carried))
            unknown = not (isinstance(holds, np.ndarray) and bool(np.all(holds)))
            if unknown:
                raise StepError("only running tells how many steps there are")
            return (ops.cast(number + 1, "i64"), *results)

        try:
            results = _scanned(self.call, self.body, body, self._carries(), (), self.times)
        except StepError:
            if unknown:
                return None
            raise
        return results[1:]

    def _carries(self) -> tuple[Tensor, ...]:
        tensors = (self.call.tensor(each) for each in self.initial)
        return self.call.tensor(np.array(0)), *tensors

    def _names(self, number: Value, holds: Value, carried: Sequence[Value]) -> dict[str, Value]:
        names = (port.name for port in self.body.inputs)
        return dict(zip(names, (number, holds, *carried), strict=True))

    def conditional(self) -> tuple[Value, ...]:
        """Return the results of a loop that runs while a condition holds."""
        call, outputs = self.call, len(self.body.outputs) - 1 - len(self.initial)
        known = isinstance(self.times, int)
        limit = self.times if known or self.trips is None else ops.reshape(call.tensor(self.trips))
        holds = np.array(True) if self.condition is None else self.condition
        buffers = self._buffers(outputs) if outputs else ()
        first = len(self.initial) + 2

        def asked(number: Tensor, goes_on: Tensor, *_: Tensor) -> Tensor:
            bound = limit if known or limit is None else _[-1]
            return goes_on if bound is None else ops.logical_and(goes_on, number < bound)

        def body(importer: Importer, given: tuple[Tensor, ...]) -> tuple[Value, ...]:
            number, goes_on, *carried = given[:first]
            further, *results = importer.run(self.body, self._names(number, goes_on, carried))
            made = [importer.tensor(each) for each in results[len(self.initial) :]]
            kept = [_put(buffer, each, number) for buffer, each in zip(given[first:], made, strict=True)]
            return (ops.cast(number + 1, "i64"), further, *results[: len(self.initial)], *kept)

        zero, *carried = self._carries()
        carries = (zero, ops.reshape(call.tensor(holds)), *carried, *buffers)
        extra = () if limit is None or known else (limit,)
        count, _, *results = _while(call, self.body, asked, body, carries, extra)
        last = len(self.initial)
        return (*results[:last], *(Sized(each, count) for each in results[last:]))

    def _buffers(self, outputs: int) -> tuple[Tensor, ...]:
        """Return zeros for the outputs of all steps."""
        if not isinstance(self.times, int):
            raise self.call.fault("it puts out something in each step, and nothing bounds how many there are")
        results = self.call.inner(self.body, self.call.tensor(np.array(0)), np.array(True), *self.initial)[-outputs:]
        tensors = [self.call.tensor(each) for each in results]
        return tuple(ops.broadcast_to(each * 0, (self.times, *each.shape)) for each in tensors)


def _put(buffer: Tensor, element: Tensor, number: Tensor) -> Tensor:
    """Return a buffer with an element at a place along its first axis."""
    return where(ops.cast(ops.index(buffer, 0), "i64") == number, ops.unsqueeze(element, 0), buffer)


def _stacked(call: Call, values: Sequence[Value]) -> Value:
    return ops.stack([call.tensor(each) for each in values])


def _names_read(graph: Graph) -> dict[str, None]:
    """Return the names that nodes of a graph and its subgraphs read, in order."""
    names: dict[str, None] = {}
    for node in graph.nodes:
        names.update(dict.fromkeys(node.inputs))
        for inner in node.graphs:
            names.update(_names_read(inner))
    names.update(dict.fromkeys(port.name for port in graph.outputs))
    return names


@frozen(eq=False)
class _OuterValues:
    """Values that a subgraph reads from the enclosing graph.

    Attributes:
        values: Values by name.
        tensors: Tensors that the values consist of.
    """

    values: dict[str, Value]
    tensors: tuple[Tensor, ...]

    @classmethod
    def of(cls, call: Call, graph: Graph) -> _OuterValues:
        around = call.importer.values
        values = {name: around[name] for name in _names_read(graph) if name in around}
        return cls(values, tuple(dict.fromkeys(part for each in values.values() for part in parts(each))))

    def inside(self, call: Call, arrays: Sequence[Array], passed: Sequence[Tensor]) -> Importer:
        """Return the importer of a step, to which these tensors and arrays are passed."""
        inner = dict(zip(self.tensors, passed, strict=False))
        constants = list(zip(arrays, passed[len(self.tensors) :], strict=True))
        return call.importer.step({name: _renamed(each, inner) for name, each in self.values.items()}, constants)


def _renamed(value: Value, inner: dict[Tensor, Tensor]) -> Value:
    if isinstance(value, Tensor):
        return inner[value]
    return Items(_renamed(each, inner) for each in value) if isinstance(value, Items) else value


def _with_constants(attempt: Callable[[list[Array]], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """Return the result of an attempt, repeated with one more array until it has all that steps read."""
    arrays: list[Array] = []
    while True:
        try:
            return attempt(arrays)
        except MissingError as missing:
            arrays.append(missing.array)


def _scanned(
    call: Call, graph: Graph, body: Body, carries: Sequence[Tensor], sequences: Sequence[Tensor], count: Any
) -> tuple[Tensor, ...]:
    around = _OuterValues.of(call, graph)
    inputs = len(carries) + len(sequences)

    def attempt(arrays: list[Array]) -> tuple[Tensor, ...]:
        def step(*given: Tensor) -> tuple[Tensor, ...]:
            importer = around.inside(call, arrays, given[inputs:])
            results = tuple(importer.tensor(each) for each in body(importer, given[:inputs]))
            _check_carries(given[: len(carries)], results)
            return results

        constants = (*around.tensors, *(call.tensor(each) for each in arrays))
        return loop_over(step, carries, sequences, constants, count=count)

    return _with_constants(attempt)


def _while(
    call: Call,
    graph: Graph,
    asked: Callable[..., Tensor],
    body: Body,
    carries: Sequence[Tensor],
    extra: tuple[Tensor, ...],
) -> tuple[Tensor, ...]:
    around = _OuterValues.of(call, graph)
    inputs = len(carries)

    def attempt(arrays: list[Array]) -> tuple[Tensor, ...]:
        def step(*given: Tensor) -> tuple[Tensor, ...]:
            importer = around.inside(call, arrays, given[inputs : len(given) - len(extra)])
            results = tuple(importer.tensor(each) for each in body(importer, given[:inputs]))
            results = (results[0], ops.reshape(results[1]), *results[2:])
            _check_carries(given[:inputs], results)
            return results

        constants = (*around.tensors, *(call.tensor(each) for each in arrays), *extra)
        return while_loop(asked, step, carries, constants)

    return _with_constants(attempt)


def _check_carries(before: Sequence[Tensor], after: Sequence[Tensor]) -> None:
    for old, new in zip(before, after, strict=False):
        if old.dtype != new.dtype or _differ(old.shape, new.shape):
            raise StepError(f"a value that is carried from step to step is {old} before one, and {new} after it")


@row("Scan", since=9, raw=True)
def scan(
    call: Call,
    *inputs: Value,
    body: Graph,
    num_scan_inputs: int,
    scan_input_axes: Sequence[int] | None = None,
    scan_input_directions: Sequence[int] | None = None,
    scan_output_axes: Sequence[int] | None = None,
    scan_output_directions: Sequence[int] | None = None,
) -> tuple[Tensor, ...]:
    carried = len(inputs) - num_scan_inputs
    outputs = len(body.outputs) - carried
    if carried < 0 or outputs < 0:
        raise call.fault("it has fewer inputs or outputs than it says")
    axes, directions = scan_input_axes or [0] * num_scan_inputs, scan_input_directions or [0] * num_scan_inputs
    sequences = [
        _directed(_moved(call.tensor(each), axis, 0), 0, direction)
        for each, axis, direction in zip(inputs[carried:], axes, directions, strict=True)
    ]
    results = _scan(call, body, [call.tensor(each) for each in inputs[:carried]], sequences)
    axes, directions = scan_output_axes or [0] * outputs, scan_output_directions or [0] * outputs
    stacked = (
        _moved(_directed(each, 0, direction), 0, axis)
        for each, axis, direction in zip(results[carried:], axes, directions, strict=True)
    )
    return (*results[:carried], *stacked)


@row("Scan", until=9, raw=True)
def scan_of_batches(
    call: Call,
    lengths: Value,
    *inputs: Value,
    body: Graph,
    num_scan_inputs: int,
    directions: Sequence[int] | None = None,
) -> tuple[Tensor, ...]:
    if lengths is not None:
        raise call.fault("lengths of sequences are not served: convert the model to version 9 or later")
    carried = len(inputs) - num_scan_inputs
    tensors = [call.tensor(each) for each in inputs]
    batches = tensors[0].shape[0]
    if not isinstance(batches, int) or not batches:
        raise call.fault("the number of batches must be known, and not 0")
    found = []
    for rows in zip(*(ops.unstack(each, batches) for each in tensors), strict=True):
        ways = directions or [0] * num_scan_inputs
        sequences = [_directed(each, 0, way) for each, way in zip(rows[carried:], ways, strict=True)]
        found.append(_scan(call, body, rows[:carried], sequences))
    return tuple(ops.stack(each) for each in zip(*found, strict=True))


def _scan(call: Call, graph: Graph, carries: Sequence[Tensor], sequences: Sequence[Tensor]) -> tuple[Tensor, ...]:
    names = [port.name for port in graph.inputs]

    def body(importer: Importer, given: tuple[Tensor, ...]) -> tuple[Value, ...]:
        return importer.run(graph, dict(zip(names, given, strict=True)))

    try:
        return _scanned(call, graph, body, carries, sequences, None)
    except StepError as error:
        raise call.fault(str(error)) from None


def _moved(x: Tensor, origin: int, target: int) -> Tensor:
    """Return a tensor with one axis moved."""
    axes = list(range(x.rank))
    axes.insert(target % x.rank, axes.pop(origin % x.rank))
    return x if axes == sorted(axes) else ops.transpose(x, axes)


def _directed(x: Tensor, axis: int, direction: int) -> Tensor:
    return ops.flip(x, axis) if direction else x


@row("SequenceConstruct", raw=True)
def construct(call: Call, *values: Value) -> Items:
    return Items(values)


@row("SequenceEmpty", raw=True)
def empty(call: Call, *, dtype: int = 1) -> Items:
    return Items()


@row("SequenceLength", raw=True)
def length(call: Call, sequence: Items) -> Array:
    return np.array(len(sequence))


@row("SequenceAt", raw=True)
def element(call: Call, sequence: Items, position: Value) -> Value:
    return sequence[_place(call, 1, position, len(sequence))]


@row("SequenceInsert", raw=True)
def insert(call: Call, sequence: Items, value: Value, position: Value = None) -> Items:
    place = len(sequence) if position is None else _place(call, 2, position, len(sequence) + 1, len(sequence))
    return Items((*sequence[:place], value, *sequence[place:]))


@row("SequenceErase", raw=True)
def erase(call: Call, sequence: Items, position: Value = None) -> Items:
    place = len(sequence) - 1 if position is None else _place(call, 1, position, len(sequence))
    return Items((*sequence[:place], *sequence[place + 1 :]))


def _place(call: Call, at: int, position: Value, bound: int, size: int | None = None) -> int:
    """Return a place in a sequence, counted from its beginning."""
    place = int(call.importer.known(call.node, at, position).reshape(()))
    counted = place + (bound if size is None else size) if place < 0 else place
    if not 0 <= counted < bound:
        raise call.fault(f"there is no place {place} in a sequence of {bound if size is None else size}")
    return counted


@row("ConcatFromSequence", raw=True)
def joined(call: Call, sequence: Items, *, axis: int, new_axis: int = 0) -> Tensor:
    tensors = [call.tensor(each) for each in sequence]
    return ops.stack(tensors, axis) if new_axis else ops.concatenate(tensors, axis)


@row("SplitToSequence", raw=True)
def split(call: Call, x: Value, split: Value = None, *, axis: int = 0, keepdims: int = 1) -> Items:
    tensor = call.tensor(x)
    size = tensor.shape[axis]
    if not isinstance(size, int):
        raise call.fault(f"the size of axis {axis} must be known")
    if split is None:
        sizes = [1] * size
    else:
        known = call.importer.known(call.node, 1, split)
        step = int(known) if not known.ndim else 0
        if not known.ndim and step < 1:
            raise call.fault(f"parts of size {step}")
        sizes = [min(step, size - at) for at in range(0, size, step)] if not known.ndim else list(map(int, known))
    if sum(sizes) != size or min(sizes, default=0) < 0:
        raise call.fault(f"parts of sizes {sizes} do not make {size}")
    pieces = ops.split(tensor, sizes, axis) if sizes else ()
    return Items(ops.squeeze(each, axis) if split is None and not keepdims else each for each in pieces)


@row("SequenceMap", raw=True)
def mapped(call: Call, sequence: Items, *others: Value, body: Graph) -> tuple[Items, ...]:
    if any(isinstance(each, Items) and len(each) != len(sequence) for each in others):
        raise call.fault("its sequences have different lengths")
    found = [
        call.inner(body, each, *(other[at] if isinstance(other, Items) else other for other in others))
        for at, each in enumerate(sequence)
    ]
    return tuple(map(Items, zip(*found, strict=True))) if found else tuple(Items() for _ in body.outputs)


@row("Optional", raw=True)
def optional(call: Call, value: Value = None, *, type: Any = None) -> Value:  # noqa: A002  ONNX's name
    return value


@row("OptionalHasElement", raw=True)
def has_element(call: Call, value: Value = None) -> Array:
    return np.array(value is not None)


@row("OptionalGetElement", raw=True)
def get_element(call: Call, value: Value) -> Value:
    if value is None:
        raise call.fault("there is no element")
    return value
