"""Representations of values in notebooks."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import attrs
import numpy as np
import pytest

import tileir
from strategies.markup import read
from tileir.driver.notebook import MOST_KERNELS
from tileir_performance.explain.explanation import explanation_html

PROGRAM = "function (A[M, K], B[K, N]) -> (Y) { C[i, j : M, N] = +(A[i, k] * B[k, j]); Y = C < 3.0 ? C : 0.5; }"
TYPES = {"A": "f32[20, 30]", "B": "f32[30, 40]"}
ALLOWED = {"b", "i", "p", "pre", "span", "table", "thead", "tbody", "tr", "th", "td", "details", "summary"}
COLOUR = re.compile(r"style=color:#[0-9a-f]{6}")


def text_of(value: object) -> str:
    found = read(value._repr_html_())  # type: ignore[attr-defined]
    assert set(found.tags) <= ALLOWED
    assert all(each == ("scope", "col") or COLOUR.fullmatch(f"{each[0]}={each[1]}") for each in found.attributes)
    return found.text


STAGES = ("tile", "typed", "stripe", "scheduled", "sem")


@pytest.mark.parametrize("stage", STAGES)
def test_programs_show_their_texts_and_graphs(stage: str) -> None:
    program = getattr(tileir.compile(PROGRAM, TYPES, device="llvm.0"), stage)
    text, _, drawn = program._repr_html_().partition("<details><summary>graph</summary>")
    assert read(text).text == tileir.to_text(program)
    assert set(read(text).tags) <= ALLOWED
    picture = ElementTree.fromstring(drawn.removesuffix("</details>"))
    assert picture.tag.endswith("svg")
    titles = "".join(each.text or "" for each in picture.iter() if each.tag.endswith("title"))
    assert all(name in titles for name in "ABY")
    assert "<script" not in drawn


def test_programs_that_break_rules_show_their_text() -> None:
    whole = tileir.parse(PROGRAM)
    broken = attrs.evolve(whole, inputs=whole.inputs[:1], outputs=(*whole.outputs, *whole.outputs))
    assert "+(A[i, k] * B[k, j])" in read(broken._repr_html_()).text
    sem = tileir.compile(PROGRAM, TYPES, device="llvm.0").sem
    assert "kernel" in read(attrs.evolve(sem, buffers=())._repr_html_()).text


@pytest.mark.parametrize("stage", STAGES)
def test_executables_of_programs_of_any_stage_are_shown(stage: str) -> None:
    program = getattr(tileir.compile(PROGRAM, TYPES, device="llvm.0"), stage)
    executable = tileir.compile(program, TYPES, device="llvm.0")
    assert tileir.to_text(program) in text_of(executable)
    assert len(repr(tileir.default_context())) < 300
    assert repr(executable) == "<Executable (A, B) -> (Y) on llvm.0>"


def test_short_lines() -> None:
    assert repr(tileir.jit(PROGRAM)) == "<Jit (A, B) -> (Y): 2 statements>"
    assert repr(tileir.jit(PROGRAM, device="llvm")) == "<Jit (A, B) -> (Y): 2 statements on llvm>"
    assert tileir.jit(PROGRAM)._repr_html_() == tileir.parse(PROGRAM)._repr_html_()
    found = tileir.explain(PROGRAM, TYPES, target=tileir.Target())
    assert repr(found).startswith(f"<Explanation of {len(found.kernels)} kernel")
    assert len(repr(found)) < 100


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


def test_a_function_of_python_shows_its_signature_and_programs() -> None:
    def scaled(x, s=2.0):  # type: ignore[no-untyped-def]
        return x * s

    def shown(function: Any) -> str:
        return read(re.sub("<details>.*?</details>", "", function._repr_html_(), flags=re.DOTALL)).text

    compiled = tileir.jit(scaled)
    assert shown(compiled) == "scaled(x, s=2.0)"
    assert repr(compiled) == "<tileir function scaled(x, s=2.0)>"
    compiled(np.ones((2, 3), np.float32))
    assert shown(compiled).startswith("scaled(x, s=2.0)function (X: f32[N, M]) -> (Y)")
    assert "function (X: f32[N, 3]) -> (Y)" in shown(tileir.function(x="f32[N, 3]")(scaled))
    assert shown(tileir.function(s="f32")(scaled)) == "scaled(x, s=2.0)"


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


@pytest.mark.sampled(0)
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
