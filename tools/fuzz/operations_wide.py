"""Every operation of the library and its gradient, over all that its arguments may be, beside NumPy.

A case is one call of an operation and several sets of values: to compile takes most of the time. The table of
operations is :data:`fuzz.wide.table.ROWS`. Oracles compute in NumPy's extended precision, where the
machine has one; gradients are compared with differences of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from fuzz.area import THREADS, Area, Array, Case, Refused, array_of, is_there
from fuzz.devices import RARELY, compiled, turn_of
from fuzz.wide.closeness import compare, least_normal, overflowing, results_of, rounding, sensitivity, unit, wide
from fuzz.wide.row import FLAVOURS, TAME, Draw, Row
from fuzz.wide.slopes import Slope, slope
from fuzz.wide.table import ROWS
from tileir import ops
from tileir.core import DType, TileError, dtype_of
from tileir.driver.executable import Executable
from tileir.tile.builder import FunctionBuilder
from tileir.tile.builder_functions import vjp
from tileir_testing.generated.choices import Choices

SETS: Final = 5
"""Sets of values of each case."""

_MOST_SLOPES: Final = 48
"""Elements of an input up to which its gradient is compared with differences."""
_TRIALS: Final = 12
"""Roundings of the inputs that show how much a result, or a gradient, changes by them, where few do not."""


def make(choices: Choices) -> Case:
    """Make a call of one operation, and sets of values."""
    row = ROWS[choices.pick(tuple(ROWS))]
    draw = Draw(choices, choices.pick(row.dtypes))
    arguments, options = row.draw(draw)
    flavours = ["normal", *(choices.pick(row.flavours) for _ in range(SETS - 1))]
    sets = [[flavour, choices.integer(0, 999)] for flavour in flavours]
    gradient = choices.integer(0, 2) == 2
    return {
        "operation": row.name, "inputs": draw.inputs, "arguments": arguments, "options": options, "sets": sets,
        "gradient": gradient, "apart": choices.integer(0, 1) == 1,
    }  # fmt: skip


def check(case: Case) -> int:
    """Compare values on all sets, and now and then gradients."""
    row = ROWS[case["operation"]]
    sets = [_arrays(case, flavour, seed) for flavour, seed in case["sets"]]
    count = _check_values(row, case, sets)
    return count + (_check_gradients(row, case) if case["gradient"] and row.constant != "*" else 0)


def _arrays(case: Case, flavour: str, seed: int) -> dict[str, Array]:
    """Return the inputs of a set; those among ``"any"`` have values of its flavour."""
    found: dict[str, Array] = {}
    for name, spec in case["inputs"].items():
        kind = flavour if spec["values"] == "any" else spec["values"]
        generator = {**spec, "values": kind, "seed": 1000 * seed + spec["seed"]}
        if kind == "ordered":
            found[name] = np.sort(array_of({**generator, "values": "normal"}), axis=-1)
        else:
            found[name] = _indices(generator) if kind in ("index", "wild", "count") else array_of(generator)
    return found


def _indices(spec: Case) -> Array:
    dtype, below = DType(spec["dtype"]), spec["below"]
    generator = np.random.default_rng(spec["seed"])
    least, most = {"wild": (-2, below + 2), "count": (1, below)}.get(spec["values"], (0, max(1, below)))
    array = generator.integers(least if dtype.is_signed else max(0, least), most, spec["shape"])
    return np.asarray(array).astype(dtype.numpy)


def _filled(value: Any, tensors: Mapping[str, Any]) -> Any:
    """Return an argument with what is there for the inputs in it."""
    if isinstance(value, str) and value.startswith("$"):
        return tensors[value[1:]]
    if isinstance(value, dict) and "weights" in value:
        made = [_filled(each, tensors) for each in value["weights"]]
        return made if isinstance(made[0], np.ndarray) else ops.RecurrentWeights(*made)
    if isinstance(value, dict) and "slice" in value:
        return slice(*value["slice"])
    if isinstance(value, dict) and "tuple" in value:
        return tuple(_filled(each, tensors) for each in value["tuple"])
    if value == "...":
        return ...
    return [_filled(each, tensors) for each in value] if isinstance(value, list) else value


def _called(function: Callable[..., Any], case: Case, tensors: Mapping[str, Any]) -> Any:
    arguments = [_filled(value, tensors) for value in case["arguments"]]
    return function(*arguments, **{name: _filled(value, tensors) for name, value in case["options"].items()})


def _flat(found: Any) -> list[Any]:
    """Return one tensor, several, or several groups of them as a list."""
    several = found if isinstance(found, tuple | list) else (found,)
    return [each for one in several for each in (one if isinstance(one, tuple | list) else (one,))]


def _inputs(row: Row, case: Case, builder: FunctionBuilder) -> dict[str, Any]:
    """Return the inputs of a function; axes have dimensions of their own, or those of one size have one."""
    apart = case["apart"] and not row.shared

    def name_of(name: str, axis: int, size: int) -> str:
        return f"{name}{axis}" if apart else f"D{size}"

    return {
        name: builder.input(name, *(name_of(name, axis, size) for axis, size in enumerate(spec["shape"])))
        if spec["shape"]
        else builder.scalar(name)
        for name, spec in case["inputs"].items()
    }


def _oracle(row: Row, case: Case) -> Callable[[Sequence[Array]], tuple[Array, ...]]:
    """Return the right results as a function of the inputs in order."""

    def results(arrays: Sequence[Array]) -> tuple[Array, ...]:
        with np.errstate(all="ignore"):
            return results_of(_called(row.oracle, case, dict(zip(case["inputs"], arrays, strict=True))))

    return results


def _check_values(row: Row, case: Case, sets: Sequence[Mapping[str, Array]]) -> int:
    oracle, wanted = _oracle(row, case), []
    usable = list(sets)
    try:
        wanted = [oracle([wide(array) for array in arrays.values()]) for arrays in usable]
    except ValueError:
        usable = []

    def build() -> Any:
        builder = FunctionBuilder()
        found = _called(getattr(ops, row.name), case, _inputs(row, case, builder))
        return builder.build(**{f"O{number}": result for number, result in enumerate(_flat(found))})

    count = 0
    for device, executable in _executables(build, sets[0], case, refusable=not usable):
        if not usable:
            raise AssertionError(f"{device}: {row.name} has results where NumPy refuses")
        for (flavour, _), arrays, right in zip(case["sets"], usable, wanted, strict=True):
            found = results_of(executable(**arrays))
            _check_results(f"{device}: {row.name} of {flavour} values", row, case, arrays, found, right)
            count += 1
    return count


def _check_results(
    told: str, row: Row, case: Case, arrays: Mapping[str, Array], found: Sequence[Array], wanted: Sequence[Array]
) -> None:
    inputs = [wide(array) for array in arrays.values()]
    if row.holds is not None:
        try:
            _called(partial(row.holds, found), case, dict(zip(arrays, inputs, strict=True)))
        except AssertionError as error:
            raise AssertionError(f"{told}: {error}") from None
        return
    oracle = _oracle(row, case)
    most: list[Any] = [0.0] * len(wanted) if row.exact else sensitivity(oracle, inputs)
    if row.terms is not None:
        with np.errstate(all="ignore"):
            own = results_of(_called(row.terms, case, dict(zip(arrays, inputs, strict=True))))
        most = [np.maximum(one, np.where(np.isfinite(own[0]), own[0], 0)) for one in most]
    over: Any = False
    if row.largest is not None and dtype_of(found[0]).is_float:
        # Infinite inputs have infinite results; finite ones beside them may overflow to the other infinity.
        finite = [np.where(np.isfinite(each), each, 0) if each.dtype.kind == "f" else each for each in inputs]
        with np.errstate(all="ignore"):
            peak = results_of(_called(row.largest, case, dict(zip(arrays, finite, strict=True))))[0]
        over = overflowing(dtype_of(found[0]), peak)
    assert len(found) == len(wanted), f"{told}: {len(found)} results, not {len(wanted)}"
    for place, (one, right, terms) in enumerate(zip(found, wanted, most, strict=True)):
        close = partial(compare, told, one, right, units=row.units, exact=row.exact, overflows=over)
        try:
            close(terms=terms)
        except AssertionError:
            if row.exact or not dtype_of(one).is_float:
                raise
            step = rounding(dtype_of(one))
            close(terms=np.maximum(terms, sensitivity(oracle, inputs, trials=_TRIALS, step=step)[place]))


def _executables(
    build: Callable[[], Any], arrays: Mapping[str, Array], case: Case, *, refusable: bool = False
) -> Iterator[tuple[str, Executable]]:
    """Yield the devices whose turn it is, and what they run; TileErrors are refusals where these are right."""
    turn = turn_of(case)
    devices: list[tuple[str, int | None]] = [("llvm", THREADS[turn % len(THREADS)])] if is_there("llvm") else []
    if turn // len(THREADS) % RARELY == 0 and is_there("opencl"):
        devices.append(("opencl", None))
    for device, threads in devices:
        try:
            yield device, compiled(device, threads, build(), arrays)
        except TileError as error:
            if refusable:
                raise Refused(error.diagnostics[0].code) from error
            raise


def _check_gradients(row: Row, case: Case) -> int:
    names = [
        name
        for name, spec in case["inputs"].items()
        if spec["main"] and spec["values"] not in ("index", "wild", "count")
    ]
    names = [n for n in names if n not in row.constant and np.prod(case["inputs"][n]["shape"]) <= _MOST_SLOPES]
    if row.tied and any(spec["layout"] == "broadcast" for spec in case["inputs"].values()):
        return 0
    first = _arrays(case, *case["sets"][0])
    oracle = _oracle(row, case)
    try:
        right = oracle([wide(array) for array in first.values()])
    except ValueError:
        return 0
    places = [place for place, result in enumerate(right) if result.dtype.kind == "f"]
    if not names or not places or not all(first[name].dtype.kind in "fV" for name in names):
        return 0

    def build() -> Any:
        builder = FunctionBuilder()
        tensors = _inputs(row, case, builder)
        results = _flat(_called(getattr(ops, row.name), case, tensors))
        arriving = [
            builder.input(f"W{p}", *(f"W{p}_{axis}" for axis in range(right[p].ndim)))
            if right[p].ndim
            else builder.scalar(f"W{p}")
            for p in places
        ]
        gradients = vjp([results[p] for p in places], arriving, *(tensors[name] for name in names))
        return builder.build(**{f"d{name}": each for name, each in zip(names, _flat(gradients), strict=True)})

    def arriving(flavour: str, seed: int, dtype: str) -> dict[str, Array]:
        spec = {"dtype": dtype, "values": flavour, "layout": "plain", "seed": seed}
        return {f"W{p}": array_of({**spec, "shape": right[p].shape}) for p in places}

    dtype = next(iter(case["inputs"][name]["dtype"] for name in names))
    weighted = {**first, **arriving("normal", 0, dtype)}
    count = 0
    for device, executable in _executables(build, weighted, case):
        for flavour, seed in case["sets"]:
            if flavour not in (("normal",) if row.tied else TAME):
                continue
            arrays = _arrays(case, flavour, seed)
            weights = arriving(FLAVOURS[(seed + 1) % 4], seed, dtype)
            ours = results_of(executable(**arrays, **weights))
            told = f"{device}: gradient of {row.name} at {flavour} values"
            _compare_slopes(told, row, case, names, arrays, weights, ours)
            count += len(names)
    return count


def _compare_slopes(
    told: str,
    row: Row,
    case: Case,
    names: Sequence[str],
    arrays: Mapping[str, Array],
    weights: Mapping[str, Array],
    ours: Sequence[Array],
) -> None:
    inputs = [wide(array) for array in arrays.values()]
    usual = _oracle(row, case)
    places = [int(name[1:]) for name in weights]

    def oracle(values: Sequence[Array]) -> list[Array]:
        results = usual(values)
        return [results[place] for place in places]

    if not all(np.isfinite(result).all() for result in oracle(inputs)):
        return
    wanted_weights = [wide(weight) for weight in weights.values()]
    arriving = max(np.max(np.abs(weight), initial=0) for weight in wanted_weights)
    amplified = _amplified(row, case, arrays, oracle(inputs))
    for name, found in zip(names, ours, strict=True):
        at = partial(slope, oracle, place=list(arrays).index(name), weights=wanted_weights, pointwise=row.pointwise)
        right = at(inputs)
        value = np.where(right.smooth, right.value, wide(found))
        # What is off by no more than the differences are is right.
        with np.errstate(invalid="ignore"):  # infinities
            close = np.where(np.abs(wide(found) - value) <= 4 * right.doubt, wide(found), value)
        # Derivatives are sums of terms of their own, of about what arrives. Below the least normal number roundings
        # are no smaller than there.
        least = right.steepness * least_normal(dtype_of(found))
        terms = np.maximum(right.terms, np.abs(right.value)) + (arriving + least) * amplified
        near = partial(compare, f"{told} by {name}", found, close, units=2 * row.units, exact=False)
        try:
            near(terms=4 * terms)
        except AssertionError:
            # A derivative that changes much where its inputs are rounded, as that of a deviation of near-equal
            # elements does, is as exact as those roundings let it be.
            (rounded,) = sensitivity(partial(_derivative, at), inputs, trials=_TRIALS)
            near(terms=4 * (terms + rounded), slack=_roundings(at, inputs, dtype_of(found), wanted_weights))


def _roundings(at: Callable[..., Slope], inputs: Sequence[Array], dtype: DType, weights: Sequence[Array]) -> Any:
    """Return by how much a gradient in f16 or bf16 is off since what arrives from each result is rounded for itself."""
    if not dtype.is_narrow or len(weights) == 1:
        return 0.0
    parts = []
    for place in range(len(weights)):
        alone = [weight if place == at_place else 0 * weight for at_place, weight in enumerate(weights)]
        parts.append(unit(dtype, at(inputs, weights=alone).value))
    return sum(parts)


def _derivative(at: Callable[[Sequence[Array]], Slope], inputs: Sequence[Array]) -> list[Array]:
    return [at(inputs).value]


def _amplified(row: Row, case: Case, arrays: Mapping[str, Array], results: Sequence[Array]) -> Any:
    """Return by how much terms are greater than results, at least 1: derivatives lose as many digits.

    Where all results are 0, those of inputs of 1 tell.
    """
    if row.terms is None:
        return 1
    largest = max(np.max(np.abs(result), initial=0) for result in results)
    if not largest:
        floats = {name for name in arrays if dtype_of(arrays[name]).is_float and case["inputs"][name]["main"]}
        arrays = {name: np.ones_like(array) if name in floats else array for name, array in arrays.items()}
        results = _oracle(row, case)([wide(array) for array in arrays.values()])
        largest = max(np.max(np.abs(result), initial=0) for result in results)
    if not largest:
        return 1
    with np.errstate(all="ignore"):
        named = {name: wide(array) for name, array in arrays.items()}
        return max(1, np.max(results_of(_called(row.terms, case, named))[0], initial=0) / largest)


AREA: Final = Area("operations-wide", make, check)
