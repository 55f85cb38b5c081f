"""Every function of the catalogue on every back end, and with pictures of integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileir
from strategies import opencl_device
from strategies.photographs import filtered, photograph
from tileir_formula.definitions.catalogue import own_functions
from tileir_formula.definitions.parameters import ChoiceParameter
from tileir_formula.lower.lowering import craft
from tileir_formula.text.parser import parse


def texts(name: str) -> list[str]:
    """Return steps that call a function: one for each word of its first choice."""
    function = own_functions()[name]
    choice = next((each for each in function.parameters if isinstance(each, ChoiceParameter)), None)
    calls = [f"{name}({choice.name}={word})" for word in choice.words] if choice is not None else [name]
    if len(function.pictures) == 1:
        return calls
    return [f"inputs image, other\n{call} of image, other" for call in calls]


def pictures(name: str) -> list[Any]:
    first = photograph(3)
    return [first, first[::-1, ::-1].copy()][: len(own_functions()[name].pictures)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", own_functions())
def test_functions_run_on_the_processor(name: str) -> None:
    for text in texts(name):
        crafted = craft(parse(text), own_functions())
        arrays = [*pictures(name), *crafted.arguments.values()]
        expected = tileir.evaluate(crafted.function, arrays)
        assert np.isfinite(expected).all()
        result = tileir.jit(crafted.function, "llvm")(*arrays)
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5, err_msg=text)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", own_functions())
def test_functions_run_on_opencl(name: str) -> None:
    crafted = craft(parse(texts(name)[0]), own_functions())
    arrays = [*pictures(name), *crafted.arguments.values()]
    result = tileir.jit(crafted.function, opencl_device.device())(*arrays)
    np.testing.assert_allclose(result, tileir.evaluate(crafted.function, arrays), rtol=1e-5, atol=1e-5)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", own_functions())
def test_functions_take_single_pixels(name: str) -> None:
    given = [each[:1, :1] for each in pictures(name)]
    for channels in (1, 3):
        for text in texts(name):
            result = filtered(text, *(each[..., :channels] for each in given))
            assert np.isfinite(result).all(), text
            assert result.size > 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", own_functions())
def test_functions_take_pictures_of_integers(name: str) -> None:
    text = texts(name)[0]
    given = pictures(name)
    exact = np.clip(filtered(text, *given), 0, 1)
    for pixels, white in (("u8", 255), ("u16", 65535)):
        whole = [np.round(each * white).astype(f"uint{pixels[1:]}") for each in given]
        result = filtered(text, *whole, pixels=pixels)
        assert result.dtype == whole[0].dtype
        as_floats = filtered(text, *(each * np.float32(1 / white) for each in whole))
        assert np.abs(result - np.clip(as_floats, 0, 1) * white).max() <= 0.51
        assert result.shape == exact.shape
