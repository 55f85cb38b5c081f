"""Distributed tensors of PyTorch, between processes that it joins by gloo, as arrays of tileir and back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.sampled(0)
@pytest.mark.parametrize("size", [2, 4])
def test_parts_are_handed_over(size: int, tmp_path: Path) -> None:
    job = Path(__file__).with_name("dtensor_job.py")
    ranks = [
        subprocess.Popen(
            [sys.executable, job, tmp_path / "store", str(rank), str(size)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    told = [rank.communicate(timeout=300)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * size, "\n".join(told)
