from __future__ import annotations

import numpy as np
import pytest

import tileir
from tileir_reference import BACKEND

SOFTMAX = """
function (A[M, N]) -> (O) {
  E = exp(A);
  S[i, 0 : M, 1] = +(E[i, j]);
  O = E / S;
}
"""


def test_it_is_found_by_its_entry_point() -> None:
    assert "reference.0" in [device.id for device in tileir.devices()]


def test_it_is_no_default() -> None:
    context = tileir.Context()
    context.register(BACKEND)
    assert context.device("reference").id == "reference.0"
    assert context.device().backend != "reference"


def test_results_are_those_of_the_interpreter_of_functions() -> None:
    given = np.linspace(-3, 3, 12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_allclose(tileir.jit(SOFTMAX, "reference")(given), tileir.evaluate(SOFTMAX, given), rtol=1e-6)


def test_its_code_is_readable() -> None:
    executable = tileir.compile("function (A) -> (O) { O = A + 1; }", [(2,)], device="reference")
    assert executable.listing("semtree").startswith("// O")
    with pytest.raises(tileir.BackendError, match="lists 'semtree', not 'asm'"):
        executable.listing("asm")
    assert executable.listings == ("semtree",)
