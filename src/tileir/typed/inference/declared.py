"""Checks of arguments and results against the types that a signature declares."""

from __future__ import annotations

from collections.abc import Sequence

from tileir.core import DType, Span, fail, fits
from tileir.tile import ir as tile
from tileir.tile.text.printer import node_text
from tileir.typed.inference.values import Scalar
from tileir.typed.ir import TensorType


def check_dtype(parameter: tile.Input, given: TensorType) -> None:
    """Check that an argument has the dtype that its input declares, or is a number that adapts to it.

    Raises:
        TileError: TIL317, it has another dtype, or is a number of another kind.
    """
    declared = parameter.dtype
    if declared is None or adapts(given, declared):
        return
    told = f"input {parameter.name!r} is declared as {node_text(parameter)}, but its argument is {given}"
    advice = "pass a number of that kind" if given.weak else "convert it, or declare another dtype"
    raise fail("TIL317", f"{told}; {advice}", parameter.span)


def adapts(given: TensorType, declared: DType) -> bool:
    """Return whether an argument has a dtype or is a number that adapts to it; integers adapt to floats, too."""
    if not given.weak:
        return given.dtype is declared
    if given.dtype.is_bool or declared.is_bool:
        return given.dtype is declared
    if given.value is not None and declared.is_integer and not fits(given.value, declared):
        return False
    return declared.is_float or not given.dtype.is_float


def check_result(output: tile.Output, value: Scalar, sizes: Sequence[int] | None, made: Span | None) -> None:
    """Check that a result has the dtype and sizes that its function declares.

    Args:
        output: The declaration.
        value: The result.
        sizes: The declared sizes, as integers.
        made: The definition of the result.

    Raises:
        TileError: TIL317, its dtype or sizes differ.
    """
    dtype = value.dtype or output.dtype
    wrong_sizes = sizes is not None and tuple(sizes) != value.shape
    if output.dtype in (None, dtype) and not wrong_sizes:
        return
    actual = TensorType(dtype or DType.F32, value.shape)
    found = str(list(actual.shape)) if output.dtype is None else str(actual)
    known = "" if sizes is None else f", which is {list(sizes)} here"
    message = f"result {output.name!r} is declared as {node_text(output)}{known if wrong_sizes else ''}, but is {found}"
    advice = "" if wrong_sizes or output.dtype is None else f"; convert it, by as_{output.dtype.value}({output.name})"
    place = () if made is None else (f"it is defined in {made.where}",)
    raise fail("TIL317", message + advice, output.span, *place)
