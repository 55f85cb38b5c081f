"""Arrays of devices that describe the inputs of programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileir
from strategies.dlpack import Library

MATRIX = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize("named", ["shared.0", None])
@pytest.mark.parametrize("is_foreign", [False, True])
@pytest.mark.parametrize("form", ["lone", "sequence", "mapping"])
def test_programs_are_compiled_for_where_their_arrays_are(
    context: tileir.Context, named: str | None, is_foreign: bool, form: str
) -> None:
    there: Any = tileir.to_device(MATRIX, "shared.0", context=context)
    given = Library(MATRIX, place=(2, 0)) if is_foreign else there
    arguments = {"lone": given, "sequence": [given], "mapping": {"A": given}}[form]
    text = "function (A) -> (B) { B = A + 1.0; }"
    executable = tileir.compile(text, arguments, device=named, context=context)
    assert executable.device.id == "shared.0"
    np.testing.assert_array_equal(executable(there).numpy(), MATRIX + 1)
    assert tileir.explain(text, arguments, device=named, context=context).target == executable.device.target.name


def test_a_device_that_is_named_wins_over_where_arrays_are(context: tileir.Context) -> None:
    there = tileir.to_device(MATRIX, "shared.0", context=context)
    assert (
        tileir.compile("function (A) -> (B) { B = A; }", [there], device="llvm", context=context).device.id == "llvm.0"
    )
