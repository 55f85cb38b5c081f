"""Corners of numbers beside eager and Python's integers: signs of zeros, powers that wrap, shifts beyond all bits."""

from __future__ import annotations

import linecache
from typing import Any

import pytest
import torch

import tileir_torch

pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch's own, about what it compiles
NAN = float("nan")


def whole(function: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(function, backend=tileir_torch.backend, options={"fullgraph": True})


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_zeros_and_nan_have_signs(dtype: torch.dtype) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        signs = torch.signbit(x), torch.signbit(y)
        copied = torch.copysign(y, x), torch.copysign(x, -0.0), torch.copysign(x, 2), torch.copysign(x[0], y)
        return *signs, *copied, x // y, x // 4, torch.div(x, -3, rounding_mode="floor")

    x = torch.tensor([-0.0, 0.0, -0.0, 1, 7, NAN, -NAN, 3], dtype=dtype)
    y = torch.tensor([4.0, 4, -4, 5, -2, 1, -0.0, NAN], dtype=dtype)
    for found, wanted in zip(whole(function)(x, y), function(x, y), strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)
        zeros = wanted == 0
        assert torch.equal(torch.signbit(found[zeros]), torch.signbit(wanted[zeros]))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_angles_of_zeros_with_signs(dtype: torch.dtype) -> None:
    y = torch.tensor([0, -0.0, 0, -0.0, 0, -0.0, 0, -0.0, NAN, 1, -2], dtype=dtype)
    x = torch.tensor([0, 0, -0.0, -0.0, 1, 1, -1, -1, 0, -0.0, -0.0], dtype=dtype)
    found, wanted = whole(torch.atan2)(y, x), torch.atan2(y, x)
    torch.testing.assert_close(found, wanted, equal_nan=True)
    assert torch.equal(torch.signbit(found[:8]), torch.signbit(wanted[:8]))
    integers = torch.tensor([0, 1, -1, 0]), torch.tensor([-2, 0, -1, 0])
    torch.testing.assert_close(whole(torch.atan2)(*integers), torch.atan2(*integers))


def test_signs_of_integers() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.signbit(x), torch.signbit(x > 0), torch.copysign(x, -0.0), torch.copysign(x, x - 3)

    x = torch.tensor([3, -3, 0])
    torch.testing.assert_close(whole(function)(x), function(x), rtol=0, atol=0)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int64, torch.int16, torch.int32])
def test_powers_of_integers_wrap(dtype: torch.dtype) -> None:
    exponents = 0, 1, 3, 7, 33

    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x**y, 3**y, *(x**each for each in exponents)

    info = torch.iinfo(dtype)
    bases = [3, 5, 2, 0, 1, 7, 6] if info.min == 0 else [3, -3, 2, 0, 1, -1, -2]
    powers = [33, 40, 9, 0, 100, 127, 1]
    found = whole(function)(torch.tensor(bases, dtype=dtype), torch.tensor(powers, dtype=dtype))
    wanted = [
        [base**power for base, power in zip(bases, powers, strict=True)],
        [3**power for power in powers],
        *([base**each for base in bases] for each in exponents),
    ]
    for result, numbers in zip(found, wanted, strict=True):
        assert result.dtype == dtype
        assert result.tolist() == [(each - info.min) % (info.max - info.min + 1) + info.min for each in numbers]


def test_negative_powers_of_integers() -> None:
    x, y = torch.tensor([1, -1, -1, 2, 5], dtype=torch.int32), torch.tensor([-3, -3, -2, -1, -9], dtype=torch.int32)
    assert whole(lambda x, y: x**y)(x, y).tolist() == [1, -1, 1, 0, 0]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int64, torch.int32])
def test_shifts(dtype: torch.dtype) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        left, right = torch.bitwise_left_shift, torch.bitwise_right_shift
        return x << y, x >> y, x << 2, x >> 1, 3 << y, left(x, 2), right(5, y), x & y, x | 3, x ^ y

    x, y = torch.tensor([1, -1, 100, 7, 3]).to(dtype), torch.tensor([0, 3, 8, 100, 31]).to(dtype)
    torch.testing.assert_close(whole(function)(x, y), function(x, y))


def test_lines_of_python_that_are_long_or_have_tabs() -> None:
    code = f"def tabs(x, f):\n    return f(x.max(1, True)[0]\t+\t1)  # {'long ' * 400}\n"
    linecache.cache["tabs.py"] = (len(code), None, code.splitlines(keepends=True), "tabs.py")
    names: dict[str, Any] = {}
    exec(compile(code, "tabs.py", "exec"), names)
    x = torch.tensor([[1.0, 2], [4, 3]])
    assert whole(names["tabs"])(x, torch.neg).tolist() == [[-3], [-5]]
    with pytest.raises(Exception, match=r"return f\(x\.max\(1, True\)\[0\] \+ 1\)  # long"):
        whole(names["tabs"])(x, torch.linalg.pinv)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("target", [[[0, 1, -1, 2], [3, -1, 0, 0], [-1, 1, 2, 3], [0, 2, 1, 3]], [2, -1, 1, 0]])
def test_labels_after_the_first_negative_one_do_not_count(target: list[Any], reduction: str) -> None:
    places = torch.tensor(target)
    x = torch.linspace(-2, 2, places.numel()).reshape(places.shape).cos().requires_grad_()

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.multilabel_margin_loss(x, places, reduction=reduction)

    wanted, found = function(x), whole(function)(x)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(torch.autograd.grad(found.sum(), x), torch.autograd.grad(wanted.sum(), x))
    with torch.no_grad():
        torch.testing.assert_close(whole(function)(x), wanted)
