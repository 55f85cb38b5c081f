from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import pytest
from hypothesis import given, strategies as st
from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import SandboxedEnvironment

from tileir.core.errors import TileError
from tileir.core.targets.template import fill, filled
from tileir.core.targets.template_expressions import FUNCTIONS, Value, power_of_two_below
from tileir.core.text.span import Source

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


def rendered(text: str) -> str | None:
    """Return the text as jinja2 fills it in; None where it fails."""
    environment = SandboxedEnvironment(undefined=StrictUndefined, finalize=_spelt, keep_trailing_newline=True)
    environment.globals.update(FUNCTIONS)
    try:
        return environment.from_string(text).render(NAMES)
    except (TemplateError, ArithmeticError, TypeError, ValueError):
        return None


def _spelt(value: object) -> object:
    return value if isinstance(value, str) else json.dumps(value)


def outcome(text: str) -> str | None:
    try:
        return fill(text, NAMES)
    except TileError:
        return None


@given(expressions)
def test_expressions_mean_the_same_as_in_jinja(expression: str) -> None:
    text = f"[{{{{ {expression} }}}}, 1]"
    assert outcome(text) == rendered(text)


@pytest.mark.parametrize(
    "text",
    [
        "{% for i in range(N) -%}\n {{ loop.index }}/{{ loop.length }}{% if not loop.last %},{% endif %} {%- endfor %}",
        "{% for i in CACHES %}{% for j in [4, 'x'] %}{{ i }}{{ j }} {% endfor %}{% endfor %}",
        "{% if N == 1 %}a{% elif N == 3 %}b{% elif N %}c{% else %}d{% endif %}",
        "{% if N == 1 %}a{% elif N == 4 %}b{% else %}d{% endif %}",
        "{% if ON and not NONE or N %}{% set M = N + 1 %}{% endif %}{{ 2 * M }}",
        "{% set M = 1 %}{% for i in range(2) %}{% set M = i + 5 %}{{ M }}{% endfor %}{{ M }}",
        "{{ CACHES[0] + CACHES[-1] }} {{ NAME[1] }} {{ 2 in CACHES }} {{ 'x' not in NAME }} {{ 1 < N <= 3 }}",
        "{{ NAME | lower }} {{ CACHES | length }} {{ -N | abs }} {{ (N / 2) | round }} {{ HALF | round | int }}",
        "{{ 'a' + NAME + \"b\" }} {{ true }} {{ none }} {{ N\n + 1 }}{# {{ nothing }} #}",
        "a }} b %} {{ N }} # } c",
    ],
)
def test_blocks_mean_the_same_as_in_jinja(text: str) -> None:
    assert rendered(text) is not None
    assert outcome(text) == rendered(text)


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
        ("{{ 3.5 | round(10**10) }} {{ 3 | round(-10**10) }} {{ 4 | round }}", "3.5 0.0 4.0"),
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
        ("\n  {% for %}", [(2, "{% for %}", "this is no template: write for NAME in LIST here")]),
        ("{{ N", []),
        (
            "{% if ON %}\n{{ SIZ }}{% endif %}",
            [(2, "{{ SIZ }}", "SIZ has no value here; did you mean SIZE?")],
        ),
        (
            "{% if ON %}\n\n{{ N / 0 }}{% endif %}",
            [(3, "{{ N / 0 }}", "this has no value: division by zero")],
        ),
        ("{{ NAME.lowre() }}", [(1, "{{ NAME.lowre() }}", "this is no template: templates do not know")]),
        ("{{ NAME.__class__ }}", [(1, "{{ NAME.__class__ }}", "this is no template: templates do not know")]),
        ("{{ 'a' * 10**10 }}", [(1, "{{ 'a' * 10**10 }}", "this has no value: arithmetic takes numbers")]),
        ("{{ 2 ** 999 }}", [(1, "{{ 2 ** 999 }}", "this has no value: a power above 64")]),
        (
            "{{ N | nothing }}",
            [(1, "{{ N | nothing }}", "this is no template: there is no filter nothing; known are abs")],
        ),
        (
            "{% for i in range(10**6) %}{% endfor %}",
            [(1, None, "this template is too large: it takes more than 100000 steps")],
        ),
        ("{% include 'x' %}", [(1, None, "this is no template: there is no block 'include'; known are")]),
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


