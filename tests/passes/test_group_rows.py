from __future__ import annotations

import math

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.passes import arrays_for, assert_same_meaning
from strategies.pipelines import gpu
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.fusion.fuse import Fuse, Fusion
from tileir.passes.fusion.inline import Inline
from tileir.passes.rewrites.localise import Localise
from tileir.passes.rewrites.scalarise import Scalarise
from tileir.passes.rewrites.shadow import Shadow
from tileir.passes.schedules.groups.distribute import Distribute
from tileir.passes.schedules.groups.group_rows import GroupRows
from tileir.semtree.analysis.effects import reads
from tileir.semtree.check.verifier import verify_program
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.ir import Barrier, DeclareArray, KernelFunction, Program, Region
from tileir.semtree.lower.lowering import lower
from tileir.semtree.rewrite import statements
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.lower.lowering import lower as lower_to_stripe
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

TEXTS = {
    "map between reductions": """function (X[M, N]) -> (O) {
        P[m, 0 : M, 1] = >(X[m, n]); E = (X - P) * X; S[m, 0 : M, 1] = +(E[m, n]); O = E - S;
    }""",
    "results that are read back": """function (X[M, N]) -> (O, E, S) {
        P[m, 0 : M, 1] = >(X[m, n]); E = (X - P) * X; S[m, 0 : M, 1] = +(E[m, n]); O = E - S;
    }""",
    "reductions of one row": """function (X[M, N], G[N]) -> (O) {
        P[m, 0 : M, 1] = >(X[m, n]); S[m, 0 : M, 1] = +(X[m, n]); O = X * G - S * P;
    }""",
    "a row in another order": """function (X[M, N]) -> (O) {
        P[m, 0 : M, 1] = >(X[m, n]); E = X - P; O[m, n : M, N] = =(E[m, N - 1 - n]);
    }""",
    "a running sum": """function (X[M, N]) -> (O) {
        P[m, 0 : M, 1] = >(X[m, n]); E = X - P; S[m, 0 : M, 1] = +(E[m, n]); D = E * S;
        O[m, n : M, N] = +(D[m, n - j]), j < 3;
    }""",
    "results among zeros": """function (X[M, N]) -> (O) {
        P[m, 0 : M, 1] = >(X[m, n]); E = X - P; O[m, 1 + 2 * n : M, 2 * N + 2] = =(E[m, n]);
    }""",
    "columns": """function (X[N, M]) -> (O, S) {
        P[0, m : 1, M] = >(X[n, m]); E = (X - P) * X; S[0, m : 1, M] = +(E[n, m]); O = E - S;
    }""",
    "columns of several matrices": """function (X[N, M]) -> (O) {
        Y[a, n, m : 2, N, M] = =(X[n, m]); P[a, 0, m : 2, 1, M] = >(Y[a, n, m]); O = Y * Y - P;
    }""",
    "columns with weights": """function (X[N, M], G[M]) -> (O) {
        P[0, m : 1, M] = >(X[n, m]); S[0, m : 1, M] = +(X[n, m] * G[m]); O = X * G * S - P;
    }""",
    "columns in another order": """function (X[N, M]) -> (O) {
        P[0, m : 1, M] = >(X[n, m]); E = X - P; O[n, m : N, M] = =(E[N - 1 - n, m]);
    }""",
    "rows of several stretches": """function (X[N, M]) -> (O) {
        Y[a, n, m : 3, N, M] = =(X[n, m]); P[0, n, 0 : 1, N, 1] = >(Y[a, n, m]); O = Y * Y - P;
    }""",
    "rows that data choose": """function (I[M], W[V, N]) -> (O) {
        Y = gather(W, I); P[m, 0 : M, 1] = >(Y[m, n]); E = (Y - P) * Y; S[m, 0 : M, 1] = +(E[m, n]); O = E - S;
    }""",
    "rows that data choose beside others": """function (I[M], W[V, N], X[M, N]) -> (O, E) {
        Y = gather(W, I) + X; P[m, 0 : M, 1] = >(Y[m, n]); E = Y - P; S[m, 0 : M, 1] = +(E[m, n]); O = E - S * X;
    }""",
    "rows whose numbers are computed": """function (I[M], W[V, N]) -> (O) {
        J = mod(I * I + 3, 5); Y = gather(W, J); P[m, 0 : M, 1] = >(Y[m, n]); E = (Y - P) * Y;
        S[m, 0 : M, 1] = +(E[m, n]); O = E - S;
    }""",
    "rows whose numbers are put out": """function (I[M], W[V, N], X[M, N]) -> (O, J) {
        J = mod(I * I + 3, 5); Y = gather(W, J) + X; P[m, 0 : M, 1] = >(Y[m, n]); O = Y - P;
    }""",
    "rows whose numbers their own elements give": """function (X[M, N], W[V, N]) -> (O) {
        P[m, 0 : M, 1] = >(X[m, n]); J = mod(P * P, 5); Y = gather(W, reshape(J, M)); S[m, 0 : M, 1] = +(Y[m, n]);
        O = Y - S + X;
    }""",
    "elements that data choose": """function (I[M, N], W[V, N]) -> (O) {
        Y = gather(reshape(W, V * N), mod(I * I, V * N)); P[m, 0 : M, 1] = >(Y[m, n]); E = (Y - P) * Y;
        S[m, 0 : M, 1] = +(E[m, n]); O = E - S;
    }""",
    "elements of a row that data choose": """function (X[M, N], C[N]) -> (O) {
        P[m, 0 : M, 1] = >(X[m, n]); E = X - P; T[n, m : N, M] = =(E[m, n]); Y = gather(T, mod(C * C, N));
        S[0, m : 1, M] = +(Y[n, m]); O = Y * S;
    }""",
    "results in two halves": """function (X[M, N]) -> (O) {
        P[m, 0 : M, 1] = >(X[m, n]); E = X * P; D = X - P;
        L[m, 2 * n : M, 2 * N] = =(E[m, n]); R[m, 2 * n + 1 : M, 2 * N] = =(D[m, n]); O = L + R;
    }""",
}


