"""Split constants and the layout of floats."""

from __future__ import annotations

from fractions import Fraction

import mpmath  # type: ignore[import-untyped]  # it has no types
import numpy as np
import pytest
from hypothesis import given, strategies as st

from tileir.core.dtype import DType
from tileir.semtree.functions.formats import FORMATS, LN_2, PI, Format, scaled_pi


@given(st.integers(8, 3000))
def test_scaled_pi(bits: int) -> None:
    with mpmath.workprec(bits + 64):
        exact = int(mpmath.floor(mpmath.ldexp(mpmath.pi, bits)))
    assert exact - 1 <= scaled_pi(bits) <= exact


def test_ln_2() -> None:
    with mpmath.workdps(100):
        assert abs(mpmath.mpf(LN_2.numerator) / LN_2.denominator - mpmath.log(2)) < mpmath.mpf(10) ** -78


@pytest.mark.parametrize("form", FORMATS.values(), ids=lambda form: form.dtype.value)
@pytest.mark.parametrize("value", [PI, PI / 2, LN_2])
def test_parts_add_up(form: Format, value: Fraction) -> None:
    parts = form.parts(value, 3)
    assert abs(value - sum(map(Fraction, parts))) <= value / 2 ** (3 * (form.digits + 1))
    assert all(form.dtype.numpy.type(part) == part for part in parts)


@pytest.mark.parametrize("form", FORMATS.values(), ids=lambda form: form.dtype.value)
def test_the_layout_is_that_of_numpy(form: Format) -> None:
    info = np.finfo(form.dtype.numpy)
    bits = np.uint32 if form.dtype is DType.F32 else np.uint64
    assert (form.digits, form.least_normal) == (info.nmant, info.tiny)
    assert np.array(form.magic, form.dtype.numpy).view(bits) == form.magic_bits
    assert np.array(-0.0, form.dtype.numpy).view(bits) == form.sign
    assert np.array(1.0, form.dtype.numpy).view(bits) == form.bias << form.digits
