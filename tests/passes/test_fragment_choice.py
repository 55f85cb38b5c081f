"""Products on fragments of cards that are not there: as text, by the interpreter, and on processors without them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np
import pytest

import tileir
from strategies.opencl_device import device as opencl_device
from tileir.core.dtype import DType
from tileir.core.fragments import FRAGMENTS, named
from tileir.core.targets.target import Target
from tileir.core.targets.target_file import with_facts
from tileir.driver.compiler import Stages, compile_stages
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.ir import MatrixMultiply
from tileir.semtree.rewrite import statements
from tileir.semtree.text.printer import to_text
from tileir.stripe.interpret.interpreter import interpret
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PRODUCT = "function (A[M, K], B[K, N]) -> (R) { R[i, j : M, N] = +(A[i, k] * B[k, j]); }"
TURNED = "function (A[K, M], B[N, K]) -> (R) { R[i, j : M, N] = +(A[k, i] * B[j, k]); }"
WIDE = """function (A[M, K], B[K, N]) -> (R) {
    P = as_int(A, 32);
    Q = as_int(B, 32);
    R[i, j : M, N] = +(P[i, k] * Q[k, j]);
}"""
BY_DEPTH = "function (A[M, K], B[N, K]) -> (R) { R[i, j : M, N] = +(A[i, k] * B[j, k]); }"
BATCH = "function (A[Z, M, K], B[Z, K, N]) -> (R) { R[z, i, j : Z, M, N] = +(A[z, i, k] * B[z, k, j]); }"
TAIL = """function (A[M, K], B[K, N], D[N]) -> (R) {
    C[i, j : M, N] = +(A[i, k] * B[k, j]);
    R = relu(C + D);
}"""
CONVOLUTION = """function (A[Y, X, C], B[P, Q, C, F]) -> (R) {
    R[y, x, f : Y - P + 1, X - Q + 1, F] = +(A[y + p, x + q, c] * B[p, q, c, f]);
}"""
AMD: Final = with_facts(Target(pipeline="amd-cdna3"))
INTEL: Final = with_facts(Target(pipeline="intel-xe-hpc"))
HOPPER: Final = with_facts(Target(pipeline="nvidia-hopper"))
WARPGROUPS: Final = attrs.evolve(HOPPER, fragments=named("sm_90a"), local_bytes=227 * 1024)
ALL_OF_SM_80: Final = attrs.evolve(HOPPER, fragments=named("sm_80"))
LARGE: Final = attrs.evolve(AMD, fragments=tuple(name for name in named("cdna3") if "m32n32" in name))
F16, BF16, F32, F64, I8, U8 = DType.F16, DType.BF16, DType.F32, DType.F64, DType.I8, DType.U8


def stages(text: str, shapes: Mapping[str, tuple[int, ...]], dtypes: tuple[DType, ...], target: Target) -> Stages:
    kinds = (*dtypes, *dtypes[-1:] * len(shapes))
    types = {name: TensorType(kind, shape) for (name, shape), kind in zip(shapes.items(), kinds, strict=False)}
    return compile_stages(text, types, target)


def fragments(found: Stages) -> list[str]:
    every = (stmt for kernel in found.sem.kernels for stmt in statements(kernel.body))
    return [stmt.fragment for stmt in every if isinstance(stmt, MatrixMultiply)]


def arrays(found: Stages) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(4)
    inputs = [each for each in found.sem.buffers if each.name in "ABD"]
    return {
        each.name: generator.integers(0 if each.dtype is U8 else -3, 4, each.shape).astype(each.dtype.numpy)
        for each in inputs
    }


CASES = pytest.mark.parametrize(
    ("target", "text", "shapes", "dtypes", "name"),
    [
        (AMD, PRODUCT, ((40, 48), (48, 24)), (F16,), "mfma_m16n16k16_f16"),
        (AMD, TURNED, ((16, 32), (32, 16)), (BF16,), "mfma_m16n16k16_bf16"),
        (AMD, PRODUCT, ((17, 12), (12, 20)), (F32,), "mfma_m16n16k4_f32"),
        (AMD, PRODUCT, ((33, 4), (4, 18)), (F64,), "mfma_m16n16k4_f64"),
        (AMD, WIDE, ((20, 64), (64, 20)), (I8,), "mfma_m16n16k32_i8"),
        (AMD, BATCH, ((2, 32, 16), (2, 16, 32)), (F16,), "mfma_m16n16k16_f16"),
        (AMD, CONVOLUTION, ((3, 18, 16), (2, 3, 16, 20)), (F16,), "mfma_m16n16k16_f16"),
        (AMD, TAIL, ((32, 16), (16, 32), (32,)), (F16,), "mfma_m16n16k16_f16"),
        (LARGE, PRODUCT, ((40, 16), (16, 36)), (F16,), "mfma_m32n32k8_f16"),
        (LARGE, PRODUCT, ((33, 2), (2, 64)), (F32,), "mfma_m32n32k2_f32"),
        (INTEL, PRODUCT, ((40, 48), (48, 24)), (F16,), "xmx_m8n16k16_f16"),
        (INTEL, TURNED, ((16, 32), (32, 16)), (BF16,), "xmx_m8n16k16_bf16"),
        (INTEL, WIDE, ((24, 32), (32, 20)), (U8, I8), "xmx_m8n16k32_u8_i8"),
        (INTEL, TAIL, ((20, 32), (32, 20), (20,)), (F16,), "xmx_m8n16k16_f16"),
        (INTEL.with_approximations(), PRODUCT, ((16, 8), (8, 20)), (F32,), "xmx_m8n16k8_f32"),
        (WARPGROUPS, BY_DEPTH, ((40, 64), (36, 64)), (F16,), "wgmma_m64n32k16_f16"),
        (WARPGROUPS, PRODUCT, ((64, 32), (32, 64)), (BF16,), "wgmma_m64n32k16_bf16"),
        (ALL_OF_SM_80, WIDE, ((24, 32), (32, 20)), (I8, U8), "mma_m16n8k32_i8_u8"),
        (ALL_OF_SM_80, WIDE, ((24, 48), (48, 20)), (U8,), "mma_m16n8k16_u8"),
        (ALL_OF_SM_80, PRODUCT, ((24, 12), (12, 20)), (F64,), "mma_m8n8k4_f64"),
        (ALL_OF_SM_80, PRODUCT, ((24, 24), (24, 32)), (F16,), "mma_m16n8k8_f16"),
    ],
    ids=lambda value: value if isinstance(value, str) and value in FRAGMENTS else "",
)  # fmt: skip


def case(text: str, shapes: tuple[tuple[int, ...], ...], dtypes: tuple[DType, ...], target: Target) -> Stages:
    return stages(text, dict(zip("ABD", shapes, strict=False)), dtypes, target)


@pytest.mark.sampled(2)
@CASES
def test_products_are_on_fragments_and_mean_the_same(
    target: Target, text: str, shapes: tuple[tuple[int, ...], ...], dtypes: tuple[DType, ...], name: str
) -> None:
    found = case(text, shapes, dtypes, target)
    assert set(fragments(found)) == {name}
    given = arrays(found)
    expected = interpret(found.stripe, given)["R"]
    np.testing.assert_array_equal(run_program(found.sem, given, ALL_CHECKS)["R"], expected)


@pytest.mark.sampled(2)
@CASES
def test_processors_compute_the_same(
    target: Target, text: str, shapes: tuple[tuple[int, ...], ...], dtypes: tuple[DType, ...], name: str
) -> None:
    found = case(text, shapes, dtypes, target)
    assert name in to_text(found.sem)
    given = arrays(found)
    for device in ("llvm.0", opencl_device().id):
        executable = tileir.compile(text, given, device=device, target=target)
        np.testing.assert_array_equal(executable(**given), interpret(found.stripe, given)["R"])


@pytest.mark.parametrize(
    ("target", "dtype"), [(AMD, F16), (INTEL, F16), (LARGE, F16)], ids=["amd-cdna3", "intel-xe-hpc", "large"]
)
def test_kernels_as_text(target: Target, dtype: DType, golden: Callable[[str], None]) -> None:
    golden(to_text(stages(PRODUCT, {"A": (64, 64), "B": (64, 64)}, (dtype,), target).sem))
