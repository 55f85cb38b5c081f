from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from strategies import opencl_device
from strategies.sources import ROOT
from tileir.tile.functions import BUILTINS
from tileir_testing import __main__ as command, tables
from tileir_testing.generated.case import program
from tileir_testing.programs.case import Conformance
from tileir_testing.programs.catalog import CASES
from tileir_testing.tables import Evaluated

REFERENCE: Final = "tileir_reference:BACKEND"
PATHS: Final = (Path(__file__).parent, ROOT / "plugins" / "tileir-reference" / "src")


def run(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    paths = [*map(str, PATHS), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "TILEIR_DEVICE": ""}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, check=False, text=True
    )


def kit(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run("-m", "tileir.testing", *arguments)


RUNNING: Final = ("copies", "errors", "events", "kernels", "libraries", "memory", "options", "works")
NUMBERS: Final = ("contractions", "dtypes")
"""Areas left out on OpenCL: its drivers take minutes to build kernels that other areas cover."""


@pytest.mark.sampled(0)  # how kernels run on either; their numbers, which tests of emitters compare, too, at night
@pytest.mark.parametrize(
    ("name", "areas"),
    [
        ("llvm", RUNNING),
        ("llvm", (*NUMBERS, "functions", "generated")),
        ("opencl", RUNNING),
        ("opencl", NUMBERS),
    ],
)
def test_our_own_back_ends_pass(name: str, areas: tuple[str, ...]) -> None:
    """Leave out what others run: the named programs on LLVM tests/conformance, all of it on the interpreter tox."""
    done = kit(opencl_device.device().id if name == "opencl" else name, *areas)
    assert done.returncode == 0, done.stdout + done.stderr
    for area in areas:
        assert re.search(rf"^{area} +\d+ +0 ", done.stdout, re.MULTILINE), area


@pytest.mark.sampled(0)
def test_the_kit_runs_as_ordinary_tests(tmp_path: Path) -> None:
    arguments = ("-m", "pytest", "-p", "tileir_pytest", "-q", "--pyargs", "tileir_testing", "-k", "matmul_5x5x5")
    done = run(*arguments, "--backend", REFERENCE, folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout
    without = run(*arguments, folder=tmp_path)
    assert without.returncode == 2
    assert "say what to test: --backend NAME" in without.stdout + without.stderr


def test_options_stay_away_from_other_tests(tmp_path: Path) -> None:
    (tmp_path / "test_nothing.py").write_text("def test_nothing(): pass\n")
    done = run("-m", "pytest", "-p", "tileir_pytest", "test_nothing.py", "--backend", "llvm", folder=tmp_path)
    assert "unrecognized arguments: --backend" in done.stderr


@pytest.mark.sampled(0)
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nothing", "there is no device 'nothing'"),
        ("no_such_module:BACKEND", "No module named 'no_such_module'"),
        ("tileir_reference:Kernel", "is of type type, not Backend"),
    ],
)
def test_what_does_not_exist_is_named(name: str, reason: str) -> None:
    done = kit(name)
    assert done.returncode == 2
    assert reason in done.stdout + done.stderr


DEFECTS: Final = {
    "MOD": ("functions", "test_functions[binary_i32]"),
    "MAX": ("functions", "test_functions[binary_f32]"),
    "COMPARE": ("functions", "test_functions[binary_u8]"),
    "SHIFT": ("kernels", "test_kernels[bits of floats]"),
    "BARRIER": ("kernels", "test_groups_of_threads[a group turns its elements round]"),
    "IMPATIENT": ("events", "test_a_launch_waits_for_what_it_comes_after[with then]"),
    "FORGIVING": ("events", "test_a_failure_reaches_everyone_who_waits[without then]"),
    "REWORDING": ("events", "test_a_failure_reaches_everyone_who_waits[with then]"),
    "TIMELESS": ("events", "test_durations_are_seconds_or_unknown"),
    "HASTY": ("events", "test_a_copy_waits_for_what_it_comes_after[without then]"),
    "CARELESS": ("errors", "test_buffers_that_do_not_fit_are_refused[(4000, 3999)]"),
    "UNBOUNDED": ("errors", "test_kernels_that_a_library_lacks_are_refused[7]"),
    "INDEBTED": ("errors", "test_memory_of_no_size_is_refused[-1]"),
    "TRUSTING": ("errors", "test_spoilt_libraries_are_refused_or_harmless[half]"),
    "IMMORTAL": ("errors", "test_a_closed_executor_says_so"),
    "GREEDY": ("copies", "test_copies_stop_at_the_shorter_end"),
    "CROOKED": ("copies", "test_memory_has_the_size_that_was_asked_for[1000]"),
    "SHARING": ("copies", "test_memory_is_not_shared"),
    "DISTANT": ("copies", "test_a_map_shows_the_content_and_takes_changes"),
    "HOARDING": ("memory", "test_dropped_buffers_are_given_back"),
    "CONFUSED": ("threads", "test_one_executable_in_many_threads"),
    "FORGETFUL": ("libraries", "test_a_saved_library_works_for_another_compiler"),
    "FICKLE": ("libraries", "test_an_identity_is_stable"),
}


