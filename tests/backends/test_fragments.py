"""Every fragment of the table on the processor, whose code does without the instruction."""

from __future__ import annotations

import numpy as np
import pytest

from strategies.devices import launch
from strategies.fragment_kernels import arrays_for, product_by
from tileir.core.fragments import FRAGMENTS, OperandMemory


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [name for name, row in FRAGMENTS.items() if row.mnk[1] <= 32])
def test_products_without_the_instruction(name: str) -> None:
    fragment = FRAGMENTS[name]
    (m, n, k), turned = fragment.mnk, len(fragment.name) % 2 == 0
    tile = (2 * m, n, 3 * k)
    arrays, expected = arrays_for(fragment, tile, turned=turned, seed=m + n + k)
    launch(product_by(fragment, tile, turned=turned, swizzled=fragment.a.where is OperandMemory.LOCAL), arrays)
    np.testing.assert_array_equal(arrays[0], expected)
