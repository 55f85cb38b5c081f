"""Loops as LLVM gets them: unrolled, without what they do not change, left to its vectoriser, or not."""

from __future__ import annotations

import re

import numpy as np
import pytest

from strategies.devices import compiler, launch
from tileir.runtime.interface import Options
from tileir.semtree.interpret import interpreter
from tileir.semtree.text.parser import parse_kernel
from tileir_llvm.compiler import LLVMCompiler
from tileir_llvm.emit.text import SCHEDULED

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


def test_loops_tell_how_often_they_run() -> None:
    body = (
        "for (i64 i = 0; i < 60; i += 8) { O[i] = A[i]; } for (i64 j = 0; j < 5000000000; j += 1) { O[0] = A[1]; } "
        "i64 bound = cast<i64>(A[0]); for (i64 k = 0; k < bound; k += 1) { O[k] = A[k]; }"
    )
    text = compiler().build([parse_kernel(f"{HEADER} {{ {body} }}")]).listing("llvm")
    weights = dict(re.findall(r'^(!\d+) = !\{!"branch_weights", i32 (\d+), i32 1\}$', text, re.MULTILINE))
    jumps = re.findall(
        r"br i1 %\w+, label %loop\d+, [^!]*(?:!llvm.loop !\d+)?(?:, )?(?:!prof (!\d+))?$", text, re.MULTILINE
    )
    assert [int(weights[jump]) if jump else None for jump in jumps] == [7, 2**31 - 1, None]


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


NESTED = "kernel k(out i32 O[64] align(4) noalias, in i32 N[2] align(4) noalias) grid(2) operations(64)"
LOOPS = "for (i64 i = 0; i < 4; i += 1) {{ for (i64 j = 0; j < 8; j += 1) {{ {body} }} }}"


def block_of(text: str, instruction: str) -> str:
    """Return the label of the block that an instruction is in; it is the only one of its kind."""
    label, found = "", []
    for line in text.splitlines():
        if line.endswith(":"):
            label = line[:-1]
        if f"= {instruction}" in line:
            found.append(label)
    (block,) = found
    return block


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("body", "instruction", "block"),
    [
        ("O[j] = ~N[1];", "xor i32", "first"),
        ("O[j] = ~cast<i32>(group_id(0));", "xor i32", "group"),
        ("O[j] = ~cast<i32>(i);", "xor i32", "loop1"),
        ("O[j] = ~cast<i32>(j);", "xor i32", "loop3"),
        ("O[j] = N[1];", "load i32", "first"),
        ("if (j < 2) { O[j] = ~N[1]; }", "load i32", "then5"),
        ("for (i64 k = 0; k < cast<i64>(N[0]); k += 1) { O[k] = ~cast<i32>(i); }", "xor i32", "enter7"),
        ("if (j < 2) { for (i64 k = 0; k < 2; k += 1) { O[k] = N[1]; } }", "load i32", "then5"),
    ],
    ids=["everywhere", "group", "outer", "inner", "read", "guarded", "loop that may not run", "guarded loop"],
)
def test_what_a_loop_does_not_change_stands_in_front_of_it(body: str, instruction: str, block: str) -> None:
    kernel = parse_kernel(f"{NESTED} {{ {LOOPS.format(body=body)} }}")
    assert block_of(compiler().build([kernel]).listing("llvm"), instruction) == block
    numbers = np.array([2, 5], np.int32)
    expected, actual = np.zeros(64, np.int32), np.zeros(64, np.int32)
    interpreter.run(kernel, [expected, numbers])
    launch(kernel, [actual, numbers])
    assert actual.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("body", "scheduled"),
    [
        (SERIAL, False),
        (BY_HAND, True),
        (BY_HAND + SERIAL, True),
        (BY_HAND + SERIAL.replace("{ O", "vector { O"), False),
    ],
    ids=["serial", "by hand", "both", "a loop for LLVM's vectoriser"],
)
def test_kernels_that_are_scheduled_have_modules_of_their_own(body: str, scheduled: bool) -> None:
    kernel, other = parse_kernel(f"{HEADER} {{ {body} }}"), parse_kernel(f"{HEADER} {{ {SERIAL} }}")
    library = compiler().build([kernel, other])
    assert [text.startswith(SCHEDULED) for text in library.texts] == ([False, True] if scheduled else [False])
    assert library.symbols == ("k0_k", "k1_k")
    assert all(symbol in library.listing("asm") for symbol in library.symbols)


def test_fast_mathematics_leaves_instructions_to_llvm() -> None:
    fast = LLVMCompiler(compiler().device, Options(fast_math=True))
    assert not fast.build([parse_kernel(f"{HEADER} {{ {BY_HAND} }}")]).listing("llvm").startswith(SCHEDULED)


BORDER = """for (i64 b = 0; b < 2; b += 1) {{
    private f32 S[4] align(64);
    for (i64 r = 0; r < 4; r += 1) unroll {{ S[r] = 0.0; }}
    for (i64 c = 0; c < 8; c += 1) {{
      for (i64 r = 0; r < 4; r += 1) {kind} {{ {target} = fma(A[c], A[c + r * 8 + b * 32], S[r]); }}
    }}
    for (i64 r = 0; r < 4; r += 1) unroll {{ O[r + b * 4] = S[r]; }}
  }}"""


@pytest.mark.parametrize(
    ("kind", "target", "scheduled"),
    [("unroll", "S[r]", True), ("unroll", "O[r * 16 + c]", False), ("", "S[r]", False), ("vector", "S[r]", False)],
    ids=["to registers", "to memory", "not unrolled", "to be vectorised"],
)
def test_sums_in_registers_are_not_left_to_the_vectoriser(kind: str, target: str, *, scheduled: bool) -> None:
    kernel = parse_kernel(f"{HEADER} {{ {BORDER.format(kind=kind, target=target)} }}")
    (text,) = compiler().build([kernel]).texts
    assert text.startswith(SCHEDULED) == scheduled
    a = np.random.default_rng(0).standard_normal(64).astype(np.float32)
    launch(kernel, [found := np.zeros(64, np.float32), a])
    if target == "S[r]":
        exact = [a[:8].astype(np.float64) @ a[r * 8 + b * 32 :][:8] for b in range(2) for r in range(4)]
        np.testing.assert_allclose(found[:8], exact, rtol=1e-5, atol=1e-6)
