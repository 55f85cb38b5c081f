"""The Tile function of which the project's first documents print two kernels, compiled for groups of 32 threads."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.driver.compiler import compile_stages
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from tileir.driver.compiler import Stages

SOURCE: Final = """function (I0[X, Y], I1[X, Y]) -> (T2, T3) {
    T2 = log(I0);
    T0[x : X] = +(T2[x, y] * I1[x, y]);
    T3 = -T0;
}"""
"""The sum of a categorical cross-entropy; the logarithms are a result of their own."""

SHAPE: Final = (10, 26)

PASSES: Final = ",".join(
    (
        "canonicalise{merge=false},accumulate,dead_code,fuse,localise,scalarise,dead_code,canonicalise",
        "group_elementwise{threads=32,vector_bytes=4,vectors=1}",
        "group_contraction{threads=32,rows=1,columns=1,depth=32,always=true}",
    )
)
"""Kernels are not inlined, and even inputs that nothing uses twice are staged, as the old code generator did."""


@cache
def seed_stages() -> Stages:
    """Return the function at every stage."""
    target = Target(index_dtype=DType.I32, pipeline=PASSES)
    return compile_stages(SOURCE, dict.fromkeys(("I0", "I1"), TensorType(DType.F32, SHAPE)), target)


LAYER_TEST7: Final = """function (
    I[X, Y, C1], K1[KX, KY, C1, C2], B1[C2], K2[KX, KY, C2, C2], B2[C2], K3[KX, KY, C2, C2]
) -> (O3) {
    O1[x, y, co : X, Y, C2] = +(I[x + kx - 1, y + ky - 1, ci] * K1[kx, ky, ci, co]);
    A1 = O1 + B1;
    R1 = max(A1, 0);
    O2[x, y, co : X, Y, C2] = +(R1[x + kx - 1, y + ky - 1, ci] * K2[kx, ky, ci, co]);
    A2 = O2 + B2;
    R2 = max(A2, 0);
    O3[x, y, co : X, Y, C2] = +(R2[x + kx - 1, y + ky - 1, ci] * K3[kx, ky, ci, co]);
}"""
"""The program of Stripe's slides, of which these show the first operation: three convolutions, biases and ramps."""


def layer_types(width: int, height: int, inner: int, outer: int, dtype: DType = DType.I8) -> dict[str, TensorType]:
    """Return the types of the parameters of :data:`LAYER_TEST7` for an image, and numbers of channels."""
    shapes = {
        "I": (width, height, inner),
        "K1": (3, 3, inner, outer),
        "B1": (outer,),
        "K2": (3, 3, outer, outer),
        "B2": (outer,),
        "K3": (3, 3, outer, outer),
    }
    return {name: TensorType(dtype, shape) for name, shape in shapes.items()}
