from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileir.core.errors import TileError
from tileir.core.template import _rendered, fill
from tileir.core.template_expressions import MissingError, UnsupportedError, Value, evaluate, power_of_two_below

NAMES: Final[Mapping[str, Value]] = {
    "N": 3,
    "SIZE": 512,
    "HALF": 0.5,
    "ON": True,
    "NAME": "SRAM",
    "CACHES": (1, 2),
    "NONE": None,
}

numbers = st.sampled_from(["N", "SIZE", "HALF", "2", "0.5", "-1", "7"])
expressions = st.recursive(
    numbers,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner).map(
            lambda parts: f"({' '.join(parts)})"
        ),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda p: f"{p[0]}({p[1]}, {p[2]})"),
        st.tuples(inner, inner, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), inner, inner).map(
            lambda p: f"({p[0]} if {p[1]} {p[2]} {p[3]} else {p[4]})"
        ),
        inner.map(lambda text: f"power_of_two_below({text})"),
    ),
    max_leaves=6,
)


def outcome(render: object, text: str) -> object:
    assert callable(render)
    try:
        return render(text, NAMES, "it")
    except TileError as error:
        return [d.code for d in error.diagnostics]


@given(expressions)
def test_arithmetic_means_the_same_with_and_without_the_engine(expression: str) -> None:
    text = f"[{{{{ {expression} }}}}, 1]"
    assert outcome(fill, text) == outcome(_rendered, text)


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("nothing", "nothing"),
        ("{{ N }} {{SIZE/N}}", "3 170.66666666666666"),
        ("{{ SIZE / 2 }} {{ SIZE // 2 }} {{ SIZE % N }} {{ -N }}", "256.0 256 2 -3"),
        ('"{{ NAME }}" {{ ON }} {{ not ON }} {{ NONE }} {{ CACHES }}', '"SRAM" true false null [1, 2]'),
        ("{{ 4 * N if N > 1 else 1 }} {{ min(N, 2) }} {{ power_of_two_below(N) }}", "12 2 2"),
        ("{% for i in range(N) %}S[{{ i }}],{% endfor %}", "S[0],S[1],S[2],"),
        ("[% for i in range(N) %]S[{{ i }}],[% endfor %]", "S[0],S[1],S[2],"),
        ("{% if ON %}{{ ON }} {{ CACHES }} {{ NONE }}{% endif %}", "true [1, 2] null"),
        ("{{ NAME | lower }}{# a remark #}", "sram"),
        ("{{ 'a' if NAME == 'SRAM' else 'b' }}", "a"),
        ("{% set twice = 2 * N %}{{ twice }}\n", "6\n"),
        ("{{ 2 ** N }}", "8"),
    ],
)
def test_texts_are_filled_in(text: str, filled: str) -> None:
    assert fill(text, NAMES) == filled


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("\n {{ SIZ }}", [(2, "{{ SIZ }}", "SIZ has no value here; did you mean SIZE?")]),
        ("{{ A }} {{ B + N }}", [(1, "{{ A }}", "A has no value"), (1, "{{ B + N }}", "B has no value")]),
        ("{{ N / 0 }}", [(1, "{{ N / 0 }}", "this has no value: division by zero")]),
        ("{{ max(N, NAME) }}", [(1, "{{ max(N, NAME) }}", "this has no value: '>' not supported")]),
        ("\n  {% for %}", [(2, "{% for %}", "this is no template: Expected an expression")]),
        ("{{ N", []),
        (
            "{% if ON %}\n{{ SIZ }}{% endif %}",
            [(2, "{{ SIZ }}{% endif %}", "SIZ has no value here; did you mean SIZE?")],
        ),
        (
            "{% if ON %}\n\n{{ N / 0 }}{% endif %}",
            [(3, "{{ N / 0 }}{% endif %}", "this has no value: division by zero")],
        ),
        ("{{ NAME.lowre() }}", [(1, "{{ NAME.lowre() }}", "this has no value: 'str object' has no attribute 'lowre'")]),
        ("{{ NAME.__class__ }}", [(1, "{{ NAME.__class__ }}", "this has no value: access to attribute '__class__'")]),
        ("{{ 'a' * 10**10 }}", [(1, "{{ 'a' * 10**10 }}", "this has no value: * takes numbers")]),
        ("{{ 2 ** 999 }}", [(1, "{{ 2 ** 999 }}", "this has no value: a power above 64")]),
        ("{{ N | nothing }}", [(1, "{{ N | nothing }}", "this is no template: No filter named 'nothing'.")]),
        ("{% for i in range(10**6) %}{% endfor %}", [(1, None, "this has no value: Range too big")]),
        ("{% include 'x' %}", [(1, None, "this has no value: no loader")]),
    ],
)
def test_faults_have_a_line(text: str, faults: list[tuple[int, str | None, str]]) -> None:
    if not faults:
        assert fill(text, NAMES) == text
        return
    with pytest.raises(TileError) as caught:
        fill(text, NAMES, "it.json")
    assert [d.code for d in caught.value.diagnostics] == ["TIL546"] * len(faults)
    for diagnostic, (line, underlined, message) in zip(caught.value.diagnostics, faults, strict=True):
        assert diagnostic.span is not None
        assert (diagnostic.span.line, diagnostic.span.source.name) == (line, "it.json")
        assert underlined in (None, diagnostic.underlined)
        assert diagnostic.message.startswith(message)


def test_all_names_that_are_missing_are_told() -> None:
    with pytest.raises(TileError) as caught:
        fill("{% if A %}{% endif %}{{ B }}", {})
    assert [d.message.partition(" ")[0] for d in caught.value.diagnostics] == ["A", "B"]


@pytest.mark.parametrize("text", ["N.real", "[1]", "N if", "f(N)", "'a' + 'b'", "1 < N < 3", "lambda: 1", "1" * 300])
def test_other_expressions_are_left_to_the_engine(text: str) -> None:
    with pytest.raises(UnsupportedError):
        evaluate(text, NAMES)


def test_names_are_looked_up_only_where_they_count() -> None:
    assert evaluate("1 if ON else MISSING", NAMES) == 1
    with pytest.raises(MissingError):
        evaluate("MISSING if ON else 1", NAMES)


@pytest.mark.parametrize(("number", "power"), [(-5, 1), (0, 1), (1, 1), (2.9, 2), (255, 128), (256, 256)])
def test_powers_of_two(number: float, power: int) -> None:
    assert power_of_two_below(number) == power


def test_mere_arithmetic_loads_no_engine() -> None:
    script = (
        "import sys; from tileir.core.template import fill; fill('{{ 2 * 3 }}', {}); print('jinja2' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True, timeout=60)
    assert done.stdout.strip() == "False"
