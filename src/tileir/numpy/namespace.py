"""The namespace of the array API standard, for tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from tileir.core import DType
from tileir.numpy.dispatch import FUNCTIONS, own
from tileir.tile.building.tensors import Tensor


def _of_dtypes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of dtypes that takes tensors for theirs."""

    @functools.wraps(function)
    def asked(*args: Any) -> Any:
        return function(*[each.dtype if isinstance(each, Tensor) else each for each in args])

    return asked


@functools.cache
def namespace(version: str | None = None) -> SimpleNamespace:
    """Return the functions, dtypes and constants of the array API standard.

    Raises:
        ValueError: The version is unknown or later than 2024.12.
    """
    if version is not None and version > "2024.12":
        raise ValueError(f"the array API is supported up to version 2024.12, not {version}")
    whole: dict[str, Any] = {name: body for name, body in FUNCTIONS.items() if "." not in name}
    inner = {name.removeprefix("linalg."): body for name, body in FUNCTIONS.items() if name.startswith("linalg.")}
    names = ("arange", "zeros", "ones", "full", "empty", "eye", "linspace", "finfo", "iinfo", "isdtype")
    typed = {name: _of_dtypes(own(name)) for name in ("can_cast", "result_type")}
    made = {name: own(name) for name in (*names, "broadcast_shapes", "from_dlpack")}
    values = {name: getattr(np, name) for name in ("e", "inf", "nan", "newaxis", "pi")}
    dtypes = {each.numpy.name: each.numpy for each in DType if each.numpy.name in dir(np)}
    about = {"linalg": SimpleNamespace(**inner), "__array_namespace_info__": _About}
    return SimpleNamespace(**{**made, **typed, **whole, **values, **dtypes, **about})


class _About:
    """Capabilities of the functions, in the form of the standard: arrays have no device while a program is built."""

    def capabilities(self) -> dict[str, Any]:
        """Return the capabilities: neither masks as keys nor sizes that depend on values."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": None}

    def default_device(self) -> None:
        """Return None: programs are compiled for any device."""

    def devices(self) -> list[None]:
        """Return the default device alone."""
        return [None]

    def default_dtypes(self, *, device: None = None) -> dict[str, np.dtype[Any]]:  # noqa: ARG002  the standard's
        """Return the dtypes of results without tensor arguments: NumPy's."""
        names = {"real floating": "f8", "complex floating": "c16", "integral": "i8", "indexing": "i8"}
        return {kind: np.dtype(name) for kind, name in names.items()}

    def dtypes(self, *, device: None = None, kind: Any = None) -> dict[str, np.dtype[Any]]:  # noqa: ARG002
        """Return the available dtypes of the standard, optionally of some kinds."""
        standard = {each.numpy.name: each.numpy for each in DType if each.numpy.name in _STANDARD}
        return {name: each for name, each in standard.items() if kind is None or np.isdtype(each, kind)}


_STANDARD = {"bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "float32", "float64"}
