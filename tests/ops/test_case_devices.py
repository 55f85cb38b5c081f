"""Some cases of each family as one program, on the OpenCL device, which compiles slowly."""

from __future__ import annotations

from typing import Final

import pytest

import tileir
from strategies.opencl_device import device
from strategies.operations import families, together

MOST: Final = 8  # of a family


@pytest.mark.sampled(1)
@pytest.mark.parametrize("family", families())
def test_values_on_opencl(family: str) -> None:
    cases = families()[family]
    function, arrays, counts = together(cases[:: -(-len(cases) // MOST)], "f32")
    found = tileir.jit(function, device())(**arrays)
    results = iter(found if isinstance(found, tuple) else (found,))
    for case, count in counts:
        case.check(tuple(next(results) for _ in range(count)), case.expected(case.arrays("f32")), "f32")
