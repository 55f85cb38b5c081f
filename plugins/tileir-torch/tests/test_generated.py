"""Some of the functions of :mod:`generated` under ``torch.compile``."""

from __future__ import annotations

import pytest

import tileir_torch
from generated import THEIRS, Generated, fault

SHARE = (*range(0, 500, 25), 479, 746, 756)
"""Some of all, and what once was wrong: rounded numbers, and ``as_strided`` of parts, in a graph and of results."""


@pytest.mark.sampled(1)
@pytest.mark.filterwarnings("ignore")  # PyTorch's own
@pytest.mark.parametrize("seed", SHARE)
def test_mutations_views_and_aliases(seed: int) -> None:
    generated = Generated(seed)
    assert fault(generated, tileir_torch.backend) in ("", THEIRS), generated.source
