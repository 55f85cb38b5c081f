"""Loops as LLVM gets them: unrolled, left to its vectoriser, or not."""

from __future__ import annotations

import pytest

from strategies.devices import compiler
from tileir.semtree.parser import parse_kernel

HEADER = "kernel k(out f32 O[64] align(4) noalias, in f32 A[64] align(4) noalias) grid(1) operations(64)"
SERIAL = "for (i64 i = 0; i < 64; i += 1) { O[i] = A[i]; }"
BY_HAND = "for (i64 i = 0; i < 64; i += 8) { O[i : 8] = A[i : 8]; }"


@pytest.mark.parametrize(
    ("body", "hints"),
    [
        (SERIAL, []),
        (SERIAL.replace("{ O", "vector { O"), ["true"]),
        (BY_HAND, ["false"]),
        (BY_HAND + "for (i64 j = 0; j < 64; j += 1) { O[j] = A[j]; }", ["false", "false"]),
        ("for (i64 i = 0; i < 2; i += 1) unroll { O[i * 8 : 8] = A[i * 8 : 8]; }", []),
    ],
    ids=["serial", "vector", "by hand", "a serial loop beside one by hand", "unrolled"],
)
def test_only_kernels_without_vectors_are_left_to_the_vectoriser(body: str, hints: list[str]) -> None:
    groups = "false"  # the loop over groups never is
    text = compiler().build([parse_kernel(f"{HEADER} {{ {body} }}")]).listing("llvm")
    found = [line.rsplit(" ", 1)[1].rstrip("}") for line in text.splitlines() if "llvm.loop.vectorize.enable" in line]
    assert found == [*hints, groups]
