"""Pygments lexers: every text comes out as it went in, words are those of the languages, and Pygments finds them."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, strategies as st
from pygments.lexer import Lexer
from pygments.token import Keyword, Name, Number, Text

import tileir
import tileir_pygments
from strategies.sources import ROOT
from tileir.tile.text.grammar import RESERVED
from tileir_formula.text.reading import WORDS as FORMULA_WORDS
from tileir_pygments import FormulaLexer, ProgramLexer, PythonTileLexer

LEXERS = (ProgramLexer, FormulaLexer, PythonTileLexer)
PROGRAM = "function (A[M, K], B[K, N]) -> (Y) { C[i, j : M, N] = +(A[i, k] * B[k, j]); Y = exp(C) < 3.0 ? C : 0.5; }"
TYPES = {"A": "f32[20, 30]", "B": "f32[30, 40]"}


def kinds(lexer: Lexer, text: str) -> dict[str, object]:
    return {value: kind for _, kind, value in lexer.get_tokens_unprocessed(text)}


@pytest.mark.parametrize("lexer", LEXERS)
@given(text=st.text(max_size=60) | st.text(alphabet="function (A[i])->{}=+*;/'\"`#$.\n0123456789", max_size=60))
def test_every_text_comes_out_as_it_went_in(lexer: type[Lexer], text: str) -> None:
    tokens = list(lexer().get_tokens_unprocessed(text))
    assert "".join(value for _, _, value in tokens) == text
    assert all(text.startswith(value, start) for start, _, value in tokens)


@pytest.mark.parametrize("stage", ["tile", "typed", "stripe", "scheduled", "sem"])
def test_programs_of_all_stages_have_no_unknown_characters(stage: str) -> None:
    text = tileir.to_text(getattr(tileir.compile(PROGRAM, TYPES, device="llvm.0"), stage))
    tokens = list(ProgramLexer().get_tokens_unprocessed(text))
    assert [value for _, kind, value in tokens if kind is Text] == []
    assert any(kind is Keyword for _, kind, _ in tokens)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.tile")), ids=lambda path: path.name)
def test_examples_have_no_unknown_characters(path: object) -> None:
    text = (ROOT / "examples" / str(path)).read_text("utf-8")
    assert [value for _, kind, value in ProgramLexer().get_tokens_unprocessed(text) if kind is Text] == []


def test_words_are_those_of_the_languages() -> None:
    assert set(tileir_pygments.PROGRAM_WORDS) >= RESERVED
    assert set(tileir_pygments.FORMULA_WORDS) == FORMULA_WORDS
    assert set(tileir_pygments.DTYPES) >= {dtype.value for dtype in tileir.DType}


def test_kinds_of_tokens_in_programs() -> None:
    found = kinds(ProgramLexer(), PROGRAM)
    assert found["function"] is Keyword
    assert found["exp"] is Name.Function
    assert found["3.0"] is Number.Float
    assert found["M"] is Name


def test_kinds_of_tokens_in_formulas() -> None:
    found = kinds(
        FormulaLexer(), "blur = gaussian(sigma=1.5) of photo outside clamp  // soft\n[convolve:(weights=<1 2>)]"
    )
    assert found["gaussian"] is Name.Function
    assert found["convolve"] is Name.Function
    assert found["sigma"] is Name.Attribute
    assert found["outside"] is Keyword
    assert found["photo"] is Name


def test_programs_that_import_functions_are_programs() -> None:
    text = 'import soft as hard from "layers.tile";\nfunction twice(A) -> (B) { (B, C) = hard(A); }'
    for found in (kinds(ProgramLexer(), text), kinds(PythonTileLexer(), f"f = '''\n// rows\n{text}\n'''\n")):
        assert {found[word] for word in ("import", "as", "from", "function")} == {Keyword}
        assert found["twice"] is found["hard"] is Name.Function
    assert kinds(PythonTileLexer(), "'''import os; function'''\n").get("function") is None


def test_programs_inside_of_python_are_highlighted() -> None:
    found = kinds(PythonTileLexer(), f'f = tileir.jit("""\n{PROGRAM}\n""")\nprint("function")\n')
    assert found["exp"] is Name.Function
    assert found["function"] is Keyword
    assert found["print"] is Name.Builtin


def test_pygments_finds_the_lexers_without_loading_tileir() -> None:
    code = (
        "import sys; from pygments.lexers import get_lexer_by_name as named, get_lexer_for_filename as filed;"
        "print(named('stripe').name, named('formula').name, filed('a.tile').name, 'tileir' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split("\n")[0] == "Tile tileir formula Tile False"
