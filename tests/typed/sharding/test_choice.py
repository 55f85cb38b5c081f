"""Shardings that are chosen: right for all programs, and hardly dearer than the best ones there are."""

from __future__ import annotations

import random
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.derivatives import types_of
from strategies.effort import examples
from strategies.sharded import MESHES, assert_partitioned
from strategies.tile import cases
from tileir.core import ArgumentError, DType, ExecutionUnit, HardwareModel, attrs
from tileir.driver.targets import model_of
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType
from tileir.typed.sharding.explanation import seconds
from tileir.typed.sharding.mesh import Mesh, Sharding
from tileir.typed.sharding.partition import partition
from tileir.typed.sharding.prices import ANY_MODEL, Prices
from tileir.typed.sharding.spreading import layouts_of
from tileir.typed.simplify.simplifier import simplify

if TYPE_CHECKING:
    from tileir.typed.ir import Function
    from tileir.typed.sharding.mesh import Layout

TWO = Mesh({"x": 2})


@examples(20)
@given(cases(largest_size=5, empty=True), st.sampled_from(MESHES))
def test_programs_of_which_nothing_is_said(case: Any, mesh: Mesh) -> None:
    function = infer(case.function, types_of(case.inputs))
    assert_partitioned(partition(function, mesh, {}), function, case.inputs)


STATEMENTS = (
    "{0}[i : N] = +(M[i, k] * {1}[k]);",
    "{0}[i : N] = +(M[k, i] * {1}[k]);",
    "{0}[i : N] = +({1}[i + k - 1]), k < 3;",
    "{0} = {1} * {2};",
    "{0}[i : N] = =({1}[N - 1 - i]);",
    "{0}[i : N] = +({1}[i] * {2}[k]);",
    "{0}[i : N] = >({1}[i + 2 * k - 3]), k < 4;",
    "{0}[i : N] = +({1}[i + k] * {2}[i - k]), k < 3;",
)


def drawn(count: int, seed: int) -> Function:
    """Return a program of vectors and a matrix, whose sizes decide between exchanges and work."""
    source = random.Random(seed)
    size, values, lines = source.choice([48, 600, 5000, 60_000]), ["U", "V"], []
    for number in range(count):
        chosen = source.choices(values, k=2)
        lines.append(source.choice(STATEMENTS).format(f"R{number}", *chosen))
        values.append(f"R{number}")
    text = f"function (M[N, N], U[N], V[N]) -> ({values[-1]}) {{ {' '.join(lines)} }}"
    types = {"M": (size, size), "U": (size,), "V": (size,)}
    return simplify(infer(parse(text), {name: TensorType(DType.F32, shape) for name, shape in types.items()}))


LINKS = (0.0, 2.0, 20.0)
"""Microseconds of an exchange: halos cost nothing beside work, little, and more than to compute what others have."""


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("count", "seed"), list(product(range(1, 7), range(12))))
def test_no_other_shardings_are_much_cheaper(count: int, seed: int) -> None:
    assert_hardly_dearer(drawn(count, seed), TWO, LINKS[(count + seed) % 3])


@pytest.mark.sampled(0)
@pytest.mark.parametrize("seed", range(12, 72))
def test_no_other_shardings_of_six_statements_are_much_cheaper(seed: int) -> None:
    assert_hardly_dearer(drawn(6, seed), TWO, LINKS[seed % 3])


@pytest.mark.sampled(0)
@pytest.mark.parametrize(("count", "seed"), list(product(range(1, 3), range(12))))
def test_no_other_shardings_are_much_cheaper_on_two_axes(count: int, seed: int) -> None:
    assert_hardly_dearer(drawn(count, seed), Mesh({"x": 2, "y": 2}), LINKS[(count + seed) % 3])


def assert_hardly_dearer(function: Function, mesh: Mesh, link: float) -> None:
    """Assert that no shardings of all values take much less time than those that are chosen."""
    values = [each for each in (*function.inputs, *function.operations) if each.shape]
    prices = Prices(mesh, attrs.evolve(ANY_MODEL, link_us=link))

    def price(shardings: dict[str, Layout]) -> float:
        return seconds(partition(function, mesh, shardings, model=prices.model), prices)

    every = product(*(layouts_of(each.shape, mesh) for each in values))
    least = min(price(dict(zip((each.name for each in values), layouts, strict=True))) for layouts in every)
    assert price({}) <= 1.2 * least


TEXT = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"


def shardings(sizes: tuple[int, int, int], mesh: Mesh, **given_: Any) -> list[str]:
    m, k, n = sizes
    function = infer(parse(TEXT), {"A": TensorType(DType.F32, (m, k)), "B": TensorType(DType.F32, (k, n))})
    program = partition(function, mesh, {name: Sharding(entries) for name, entries in given_.items()})
    return [" ".join(split.axes[0] if split.axes else "_" for split in program.layout(name)) for name in "ABC"]


