"""Cards that fail, and whose work it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileir
from strategies.card_driver import Result, without_a_card

ADD = "function (A, B) -> (C) { C = A + B; }"
X = np.arange(12, dtype=np.float32)


def there(array: np.ndarray[Any, Any], context: tileir.Context) -> tileir.DeviceArray:
    return tileir.to_device(array, context=context)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("status", [Result.CUDA_ERROR_ASSERT, Result.CUDA_ERROR_ILLEGAL_ADDRESS])
@pytest.mark.parametrize("works", [False, True])
def test_a_card_that_another_library_has_lost_is_not_called_ours(status: Result, works: bool) -> None:
    """No kernel of ours asserts anything, and where none of them is at work none has failed."""
    with without_a_card() as (driver, context):
        add, a = tileir.jit(ADD, context=context), there(X, context)
        result = add(a, a)
        if not works:
            result.numpy()
        driver.lost = status
        for ask in (lambda: add(a, a), result.numpy if works else lambda: add(a, a), lambda: add(a, a)):
            with pytest.raises(tileir.BackendError, match="lost") as error:
                ask()
            ours = works and status is not Result.CUDA_ERROR_ASSERT
            assert error.value.diagnostics[0].code == ("TIL808" if ours else "TIL810")
            assert ("another library of this process" in str(error.value)) != ours


def test_without_visible_cards_the_driver_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with without_a_card():  # whose driver cannot be started
        from tileir_cuda.run.driver import cards

        with pytest.raises(tileir.BackendError, match="TIL802"):
            cards()
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
        assert cards() == []
