"""Distributed tensors of PyTorch, between processes that it joins by gloo, as arrays of tileir and back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributed.tensor import Shard

from tileir import ArgumentError
from tileir_torch.distributed import from_dtensor, layout_of, to_dtensor

LINE: Any = SimpleNamespace(mesh=torch.arange(2), mesh_dim_names=("x",))


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


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: from_dtensor(torch.ones(4), "inprocess"), "TIL707.*this takes a DTensor, not a Tensor"),
        (lambda: to_dtensor(np.ones(4), LINE), "TIL707.*this takes a DistributedArray, not a ndarray"),  # type: ignore[arg-type]
        (lambda: layout_of((4,), LINE, []), "TIL352.*there are 0 placements for the mesh x=2; give one"),
        (lambda: layout_of((4, 3), LINE, [Shard(2)]), r"TIL352.*Shard\(2\) cuts no axis of .* shape \[4, 3\]"),
        (lambda: layout_of((4, 3), LINE, [Shard(-3)]), "TIL352.*cuts no axis"),
        (lambda: layout_of((), LINE, [Shard(0)]), r"TIL352.*cuts no axis of a tensor of shape \[\]"),
    ],
)
def test_what_is_no_part_of_a_tensor(made: Any, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    with pytest.raises(ArgumentError, match=message):
        made()
