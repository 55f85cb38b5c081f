"""Gathers and scatters whose rows ranks share out have the results of the whole, and no rank has the whole table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.effort import examples
from strategies.sharded import MESHES
from tileir.core import Aggregation, DType
from tileir.core.contraction_types import contraction_types
from tileir.core.ops import Combination
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import Function, Gather, Scatter, TensorType, Value
from tileir.typed.sharding.interpreter import interpret_partitioned
from tileir.typed.sharding.mesh import Mesh, Sharding
from tileir.typed.sharding.partition import partition
from tileir.typed.sharding.verifier import verify

if TYPE_CHECKING:
    from tileir.typed.sharding.partitioned import Partitioned

DTYPES = (DType.F32, DType.F16, DType.F64, DType.I32, DType.U8, DType.BOOL)


def numbers(data: st.DataObject, dtype: DType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return small whole numbers, and of floats zeros of both signs, infinities and NaN."""
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    if dtype.is_float:
        chosen = random.choice(
            [0.0, -0.0, 1.0, -2.0, 3.0, np.inf, np.nan], shape, p=[0.2] * 2 + [0.14] * 3 + [0.09] * 2
        )
        return np.asarray(chosen, dtype.numpy)
    return random.integers(0, 3, shape).astype(dtype.numpy)


def places(data: st.DataObject, dtype: DType, shape: tuple[int, ...], rows: int) -> np.ndarray[Any, Any]:
    """Return rows, some of which are beyond the ends, by all that an integer has."""
    limits = np.iinfo(dtype.numpy)
    one = st.integers(-2, rows + 2) | st.sampled_from([limits.min, limits.max])
    size = int(np.prod(shape))
    return np.array(data.draw(st.lists(one, min_size=size, max_size=size)), dtype.numpy).reshape(shape)


def entries(data: st.DataObject, mesh: Mesh, rank: int) -> Sharding:
    found: list[list[str]] = [[] for _ in range(rank)]
    for name, _ in mesh.axes:
        place = data.draw(st.integers(-1, rank - 1))
        if place >= 0:
            found[place].append(name)
    return Sharding(tuple(map(tuple, found)))


def assert_equal(program: Partitioned, function: Function, inputs: dict[str, np.ndarray[Any, Any]]) -> None:
    """Assert that all results have the bits of the whole: nothing is rounded, no sign is lost."""
    verify(program)
    expected, actual = interpret(function, inputs), interpret_partitioned(program, inputs)
    for name, array in expected.items():
        np.testing.assert_array_equal(actual[name], array, strict=True)
        if array.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(actual[name]), np.signbit(array))


@examples(60)
@given(st.data())
def test_gathers(data: st.DataObject) -> None:
    mesh, dtype = data.draw(st.sampled_from(MESHES)), data.draw(st.sampled_from(DTYPES))
    kind = data.draw(st.sampled_from([DType.I32, DType.I64]))
    table = (data.draw(st.integers(1, 7)), *data.draw(st.lists(st.integers(1, 3), max_size=2)))
    chosen = tuple(data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=2)))
    inputs = (Value("T", dtype, table), Value("I", kind, chosen))
    function = Function(inputs, ("G",), (Gather("G", "T", "I", dtype, (*chosen, *table[1:])),))
    cut = {"T": entries(data, mesh, len(table)), "I": entries(data, mesh, len(chosen))}
    arrays = {"T": numbers(data, dtype, table), "I": places(data, kind, chosen, table[0])}
    assert_equal(partition(function, mesh, cut), function, arrays)


@examples(60)
@given(st.data())
def test_scatters(data: st.DataObject) -> None:
    mesh, dtype = data.draw(st.sampled_from(MESHES)), data.draw(st.sampled_from([DType.F32, DType.I32]))
    how = data.draw(st.sampled_from(list(Aggregation)))
    kind = data.draw(st.sampled_from([DType.I32, DType.I64]))
    table = (data.draw(st.integers(1, 7)), *data.draw(st.lists(st.integers(1, 3), max_size=2)))
    chosen = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=2)))
    values = [Value("U", dtype, (*chosen, *table[1:])), Value("I", kind, chosen)]
    into = how is Aggregation.ASSIGN
    wide = contraction_types(how, Combination.NONE, [dtype]).accumulator
    rest: dict[str, Any] = {"into": "T", "ordered": True} if into else {}
    made = Scatter("S", "U", "I", wide, dtype, table, how, **rest)
    inputs = (*values, Value("T", dtype, table)) if into else tuple(values)
    function = Function(inputs, ("S",), (made,))
    arrays = {"U": np.nan_to_num(numbers(data, dtype, values[0].shape)), "I": places(data, kind, chosen, table[0])}
    arrays |= {"T": numbers(data, dtype, table)} if into else {}
    cut = {value.name: entries(data, mesh, len(value.shape)) for value in inputs}
    wanted = {"S": entries(data, mesh, len(table))} if data.draw(st.booleans()) else {}
    assert_equal(partition(function, mesh, cut, wanted), function, arrays)


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("cuts", [("x", None), (None, "x"), ("x", "x")])
@pytest.mark.parametrize("wanted", [{}, {"S": Sharding(("x", None))}])
def test_scatters_of_which_updates_or_indices_alone_are_cut(
    size: int, cuts: tuple[str | None, str | None], wanted: dict[str, Sharding]
) -> None:
    values = Value("U", DType.F32, (size, 1)), Value("I", DType.I32, (size,))
    made = Scatter("S", "U", "I", DType.F32, DType.F32, (3, 1), Aggregation.PROD)
    function = Function(values, ("S",), (made,))
    arrays = {"U": np.arange(2, size + 2, dtype=np.float32)[:, None], "I": np.arange(size, dtype=np.int32) % 3}
    cut = {"U": Sharding((cuts[0], None)), "I": Sharding((cuts[1],))}
    assert_equal(partition(function, Mesh({"x": 2}), cut, wanted), function, arrays)


LOOKUP = "function (T[N, D], I[K]) -> (R) { R = gather(T, I); }"
KEPT = "function (T[N, D], U[K, D], I[K]) -> (R) { R = scatter_set(T, I, U); }"


def lookup(rows: int) -> Function:
    return infer(tileir.parse(LOOKUP), {"T": TensorType(DType.F32, (rows, 4)), "I": TensorType(DType.I32, (6,))})


def test_rows_of_a_table_stay_where_they_are() -> None:
    """Messages are as large as the looked-up rows, for any number of rows."""
    for rows in (64, 4096):
        program = partition(lookup(rows), Mesh({"x": 2}), {"T": Sharding(("x", None))})
        assert {each.inputs for each in program.collectives}.isdisjoint({("T",)})
        assert sum(each.size for each in program.exchanges()) <= 2 * 6 * 4 * 4
    assert program.remarks == ()


def test_a_table_is_looked_up_by_compiled_ranks() -> None:
    table, rows = np.arange(40, dtype=np.float32).reshape(10, 4), np.array([9, 0, 3, 12, -1, 5], np.int32)
    program = tileir.partition(LOOKUP, {"x": 3}, {"T": ("x", None)}, arguments=[table, rows])
    found = tileir.distribute(program, options=tileir.Options(quick=True))(table, rows)
    np.testing.assert_array_equal(found, table[np.clip(rows, 0, 9)])
