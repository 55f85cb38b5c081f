"""The recipes of the manual for libraries that share out tasks, as written: workers take code from the cache."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

MANUAL = Path(__file__).parents[3] / "docs" / "distributed.md"


@pytest.mark.parametrize("library", ["dask", "ray"])
def test_recipes(library: str, tmp_path: Path) -> None:
    pytest.importorskip(library)
    blocks = re.findall(r"```python\n(.*?)```", MANUAL.read_text(), re.DOTALL)
    (recipe,) = [block for block in blocks if f"import {library}\n" in block]
    (tmp_path / "recipe.py").write_text(recipe)
    kept = tmp_path / "cache"
    settings = {"TILEIR_CACHE_DIR": str(kept), "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    found = subprocess.run(
        [sys.executable, tmp_path / "recipe.py"],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    numbers = [number * (6 + 4 / 3) * 6 for number in range(5)]
    np.testing.assert_allclose(eval(found.stdout), numbers, rtol=1e-5)
    assert sum(each.name.startswith("library") for each in kept.iterdir()) == 1
