"""The text of kernels: how it looks, and that it computes on OpenCL devices what the interpreter of kernels does."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import pyopencl as cl
import pytest
from hypothesis import given

from strategies.effort import examples
from strategies.opencl_kernels import KERNELS
from strategies.opencl_source import FEATURES, OCLGRIND, PLATFORMS, POCL, context, run
from strategies.semtree import function_cases, kernel_cases
from strategies.semtree_values import aligned_copy, content, same_content
from tileir.core.dtype import DType
from tileir.core.errors import BackendError
from tileir.semtree.check.verifier import verify
from tileir.semtree.interpret import interpreter
from tileir.semtree.interpret.memory import Checks
from tileir.semtree.ir import Region
from tileir.semtree.text.parser import parse_kernel
from tileir.semtree.transform.expansions import EXPANDED, ULP
from tileir_opencl.device.features import Features
from tileir_opencl.emit.emitter import emit, scratch_bytes, symbol
from tileir_opencl.emit.operations import FAST, NATIVE

if TYPE_CHECKING:
    from collections.abc import Callable

    from strategies.semtree import KernelCase
    from tileir.semtree.ir import KernelFunction, Param


def kernel(name: str) -> KernelFunction:
    parsed = parse_kernel(KERNELS[name])
    verify(parsed)
    return parsed


@pytest.mark.parametrize("name", KERNELS)
def test_text(name: str, golden: Callable[[str], None]) -> None:
    golden(emit([kernel(name)], FEATURES[POCL], fast_math=name == "guarded"))


def test_comments_cannot_become_code() -> None:
    commented = attrs.evolve(kernel("integers"), comments=("a\nb", "nul \0 tab \t ü", "end \\", "trigraph ??/"))
    text = emit([commented], Features())
    above = text.partition("__kernel")[0].rpartition("}\n")[2]
    assert above.split("\n")[1:-1] == [
        "// a",
        "// b",
        r"// nul \x00 tab \t \xfc",
        "// end \\ .",
        "// trigraph ??/ .",
    ]


def test_one_program_shares_helpers() -> None:
    text = emit([kernel("narrow"), kernel("narrow")], Features())
    assert text.count("static inline float rounded_f16_float(") == 1
    assert [symbol(number, kernel("narrow")) for number in range(2)] == ["k0_narrow", "k1_narrow"]
    assert "void k0_narrow(" in text
    assert "void k1_narrow(" in text


@pytest.mark.parametrize("platform", PLATFORMS)
def test_compilers_have_nothing_to_say(platform: str) -> None:
    text = emit([kernel(name) for name in KERNELS], FEATURES[platform])
    program = cl.Program(context(platform), text).build(cache_dir=False)  # type: ignore[arg-type]  # documented
    log = program.get_build_info(context(platform).devices[0], cl.program_build_info.LOG)
    assert "warning" not in log


def arguments(param: Param) -> np.ndarray[Any, Any]:
    """Return special values, but whole floats for sums, which are exact in any order."""
    array = content(param.dtype, param.size, 7)
    if param.dtype is not DType.F32:
        return array
    return np.round(np.where(np.isfinite(array), np.clip(array, -99, 99), 1)).astype(np.float32)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_shown_kernels_compute_what_the_interpreter_does(platform: str) -> None:
    kernels = [kernel(name) for name in KERNELS if name != "guarded"]
    initial = [[arguments(param) for param in each.params] for each in kernels]
    expected = [[aligned_copy(array) for array in arrays] for arrays in initial]
    actual = [[aligned_copy(array) for array in arrays] for arrays in initial]
    for each, arrays in zip(kernels, expected, strict=True):
        interpreter.run(each, arrays, Checks(races=True, undefined=True))
    run(kernels, actual, platform)
    for each, ours, theirs in zip(kernels, actual, expected, strict=True):
        for param, left, right in zip(each.params, ours, theirs, strict=True):
            assert same_content(left, right), (each.name, param.name)


SCRIPT: Final = """
from strategies.opencl_kernels import KERNELS
from tileir.semtree.text.parser import parse_kernel
from tileir_opencl.emit.emitter import emit
from tileir_opencl.device.features import Features
print(emit([parse_kernel(text) for text in KERNELS.values()], Features(max_vector_bytes=16)))
"""


@pytest.mark.sampled(0)
def test_text_is_the_same_under_every_seed() -> None:
    def output(seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, check=True, text=True, timeout=120
        )
        return done.stdout

    first, second, third = map(output, ("0", "1", "2026"))
    assert "barrier" in first
    assert first == second == third


def test_kernels_without_doubles_are_refused_together() -> None:
    with pytest.raises(BackendError) as caught:
        emit([kernel("staged"), kernel("dot"), kernel("staged")], Features(fp64=False))
    assert [fault.code for fault in caught.value.diagnostics] == ["TIL804", "TIL804"]


def test_sines_of_singles_need_no_doubles() -> None:
    text = "kernel k(out f32 O[4], in f32 X[4]) { O[0] = sin(X[0]); }"
    assert "double" in emit([parse_kernel(text)], Features())
    assert "O[0L] = sin(X[0L]);" in emit([parse_kernel(text)], Features(fp64=False))


def test_halves_are_rounded_by_devices_that_have_them() -> None:
    text = emit([kernel("narrow")], Features(fp16=True))
    assert "#pragma OPENCL EXTENSION cl_khr_fp16 : enable" in text
    assert "convert_half_rte(x)" in text


def test_scratch_is_what_one_group_needs() -> None:
    staged = kernel("staged")
    assert any(getattr(stmt, "region", None) is Region.SCRATCH for stmt in staged.body)
    assert scratch_bytes(staged) == 64 * 8 + 128
    assert scratch_bytes(kernel("dot")) == 0


def check(case: KernelCase, platform: str = POCL) -> None:
    expected, actual = case.arrays(), case.arrays()
    interpreter.run(case.kernel, expected)
    run([case.kernel], [actual], platform)
    for param, ours, theirs in zip(case.kernel.params, actual, expected, strict=True):
        assert same_content(ours, theirs), param.name


@examples(40)
@given(case=kernel_cases())
def test_random_kernels_compute_what_the_interpreter_does(case: KernelCase) -> None:
    check(case)


@examples(25)
@given(case=kernel_cases(threads=True))
def test_threads_of_a_group_meet_at_barriers(case: KernelCase) -> None:
    check(case)


@pytest.mark.skipif(OCLGRIND not in PLATFORMS, reason="Oclgrind is not installed; run tox -e simulator")
@examples(25)
@given(case=kernel_cases(threads=True))
def test_the_simulator_agrees(case: KernelCase) -> None:
    check(case, OCLGRIND)


@examples(15)
@given(case=function_cases())
def test_mathematical_functions_are_close(case: KernelCase) -> None:
    expected, actual = case.arrays(), case.arrays()
    interpreter.run(case.kernel, expected)
    run([case.kernel], [actual])
    tolerance = 16 * np.finfo(actual[-1].dtype).eps
    np.testing.assert_allclose(actual[-1], expected[-1], rtol=tolerance, atol=0)


def test_native_functions_are_as_accurate_as_what_they_replace() -> None:
    """OpenCL 1.2, 7.4: an error of ``rsqrt`` is at most 2 ulp, in f32 as in f64."""
    specified = dict.fromkeys(NATIVE, 2.0)
    assert all(specified[op] <= ULP[op, dtype] for op in NATIVE for dtype in (DType.F32, DType.F64))
    assert FAST <= EXPANDED


def test_fast_math_takes_native_functions_and_fuses() -> None:
    source = """
kernel fast(out f32 O[64] align(128), in f32 X[64] align(128), out f64 D[64] align(128)) {
  for (i64 i = 0; i < 64; i += 4) {
    f32x4 x = X[i : 4] * X[i : 4] + f32x4(0.5);
    O[i : 4] = exp(sin(x)) + f32x4(1.0) / sqrt(x);
    D[i : 4] = log(cast<f64x4>(x));
  }
}
"""
    parsed = parse_kernel(source)
    text = emit([parsed], Features(), fast_math=True)
    for part in ("native_exp(native_sin(x))", "native_rsqrt(x)", "mad(", " log(convert_double4(x))"):
        assert part in text
    assert "FP_CONTRACT" not in text
    x = np.linspace(0.1, 3, 64, dtype=np.float32)
    arrays: list[np.ndarray[Any, Any]] = [np.zeros(64, np.float32), x, np.zeros(64)]
    run([parsed], [arrays], fast_math=True)
    square = x.astype(np.float64) ** 2 + 0.5
    np.testing.assert_allclose(arrays[0], np.exp(np.sin(square)) + 1 / np.sqrt(square), rtol=1e-3)
    np.testing.assert_allclose(arrays[2], np.log(square), rtol=1e-5)
