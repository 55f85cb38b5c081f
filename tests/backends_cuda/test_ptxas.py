"""PTX as NVIDIA's assembler sees it: it takes all of it, for every architecture, and spills no sums of products.

They need no card, and are skipped on machines with one, too, where the assembler is not installed: ``tox -e simulated``
brings it.
"""

from __future__ import annotations

import re
import subprocess
import sysconfig
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from hypothesis import given

import tileir
from strategies.effort import examples
from strategies.flags import CHAIN, LAST, PHASES
from strategies.semtree import kernel_cases
from strategies.warp_roles import ROWS
from tileir.semtree.text.parser import parse_kernel
from tileir_cuda.architectures import ARCHITECTURES
from tileir_cuda.emit.emitter import emit
from tileir_cuda.emit.ptx import ptx
from tileir_testing.programs.catalog import CASES

if TYPE_CHECKING:
    from strategies.semtree import KernelCase
    from tileir_testing.programs.case import Conformance

PTXAS = next(Path(sysconfig.get_path("purelib")).glob("nvidia/cu*/bin/ptxas"), None)

WIDTHS = (32, 64, 80, 96, 128)
"""Columns of queries and keys in attention."""

SPILLED = {("sm_100a", 128): 96}
"""Bytes that attention spills for all that: some twenty registers of 255, where tiles of 64 keys pay on other cards."""

pytestmark = [
    pytest.mark.skipif(PTXAS is None, reason="there is no assembler of PTX; `tox -e simulated` brings one"),
]


def assembled(text: str, architecture: str, folder: Path) -> str:
    """Return what the assembler says about registers and spills."""
    source = folder / "code.ptx"
    source.write_text(text)
    command = [str(PTXAS), "-v", f"-arch={architecture}", str(source), "-o", str(folder / "code.cubin")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr + text
    return done.stderr


@pytest.mark.sampled(5)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_programs_of_the_kit(case: Conformance, tmp_path: Path) -> None:
    architecture = list(ARCHITECTURES)[CASES.index(case) % len(ARCHITECTURES)]
    text = tileir.compile(case.text, case.inputs, device=f"cuda.{architecture}").listing("ptx")
    if ".entry" in text:
        assembled(text, architecture, tmp_path)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "f64", "i8"])
