"""Kernels that write different elements of a tensor run in one launch, and mean what they meant."""

from __future__ import annotations

from itertools import product

import attrs
import numpy as np
import pytest
from hypothesis import example, given, strategies as st

from strategies.effort import examples
from strategies.passes import arrays_for, assert_same_meaning, program_of, programs
from strategies.pipelines import gpu
from tileir import DType, ops
from tileir.core.targets.target import Target
from tileir.driver.compiler import Stages, compile_stages
from tileir.passes.base import run
from tileir.passes.regions.side_by_side import SideBySide
from tileir.semtree.check.verifier import verify_program
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.ir import BufferRole, BulkCopy
from tileir.semtree.lower.lowering import lower
from tileir.semtree.rewrite import statements
from tileir.stripe.check.verifier import verify
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Program
from tileir.stripe.tags import BESIDE
from tileir.tile.builder import FunctionBuilder
from tileir.tile.builder_functions import vjp
from tileir.typed.interpreter import interpret as interpret_typed
from tileir.typed.ir import TensorType


def a_sum(place: tuple[str, str], counts: tuple[int, int], terms: int, source: str = "A") -> str:
    """Return a kernel that sums so many elements of rows for some elements of a tensor."""
    return f"""block [i:{counts[0]}, j:{counts[1]}, k:{terms}]:{counts[0] * counts[1] * terms} (
        in {source}[i, j, k] fp32:I(1, 1, 1):(96, 12, 1):4 B
        out O[{place[0]}, {place[1]}]:add fp32:I(1, 1):(8, 1):4 B
    ) {{
      0: $x = load({source})
      1: O = store($x)
    }}"""


SIZES = {"A": (8, 8, 12), "O": (8, 8)}


