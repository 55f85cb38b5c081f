from __future__ import annotations

import gc
import threading
from typing import TYPE_CHECKING

import llvmlite.binding as llvm
import numpy as np
import pytest

from strategies.devices import buffers, compiler, executor
from strategies.processes import in_forked_child
from tileir.core.errors import BackendError
from tileir.semtree.text.parser import parse_kernel
from tileir_llvm import compiler as llvm_compiler
from tileir_llvm.run import parallel_modules
from tileir_llvm.run.modules import object_code
from tileir_llvm.run.parallel_modules import object_codes

if TYPE_CHECKING:
    from collections.abc import Iterator

KERNELS = [
    parse_kernel(
        f"kernel add{number}(out f32 O[8] align(4) noalias, in f32 A[8] align(4) noalias) grid(1) operations(8) "
        f"{{ for (i64 i = 0; i < 8; i += 1) {{ O[i] = A[i] + {number}.0; }} }}"
    )
    for number in range(6)
]
FEATURES = compiler().device.features


@pytest.fixture(autouse=True)
def short_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPTIMISED_LENGTH", "SCHEDULED_LENGTH"):
        monkeypatch.setattr(llvm_compiler, name, 1)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("threads", [1, 2, 3, 16])
def test_modules_become_what_they_become_one_by_one(threads: int) -> None:
    texts = compiler().build(KERNELS).texts
    assert len(texts) == len(KERNELS)
    assert object_codes(texts, FEATURES, threads) == tuple(object_code(text, FEATURES) for text in texts)


def test_kernels_of_several_modules_run() -> None:
    library = compiler().build(KERNELS)
    for number in range(len(KERNELS)):
        result = np.zeros(8, np.float32)
        executor().prepare(library, number).launch(buffers([result, np.ones(8, np.float32)]))
        assert result.tolist() == [1.0 + number] * 8


def test_libraries_of_several_modules_are_saved() -> None:
    library = compiler().build(KERNELS)
    parts = {name: bytes(part) for name, part in library.save().items()}
    assert {"llvm", "object", "llvm1", "object1", "llvm5", "object5"} <= set(parts)
    loaded = compiler().load(KERNELS, parts)
    assert loaded.save() == parts
    assert loaded.listing("llvm") == library.listing("llvm")
    assert all(symbol in loaded.listing("asm") for symbol in library.symbols)
    del parts["object1"]
    with pytest.raises(BackendError):
        compiler().load(KERNELS, parts)


def test_what_llvm_refuses_is_an_error() -> None:
    texts = ("define void @f() { ret void }", "define i32 @f() { ret void }")
    with pytest.raises(BackendError, match="defect of tileir") as caught:
        object_codes(texts, FEATURES, 2)
    assert caught.value.diagnostics[0].code == "TIL805"


def test_without_a_way_past_the_lock_modules_are_compiled_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = compiler().build(KERNELS).codes
    monkeypatch.setattr(parallel_modules, "can_pass_the_lock", lambda: False)
    monkeypatch.setattr(parallel_modules, "_in_threads", None)
    assert compiler().build(KERNELS).codes == expected


def test_where_no_thread_starts_one_does_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    texts = compiler().build(KERNELS).texts
    expected = object_codes(texts, FEATURES, 1)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert object_codes(texts, FEATURES, 4) == expected


def test_several_threads_compile_and_children_do() -> None:
    expected = compiler().build(KERNELS).codes
    found: list[bool] = []
    others = [
        threading.Thread(target=lambda: found.append(compiler().build(KERNELS).codes == expected)) for _ in range(3)
    ]
    for thread in others:
        thread.start()
    assert in_forked_child(lambda: compiler().build(KERNELS).codes == expected)
    for thread in others:
        thread.join()
    assert found == [True] * 3


class Tangled:
    """Objects that only the collector finds, and that need llvmlite's lock to be freed."""

    def __init__(self) -> None:
        self.itself = self
        self.context = llvm.create_context()


def test_threads_that_collect_garbage_of_llvmlite_wait_for_nobody() -> None:
    expected = compiler().build(KERNELS).codes
    texts = compiler().build(KERNELS).texts

    def collecting() -> Iterator[str]:
        for text in texts:
            Tangled()
            gc.collect()
            yield text

    assert object_codes(collecting(), FEATURES, 3) == expected


@pytest.mark.parametrize("threads", [1, 3])
def test_what_writing_a_text_raises_ends_the_compilation(threads: int) -> None:
    texts = compiler().build(KERNELS).texts

    def failing() -> Iterator[str]:
        yield from texts
        raise KeyError("the seventh")

    with pytest.raises(KeyError, match="the seventh"):
        object_codes(failing(), FEATURES, threads)
