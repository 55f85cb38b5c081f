"""Derivatives of Python functions, as Python functions that are traced."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import tileir.ops as ops
from tileir.core import ArgumentError, is_called, with_short_traceback
from tileir.driver.tracing.control import recorder_around, tensors_of
from tileir.driver.tracing.functions import PythonFunction
from tileir.driver.tracing.trees import flattened, rebuilt
from tileir.tile.building.recording import mistake
from tileir.tile.building.tensors import Tensor, call

Numbers = int | Sequence[int]


@with_short_traceback
def value_and_grad(
    function: Callable[..., Any], argnums: Numbers = 0, *, has_aux: bool = False
) -> PythonFunction[..., Any]:
    """Return a function that computes the result of ``function``, and gradients by some of its arguments.

    Args:
        function: A Python function whose result is a tensor of rank 0, or that and auxiliary data.
        argnums: Arguments to differentiate by: one, or several for a tuple of gradients.
        has_aux: Whether the function returns a pair, of which only the first is differentiated.

    Returns:
        A function that returns a pair: the result of ``function``, and gradients in the structure of the arguments.

    Raises:
        TileError: TIL321 on call, an argument is not a float, or the result not a tensor of rank 0.
    """
    python = _python(function)
    places = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    if not all(isinstance(place, int) for place in places):
        raise ArgumentError.of("TIL705", f"argnums are numbers of arguments, from 0 on, not {argnums!r:.60}")

    @functools.wraps(python)
    def differentiated(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        if any(not -len(args) <= place < len(args) for place in places):
            raise ArgumentError.of("TIL705", f"argnums are {places}, but there are {len(args)} positional arguments")
        leaves: list[Any] = []
        structures = [flattened(args[place], leaves) for place in places]
        recorder = recorder_around([*leaves, *args], "value_and_grad")
        sources = [_distinct(each) for each in tensors_of(recorder, leaves)]
        rest = iter(sources)
        changed = {place % len(args): rebuilt(each, rest) for place, each in zip(places, structures, strict=True)}
        result = python(*(changed.get(place, each) for place, each in enumerate(args)), **kwargs)
        value = result[0] if has_aux else result
        slopes = iter(_gradients(value, sources))
        gradients = tuple(rebuilt(each, slopes) for each in structures)
        return result, gradients[0] if isinstance(argnums, int) else gradients

    return PythonFunction(_signed(differentiated, python))


@with_short_traceback
def gradient_of(
    function: Callable[..., Any], argnums: Numbers = 0, *, has_aux: bool = False
) -> PythonFunction[..., Any]:
    """Return a function that computes only gradients, or a pair of these and the auxiliary data."""
    both = value_and_grad(function, argnums, has_aux=has_aux).python

    @functools.wraps(both)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        result, gradients = both(*args, **kwargs)
        return (gradients, result[1]) if has_aux else gradients

    return PythonFunction(_signed(differentiated, both))


def vjp_of(function: Callable[..., Any], inputs: Sequence[Any], cotangents: Any) -> Any:
    """Return cotangents of all inputs for those of the result, in the structure of the inputs."""
    python = _python(function)

    def pulled_back(inputs: Any, cotangents: Any) -> Any:
        leaves: list[Any] = []
        structure = flattened(inputs, leaves)
        sources = [_distinct(each) for each in tensors_of(recorder_around(leaves, "vjp"), leaves)]
        results, seeds = _paired(python(*rebuilt(structure, iter(sources))), cotangents, "cotangents")
        total = functools.reduce(lambda x, y: x + y, [ops.sum(r * s) for r, s in zip(results, seeds, strict=True)])
        return rebuilt(structure, iter(_gradients(total, sources)))

    return PythonFunction(pulled_back)(tuple(inputs), cotangents)


def jvp_of(function: Callable[..., Any], inputs: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """Return the result, and its tangent for tangents of the inputs."""
    python = _python(function)

    def pushed_forward(inputs: Any, tangents: Any) -> Any:
        leaves: list[Any] = []
        directions: list[Any] = []
        structure = flattened(inputs, leaves)
        if flattened(tangents, directions) != structure:
            raise mistake("TIL322", "tangents have the structure of the inputs")
        recorder = recorder_around(leaves, "jvp")
        sources = [_distinct(each) for each in tensors_of(recorder, leaves)]
        found: list[Any] = []
        results = flattened(python(*rebuilt(structure, iter(sources))), found)
        along = tensors_of(recorder, directions)
        moved = [_moved(result, sources, along) for result in found]
        return rebuilt(results, iter(found)), rebuilt(results, iter(moved))

    return PythonFunction(pushed_forward)(tuple(inputs), tuple(tangents))


def _moved(result: Tensor, sources: Sequence[Tensor], along: Sequence[Tensor]) -> Tensor:
    if len(sources) == 1:
        return call("jvp", result, sources[0], along[0])
    return call("jvp", result, call("tuple", *sources), call("tuple", *along))


def _paired(result: Any, seeds: Any, what: str) -> tuple[list[Any], list[Any]]:
    left: list[Any] = []
    right: list[Any] = []
    if flattened(result, left) != flattened(seeds, right):
        raise mistake("TIL322", f"{what} have the structure of the result")
    return left, right


def _gradients(value: Any, sources: Sequence[Tensor]) -> list[Tensor]:
    if not isinstance(value, Tensor) or value.rank:
        shape = f"has {value.rank} axes" if isinstance(value, Tensor) else f"is a {type(value).__name__}"
        raise mistake("TIL321", f"gradients are those of a tensor of rank 0, and the result {shape}; sum or average it")
    group = call("gradient", value, *sources)
    return [group] if len(sources) == 1 else [call("element", group, number) for number in range(len(sources))]


def _distinct(x: Tensor) -> Tensor:
    """Return a tensor without other readers, so that other paths to the original, as in closures, are constants."""
    return call("mul", x, 1) if x.recorder.steps or is_called() else x


def _python(function: Callable[..., Any]) -> Callable[..., Any]:
    return function.python if isinstance(function, PythonFunction) else function


def _signed(changed: Callable[..., Any], python: Callable[..., Any]) -> Callable[..., Any]:
    """Give a derived function the parameters of the original, so that inputs are called like them."""
    with contextlib.suppress(TypeError, ValueError):
        changed.__signature__ = inspect.signature(python)  # type: ignore[attr-defined]
    return changed
