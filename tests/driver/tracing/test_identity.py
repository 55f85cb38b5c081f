"""Traces that calls share: only where everything that a function reads is the same."""

from __future__ import annotations

import functools
import types
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tileir

X = np.arange(4, dtype="f4")
FACTOR = 2.0


@dataclass(frozen=True)
class Choice:
    value: Any


@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: (value, "x"), lambda value: Choice(value)])
@pytest.mark.parametrize("values", [(1, 1.0, True), (0.0, -0.0), (np.int32(1), np.float64(1.0), True)])
def test_static_values_that_are_equal_but_not_alike_have_traces_of_their_own(wrap: Any, values: Any) -> None:
    seen: list[str] = [repr((wrap, values))]  # a function of its own, since equal ones share traces

    def f(x: Any, choice: Any) -> Any:
        inner = choice.value if isinstance(choice, Choice) else choice[0] if isinstance(choice, tuple) else choice
        seen.append(repr(inner))
        return x * 2

    compiled = tileir.jit(f, static="choice")
    for value in values:
        compiled(X, choice=wrap(value))
        compiled(X, choice=wrap(value))
    assert seen[1:] == [repr(value) for value in values]


def scaled(x: Any) -> Any:
    return x * FACTOR


def rescaled(x: Any) -> Any:
    return scaled(x) + 1


@pytest.mark.parametrize("function", [scaled, rescaled, lambda x: scaled(x), functools.partial(rescaled)])
def test_globals_count_as_they_are_when_a_function_is_compiled(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    np.testing.assert_array_equal(tileir.jit(function)(X), function(X))
    monkeypatch.setitem(globals(), "FACTOR", 5.0)
    np.testing.assert_array_equal(tileir.jit(function)(X), function(X))


@pytest.mark.parametrize(
    "changed",
    [
        lambda f: tileir.gradient(lambda x: f(x).sum()),
        lambda f: tileir.gradient(functools.partial(lambda g, x: g(x).sum(), f)),
        lambda f: tileir.vmap(f),
        lambda f: lambda x: tuple(tileir.jvp(f, [x], [x]))[1],
        lambda f: functools.wraps(f)(lambda x: f(x)),
    ],
)
def test_globals_of_functions_count_where_others_are_made_of_these(changed: Any) -> None:
    module: dict[str, Any] = {"FACTOR": 2.0}
    exec("def f(x):\n    return x * FACTOR", module)
    first: Any = changed(module["f"])(X)
    module["FACTOR"] = 6.0
    np.testing.assert_array_equal(changed(module["f"])(X), 3 * first)


def test_attributes_of_modules_and_classes_count_as_they_are_when_a_function_is_compiled() -> None:
    class Settings:
        factor = 2.0

    module = types.ModuleType("settings")
    vars(module).update(factor=2.0, Settings=Settings)
    for place, f in (
        (Settings, lambda x: x * Settings.factor),
        (module, lambda x: x * module.factor),
        (module, lambda x: x * module.Settings.factor),
    ):
        np.testing.assert_array_equal(tileir.jit(f)(X), X * 2)
        vars(module)["factor"] = Settings.factor = 3.0
        np.testing.assert_array_equal(tileir.jit(f)(X), X * 3, err_msg=str(place))
        vars(module)["factor"] = Settings.factor = 2.0


def test_attributes_count_as_they_are_when_a_method_is_compiled() -> None:
    class Model:
        def __init__(self, factor: float) -> None:
            self.factor = factor

        def __call__(self, x: Any) -> Any:
            return x * self.factor

    model = Model(2.0)
    for function in (model.__call__, lambda x: model(x)):
        model.factor = 2.0
        np.testing.assert_array_equal(tileir.jit(function)(X), X * 2)
        model.factor = 3.0
        np.testing.assert_array_equal(tileir.jit(function)(X), X * 3)


def test_functions_that_close_over_themselves_are_compiled() -> None:
    def doubled(x: Any, times: int = 3) -> Any:
        return x if times == 0 else doubled(x, times - 1) * 2

    np.testing.assert_array_equal(tileir.jit(lambda x: doubled(x))(X), X * 8)


def test_closures_made_alike_share_a_trace() -> None:
    traced: list[int] = []
    count = traced.append

    def made(factor: float) -> Any:
        return lambda x: (count(1), x * factor)[1]

    for _ in range(3):
        np.testing.assert_array_equal(tileir.jit(made(2.0))(X), X * 2)
    np.testing.assert_array_equal(tileir.jit(made(True))(X), X)
    assert len(traced) == 2
