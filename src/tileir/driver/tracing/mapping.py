"""Vectorising map: Python functions of one example computed for several, by an index that contractions carry along."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tileir.core import ArgumentError, call_site, with_short_traceback
from tileir.driver.tracing.control import recorder_around, tensors_of
from tileir.driver.tracing.functions import PythonFunction, python_function
from tileir.driver.tracing.trees import Structure, flattened, rebuilt
from tileir.tile.batching import batched
from tileir.tile.building.assembly import assemble
from tileir.tile.building.captures import declare, inner_trace
from tileir.tile.building.dtypes import dtype_of
from tileir.tile.building.inlining import inline
from tileir.tile.building.recording import Recorder, mistake, tracing
from tileir.tile.building.tensors import Tensor, value_of
from tileir.tile.ir import Function

Axes = int | Sequence[int | None] | None


@with_short_traceback
def vmap(function: Callable[..., Any], in_axes: Axes = 0, out_axes: int = 0) -> PythonFunction[..., Any]:
    """Return a function that computes ``function`` for each of several examples.

    Contractions get one more index, so there is no loop, and results equal those of a loop bit by bit if sums run in
    its order.

    Args:
        function: A Python function of one example.
        in_axes: The axis of the examples in all tensors of an argument: one for all arguments, or one for each, and
            None for those that all examples share.
        out_axes: The axis of the examples in the results.

    Raises:
        TileError: TIL220 on call, it cannot be computed for several examples; or errors of the function.
    """
    python = python_function(function).python

    @functools.wraps(python)
    def mapped_over(*args: Any) -> Any:
        axes: list[Any] = list(in_axes) if isinstance(in_axes, list | tuple) else [in_axes] * len(args)
        if len(axes) != len(args):
            raise ArgumentError.of("TIL705", f"in_axes has {len(axes)} axes, but there are {len(args)} arguments")
        leaves: list[Any] = []
        structures: list[Structure] = []
        places: list[int | None] = []
        for argument, axis in zip(args, axes, strict=True):
            before = len(leaves)
            structures.append(flattened(argument, leaves))
            places.extend([axis] * (len(leaves) - before))
        recorder = recorder_around(leaves, "vmap")
        tensors = tensors_of(recorder, leaves)
        made, captured, results = _one_example(python, recorder, tensors, places, structures)
        many = batched(made, [*places, *[None] * len(captured)], out_axes)
        found = inline(many, *tensors, *(Tensor(recorder, reference) for reference in captured))
        return rebuilt(results, iter(found))

    return PythonFunction(mapped_over)


def _one_example(
    python: Callable[..., Any],
    around: Recorder,
    tensors: Sequence[Tensor],
    places: Sequence[int | None],
    structures: Sequence[Structure],
) -> tuple[Function, list[str], Structure]:
    """Return the function of one example, enclosing tensors that it reads, and the structure of its results."""
    inner = Recorder(around, inner_trace(around))
    inputs: list[Tensor] = []
    for number, (tensor, axis) in enumerate(zip(tensors, places, strict=True)):
        name = f"X{number}"
        inner.claim(name)
        dims = list(tensor.dims)
        if axis is not None:
            if not -len(dims) <= axis < len(dims):
                raise mistake("TIL314", f"in_axes has axis {axis}, but the tensor has {len(dims)} axes")
            del dims[axis]
        inputs.append(Tensor(inner, declare(inner, name, tuple(dims), dtype_of(around, tensor.reference))))
    leaves: list[Any] = []
    with tracing(inner):
        rest = iter(inputs)
        results = flattened(python(*(rebuilt(each, rest) for each in structures)), leaves)
        outputs = [_distinct(inner, leaf) for leaf in leaves]
    made = assemble(inner, [output.own_reference for output in outputs], call_site())
    inner.finished = True
    return made, list(inner.captured), results


def _distinct(inner: Recorder, leaf: Any) -> Tensor:
    """Return a result as a separate statement."""
    reference = inner.record(value_of(inner, leaf))
    return Tensor(inner, reference)
