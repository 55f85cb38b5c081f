"""Vectors on the stack whose lanes are read in another order."""

from __future__ import annotations

import numpy as np
import pytest

from strategies.devices import buffers, compiler, executor
from tileir.core.dtype import DType
from tileir.semtree.ir import (
    Assign,
    Cast,
    Const,
    DeclareArray,
    For,
    KernelFunction,
    Param,
    ParamAccess,
    Subscript,
    Type,
    Var,
)

INDEX = Type(DType.I64)
COUNTER = Var("i", INDEX)


@pytest.mark.sampled(15)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.I32, DType.U8, DType.F16, DType.BOOL], ids=str)
@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
@pytest.mark.parametrize("counting", [DType.U8, DType.I32])
def test_lanes_are_read_in_another_order(dtype: DType, lanes: int, counting: DType) -> None:
    wide, size = Type(dtype, lanes), 8 * lanes
    places = Cast(Subscript("places", COUNTER, Type(counting, lanes)), Type(DType.I64, lanes))
    body = (
        DeclareArray("window", dtype, lanes),
        Assign(Subscript("window", Const(0, INDEX), wide), Subscript("given", COUNTER, wide)),
        Assign(Subscript("found", COUNTER, wide), Subscript("window", places, wide)),
    )
    loop = For(COUNTER, Const(0, INDEX), Const(size, INDEX), lanes, body)
    params = (
        Param("given", dtype, size, ParamAccess.READ),
        Param("places", counting, size, ParamAccess.READ),
        Param("found", dtype, size, ParamAccess.WRITE),
    )
    library = compiler().build([KernelFunction("k", params, (loop,))])
    random = np.random.default_rng(lanes)
    given = random.integers(0, 2 if dtype.is_bool else 100, size).astype(dtype.numpy)
    chosen = random.integers(0, lanes, size).astype(counting.numpy)
    found = np.zeros_like(given)
    executor().prepare(library, 0).launch(buffers([given, chosen, found]))
    wanted = np.take_along_axis(given.reshape(-1, lanes), chosen.astype(np.int64).reshape(-1, lanes), axis=1)
    np.testing.assert_array_equal(found, wanted.reshape(-1))
