"""The namespace of the array API standard, for tensors."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np

from tileir.core import DType
from tileir.numpy.dispatch import FUNCTIONS, own


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
    names = ("arange", "zeros", "ones", "full", "empty", "eye", "linspace", "can_cast", "finfo", "iinfo", "isdtype")
    made = {name: own(name) for name in (*names, "result_type", "from_dlpack")}
    values = {name: getattr(np, name) for name in ("e", "inf", "nan", "newaxis", "pi")}
    dtypes = {each.numpy.name: each.numpy for each in DType if each.numpy.name in dir(np)}
    return SimpleNamespace(**{**made, **whole, **values, **dtypes, "linalg": SimpleNamespace(**inner)})
