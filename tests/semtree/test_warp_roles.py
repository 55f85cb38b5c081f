"""Roles of warps: what they mean, what the verifier refuses, and what the interpreter finds where they wait."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.warp_roles import ROWS
from tileir.core.errors import BackendError, TileError
from tileir.core.json.codec import from_json, to_json
from tileir.semtree.check.verifier import verify
from tileir.semtree.interpret.interpreter import run
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.ir import KernelFunction, WarpRole
from tileir.semtree.lower.lowering import beside
from tileir.semtree.matrices import without_instructions
from tileir.semtree.roles import releasing
from tileir.semtree.simplify.simplifier import simplify
from tileir.semtree.text.parser import parse_kernel
from tileir.semtree.text.printer import to_text
from tileir.semtree.transform.threads import one_thread

GIVEN: Final = np.random.default_rng(0).integers(0, 9, 640).astype(np.float32)


def wanted() -> np.ndarray:
    rows = GIVEN.reshape(2, 5, 64)
    sums = [[sum(rows[g, k, (t + k) % 64] for k in range(5)) for t in range(128)] for g in range(2)]
    return np.array(sums)[:, ::-1].reshape(-1)


def test_one_role_copies_what_the_other_one_adds_up() -> None:
    kernel = parse_kernel(ROWS)
    verify(kernel)
    assert parse_kernel(to_text(kernel)) == kernel
    assert from_json(to_json(kernel), KernelFunction) == kernel
    first, second = (stmt for stmt in kernel.body if isinstance(stmt, WarpRole))
    assert (first.first, first.warps, first.registers) == (0, 4, 160)
    assert (second.first, second.warps, second.registers) == (8, 1, 40)
    assert releasing(kernel) == {"ready": 128}
    for variant in (kernel, simplify(kernel)):
        result = np.zeros(256, np.float32)
        run(variant, [result, GIVEN], ALL_CHECKS)
        np.testing.assert_array_equal(result, wanted())


def test_what_is_read_behind_a_release_races_with_the_next_copy() -> None:
    early = ROWS.replace("      channel release ready[0];\n", "").replace(
        "      s[0] = s", "      channel release ready[0];\n      s[0] = s"
    )
    with pytest.raises(TileError, match="TIL558"):
        run(parse_kernel(early), [np.zeros(256, np.float32), GIVEN], ALL_CHECKS)


def test_teams_have_a_role_each_for_itself() -> None:
    """They meet at barriers without the others, which may be anywhere."""
    teams = ROWS.replace("role(0, 4)", "role(0, 2) teams(2)")
    apart = parse_kernel(teams.replace("127 - t", "t / 64 * 64 + 63 - t % 64"))
    assert parse_kernel(to_text(apart)) == apart
    assert from_json(to_json(apart), KernelFunction) == apart
    assert releasing(apart) == {"ready": 128}
    result = np.zeros(256, np.float32)
    run(apart, [result, GIVEN], ALL_CHECKS)
    np.testing.assert_array_equal(result, wanted().reshape(2, 2, 64)[:, ::-1].reshape(-1))
    with pytest.raises(TileError, match=r"TIL55[78]"):
        run(parse_kernel(teams), [result, GIVEN], ALL_CHECKS)
    with pytest.raises(TileError, match="the role of warps 2 to 3 waits to receive"):
        run(parse_kernel(teams.replace("n < 5", "n < 4")), [result, GIVEN], ALL_CHECKS)


def test_what_has_no_roles_refuses_them() -> None:
    kernel = parse_kernel(ROWS)
    for refusing in (without_instructions, one_thread, lambda each: without_instructions(each, roles=False)):
        with pytest.raises(BackendError, match="without roles"):
            refusing(kernel)
    assert without_instructions(kernel, channels=False, roles=False) is kernel
    assert beside(kernel, kernel, (None, None), 1 << 20) is None  # a launch of both would have roles under a condition


@pytest.mark.sampled(7)
@pytest.mark.parametrize(
    ("old", "new", "code", "said"),
    [
        ("channel release ready[0];\n    }", "}\n    channel release ready[0];", "TIL555", "waits to acquire"),
        ("n < 5", "n < 4", "TIL555", "the role of warps 0 to 3 waits to receive the channel 'ready'"),
        ("n < 5", "n < 6", "TIL555", "receive the last messages"),
        ("k < 5", "k < 2", "TIL555", "the role of warps 8 to 8 waits to acquire the channel 'ready'"),
        ("channel receive ready[0];", "if (k < 4) { channel receive ready[0]; }", "TIL555", "has not received"),
        ("local u64 ready[4]", "local u64 ready[6]", "TIL558", "receive the message before"),
        (
            "      s[0] = s[0] + tile",
            "      channel release ready[0];\n      s[0] = s[0] + tile",
            "TIL555",
            "not received",
        ),
        ("tile[k % 2 * 64 + (t", "tile[(k + 1) % 2 * 64 + (t", "TIL558", "receive the message before"),
        ("    barrier();\n", "", "TIL557", ""),
        ("back[127 - t];", "back[127 - t];\n    back[t] = 0.0;", "TIL558", "put a barrier"),
        ("channel release ready[0];\n", "channel release ready[0];\n      tile[k % 2 * 64] = 1.0;\n", "TIL558", ""),
        ("    for (i32 n", "    O[g] = 1.0;\n    for (i32 n", "TIL558", "a message between"),
        ("    for (i32 n", "    f32 b = back[5];\n    O[g * 128 + 5] = b;\n    for (i32 n", "TIL557", ""),
        ("    barrier();\n", "    if (t < 64) { barrier(); }\n", "TIL555", "may differ"),
    ],
)
def test_what_goes_wrong_between_roles(old: str, new: str, code: str, said: str) -> None:
    assert old in ROWS
    with pytest.raises(TileError) as caught:
        run(parse_kernel(ROWS.replace(old, new)), [np.zeros(256, np.float32), GIVEN], ALL_CHECKS)
    assert code in [fault.code for fault in caught.value.diagnostics]
    assert said in str(caught.value)


def test_roles_that_wait_for_each_other_are_both_named() -> None:
    crossed = ROWS.replace("  local f32 tile", "  local u64 other[2] align(64);\n  local f32 tile")
    copy = "bulk_copy other[0] back[0] = A[0] box(1, 64) of(10, 64) by(64, 1) at(0, 0)"
    give = f"channel acquire other[0];\n{copy};\nchannel send other[0];"
    crossed = crossed.replace("    back[t] = s[0];", f"{give}\n    back[t] = s[0];")
    crossed = crossed.replace("    for (i32 n", "channel receive other[0];\nchannel release other[0];\n    for (i32 n")
    with pytest.raises(TileError, match="'ready', and the role of warps 8 to 8 waits to receive the channel 'other'"):
        run(parse_kernel(crossed), [np.zeros(256, np.float32), GIVEN], ALL_CHECKS)


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("group(384)", "group(280)", "TIL551"),
        ("group(384)", "group(256)", "TIL551"),
        ("role(8, 1)", "role(3, 1)", "TIL551"),
        ("role(8, 1)", "role(9, 1)", "TIL551"),
        ("role(8, 1)", "role(2, 8)", "TIL551"),
        ("role(8, 1)", "role(8, 0)", "TIL551"),
        ("role(8, 1)", "role(8, 1) teams(0)", "TIL551"),
        ("role(8, 1)", "role(8, 1) teams(2)", "TIL551"),
        ("role(0, 4)", "role(0, 4) teams(3)", "TIL551"),
        ("registers(40)", "registers(41)", "TIL551"),
        ("registers(40)", "registers(16)", "TIL551"),
        ("role(8, 1)", "role(3, 1) { }\n  role(8, 1)", "TIL551"),
        ("role(8, 1) registers(40)", "role(11, 1) registers(24) { }\n  role(8, 1) registers(40)", "TIL551"),
        ("    s[0] = 0.0;", "    role(4, 1) { }\n    s[0] = 0.0;", "TIL551"),
        ("  role(8, 1)", "  barrier();\n  role(8, 1)", "TIL551"),
        ("    s[0] = 0.0;", "    s[0] = 0.0;\n    local f32 more[4] align(64);", "TIL554"),
        ("    barrier();", "    barrier();\n    turn take 32;", "TIL551"),
        ("  role(0, 4)", "  channel receive ready[0];\n  role(0, 4)", "TIL551"),
        ("      channel release ready[0];\n", "", "TIL551"),
        ("      channel acquire ready[0];\n", "", "TIL551"),
        ("    back[t]", "    channel acquire ready[0];\n    channel send ready[0];\n    back[t]", "TIL551"),
    ],
)
def test_roles_are_of_warps_of_their_own(old: str, new: str, code: str) -> None:
    assert old in ROWS
    with pytest.raises(TileError) as caught:
        verify(parse_kernel(ROWS.replace(old, new)))
    assert code in [fault.code for fault in caught.value.diagnostics]


@pytest.mark.parametrize(("threads", "fits"), [(64, True), (32, False), (128, False)])
def test_teams_of_a_role_take_turns(threads: int, fits: bool) -> None:
    teams = ROWS.replace("role(0, 4)", "role(0, 2) teams(2)").replace("127 - t", "t / 64 * 64 + 63 - t % 64")
    kernel = parse_kernel(teams.replace("    back[t]", f"    turn take {threads};\n    back[t]"))
    if fits:
        result = np.zeros(256, np.float32)
        run(kernel, [result, GIVEN], ALL_CHECKS)
        np.testing.assert_array_equal(result, wanted().reshape(2, 2, 64)[:, ::-1].reshape(-1))
    else:
        with pytest.raises(TileError, match=f"teams of 2 warps take turns, and not {threads} threads"):
            verify(kernel)


def test_products_are_of_all_threads_of_a_fragment() -> None:
    product = """kernel p(out f32 C[256], in f16 A[1024], in f16 B[4096]) grid(1) group(128) index(i32) {
      role(1, 2) {
        private f32 s[128] align(64);
        multiply(wgmma_m64n256k16_f16) tile(64, 256, 16) s[0] += A[0] strides(16, 1) * B[0] strides(256, 1);
      }
    }"""
    with pytest.raises(TileError, match="128 threads multiply matrices, from a multiple of that on"):
        verify(parse_kernel(product))


@pytest.mark.parametrize("text", ["role(0) { }", "role(0, 1, 2) { }", "role 0, 1 { }", "role(0, 1) registers { }"])
def test_text_that_is_no_role(text: str) -> None:
    with pytest.raises(TileError) as caught:
        parse_kernel(f"kernel k(out f32 O[1]) grid(1) group(64) {{\n  {text}\n  O[0] = ;\n}}")
    assert [fault.code for fault in caught.value.diagnostics] == ["TIL102", "TIL102"]


@given(
    readers=st.lists(st.integers(1, 2), min_size=1, max_size=2),
    places=st.integers(1, 3),
    messages=st.integers(1, 5),
    stray=st.booleans(),
)
@examples(20)
def test_any_number_of_roles_receive_what_one_sends(
    readers: list[int], places: int, messages: int, stray: bool
) -> None:
    """Each reader adds up all messages, in its own order of what else it does."""
    warps, roles, first = sum(readers), [], 0
    for number, count in enumerate(readers):
        meet = "barrier();" if number else ""
        roles.append(f"""
  role({first}, {count if number else 1}){"" if number or count == 1 else f" teams({count})"} {{
    f32 s = 0.0;
    for (i32 k = 0; k < {messages}; k += 1) {{
      channel receive ready[0];
      s = s + tile[k % {places} * 32 + t % 32];
      {meet}
      channel release ready[0];
    }}
    O[t] = s;
  }}""")
        first += count
    roles.insert(
        messages % (len(roles) + 1),
        f"""
  role({warps + stray}, 1) {{
    for (i32 n = 0; n < {messages}; n += 1) {{
      channel acquire ready[0];
      bulk_copy ready[0] tile[n % {places} * 32] = A[0] box(32) of({32 * messages}) by(1) at(n * 32);
      channel send ready[0];
    }}
  }}""",
    )
    kernel = parse_kernel(f"""
kernel sums(out f32 O[{32 * warps}], in f32 A[{32 * messages}]) grid(1) group({32 * (warps + 1 + stray)}) index(i32) {{
  i32 t = local_id(0);
  local u64 ready[{2 * places}] align(64);
  local f32 tile[{32 * places}] align(64);{"".join(roles)}
}}""")
    given_rows = np.arange(32 * messages, dtype=np.float32)
    result = np.zeros(32 * warps, np.float32)
    run(kernel, [result, given_rows], ALL_CHECKS)
    np.testing.assert_array_equal(result, np.tile(given_rows.reshape(messages, 32).sum(axis=0), warps))
    assert parse_kernel(to_text(kernel)) == kernel
    assert from_json(to_json(kernel), KernelFunction) == kernel
