"""NumPy's functions on tensors of a program, by their names and with their arguments.

Tensors find these by NumPy's own protocols, so that ``numpy.exp(x)`` and ``x.sum(axis=0)`` work in traced functions and
in builders; called without a tensor, a function of this module is NumPy's.

>>> import numpy as np
>>> import tileir
>>> softplus = tileir.jit(lambda x: np.log1p(np.exp(x)))
"""

from typing import Any

from tileir.numpy import elementwise, linear, reductions, shaping  # noqa: F401  they enter their functions
from tileir.numpy.dispatch import FUNCTIONS, function, method, missing, operands, refused, ufunc
from tileir.numpy.indexing import indexed
from tileir.numpy.namespace import namespace

__all__ = ["function", "indexed", "method", "missing", "namespace", "operands", "ufunc"]


def __dir__() -> list[str]:
    return sorted(name for name in FUNCTIONS if "." not in name)


def __getattr__(name: str) -> Any:
    """Return a function by NumPy's name."""
    if name.startswith("__"):
        raise AttributeError(name)
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    raise AttributeError(str(refused(name)))
