"""Parts of statements that are computed once, and what is too short for a name."""

from __future__ import annotations

import pytest

from fuzz.semtree.kernel_case import kernel
from tileir.core.dtype import DType
from tileir.semtree.check.verifier import verify
from tileir.semtree.interpret.interpreter import run
from tileir.semtree.text.parser import parse_kernel
from tileir.semtree.text.printer import to_text
from tileir_emit.repeated import with_parts_named
from tileir_testing.generated.choices import Seeded

KERNEL = "kernel k(inout f32 A[64] align(4) noalias, in f32 B[64] align(4) noalias) grid(4) index(i64) {{\n{}\n}}"


def text_of(text: str) -> str:
    made = with_parts_named(parse_kernel(KERNEL.format(text)))
    verify(made)
    return "\n".join(line.strip() for line in to_text(made).partition("{")[2].splitlines()[1:-1])


def test_what_occurs_twice_is_declared_in_front_of_the_statement() -> None:
    assert text_of("A[0] = (B[0] * B[1] + 2.0) * (B[0] * B[1] + 2.0);") == (
        "f32 part = B[0] * B[1] + 2.0;\nA[0] = part * part;"
    )
    inner = "if (sqrt(B[0] + 1.0) < 2.0) {\nA[0] = sqrt(B[0] + 1.0) * sqrt(B[0] + 1.0);\n}"
    assert text_of(inner).splitlines()[1] == "f32 part = sqrt(B[0] + 1.0);"


def test_parts_of_parts_come_first() -> None:
    lines = text_of("A[0] = sqrt(abs(B[0] - 1.0)) * sqrt(abs(B[0] - 1.0)) + abs(B[0] - 1.0);").splitlines()
    assert lines == ["f32 part = abs(B[0] - 1.0);", "f32 part_0 = sqrt(part);", "A[0] = part_0 * part_0 + part;"]


@pytest.mark.parametrize("text", ["A[0] = B[0] * B[0];", "A[group_id(0) * 4 + 1] = B[group_id(0) * 4 + 1];"])
def test_what_is_short_or_an_offset_stays(text: str) -> None:
    before = parse_kernel(KERNEL.format(text))
    assert with_parts_named(before) is before


@pytest.mark.sampled(13)
@pytest.mark.parametrize("seed", range(30))
def test_generated_kernels(seed: int) -> None:
    case = kernel(Seeded(f"repeated {seed}"), tuple(DType))
    made = with_parts_named(case.kernel)
    verify(made)
    arrays = case.arrays()
    run(made, arrays)
    case.check(arrays)
