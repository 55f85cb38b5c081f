"""Scans: a step that is recorded by a builder of its own, and the results of the loop over it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TypeAlias

from tileir.core import DType, attrs, call_site
from tileir.tile import ir
from tileir.tile.building.assembly import assemble, substitute
from tileir.tile.building.captures import declare, inner_trace
from tileir.tile.building.dtypes import dtype_of
from tileir.tile.building.indices import Dim, size_of
from tileir.tile.building.recording import Recorder, mistake, tracing
from tileir.tile.building.sizes import Sizes, sizes_of
from tileir.tile.building.tensors import Operand, Tensor, computed, recorder_of, value_of
from tileir.tile.text.grammar import is_tensor_name
from tileir.tile.traversal import walk

Step: TypeAlias = Callable[..., Tensor | Sequence[Tensor]] | ir.Function


def scan(
    step: Step,
    carries: Sequence[Operand],
    sequences: Sequence[Tensor] = (),
    constants: Sequence[Operand] = (),
    *,
    count: Dim | int | None = None,
    reverse: bool = False,
) -> tuple[Tensor, ...]:
    """Run ``step`` for each element along the first axis of ``sequences``, as a loop that is not unrolled.

    ``step`` is called once, with tensors of a function of its own: the carries, a slice of each sequence, and the
    constants, in this order. It returns a new value for each carry, of the same dtype and shape, and then its outputs.
    A :class:`tileir.tile.ir.Function` with these inputs and outputs will do as well.

    Args:
        step: The function of one step. It reads only its arguments.
        carries: The values before the first step.
        sequences: Tensors that are read along their first axis.
        constants: Values that every step reads.
        count: The number of steps; needed only without sequences.
        reverse: Whether the last element comes first.

    Returns:
        The carries after the last step, and then the outputs of the steps, stacked along a new first axis.

    Raises:
        TileError: TIL218, the step does not match its arguments, or the number of steps is unknown; TIL216, the step
            uses
            a tensor of the function around it.
    """
    given = (*carries, *sequences, *constants)
    recorder = recorder_of(given)
    if count is None and not sequences:
        raise mistake("TIL218", "without sequences nothing says how many steps there are; pass count=…")
    names = [named(recorder, operand) for operand in given]
    passed = LoopOperands.of(recorder, names, len(carries), len(sequences), count)
    function, made = step_of(passed, step)
    names.extend(ir.Name(reference, span=call_site()) for reference in passed.captured)
    if len(function.outputs) < len(carries):
        raise mistake(
            "TIL218", f"the step returns {len(function.outputs)} tensors, fewer than the {len(carries)} carries"
        )
    first, last = len(carries), len(carries) + len(sequences)
    times = None if count is None else size_of(recorder, count)
    parts = tuple(names[:first]), tuple(names[first:last]), tuple(names[last:])
    statement = ir.Scan("", parts[0], parts[1], parts[2], function, times, reverse, span=call_site())
    return results_of(recorder, recorder.record(statement), passed, made)


def step_of(passed: LoopOperands, step: Step) -> tuple[ir.Function, list[Sizes | None]]:
    """Return a step as a function, and the sizes of its outputs in terms of the function around it.

    Raises:
        TileError: TIL218, it is a function with another number of inputs than is passed; TIL215, it returns no tensors.
    """
    if isinstance(step, ir.Function):
        return step, _unknown_sizes(step, len(passed.names))
    return passed.recorded(step)


@attrs.frozen(repr=False)
class LoopOperands:
    """Operands of a loop: the recorder around it, operands by name with their sizes, and the first axis of results.

    Functions that are traced may read surrounding tensors: these are ``captured``, as inputs after the others.
    ``dtypes`` are those of the results of a recorded step, None if they are unknown.
    """

    recorder: Recorder
    names: list[ir.Name]
    sizes: list[Sizes | None]
    carries: int
    sequences: int
    steps: Dim | None
    captured: list[str] = attrs.field(factory=list, init=False)
    dtypes: list[DType | None] = attrs.field(factory=list, init=False)

    @classmethod
    def of(
        cls, recorder: Recorder, names: list[ir.Name], carries: int, sequences: int, count: Dim | int | None
    ) -> LoopOperands:
        """Look up the sizes of the operands."""
        sizes = [sizes_of(recorder, name.name) for name in names]
        first = sizes[carries] if sequences else None
        steps = first[0] if first else None
        for place in range(carries, carries + sequences):
            if sizes[place] == ():
                raise mistake("TIL218", f"sequence {place - carries} is a scalar; pass it among the constants")
        if count is not None:
            steps = Dim(size_of(recorder, count), recorder)
        return cls(recorder, names, sizes, carries, sequences, steps)

    def recorded(self, step: Callable[..., Tensor | Sequence[Tensor]]) -> tuple[ir.Function, list[Sizes | None]]:
        """Record a step, and return it with the sizes of its outputs in terms of the function around it."""
        inner = Recorder(self.recorder, inner_trace(self.recorder))
        names = _input_names(step, len(self.names), self.carries, self.sequences)
        for name in names:
            inner.claim(name)
        inputs = []
        for number, (name, sizes) in enumerate(zip(names, self.sizes, strict=True)):
            is_sequence = self.carries <= number < self.carries + self.sequences
            around = self.names[number].name
            kind = dtype_of(self.recorder, around)
            inputs.append(Tensor(inner, declare(inner, name, sizes[1:] if sizes and is_sequence else sizes, kind)))
            if number >= self.carries + self.sequences:
                inner.captured[around] = name
        with tracing(inner) if inner.trace is not None else nullcontext():
            returned = step(*inputs)
            return self._finished(inner, returned)

    def _finished(self, inner: Recorder, returned: Tensor | Sequence[Tensor]) -> tuple[ir.Function, list[Sizes | None]]:
        """Return the function of a step's results, and their sizes around it."""
        dims = inner.outside
        outputs = returned if isinstance(returned, tuple | list) else (returned,)
        references: list[str] = []
        for output in outputs:
            if not isinstance(output, Tensor):
                raise mistake("TIL215", f"a step returns tensors, not a {type(output).__name__}")
            expr = value_of(inner, output)
            taken = output.reference in references or output.reference not in inner.steps
            references.append(inner.record(expr) if taken else output.reference)
        made = [self._outside(inner, sizes_of(inner, reference), dims) for reference in references]
        self.dtypes.extend(dtype_of(inner, reference) for reference in references)
        function = assemble(inner, references, call_site())
        inner.finished = True
        passed = {name.name for name in self.names[self.carries + self.sequences :]}
        self.captured.extend(reference for reference in inner.captured if reference not in passed)
        return function, made

    def _outside(self, inner: Recorder, sizes: Sizes | None, dims: dict[str, ir.Expr]) -> Sizes | None:
        """Return sizes inside the step as those around it; None if they depend on something else than inputs.

        ``dims`` maps sizes inside to those outside. Large ones are statements on both sides.
        """
        if sizes is None:
            return None
        pending = [dim.expr for dim in sizes]
        large: dict[str, ir.Expr] = {}
        while pending:
            for node in walk(pending.pop()):
                if isinstance(node, ir.Name) and node.name not in dims and node.name not in large:
                    step = inner.steps.get(node.name)
                    if step is None or isinstance(step.body, ir.Contraction | ir.Scan | ir.While | ir.Constant):
                        return None
                    large[node.name] = step.body
                    pending.append(step.body)
        for name in inner.steps:
            if name in large:
                dims[name] = ir.Name(self.recorder.record(substitute(large[name], dims)), span=call_site())
        return tuple(Dim(substitute(dim.expr, dims), self.recorder) for dim in sizes)


