"""Batching: from a function of one example to a function of several, with a further index in every statement.

Contractions get one more index variable, expressions a leading axis, and functions with axis arguments have these
moved: the arithmetic for each example is that of the function, to the bit if sums are not regrouped. Derivatives are
those of each example, also with respect to values that all examples share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set as AbstractSet

from tileir.core import NameScope, TileError, attrs, fail
from tileir.tile.batches.body import Body, Plan
from tileir.tile.batches.layout import Layout, Part
from tileir.tile.batches.statements import run
from tileir.tile.building.assembly import assemble
from tileir.tile.building.indices import Dim
from tileir.tile.building.recording import Recorder, Step
from tileir.tile.building.tensors import Tensor
from tileir.tile.checks.integers import sizing_inputs
from tileir.tile.checks.verifier import verify
from tileir.tile.ir import Function, Input, Name, Output
from tileir.tile.text.grammar import is_index_name
from tileir.tile.traversal import dimensions, named, walk


def batched(
    function: Function,
    axes: Sequence[int | None],
    out_axes: int | Sequence[int | None] | None = 0,
    name: str = "B",
) -> Function:
    """Return the function that computes ``function`` for each of several examples.

    Args:
        function: A function of one example.
        axes: For each input, the axis of the examples in its argument, counted from the end if it is negative; None for
            an input that all examples share. An input with examples has declared dimensions.
        out_axes: The axis of the examples in each result, or in all of them. A result that is equal for all examples
            is repeated, or may have None.
        name: The dimension of the examples; another name is chosen if the function uses it.

    Returns:
        A function of the same names, whose inputs and outputs have one more axis.

    Raises:
        VerifyError: The function breaks a rule.
        TileError: TIL220, it cannot be computed for several examples, or axes do not fit; an input that has examples
            is declared without sizes, or sizes are computed from it.
    """
    verify(function)
    _check(function, axes)
    results = _out_axes(function, out_axes)
    used = NameScope.of((*(each.name for each in (*function.inputs, *function.statements)), *_dims(function)))
    example = Name(used.fresh(name))
    plan = Plan()
    while True:
        try:
            made = _attempt(function, axes, results, example, plan)
        except TileError:  # later findings may avoid the error
            if plan.settled():
                raise
            continue
        if plan.settled():
            return made


def _attempt(
    function: Function, axes: Sequence[int | None], results: Sequence[int | None], example: Name, plan: Plan
) -> Function:
    """Return the batched function, which is valid if the attempt made no new findings."""
    recorder = Recorder()
    recorder.names.add(example.name, *_dims(function))
    recorder.dims[example.name] = None
    stem = example.name[:1].lower() + example.name[1:]
    layout = Layout(recorder, example, stem if is_index_name(stem) else "b")
    body = Body(layout, plan)
    for parameter, axis in zip(function.inputs, axes, strict=True):
        part = _input(body, parameter, axis, example)
        body.values[parameter.name] = layout.spread(part) if parameter.name in plan.forced else part
    run(body, function)
    steps = {step.name: step for step in recorder.steps.values() if step.name is not None}
    references: list[str] = []
    for output, axis in zip(function.outputs, results, strict=True):
        references.append(_output(body, output, axis, steps, references))
    axes_of = zip(references, function.outputs, results, strict=True)
    known = frozenset(_dims(function))
    declared = {name: _declared(output, axis, example, known) for name, output, axis in axes_of}
    return assemble(recorder, references, function.span, declared)


def _declared(output: Output, axis: int | None, example: Name, known: AbstractSet[str]) -> Output:
    """Return the declaration of a result, with its axis of examples, if any; with sizes only if they are dimensions."""
    dims = output.dims
    names = {node.name for dim in dims or () for node in walk(dim) if isinstance(node, Name)}
    if dims is None or not names <= known:
        return attrs.evolve(output, dims=None)
    if axis is None:
        return output
    axis %= len(dims) + 1
    return attrs.evolve(output, dims=(*dims[:axis], example, *dims[axis:]))


def _dims(function: Function) -> list[str]:
    return [dim.name for dim in dimensions(function)]


def _check(function: Function, axes: Sequence[int | None]) -> None:
    """Refuse axes that do not go with the inputs."""
    if len(axes) != len(function.inputs):
        message = f"the function has {len(function.inputs)} inputs, but there are {len(axes)} axes"
        raise fail("TIL220", message, function.span)
    if all(axis is None for axis in axes):
        raise fail("TIL220", "no input has examples: give an axis to one of them at least", function.span)
    sizing = sizing_inputs(function)
    for parameter, axis in zip(function.inputs, axes, strict=True):
        if axis is None:
            continue
        label = f"the input {parameter.name!r}"
        if parameter.name in sizing:
            message = f"sizes are computed from {label}, so it is the same for all examples: give it None"
            raise fail("TIL220", message, parameter.span)
        if parameter.dims is None:
            message = f"{label} has examples, so declare a dimension for each of its axes, as in {parameter.name}[N]"
            raise fail("TIL220", message, parameter.span)
        if not -len(parameter.dims) - 1 <= axis <= len(parameter.dims):
            message = f"{label} has {len(parameter.dims) + 1} axes with that of the examples, which is not {axis}"
            raise fail("TIL220", message, parameter.span)


def _out_axes(function: Function, given: int | Sequence[int | None] | None) -> list[int | None]:
    if given is None or isinstance(given, int):
        return [given] * len(function.outputs)
    if len(given) != len(function.outputs):
        message = f"the function has {len(function.outputs)} outputs, but there are {len(given)} axes"
        raise fail("TIL220", message, function.span)
    return list(given)


def _input(body: Body, parameter: Input, axis: int | None, example: Name) -> Part:
    """Declare an input, with its axis of examples, if any."""
    recorder, dims = body.recorder, parameter.dims
    for dim in named(parameter):
        recorder.dims[dim.name] = None
        body.sizes[dim.name] = Name(dim.name, span=dim.span)
    if dims is not None and axis is not None:
        axis %= len(dims) + 1
        dims = (*dims[:axis], example, *dims[axis:])
    recorder.inputs.append(attrs.evolve(parameter, dims=dims))
    recorder.names.add(parameter.name)
    recorder.sizes[parameter.name] = None if dims is None else tuple(Dim(dim, recorder) for dim in dims)
    if dims is not None:
        recorder.ranks[parameter.name] = len(dims)
    return Part(Tensor(recorder, parameter.name), axis)


def _output(body: Body, output: Output, axis: int | None, steps: Mapping[str, Step], taken: Sequence[str]) -> str:
    """Return the reference of a result with examples along ``axis``, under the name of the output."""
    layout, recorder = body.layout, body.recorder
    layout.span = output.span
    part = body.part(Name(output.name, span=output.span))
    if axis is None and part.axis is not None:
        message = f"the output {output.name!r} differs among examples, so give it an axis"
        raise layout.refused(message)
    if axis is not None:
        rank = layout.rank(part)
        if not -rank - 1 <= axis <= rank:
            raise layout.refused(f"{output.name!r} has {rank + 1} axes with that of the examples, which is not {axis}")
        part = layout.moved(layout.spread(part), axis % (rank + 1))
    reference = part.tensor.reference
    step = recorder.steps.get(reference)
    own = reference == output.name or (step is not None and step.name == output.name)
    if own and reference not in taken:
        return reference
    if step is None or step.name is not None or reference in taken:
        reference = layout.helper(part.name).tensor.reference
    if output.name in steps:
        steps[output.name].name = recorder.names.fresh(output.name)
    is_input = any(each.name == output.name for each in recorder.inputs)
    recorder.steps[reference].name = recorder.names.fresh(output.name) if is_input else output.name
    return reference
