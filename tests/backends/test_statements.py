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


UNROLLED = (
    "for (i64 i = 0; i < 4; i += 1) { for (i64 j = 0; j < 4; j += 1) unroll { O[i * 16 + j] = A[i * 4] + A[i * 4]; } }"
)


def instructions(header: str, name: str) -> int:
    text = compiler().build([parse_kernel(f"{header} {{ {UNROLLED} }}")]).listing("llvm")
    return sum(f"= {name} " in line for line in text.splitlines())


def test_unrolled_accesses_share_what_they_compute() -> None:
    assert instructions(HEADER, "mul nsw i64") == 2
    assert instructions(HEADER, "add nsw i64") == 3 + 2, "one for each distance, the next step, the next group"


@pytest.mark.parametrize(
    ("header", "loads"),
    [
        (HEADER, 1),
        (HEADER.replace("in f32", "inout f32"), 8),
        (HEADER.replace("A[64] align(4) noalias", "A[64] align(4)"), 8),
    ],
    ids=["nobody writes", "written", "may be written"],
)
def test_what_nobody_writes_is_read_once(header: str, loads: int) -> None:
    assert instructions(header, "load float,") == loads