@pytest.mark.sampled(0)
def test_defects_are_found() -> None:
    words = [word for defect, places in DEFECTS.items() for word in (defect, *places)]
    done = run(str(Path(__file__).with_name("find_defects.py")), *words)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {name: test for name, (_, test) in DEFECTS.items() if test not in found[name]} == {}


@pytest.mark.sampled(0)
def test_a_defect_decides_the_exit_code() -> None:
    done = kit("broken_backends:FICKLE", "libraries")
    assert done.returncode == 1
    assert "test_an_identity_is_stable" in done.stdout


@pytest.mark.sampled(0)
def test_devices_are_compared() -> None:
    done = kit("--compare", "llvm", REFERENCE, "--programs", "40")
    assert done.returncode == 0, done.stdout
    assert "40 programs agree" in done.stdout


@pytest.mark.sampled(0)
def test_several_processes_share_the_comparison() -> None:
    done = kit("--compare", "llvm", REFERENCE, "--programs", "15", "--jobs", "2")
    assert done.returncode == 0, done.stdout
    assert "7 programs agree" in done.stdout
    assert "8 programs agree" in done.stdout


@pytest.mark.sampled(0)
def test_a_difference_in_one_part_is_a_difference() -> None:
    assert kit("--compare", REFERENCE, "broken_backends:MAX", "--programs", "200", "--jobs", "2").returncode == 1


@pytest.mark.sampled(0)
def test_a_disagreement_is_reduced_and_can_be_run_again() -> None:
    done = kit("--compare", REFERENCE, "broken_backends:MAX", "--programs", "200")
    assert done.returncode == 1
    assert re.search(r"^function \(", done.stdout, re.MULTILINE)
    again = re.search(r"again: (.*)$", done.stdout, re.MULTILINE)
    assert again is not None
    assert kit("--compare", REFERENCE, "broken_backends:MAX", *again[1].split()).returncode == 1


def test_every_builtin_is_called() -> None:
    items: tuple[Conformance | Evaluated, ...] = (
        *CASES,
        *tables.DTYPE_PROGRAMS,
        *tables.FUNCTION_PROGRAMS,
        *tables.CONTRACTION_PROGRAMS,
    )
    called = {name for item in items for name in re.findall(r"([a-z_0-9]+)\(", item.text)}
    assert BUILTINS.keys() - called == set()


def test_programs_depend_on_seed_and_number_alone() -> None:
    assert program(3, 17).text == program(3, 17).text
    assert program(3, 17).text != program(4, 17).text


@pytest.mark.parametrize(
    "options", [["-n", "2"], ["-n2"], ["--numprocesses=auto"], ["-n", "2", "--dist", "load"], ["-x"]], ids=str
)
def test_neighbours_stay_in_one_process(monkeypatch: pytest.MonkeyPatch, options: list[str]) -> None:
    """Or several processes would compile the same batch, unless the caller wants something else."""
    called: list[list[str]] = []

    def run(command: list[str], *, check: bool) -> subprocess.CompletedProcess[str]:
        called.append(command)
        return subprocess.CompletedProcess(command, 3, stdout="", stderr=str(check))

    monkeypatch.setattr(subprocess, "run", run)
    assert command.main(["llvm", "errors", *options]) == 3
    (words,) = called
    stays = words.count("worksteal")
    assert stays == (options != ["-x"])
    assert words[-len(options) - 1 : -1] == options
    assert "load" not in options or words.index("load") > words.index("worksteal")


def test_pytest_may_be_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert command.main(["llvm"]) == 2
    assert "pip install 'tileir[testing]'" in capsys.readouterr().err


def test_one_name_or_a_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["llvm", "--compare", "llvm"]):
        with pytest.raises(SystemExit) as caught:
            command.main(arguments)
        assert caught.value.code == 2
    assert "name one back end" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command.main(["llvm", "weather"])
    assert "there is no area 'weather'; the areas are contractions, copies" in capsys.readouterr().err
