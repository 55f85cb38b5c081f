"""Gradients against finite differences, for functions of one's own: :func:`check_gradients`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import numpy as np

from tileir import DeviceInfo, compile as compile_for_device
from tileir.core import ArgumentError, Diagnostic, DType, attrs
from tileir.driver.calls.arguments import bind, split, tensor_types
from tileir.driver.differentiation import Names, Ties, chosen_for, is_even
from tileir.driver.programs import function_of
from tileir.runtime import to_array
from tileir.tile import ir as tile
from tileir.tile.differentiation import vjp
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.simplify.preparation import prepared

Array: TypeAlias = "np.ndarray[Any, Any]"
Arrays: TypeAlias = "dict[str, Array]"

_FIRST_STEP: Final = 2.0**-6
_SHRINKING: Final = 2.0**-3
_STEPS: Final = 5  # step sizes that are tried before an element counts as one at a kink
_FLOOR: Final = 2.0**-7  # of the greatest gradient of a tensor: smaller ones need not be more accurate than this one


def check_gradients(
    function: tile.Function | str,
    inputs: Any,
    wrt: Names | None = None,
    of: Names | None = None,
    *,
    order: int = 1,
    ties: Ties = "all",
    device: str | DeviceInfo | None = None,
    tolerance: float = 1e-6,
    elements: int = 100,
    seed: int = 0,
) -> None:
    """Compare the gradients of ``function`` at ``inputs`` with finite differences in f64.

    A sum of all outputs with random weights is differentiated by each element: by the reverse sweep, and by central
    differences of several widths, extrapolated (Ridders, "Accurate computation of F'(x) and F'(x) F''(x)", Advances in
    Engineering Software 4, 1982). Elements near a kink or a jump, where differences of no width agree, are left out.

    Args:
        function: A function, or its text.
        inputs: A mapping by name, a sequence in declared order, or one array for the first input; floats of any width
            become f64.
        wrt: Inputs to differentiate by; by default all floats.
        of: Outputs to differentiate; by default all floats.
        order: 2 checks the gradients of the gradients too.
        ties: As for :func:`tileir.gradient`.
        device: Where everything is computed; by default by the interpreter.
        tolerance: The greatest relative error; smaller than 1e-9 differences cannot be.
        elements: How many elements of each input are looked at, chosen at random where there are more.
        seed: Of the random weights and choices.

    Raises:
        AssertionError: Gradients are wrong; the message names the element that is most so. Or most elements are at
            kinks, so that there is nothing to compare.
        TileError: As for :func:`tileir.gradient`; TIL707, options that leave nothing to check.
    """
    _check_options(order, elements, tolerance)
    source = function_of(function)
    names = tuple(parameter.name for parameter in source.inputs)
    given = bind(names, *split(inputs))
    arrays = {name: _widened(to_array(name, value)) for name, value in zip(names, given, strict=True)}
    rng = np.random.default_rng(seed)
    graph = infer(source, tensor_types(source, arrays))
    sources, results = chosen_for(graph, tuple(output.name for output in source.outputs), wrt, of)
    for level in range(1, order + 1):
        made = vjp(source, sources, tuple(results), even_ties=is_even(ties))
        weights = {
            name: np.asarray(rng.uniform(0.5, 1.5, result.shape), result.dtype.numpy)
            for name, result in results.items()
        }
        seeds = {seed_: weights[name] for seed_, name in zip(made.seeds, results, strict=True)}
        noise = max(_noise(value.dtype) for value in (*graph.inputs, *graph.operations) if value.dtype.is_float)
        value = _Weighted(_evaluator(source, arrays, device), weights, noise)
        gradients = _evaluator(made.function, {**arrays, **seeds}, device)({**arrays, **seeds})
        found = dict(zip(sources, gradients.values(), strict=True))
        _compare(_Check(value, arrays, tolerance, elements, rng), found, level)
        source, arrays = made.function, {**arrays, **seeds}
        graph = infer(source, tensor_types(source, arrays))
        results = chosen_for(graph, tuple(gradients), sources, None)[1]


def _check_options(order: object, elements: object, tolerance: object) -> None:
    """Refuse options with which nothing would be compared."""
    whole = {"order": order, "elements": elements}
    faults = [
        f"{name} is an integer above 0, not {value!r}"
        for name, value in whole.items()
        if not (isinstance(value, int) and value > 0)
    ]
    if not (isinstance(tolerance, int | float) and tolerance > 0):
        faults.append(f"tolerance is a number above 0, not {tolerance!r}")
    if faults:
        raise ArgumentError(Diagnostic("TIL707", fault) for fault in faults)


def _widened(array: Array) -> Array:
    dtype = DType.of(array.dtype)
    return np.array(array, np.float64) if dtype is not None and dtype.is_float else array


def _evaluator(
    function: tile.Function, arrays: Mapping[str, Array], device: str | DeviceInfo | None
) -> Callable[[Mapping[str, Array]], Arrays]:
    """Return a function that computes the outputs of ``function``, by name, for arrays of these types."""
    if device is None:
        graph = prepared(infer(function, tensor_types(function, arrays)))
        names = tuple(output.name for output in function.outputs)

        def interpreted(values: Mapping[str, Array]) -> Arrays:
            read = {value.name: values[value.name] for value in graph.inputs}
            return dict(zip(names, interpret(graph, read).values(), strict=True))

        return interpreted
    executable = compile_for_device(function, tensor_types(function, arrays), device=device)

    def run(values: Mapping[str, Array]) -> Arrays:
        outputs = executable(**values)
        return dict(zip(executable.outputs, outputs if isinstance(outputs, tuple) else (outputs,), strict=True))

    return run


@attrs.frozen(eq=False, repr=False)
class _Weighted:
    """A function as one number: the weighted sum of its results."""

    evaluate: Callable[[Mapping[str, Array]], Arrays]
    weights: Arrays
    noise: float

    def __call__(self, arrays: Mapping[str, Array]) -> tuple[float, float]:
        """Return the sum, and how far rounding may have moved it."""
        results = self.evaluate(arrays)
        pairs = [(results[name], weight) for name, weight in self.weights.items()]
        terms = np.concatenate([(_widened(left) * _widened(right)).reshape(-1) for left, right in pairs])
        with np.errstate(all="ignore"):
            return float(np.sum(terms)), self.noise * (1.0 + float(np.sum(np.abs(terms))))


@attrs.frozen(eq=False, repr=False)
class _Check:
    """One function at one place."""

    value: _Weighted
    arrays: Arrays
    tolerance: float
    elements: int
    rng: np.random.Generator

    def places(self, name: str) -> Iterator[tuple[int, ...]]:
        """Yield the elements of an input that are looked at."""
        array = self.arrays[name]
        chosen = range(array.size)
        if array.size > self.elements:
            chosen = sorted(self.rng.choice(array.size, self.elements, replace=False))  # type: ignore[assignment]
        for position in chosen:
            yield tuple(int(part) for part in np.unravel_index(position, array.shape))

    def derivative(self, name: str, place: tuple[int, ...], scale: float) -> tuple[float, float] | None:
        """Return the derivative by one element and its uncertainty; None at a kink."""
        width = _FIRST_STEP * max(1.0, abs(float(self.arrays[name][place])))
        for _ in range(_STEPS):
            rows = [self._difference(name, place, width * part) for part in (1.0, 0.5, 0.25)]
            (first, _), (second, _), (third, noise) = rows
            upper, lower = second + (second - first) / 3, third + (third - second) / 3
            best = lower + (lower - upper) / 15
            allowed = noise + 0.1 * self.tolerance * max(abs(best), scale)
            if abs(best - lower) <= allowed:  # false for NaN
                return best, noise
            width *= _SHRINKING
        return None

    def _difference(self, name: str, place: tuple[int, ...], width: float) -> tuple[float, float]:
        """Return the central difference, and how far rounding may have moved it."""
        array = self.arrays[name]
        results = []
        for sign in (1, -1):
            moved = array.copy()
            moved[place] += sign * width
            results.append((float(moved[place]), *self.value({**self.arrays, name: moved})))
        (right, above, noise), (left, below, _) = results
        with np.errstate(all="ignore"):
            return float(np.divide(above - below, right - left)), noise / width


def _compare(check: _Check, gradients: Arrays, order: int) -> None:
    """Raise for the worst element of all gradients, if it is wrong."""
    worst: tuple[float, str] | None = None
    wrong = settled = total = 0
    for name, gradient in gradients.items():
        scale = _FLOOR * float(np.max(np.abs(gradient), initial=0.0, where=np.isfinite(gradient)))
        for place in check.places(name):
            total += 1
            found = check.derivative(name, place, scale)
            if found is None:
                continue
            settled += 1
            expected, noise = found
            actual = float(gradient[place])
            error = abs(actual - expected) / (noise + check.tolerance * max(abs(expected), scale))
            if not error <= 1.0:
                wrong += 1
                where = f"{name}[{', '.join(map(str, place))}]" if place else name
                text = f"the gradient by {where} is {actual!r}, but differences give {expected!r}"
                badness = math.inf if math.isnan(error) else error
                worst = max(worst or (0.0, ""), (badness, text))
    if worst is not None:
        what = "" if order == 1 else f", of order {order}"
        raise AssertionError(f"{worst[1]}; {wrong} of {settled} gradients are wrong{what}")
    if settled * 2 < total:
        raise AssertionError(f"{total - settled} of {total} elements are at kinks or jumps; choose other inputs")


def _noise(dtype: DType) -> float:
    """Return the relative rounding error of a sum of results, generously, if this is the narrowest float in between."""
    return (8.0 if dtype.is_narrow else 16.0) * dtype.format.epsilon
