from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.sampled(0)
def test_collection_in_a_new_process() -> None:
    """To collect all that other tests keep takes seconds, each of nine times."""
    tests = Path(__file__).with_name("collection_alone.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests)]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