def named(recorder: Recorder, operand: Operand) -> ir.Name:
    """Return an operand by name; a number or dimension becomes a statement."""
    expr = value_of(recorder, operand)
    if not isinstance(operand, Tensor):
        expr = value_of(recorder, computed(recorder, expr))
    assert isinstance(expr, ir.Name)
    return expr


def _input_names(step: Callable[..., object], count: int, carries: int, sequences: int) -> list[str]:
    """Return names for the inputs of a step: those of its parameters, if their number fits, with a capital."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        parameters = [name for name, p in inspect.signature(step).parameters.items() if p.kind in kinds]
    except (TypeError, ValueError):
        parameters = []
    names = [name[:1].upper() + name[1:] for name in parameters[:count]]
    if len(names) == count == len(set(names)) and all(map(is_tensor_name, names)):
        return names
    kinds_of = ["C"] * carries + ["X"] * sequences + ["W"] * (count - carries - sequences)
    return [f"{kind}{number}" for number, kind in enumerate(kinds_of)]


def _unknown_sizes(step: ir.Function, passed: int) -> list[Sizes | None]:
    if len(step.inputs) != passed:
        raise mistake("TIL218", f"{passed} tensors are passed, but the step has {len(step.inputs)} inputs")
    return [None] * len(step.outputs)


def results_of(
    recorder: Recorder, reference: str, passed: LoopOperands, made: Sequence[Sizes | None]
) -> tuple[Tensor, ...]:
    """Return a tensor for each result, with sizes as far as they are known."""
    results: list[Tensor] = []
    for number, sizes in enumerate(made):
        if number < passed.carries:
            sizes = passed.sizes[number]
        elif sizes is not None:
            sizes = None if passed.steps is None else (passed.steps, *sizes)
        if len(made) == 1:
            tensor = Tensor(recorder, reference)
        else:
            part = ir.Call("element", (ir.Name(reference, span=call_site()), ir.IntLiteral(number)), span=call_site())
            tensor = computed(recorder, part)
        if number >= passed.carries and passed.dtypes:
            recorder.dtypes[tensor.reference] = passed.dtypes[number]
        recorder.sizes[tensor.reference] = sizes
        if sizes is not None:
            recorder.ranks[tensor.reference] = len(sizes)
        results.append(tensor)
    return tuple(results)
