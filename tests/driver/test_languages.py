"""Languages of strangers' wheels: their texts are read, printed and checked as formulas are."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

import tileir
from strategies.wheels import install
from tileir.core import companions
from tileir.core.extensions import EXTENSIONS, Kind
from tileir.driver.forms import STAGES
from tileir_cli import main as cli
from tileir_testing.extensions import check_installed, check_language

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODULE = """
import attrs, tileir

@attrs.frozen
class Polynomial:
    coefficients: tuple[float, ...]

class Polynomials:
    name = "polynomial"
    kinds = (Polynomial,)

    def parse(self, text, name):
        try:
            return Polynomial(tuple(map(float, text.split())))
        except ValueError:
            raise tileir.ParseError([tileir.Diagnostic("TIL102", f"{name} has something else than numbers")]) from None

    def to_text(self, node):
        return " ".join(map(str, node.coefficients))

    def verify(self, node):
        if not node.coefficients:
            raise tileir.VerifyError([tileir.Diagnostic("TIL201", "a polynomial has coefficients")])

class Short(Polynomial):
    pass

class Forgetful(Polynomials):
    name = "forgetful"
    kinds = (Short,)
    parse = lambda self, text, name: Short(tuple(map(float, text.split())))
    to_text = lambda self, node: "1"

class Vague(Polynomials):
    name = "vague"
    kinds = Polynomial

POLYNOMIALS, FORGETFUL, VAGUE, MISNAMED, NOTHING = Polynomials(), Forgetful(), Vague(), Polynomials(), 3
"""

GROUPS = {
    "tileir.languages": {
        "polynomial": "poly_wheel:POLYNOMIALS",
        "forgetful": "poly_wheel:FORGETFUL",
        "vague": "poly_wheel:VAGUE",
        "misnamed": "poly_wheel:MISNAMED",
        "nothing": "poly_wheel:NOTHING",
        "absent": "poly_wheel:ABSENT",
    }
}


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    install(tmp_path, monkeypatch, "poly_wheel", GROUPS, MODULE)
    yield "poly_wheel"
    monkeypatch.undo()
    EXTENSIONS.forget()


def test_texts_are_read_printed_and_checked(wheel: str) -> None:
    assert wheel not in sys.modules
    node: Any = tileir.parse("1 0 2", stage="polynomial")
    assert node.coefficients == (1.0, 0.0, 2.0)
    assert tileir.to_text(node) == "1.0 0.0 2.0"
    tileir.verify(node)
    with pytest.raises(tileir.VerifyError, match="TIL201"):
        tileir.verify(type(node)(()))
    with pytest.raises(tileir.VerifyError, match="TIL201"):
        tileir.parse("", stage="polynomial")
    with pytest.raises(tileir.ParseError, match=r"TIL102.*terms has something else"):
        tileir.parse("one", "terms", stage="polynomial")


def test_texts_come_from_files_as_all_do(wheel: str, tmp_path: Path) -> None:
    (tmp_path / "terms").write_text("1 x")
    with pytest.raises(tileir.ParseError, match=r"TIL102.*terms has"):
        tileir.parse(tmp_path / "terms", stage="polynomial")
    assert tileir.to_text(tileir.parse(b"3", stage="polynomial")) == "3.0"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("vague", "has kinds that are no tuple of classes"),
        ("misnamed", "calls itself 'polynomial'"),
        ("nothing", "is a int without name and kinds and parse and to_text and verify"),
        ("absent", "cannot be loaded: AttributeError"),
    ],
)
def test_what_is_no_language_says_whose_it_is(wheel: str, name: str, said: str) -> None:
    with pytest.raises(tileir.BackendError, match=rf"TIL811.*language '{name}' of poly_wheel 1.0 .*{said}"):
        tileir.parse("1", stage=name)


def test_broken_languages_hide_nothing_else(wheel: str) -> None:
    formula = tileir.parse("gaussian(sigma=2)\n", stage="formula")
    assert tileir.to_text(formula) == "gaussian(sigma=2)\n"
    tileir.verify(formula)
    with pytest.raises(tileir.ArgumentError, match="TIL707"):
        tileir.to_text(3)  # type: ignore[arg-type]
    with pytest.raises(tileir.ArgumentError, match="TIL707"):
        tileir.verify(3)  # type: ignore[arg-type]


def test_a_name_that_nobody_has(wheel: str) -> None:
    with pytest.raises(tileir.ArgumentError, match=r"TIL707.*no stage 'polynomials'; did you mean polynomial\?"):
        tileir.parse("1", stage="polynomials")


@pytest.mark.parametrize("stage", [*STAGES, "formula"])
def test_names_of_stages_are_taken(stage: str) -> None:
    """A language of such a name would never be asked."""
    assert stage == "formula" or stage not in EXTENSIONS.names(Kind.LANGUAGE)


def test_the_kit_checks_them(wheel: str) -> None:
    check_installed(Kind.LANGUAGE, "polynomial")
    check_installed(Kind.LANGUAGE, "formula")
    polynomials: Any = EXTENSIONS.get(Kind.LANGUAGE, "polynomial", lambda _: None)
    forgetful: Any = EXTENSIONS.get(Kind.LANGUAGE, "forgetful", lambda _: None)
    check_language(polynomials, "1 2", "3")
    with pytest.raises(AssertionError, match="'1 2' is not read back"):
        check_language(forgetful, "1 2")
    polynomials.kinds = (int,)
    with pytest.raises(AssertionError, match="lacks Polynomial"):
        check_language(polynomials, "1")
    with pytest.raises(AssertionError, match="without name and kinds"):
        check_language(object())


def test_what_is_not_installed_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(EXTENSIONS, "find", lambda _: ())
    monkeypatch.setattr(companions, "installed", lambda _: ())
    EXTENSIONS.forget()
    companions.provided.cache_clear()
    try:
        said = r"TIL811.*needs tileir_formula, which is not installed: pip install tileir"
        with pytest.raises(tileir.BackendError, match=rf"stage='formula' {said[8:]}"):
            tileir.parse("gaussian\n", stage="formula")
        monkeypatch.delitem(vars(tileir), "craft", raising=False)
        with pytest.raises(tileir.BackendError, match=r"tileir\.craft needs tileir_formula"):
            tileir.craft("gaussian\n")
        monkeypatch.setattr(sys, "argv", ["tileir", "formula", "check", "a.formula"])
        assert cli.run() == 1
        assert "the command formula needs tileir_formula, which is not installed" in capsys.readouterr().err
    finally:
        monkeypatch.undo()
        EXTENSIONS.forget()
