"""Loops and choices of Python functions, on nested containers of tensors."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import numpy as np

import tileir.ops as ops
from tileir.core import with_short_traceback
from tileir.driver.tracing.trees import Structure, flattened, rebuilt
from tileir.tile.builder_functions import expect_sizes
from tileir.tile.building import loops, scans
from tileir.tile.building.indices import Dim
from tileir.tile.building.recording import ACTIVE, Recorder, mistake
from tileir.tile.building.tensors import Tensor, computed, value_of


def recorder_around(leaves: list[Any], name: str) -> Recorder:
    """Return the recorder of the function being traced."""
    found = next((leaf.recorder for leaf in leaves if isinstance(leaf, Tensor | Dim)), ACTIVE.recorder)
    if found is None:
        raise mistake("TIL215", f"tileir.{name} takes tensors: call it in a function that tileir.jit traces")
    return found


def tensors_of(recorder: Recorder, leaves: list[Any]) -> list[Tensor]:
    """Return values as tensors; numbers get their default dtypes."""
    return [leaf if isinstance(leaf, Tensor) else computed(recorder, value_of(recorder, leaf)) for leaf in leaves]


@with_short_traceback
def scan(
    step: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | Dim | None = None,
    *,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Run ``carry, y = step(carry, x)`` for each element along the first axis of ``xs``, as one loop.

    Args:
        step: A function of the carry and the elements, which returns a new carry with equal structure, dtypes and
            shapes, and the outputs. It may read tensors of enclosing functions.
        init: The initial carry: tensors, arrays or numbers in any containers.
        xs: Inputs that are read along their first axis; without them ``length`` is the number of steps.
        length: The number of steps.
        reverse: Whether to start at the last element.

    Returns:
        The carry after the last step, and the outputs stacked along a new first axis.

    Raises:
        TileError: TIL218, the step returns another structure than it is given.
    """
    carries: list[Any] = []
    sequences: list[Any] = []
    carry_structure, sequence_structure = flattened(init, carries), flattened(xs, sequences)
    recorder = recorder_around([*carries, *sequences], "scan")
    count = len(carries)
    outputs: list[Structure] = []

    def body(*tensors: Tensor) -> tuple[Tensor, ...]:
        carry = rebuilt(carry_structure, iter(tensors[:count]))
        returned: object = step(carry, rebuilt(sequence_structure, iter(tensors[count:])))
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise mistake("TIL218", "the step returns two values: the new carry, and what is put out or None")
        leaves: list[Any] = []
        if flattened(returned[0], leaves) != carry_structure:
            raise mistake("TIL218", "the step returns a carry of another structure than it is given")
        outputs.append(flattened(returned[1], leaves))
        inner = tensors[0].recorder
        return tuple(_alike(inner, leaf, like) for leaf, like in zip_longest(leaves, tensors[:count]))

    given = tensors_of(recorder, carries)
    results = scans.scan(body, given, tensors_of(recorder, sequences), count=length, reverse=reverse)
    return rebuilt(carry_structure, iter(results[:count])), rebuilt(outputs[0], iter(results[count:]))


def _alike(recorder: Recorder, leaf: Any, like: Tensor | None) -> Tensor:
    """Return a value as a tensor; a number in the carry has the dtype of the carry."""
    if isinstance(leaf, Tensor):
        return leaf
    tensor = computed(recorder, value_of(recorder, leaf))
    return tensor if like is None or isinstance(leaf, np.ndarray) else ops.full_like(like, tensor)


@with_short_traceback
def while_loop(condition: Callable[[Any], Any], step: Callable[[Any], Any], init: Any) -> Any:
    """Run ``carry = step(carry)`` while ``condition(carry)`` holds, as one loop.

    Args:
        condition: A function of the carry, which returns one bool.
        step: A function of the carry, which returns a new one with equal structure, dtypes and shapes. Both may read
            tensors of enclosing functions.
        init: The initial carry: tensors, arrays or numbers in any containers.

    Returns:
        The carry after the last step.

    Raises:
        TileError: TIL218, the step returns another structure than it is given; TIL333, the loop is differentiated;
            TIL334, the condition is not one bool.
    """
    leaves: list[Any] = []
    structure = flattened(init, leaves)
    recorder = recorder_around(leaves, "while_loop")
    count = len(leaves)

    def asked(*tensors: Tensor) -> Tensor:
        found = condition(rebuilt(structure, iter(tensors[:count])))
        return _alike(tensors[0].recorder, found, None)

    def body(*tensors: Tensor) -> tuple[Tensor, ...]:
        made: list[Any] = []
        if flattened(step(rebuilt(structure, iter(tensors[:count]))), made) != structure:
            raise mistake("TIL218", "the step returns a carry of another structure than it is given")
        return tuple(_alike(tensors[0].recorder, *pair) for pair in zip(made, tensors[:count], strict=True))

    results = loops.while_loop(asked, body, tensors_of(recorder, leaves))
    return rebuilt(structure, iter(results))


@with_short_traceback
def cond(predicate: Any, then: Callable[..., Any], otherwise: Callable[..., Any], *operands: Any) -> Any:
    """Return ``then(*operands)`` if a scalar holds, else ``otherwise(*operands)``.

    Both are computed and the results selected: if one of them is NaN for some operands, so is its gradient, so that
    operands have to be replaced before.

    Raises:
        TileError: TIL218, the functions return different structures; TIL310, they return tensors of different shapes
            (TIL317 if that is known only when compiling); TIL217, the predicate is no scalar.
    """
    first: list[Any] = []
    second: list[Any] = []
    structure = flattened(then(*operands), first)
    if flattened(otherwise(*operands), second) != structure:
        raise mistake("TIL218", "both functions of a choice return one structure")
    if isinstance(predicate, bool | np.bool_):
        return rebuilt(structure, iter(first if predicate else second))
    recorder = recorder_around([predicate, *first, *second], "cond")
    if np.ndim(predicate):
        raise mistake("TIL217", f"the predicate of a choice is a scalar, and this one has {np.ndim(predicate)} axes")
    chosen = [ops.where(predicate, *_equal_shapes(recorder, *pair)) for pair in zip(first, second, strict=True)]
    return rebuilt(structure, iter(chosen))


def _equal_shapes(recorder: Recorder, one: Any, other: Any) -> tuple[Any, Any]:
    """Return two results of a choice, with a check of their shapes; a number of Python has the shape of the other."""
    if not all(isinstance(each, Tensor | np.ndarray) for each in (one, other)):
        return one, other
    left, right = tensors_of(recorder, [one, other])
    if [dim.expr for dim in left.dims] == [dim.expr for dim in right.dims]:
        return left, right
    shapes = [[dim.known_for_arrays() for dim in each.dims] for each in (left, right)]
    if left.rank == right.rank and any(None in sizes for sizes in shapes):
        return left, expect_sizes(right, *left.dims)
    if shapes[0] != shapes[1]:
        told = " and ".join(str(sizes).replace("None", "?") for sizes in shapes)
        raise mistake("TIL310", f"the functions of a choice return shapes {told}, which have to be equal")
    return left, right
