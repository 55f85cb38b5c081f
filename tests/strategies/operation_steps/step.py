"""One operation with its options, and what NumPy makes of an array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import attrs
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.tile.builder import Tensor

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


class UnfitError(Exception):
    """A step does not take an array of this shape."""


@attrs.frozen
class Step:
    """One operation with its options.

    Attributes:
        text: What it is, for reports.
        rank: Of its result.
        build: Applies it to a tensor of the builder.
        compute: Applies it to an array; raises :class:`UnfitError` where its size is none that the operation takes.
        linear: Whether it is linear, so that differences quotients are exact.

    """

    text: str
    rank: int
    build: Callable[[Tensor], Tensor] = attrs.field(repr=False)
    compute: Callable[[Array], Array] = attrs.field(repr=False)
    linear: bool = True


def require(condition: bool) -> None:
    """Say that the step takes no array of this shape, unless the condition holds."""
    if not condition:
        raise UnfitError
