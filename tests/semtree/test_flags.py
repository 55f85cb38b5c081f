"""Flags of groups: what they mean, which races and endless waits are found, and how cards and others spell them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.effort import examples
from strategies.flags import CHAIN, LAST, PHASES
from tileir.core.errors import BackendError, TileError
from tileir.core.json.codec import from_json, to_json
from tileir.semtree.check.verifier import verify
from tileir.semtree.interpret.interpreter import run
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.ir import KernelFunction
from tileir.semtree.matrices import without_instructions
from tileir.semtree.text.parser import parse_kernel
from tileir.semtree.text.printer import to_text
from tileir_cuda.architectures import ARCHITECTURES
from tileir_cuda.emit.emitter import emit
from tileir_cuda.emit.ptx import ptx

if TYPE_CHECKING:
    from collections.abc import Callable

GROUPS: Final = 6
THREADS: Final = 8


def last(a: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
    return {"O": np.roll((2 * a).sum(axis=0), -1), "F": np.zeros(2)}


def phases(a: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
    first = a + 1
    product = np.roll(first, -1, axis=0) * np.roll(first, 1, axis=0)
    return {"O": product, "P": np.roll(product, -2, axis=0), "F": np.full(2, GROUPS)}


def chain(a: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
    total, running = np.zeros_like(a), np.zeros(THREADS)
    for group, own in enumerate(a):
        running = total[group] = np.roll(running, -3) + own
    return {"O": total, "F": np.ones(GROUPS)}


KERNELS: Final[dict[str, Callable[..., dict[str, np.ndarray[Any, Any]]]]] = {LAST: last, PHASES: phases, CHAIN: chain}


def ran(text: str, a: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
    kernel = parse_kernel(text)
    arrays = {param.name: np.zeros(param.size, param.dtype.numpy) for param in kernel.params}
    arrays["A"] = a.astype(np.float32).reshape(-1)
    run(kernel, list(arrays.values()), ALL_CHECKS)
    return arrays


@pytest.mark.parametrize("text", KERNELS, ids=["last", "phases", "chain"])
@given(seed=st.integers(0, 99))
@examples(5)
def test_groups_see_what_others_wrote_before_they_arrived(text: str, seed: int) -> None:
    a = np.random.default_rng(seed).integers(-9, 9, (GROUPS, THREADS)).astype(np.float64)
    found = ran(text, a)
    for name, wanted in KERNELS[text](a).items():
        np.testing.assert_array_equal(found[name], wanted.reshape(-1), name)


@pytest.mark.parametrize("text", KERNELS, ids=["last", "phases", "chain"])
def test_text_and_json(text: str) -> None:
    kernel = parse_kernel(text)
    assert parse_kernel(to_text(kernel)) == kernel
    assert from_json(to_json(kernel), KernelFunction) == kernel


@pytest.mark.parametrize(
    ("text", "old", "new", "message"),
    [
        (LAST, "arrive before[0] = F[1]", "before[0] = cast<u32>(group_id(0))", "groups are unordered"),
        (LAST, "before[0] == u32(5)", "before[0] == u32(4)", "await a flag between"),
        (LAST, "    if (t == 0) {\n      F[1] = u32(0);\n    }\n", "    F[1] = cast<u32>(t);\n", "thread"),
        (LAST, "P[g * 8 + (t + 1) % 8]", "P[(g * 8 + t + 9) % 48]", ""),
        (PHASES, "  await F[0] until u32(6);\n", "", "await a flag between"),
        (PHASES, "await F[0] until u32(6)", "await F[0] until u32(5)", "await a flag between"),
        (PHASES, "  arrive before[0] = F[1];\n  await F[1] until u32(6);\n", "", "await a flag between"),
        (PHASES, "  P[g * 8 + t] = O", "  F[0] = u32(0);\n  P[g * 8 + t] = O", ""),
        (CHAIN, "    await F[g - 1] until u32(1);\n", "", "await a flag between"),
        (
            CHAIN,
            "  S[g * 8 + t] = running;\n  arrive before[0] = F[g];\n",
            "  arrive before[0] = F[g];\n  S[g * 8 + t] = running;\n",
            "await a flag between",
        ),
        (CHAIN, "S[(g - 1) * 8 + (t + 3) % 8]", "S[(g * 8 + t + 32) % 48]", ""),
        (CHAIN, "await F[g - 1]", "await F[0]", "await a flag between"),
    ],
)
def test_what_no_flag_orders_is_a_race(text: str, old: str, new: str, message: str) -> None:
    """Those without a message are right: what was changed is ordered by another flag, or by one before."""
    assert old in text
    a = np.arange(48.0).reshape(GROUPS, THREADS)
    if not message:
        ran(text.replace(old, new), a)
        return
    with pytest.raises(TileError, match="TIL558") as caught:
        ran(text.replace(old, new), a)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "old", "new", "group"),
    [
        (CHAIN, "await F[g - 1] until u32(1)", "await F[g - 1] until u32(2)", 1),
        (PHASES, "  O[g * 8 + t] = P", "  if (t == 0) {\n    F[0] = u32(0);\n  }\n  O[g * 8 + t] = P", 0),
    ],
    ids=["too much", "set back early"],
)
def test_waits_that_never_end_are_told(text: str, old: str, new: str, group: int) -> None:
    assert old in text
    with pytest.raises(TileError, match="TIL555") as caught:
        ran(text.replace(old, new), np.zeros((GROUPS, THREADS)))
    assert f"group {group} waits to await a flag of 'F'" in str(caught.value)
    assert "they would wait for ever" in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("arrive before[0] = F[1]", "arrive before[0] = F[t % 2]", "arrive"),
        ("F[1];", "F[1];\n  await F[1] until cast<u32>(t % 2);", "await"),
    ],
)
def test_threads_of_a_group_name_one_flag(old: str, new: str, word: str) -> None:
    assert old in LAST
    with pytest.raises(TileError, match="TIL555") as caught:
        ran(LAST.replace(old, new, 1), np.zeros((GROUPS, THREADS)))
    assert f"threads of a group {word} different flags of 'F'" in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("inout u32 F[2]", "inout i32 F[2]", "TIL552"),
        ("private u32 before", "private i32 before", "TIL552"),
        ("private u32 before", "local u32 before", "TIL554"),
        ("= F[1];", "= before[0];", "TIL554"),
        ("inout u32 F[2]", "out u32 F[2]", "TIL554"),
        ("grid(6)", "grid(6) cluster(2)", "TIL551"),
        ("  arrive before[0] = F[1];", "  if (t < 4) {\n    arrive before[0] = F[1];\n  }", "TIL555"),
        ("  arrive before[0] = F[1];", "  await F[1] until 3;", "TIL552"),
    ],
)
def test_rules(old: str, new: str, code: str) -> None:
    assert old in LAST
    with pytest.raises(TileError) as caught:
        verify(parse_kernel(LAST.replace(old, new)))
    assert code in [fault.code for fault in caught.value.diagnostics]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_cards_add_between_fences(name: str) -> None:
    lines = [
        line.strip() for line in ptx([emit(parse_kernel(PHASES), ARCHITECTURES[name])], ARCHITECTURES[name]).split("\n")
    ]
    words = [
        line.split()[0].rstrip(";") for line in lines if line.startswith(("bar.", "fence.", "atom.", "ld.acquire"))
    ]
    phase = ["bar.sync", "fence.acq_rel.gpu", "atom.global.add.u32", "fence.acq_rel.gpu", "bar.sync"]
    assert words == [*phase, "ld.acquire.gpu.global.b32", "bar.sync"] * 2


def test_other_devices_refuse() -> None:
    kernel = parse_kernel(LAST)
    with pytest.raises(BackendError, match="schedule it without flags"):
        without_instructions(kernel)
    assert without_instructions(kernel, flags=False) is kernel
    context = tileir.Context(disk_cache=None)
    with pytest.raises(BackendError, match="TIL804"):
        context.compiler(context.device("llvm.0")).build([kernel])
