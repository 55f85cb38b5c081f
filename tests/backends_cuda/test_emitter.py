"""Kernels as PTX: what LLVM makes of each construct, for every architecture; no card is needed."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import tileir
from strategies.fragment_kernels import held_product_by, product_by
from tileir.core.dtype import DType
from tileir.core.errors import BackendError
from tileir.core.fragments import FRAGMENTS
from tileir.core.ops import Op
from tileir.semtree.ir import (
    Apply,
    Assign,
    AsyncCopy,
    Barrier,
    Broadcast,
    Const,
    DeclareArray,
    GridIndex,
    GridLevel,
    If,
    KernelFunction,
    Param,
    ParamAccess,
    Region,
    Subscript,
    Type,
)
from tileir.semtree.text.parser import parse_kernel
from tileir_cuda.architectures import ARCHITECTURES, architecture_for
from tileir_cuda.emit.emitter import blocks, emit
from tileir_cuda.emit.products import OF_WARPS
from tileir_cuda.emit.ptx import ptx
from tileir_cuda.emit.statements import SharedMemory
from tileir_cuda.emit.warpgroups import OF_WARPGROUPS

INDEX = Type(DType.I32)
F32 = Type(DType.F32)
HOPPER = ARCHITECTURES["sm_90a"]
PRODUCT = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"


def constant(value: int) -> Const:
    return Const(value, INDEX)


def own(axis: int = 0) -> GridIndex:
    return GridIndex(GridLevel.LOCAL, axis, INDEX)


def kernel(
    *body: object, grid: tuple[int, ...] = (4,), group: tuple[int, ...] = (32,), size: int = 1024
) -> KernelFunction:
    params = (
        Param("a", DType.F32, size, ParamAccess.READ, alignment=256),
        Param("b", DType.F32, size, ParamAccess.WRITE, alignment=256),
    )
    return KernelFunction("k", params, body, grid, group, DType.I32)  # type: ignore[arg-type]


def code(*body: object, **how: object) -> str:
    return ptx([emit(kernel(*body, **how), HOPPER)], HOPPER)  # type: ignore[arg-type]


def times(left: object, right: int) -> Apply:
    return Apply(Op.MUL, (left, constant(right)))  # type: ignore[arg-type]


def plus(left: object, right: object) -> Apply:
    return Apply(Op.ADD, (left, right))  # type: ignore[arg-type]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_architecture_gets_code_of_its_own_version(name: str) -> None:
    text = tileir.compile(PRODUCT, ["f32[64, 48]", "f32[48, 80]"], device=f"cuda.{name}").listing("ptx")
    row = ARCHITECTURES[name]
    assert f".target {name}" in text
    assert f".version {row.ptx // 10}.{row.ptx % 10}" in text
    assert ".visible .entry k0_" in text


@pytest.mark.parametrize(
    ("capability", "name"),
    [((7, 5), None), ((8, 0), "sm_80"), ((8, 6), "sm_86"), ((8, 7), "sm_86"), ((9, 0), "sm_90a"), ((10, 0), "sm_100a"),
     ((10, 3), "sm_89"), ((12, 0), "sm_120"), ((12, 1), "sm_120"), ((13, 0), "sm_120")],
)  # fmt: skip
def test_cards_get_their_own_code_or_the_latest_that_runs_on_them(
    capability: tuple[int, int], name: str | None
) -> None:
    row = architecture_for(capability)
    assert (row.name if row else None) == name


@pytest.mark.parametrize(("lanes", "wanted"), [(4, r"\.v4"), (2, r"\.v2"), (1, r"\.b32")])
def test_vectors_are_moved_whole_where_they_are_aligned(lanes: int, wanted: str) -> None:
    kind = Type(DType.F32, lanes)
    place = times(plus(times(GridIndex(GridLevel.GROUP, 0, INDEX), 32), own()), lanes)
    text = code(Assign(Subscript("b", place, kind), Subscript("a", place, kind)))
    assert re.search(rf"ld\.global\.nc{wanted}", text)
    assert re.search(rf"st\.global{wanted}", text)


def test_vectors_that_may_not_be_aligned_are_moved_in_parts() -> None:
    kind = Type(DType.F32, 4)
    place = plus(times(own(), 4), constant(1))
    text = code(Assign(Subscript("b", place, kind), Subscript("a", place, kind)))
    assert ".v4" not in text
    assert ".v2" not in text
    assert len(re.findall(r"st\.global", text)) == 4


def test_threads_meet_and_share_memory() -> None:
    turned = Apply(Op.SUB, (constant(31), own()))
    text = code(
        DeclareArray("s", DType.F32, 32, Region.LOCAL),
        Assign(Subscript("s", own(), F32), Subscript("a", own(), F32)),
        Barrier(),
        Assign(Subscript("b", own(), F32), Subscript("s", turned, F32)),
    )
    assert re.search(r"\.shared \.align 16 \.b8 \w+[^\n]*\[128\];", text)
    order = [text.index(word) for word in ("st.shared", "bar.sync", "ld.shared")]
    assert order == sorted(order)


@pytest.mark.parametrize(
    ("lanes", "wanted"), [(1, "ca.shared.global"), (2, "ca.shared.global"), (4, "cg.shared.global")]
)
def test_copies_go_on_beside_the_threads_where_both_ends_are_aligned(lanes: int, wanted: str) -> None:
    kind = Type(DType.F32, lanes)
    place = times(own(), lanes)
    array = DeclareArray("s", DType.F32, 32 * lanes, Region.LOCAL)
    copied = AsyncCopy(Subscript("s", place, kind), Subscript("a", place, kind))
    text = code(array, copied, Barrier(), Assign(Subscript("b", own(), F32), Subscript("s", own(), F32)))
    assert re.search(rf"cp\.async\.{wanted} \[%rd\d+\], \[%rd\d+\], {4 * lanes};", text)
    shifted = AsyncCopy(copied.target, Subscript("a", plus(place, constant(1)), kind))
    text = code(array, shifted, Barrier(), Assign(Subscript("b", own(), F32), Subscript("s", own(), F32)))
    assert ("cp.async" in text) == (lanes == 1)


@pytest.mark.parametrize(("rest", "branches"), [(0.0, False), (1.0, True)])
def test_copies_that_are_zeros_behind_an_end_are_one_instruction(rest: float, branches: bool) -> None:
    kind, place = Type(DType.F32, 4), times(own(), 4)
    array = DeclareArray("s", DType.F32, 128, Region.LOCAL)
    copied = AsyncCopy(Subscript("s", place, kind), Subscript("a", place, kind))
    inside = Apply(Op.CMP_LT, (own(), constant(30)))
    zeros = Assign(copied.target, Broadcast(Const(rest, F32), 4))
    text = code(
        array,
        If(inside, (copied,), (zeros,)),
        Barrier(),
        Assign(Subscript("b", own(), F32), Subscript("s", own(), F32)),
    )
    assert bool(re.search(r"\bbra\b", text)) == branches
    assert ("st.shared" in text) == branches
    assert bool(re.search(r"cp\.async\.cg\.shared\.global \[%rd\d+\], \[%rd\d+\], 16, %r\d+;", text)) != branches


def test_grids_that_are_too_high_are_laid_out_along_the_first_axis() -> None:
    places = [GridIndex(GridLevel.GROUP, axis, INDEX) for axis in range(2)]
    place = plus(times(places[1], 2), places[0])
    high = kernel(
        Assign(Subscript("b", place, F32), Subscript("a", place, F32)), grid=(2, 70000), group=(1,), size=140000
    )
    assert blocks(high) == (140000, 1, 1)
    assert "%ctaid.y" not in ptx([emit(high, ARCHITECTURES["sm_80"])], ARCHITECTURES["sm_80"])
    assert blocks(kernel(grid=(2, 65535, 3))) == (2, 65535, 3)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (kernel(group=(2048,)), "groups of (2048,) threads"),
        (kernel(group=(1, 1, 128)), "64 along the last axis"),
        (kernel(DeclareArray("s", DType.F32, 25345, Region.LOCAL)), "shares 101392 bytes in a group, and gets 101376"),
        (kernel(DeclareArray("s", DType.F32, 25345, Region.SCRATCH)), "shares 101392 bytes in a group"),
    ],
)
def test_kernels_that_no_card_can_launch_are_refused(wrong: KernelFunction, words: str) -> None:
    with pytest.raises(BackendError, match="TIL804") as caught:
        emit(wrong, ARCHITECTURES["sm_86"])
    assert words in str(caught.value)
    assert "kernel 'k'" in str(caught.value)


def test_shared_memory_counts_arrays_as_they_are_laid_out() -> None:
    arrays = (DeclareArray("s", DType.F32, 3, Region.LOCAL), DeclareArray("t", DType.I8, 17, Region.LOCAL))
    room = SharedMemory.of(kernel(*arrays, DeclareArray("p", DType.F64, 100)))
    assert room.nbytes == 16 + 32
    assert dict(room.offsets) == {arrays[0]: 0, arrays[1]: 16}
    assert room.launch_bytes == 0


def test_what_the_module_has_no_room_for_the_launch_asks_for() -> None:
    arrays = [DeclareArray(name, DType.F32, 8192, Region.LOCAL) for name in "st"]
    moved = (Assign(Subscript(name, own(), F32), Subscript("a", own(), F32)) for name in "st")
    back = Assign(Subscript("b", own(), F32), Subscript("t", times(own(), 2), F32))
    large = kernel(*arrays, *moved, Barrier(), back)
    assert SharedMemory.of(large).launch_bytes == 65536
    text = ptx([emit(large, HOPPER)], HOPPER)
    assert ".extern .shared .align 1024 .b8 k0_k_shared[];" in text
    assert "+32768]" in text


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize(
    ("architecture", "turned", "wanted"),
    [
        ("sm_80", False, "mma.sync.aligned.m16n8k16.row.col.f32.{0}.{0}.f32"),
        ("sm_80", True, "mma.sync.aligned.m16n8k16.row.col.f32.{0}.{0}.f32"),
        ("sm_120", False, "mma.sync.aligned.m16n8k16.row.col.f32.{0}.{0}.f32"),
        ("sm_90a", False, "wgmma.mma_async.sync.aligned.m64n256k16.f32.{0}.{0}"),
        ("sm_90a", True, "wgmma.mma_async.sync.aligned.m64n256k16.f32.{0}.{0}"),
    ],
)
def test_products_of_matrices_are_instructions(dtype: str, architecture: str, turned: bool, wanted: str) -> None:
    text = PRODUCT.replace("B[K, N]", "B[N, K]").replace("B[k, j]", "B[j, k]") if turned else PRODUCT
    shapes = [f"{dtype}[4096, 4096]"] * 2
    listing = tileir.compile(text, shapes, device=f"cuda.{architecture}").listing("ptx")
    assert wanted.format(dtype) in listing
    assert ("ldmatrix" in listing) == (architecture != "sm_90a")
    assert ("fence.proxy.async" in listing) == (architecture == "sm_90a")


def test_steps_of_a_sum_are_written_one_behind_the_other() -> None:
    """The assembler reads what later steps multiply ahead, but only within a block: of a tile of 8 x 8, 16 steps."""
    executable = tileir.compile(PRODUCT, ["f32[4096, 4096]"] * 2, device="cuda.sm_90a")
    code = executable.listing("ptx").split("$L__BB")
    assert max(block.count("fma.rn.f32") for block in code) >= 16 * 8 * 8


def test_products_of_f32_round_only_where_that_is_allowed() -> None:
    for fast in (False, True):
        options = tileir.Options(fast_math=fast)
        compiled = tileir.compile(PRODUCT, ["f32[512, 512]"] * 2, device="cuda.sm_90a", options=options)
        assert ("tf32" in compiled.listing("ptx")) == fast


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [*OF_WARPS, *OF_WARPGROUPS])
@pytest.mark.parametrize("swizzled", [False, True])
def test_every_fragment_has_an_instruction_or_is_computed_by_threads(name: str, swizzled: bool) -> None:
    """Those of four warps need a swizzle; what lies otherwise is spelt out."""
    fragment = FRAGMENTS[name]
    tile = (fragment.mnk[0], fragment.mnk[1], 64 if fragment.a.dtype.itemsize == 2 else 32)
    made = product_by(fragment, tile, turned=True, swizzled=swizzled)
    text = emit(made, HOPPER)
    if name in OF_WARPS:
        assert "llvm.nvvm.mma." in text
    else:
        assert "wgmma" not in text  # the right operand has no swizzle here
    ptx([text], HOPPER)


@pytest.mark.parametrize("name", [name for name in OF_WARPS if FRAGMENTS[name].a.dtype.itemsize > 1])
def test_what_threads_hold_stays_in_registers(name: str) -> None:
    fragment = FRAGMENTS[name]
    listing = ptx([emit(held_product_by(fragment, (32, 16, 2 * fragment.mnk[2])), HOPPER)], HOPPER)
    assert listing.count("mma.sync") == 16  # two products, each of two by two by two
    assert ".local " not in listing
    assert listing.count("bar.sync") == 1  # the kernel's own


def test_arrays_of_a_thread_are_in_registers() -> None:
    text = tileir.compile(PRODUCT, ["f32[1024, 512]", "f32[512, 2048]"], device="cuda.sm_90a").listing("ptx")
    assert ".local" not in text
    assert "fma.rn.f32" in text


def test_arithmetic_is_exact_unless_fast_math_is_asked_for() -> None:
    text = "function (A[N], B[N]) -> (C) { C = sqrt(A) / B; }"
    exact = tileir.compile(text, [np.ones(64, np.float32)] * 2, device="cuda.sm_90a").listing("ptx")
    assert "div.rn.f32" in exact
    assert "sqrt.rn.f32" in exact
    assert ".ftz" not in exact
    options = tileir.Options(fast_math=True)
    fast = tileir.compile(text, [np.ones(64, np.float32)] * 2, device="cuda.sm_90a", options=options).listing("ptx")
    assert fast != exact


def test_products_and_sums_are_fused_only_where_the_program_says_so() -> None:
    text = "function (A[N], B[N], C[N]) -> (D) { D = A * B + C; }"
    listing = tileir.compile(text, [np.ones(64, np.float32)] * 3, device="cuda.sm_90a").listing("ptx")
    assert "mul.rn.f32" in listing or "mul.f32" in listing
    assert "fma" not in listing


def test_products_that_are_taken_from_themselves_leave_no_error_of_their_own() -> None:
    text = "function (A[N]) -> (B) { T = A * A; B = cond(T - T == 0, T, 0.0); }"
    options = tileir.Options(fast_math=True)
    listing = tileir.compile(text, ["f32[64]"], device="cuda.sm_90a", options=options).listing("ptx")
    assert "fma" not in listing
    assert "sub" in listing


def test_sums_with_a_constant_stay_rounded() -> None:
    text = "function (A[N]) -> (B) { T = A + 1.0; B = (T - 1.0) * A; }"
    options = tileir.Options(fast_math=True)
    listing = tileir.compile(text, ["f32[1]"], device="cuda.sm_90a", options=options).listing("ptx")
    assert len(re.findall(r"\badd(?:\.rn)?\.f32", listing)) == 2


@pytest.mark.parametrize(("dtype", "short"), [("f16", True), ("bf16", False), ("f32", False)])
def test_exponentials_are_instructions_alone_where_f16_keeps_all_of_their_digits(dtype: str, short: bool) -> None:
    listing = tileir.compile("function (A[N]) -> (B) { B = exp(A); }", [f"{dtype}[64]"], device="cuda.sm_90a").listing(
        "ptx"
    )
    assert "ex2.approx" in listing
    assert ("fma" in listing) is not short


@pytest.mark.parametrize("name", ["sm_80", "sm_90a", "sm_120"])
def test_bf16_is_rounded_by_instructions(name: str) -> None:
    text = "function (A[N], B[N]) -> (C) { C = (A * B + 0.5) * A; }"
    listing = tileir.compile(text, ["bf16[4096]", "bf16[4096]"], device=f"cuda.{name}").listing("ptx")
    assert listing.count("cvt.rn.bf16x2.f32") == 3 * 8 // 2  # of the eight elements of a thread, in pairs
    assert not re.search(r"setp\.nan|bfe", listing)


def test_maxima_of_f32_are_instructions() -> None:
    text = "function (A[N], B[N]) -> (C) { C = max(A, B); }"
    listing = tileir.compile(text, ["f32[64]", "f32[64]"], device="cuda.sm_90a").listing("ptx")
    assert "max.NaN.f32" in listing
    assert "setp" not in listing


def test_words_are_exchanged_by_an_instruction() -> None:
    text = """kernel k(out {0} O[32], in {0} A[32]) grid(1) group(32) index(i32) {{
  private {0} own[1] align(64);
  own[0] = A[local_id(0)];
  exchange(6) own[0] = own[0];
  O[local_id(0)] = own[0];
}}"""
    for dtype, spelt in (("f32", True), ("u32", True), ("f16", False)):
        listing = ptx([emit(parse_kernel(text.format(dtype)), HOPPER)], HOPPER)
        assert ("shfl.sync.bfly" in listing) is spelt
        assert ("bar.sync" in listing) is not spelt


@pytest.mark.parametrize(
    ("threads", "shared", "beside"), [(256, 1024, 2), (512, 1024, 2), (512, 30000, 1), (1024, 1024, 1)]
)
def test_half_of_the_threads_of_a_processor_leave_registers_for_others(threads: int, shared: int, beside: int) -> None:
    place = Subscript("near", own(), F32)
    body = (DeclareArray("near", DType.F32, shared, Region.LOCAL), Assign(place, Subscript("a", own(), F32)))
    text = code(*body, Assign(Subscript("b", own(), F32), place), group=(threads,))
    assert re.findall(r"\.minnctapersm (\d+)", text) == ([str(beside)] if beside > 1 else [])


def test_there_are_at_most_so_many_blocks() -> None:
    assert math.prod(blocks(kernel(grid=(3, 5, 7)))) == 105
