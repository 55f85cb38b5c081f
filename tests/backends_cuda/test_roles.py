"""Roles of warps as PTX: branches, barriers and registers of their own; no card is needed."""

from __future__ import annotations

import re

import pytest

from strategies.warp_roles import ROWS
from tileir.core.errors import BackendError
from tileir.semtree.text.parser import parse_kernel
from tileir_cuda.architectures import ARCHITECTURES
from tileir_cuda.emit.emitter import emit
from tileir_cuda.emit.ptx import ptx

MANY = f"""kernel many(out f32 O[16]) grid(1) group(512) index(i32) {{
{"".join(f"  role({number}, 1) {{ O[{number}] = 0.0; }}" for number in range(16))}
}}"""


def code(text: str, name: str = "sm_90a") -> str:
    return ptx([emit(parse_kernel(text), ARCHITECTURES[name])], ARCHITECTURES[name])


def test_roles_meet_and_change_registers_by_themselves() -> None:
    found = code(ROWS)
    assert re.findall(r"setmaxnreg\.\S+ \d+", found) == [
        "setmaxnreg.dec.sync.aligned.u32 160",
        "setmaxnreg.dec.sync.aligned.u32 40",
    ]
    assert ".minnctapersm 1" in found
    assert re.findall(r"bar(?:rier)?\.sync\s+\d.*;", found) == ["bar.sync \t0;", "bar.sync \t1, 128;"]
    assert re.findall(r"mbarrier\.init\S+ \[%r\d+\+\d+\], (\d+);", found) == ["1", "1", "4", "4"]
    assert re.findall(r"setp\.eq\.u32 p, %r\d+, 256;", found)  # the first thread of the ninth warp asks for copies


def test_teams_meet_at_barriers_by_their_numbers() -> None:
    found = code(ROWS.replace("role(0, 4)", "role(0, 2) teams(2)"))
    assert re.search(r"bar(rier)?\.sync\s+%r\d+, 64;", found)
    assert re.findall(r"mbarrier\.init\S+ \[%r\d+\+\d+\], (\d+);", found) == ["1", "1", "4", "4"]


def test_more_registers_than_a_thread_begins_with_are_an_increase() -> None:
    assert "setmaxnreg.inc.sync.aligned.u32 208" in code(ROWS.replace("registers(160)", "registers(208)"))
    assert "setmaxnreg" not in code(re.sub(r" registers\(\d+\)", "", ROWS))


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        (ROWS, "sm_80", "without roles"),
        (ROWS.replace("registers(40)", "registers(240)"), "sm_90a", "would wait for ever"),
        (MANY, "sm_90a", "cards have barriers for 15"),
    ],
)
def test_roles_that_cards_cannot_run(text: str, name: str, said: str) -> None:
    with pytest.raises(BackendError, match=said):
        code(text, name)


def test_roles_without_messages_run_on_all_cards() -> None:
    text = """kernel two(out f32 O[64] align(256)) grid(1) group(64) index(i32) {
      i32 t = local_id(0);
      role(1, 1) { O[t] = 1.0; barrier(); }
      role(0, 1) { O[t] = 2.0; }
    }"""
    assert "setmaxnreg" not in code(text, "sm_80")
    assert re.search(r"bar(rier)?\.sync\s+1, 32;", code(text, "sm_80"))
