"""What lies outside of pictures, as Tile: the nearest pixel, a mirror image, the other end, or 0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileir.formula.ir import Boundary
from tileir.ops.arrays.padding import pad

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tileir.ops.shared.foundation import Dim, Tensor

_MODES: Final[Mapping[Boundary, str]] = {
    Boundary.CLAMP: "edge",
    Boundary.MIRROR: "reflect",
    Boundary.WRAP: "wrap",
    Boundary.CONSTANT: "constant",
}


def bordered(picture: Tensor, widths: Sequence[Dim], boundary: Boundary) -> Tensor:
    """Return a picture with so much of what lies outside on both sides of its first axes."""
    others = [0] * (len(picture.dims) - len(widths))
    return pad(picture, [*widths, *others], mode=_MODES[boundary])
