"""Small programs of several kernels, for tests of what runs them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from strategies.devices import compiler, executor
from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.runtime.plans.plan import Plan
from tileir.runtime.plans.resources import Resources
from tileir.semtree.ir import (
    Apply,
    Assign,
    Buffer,
    BufferRole,
    Const,
    For,
    KernelFunction,
    Launch,
    Param,
    ParamAccess,
    Program,
    Subscript,
    Type,
    Var,
)

if TYPE_CHECKING:
    from tileir.runtime.arrays import Array
    from tileir_llvm.run.library import LLVMLibrary

SIZE = 1000
INDEX = Type(DType.I64)
F32 = Type(DType.F32)


def binary(op: Op, alignment: int = 4) -> KernelFunction:
    """Return a kernel that stores ``a op b`` for each element."""
    counter = Var("i", INDEX)
    value = Apply(op, (Subscript("a", counter, F32), Subscript("b", counter, F32)))
    loop = For(counter, Const(0, INDEX), Const(SIZE, INDEX), 1, (Assign(Subscript("c", counter, F32), value),))
    params = (
        Param("a", DType.F32, SIZE, ParamAccess.READ, alignment),
        Param("b", DType.F32, SIZE, ParamAccess.READ, alignment),
        Param("c", DType.F32, SIZE, ParamAccess.WRITE, alignment),
    )
    return KernelFunction(op.value, params, (loop,))


def program(alignment: int = 4) -> Program:
    """Return ``out = (x + y) * (x + y) + constant`` as three launches of two kernels."""
    constant = np.arange(SIZE, dtype=np.float32)
    return Program(
        (binary(Op.ADD, alignment), binary(Op.MUL, alignment)),
        (
            buffer("x", BufferRole.INPUT),
            buffer("y", BufferRole.INPUT),
            buffer("sum", BufferRole.TEMPORARY),
            buffer("square", BufferRole.TEMPORARY),
            buffer("k", BufferRole.CONSTANT, constant.tobytes()),
            buffer("out", BufferRole.OUTPUT),
        ),
        (Launch(0, ("x", "y", "sum")), Launch(1, ("sum", "sum", "square")), Launch(0, ("square", "k", "out"))),
    )


def branches() -> Program:
    """Return ``out = (x + x) * (y + y)``, whose two sums do not depend on one another."""
    return Program(
        (binary(Op.ADD), binary(Op.MUL)),
        (
            buffer("x", BufferRole.INPUT),
            buffer("y", BufferRole.INPUT),
            buffer("left", BufferRole.TEMPORARY),
            buffer("right", BufferRole.TEMPORARY),
            buffer("out", BufferRole.OUTPUT),
        ),
        (Launch(0, ("x", "x", "left")), Launch(0, ("y", "y", "right")), Launch(1, ("left", "right", "out"))),
    )


def buffer(name: str, role: BufferRole, data: bytes = b"") -> Buffer:
    """Return a buffer of :data:`SIZE` numbers."""
    return Buffer(name, DType.F32, (SIZE,), role, data)


def plan_of(whole: Program, device: Any = None) -> Plan:
    """Ready a program on a device, by default the processor."""
    return Plan.of(whole, _library(whole.kernels), Resources(device or executor()))


@cache
def _library(kernels: tuple[KernelFunction, ...]) -> LLVMLibrary:
    return compiler().build(kernels)


def expected(x: Array, y: Array) -> Array:
    """Return what :func:`program` computes."""
    return np.asarray((x + y) * (x + y) + np.arange(SIZE, dtype=np.float32))


def operands(seed: int = 1) -> tuple[Array, Array, Array]:
    """Return two inputs, and an array for the output."""
    x, y = np.random.default_rng(seed).random((2, SIZE), np.float32)
    return x, y, np.zeros(SIZE, np.float32)
