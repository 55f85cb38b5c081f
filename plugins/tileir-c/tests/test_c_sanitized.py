"""Random kernels as C under AddressSanitizer and UndefinedBehaviorSanitizer, against the interpreter of kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from c_sanitized import built, run, source_of
from fuzz.semtree.kernel_case import function, numbered
from tileir.semtree.text.parser import parse_kernel
from tileir_testing.generated.choices import Seeded

if TYPE_CHECKING:
    from pathlib import Path

    from fuzz.semtree.kernel_case import KernelCase

BATCH = 20


def check(cases: list[KernelCase], folder: Path, ulps: float = 0.0) -> None:
    program = built(source_of([case.kernel for case in cases]), folder)
    results = run(program, [array for case in cases for array in case.initial])
    for case in cases:
        own, results = results[: len(case.initial)], results[len(case.initial) :]
        case.check(own, ulps)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("batch", range(3))
def test_random_kernels_have_no_undefined_behaviour(batch: int, tmp_path: Path) -> None:
    check([numbered(7, batch * BATCH + number) for number in range(BATCH)], tmp_path)


def test_mathematical_functions_have_no_undefined_behaviour(tmp_path: Path) -> None:
    check([function(Seeded(f"function {number}")) for number in range(BATCH)], tmp_path, ulps=16)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("harmless", "planted", "report"),
    [
        ("O[i] = ", "O[i + 1] = ", "heap-buffer-overflow"),
        ("(int32_t)((uint32_t)A[i] + (uint32_t)A[i]);", "A[i] + A[i];", "signed integer overflow"),
        (
            "inside ? (int32_t)(inside ? value : 0.0f)",
            "true ? (int32_t)value",
            "outside the range of representable values",
        ),
    ],
)
def test_the_sanitizers_see_what_they_should(harmless: str, planted: str, report: str, tmp_path: Path) -> None:
    text = """
kernel k(out i32 O[8] align(4) noalias, in i32 A[8] align(4) noalias, in f32 F[8] align(4) noalias) grid(1) {
  for (i64 i = 0; i < 8; i += 1) { O[i] = A[i] + A[i]; O[i] = O[i] + cast<i32>(F[i]); }
}
"""
    source = source_of([parse_kernel(text)])
    assert harmless in source
    arrays = [np.zeros(8, np.int32), np.full(8, 2**30, np.int32), np.full(8, 3e9, np.float32)]
    assert run(built(source, tmp_path), arrays)[0].tolist() == [-1] * 8
    with pytest.raises(AssertionError, match=report):
        run(built(source.replace(harmless, planted), tmp_path), arrays)
