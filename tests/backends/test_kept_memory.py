"""Scratch memory is read once in an iteration of a loop that does not write it, and anew wherever it may be written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.devices import compiler, launch
from strategies.effort import examples
from tileir.semtree.interpret import interpreter
from tileir.semtree.text.parser import parse_kernel
from tileir_llvm.emit.text import SCHEDULED

if TYPE_CHECKING:
    from tileir.semtree.ir import KernelFunction

HEADER = "kernel k(inout i32 O[64] align(4) noalias, in i32 A[64] align(4) noalias) grid(2) operations(64)"
ARRAYS = "scratch i32 S[64] align(64); scratch i32 T[64] align(64);"
FILLED = "for (i64 f = 0; f < 8; f += 1) { S[f * 8 : 8] = A[f * 8 : 8]; T[f * 8 : 8] = A[f * 8 : 8]; }"


def kernel_of(body: str) -> KernelFunction:
    return parse_kernel(f"{HEADER} {{ {ARRAYS} {FILLED} {body} }}")


def check(kernel: KernelFunction) -> None:
    results = []
    for run in (interpreter.run, launch):
        results.append([np.zeros(64, np.int32), np.arange(1, 65, dtype=np.int32)])
        run(kernel, results[-1])
    assert results[0][0].tolist() == results[1][0].tolist()


READ = "O[i * 8 : 8] = S[i * 8 : 8];"
WRITE = "S[i * 8 : 8] = i32x8(7);"


def loads(kernel: KernelFunction) -> int:
    text = compiler().build([kernel]).listing("llvm")
    assert text.startswith(SCHEDULED)
    return sum("= load <8 x i32>, ptr" in line for line in text.splitlines())


@pytest.mark.sampled(7)
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (READ + READ, 1),
        (f"{READ} if (i < 2) {{ {READ} }} if (i < 1) {{ {READ} }}", 1),
        (f"if (i < 2) {{ {READ} }} if (i < 1) {{ {READ} }}", 2),
        (f"if (i < 2) {{ {READ} {READ} }} else {{ {READ} {READ} }}", 2),
        (f"{READ} for (i64 j = 0; j < 2; j += 1) {{ {READ} }}", 1),
        (f"for (i64 j = 0; j < 2; j += 1) {{ {READ} }} {READ}", 2),
        (f"{READ} T[0 : 8] = i32x8(7); {READ}", 1),
        (f"{READ} {WRITE} {READ}", 2),
        (f"{READ} for (i64 j = 0; j < 2; j += 1) {{ {WRITE} }} {READ}", 2),
        (f"{READ} if (i < 1) {{ {WRITE} }} {READ}", 2),
    ],
    ids=[
        "twice",
        "in branches behind it",
        "in branches alone",
        "on both sides",
        "in a loop behind it",
        "behind a loop",
        "other memory is written",
        "written",
        "written in a loop",
        "written in a branch",
    ],
)
def test_memory_is_read_once_where_the_loop_does_not_write_it(body: str, expected: int) -> None:
    kernel = kernel_of(f"for (i64 i = 0; i < 4; i += 1) {{ {body} }}")
    assert loads(kernel) - loads(kernel_of("")) == expected
    check(kernel)


@st.composite
def bodies(draw: st.DrawFn, counters: tuple[str, ...], depth: int) -> str:
    """Statements that read and write two arrays at few places, in loops and branches."""
    parts = []
    for _ in range(draw(st.integers(2, 6))):
        kind = draw(st.sampled_from(("read", "read", "write", "loop", "branch") if depth else ("read", "write")))
        array = draw(st.sampled_from("ST"))
        place = f"{draw(st.sampled_from(counters))} * 8"
        match kind:
            case "read":
                parts.append(f"O[{place} : 8] = O[{place} : 8] * i32x8(3) + {array}[{place} : 8];")
            case "write":
                parts.append(f"{array}[{place} : 8] = O[{place} : 8] + A[{place} : 8];")
            case "loop":
                name = f"i{len(counters)}"
                inner = draw(bodies((*counters, name), depth - 1))
                unroll = draw(st.sampled_from(("", "", "unroll ")))
                parts.append(f"for (i64 {name} = 0; {name} < 3; {name} += 1) {unroll}{{ {inner} }}")
            case _:
                test = f"{draw(st.sampled_from(counters))} < 1"
                then, otherwise = draw(bodies(counters, depth - 1)), draw(bodies(counters, depth - 1))
                parts.append(f"if ({test}) {{ {then} }} else {{ {otherwise} }}")
    return " ".join(parts)


@given(bodies(("i",), 2))
@examples(60)
def test_drawn_kernels_read_what_was_written_last(body: str) -> None:
    check(kernel_of(f"for (i64 i = 0; i < 3; i += 1) {{ {body} }}"))
