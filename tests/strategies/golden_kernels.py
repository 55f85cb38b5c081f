"""Programs whose kernels golden files describe: operations in several dtypes, workloads of the benchmarks, networks.

The targets are facts that stand here, so that no machine's own change what is compiled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

import suite
import texts
from strategies.networks import gpt_block, resnet_18
from tileir.core.dtype import DType
from tileir.core.fragments import named
from tileir.core.targets.target import Target
from tileir.core.targets.target_file import with_facts
from tileir.driver.compiler import compile_stages
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np

    from tileir.semtree.ir import Program
    from tileir.tile.ir import Function

_PROCESSOR: Final = Target(
    "x86-64-v3",
    vector_bytes=32,
    vector_registers=16,
    threads=4,
    shuffles=True,
    cache_bytes=(32 << 10, 1 << 20, 16 << 20),
)
_HOPPER: Final = with_facts(Target(pipeline="nvidia-hopper"))

TARGETS: Final[Mapping[str, Target]] = {
    "x86-64-v3": _PROCESSOR,
    "x86-64-v4": attrs.evolve(
        _PROCESSOR, name="x86-64-v4", vector_bytes=64, vector_registers=32, fragments=named("avx512vnni")
    ),
    "nvidia-hopper": _HOPPER,
    "nvidia-hopper-fast": _HOPPER.with_approximations(),
    "amd-cdna3": with_facts(Target(pipeline="amd-cdna3")),
}
"""Targets by name; the one called fast may round what it multiplies."""

_F16, _BF16, _F32, _F64 = DType.F16, DType.BF16, DType.F32, DType.F64
_FLOATS: Final = (_F32, _F16)
_NORMALS: Final = ((4096, 1024), (1024,), (1024,))
_TRANSPOSED: Final = "function (A[M, K], B[N, K]) -> (O) { O[m, n : M, N] = +(A[m, k] * B[n, k]); }"
_BIASED: Final = """function (A[M, K], B[K, N], D[N]) -> (O) {
    C[m, n : M, N] = +(A[m, k] * B[k, n]);
    O = relu(C + D);
}"""
_WIDENED: Final = """function (A[M, K], B[K, N]) -> (O) {
    P = as_int(A, 32);
    Q = as_int(B, 32);
    O[m, n : M, N] = +(P[m, k] * Q[k, n]);
}"""
_GATHER: Final = "function (A[M, N], I[K]) -> (O) { O = gather(A, I); }"

_Types = tuple[tuple[DType, tuple[int, ...]], ...]


@attrs.frozen
class Operation:
    """A text, the shapes of its inputs, and the element types that all or each of them have."""

    name: str
    text: str
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[DType | tuple[DType, ...], ...] = _FLOATS
    targets: tuple[str, ...] = ("x86-64-v3", "x86-64-v4", "nvidia-hopper", "amd-cdna3")

    def programs(self) -> Iterator[tuple[str, str, dict[str, TensorType]]]:
        """Yield name, text and types for each choice of element types."""
        for choice in self.dtypes:
            kinds = choice if isinstance(choice, tuple) else (choice,) * len(self.shapes)
            names = [part.split("[")[0] for part in self.text.split("(", 1)[1].split(") ->")[0].split("], ")]
            types = {n: TensorType(d, s) for n, d, s in zip(names, kinds, self.shapes, strict=True)}
            yield f"{self.name} {' '.join(dict.fromkeys(d.value for d in kinds))}", self.text, types


def _square(name: str, text: str, dtypes: tuple[DType | tuple[DType, ...], ...], size: int = 1024) -> Operation:
    return Operation(name, text, ((size, size), (size, size)), dtypes)


_SMALL: Final = texts.convolution(56, 56, 3)[0]

OPERATIONS: Final = (
    _square("matmul", texts.MATMUL, (_F32, _F16, _BF16, _F64, DType.I32)),
    _square("matmul of transposed", _TRANSPOSED, (_F32, _F16)),
    _square("matmul widened", _WIDENED, ((DType.U8, DType.I8), (DType.I16, DType.I16))),
    Operation("matmul, bias, relu", _BIASED, ((512, 768), (768, 512), (512,))),
    Operation("matmul of odd sizes", texts.MATMUL, ((509, 127), (127, 251))),
    Operation("gemv", texts.MATMUL, ((1, 4096), (4096, 4096))),
    Operation("batched matmul", texts.BATCHED, ((32, 128, 128), (32, 128, 128))),
    Operation("conv 3x3", _SMALL, ((8, 56, 56, 64), (3, 3, 64, 64))),
    Operation("depthwise conv", texts.DEPTHWISE, ((1, 112, 112, 64), (3, 3, 64)), (_F32,)),
    Operation("max pool", texts.MAXIMUM_POOL, ((8, 112, 112, 64),)),
    Operation("softmax", texts.SOFTMAX, ((4096, 1024),)),
    Operation("layer norm", texts.LAYER_NORM, _NORMALS),
    Operation("sum of rows", texts.SUM_ROWS, ((4096, 1024),)),
    Operation("sum of columns", texts.SUM_COLUMNS, ((4096, 1024),)),
    Operation("greatest of all", texts.MAXIMUM, ((1 << 22,),), (_F32, DType.I8)),
    Operation("running sum", texts.RUNNING_SUM_OF_ROWS, ((1024, 1024),), (_F32,)),
    Operation("chain", texts.CHAIN, ((1 << 20,),) * 4, (_F32, _F16, _F64)),
    Operation("transpose", texts.TRANSPOSE, ((2048, 2048),), (_F32, DType.I8)),
    Operation("stencil", texts.STENCIL_5, ((2048, 2048),), (_F32,)),
    Operation("attention", texts.ATTENTION, ((16, 512, 64),) * 3),
    Operation("gather", _GATHER, ((4096, 256), (1024,)), ((_F32, DType.I32),)),
    attrs.evolve(_square("matmul", texts.MATMUL, (_F32,)), targets=("nvidia-hopper-fast",)),
    Operation("conv 3x3", _SMALL, ((8, 56, 56, 64), (3, 3, 64, 64)), (_F32,), ("nvidia-hopper-fast",)),
)
"""Operations of different kinds, each in the dtypes that get schedules of their own."""


def operations(target: str) -> Iterator[tuple[str, str, dict[str, TensorType]]]:
    """Yield name, text and types of the operations that are compiled for a target."""
    for operation in OPERATIONS:
        if target in operation.targets:
            yield from operation.programs()


def workloads() -> Iterator[tuple[str, str | Function, dict[str, TensorType]]]:
    """Yield name, function and types of the workloads of the benchmarks and of two networks."""
    for workload in suite.WORKLOADS:
        types = {name: TensorType(_dtype(kind), shape) for name, (kind, shape) in workload.inputs.types().items()}
        yield workload.name, workload.text, types
    yield "resnet_18", *resnet_18(1, 224)
    yield "gpt_block", *gpt_block(1, 1024, 768, 12)


def compiled(function: str | Function, types: Mapping[str, TensorType], target: str) -> Program:
    """Return the kernels of a function for one of :data:`TARGETS`."""
    return compile_stages(function, types, TARGETS[target]).sem


def _dtype(kind: np.dtype[Any]) -> DType:
    found = DType.of(kind)
    assert found is not None
    return found
