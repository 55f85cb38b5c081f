"""Folds: how an array whose rows are cut into columns of pieces has its elements, said to people, NumPy and kernels."""

from __future__ import annotations

import numpy as np
import pytest

from tileir.core.dtype import DType
from tileir.semtree.interpret.interpreter import run
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.ir import Type, Var
from tileir.semtree.swizzles import folded, folded_place, period
from tileir.semtree.text.parser import parse_kernel


@pytest.mark.parametrize("fold", [(4, 8, 2), (4, 4, 8), (2, 16, 1), (4, 12, 2), (8, 24, 4), (2, 10, 8)])
def test_rows_of_any_number_of_pieces_lie_in_columns(fold: tuple[int, int, int]) -> None:
    piece, row, rows = fold
    count = 3 * row * rows
    place = folded(Var("p", Type(DType.I32)), fold)
    kernel = parse_kernel(f"""
kernel fold(out i32 O[{count}]) grid(1) index(i32) {{
  for (i32 p = 0; p < {count}; p += 1) {{
    O[p] = {place};
  }}
}}""")
    found = np.zeros(count, np.int32)
    run(kernel, [found], ALL_CHECKS)
    tiles = np.arange(count).reshape(3, row // piece, rows, piece).transpose(0, 2, 1, 3).ravel()
    np.testing.assert_array_equal(found, tiles)
    np.testing.assert_array_equal(folded_place(np.arange(count), fold), tiles)


@pytest.mark.parametrize(("fold", "apart"), [((0, 0, 0), 64), ((8, 16, 8), 128), ((8, 24, 4), 192), ((8, 24, 8), 192)])
def test_what_lies_a_period_apart_is_moved_alike(fold: tuple[int, int, int], apart: int) -> None:
    assert period(3, 7, fold) == apart
