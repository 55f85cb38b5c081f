"""Conversions of f16 without instructions for them, beside NumPy's."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tileir_llvm.half import NAMES, half_conversions
from tileir_llvm.host import device
from tileir_llvm.loader import load_code
from tileir_llvm.modules import object_code

if TYPE_CHECKING:
    from collections.abc import Callable

    Array = np.ndarray[Any, np.dtype[Any]]

FEATURES = device().features
LOOP = """
declare {to} @{name}({source})
define void @all(ptr %from, ptr %to, i64 %count) {{
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %following, %next ]
  %here = getelementptr {source}, ptr %from, i64 %i
  %there = getelementptr {to}, ptr %to, i64 %i
  %value = load {source}, ptr %here
  %result = call {to} @{name}({source} %value)
  store {to} %result, ptr %there
  %following = add i64 %i, 1
  %more = icmp ult i64 %following, %count
  br i1 %more, label %next, label %done
done:
  ret void
}}
"""
SPELT = {"float16": "half", "float32": "float", "float64": "double"}


def converter(name: str, source: str, to: str) -> Callable[[Array], Array]:
    """Return one of the functions, for arrays."""
    text = LOOP.format(name=name, source=SPELT[source], to=SPELT[to])
    code = load_code((object_code(text, FEATURES, optimise=False),), ("all",), FEATURES)
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(code.addresses[0])

    def convert(values: Array) -> Array:
        results = np.empty(values.shape, to)
        function(values.ctypes.data, results.ctypes.data, values.size)
        return results

    convert.code = code  # type: ignore[attr-defined]  # its memory
    return convert


def halves() -> Array:
    return np.arange(1 << 16, dtype=np.uint16).view(np.float16)


def test_all_halves_become_what_they_are() -> None:
    found, expected = converter("__extendhfsf2", "float16", "float32")(halves()), halves().astype(np.float32)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize(("name", "source"), [("__truncsfhf2", "float32"), ("__truncdfhf2", "float64")])
def test_floats_are_rounded_once_to_even(name: str, source: str) -> None:
    finite = np.sort(halves()[np.isfinite(halves())].astype(source))
    middle = (finite[1:] + finite[:-1]) / 2
    ties = [np.nextafter(middle, np.array(way, source)) for way in (-np.inf, 0, np.inf)]
    random = np.random.default_rng(1).integers(0, 2**63, 200_000, np.uint64)
    bits = random.view(np.float64) if source == "float64" else (random >> 32).astype(np.uint32).view(np.float32)
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 65519.9, 65520, 1e30, 1e-30, -1e-8], source)
    values = np.concatenate([finite, middle, *ties, bits, -bits, special])
    with np.errstate(all="ignore"):
        expected = values.astype(np.float16)
    found = converter(name, source, "float16")(values)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found)[~np.isnan(values)], np.signbit(expected)[~np.isnan(values)])


def test_object_code_tells_what_it_needs() -> None:
    code = half_conversions(FEATURES)
    assert all(name in code for name in NAMES)
