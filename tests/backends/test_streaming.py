"""Results that are written past the caches: numbers are the same wherever arrays begin."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest

from strategies.devices import buffers, compiler, executor
from tileir.runtime.interface import Options
from tileir.semtree.text.parser import parse_kernel
from tileir_llvm.compiler import LLVMCompiler
from tileir_llvm.run.library import LLVMLibrary

SIZE = 1 << 14
CACHED = 4 * SIZE

LINES = "O[16 * g + 4096 * r : 16] = A[16 * g + 4096 * r : 16] + f32x16(1.0);"
ROWS = "O[16 * g + 4088 * r : 16] = A[16 * g + 4088 * r : 16] + f32x16(1.0);"
SHORT = "O[8 * g + 4096 * r : 8] = A[8 * g + 4096 * r : 8] + f32x8(1.0);"
LATER = "O[16 * g + 4096 * r + 1 : 16] = A[16 * g + 4096 * r : 16] + f32x16(1.0);"
PLACE = "4096 * r + 16 * g + u * {0} : 16"
ABREAST = f"for (i64 u = 0; u < 2; u += 1) unroll {{{{ f32x16 x0 = A[{PLACE}]; {{1}} O[{PLACE}] = x; }}}}"
CHAIN = "".join(f"f32x16 x{n + 1} = x{n} * x0 + x0; " for n in range(16))
CHAIN = CHAIN.replace("f32x16 x16", "f32x16 x")


def built(body: str, cached: int = CACHED, access: str = "out", vector_bytes: int = 64) -> LLVMLibrary:
    device = compiler().device
    target = attrs.evolve(device.target, cache_bytes=(1024, 4096, cached), vector_bytes=vector_bytes)
    text = (
        f"kernel add({access} f32 O[{SIZE}] noalias, in f32 A[{SIZE}] noalias) grid(3) operations(100) {{\n"
        f"  i64 r = group_id(0);\n  for (i64 g = 0; g < 255; g += 1) {{\n    {body}\n  }}\n}}\n"
    )
    return LLVMCompiler(attrs.evolve(device, target=target), Options()).build([parse_kernel(text)])


def placed(address: int) -> np.ndarray[Any, Any]:
    """Return an array that begins so many bytes behind a page."""
    memory = np.zeros(4 * SIZE + 8192, np.uint8)
    begin = (address - memory.ctypes.data) % 4096
    return memory[begin : begin + 4 * SIZE].view(np.float32)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("body", [LINES, ROWS, SHORT, LATER, ABREAST.format(16, CHAIN), ABREAST.format(24, CHAIN)])
@pytest.mark.parametrize("result", [0, 4, 64, 128])
def test_results_are_right_wherever_arrays_begin(body: str, result: int) -> None:
    kernel = executor().prepare(built(body), 0)
    plain = executor().prepare(built(body, cached=1 << 30), 0)
    for start in (0, 16, 64, 2048, 4092):
        arrays = [placed(result), placed(start)]
        arrays[1][:] = np.random.default_rng(1).standard_normal(SIZE, np.float32)
        expected = [placed(0), arrays[1]]
        kernel.launch(buffers(arrays))
        plain.launch(buffers(expected))
        np.testing.assert_array_equal(arrays[0], expected[0])


@pytest.mark.parametrize(
    ("library", "streamed"),
    [
        (lambda: built(LINES), True),
        (lambda: built(LINES, cached=CACHED + 1), False),  # who reads it next may find all of it
        (lambda: built(LINES, access="inout"), False),  # what it was is in the caches
        (lambda: built(LINES, vector_bytes=32), False),  # half lines
        (lambda: built(SHORT), False),
        (lambda: built(ROWS), False),  # every other row begins within a line
        (lambda: built(LATER), False),
        (lambda: built(ABREAST.format(16, CHAIN)), True),
        (lambda: built(ABREAST.format(24, CHAIN)), False),
    ],
)
def test_only_whole_lines_of_large_results_are_streamed(library: Any, streamed: bool) -> None:
    text = library().listing("llvm")
    assert ("!nontemporal" in text, ".past(" in text, "fence seq_cst" in text) == (streamed,) * 3


def test_the_identity_tells_caches_apart() -> None:
    device = compiler().device
    sizes = ((1024,), (1024, 4096, 1 << 20), (1024, 4096, 1 << 21))
    targets = [attrs.evolve(device.target, cache_bytes=each) for each in sizes]
    assert len({LLVMCompiler(attrs.evolve(device, target=target), Options()).identity for target in targets}) == 3
