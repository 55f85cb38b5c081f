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
        ValueError: Another version than those up to 2024.12.

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
    return SimpleNamespace(**{**made, **typed, **whole, **values, **dtypes, "linalg": SimpleNamespace(**inner)})
