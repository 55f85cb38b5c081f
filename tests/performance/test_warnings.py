"""Warnings for some types: beside the enumeration of all points, beside results, and the sentences of a trial."""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.contractions import Case, products
from strategies.operations import all_cases
from strategies.sources import ROOT
from tileir_testing.generated.case import program
from tileir_testing.programs.catalog import CASES as KIT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tileir_testing.programs.case import Conformance as KitCase

CASES = all_cases()


def told(text: str, *arguments: Any, every: bool = False) -> list[tuple[str, str]]:
    return [(warning.code, warning.underlined) for warning in tileir.warnings_of(text, arguments, every=every)]


TRANSPOSED = "function (A[M, K]) -> (C) { C[j, i : M, K] = =(A[i, j]); }"
LIMITED = "C[i : M] = =(A[i]), i - 7 < 2"


@pytest.mark.parametrize(
    ("text", "shapes", "expected"),
    [
        ("function (A[M, N]) -> (C) { C[i : M] = =(A[i, 7]); }", [(5, 3)], [("TIL411", "7")]),
        ("function (A[M, N]) -> (C) { C[i : M] = =(A[i, 7]); }", [(5, 8)], []),
        (TRANSPOSED, [(5, 3)], [("TIL413", "i"), ("TIL412", "j")]),
        (TRANSPOSED, [(3, 5)], [("TIL412", "i"), ("TIL413", "j")]),
        (TRANSPOSED, [(4, 4)], []),
        ("function (A[M, N]) -> (C) { C[i : M] = +(A[i + 100000, j]); }", [(5, 3)], [("TIL411", "i + 100000")]),
        ("function (A[M]) -> (C) { C[i + 9 : M] = =(A[i]); }", [(5,)], [("TIL411", "i + 9")]),
        (f"function (A[M]) -> (C) {{ {LIMITED}; }}", [(5,)], [("TIL411", LIMITED)]),
        ("function (A[M, K], B[L]) -> (C) { C[i : M] = +(A[i, k] * B[k]); }", [(2, 4), (3,)], [("TIL412", "k")]),
        ("function (A[M, K], B[L]) -> (C) { C[i : M] = +(A[i, k] * B[k]), k < 3; }", [(2, 4), (3,)], []),
        ("function (A[M, K], B[L]) -> (C) { C[i : M] = +(A[i, k] * B[k]); }", [(2, 4), (4,)], []),
        ("function (A[M]) -> (C) { C[i : M + 2] = =(A[i - 1]); }", [(5,)], []),
        ("function (A[M]) -> (C) { C[i : 3] = =(A[i]); }", [(5,)], []),
        ("function (A[M], D[N]) -> (C) { C[i : N] = =(A[i]) default D; }", [(5,), (7,)], []),
        ("function (A[M]) -> (C) { C[i : M] = +(A[i - k]), k < M; }", [(5,)], []),
        ("function (A[M, N]) -> (C) { [[allow(TIL411)]] C[i : M] = =(A[i, 7]); }", [(5, 3)], []),
        ("function (A[M, N]) -> (C) { C[i : M] = =(A[i, 7]); }", [(0, 3)], []),
    ],
)
def test_accesses(text: str, shapes: list[tuple[int, ...]], expected: list[tuple[str, str]]) -> None:
    assert told(text, *shapes) == expected


def test_constraints_that_nothing_satisfies_are_told() -> None:
    text = "function (A[M]) -> (C) { C[i : M] = +(A[i]), i - 2 < M - 9; }"
    assert told(text, (4,)) == [("TIL411", "C[i : M] = +(A[i]), i - 2 < M - 9")]
    assert told(text, (12,)) == []
    assert not tileir.evaluate(text, np.ones(4, np.float32)).any()


def test_contractions_in_the_step_of_a_scan_are_told_once() -> None:
    step = "function (A[N], X[M]) -> (B) { P[i : N] = =(X[9 * i + 5]); B = A + P; }"
    text = f"function (A[N], X[S, M]) -> (O) {{ O = scan(A; X) {step}; }}"
    assert told(text, (3,), (4, 5)) == [("TIL411", "9 * i + 5")]