HOSTILE: Final = (
    "{% for i in range(9999) %}{% for j in range(9999) %}{% for k in range(9999) %}" + "{% endfor %}" * 3,
    "{% for i in range(10**9) %}{% endfor %}",
    "{% for i in range(300) %}{% for j in range(300) %}{{ i }}{% endfor %}{% endfor %}",
    "{% for i in range(9000) %}" + "x" * 9000 + "{% endfor %}",
    "{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(1) }}",
    "{{ '%999999999d' % 1 }}",
    "{% set x = '%999999999d' % 1 %}",
    "{{ 'a' * 10**10 }}",
    "{{ [1] * 10**10 }}",
    "{{ [1] + [2] }}",
    "{% set a = [1] %}" + "{% set a = [a, a] %}" * 99,
    "{% set a = 'aaaaaaaa' %}" + "{% set a = a + a %}" * 99 + "{{ a }}",
    "{{ 9**64**64**64 }}",
    "{{ ((9**64)**64)**64 }}",
    "{% set a = 9**64 %}" + "{% set a = a * a %}" * 99,
    "{{ 2 ** 999 }}",
    "{{ 10.0 ** 64 * 10.0 ** 64 * 10.0 ** 64 * 10.0 ** 64 * 10.0 ** 64 }}",
    "{{ (-8) ** 0.5 }}",
    "{{ [1, 2] | sum([]) }}",
    "{{ range(10**6) | slice(10**6) | list }}",
    "{{ NAME | center(10**10) }}",
    "{{ NAME | truncate(2) }}",
    "{{ NAME | indent(10**10) }}",
    "{{ range(-10**70, 10**70) }}",
    "{{ '9' * 1 | int }}",
    "{{ int('" + "9" * 900 + "') }}",
    "{{ " + "9" * 900 + " }}",
    "{{ " + "(" * 400 + "1" + ")" * 400 + " }}",
    "{{ " + "-" * 900 + "1 }}",
    "{{ " + "-" * 400 + " }}",
    "{{ " + "1 + " * 5000 + "1 }}",
    "{% if 1 %}" * 200 + "{% endif %}" * 200,
    "{% if 0 %}" + "{% elif 0 %}" * 200 + "{% endif %}",
    "{{ 1 }}" * 20_000,
    "{{ N.__class__.__mro__ }}",
    "{{ N.real }}",
    "{{ ''.join(['a']) }}",
    "{{ __import__('os') }}",
    "{{ lambda: 1 }}",
    "{{ [i for i in range(9)] }}",
    "{{ f'{N}' }}",
    "{{ (x := 1) }}",
    "{{ 1j }}",
    "{{ 'a\0b' + N }}",
    "{{ \0 }}",
    "{{ CACHES[9] }}",
    "{{ CACHES['a'] }}",
    "{{ int([]) }}",
    "{{ max() }}",
    "{{ -NAME }}",
    "{{ N | lower }}",
    "{% include 'x' %}",
    "{% import 'os' as os %}",
    "{% raw %}{% endraw %}",
    "{% for i, j in [1] %}{% endfor %}",
    "{% for i in N %}{% endfor %}",
    "{% for i in range(N) %}",
    "{% endfor %}",
    "{% if N %}{% endfor %}",
    "{% else %}",
    "{% %}",
    "{% if N",
    "[% for i in range(N) ]",
    "{# a remark",
    "{% set a.b = 1 %}",
)


@pytest.mark.sampled(22)
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_nothing_but_faults_comes_of_hostile_templates(text: str) -> None:
    """A limit of time stands around all tests; here the limits of templates are what ends them."""
    with pytest.raises(TileError) as caught:
        fill(f"\n {text}", NAMES, "it.json")
    for diagnostic in caught.value.diagnostics:
        assert diagnostic.code == "TIL546"
        assert diagnostic.span is not None
        assert (diagnostic.span.source.name, diagnostic.span.line >= 2) == ("it.json", True)


@pytest.mark.parametrize("text", ["{{" * 200_000, "{%" * 200_000, "[%" * 200_000, "{#" * 200_000, "{{ a" * 100_000])
def test_marks_that_nothing_closes_are_passed_over_once(text: str) -> None:
    assert outcome(text) in (None, text)


def test_each_fault_of_a_loop_is_told_once() -> None:
    with pytest.raises(TileError) as caught:
        fill("{% for i in range(N) %}{{ SIZ }}{{ 1 // i }}{% endfor %}", NAMES)
    assert [d.underlined for d in caught.value.diagnostics] == ["{{ SIZ }}", "{{ 1 // i }}"]


def test_what_is_filled_in_knows_where_it_comes_from() -> None:
    template = "ab\n{{ SIZE }} cd {% for i in range(N) %}<{{ i }}>{% endfor %}!"
    text = filled(Source(template), 0, len(template), NAMES)
    assert text.text == "ab\n512 cd <0><1><2>!"
    for part, origin in (("b", "b"), ("cd", "cd"), ("51", "{{ SIZE }}"), ("!", "!"), ("b\n512", "b\n{{ SIZE }}")):
        start = text.text.index(part)
        assert text.place(start, start + len(part)).text == origin
    assert text.place(len(text.text) - 3, len(text.text) - 2).text == "{{ i }}"


def test_names_are_looked_up_only_where_they_count() -> None:
    assert fill("{{ 1 if ON else MISSING }}{{ ON or MISSING }}", NAMES) == "1true"
    assert outcome("{{ MISSING if ON else 1 }}") is None


@pytest.mark.parametrize(("number", "power"), [(-5, 1), (0, 1), (1, 1), (2.9, 2), (255, 128), (256, 256)])
def test_powers_of_two(number: float, power: int) -> None:
    assert power_of_two_below(number) == power
