"""Elementwise kernels behind several that each make some elements of what they read are cut into as many."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.passes import assert_same_meaning, program_of, programs
from tileir import DType, ops
from tileir.core.targets.target import Target
from tileir.driver.compiler import compile_stages
from tileir.passes.base import run
from tileir.passes.regions.split_elementwise import SplitElementwise
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.stripe.check.verifier import verify
from tileir.stripe.ir import Program
from tileir.tile.builder import FunctionBuilder
from tileir.tile.builder_functions import vjp
from tileir.typed.ir import TensorType


def a_sum(into: str, place: tuple[str, ...], counts: tuple[int, ...]) -> str:
    """Return a kernel that sums rows of A into elements of a tensor."""
    over = ", ".join(f"{name}:{count}" for name, count in zip("ij", counts, strict=True))
    return f"""block [{over}, k:3]:{counts[0] * counts[1] * 3} (
        in A[i, j, k] fp32:I(1, 1, 1):(24, 3, 1):4 B
        out {into}[{", ".join(place)}]:add fp32:I(1, 1):(8, 1):4 B
    ) {{
      0: $x = load(A)
      1: {into} = store($x)
    }}"""


def doubled(source: str, into: str, rows: int = 8) -> str:
    return f"""block [a:{rows}, b:8]:{rows * 8} (
        in {source}[a, b] fp32:I(1, 1):(8, 1):4 B
        out {into}[a, b] fp32:I(1, 1):(8, 1):4 B
    ) {{
      0: $x = load({source})
      1: $n = load_index(a + 2*b)
      2: $y = cast_fp32($n)
      3: $z = mul($x, $y)
      4: {into} = store($z)
    }}"""


def sums(steps: tuple[int, int], places: list[tuple[int, int]] | None = None) -> list[str]:
    """Return the sums that make T, one for each residue of its places; or those that begin at some places."""
    down, across = steps
    return [
        a_sum("T", (f"{down}*i + {p}", f"{across}*j + {q}"), (-(-(8 - p) // down), -(-(8 - q) // across)))
        for p, q in places or product(range(down), range(across))
    ]


SIZES = {"A": (8, 8, 3), "T": (8, 8), "U": (8, 8), "O": (8, 8), "P": (8, 8)}


def kept(*names: str) -> dict[str, tuple[int, ...]]:
    return {name: SIZES[name] for name in names}


@st.composite
def parts(draw: st.DrawFn) -> Program:
    steps = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    made = draw(st.permutations(sums(steps)))
    after = draw(st.sampled_from((("TO",), ("TU", "UO"), ("TO", "TP"), ("TU", "UO", "UP"))))
    names = dict.fromkeys("".join(after))
    outputs = tuple(name for name in names if name in "OP")
    return program_of([*made, *(doubled(*pair) for pair in after)], kept("A", *names), outputs)


@given(parts())
@examples(60)
def test_parts_keep_their_meaning(program: Program) -> None:
    after = run((SplitElementwise(),), program)
    verify(after)
    assert_same_meaning(program, after)
    made = sum(any(r.merges for r in kernel.refinements) for kernel in program.main.blocks)
    others = len(program.main.blocks) - made
    assert len(after.main.blocks) == made * (1 + others)
    assert "T" not in {memory.name for memory in after.memory} or made == 1


TURNED = doubled("T", "O").replace("in T[a, b]", "in T[b, a]").replace("(8, 1)", "(1, 8)", 1)


@pytest.mark.parametrize(
    ("kernels", "outputs"),
    [
        ([*sums((2, 1), [(0, 0)]), doubled("T", "O")], "O"),  # some elements are not made
        ([*sums((1, 1)), *sums((1, 1)), doubled("T", "O")], "O"),  # all are made twice
        ([*sums((2, 1), [(0, 0), (0, 0)]), doubled("T", "O")], "O"),  # some twice, and others never
        ([*sums((2, 1)), doubled("T", "O")], "OT"),  # the caller sees them
        ([*sums((2, 1)), doubled("T", "P", rows=4), doubled("T", "O")], "OP"),  # some are read
        ([*sums((2, 1)), doubled("T", "P"), *sums((2, 1)), doubled("T", "O")], "OP"),  # they are made again
        ([*sums((2, 1)), TURNED], "O"),  # they have other axes
    ],
)
def test_others_stay(kernels: list[str], outputs: str) -> None:
    names = [name for name in SIZES if any(f" {name}[" in kernel for kernel in kernels)]
    program = program_of(kernels, kept(*names), tuple(outputs))
    assert run((SplitElementwise(),), program) is program


@given(programs(12))
@examples(60)
def test_programs_keep_their_meaning(program: Program) -> None:
    after = run((SplitElementwise(),), program)
    verify(after)
    assert_same_meaning(program, after)


@pytest.mark.parametrize("layout", ["nxc", "ncx"])
def test_a_gradient_with_strides_is_written_as_it_is_made(layout: str) -> None:
    """Four kernels for four residues of the pixels, and none that reads their sums from memory."""
    builder = FunctionBuilder()
    shapes = {"W": (32, 3, 3, 32), "G": (4, 14, 14, 32), "X": (4, 28, 28, 32)}
    if layout == "ncx":
        shapes = {name: (shape[0], shape[3], *shape[1:3]) for name, shape in shapes.items()}
    weights, cotangent = (builder.input(name, *(f"{name}{axis}" for axis in range(4))) for name in "WG")
    picture = ops.zeros(weights, shapes["X"], dtype=DType.F16)
    kernel_layout = "kxc" if layout == "nxc" else "kcx"
    made = ops.conv(picture, weights, stride=2, padding=1, layout=layout, kernel_layout=kernel_layout)
    result = vjp(made, cotangent, picture)
    types = {name: TensorType(DType.F16, shapes[name]) for name in "WG"}
    target = Target(threads=8, local_bytes=65536, group_threads=256, pipeline="gpu", index_dtype=DType.I32)
    stages = compile_stages(builder.build(R=result), types, target)
    assert len(stages.scheduled.main.blocks) == 4
    assert not [b for b in stages.sem.buffers if b.dtype is DType.F32]


@pytest.mark.parametrize(("window", "padding"), [(3, 1), (2, 0), (5, 2)])
def test_residues_of_single_channels_are_one_kernel(window: int, padding: int) -> None:
    """A thread writes elements of all residues, and elements behind the border are left out."""
    builder = FunctionBuilder()
    shapes = {"G": (2, 6, 8, 8), "W": (6, 1, window, window)}
    cotangent, weights = (builder.input(name, *(f"{name}{axis}" for axis in range(4))) for name in "GW")
    made = ops.conv_transpose(cotangent, weights, stride=2, padding=padding, output_size=(16, 16), groups=6)
    target = Target(threads=8, local_bytes=65536, group_threads=256, pipeline="gpu", index_dtype=DType.I32)
    types = {name: TensorType(DType.F16, shape) for name, shape in shapes.items()}
    stages = compile_stages(builder.build(R=made), types, target)
    assert len(stages.sem.kernels) == 1
    assert not [b for b in stages.sem.buffers if b.dtype is DType.F32]
    rng = np.random.default_rng(3)
    values = {name: rng.integers(-3, 4, shape).astype(np.float16) for name, shape in shapes.items()}
    values["W"].flat[0] = np.inf
    with np.errstate(invalid="ignore"):
        found = run_program(stages.sem, values, ALL_CHECKS)["R"]
        padded = np.zeros((2, 6, 16 + 2 * padding + window, 16 + 2 * padding + window), np.float32)
        for p, q, i, j in product(range(8), range(8), range(window), range(window)):
            term = values["G"][:, :, p, q].astype(np.float32) * values["W"][:, 0, i, j].astype(np.float32)
            padded[:, :, 2 * p + i, 2 * q + j] += term
    wanted = padded[:, :, padding : padding + 16, padding : padding + 16].astype(np.float16)
    np.testing.assert_array_equal(found, wanted)