@given(
    st.lists(st.integers(-3, 3), min_size=4, max_size=4),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(1, 4),
    st.sampled_from("+>"),
)
def test_never_inside_is_so_exactly_if_no_point_is(numbers: list[int], n: int, m: int, rows: int, how: str) -> None:
    a, b, c, d = numbers
    text = f"function (A[R, M], B[N]) -> (O) {{ O[i : N] = {how}(A[{a} * i + {b}, {c} * i + j + {d}] * B[j]); }}"
    inside = any(0 <= a * i + b < rows and 0 <= c * i + j + d < m for i, j in product(range(n), repeat=2))
    found = tileir.warnings_of(text, [(rows, m), (n,)])
    assert ("TIL411" in {warning.code for warning in found}) is not inside
    leaves = any(not (0 <= a * i + b < rows and 0 <= c * i + j + d < m) for i, j in product(range(n), repeat=2))
    every = {warning.code for warning in tileir.warnings_of(text, [(rows, m), (n,)], every=True)}
    assert bool(every & {"TIL411", "TIL412"}) is leaves
    if not inside:
        result = tileir.evaluate(text, [np.ones((rows, m), np.float32), np.ones(n, np.float32)])
        assert not result.any()


@given(products())
def test_products_that_people_write_give_no_warning(case: Case) -> None:
    types = {name: tileir.TensorType(case.dtype, shape) for name, shape in case.shapes.items()}
    codes = {warning.code for warning in tileir.warnings_of(case.text, types)}
    assert not codes & {"TIL411", "TIL412", "TIL413"}


@pytest.mark.sampled(58)
@pytest.mark.parametrize("name", CASES)
def test_operations_of_the_library_give_no_warning_of_their_own(name: str) -> None:
    case = CASES[name]
    found = tileir.warnings_of(case.function(), case.arrays(case.dtypes[0]))
    assert [warning.code for warning in found if warning.code != "TIL231"] == []


SUM = "function (A, B) -> (C) { C = A + B; }"


@pytest.mark.parametrize(
    ("left", "right", "lossy"),
    [
        ("i32", "f32", True),
        ("i64", "f64", True),
        ("i32", "f64", False),
        ("i16", "f32", False),
        ("i16", "f16", True),
        ("i8", "f16", False),
        ("u8", "bf16", False),
        ("bool", "f16", False),
        ("f16", "f32", False),
        ("f16", "bf16", True),
        ("i8", "i32", False),
        ("i64", "i32", False),
        ("f32", "f32", False),
    ],
)
def test_conversions(left: str, right: str, lossy: bool) -> None:
    for types in ((left, right), (right, left)):
        found = told(SUM, *((dtype, (3,)) for dtype in types))
        assert found == ([("TIL341", "A + B")] if lossy else [])


def test_conversions_of_contractions_and_none_of_what_is_small_or_written() -> None:
    product_ = "function (A[M, K], B[K]) -> (C) { C[i : M] = +(A[i, k] * B[k]); }"
    assert [code for code, _ in told(product_, ("i32", (2, 3)), ("f32", (3,)))] == ["TIL341"]
    assert told("function (A) -> (C) { C = A * (index(A, 0) * 2 + 1); }", (5,)) == []
    assert told("function (A) -> (C) { C = A * index(A, 0); }", ((1 << 25,))) == [("TIL341", "A * index(A, 0)")]
    assert told("function (A, B) -> (C) { C = A + as_float(B, 32); }", (5,), ("i32", (5,))) == []
    assert told("function (A) -> (C) { C = sqrt(A); }", ("i32", (5,))) == []


@pytest.mark.parametrize(
    ("literal", "dtype", "lossy"),
    [
        ("16777217", "f32", True),
        ("16777216", "f32", False),
        ("16777217", "f64", False),
        ("2049", "f16", True),
        ("257", "bf16", True),
        ("0.1", "f16", False),
        ("0.00000001", "f16", True),
        ("16777217", "i32", False),
    ],
)
def test_literals_that_a_dtype_does_not_have(literal: str, dtype: str, lossy: bool) -> None:
    text = f"function (A) -> (B) {{ B = A + {literal}; }}"
    assert told(text, (dtype, (3,))) == ([("TIL341", literal)] if lossy else [])


