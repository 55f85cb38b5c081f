"""``tileir.testing`` hands on the names and the command of a package that it finds by an entry point."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tileir_testing
from tileir import testing
from tileir.core import companions


def test_names_are_those_of_the_package() -> None:
    assert {name: getattr(testing, name) for name in tileir_testing.__all__} == {
        name: getattr(tileir_testing, name) for name in tileir_testing.__all__
    }
    assert set(tileir_testing.__all__) <= set(dir(testing))


def test_a_name_that_nobody_has() -> None:
    with pytest.raises(
        AttributeError, match=r"'tileir\.testing' has no attribute 'check_pas'; did you mean 'check_pass'"
    ):
        testing.check_pas  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.sampled(0)
def test_nothing_is_loaded_before_it_is_used() -> None:
    script = (
        "import sys, tileir.testing; before = 'tileir_testing' in sys.modules\n"
        "from tileir.testing import check_pass; print(before, 'tileir_testing' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False True\n"


@pytest.mark.sampled(0)
def test_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tileir.testing", "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "usage: python -m tileir.testing" in done.stdout


def test_what_is_not_installed_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(companions, "installed", lambda _: ())
    companions.provided.cache_clear()
    assert testing.main() == 2
    assert "TIL811" in (told := capsys.readouterr().err)
    assert "tileir.testing needs tileir_testing, which is not installed: pip install tileir" in told