def test_the_larger_operand_of_a_product_is_cut() -> None:
    assert shardings((4000, 100, 10), TWO) == ["x _", "_ _", "x _"]
    assert shardings((10, 100, 4000), TWO) == ["_ _", "_ x", "_ x"]
    assert shardings((1000, 1000, 1000), Mesh({"x": 2, "y": 2})) == ["x _", "_ y", "x y"]


def test_what_is_said_of_one_value_decides_on_others() -> None:
    assert shardings((100, 100, 2), TWO, A=(None, "x")) == ["_ x", "x _", "x _"]


def test_slow_links_let_ranks_compute_all_of_a_value() -> None:
    text = "function (A[N]) -> (R) { S[i : N] = +(A[i] * A[j]); R[i : N] = +(S[j] * A[i]); }"
    function = infer(parse(text), {"A": TensorType(DType.F32, (1000,))})
    whole = Sharding((None,))
    for speed, is_shared in ((1e3, True), (1e-6, False)):
        model = HardwareModel("test", 1, execution_units=(ExecutionUnit("CORE"),), link_gbps=speed, link_us=0)
        program = partition(function, TWO, {"A": whole}, {"R": whole}, model)
        assert bool(program.collectives) == is_shared


REFUSED = "function (A[N, N], B[N, N]) -> (C) { C = A + B; }"


def test_what_would_be_laid_out_anew_is_refused() -> None:
    function = infer(parse(REFUSED), {name: TensorType(DType.F32, (40, 40)) for name in "AB"})
    given_ = {"A": Sharding(("x", None)), "B": Sharding((None, "x"))}
    with pytest.raises(ArgumentError) as caught:
        partition(function, TWO, given_, reshard=False)
    (fault,) = caught.value.diagnostics
    assert fault.code == "TIL353"
    assert fault.message == (
        "'C' reads 'B' as [x 0:20 20:40, 0:40], but it is laid out as [0:40, x 0:20 20:40]: shard 'B' as (x, whole), or"
        " shard 'C' otherwise, or allow values to be laid out anew"
    )
    assert [each.kind.value for each in partition(function, TWO, given_).collectives] == ["all_to_all"]


def test_other_shardings_are_chosen_where_nothing_may_be_laid_out_anew() -> None:
    text = "function (A[N, N], W[N, N]) -> (C) { B[i, j : N, N] = +(A[i + k - 1, j]), k < 3; C = B * W; }"
    function = infer(parse(text), {name: TensorType(DType.F32, (400, 400)) for name in "AW"})
    program = partition(function, TWO, {"A": Sharding(("x", None))}, reshard=False)
    assert [each.kind.value for each in program.collectives] == ["halo"]
    assert program.layout("W") == program.layout("C") == program.layout("A")


def test_prices_of_exchanges() -> None:
    model = HardwareModel("test", 1000, link_gbps=10, link_us=3)
    assert model.exchange_seconds(0) == 0
    assert model.exchange_seconds(20_000) == pytest.approx(5e-6)
    function = infer(parse(TEXT), {"A": TensorType(DType.F32, (4, 6)), "B": TensorType(DType.F32, (6, 8))})
    cut = {"A": Sharding((None, "x")), "B": Sharding(("x", None))}
    (found,) = partition(function, TWO, cut, {"C": Sharding((None, None))}).exchanges(model)
    assert (found.statement, found.tensor, found.size) == ("C", "C", 2 * 4 * 8 * 4)
    assert found.seconds == model.exchange_seconds(4 * 8 * 4)
    assert found.cause == "ranks along x have parts of C, of which each needs the whole aggregate"


def test_inputs_that_nothing_reads_are_cut() -> None:
    text = "function (A[N], B[N]) -> (C) { C = A * 2; }"
    function = infer(parse(text), {name: TensorType(DType.F32, (8,)) for name in "AB"})
    assert np.all([not partition(function, TWO, {}).layout(name)[0].is_whole for name in "AB"])


def test_sums_of_gradients_wait_for_no_later_ones() -> None:
    """However many updates stand at the end, each is weighed with its own sum: here an exchange more costs more."""
    names = range(9)
    shapes = {"X": ("B", "K"), "W": ("K", "K")}
    given = ", ".join(f"{kind}{n}[{', '.join(axes)}]" for n in names for kind, axes in shapes.items())
    sums = " ".join(f"D{n}[i, j : K, K] = +(X0[b, i] * X{n}[b, j]);" for n in names)
    updates = " ".join(f"N{n} = W{n} - 0.001 * D{n};" for n in names)
    text = f"function ({given}) -> ({', '.join(f'N{n}' for n in names)}) {{ {sums} {updates} }}"
    types = {f"{kind}{n}": TensorType(DType.BF16, (1024, 1024)) for n in names for kind in shapes}
    function = simplify(infer(parse(text), types))
    cuts = {f"{kind}{n}": Sharding(("x", None) if kind == "X" else (None, None)) for n in names for kind in shapes}
    outputs = {f"N{n}": Sharding((None, None)) for n in names}
    program = partition(function, TWO, cuts, outputs, model_of("nvidia-hopper"))
    assert [each.kind.value for each in program.collectives] == ["all_reduce"] * len(names)