@pytest.mark.parametrize(
    ("text", "arguments", "lossy"),
    [
        ("function (X) -> (Y) { Y = X * 2; }", [0.1], True),
        ("function (X) -> (Y) { Y = X * 2; }", [0.5], False),
        ("function (X, A) -> (Y) { Y = X * A; }", [0.1, np.ones(2, np.float32)], False),
        ("function (X, A) -> (Y) { Y = X * A; }", [0.1, np.ones(2)], False),
        ("function (X, A) -> (Y) { Y = X * A; }", [16777217, np.ones(2, np.float32)], True),
        ("function (X, A) -> (Y) { Y = X * A; }", [16777217, np.ones(2)], False),
        ("function (X, A) -> (Y) { Y = X * A; }", [1e-60, np.ones(2, np.float32)], True),
        ("function (X, A) -> (Y) { Y = X * A; }", [3, np.ones(2, np.int8)], False),
        ("function (X) -> (Y) { Y = X; }", [np.float64(0.1)], False),
    ],
)
def test_numbers_that_are_rounded(text: str, arguments: list[Any], lossy: bool) -> None:
    assert told(text, *arguments) == ([("TIL342", "X")] if lossy else [])


def test_operations_give_no_warning_of_their_own_where_python_was_typed_in() -> None:
    scope: dict[str, Any] = {"tileir": tileir}
    pool = "y = f.build(Y=tileir.ops.average_pool(x, 2, layout='x'))"
    lines = f"f = tileir.FunctionBuilder(); x = f.input('X', 'N'); {pool}"
    exec(compile(lines, "<typed in>", "exec"), scope)
    assert tileir.warnings_of(scope["y"], [("i32", (6,))]) == ()
    with pytest.raises(tileir.TileError) as caught:
        exec(compile("tileir.ops.var(x, unbiased=True)", "<typed in>", "exec"), scope)
    assert str(caught.value) == "error[TIL217]: var has no argument 'unbiased'; here it is called correction"


@pytest.mark.sampled(163)
@pytest.mark.parametrize("case", KIT, ids=lambda case: case.name)
def test_programs_of_the_kit_give_warnings_only_of_promotion(case: KitCase) -> None:
    codes = {warning.code for warning in tileir.warnings_of(case.text, case.inputs)}
    assert codes == ({"TIL341"} if case.name == "promotion" else set())


@pytest.mark.parametrize("number", range(60))
def test_generated_programs_are_0_where_no_point_is_inside(number: int) -> None:
    case = program(15, number)
    found = tileir.warnings_of(case.function, case.inputs)
    names = [output.name for output in case.function.outputs]
    results = tileir.evaluate(case.function, case.inputs)
    results = results if isinstance(results, tuple) else (results,)
    for warning in found:
        silent = re.search(r"'([^']+)' is 0 everywhere", warning.message)
        if silent is not None and silent[1] in names:
            assert not np.asarray(results[names.index(silent[1])]).any()


def functions_of(page: str) -> Iterator[str]:
    """The functions that a page shows, as far as they are whole."""
    for match in re.finditer(r"function \([^{}]*?\) -> \([^{}]*?\) \{", page):
        depth = 0
        for stop in range(match.end() - 1, len(page)):
            depth += (page[stop] == "{") - (page[stop] == "}")
            if depth == 0:
                yield page[match.start() : stop + 1]
                break


PAGES = [*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "examples").glob("*.tile")), ROOT / "README.md"]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_functions_of_the_manual_give_no_warning(path: Path) -> None:
    for text in functions_of(path.read_text(encoding="utf-8")):
        try:
            function = tileir.parse(text)
        except tileir.TileError:
            continue  # pages show faults, too
        derived = {"TIL231"} if "(D" in text.split("->")[1] else set()
        assert {warning.code for warning in function.warnings} <= derived, text
