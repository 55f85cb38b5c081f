"""Operations of the library with their options: values and gradients beside PyTorch's, where it is installed.

Without PyTorch, devices are compared with the interpreter.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, reduce
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

from tileir import ops
from tileir.driver.differentiation import vjp
from tileir.driver.jit import evaluate
from tileir.testing.fuzz.area import Area, Array, Case, arrays_of
from tileir.testing.fuzz.devices import INTERPRETER, results_by_device, turn_of
from tileir.testing.fuzz.operation_families import FAMILIES
from tileir.testing.generated.choices import Choices
from tileir.tile.builder import FunctionBuilder

TOLERANCE: Final = {"float32": 2e-4, "float64": 1e-9}
"""How far results may be apart, relative to the greatest one of them."""


def make(choices: Choices) -> Case:
    """Make a call of one family, in f64 or f32."""
    made = choices.pick(FAMILIES)(choices)
    dtype = choices.pick(("f64", "f64", "f32"))
    inputs = {
        name: {**spec, "dtype": dtype if spec["dtype"] == "f64" else spec["dtype"]}
        for name, spec in made["inputs"].items()
    }
    return {**made, "inputs": inputs}


def check(case: Case) -> int:
    """Compare values, and now and then gradients."""
    arrays = arrays_of(case)
    function = _built(case, arrays)
    results = results_by_device(function, arrays, case)
    first = next(iter(results[INTERPRETER]))
    count = 0
    theirs = _torch_results(case, arrays)
    for device, values in results.items():
        wanted = theirs[0] if theirs else results[INTERPRETER][first]
        _compare(f"{device}: {case['ours'][0]}", values[first], wanted)
        count += 1
    usable = case["wrt"] and results[INTERPRETER][first].size and np.isfinite(results[INTERPRETER][first]).all()
    if theirs and usable and turn_of(case) % 3 == 0:
        count += _check_gradients(case, function, arrays, first)
    return count


def _built(case: Case, arrays: Mapping[str, Array]) -> Any:
    """Build a Tile function of the call."""
    builder = FunctionBuilder()
    tensors = {
        name: builder.input(name, *(f"{name}{axis}" for axis in range(array.ndim))) for name, array in arrays.items()
    }
    result = _called(getattr(ops, case["ours"][0]), case["ours"], tensors)
    first = result[0] if isinstance(result, tuple) else result
    return builder.build(O=first)


def _called(function: Any, call: list[Any], tensors: Mapping[str, Any]) -> Any:
    def filled(value: Any) -> Any:
        return tensors[value[1:]] if isinstance(value, str) and value.startswith("$") else value

    _, arguments, keywords = call
    return function(*map(filled, arguments), **{name: filled(value) for name, value in keywords.items()})


@cache
def _torch() -> Any:
    return import_module("torch") if find_spec("torch") else None


def _torch_results(case: Case, arrays: Mapping[str, Array], weight: Array | None = None) -> list[Array]:
    """Return PyTorch's result, or with a weight its gradients by what the case names; nothing without PyTorch."""
    torch = _torch()
    if torch is None or case["torch"] is None:
        return []
    tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
    if weight is not None:
        for name in case["wrt"]:
            tensors[name].requires_grad_()
    found = _called(reduce(getattr, case["torch"][0].split("."), torch), case["torch"], tensors)
    result = found if isinstance(found, torch.Tensor) else found[0]
    if weight is None:
        return [result.detach().numpy()]
    several = [tensors[name] for name in case["wrt"]]
    return [gradient.numpy() for gradient in torch.autograd.grad(result, several, torch.from_numpy(weight))]


def _check_gradients(case: Case, function: Any, arrays: Mapping[str, Array], output: str) -> int:
    shape = np.asarray(evaluate(function, dict(arrays)))
    weight = np.asarray(np.random.default_rng(0).normal(size=shape.shape)).astype(shape.dtype)
    ours = vjp(function, dict(arrays), {output: weight}, wrt=case["wrt"], device="llvm")
    for name, wanted in zip(case["wrt"], _torch_results(case, arrays, weight), strict=True):
        _compare(f"gradient of {case['ours'][0]} by {name}", ours[name], wanted)
    return len(case["wrt"])


def _compare(told: str, found: Array, wanted: Array) -> None:
    if found.shape != wanted.shape:
        raise AssertionError(f"{told} has shape {found.shape}, not {wanted.shape}")
    tolerance = TOLERANCE.get(wanted.dtype.name, 0.0)
    finite = wanted[np.isfinite(wanted)] if wanted.dtype.kind == "f" else wanted
    scale = max(1.0, float(np.abs(finite.astype(np.float64)).max(initial=0.0)))
    wrong = ~np.isclose(found, wanted, rtol=tolerance, atol=tolerance * scale, equal_nan=True)
    if wrong.any():
        place = tuple(map(int, np.argwhere(wrong)[0]))
        raise AssertionError(
            f"{told} is {found[place]} at {list(place)}, not {wanted[place]}; {int(wrong.sum())} of {wrong.size}"
        )


AREA: Final = Area("operations", make, check)