def joined(options: GroupRows) -> tuple[object, ...]:
    fusion = Fusion(
        rows=True, least_row=1, least_points=1, beside_bytes=8, local_bytes=options.local_bytes, fused_set=("rows",)
    )
    rows = (fusion, Fuse(parent_reqs=("rows",)))
    return (Inline(), Accumulate(), Fuse(), *rows, Localise(), Shadow(), Scalarise(), options, Distribute(threads=4))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", TEXTS)
@given(
    sizes=st.tuples(st.integers(1, 9), st.integers(1, 70)),
    threads=st.sampled_from([1, 2, 8, 32, 64]),
    register_bytes=st.sampled_from([0, 16, 32, 256]),
    local_bytes=st.sampled_from([64, 1024, 16 * 1024]),
    vectors=st.sampled_from([1, 2]),
    alone=st.sampled_from([0, 1 << 20]),
    together=st.sampled_from([1, 2]),
)
@examples(30)
def test_rows_of_all_lengths(
    name: str,
    sizes: tuple[int, int],
    threads: int,
    register_bytes: int,
    local_bytes: int,
    vectors: int,
    alone: int,
    together: int,
) -> None:
    types = {"X": TensorType(DType.I32, sizes), "G": TensorType(DType.I32, sizes[1:])}
    types |= {"C": TensorType(DType.I32, sizes[1:]), "W": TensorType(DType.I32, (5, sizes[1]))}
    types["I"] = types["X"] if "I[M, N]" in TEXTS[name] else TensorType(DType.I32, sizes[:1])
    tile = parse(TEXTS[name])
    program = lower_to_stripe(infer(tile, {p.name: types[p.name] for p in tile.inputs}))
    options = GroupRows(
        min(threads, 32),
        threads,
        width=8,
        vectors=vectors,
        register_bytes=register_bytes,
        local_bytes=local_bytes,
        vector_bytes=16,
        alone=alone,
        together=together,
    )
    after = run(joined(options), program)  # type: ignore[arg-type]
    arrays = arrays_for(program)
    assert_same_meaning(program, after, arrays)
    target = Target(vector_bytes=16, local_bytes=local_bytes, group_threads=64, index_dtype=DType.I32)
    kernels = lower(after, target)
    verify_program(kernels)
    found = run_program(kernels, arrays, ALL_CHECKS)
    for output, expected in interpret(program, arrays).items():
        np.testing.assert_array_equal(found[output], expected)


