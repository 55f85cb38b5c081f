"""Contractions beside brute force: every integer point is tried, without polyhedra, bounds or lattices.

Each index has a place, an access or a constraint in which only it and earlier indices stand, so that its range follows
from theirs and all points can be listed. Other accesses are anything.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any, Final

import numpy as np

from fuzz.area import Area, Array, Case, Refused, array_spec, arrays_of
from fuzz.devices import results_by_device
from tileir.core import DType, TileError, dtype_of
from tileir_testing.generated.choices import Choices

INDICES: Final = ("i", "j", "k")
DTYPES: Final = (DType.I32, DType.F32, DType.F64, DType.I8, DType.U8, DType.I64, DType.F16, DType.BF16)
COMBINATIONS: Final[Mapping[str, int]] = {"": 1, "*": 2, "+": 2, "==": 2, "?": 3}
LARGEST: Final = 40
"""The greatest size of an axis: beyond two vectors, and what is left over."""

_POINTS: Final = 30_000

Affine = dict[str, Any]
"""``{"of": [coefficient of each index], "plus": constant, "by": divisor}``."""


def make(choices: Choices) -> Case:
    """Make one contraction of up to three indices, with constraints, a default and fractions now and then."""
    count = choices.integer(1, 3)
    combination = choices.pick(("*", "", "*", "+", "==", "?"))
    places = COMBINATIONS[combination]
    accesses: list[list[Affine]] = [[] for _ in range(places)]
    constraints: list[list[Any]] = []
    target = [_affine(choices, count, count) for _ in range(choices.integer(0, 3))]
    order = _shuffled(choices, count)
    for rank, index in enumerate(order):
        earlier = [other for other in order[:rank] if choices.integer(0, 2) == 0]
        affine = _affine(
            choices, count, 0, {index: _coefficient(choices), **{o: _coefficient(choices) for o in earlier}}
        )
        place = choices.integer(0, places + 1)
        if place < places:
            accesses[place].append(affine)
        elif place == places and len(target) < 3:
            target.append(affine)
        else:
            constraints.append([affine, choices.integer(1, _size(choices))])
    for access in accesses:
        while len(access) < 3 and choices.integer(0, 3) == 3:
            access.append(_affine(choices, count, count))
    if choices.integer(0, 5) == 5:
        constraints.append([_affine(choices, count, count), choices.integer(1, 9)])
    dtype = choices.pick(DTYPES)
    aggregation = choices.pick("+++><*=")
    values = "units" if aggregation == "*" else "small"
    shapes = [tuple(_size(choices) for _ in access) for access in accesses]
    inputs = {
        name: array_spec(choices, DType.F64 if aggregation == "*" and dtype.is_float else dtype, shape, values)
        for name, shape in zip("ABC", shapes, strict=False)
    }
    sizes = [_size(choices) for _ in target]
    default = choices.integer(0, 4) == 4
    if default:
        inputs["D"] = array_spec(choices, dtype, tuple(sizes), "small")
    return {
        "inputs": inputs, "count": count, "target": target, "sizes": sizes, "aggregation": aggregation,
        "combination": combination, "accesses": accesses, "constraints": constraints, "default": default,
        "order": list(order),
    }  # fmt: skip


def _shuffled(choices: Choices, count: int) -> list[int]:
    left = list(range(count))
    return [left.pop(choices.integer(0, len(left) - 1)) for _ in range(count)]


def _size(choices: Choices) -> int:
    return choices.integer(1, 9) if choices.integer(0, 4) < 4 else choices.pick((0, 1, 16, 17, 31, 33, LARGEST))


def _coefficient(choices: Choices) -> int:
    return choices.pick((1, 1, 1, -1, 2, -2, 3))


def _affine(choices: Choices, count: int, terms: int, given: Mapping[int, int] | None = None) -> Affine:
    """Choose a polynomial with the coefficients given, or up to ``terms`` others."""
    of = [(given or {}).get(index, 0) for index in range(count)]
    if terms:
        of[choices.integer(0, count - 1)] = _coefficient(choices)
        if choices.integer(0, 2) == 2:
            of[choices.integer(0, count - 1)] += _coefficient(choices)
    plus = choices.integer(-4, 4) if choices.integer(0, 1) else 0
    by = choices.pick((1, 1, 1, 1, 1, 1, 2, 3))
    return {"of": of, "plus": plus, "by": by if any(of) else 1}  # what has no index is a size, and whole


def text_of(case: Case) -> str:
    """Return the Tile text of a case."""
    ranks = {name: len(spec["shape"]) for name, spec in case["inputs"].items()}
    inputs = ", ".join(f"{n}[{', '.join(f'{n}{a}' for a in range(rank))}]" for n, rank in ranks.items())
    reads = [f"{name}[{_list(access)}]" for name, access in zip("ABC", case["accesses"], strict=False)]
    combination = case["combination"]
    inner = f"{reads[0]} == {reads[1]} ? {reads[2]}" if combination == "?" else f" {combination} ".join(reads)
    sizes = ", ".join(map(str, case["sizes"]))
    tail = "".join(f", {_spelt(affine)} < {bound}" for affine, bound in case["constraints"])
    tail += " default D" if case["default"] else ""
    return (
        f"function ({inputs}) -> (O) {{ O[{_list(case['target'])} : {sizes}] = {case['aggregation']}({inner}){tail}; }}"
    )


def _list(affines: Sequence[Affine]) -> str:
    return ", ".join(map(_spelt, affines))


def _spelt(affine: Affine) -> str:
    terms = [f"{coefficient} * {name}" for coefficient, name in zip(affine["of"], INDICES, strict=False) if coefficient]
    text = " + ".join([*terms, str(affine["plus"])] if affine["plus"] or not terms else terms).replace("+ -", "- ")
    return text if affine["by"] == 1 else f"({text}) / {affine['by']}"


def check(case: Case) -> int:
    """Compare the interpreter and devices with brute force; say whether refusals are right."""
    text, arrays = text_of(case), arrays_of(case)
    points = list(_points(case))
    try:
        results = results_by_device(text, arrays, case)
    except TileError as error:
        codes = {diagnostic.code for diagnostic in error.diagnostics}
        _check_refusal(case, codes, points, text, error)
        raise Refused(min(codes)) from error
    for device, values in results.items():
        wanted = brute_force(case, arrays, points, dtype_of(values["O"]))
        if not np.array_equal(values["O"], wanted):
            place = tuple(map(int, np.argwhere(np.asarray(values["O"] != wanted))[0]))
            raise AssertionError(f"{device}: O{list(place)} is {values['O'][place]}, not {wanted[place]}\n{text}")
    return len(results)


def _check_refusal(case: Case, codes: set[str], points: Sequence[Any], text: str, error: TileError) -> None:
    accessed = [affine["of"] for access in (*case["accesses"], case["target"]) for affine in access]
    unread = any(not any(of[index] for of in accessed) for index in range(case["count"]))
    right = {
        "TIL406": case["aggregation"] == "=",  # whether values meet is not decided for all programs
        "TIL407": not points,
        "TIL404": not points,
        "TIL403": unread,
        "TIL401": unread,
    }
    if not all(right.get(code, False) for code in codes):
        raise AssertionError(f"refused, but it is right: {text}\n{error}")


def _points(case: Case) -> Iterator[tuple[list[int], list[list[int]]]]:
    """Yield, for each valid point, the element written and the elements read."""
    everywhere = [
        *((affine, size) for affine, size in zip(case["target"], case["sizes"], strict=True)),
        *(
            (affine, size)
            for name, access in zip("ABC", case["accesses"], strict=False)
            for affine, size in zip(access, case["inputs"][name]["shape"], strict=True)
        ),
        *((affine, bound) for affine, bound in case["constraints"]),
    ]
    found = 0
    for point in _listed(everywhere, case["order"], [0] * case["count"], 0):
        if all(_value(affine, point, size) is not None for affine, size in everywhere):
            written = [_inside(affine, point) for affine in case["target"]]
            yield written, [[_inside(affine, point) for affine in access] for access in case["accesses"]]
            found += 1
            if found > _POINTS:
                raise Refused("too many points")


def _listed(
    everywhere: Sequence[tuple[Affine, int]], order: Sequence[int], point: list[int], rank: int
) -> Iterator[list[int]]:
    """Yield all points that the places of the indices allow, innermost last; each place is used once it is bounded."""
    if rank == len(order):
        yield point
        return
    index, later = order[rank], order[rank + 1 :]
    low, high = None, None
    for affine, size in everywhere:
        factor = affine["of"][index]
        if factor and not any(affine["of"][other] for other in later):
            rest = affine["plus"] + sum(affine["of"][other] * point[other] for other in order[:rank])
            ends = sorted((Fraction(-rest, factor), Fraction(affine["by"] * (size - 1) - rest, factor)))
            low = ends[0] if low is None else max(low, ends[0])
            high = ends[1] if high is None else min(high, ends[1])
    if low is None or high is None:
        raise Refused("an index has no place of its own")
    for value in range(math.ceil(low), math.floor(high) + 1):
        point[index] = value
        yield from _listed(everywhere, order, point, rank + 1)
    point[index] = 0


def _value(affine: Affine, point: Sequence[int], size: int) -> int | None:
    total = affine["plus"] + sum(map(operator.mul, affine["of"], point))
    return None if total % affine["by"] or not 0 <= total // affine["by"] < size else total // affine["by"]


def _inside(affine: Affine, point: Sequence[int]) -> int:
    return int((affine["plus"] + sum(map(operator.mul, affine["of"], point))) // affine["by"])


def brute_force(case: Case, arrays: Mapping[str, Array], points: Sequence[Any], dtype: DType) -> Array:
    """Return what the contraction means, element by element, in exact arithmetic that wraps at the end."""
    terms: dict[tuple[int, ...], list[Any]] = {}
    names = "ABC"[: len(case["accesses"])]
    wide = {name: arrays[name].astype(object if dtype.is_integer else np.float64) for name in names}
    for written, reads in points:
        values = [wide[name][tuple(read)] for name, read in zip(names, reads, strict=True)]
        terms.setdefault(tuple(written), []).append(_combined(case["combination"], values))
    result = arrays["D"].astype(object) if case["default"] else np.zeros(case["sizes"], object)
    for place, several in terms.items():
        result[place] = _aggregated(case["aggregation"], several)
    return _wrapped(np.asarray(result, object), dtype)


def _combined(combination: str, values: list[Any]) -> Any:
    match combination:
        case "*":
            return values[0] * values[1]
        case "+":
            return values[0] + values[1]
        case "==":
            return int(values[0] == values[1])
        case "?":
            return values[2] if values[0] == values[1] else 0
    return values[0]


def _aggregated(aggregation: str, terms: list[Any]) -> Any:
    match aggregation:
        case "+":
            return sum(terms)
        case "*":
            return reduce(operator.mul, terms)
        case ">":
            return max(terms)
        case "<":
            return min(terms)
    if len(terms) > 1:
        raise AssertionError("several values meet in an element of an assignment, and nothing refuses it")
    return terms[0]


def _wrapped(values: Array, dtype: DType) -> Array:
    if dtype.is_float or dtype.is_bool:
        return values.astype(np.float64).astype(dtype.numpy)
    span = 2 ** (8 * np.dtype(dtype.numpy).itemsize)
    wrapped = np.vectorize(lambda value: (int(value) - dtype.minimum) % span + dtype.minimum, otypes=[object])
    return np.asarray(wrapped(values) if values.size else values).astype(dtype.numpy)


AREA: Final = Area("tile", make, check)
