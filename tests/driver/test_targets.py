from __future__ import annotations

from pathlib import Path

import attrs
import numpy as np
import pytest

import tileir
from tileir.core.errors import TileError
from tileir.driver.targets import TargetChoice, choice_of, scheduling_target, settings_of

SUM = "function (A[M, N, K]) -> (S) { S[i, j : M, N] = +(A[i, j, k]); }"
FILE = """{
  "name": "mine",
  "parameters": { "GROUPS": { "default": 2, "meaning": "groups" }, "WHERE": { "default": "all", "meaning": "blocks" } },
  "passes": [
    { "name": "make_registers", "accumulate": {} },
    { "name": "thread", "options": { "groups": {{ GROUPS }} } },
  ],
}"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.json"
    path.write_text(FILE, encoding="utf-8")
    return path


def faults(*arguments: object) -> list[tuple[str, str]]:
    with pytest.raises(TileError) as caught:
        choice_of(*arguments)  # type: ignore[arg-type]
    return [(d.code, d.message) for d in caught.value.diagnostics]


def test_a_target_is_named_or_read(file: Path) -> None:
    assert choice_of(None) is None
    assert choice_of("cpu") == TargetChoice("cpu", ())
    assert choice_of("cpu:PARTS=2") == TargetChoice("cpu", (("PARTS", 2),))
    assert choice_of(file) == choice_of(str(file)) == TargetChoice(FILE, ())
    assert choice_of(f"{file}:GROUPS=3,WHERE=x") == TargetChoice(FILE, (("GROUPS", 3), ("WHERE", "x")))
    assert choice_of(file, {"GROUPS": 4}) == TargetChoice(FILE, (("GROUPS", 4),))
    assert choice_of(f"{file}:GROUPS=3", {"GROUPS": 4}) == TargetChoice(FILE, (("GROUPS", 3),))
    target = tileir.Target()
    assert choice_of(target) is target


def test_wrong_targets_are_told(file: Path, tmp_path: Path) -> None:
    assert faults("cpuu") == [("TIL547", "there is neither a target nor a file 'cpuu'; did you mean cpu?")]
    assert faults("cpu:PRATS=2") == [("TIL547", "target cpu has no parameter PRATS; did you mean PARTS?")]
    assert faults(file, {"GROUPS": "two"}) == [("TIL547", "GROUPS of target mine takes a number, not 'two'")]
    assert faults(None, {"GROUPS": 2}) == [("TIL547", "GROUPS: only a target that is named has parameters")]
    assert faults(7)[0][0] == "TIL707"
    assert faults(tmp_path)[0][0] == "TIL901"
    bad = tmp_path / "bad.json"
    bad.write_text('{"name": "bad",\n "pases": []}', encoding="utf-8")
    assert faults(bad) == [("TIL602", f"{bad}: there is no key 'pases'; did you mean passes?")]
    bad.write_bytes(b"\xff")
    assert faults(bad)[0][0] == "TIL901"


def test_words_set_parameters() -> None:
    words = ["A=1", "B=0.5", "C=true", "D=words", " E = [1] "]
    assert settings_of(words) == {"A": 1, "B": 0.5, "C": True, "D": "words", "E": "[1]"}
    for wrong in (["A"], ["=1"], ["A=1", "A=2"], ["a b=1"]):
        with pytest.raises(TileError) as caught:
            settings_of(wrong)
        assert [d.code for d in caught.value.diagnostics] == ["TIL902"]


def test_a_choice_keeps_the_facts_of_the_device() -> None:
    device = tileir.Target("it", threads=8, vector_bytes=64)
    expected = attrs.evolve(device, pipeline="gpu", parameters=(("BUSY", 1),))
    assert scheduling_target(choice_of("gpu:BUSY=1"), device, None) == expected
    assert scheduling_target(None, device, 2).threads == 2
    assert scheduling_target(tileir.Target(), device, None) == tileir.Target()


def test_programs_are_compiled_for_a_target(file: Path) -> None:
    array = np.arange(64, dtype=np.float32).reshape(8, 2, 4)
    grids = []
    for target in (file, f"{file}:GROUPS=16", "plain", tileir.Target(pipeline="accumulate,thread{groups=16}")):
        executable = tileir.compile(SUM, {"A": (8, 2, 4)}, target=target)
        np.testing.assert_array_equal(executable(array), array.sum(2))
        (kernel,) = executable.sem.kernels
        grids.append(kernel.grid)
        np.testing.assert_array_equal(tileir.jit(SUM, target=target)(array), array.sum(2))
    assert grids == [(8,), (2, 8), (1,), (2, 8)]


def test_a_wrong_target_is_told_at_once() -> None:
    with pytest.raises(TileError, match="did you mean gpu"):
        tileir.jit(SUM, target="gpuu")


def test_wrong_passes_of_a_file_are_told_when_something_is_compiled(tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(FILE.replace('"groups": {{ GROUPS }}', '"group": {{ GROUPS }}'), encoding="utf-8")
    with pytest.raises(TileError, match="pass thread has no option group; did you mean groups"):
        tileir.compile(SUM, {"A": (8, 2, 4)}, target=path)
    path.write_text('{"name": "a", "passes": [{"include": "nothing"}]}', encoding="utf-8")
    with pytest.raises(TileError, match="there is no target 'nothing'"):
        tileir.compile(SUM, {"A": (8, 2, 4)}, target=path)


def test_a_file_that_was_parsed_is_a_target() -> None:
    text = '{ "name": "mine", "parameters": { "N": { "default": 2 } }, "passes": [{ "include": "plain" }] }'
    file = tileir.parse(text, stage="target")
    assert choice_of(file) == TargetChoice(text, ())
    assert choice_of(file, {"N": 3}) == TargetChoice(text, (("N", 3),))
    program = "function (A) -> (B) { B = A + 1.0; }"
    assert tileir.compile(program, [(3,)], target=file)(np.zeros(3, np.float32)).tolist() == [1, 1, 1]
    assert tileir.explain(program, [(3,)], target=file).kernels
    assert tileir.jit(program, target=file)(np.zeros(1, np.float32)).tolist() == [1]