ROWS_TARGET = Target(
    vector_bytes=16, local_bytes=48 * 1024, group_threads=1024, group_width=32, threads=8, pipeline="gpu"
)


def kernels_of(text: str, sizes: tuple[int, int], target: Target = ROWS_TARGET, dtype: DType = DType.F32) -> Program:
    types = {"X": TensorType(dtype, sizes)}
    return lower(run(gpu(target), lower_to_stripe(infer(parse(text), types))), target)


SOFTMAX = """function (X[M, N]) -> (O) {
    P[m, 0 : M, 1] = >(X[m, n]); E = exp(X - P); S[m, 0 : M, 1] = +(E[m, n]); O = E / S;
}"""


def test_softmax_is_one_kernel_that_reads_its_rows_once() -> None:
    (kernel,) = kernels_of(SOFTMAX, (512, 4096)).kernels
    assert kernel.group == (256,)
    arrays = {s.name: s for s in statements(kernel.body) if isinstance(s, DeclareArray)}
    kept = [a.size for a in arrays.values() if a.region is Region.PRIVATE and a.size > 4]
    assert kept == [16]  # 4096 elements among 256 threads: the row, and then its exponentials
    assert sum(isinstance(s, Barrier) for s in statements(kernel.body)) == 6


def test_rows_that_data_choose_are_shared_by_threads() -> None:
    """A layer norm of the rows of a table, such as those of words."""
    tile = parse("""function (I[M], W[V, N]) -> (O) {
        Y = gather(W, I); S[m, 0 : M, 1] = +(Y[m, n]); E = Y - S; Q[m, 0 : M, 1] = +(E[m, n] * E[m, n]); O = E * Q;
    }""")
    types = {"I": TensorType(DType.I64, (512,)), "W": TensorType(DType.F32, (5000, 768))}
    (kernel,) = lower(run(gpu(ROWS_TARGET), lower_to_stripe(infer(tile, types))), ROWS_TARGET).kernels
    assert (kernel.grid, kernel.group) == ((512,), (256,))


@pytest.mark.parametrize("numbers", ["I + 1", "broadcast"])
def test_numbers_of_rows_are_computed_by_the_threads_that_share_them(numbers: str) -> None:
    """Numbers of positions are one row for all sentences of a batch."""
    sentences = "K[a, b : A, B] = =(J[b]);" if numbers == "broadcast" else "K = I + 1;"
    tile = parse(f"""function (I[A, B], J[B], W[V, N], Z[U, N]) -> (O) {{
        {sentences} Y = gather(W, I) + gather(Z, K); S[a, b, 0 : A, B, 1] = +(Y[a, b, n]); E = Y - S;
        Q[a, b, 0 : A, B, 1] = +(E[a, b, n] * E[a, b, n]); O = E * Q;
    }}""")
    types = {"I": TensorType(DType.I64, (8, 64)), "J": TensorType(DType.I64, (64,))}
    types |= {"W": TensorType(DType.F32, (5000, 768)), "Z": TensorType(DType.F32, (512, 768))}
    (kernel,) = lower(run(gpu(ROWS_TARGET), lower_to_stripe(infer(tile, types))), ROWS_TARGET).kernels
    assert (math.prod(kernel.grid), kernel.group) == (512, (256,))


def test_threads_share_rows_whose_elements_data_choose() -> None:
    tile = parse("""function (X[L], I[M, N]) -> (O) {
        Y = gather(X, I); S[m, 0 : M, 1] = +(Y[m, n]); E = Y - S; Q[m, 0 : M, 1] = +(E[m, n] * E[m, n]); O = E * Q;
    }""")
    types = {"X": TensorType(DType.F32, (6144,)), "I": TensorType(DType.I64, (8, 768))}
    (kernel,) = lower(run(gpu(ROWS_TARGET), lower_to_stripe(infer(tile, types))), ROWS_TARGET).kernels
    assert (kernel.grid, kernel.group) == ((8,), (256,))


