"""Arrays of devices that describe the inputs of programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileir
from strategies.dlpack import Library

MATRIX = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.sampled(5)
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


def test_parts_are_refused_with_what_to_write() -> None:
    there = tileir.to_device(np.arange(4, dtype=np.float32), "llvm")
    for key in (slice(1, 3), 0, (slice(None, None, 2),)):
        with pytest.raises(tileir.ArgumentError, match=r"TIL714.*no parts of its own: .* ops\.slice .*numpy\(\)"):
            there[key]
    with pytest.raises(tileir.ArgumentError, match="no parts of its own"):
        iter(there).__next__()
    np.testing.assert_array_equal(np.asarray(there) + 1, np.arange(1, 5, dtype=np.float32))
