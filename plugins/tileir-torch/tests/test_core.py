"""Operations of core ATen: those without a row are those that the manual names."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import torch

from tileir_torch.decompositions import of_autograd
from tileir_torch.rows.table import rows

PAGE = Path(__file__).parents[3] / "docs/pytorch.md"
SIZES = {"sym_is_contiguous", "sym_numel", "sym_size", "sym_storage_offset", "sym_stride"}
"""Operations whose results are numbers of Python, which are known when a graph is imported."""


def test_all_others_are_served() -> None:
    overloads: dict[str, list[torch._ops.OpOverload]] = defaultdict(list)
    # `dir` lists only those that somebody has used.
    registered = (
        each.removeprefix("aten::") for each in torch._C._dispatch_get_all_op_names() if each.startswith("aten::")
    )
    for name in {each.partition(".")[0] for each in registered}:
        packet = getattr(torch.ops.aten, name, None)
        if isinstance(packet, torch._ops.OpOverloadPacket):
            found = [getattr(packet, each) for each in packet.overloads()]
            overloads[name] += [each for each in found if torch.Tag.core in each.tags]
    core = {name: found for name, found in overloads.items() if found}
    served = {
        name for name, found in core.items() if any(str(each) in rows() or each in of_autograd() for each in found)
    }
    told = PAGE.read_text(encoding="utf-8").split("of core ATen", 1)[1]
    table = told.split("| --- | --- |", 1)[1].split("\n\n", 1)[0]
    missing = {name for line in table.splitlines() for name in re.findall(r"`(\w+)`", line)}
    assert core.keys() - served - SIZES == missing & core.keys()
    assert missing <= core.keys() or torch.__version__ < "2.13"
