"""Functions of an installed distribution are called by formulas, and controls know them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tileir

PHOTO = np.random.default_rng(0).random((9, 12, 3), np.float32)


def test_they_are_found_by_their_entry_point() -> None:
    assert {"two_inks", "glow", "gaussian"} <= set(tileir.craft("glow").functions)
    with pytest.raises(tileir.TileError, match=r"level is from 0\.0 to 1\.0; it was 2"):
        tileir.craft("glow(level=2)")


def test_formulas_call_them_beside_others() -> None:
    tinted = tileir.craft("gaussian(sigma=1)\ntwo_inks(dark=#000000, light=#ff0000)\nglow(size=3)")(PHOTO)
    assert tinted.shape == PHOTO.shape
    assert (tinted[..., 1:] == 0).all()
    assert (tinted[..., 0] > 0).all()
    with pytest.raises(tileir.TileError, match="did you mean glow"):
        tileir.craft("glo")


def test_the_readme_says_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    code, _, rest = page.partition("```python\n")[2].partition("```")
    exec(code, {})
    assert capsys.readouterr().out == rest.partition("```text\n")[2].partition("```")[0]