@st.composite
def residues(draw: st.DrawFn) -> tuple[Program, int]:
    """Return a program of sums for each residue of the places, or some of them, and how many."""
    steps = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    places = draw(st.permutations(list(product(*map(range, steps)))))
    kept = places[: draw(st.integers(1, len(places)))]
    kernels = [
        a_sum(
            (f"{steps[0]}*i + {p}", f"{steps[1]}*j + {q}"),
            (-(-(8 - p) // steps[0]), -(-(8 - q) // steps[1])),
            draw(st.integers(1, 12)),
        )
        for p, q in kept
    ]
    return program_of(kernels, SIZES), len(kept)


@given(
    residues(),
    st.sampled_from([1, 16, 64]),
    st.sampled_from([0, 256, 48 * 1024]),
    st.sampled_from([DType.I32, DType.I64]),
)
@examples(60)
def test_residues_keep_their_meaning(drawn: tuple[Program, int], threads: int, local: int, index: DType) -> None:
    program, count = drawn
    tagged = run((SideBySide(),), program)
    verify(tagged)
    assert [kernel.tags.get(BESIDE) for kernel in tagged.main.blocks] == ([None] if count == 1 else list(range(count)))
    target = Target(vector_bytes=16, threads=4, local_bytes=local, group_threads=threads, index_dtype=index)
    scheduled = run(gpu(target), program)
    arrays = arrays_for(program)
    kernels = lower(scheduled, target)
    verify_program(kernels)
    found = run_program(kernels, arrays, ALL_CHECKS)["O"]
    written = np.zeros(SIZES["O"], bool)
    for kernel in program.main.blocks:
        (out,) = (view for view in kernel.refinements if view.direction.writes)
        ranges = [range(kernel.ranges[name]) for name in "ij"]
        for i, j in product(*ranges):
            written[tuple(int(at.evaluate({"i": i, "j": j})) for at in out.access)] = True
    np.testing.assert_array_equal(found[written], interpret(program, arrays)["O"][written])


@pytest.mark.parametrize(
    "kernels",
    [
        [a_sum(("2*i", "j"), (4, 8), 3), a_sum(("i", "2*j"), (8, 4), 3)],  # some elements are of both
        [a_sum(("i", "j"), (8, 8), 3), a_sum(("i", "j"), (8, 8), 3)],
        [a_sum(("i", "j"), (4, 8), 3), a_sum(("i + 3", "j"), (4, 8), 3)],
        [a_sum(("2*i", "j"), (4, 8), 3)],
    ],
)
def test_others_stay(kernels: list[str]) -> None:
    program = program_of(kernels, SIZES)
    assert run((SideBySide(),), program) is program


@given(programs(12))
@examples(60)
def test_programs_keep_their_meaning(program: Program) -> None:
    after = run((SideBySide(),), program)
    verify(after)
    assert_same_meaning(program, after)


CARD = Target(
    vector_bytes=16,
    threads=1,
    local_bytes=96 * 1024,
    group_threads=256,
    group_width=32,
    max_lanes=8,
    index_dtype=DType.I32,
    async_copies=True,
    fragments=("mma_m16n8k16_f16", "mma_m16n8k16_bf16"),
    pipeline="gpu",
)


def gradient(dtype: DType, edge: int, layout: str, batch: int = 1) -> Stages:
    """Return what becomes of the gradient of 3x3/2 by its input for a card."""
    builder = FunctionBuilder()
    shapes = {"W": (32, 3, 3, 64), "G": (batch, edge // 2, edge // 2, 32), "X": (batch, edge, edge, 64)}
    if layout == "ncx":
        shapes = {name: (first, last, down, across) for name, (first, down, across, last) in shapes.items()}
    weights, cotangent = (builder.input(name, *(f"{name}{axis}" for axis in range(4))) for name in "WG")
    picture = ops.zeros(weights, shapes.pop("X"), dtype=dtype)
    kernel_layout = "kxc" if layout == "nxc" else "kcx"
    made = ops.conv(picture, weights, stride=2, padding=1, layout=layout, kernel_layout=kernel_layout)
    result = vjp(made, cotangent, picture)
    types = {name: TensorType(dtype, shape) for name, shape in shapes.items()}
    return compile_stages(builder.build(R=result), types, CARD)


@pytest.mark.sampled(0)
@pytest.mark.parametrize(
    ("dtype", "edge", "layout"), [(DType.F16, 16, "nxc"), (DType.F32, 12, "nxc"), (DType.F16, 16, "ncx")]
)
def test_a_gradient_with_strides_is_one_launch(dtype: DType, edge: int, layout: str) -> None:
    """Kernels of products with local memory, copies under way and threads that meet."""
    stages = gradient(dtype, edge, layout)
    assert len(stages.sem.works) == 1
    random = np.random.default_rng(0)
    inputs = (each for each in stages.sem.buffers if each.role is BufferRole.INPUT)
    arrays = {each.name: random.integers(-2, 3, each.shape).astype(dtype.numpy) for each in inputs}
    found = run_program(stages.sem, arrays, ALL_CHECKS)
    np.testing.assert_array_equal(found["R"], interpret_typed(stages.typed, arrays)["R"])


def test_threads_beside_each_other_write_pixels_of_a_row() -> None:
    """Every second one: no output has a neighbour in its kernel, and there are more pictures than pixels in a row."""
    for kernel in gradient(DType.F16, 28, "ncx", batch=16).scheduled.main.blocks:
        assert "#thread v3_1_thread" in str(kernel)
        assert "#thread v0_0_thread" not in str(kernel)


def test_kernels_of_one_launch_have_small_tiles() -> None:
    """One thread would ask for boxes of large ones: on an H200, 3x3/2 over 56 x 56 x 128 took 38 us so, and 33."""
    with pytest.MonkeyPatch.context() as patch:
        fragments = ("wgmma_m64n64k16_f16", "wgmma_m64n128k16_f16")
        card = attrs.evolve(CARD, local_bytes=227 * 1024, bulk_copies=True, fragments=fragments)
        patch.setattr(f"{__name__}.CARD", card)
        stages = gradient(DType.F16, 64, "nxc", batch=32)
    assert len(stages.sem.works) == 1
    assert not [stmt for kernel in stages.sem.kernels for stmt in statements(kernel.body) if isinstance(stmt, BulkCopy)]


@given(st.integers(1, 70), st.integers(1, 40), st.sampled_from([64, 96]), st.integers(1, 3), st.booleans())
@examples(15)
@example(8, 2, 96, 2, False)  # one launch, as the groups of all are of 256 threads
def test_products_beside_copies_have_all_their_local_memory(
    rows: int, depth: int, columns: int, copies: int, first: bool
) -> None:
    """A copy has none, and each factor of the product a tile of its own."""
    builder = FunctionBuilder()
    left, right, copied = (builder.input(name, *sizes) for name, sizes in (("A", "MK"), ("B", "KN"), ("C", "PN")))
    pieces = [*(copied,) * copies, ops.matmul(left, right)]
    result = ops.concatenate(pieces[::-1] if first else pieces)
    shapes = {"A": (rows, depth), "B": (depth, columns), "C": (64, columns)}
    types = {name: TensorType(DType.F32, shape) for name, shape in shapes.items()}
    stages = compile_stages(builder.build(R=result), types, CARD)
    random = np.random.default_rng(0)
    arrays = {name: random.integers(-2, 3, shape).astype(np.float32) for name, shape in shapes.items()}
    found = run_program(stages.sem, arrays, ALL_CHECKS)
    np.testing.assert_array_equal(found["R"], interpret_typed(stages.typed, arrays)["R"])
