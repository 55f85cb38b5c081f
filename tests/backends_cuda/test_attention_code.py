"""The code of attention, and of parts that take turns in it."""

from __future__ import annotations

import re

import pytest

import tileir
from tileir.semtree.text.parser import parse_kernel
from tileir_cuda.architectures import ARCHITECTURES
from tileir_cuda.emit.emitter import emit, launch_bytes
from tileir_cuda.emit.ptx import ptx

HOPPER = ARCHITECTURES["sm_90a"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["sm_80", "sm_90a", "sm_120"])
def test_attention_is_one_kernel_of_products(name: str) -> None:
    builder = tileir.FunctionBuilder()
    inputs = [builder.input(each, f"S{each}", f"D{each}") for each in "QKV"]
    function = builder.build(O=tileir.ops.scaled_dot_product_attention(*inputs, causal=True))
    executable = tileir.compile(function, ["bf16[300, 64]"] * 3, device=f"cuda.{name}")
    assert len(executable.sem.kernels) == 1
    listing = executable.listing("ptx")
    assert "mma.sync.aligned.m16n8k16" in listing
    assert ".local " not in listing  # sums are in registers


@pytest.mark.parametrize(("width", "causal"), [(64, False), (128, True)])
def test_products_of_attention_go_on_while_weights_are_made(width: int, causal: bool) -> None:
    """Products of values are begun behind those of scores, and waited for behind the exponentials of these."""
    builder = tileir.FunctionBuilder()
    inputs = [builder.input(each, *(f"{each}{axis}" for axis in range(3))) for each in "QKV"]
    function = builder.build(O=tileir.ops.scaled_dot_product_attention(*inputs, causal=causal))
    executable = tileir.compile(function, [f"f16[64, 300, {width}]"] * 3, device="cuda.sm_90a")
    listing = executable.listing("ptx")
    assert "mma.sync" not in listing
    assert "shfl.sync.bfly" in listing
    assert ".local " not in listing
    lines = [line for line in listing.splitlines() if any(word in line for word in ("wgmma.", "ex2.approx"))]
    last = max(number for number, line in enumerate(lines) if "ex2.approx" in line)
    assert "wgmma.wait_group" in lines[last + 1]
    # It is a block of its own, above which the assembler moves no wait, and which all four warps enter.
    apart = r"(W_\d+):\s+wgmma\.wait_group\S+ 0;\s+mov\.u32 n, %nctaid\.x;\s+setp\.eq\.u32 p, n, 0;\s+@p bra\.uni \1;"
    (wait,) = re.finditer(apart, listing)
    assert "bra" not in listing[listing.rindex("ex2.approx") : wait.start()]
    begun = [line for line in lines[:last] if "wgmma.mma_async" in line]
    assert "}, {" in begun[-1]  # weights are in registers
    waited = [line for line in lines[lines.index(begun[-1]) : last] if "wgmma.wait_group" in line]
    assert not any(line.endswith(" 0;") for line in waited)


def test_a_launch_has_the_memory_of_products_that_no_instruction_computes() -> None:
    """The right operand lies across the depth, so threads multiply, and the left one goes through shared memory."""
    kernel = parse_kernel("""kernel k(out f32 O[4096]) grid(1) group(128) index(i32) {
  private f8e5m2 w[64] align(64);
  private f32 s[32] align(64);
  local f8e5m2 v[45056] align(64);
  for (i32 n = 0; n < 32; n += 1) { s[n] = 0.0; }
  for (i32 m = 0; m < 64; m += 1) { w[m] = f8e5m2(1.0); }
  multiply(wgmma_m64n64k32_f8e5m2) tile(64, 64, 128) s[0] += w[0] strides(0, 0) held(64) * v[0] strides(64, 1);
  O[local_id(0)] = s[0];
}""")
    assert "external addrspace(3)" in emit(kernel, HOPPER)
    assert launch_bytes(kernel, HOPPER) == 45056 + 64 * 128


@pytest.mark.parametrize(("threads", "parts"), [(64, 4), (128, 2), (32, 8), (256, 1), (16, 16), (8, 32)])
def test_parts_of_a_group_take_turns_by_barriers_of_their_own(threads: int, parts: int) -> None:
    text = f"""kernel k(out f32 O[256]) grid(1) group(256) index(i32) {{
  turn take {threads};
  O[local_id(0)] = 1.0;
  turn pass {threads};
}}"""
    listing = ptx([emit(parse_kernel(text), HOPPER)], HOPPER)
    steps = re.findall(r"bar.(sync|arrive) (?:%r)?\d+, (\d+);", listing)
    words = ("arrive", "sync", "arrive")  # the last part lets the first one begin
    assert steps == ([(word, str(2 * threads)) for word in words] if threads % 32 == 0 and parts > 1 else [])
    assert (f", {256 - threads};" in listing) is bool(steps)


def test_teams_of_a_role_take_turns_by_barriers_behind_those_of_roles() -> None:
    text = """kernel k(out f32 O[256]) grid(1) group(384) index(i32) {
  role(0, 4) teams(2) {
    turn take 128;
    O[local_id(0)] = 1.0;
    barrier();
    turn pass 128;
  }
  role(8, 1) {
    barrier();
  }
}"""
    listing = ptx([emit(parse_kernel(text), HOPPER)], HOPPER)
    assert "bar.arrive 4, 256;" in listing  # teams of roles meet at 1 to 3
    last = r"setp\.ge\.u32 p, (%r\d+), 128;\s+setp\.lt\.and\.u32 p, \1, 256, p;\s+@p bar\.arrive 4"
    assert re.search(last, listing)
    assert len(re.findall(r"bar\.(?:sync|arrive) %r\d+, 256;", listing)) == 2


def test_tiles_are_given_back_when_their_own_products_are_done() -> None:
    """Keys are released beside the products of values, which go on."""
    builder = tileir.FunctionBuilder()
    inputs = [builder.input(each, *(f"{each}{axis}" for axis in range(3))) for each in "QKV"]
    function = builder.build(O=tileir.ops.scaled_dot_product_attention(*inputs))
    listing = tileir.compile(function, ["f16[64, 512, 128]"] * 3, device="cuda.sm_90a").listing("ptx")
    words = ("wgmma.commit_group", "wgmma.wait_group", "mbarrier.arrive.shared", "ex2.approx")
    steps = [next((word for word in words if word in line), "") + line[-3:] for line in listing.splitlines()]
    steps = [step for step in steps if step.startswith(words)]
    waits = [number for number, step in enumerate(steps) if step.startswith("wgmma.wait_group") and " 1;" in step]
    assert waits
    assert all(steps[number + 1].startswith("mbarrier.arrive") for number in waits)
    assert all(steps[number + 2].startswith("ex2.approx") for number in waits)
