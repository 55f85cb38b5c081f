from __future__ import annotations

import pytest

from strategies.devices import compiler
from tileir.core.errors import BackendError
from tileir.semtree.text.parser import parse_kernel

KERNEL = parse_kernel(
    "kernel copy(out f32 O[4] align(4) noalias, in f32 A[4] align(4) noalias) grid(1) operations(4) "
    "{ scratch f32 S[20] align(64); for (i64 i = 0; i < 4; i += 1) { S[i] = A[i]; O[i] = S[i]; } }"
)


def test_a_library_names_its_functions_and_knows_their_scratch_memory() -> None:
    library = compiler().build([KERNEL, KERNEL])
    assert len(set(library.symbols)) == 2
    assert all(f"define void @{symbol}(" in library.texts[0] for symbol in library.symbols)
    assert [each.scratch_bytes for each in library.needs] == [128, 128]


def test_code_is_listed_as_llvm_and_assembly() -> None:
    library = compiler().build([KERNEL])
    assert library.listing("llvm") == library.texts[0]
    assert all(symbol in library.listing("asm") for symbol in library.symbols)
    with pytest.raises(BackendError) as caught:
        library.listing("opencl")
    assert [d.code for d in caught.value.diagnostics] == ["TIL806"]


@pytest.mark.parametrize("lost", ["llvm", "object"])
def test_saved_parts_that_are_not_all_there_are_refused(lost: str) -> None:
    parts = {name: part for name, part in compiler().build([KERNEL]).save().items() if name != lost}
    with pytest.raises(BackendError) as caught:
        compiler().load([KERNEL], parts)
    assert [d.code for d in caught.value.diagnostics] == ["TIL806"]


def test_saved_text_must_be_text() -> None:
    parts = {**compiler().build([KERNEL]).save(), "llvm": b"\xff\xfe"}
    with pytest.raises(BackendError):
        compiler().load([KERNEL], parts)
