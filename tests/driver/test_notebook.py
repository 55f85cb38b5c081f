"""What notebooks show of values."""

from __future__ import annotations

import re

import numpy as np

import tileir
from strategies.markup import read
from tileir.driver.explain.notebook import MOST_KERNELS, explanation_html
from tileir.typed.inference.inference import infer

PROGRAM = "function (A[M, K], B[K, N]) -> (Y) { C[i, j : M, N] = +(A[i, k] * B[k, j]); Y = C < 3.0 ? C : 0.5; }"
TYPES = {"A": "f32[20, 30]", "B": "f32[30, 40]"}
ALLOWED = {"b", "i", "p", "pre", "table", "thead", "tbody", "tr", "th", "td", "details", "summary"}


def text_of(value: object) -> str:
    found = read(value._repr_html_())  # type: ignore[attr-defined]
    assert set(found.tags) <= ALLOWED
    assert set(found.attributes) <= {("scope", "col")}
    return found.text


def test_functions_show_their_texts() -> None:
    function = tileir.parse(PROGRAM)
    assert text_of(function) == tileir.to_text(function)
    types = {"A": tileir.TensorType("f32", (2, 3)), "B": tileir.TensorType("f32", (3, 4))}
    assert "C: f32[2, 4] = [i, j] +(A[i, k] * B[k, j])" in text_of(infer(function, types))


def test_an_executable_shows_device_types_program_and_kernels() -> None:
    executable = tileir.compile(PROGRAM, TYPES, device="llvm.0")
    text = text_of(executable)
    for part in (
        "llvm.0",
        "f32[20, 30]",
        "f32[20, 40]",
        "C < 3.0",
        *(kernel.name for kernel in executable.sem.kernels),
    ):
        assert part in text


def test_an_explanation_shows_its_kernels() -> None:
    found = tileir.explain(PROGRAM, TYPES, device="llvm.0")
    text = text_of(found)
    assert "predicted" in text
    assert "measured" not in text
    for kernel in found.kernels:
        assert kernel.name in text
    assert "measured" in text_of(tileir.explain(PROGRAM, TYPES, device="llvm.0", measure=True))


def test_of_many_kernels_the_first_are_shown() -> None:
    found = tileir.explain(PROGRAM, TYPES, device="llvm.0")
    many = tileir.Explanation(found.target, found.kernels * MOST_KERNELS * 2, 1.0)
    reader = read(explanation_html(many))
    assert reader.tags.count("tr") == MOST_KERNELS + 1
    assert f"the first {MOST_KERNELS} kernels" in reader.text


def test_a_formula_shows_its_text_and_its_explanation_the_lives_of_buffers() -> None:
    formula = tileir.craft("// <b>not bold</b>\ngaussian(sigma=1)\nmedian\n", device="llvm.0")
    text = text_of(formula)
    assert "// <b>not bold</b>" in text
    assert "reads image; runs on llvm.0" in text
    live = formula.with_value("steps[0].arguments.sigma", "1.5")
    assert "passes steps[0].arguments.sigma" in text_of(live)
    found = formula.explain(np.zeros((20, 30), np.uint8))
    shown = text_of(found)
    for kernel in found.kernels:
        assert kernel.name in shown
    bars = re.findall("[█·]+", shown)
    assert [bar.count("█") for bar in bars] == [each.last - each.first + 1 for each in found.dispatch.buffers]
    assert [bar.index("█") for bar in bars] == [each.first for each in found.dispatch.buffers]
