"""Every fragment of the table multiplies matrices: by the interpreter, and as threads do without instructions."""

from __future__ import annotations

import numpy as np
import pytest

from strategies.fragment_kernels import arrays_for, held_arrays_for, held_product_by, product_by
from tileir import TileError
from tileir.core.fragments import FRAGMENTS, NOTHING, Fragment, OperandMemory
from tileir.core.json.codec import from_json, to_json
from tileir.semtree.check.verifier import verify
from tileir.semtree.interpret.interpreter import run
from tileir.semtree.interpret.memory import ALL_CHECKS, NO_CHECKS
from tileir.semtree.ir import KernelFunction, MatrixMultiply
from tileir.semtree.matrices import without_instructions
from tileir.semtree.rewrite import statements
from tileir.semtree.text.parser import parse_kernel
from tileir.semtree.text.printer import to_text


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fragment", FRAGMENTS.values(), ids=FRAGMENTS)
def test_products_are_those_of_matrices(fragment: Fragment) -> None:
    (m, n, k), number = fragment.mnk, list(FRAGMENTS).index(fragment.name)
    small = m * n * k <= 2048
    rows, columns, depth = ((2, 1, 1), (1, 2, 1), (1, 1, 2), (2, 2, 1))[number % 4] if small else (1, 1, 1 + number % 2)
    tile = (m * rows, n * columns, k * depth)
    turned = number % 3 == 0
    kernel = product_by(fragment, tile, turned=turned, swizzled=fragment.a.where is OperandMemory.LOCAL)
    verify(kernel)
    assert parse_kernel(to_text(kernel)) == kernel
    plain = without_instructions(kernel)
    assert not any(isinstance(stmt, MatrixMultiply) for stmt in statements(plain.body))
    assert without_instructions(kernel, {fragment.name}) is kernel
    for variant in (kernel, plain) if small else (kernel,):
        arrays, expected = arrays_for(fragment, tile, turned=turned, seed=number)
        run(variant, arrays, NO_CHECKS)
        np.testing.assert_array_equal(arrays[0], expected)


HOLDING = [
    each
    for each in FRAGMENTS.values()
    if each.a.where is not OperandMemory.TILE
    and each.a.layout is not None
    and NOTHING not in each.a.layout.elements
    and each.mnk[1] <= 32  # of those that differ in the number of columns, one
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fragment", HOLDING, ids=lambda fragment: fragment.name)
def test_threads_hold_left_operands(fragment: Fragment) -> None:
    (m, n, k), number = fragment.mnk, HOLDING.index(fragment)
    small = m * n * k <= 2048
    tile = (m * (1 + number % 2), n, k * (1 + number // 2 % 2)) if small else fragment.mnk
    kernel = held_product_by(fragment, tile)
    verify(kernel)
    assert parse_kernel(to_text(kernel)) == kernel
    assert from_json(to_json(kernel), KernelFunction) == kernel
    plain = without_instructions(kernel)
    verify(plain)
    assert not any(isinstance(stmt, MatrixMultiply) for stmt in statements(plain.body))
    assert without_instructions(kernel, {fragment.name}) is kernel
    for variant in (kernel, plain) if small else (kernel,):
        arrays, expected = held_arrays_for(fragment, tile, seed=number)
        run(variant, arrays, ALL_CHECKS if variant is kernel else NO_CHECKS)
        np.testing.assert_array_equal(arrays[0], expected)


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("held(8) *", "held(4) *", "TIL551"),
        ("l[0] strides(0, 0)", "l[0] strides(1, 0)", "TIL551"),
        ("l[0] strides(0, 0)", "l[0] strides(0, 0) swizzle(3, 8)", "TIL551"),
        ("l[0] strides", "l[1] strides", "TIL553"),
        ("l[0] strides", "A[0] strides", "TIL554"),
        ("r[0] strides(8, 1)", "r[0] strides(0, 0) held(4)", "TIL551"),
    ],
)
def test_what_threads_hold_is_as_the_instruction_takes_it(old: str, new: str, code: str) -> None:
    text = to_text(held_product_by(FRAGMENTS["mma_m16n8k16_f16"], (16, 8, 16)))
    assert old in text
    with pytest.raises(TileError) as caught:
        verify(parse_kernel(text.replace(old, new)))
    assert [fault.code for fault in caught.value.diagnostics] == [code]


def test_instructions_of_tiles_take_nothing_that_threads_hold() -> None:
    fragment = next(each for each in FRAGMENTS.values() if each.a.where is OperandMemory.TILE)
    with pytest.raises(TileError) as caught:
        verify(held_product_by(fragment, fragment.mnk))
    assert [fault.code for fault in caught.value.diagnostics] == ["TIL551"]


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
