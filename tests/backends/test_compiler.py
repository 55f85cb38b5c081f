from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pytest
from hypothesis import given

from strategies.devices import buffers, compiler, executor
from strategies.effort import examples
from strategies.semtree import kernel_cases
from strategies.semtree_values import same_content
from tileir.core.errors import BackendError
from tileir.runtime.interface import Options
from tileir_llvm import BACKEND
from tileir_llvm.compiler import LLVMCompiler
from tileir_llvm.run.modules import object_code

if TYPE_CHECKING:
    from strategies.semtree import KernelCase
    from tileir_llvm.run.library import LLVMLibrary


def results(library: LLVMLibrary, case: KernelCase) -> list[np.ndarray[Any, Any]]:
    arrays = case.arrays()
    executor().prepare(library, 0).launch(buffers(arrays))
    return arrays


@examples(10)
@given(case=kernel_cases())
def test_a_saved_library_runs_alike(case: KernelCase) -> None:
    built = compiler().build([case.kernel])
    parts = {name: bytes(part) for name, part in built.save().items()}
    loaded = compiler().load([case.kernel], parts)
    assert loaded.save() == built.save()
    assert loaded.needs == built.needs
    assert all(map(same_content, results(loaded, case), results(built, case)))


@examples(5)
@given(case=kernel_cases())
def test_object_code_is_reproducible(case: KernelCase) -> None:
    assert compiler().build([case.kernel]).save() == compiler().build([case.kernel]).save()


@examples(5)
@given(case=kernel_cases())
def test_listings(case: KernelCase) -> None:
    library = compiler().build([case.kernel])
    assert f"define void @{library.symbols[0]}(" in library.listing("llvm")
    assert library.symbols[0] in library.listing("asm")
    with pytest.raises(BackendError) as error:
        library.listing("ptx")
    assert error.value.diagnostics[0].code == "TIL806"


@pytest.mark.parametrize("parts", [{}, {"llvm": b""}, {"llvm": b"\xff", "object": b""}])
def test_foreign_parts_are_refused(parts: dict[str, bytes]) -> None:
    with pytest.raises(BackendError) as error:
        compiler().load([], parts)
    assert error.value.diagnostics[0].code == "TIL806"


def test_what_llvm_refuses_is_an_error() -> None:
    with pytest.raises(BackendError, match="defect of tileir") as error:
        object_code("define i32 @f() { ret void }", compiler().device.features)
    assert error.value.diagnostics[0].code == "TIL805"


def test_the_identity_tells_options_apart() -> None:
    device = compiler().device
    identities = {LLVMCompiler(device, Options(fast_math=fast)).identity for fast in (False, True)}
    assert len(identities) == 2
    lesser = attrs.evolve(device, features=device.features[1:])
    identities.add(LLVMCompiler(lesser, Options()).identity)
    identities.add(LLVMCompiler(device, Options(quick=True)).identity)
    assert len(identities) == (4 if device.features else 3)


@examples(5)
@given(case=kernel_cases())
def test_fast_math_adds_flags(case: KernelCase) -> None:
    LLVMCompiler(compiler().device, Options(fast_math=True)).build([case.kernel])


def test_no_kernels_make_an_empty_library() -> None:
    library = compiler().build([])
    assert library.symbols == ()


def test_many_threads_compile() -> None:
    with ThreadPoolExecutor(4) as threads:
        codes = list(threads.map(lambda _: compiler().build([]).codes, range(8)))
    assert len(set(codes)) == 1


def test_the_back_end_loads_llvmlite_late() -> None:
    script = "import sys, tileir_llvm; assert tileir_llvm.BACKEND.name == 'llvm'; print('llvmlite' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_missing_llvmlite_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tileir_llvm.device.processor", raising=False)
    monkeypatch.delitem(sys.modules, "tileir_llvm.device.host", raising=False)
    monkeypatch.setitem(sys.modules, "llvmlite.binding", None)
    with pytest.raises(BackendError, match=r"install tileir\[llvm\]") as error:
        BACKEND.devices()
    assert error.value.diagnostics[0].code == "TIL802"
