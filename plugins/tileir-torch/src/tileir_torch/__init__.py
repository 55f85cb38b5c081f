"""Operations of PyTorch that are written in Tile: ``op`` registers one."""

from __future__ import annotations

from tileir_torch.custom import op

__all__ = ["op"]
