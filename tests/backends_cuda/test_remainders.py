"""The remainder of floats as a function: run on this processor, it gives the bits that NumPy gives."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.effort import examples
from tileir_cuda.emit.remainders import remainders
from tileir_llvm.device.processor import processor
from tileir_llvm.run.loader import load_code
from tileir_llvm.run.modules import object_code

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS: Final[dict[int, tuple[Any, Any, Any]]] = {
    32: (ctypes.c_float, np.float32, np.uint32),
    64: (ctypes.c_double, np.float64, np.uint64),
}


@cache
def remainder(bits: int) -> tuple[object, Callable[..., float]]:
    """Return what keeps the code, and the function."""
    (text,) = remainders(f"@r.f{bits}(", "r")
    text = text.replace("define internal", "define").replace(" #1", "")
    features = processor().features
    code = load_code((object_code(text, features),), (f"r.f{bits}",), features)
    kind = KINDS[bits][0]
    return code, ctypes.CFUNCTYPE(kind, kind, kind)(code.addresses[0])


def check(bits: int, left: Any, right: Any) -> None:
    _, float_type, integer_type = KINDS[bits]
    with np.errstate(all="ignore"):
        wanted = np.fmod(left, right)
    found = float_type(remainder(bits)[1](left, right))
    if np.isnan(wanted):
        assert np.isnan(found)
    else:
        assert found.view(integer_type) == wanted.view(integer_type), (left, right)


@pytest.mark.parametrize("bits", KINDS)
def test_special_values(bits: int) -> None:
    kind = KINDS[bits][1]
    info = np.finfo(kind)
    tiny = [info.smallest_subnormal, info.smallest_subnormal * 3, info.tiny, info.tiny * kind(1.5)]
    values = [kind(0), *tiny, kind(1), kind(3), kind(0.1), info.max, info.max / 3, kind(np.inf), kind(np.nan)]
    for left in values:
        for right in values:
            for signs in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
                check(bits, kind(signs[0]) * left, kind(signs[1]) * right)


@pytest.mark.parametrize("bits", KINDS)
@examples(300)
@given(data=st.data())
def test_any_values(bits: int, data: st.DataObject) -> None:
    """Of all bit patterns, and of pairs near multiples of each other."""
    _, kind, integer = KINDS[bits]
    pattern = st.integers(0, (1 << bits) - 1).map(lambda value: integer(value).view(kind))
    left, right = data.draw(pattern), data.draw(pattern)
    with np.errstate(all="ignore"):
        pairs = [(left, right), (kind(left * kind(3)), left), (kind(right * kind(1e6)), kind(right + right))]
    for pair in pairs:
        check(bits, *pair)


@pytest.mark.parametrize(("dtype", "name"), [("f32", "f32"), ("f64", "f64"), ("f16", "f32")])
def test_programs_call_it_instead_of_an_instruction_that_is_not_exact(dtype: str, name: str) -> None:
    text = tileir.compile("function (A[N], B[N]) -> (C) { C = mod(A, B); }", [f"{dtype}[70]"] * 2, device="cuda.sm_80")
    assert f"@remainder0.{name}(" in text.listing("llvm")
    assert "frem" not in text.listing("llvm")