def test_short_rows_share_a_group() -> None:
    (kernel,) = kernels_of(SOFTMAX, (4096, 128)).kernels
    assert (kernel.grid, kernel.group) == ((512,), (256,))


def test_long_rows_get_more_threads() -> None:
    (kernel,) = kernels_of(SOFTMAX, (512, 1 << 14)).kernels
    assert kernel.group == (1024,)


def kept_of(kernel: KernelFunction) -> dict[tuple[str, Region], int]:
    """Return the sizes of arrays that hold more than a vector of a row, by name."""
    arrays = (each for each in statements(kernel.body) if isinstance(each, DeclareArray))
    return {(each.name, each.region): each.size for each in arrays if each.name.endswith(("_row", "_near"))}


def test_exponentials_of_rows_that_nothing_can_hold_are_computed_again() -> None:
    """Registers of 1024 threads keep half of a row, 48 KiB of local memory an eighth, and the rest is read again."""
    (kernel,) = kernels_of(SOFTMAX, (512, 1 << 16)).kernels
    assert (kernel.grid, kernel.group) == ((512,), (1024,))
    assert kept_of(kernel) == {("X_row", Region.PRIVATE): 32, ("X_near", Region.LOCAL): 8192}
    assert sum(isinstance(s, Barrier) for s in statements(kernel.body)) == 6


def test_rows_that_many_groups_read_from_a_cache_are_not_kept_in_part() -> None:
    text = "function (X[M, N]) -> (O) { P[m, 0 : M, 1] = >(X[m, n]); O = X - P; }"
    target = attrs.evolve(ROWS_TARGET, cache_bytes=(1 << 26,))
    (kernel,) = kernels_of(text, (512, 1 << 16), target).kernels
    assert kept_of(kernel) == {}
    (alone,) = kernels_of(text, (8, 1 << 16), target).kernels
    assert kept_of(alone) == {("X_row", Region.PRIVATE): 32, ("X_near", Region.LOCAL): 8192}


HELD = attrs.evolve(ROWS_TARGET, local_bytes=224 * 1024, threads=132)


def loads_of(kernel: KernelFunction, name: str) -> int:
    """Return how many statements load from an array."""
    return sum(place.array == name for each in statements(kernel.body) for place in reads(each))