def test_products_spill_nothing(dtype: str, architecture: str, tmp_path: Path) -> None:
    text = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"
    shapes = [f"{dtype}[1000, 500]", f"{dtype}[500, 1030]"]
    said = assembled(tileir.compile(text, shapes, device=f"cuda.{architecture}").listing("ptx"), architecture, tmp_path)
    assert set(re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill", said)) == {("0", "0")}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }", 4096),
        ("function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }", 1536),
        ("function (A[M, K], B[N, K]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[j, k]); }", 2048),
        ("function (A[K, M], B[N, K]) -> (C) { C[i, j : M, N] = +(A[k, i] * B[j, k]); }", 3000),
    ],
)
def test_products_of_boxes_spill_nothing_and_go_on_beside_copies(
    text: str, size: int, dtype: str, tmp_path: Path
) -> None:
    listing = tileir.compile(text, [f"{dtype}[{size}, {size}]"] * 2, device="cuda.sm_90a").listing("ptx")
    assert "cp.async.bulk.tensor" in listing
    said = assembled(listing, "sm_90a", tmp_path)
    assert set(re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill", said)) == {("0", "0")}
    assert "serialized" not in said


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("dtype", "size", "registers"),
    [("f16", 4096, 168), ("bf16", 1536, 168), ("f16", 3008, 168), ("f8e4m3fn", 3072, 128)],
)
def test_products_of_which_one_warp_copies_spill_nothing(dtype: str, size: int, registers: int, tmp_path: Path) -> None:
    text = "function (A[M, K], B[N, K]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[j, k]); }"
    shapes = [f"{dtype}[{size}, {size}]"] * 2
    listing = tileir.compile(text, shapes, device="cuda.sm_90a", target="gpu:ROLES=1").listing("ptx")
    assert listing.count("setmaxnreg") == 2
    said = assembled(listing, "sm_90a", tmp_path)
    assert set(re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill", said)) == {("0", "0")}
    assert f"Used {registers} registers" in said
    assert not re.search("serialized|ignored", said)


@pytest.mark.parametrize(("dtype", "size"), [("f16", 4096), ("bf16", 5120), ("f8e4m3fn", 4096)])
def test_products_whose_results_are_stored_as_boxes_spill_nothing(dtype: str, size: int, tmp_path: Path) -> None:
    text = "function (A[M, K], B[N, K]) -> (R) { C[i, j : M, N] = +(A[i, k] * B[j, k]); R = as_bf16(C); }"
    listing = tileir.compile(text, [f"{dtype}[{size}, {size}]"] * 2, device="cuda.sm_90a").listing("ptx")
    assert "cp.async.bulk.commit_group" in listing
    assert listing.count("setmaxnreg") == 2
    said = assembled(listing, "sm_90a", tmp_path)
    assert set(re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill", said)) == {("0", "0")}
    assert not re.search("serialized|ignored", said)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("target", ["gpu:CLUSTER=2", "gpu:CLUSTER=2,ROLES=1"])
@pytest.mark.parametrize(("dtype", "size"), [("f16", 4096), ("bf16", 1536), ("f8e4m3fn", 4096)])
def test_products_of_clusters_spill_nothing(dtype: str, size: int, target: str, tmp_path: Path) -> None:
    text = "function (A[M, K], B[N, K]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[j, k]); }"
    shapes = [f"{dtype}[{size}, {size}]"] * 2
    listing = tileir.compile(text, shapes, device="cuda.sm_90a", target=target).listing("ptx")
    assert ".multicast::cluster" in listing
    said = assembled(listing, "sm_90a", tmp_path)
    assert set(re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill", said)) == {("0", "0")}
    assert not re.search("serialized|ignored", said)


WORDS = "f32", tileir.Options(fast_math=True)
BYTES = "f8e4m3fn", tileir.Options()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("dtype", "options"), [WORDS, BYTES, ("f8e5m2", tileir.Options(fast_math=True))])
@pytest.mark.parametrize(
    "terms", [("A[M, K], B[K, N]", "A[i, k] * B[k, j]"), ("A[M, K], B[N, K]", "A[i, k] * B[j, k]")]
)
def test_products_of_words_and_bytes_of_four_warps_spill_nothing(
    terms: tuple[str, str], dtype: str, options: tileir.Options, tmp_path: Path
) -> None:
    text = f"function ({terms[0]}) -> (C) {{ C[i, j : M, N] = +({terms[1]}); }}"
    executable = tileir.compile(text, [f"{dtype}[4096, 4096]"] * 2, device="cuda.sm_90a", options=options)
    listing = executable.listing("ptx")
    assert "cp.async.bulk.tensor" in listing
    kind = "tf32" if dtype == "f32" else dtype[2:6]
    assert f".f32.{kind}.{kind}" in listing
    said = assembled(listing, "sm_90a", tmp_path)
    assert set(re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill", said)) == {("0", "0")}
    assert "serialized" not in said


@pytest.mark.sampled(1)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(("dtype", "options"), [WORDS, BYTES])
def test_products_of_words_and_bytes_are_assembled_everywhere(
    dtype: str, options: tileir.Options, architecture: str, tmp_path: Path
) -> None:
    text = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"
    for size in (515, 1024):
        shapes = [f"{dtype}[{size}, {size}]"] * 2
        listing = tileir.compile(text, shapes, device=f"cuda.{architecture}", options=options).listing("ptx")
        whole = dtype == "f32" or architecture not in ("sm_80", "sm_86")
        assert ("mma" in listing) == whole
        said = assembled(listing, architecture, tmp_path)
        spilled = [int(spill) for spill in re.findall(r"(\d+) bytes spill stores", said)]
        assert max(spilled) <= (128 if architecture == "sm_100a" else 0)  # its instructions of bytes are made of others


@pytest.mark.sampled(2)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_convolutions_with_borders_keep_their_sums_in_registers(architecture: str, tmp_path: Path) -> None:
    text = """function (A[N, Y, X, C], B[P, Q, C, F]) -> (R) {
        R[n, y, x, f : N, Y, X, F] = +(A[n, y + p - 1, x + q - 1, c] * B[p, q, c, f]);
    }"""
    shapes = ["f16[32, 28, 28, 100]", "f16[3, 3, 100, 128]"]
    listing = tileir.compile(text, shapes, device=f"cuda.{architecture}").listing("ptx")
    assert ("wgmma.mma_async" if architecture == "sm_90a" else "mma.sync") in listing
    said = assembled(listing, architecture, tmp_path)
    # A frame holds those that are computed again at borders, 512 bytes at most: with the others it would be twice that.
    ((frame, spilled),) = set(re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill", said))
    assert int(frame) < 1024
    assert int(spilled) <= (16 if architecture in ("sm_86", "sm_89") else 0)  # these are short of three registers


@pytest.mark.sampled(2)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("width", WIDTHS)
def test_attention_spills_no_sums(width: int, architecture: str, tmp_path: Path) -> None:
    """Each pair of an architecture and a width has one of three forms, so that each pair with a form is tried, too."""
    forms = ((1024, False), (1024, True), (1001, False))
    length, causal = forms[(list(ARCHITECTURES).index(architecture) + WIDTHS.index(width)) % len(forms)]
    builder = tileir.FunctionBuilder()
    inputs = [builder.input(name, *(f"{name}{axis}" for axis in range(4))) for name in "QKV"]
    function = builder.build(O=tileir.ops.scaled_dot_product_attention(*inputs, causal=causal))
    executable = tileir.compile(function, [f"f16[4, 8, {length}, {width}]"] * 3, device=f"cuda.{architecture}")
    assert len(executable.sem.kernels) == 1
    said = assembled(executable.listing("ptx"), architecture, tmp_path)
    spilled = [int(size) for size in re.findall(r"(\d+) bytes spill stores", said)]
    assert spilled
    assert max(spilled) <= SPILLED.get((architecture, width), 0)
    assert "serialized" not in said  # products go on beside what else is done


@pytest.mark.parametrize(("causal", "most"), [(False, 0), (True, 64)])
def test_three_teams_of_attention_spill_no_sums(causal: bool, most: int, tmp_path: Path) -> None:
    """Under a triangle they are short of a few registers, where they are faster than one team for all that."""
    builder = tileir.FunctionBuilder()
    inputs = [builder.input(name, *(f"{name}{axis}" for axis in range(4))) for name in "QKV"]
    function = builder.build(O=tileir.ops.scaled_dot_product_attention(*inputs, causal=causal))
    executable = tileir.compile(function, ["bf16[4, 16, 4096, 64]"] * 3, device="cuda.sm_90a")
    assert executable.sem.kernels[0].group == (512,)
    said = assembled(executable.listing("ptx"), "sm_90a", tmp_path)
    (spilled,) = re.findall(r"(\d+) bytes spill stores", said)
    assert int(spilled) <= most
    assert "serialized" not in said


@pytest.mark.parametrize("registers", [160, 208])
def test_roles_change_registers(registers: int, tmp_path: Path) -> None:
    """The assembler says so where it knows too little to let them."""
    kernel = parse_kernel(ROWS.replace("registers(160)", f"registers({registers})"))
    text = ptx([emit(kernel, ARCHITECTURES["sm_90a"])], ARCHITECTURES["sm_90a"])
    said = assembled(text, "sm_90a", tmp_path)
    assert "ignored" not in said
    assert "Used 168 registers" in said  # what 384 threads begin with: those of the other warps are there for others


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("text", [LAST, PHASES, CHAIN], ids=["last", "phases", "chain"])
def test_flags(text: str, architecture: str, tmp_path: Path) -> None:
    assembled(
        ptx([emit(parse_kernel(text), ARCHITECTURES[architecture])], ARCHITECTURES[architecture]),
        architecture,
        tmp_path,
    )


@examples(40)
@given(case=kernel_cases(threads=True))
def test_random_kernels(case: KernelCase) -> None:
    text = emit(case.kernel, ARCHITECTURES["sm_90a"])
    with TemporaryDirectory() as folder:
        assembled(ptx([text], ARCHITECTURES["sm_90a"]), "sm_90a", Path(folder))
