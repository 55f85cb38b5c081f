from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies import means
from tileir.core.dtype import DType
from tileir.core.numbers.integers import network_comparisons
from tileir.core.targets.target import Target
from tileir.driver.compiler import compile_stages
from tileir.semtree.lower.orders import ordering
from tileir.semtree.lower.orders.ordering import digits_cost, network_cost, selection_cost
from tileir.tile.text.parser import parse
from tileir.typed.ir import TensorType


def places(keys: np.ndarray, count: int, vector_bytes: int, *, descending: bool = False) -> np.ndarray:
    """Return the order of a row, by the interpreter of kernels for vectors of some width."""
    text = f"function (X[N]) -> (O) {{ O = argsort(X, 0, {int(descending)}, {count}); }}"
    types = {"X": TensorType(DType.of(keys.dtype) or DType.F32, keys.shape)}
    target = Target(vector_bytes=vector_bytes, shuffles=vector_bytes > 8)
    stages = compile_stages(parse(text), types, target)
    return np.asarray(means.by_kernel_interpreter(stages, {"X": keys})["O"])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", range(2, 11))
def test_all_rows_of_zeros_and_ones_are_sorted(size: int) -> None:
    """Show that the comparisons are a sorting network: by the principle of zeros and ones, these rows are all."""
    rows = np.array(list(product((0, 1), repeat=size)), np.int32)
    text = "function (X[M, N]) -> (O) { O = argsort(X, 1); }"
    stages = compile_stages(parse(text), {"X": TensorType(DType.I32, rows.shape)}, Target(shuffles=True))
    found = np.asarray(means.by_kernel_interpreter(stages, {"X": rows})["O"])
    np.testing.assert_array_equal(found, np.argsort(rows, 1, kind="stable"))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("vector_bytes", [8, 16, 64])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8])
@pytest.mark.parametrize(("size", "count"), [(5, 5), (7, 1), (15, 2), (64, 64), (97, 97), (97, 5), (131, 33)])
def test_the_width_of_vectors_changes_nothing(size: int, count: int, dtype: type, vector_bytes: int) -> None:
    keys: np.ndarray = np.random.default_rng(size).integers(0, 40, size).astype(dtype)
    np.testing.assert_array_equal(places(keys, count, vector_bytes), np.argsort(keys, kind="stable")[:count])


@pytest.mark.parametrize("size", [2049, 4100])
def test_rows_that_the_nearest_cache_does_not_hold(size: int) -> None:
    keys = np.random.default_rng(size).integers(0, 99, size).astype(np.float32)
    np.testing.assert_array_equal(places(keys, size, 32), np.argsort(keys, kind="stable"))


def _stable(keys: np.ndarray, *, descending: bool) -> np.ndarray:
    """Return the stable order of a row, NaN as the greatest."""
    if not descending:
        return np.argsort(keys, kind="stable")
    return len(keys) - 1 - np.argsort(keys[::-1], kind="stable")[::-1]


_FEW = np.array([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan])


@given(
    random=st.integers(0, 1 << 32).map(np.random.default_rng),
    size=st.one_of(st.integers(1, 40), st.integers(40, 400)),
    wanted=st.floats(0, 1),
    dtype=st.sampled_from(["f2", "f4", "f8", "i1", "i4", "i8", "u1", "u2", "u8", "?"]),
    descending=st.booleans(),
    kind=st.sampled_from(["random", "few", "falling", "rising"]),
    vector_bytes=st.sampled_from([8, 16, 32]),
    way=st.sampled_from(["digits", "network", "selection"]),
)
def test_every_way_to_sort_gives_the_stable_order(
    random: np.random.Generator,
    size: int,
    wanted: float,
    dtype: str,
    descending: bool,
    kind: str,
    vector_bytes: int,
    way: str,
) -> None:
    values = random.choice(_FEW, size) if kind == "few" else random.standard_normal(size) * 100
    if kind in ("falling", "rising"):
        values = np.sort(values)[:: 1 if kind == "rising" else -1]
    with np.errstate(invalid="ignore"):
        keys = values.astype(dtype)
    count = max(1, int(wanted * size))
    costs = {"digits_cost": "digits", "network_cost": "network", "selection_cost": "selection"}
    with pytest.MonkeyPatch.context() as patch:
        for name, each in costs.items():
            patch.setattr(ordering, name, lambda *_, each=each: 0 if each == way else 1)
        found = places(keys, count, vector_bytes, descending=descending)
    np.testing.assert_array_equal(found, _stable(keys, descending=descending)[:count])


@pytest.mark.parametrize(("size", "count", "name"), [(64, 64, "words"), (4096, 4096, "counts"), (4096, 8, "behind")])
def test_the_way_to_sort_is_chosen_by_cost(size: int, count: int, name: str) -> None:
    text = f"function (X[N]) -> (O) {{ O = argsort(X, 0, 0, {count}); }}"
    stages = compile_stages(parse(text), {"X": TensorType(DType.F32, (size,))}, Target(shuffles=True))
    assert name in str(stages.sem)
    assert ("counts" in str(stages.sem)) == (name == "counts")


def test_costs_of_the_ways_to_sort() -> None:
    pair, both = (DType.I64, DType.I64), (DType.I64,)
    assert network_cost(64, 4, both) < digits_cost(64, 4)
    assert network_cost(1 << 16, 4, both) > digits_cost(1 << 16, 4)
    assert network_cost(1 << 12, 4, pair) > network_cost(1 << 12, 4, both)
    assert selection_cost(4096, 8, 4, both) < selection_cost(4096, 512, 4, both) < network_cost(4096, 4, both)


def test_comparisons_of_a_network() -> None:
    assert [network_comparisons(size) for size in (0, 1, 2, 4, 5, 8)] == [0, 0, 1, 6, 18, 24]