@pytest.mark.parametrize(("dtype", "registers", "width"), [(DType.F32, 32, 50257), (DType.F16, 32, 60001)])
def test_exponentials_take_the_places_of_rows_that_registers_hold_in_part(
    dtype: DType, registers: int, width: int
) -> None:
    (kernel,) = kernels_of(SOFTMAX, (512, width), HELD, dtype).kernels
    left = -(-width // 1024) - registers
    assert kept_of(kernel) == {("E_row", Region.PRIVATE): registers, ("E_near", Region.LOCAL): left * 1024}
    assert loads_of(kernel, "X") == 3  # for registers, for local memory, and at the end


WIDENED = """function (X[M, N]) -> (O) {
    W = as_float(X, 32); P[m, 0 : M, 1] = >(W[m, n]); E = exp(W - P); S[m, 0 : M, 1] = +(E[m, n]);
    O = as_float(E / S, 16);
}"""


def test_long_rows_of_narrow_elements_are_kept_as_they_are_read() -> None:
    """Exponentials in f32 are computed again, of elements that registers and local memory have room for."""
    (kernel,) = kernels_of(WIDENED, (2048, 100_000), HELD, DType.F16).kernels
    assert kept_of(kernel) == {("X_row", Region.PRIVATE): 32, ("X_near", Region.LOCAL): 9 * 8192}
    assert loads_of(kernel, "X") == 3  # for registers, for local memory, and at the end
    (short,) = kernels_of(WIDENED, (2048, 1 << 14), HELD, DType.F16).kernels
    assert kept_of(short)["E_row", Region.PRIVATE] == 32  # registers suffice for exponentials


def test_threads_take_fewer_vectors_of_which_they_keep_wider_elements() -> None:
    (widened,) = kernels_of(WIDENED, (4096, 8192), HELD, DType.F16).kernels
    assert (widened.group, kept_of(widened)["E_row", Region.PRIVATE]) == ((512,), 16)
    (warp,) = kernels_of(WIDENED, (65536, 1000), HELD, DType.F16).kernels
    assert (warp.grid, kept_of(warp)["E_row", Region.PRIVATE]) == ((8192,), 32)
    (narrow,) = kernels_of(SOFTMAX, (4096, 8192), HELD, DType.F16).kernels
    assert (narrow.group, kept_of(narrow)) == ((256,), {("E_row", Region.PRIVATE): 32})


def test_rows_that_are_read_again_later_keep_their_places() -> None:
    text = SOFTMAX.replace("O = E / S", "O = E / S + X")
    (kernel,) = kernels_of(text, (512, 4096)).kernels
    assert kept_of(kernel) == {("E_row", Region.PRIVATE): 16, ("X_row", Region.PRIVATE): 16}


COLUMNS = SOFTMAX.replace("P[m, 0 : M, 1]", "P[0, n : 1, N]").replace("S[m, 0 : M, 1]", "S[0, n : 1, N]")


def rows_together(text: str, sizes: tuple[int, int], dtype: DType, together: int) -> KernelFunction:
    """Return the kernel of softmax where so many groups share a processor."""
    types = {"X": TensorType(dtype, sizes)}
    passes = gpu(HELD)
    rows = [attrs.evolve(each, together=together) if isinstance(each, GroupRows) else each for each in passes]
    (kernel,) = lower(run(tuple(rows), lower_to_stripe(infer(parse(text), types))), HELD).kernels
    return kernel


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("text", "sizes", "dtype", "threads"),
    [
        (SOFTMAX, (2048, 1 << 15), DType.F16, 512),
        (SOFTMAX, (2048, 50257), DType.F16, 512),
        (SOFTMAX, (2048, 1 << 15), DType.F32, 1024),  # fill the registers of a processor
        (SOFTMAX, (2048, 40001), DType.F32, 1024),
        (SOFTMAX, (132, 1 << 15), DType.F16, 1024),  # one for each processor
        (SOFTMAX, (2048, 4096), DType.F16, 256),  # several fit anyway
        (COLUMNS, (4096, 4096), DType.F32, 512),
        (COLUMNS, (4096, 4096), DType.F16, 1024),  # single elements take a register each
    ],
)
def test_groups_share_a_processor_where_they_keep_their_rows(
    text: str, sizes: tuple[int, int], dtype: DType, threads: int
) -> None:
    kernel = rows_together(text, sizes, dtype, 2)
    assert (kernel.grid, kernel.group) == (rows_together(text, sizes, dtype, 1).grid, (threads,))
    local = (s for s in statements(kernel.body) if isinstance(s, DeclareArray) and s.region is Region.LOCAL)
    assert 1024 // max(512, threads) * sum(s.size * s.dtype.itemsize for s in local) <= HELD.local_bytes


def test_single_elements_that_are_narrow_take_a_register_each() -> None:
    """A thread has 64 elements of f16 of a column, of whose exponentials it keeps a half in local memory."""
    target = attrs.evolve(ROWS_TARGET, local_bytes=224 * 1024, threads=132)
    (kernel,) = kernels_of(COLUMNS, (4096, 4096), target, DType.F16).kernels
    assert (kernel.grid, kernel.group) == ((256,), (1024,))
    assert kept_of(kernel) == {("E_row", Region.PRIVATE): 32, ("E_near", Region.LOCAL): 32 * 1024}
    (whole,) = kernels_of(COLUMNS, (1000, 1000), target, DType.F16).kernels
    assert kept_of(whole) == {("E_row", Region.PRIVATE): 32}


def test_columns_are_taken_by_neighbouring_threads() -> None:
    (kernel,) = kernels_of(COLUMNS, (1000, 1000)).kernels
    assert (kernel.grid, kernel.group) == ((63,), (512,))  # 16 columns, and 32 threads for each
    assert kept_of(kernel) == {("E_row", Region.PRIVATE): 32}
    (short,) = kernels_of(COLUMNS, (8, 1 << 16)).kernels
    assert (short.grid, short.group) == ((256,), (256,))  # a thread for each
    assert not any(isinstance(s, Barrier) for s in statements(short.body))
