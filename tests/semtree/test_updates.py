"""Updates as one step: what they mean, what the verifier refuses, and how back ends spell them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import tileir
from tileir.core import DType
from tileir.core.errors import BackendError, TileError
from tileir.core.json.codec import from_json, to_json
from tileir.semtree.check.verifier import verify
from tileir.semtree.interpret.interpreter import run
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.ir import KernelFunction
from tileir.semtree.matrices import without_instructions
from tileir.semtree.text.parser import parse_kernel
from tileir.semtree.text.printer import to_text
from tileir.semtree.transform.threads import one_thread
from tileir_cuda.architectures import ARCHITECTURES
from tileir_cuda.emit.emitter import emit
from tileir_cuda.emit.ptx import ptx

UPDATES: Final = """
kernel updates(inout {t} O[8], in {t} A[256], in i32 I[256]) grid(4) group(64) index(i32) {{
  i32 t = group_id(0) * 64 + local_id(0);
  update {op} O[I[t]] by A[t];
}}
"""

SHARED: Final = """
kernel shared(inout i32 O[8], in i32 I[256]) grid(4) group(64) index(i32) {
  local i32 found[8] align(64);
  if (local_id(0) < 8) { found[local_id(0)] = 0; }
  barrier();
  update add found[I[group_id(0) * 64 + local_id(0)]] by 1;
  barrier();
  if (local_id(0) < 8) { update add O[local_id(0)] by found[local_id(0)]; }
}
"""

KINDS: Final = [
    *(("add", dtype) for dtype in ("i32", "u32", "i64", "u64")),
    *((op, dtype) for op in ("max", "min") for dtype in ("i32", "u32", "i64", "u64", "f32", "f64")),
]


def case(op: str, name: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any], Any]:
    """Return what the elements are first, updates, their places, and what NumPy makes of these."""
    random, dtype = np.random.default_rng(7), DType[name.upper()]
    if dtype.is_float:
        updates = random.standard_normal(256).astype(dtype.numpy)
        updates[:8], updates[8:12] = [0.0, -0.0, np.inf, -np.inf, 0.0, -0.0, -1.0, 1.0], [np.nan, -np.nan, -1.0, -2.0]
        first = np.full(8, -np.inf if op == "max" else np.inf, dtype.numpy)
    else:
        limits = np.iinfo(dtype.numpy)
        updates = random.integers(limits.min, limits.max, 256, dtype.numpy, endpoint=True)
        first = np.full(8, {"add": 5, "max": limits.min, "min": limits.max}[op], dtype.numpy)
    places = random.integers(0, 7, 256).astype(np.int32)
    places[:12] = [0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 4, 6]
    wanted = first.copy()
    with np.errstate(invalid="ignore"):
        {"add": np.add, "max": np.maximum, "min": np.minimum}[op].at(wanted, places, updates)
    return first, updates, places, wanted


@pytest.mark.parametrize(("op", "name"), KINDS)
def test_updates_of_all_threads_count(op: str, name: str) -> None:
    kernel = parse_kernel(UPDATES.format(op=op, t=name))
    verify(kernel)
    assert parse_kernel(to_text(kernel)) == kernel
    assert from_json(to_json(kernel), KernelFunction) == kernel
    first, updates, places, wanted = case(op, name)
    for variant in (kernel, one_thread(kernel, updates=8)):
        result = first.copy()
        run(variant, [result, updates, places], ALL_CHECKS)
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("op", "name"), KINDS)
def test_processors_update_as_one_step(op: str, name: str) -> None:
    first, updates, places, wanted = case(op, name)
    result = executed(parse_kernel(UPDATES.format(op=op, t=name)), [first, updates, places], "llvm")
    np.testing.assert_array_equal(result, wanted)


def executed(kernel: KernelFunction, arrays: list[np.ndarray[Any, Any]], backend: str) -> np.ndarray[Any, Any]:
    context = tileir.Context(disk_cache=None)
    device = context.device(backend)
    executor = context.executor(device)
    buffers = [executor.allocate(array.nbytes) for array in arrays]
    for array, buffer in zip(arrays, buffers, strict=True):
        executor.copy(array, buffer).wait()
    executor.prepare(context.compiler(device).build([kernel]), 0).launch(buffers)
    result = np.empty_like(arrays[0])
    executor.copy(buffers[0], result).wait()
    return result


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("op", "name"), [(op, name) for op, name in KINDS if name.endswith("32")])
def test_opencl_updates_as_one_step(op: str, name: str) -> None:
    pytest.importorskip("pyopencl")
    first, updates, places, wanted = case(op, name)
    result = executed(parse_kernel(UPDATES.format(op=op, t=name)), [first, updates, places], "opencl")
    np.testing.assert_array_equal(result, wanted)


def test_threads_update_what_they_share() -> None:
    kernel = parse_kernel(SHARED)
    verify(kernel)
    places = np.random.default_rng(3).integers(0, 8, 256).astype(np.int32)
    for variant in (kernel, one_thread(kernel, updates=4)):
        result = np.zeros(8, np.int32)
        run(variant, [result, places], ALL_CHECKS)
        np.testing.assert_array_equal(result, np.bincount(places, minlength=8))
    np.testing.assert_array_equal(executed(kernel, [np.zeros(8, np.int32), places], "llvm"), np.bincount(places))


def test_updates_and_other_accesses_are_a_race() -> None:
    for old, new in (
        ("  barrier();\n  if (local_id(0) < 8) { update", "  if (local_id(0) < 8) { update"),
        ("0; }\n  barrier();", "0; }"),
    ):
        assert old in SHARED
        with pytest.raises(TileError) as caught:
            run(parse_kernel(SHARED.replace(old, new)), [np.zeros(8, np.int32), np.zeros(256, np.int32)], ALL_CHECKS)
        assert caught.value.diagnostics[0].code == "TIL558"


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("inout i32", "out i32", "TIL554"),
        ("update add found[I[group_id(0) * 64 + local_id(0)]] by 1", "update mul found[0] by 1", "TIL552"),
        ("by found[local_id(0)]", "by 1.0", "TIL552"),
        ("local i32", "private i32", "TIL554"),
    ],
)
def test_refused(old: str, new: str, code: str) -> None:
    assert old in SHARED
    with pytest.raises(TileError) as caught:
        verify(parse_kernel(SHARED.replace(old, new)))
    assert code in [fault.code for fault in caught.value.diagnostics]


def test_devices_without_updates_refuse_them() -> None:
    kernel = parse_kernel(UPDATES.format(op="add", t="i64"))
    for most in (0, 4):
        with pytest.raises(BackendError) as caught:
            without_instructions(kernel, updates=most)
        assert caught.value.diagnostics[0].code == "TIL804"
        assert "schedule it without updates" in str(caught.value)
    assert without_instructions(kernel, updates=8) is kernel


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_cards_have_instructions(name: str) -> None:
    own = ARCHITECTURES[name]
    assert "global.add.u32" in ptx([emit(parse_kernel(UPDATES.format(op="add", t="i32")), own)], own)
    found = ptx([emit(parse_kernel(UPDATES.format(op="max", t="f32")), own)], own)
    assert "global.max.s32" in found
    assert "global.min.u32" in found
    assert "shared.add.u32" in ptx([emit(parse_kernel(SHARED), own)], own)
