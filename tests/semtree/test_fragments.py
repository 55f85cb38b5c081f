"""Every fragment of the table multiplies matrices: by the interpreter, and as threads do without instructions."""

from __future__ import annotations

import numpy as np
import pytest

from strategies.fragment_kernels import arrays_for, product_by
from tileir import TileError
from tileir.core.fragments import FRAGMENTS, Fragment, Where
from tileir.semtree.check.verifier import verify
from tileir.semtree.interpret.interpreter import run
from tileir.semtree.interpret.memory import NO_CHECKS
from tileir.semtree.ir import MatrixMultiply
from tileir.semtree.matrices import without_instructions
from tileir.semtree.rewrite import statements
from tileir.semtree.text.parser import parse_kernel
from tileir.semtree.text.printer import to_text


@pytest.mark.parametrize("fragment", FRAGMENTS.values(), ids=FRAGMENTS)
def test_products_are_those_of_matrices(fragment: Fragment) -> None:
    (m, n, k), number = fragment.mnk, list(FRAGMENTS).index(fragment.name)
    small = m * n * k <= 2048
    tile = (m * (2 if small else 1), n * (1 + number % 2 if small else 1), k * (1 + number // 2 % 2))
    turned = number % 3 == 0
    kernel = product_by(fragment, tile, turned=turned, swizzled=fragment.a.where is Where.LOCAL)
    verify(kernel)
    assert parse_kernel(to_text(kernel)) == kernel
    plain = without_instructions(kernel)
    assert not any(isinstance(stmt, MatrixMultiply) for stmt in statements(plain.body))
    assert without_instructions(kernel, {fragment.name}) is kernel
    for variant in (kernel, plain) if small else (kernel,):
        arrays, expected = arrays_for(fragment, tile, turned=turned, seed=number)
        run(variant, arrays, NO_CHECKS)
        np.testing.assert_array_equal(arrays[0], expected)


def test_instructions_that_read_local_memory_have_their_swizzles() -> None:
    fragment = FRAGMENTS["wgmma_m64n32k16_f16"]
    text = to_text(product_by(fragment, fragment.mnk, turned=False, swizzled=True))
    for old, new, code in (
        ("swizzle(3, 56)", "swizzle(4, 56)", "TIL551"),
        ("* r[0]", "* B[0]", "TIL554"),
        ("swizzle(3, 56)", "swizzle(3, 24)", None),
    ):
        assert old in text
        kernel = parse_kernel(text.replace(old, new))
        if code is None:
            verify(kernel)
            continue
        with pytest.raises(TileError) as caught:
            verify(kernel)
        assert [fault.code for fault in caught.value.diagnostics] == [code]
