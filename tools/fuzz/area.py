"""Area of the fuzzer: a function that makes a case, and one that checks it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

import numpy as np

from tileir.core import BackendError, DType, attrs
from tileir.runtime import Context, Options
from tileir_testing.generated.choices import Choices

Array = np.ndarray[Any, np.dtype[Any]]

Case = dict[str, Any]
"""Plain JSON values; all that a check needs."""


class Refused(Exception):  # noqa: N818  a refusal is an outcome, not an error
    """A case that tileir refuses, as it may; the text is the code of the diagnostic."""


@attrs.frozen
class Area:
    """One area.

    Attributes:
        name: What the command line calls it.
        make: Makes a case by a source of choices.
        check: Checks one on the devices at hand. It returns how many comparisons it made; it raises ``Refused`` where
            a refusal is right, and anything else for a finding.

    """

    name: str
    make: Callable[[Choices], Case]
    check: Callable[[Case], int]


@cache
def context(device: str, threads: int | None = None) -> Context:
    """Return the context of a device for some number of threads, which keeps nothing on disk.

    Raises:
        BackendError: there is no such device.

    """
    made = Context(device_id=device, options=Options(threads=threads), disk_cache=None)
    made.device(device)
    return made


@cache
def is_there(device: str) -> bool:
    """Return whether a device can be used."""
    try:
        context(device)
    except BackendError:
        return False
    return True


THREADS: Final = (1, 2, 5)
"""Numbers of threads that kernels run on in turn: none beside, as many as cores, and more than that."""

_SPECIAL: Final = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -2.5, 1e-40, 6e-5, 65504.0, 3e38, 1e300)


def array_spec(choices: Choices, dtype: DType, shape: tuple[int, ...], values: str) -> Case:
    """Describe an array: its dtype and shape, how its memory lies, and a seed of its values.

    Args:
        choices: The source of choices.
        dtype: Of the elements.
        shape: Of the array.
        values: ``"small"``, integers of at most 3 in size, which are exact in every order of a sum; ``"units"``, 1 and
            -1, now and then 2; ``"normal"``; ``"positive"``; ``"special"``, the limits of integers, and what is
            special about floats; ``"tiny"``, floats below the least normal one; ``"large"``, floats of all magnitudes,
            and integers of all bits; ``"ties"``; ``"zeros"``; ``"inside"``, between -1 and 1; ``"probability"``;
            ``"signs"``, 1 and -1; ``"corners"``, integers below 9; ``"words"``,
            of 32 bits.

    """
    layout = choices.pick(("plain", "plain", "plain", "reversed", "strided", "transposed", "broadcast"))
    seed = choices.integer(0, 999)
    return {"dtype": dtype.value, "shape": list(shape), "values": values, "layout": layout, "seed": seed}


def array_of(spec: Mapping[str, Any]) -> Array:
    """Return the array of a description."""
    dtype, shape = DType(spec["dtype"]), tuple(spec["shape"])
    generator = np.random.default_rng(spec["seed"])
    stored = {"transposed": shape[::-1], "strided": (*shape[:-1], 2 * shape[-1]) if shape else shape}
    lies = tuple(stored.get(spec["layout"], shape))
    if spec["layout"] == "broadcast" and shape:
        lies = (1, *shape[1:])
    with np.errstate(all="ignore"):
        values = np.asarray(_values(generator, dtype, lies, spec["values"])).astype(dtype.numpy)
    match spec["layout"]:
        case "transposed":
            return values.T
        case "strided" if shape:
            return np.asarray(values[..., ::2])
        case "reversed" if shape:
            return np.asarray(values[..., ::-1])
        case "broadcast":
            return np.broadcast_to(values, shape)
    return values


def _values(generator: np.random.Generator, dtype: DType, shape: tuple[int, ...], kind: str) -> Array:
    if dtype.is_bool:
        return generator.integers(0, 2, shape)
    least = 0 if dtype.is_integer and not dtype.is_signed else -3
    if kind == "special" and dtype.is_integer:
        limits = np.array([0, 1, 2, dtype.minimum, dtype.maximum, dtype.maximum // 2], object)
        return np.asarray(limits[generator.integers(0, len(limits), shape)], object)
    if kind == "special":
        drawn = np.array(_SPECIAL)[generator.integers(0, len(_SPECIAL), shape)]
        return np.where(generator.random(shape) < 0.5, drawn, generator.normal(0, 10, shape))
    if kind == "units":
        return np.array([1, 1, 1, -1 if least else 1, 2])[generator.integers(0, 5, shape)]
    if kind == "normal" and dtype.is_float:
        return generator.normal(0, 1, shape)
    if kind == "positive" and dtype.is_float:
        return generator.uniform(0.5, 2, shape)
    if kind == "tiny" and dtype.is_float:
        return generator.integers(-9, 10, shape) * np.longdouble(dtype.format.smallest_subnormal)
    if kind == "large":
        return _large(generator, dtype, shape)
    if kind == "ties":
        return generator.integers(0, 2, shape) * 2 + min(0, least)
    if kind == "zeros":
        return np.where(
            generator.random(shape) < 0.75, -0.0 if least else 0, generator.integers(min(0, least), 2, shape)
        )
    if kind == "inside":
        return generator.uniform(-1, 1, shape) if dtype.is_float else generator.integers(0, 1, shape)
    if kind == "words":
        return generator.integers(0, 1 << 32, shape)
    if kind == "corners":
        return generator.integers(0, 9, shape)
    if kind == "signs":
        return generator.integers(0, 2, shape) * 2 - 1
    if kind == "probability":
        return np.clip(generator.uniform(-0.1, 1.1, shape), 0, 1)
    return generator.integers(max(least, 0) if kind == "positive" else least, 4, shape)


def _large(generator: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Return floats of all magnitudes whose squares can be added up in what they are computed in, or any integers."""
    if dtype.is_integer:
        return generator.integers(int(dtype.minimum), int(dtype.maximum), shape, dtype.numpy, endpoint=True)
    if dtype is DType.F16:
        return generator.uniform(-65504, 65504, shape)
    return generator.normal(0, 1, shape) * 10.0 ** generator.uniform(-3, 100 if dtype is DType.F64 else 15, shape)


def arrays_of(case: Case) -> dict[str, Array]:
    """Return the arguments of a case, by name, from its ``"inputs"``."""
    return {name: array_of(spec) for name, spec in case["inputs"].items()}
