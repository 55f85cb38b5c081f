"""Things by name from strangers' wheels: used wherever names are, loaded when they are, and never in anybody's way."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

import tileir
from strategies.wheels import install
from tileir import ops
from tileir.core.companions import WHEELS
from tileir.core.extensions import EXTENSIONS, Extensions, Kind, installed
from tileir.core.targets import target_file
from tileir.passes.pipelines.catalog import load_pipeline, parse_pipeline, resolve_pipeline
from tileir.passes.pipelines.pipeline import to_text
from tileir.runtime.caches.source_digest import digest_of_extensions
from tileir_cli import main as cli
from tileir_testing.extensions import check_installed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MODULE = '''
from typing import ClassVar
import attrs, click
from tileir.tile import builder_functions as tf
from tileir.core.errors import BackendError

SEEN = []

@attrs.frozen
class CountKernels:
    """Counts kernels, and changes nothing."""
    name: ClassVar[str] = "count_kernels"
    label: str = "usual"

    def __call__(self, program):
        SEEN.append((self.label, len(program.kernels)))
        return program

class NoOptions:
    name = "no_attrs"

SCHEDULE = "count_kernels{label=scheduled}"
TWO = "fuse,localise"
TARGET = """{"name": "strange_target", "about": "for tests",
  "parameters": {"LABEL": {"default": "target", "meaning": "what is noted"}},
  "passes": [{"name": "count_kernels", "options": {"label": "@LABEL@"}}, {"include": "cpu"}]}"""
MISNAMED = '{"name": "other", "passes": []}'

def swish(x):
    y = x * tf.sigmoid(x)
    return tf.override_gradient(y, (x, tf.upstream(y) * 3))

def kernels(executable):
    return f"{len(executable.sem.kernels)} kernels"

def failing(executable):
    raise ZeroDivisionError("no")

def number(executable):
    return 3

@click.command()
@click.argument("word")
def shout(word):
    """Shout a word."""
    click.echo(word.upper())
'''

GROUPS = {
    "tileir.passes": {
        "count_kernels": "strangers:CountKernels",
        "no_attrs": "strangers:NoOptions",
        "misnamed": "strangers:CountKernels",
        "absent": "strangers:Absent",
        "accumulate": "strangers:CountKernels",
    },
    "tileir.schedules": {"counted": "strangers:SCHEDULE", "two": "strangers:TWO"},
    "tileir.targets": {"strange_target": "strangers:TARGET", "wrong_target": "strangers:MISNAMED"},
    "tileir.operations": {"strange_swish": "strangers:swish", "no_function": "strangers:TARGET"},
    "tileir.listings": {"kernels": "strangers:kernels", "failing": "strangers:failing", "number": "strangers:number"},
    "tileir.commands": {"shout": "strangers:shout", "check": "strangers:shout", "no_command": "strangers:TARGET"},
}
ADD = "function (A[N]) -> (B) { B = A + 1; }"


@pytest.fixture
def strangers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, int]]]:
    """Install a distribution that offers one of everything; what its pass has seen."""
    install(tmp_path, monkeypatch, "strangers", GROUPS, MODULE.replace("@LABEL@", "{{LABEL}}"))
    assert "strangers" not in sys.modules
    yield Seen()
    monkeypatch.undo()
    EXTENSIONS.forget()


class Seen(list[tuple[str, int]]):
    """Return the notes of the third party's pass, once it is loaded."""

    def taken(self) -> list[tuple[str, int]]:
        noted = sys.modules["strangers"].SEEN
        found = list(noted)
        noted.clear()
        return found


def test_nothing_is_loaded_until_it_is_named(strangers: Seen) -> None:
    tileir.compile(ADD, [(3,)], device="llvm")
    assert "count_kernels" in EXTENSIONS.names(Kind.PASS)
    assert "strange_swish" in dir(ops)
    assert "kernels" in tileir.compile(ADD, [(3,)], device="llvm").listings
    assert "strangers" not in sys.modules


@pytest.mark.parametrize("text", ["count_kernels,accumulate", "mine: count_kernels{label=usual},accumulate"])
def test_passes_in_pipelines(strangers: Seen, text: str) -> None:
    tileir.compile(ADD, [(3,)], device="llvm", passes=text)
    assert strangers.taken() == [("usual", 1)]
    steps = parse_pipeline(text)
    assert parse_pipeline(to_text(steps)) == steps
    assert load_pipeline('[{"name": "count_kernels", "options": {"label": "x"}}]')[0].label == "x"  # type: ignore[attr-defined]


def test_what_tileir_has_is_not_replaced(strangers: Seen) -> None:
    (step,) = parse_pipeline("accumulate")
    assert type(step).__module__.startswith("tileir.")


def test_schedules_in_pipelines_and_target_files(strangers: Seen) -> None:
    tileir.compile(ADD, [(3,)], device="llvm", passes="counted,accumulate")
    assert strangers.taken() == [("scheduled", 1)]
    target = tileir.parse('{"name": "own", "passes": [{"name": "counted"}, {"include": "cpu"}]}', stage="target")
    assert target.name == "own"


def test_a_folder_does_not_hide_a_target(strangers: Seen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "strange_target").mkdir()  # as of the wheel that one works on
    assert tileir.explain(ADD, [(3,)], device="llvm", target="strange_target:LABEL=beside").kernels
    assert strangers.taken() == [("beside", 1)]
    with pytest.raises(tileir.TileError, match=r"TIL901.*directory"):
        tileir.explain(ADD, [(3,)], device="llvm", target=str(tmp_path))


def test_targets_with_parameters_and_includes(strangers: Seen, tmp_path: Path) -> None:
    given = np.arange(3, dtype=np.float32)
    for named, label in (("strange_target", "target"), ("strange_target:LABEL=other", "other")):
        executable = tileir.compile(ADD, [given], device="llvm", target=named)
        assert (executable(given) == given + 1).all()
        assert strangers.taken() == [(label, 1)]
    file = tmp_path / "own.json"
    file.write_text('{"name": "own", "passes": [{"include": "strange_target"}]}')
    tileir.compile(ADD, [given], device="llvm", target=file)
    assert strangers.taken() == [("target", 1)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("scripts", [False, True])
@pytest.mark.parametrize(
    ("passes", "target", "label"),
    [
        ("count_kernels,accumulate,vectorise", None, "usual"),
        ("counted,accumulate,vectorise", None, "scheduled"),
        ('[{"name": "counted"}, {"name": "accumulate"}]', None, "scheduled"),
        ("strange_target", None, "target"),
        (None, "strange_target:LABEL={}", "{}"),  # a process resolves equal targets once
    ],
)
def test_tuning(strangers: Seen, scripts: bool, passes: str | None, target: str | None, label: str) -> None:
    context = tileir.Context(disk_cache=None)
    target = target and target.format(scripts)
    found = tileir.tune(
        *(ADD, [(300,)]), passes=passes, target=target, scripts=scripts, context=context, top=2, time_limit=1.0
    )
    assert all(trial.fault == "" for trial in found.trials)
    assert {name for name, _ in strangers.taken()} == {label.format(scripts)}
    assert "count_kernels" in str(found)


def test_tuning_from_named_passes_keeps_nothing(tmp_path: Path) -> None:
    context = tileir.Context(disk_cache=tileir.DiskCache(tmp_path))
    found = tileir.tune(ADD, [(3000,)], passes="accumulate", context=context, top=2, time_limit=1.0)
    assert not found.stored
    assert context.disk_cache is not None
    assert not list(tmp_path.rglob("*winner*"))
    assert not list(tmp_path.rglob("*tuning*"))


def test_names_of_the_tuner_that_nobody_has(strangers: Seen) -> None:
    for passes, code in (("absent", "TIL811"), ("count_kernel", "TIL541"), ("counte", "TIL541")):
        with pytest.raises(tileir.TileError, match=code):
            tileir.tune(ADD, [(3,)], passes=passes)


def test_operations_with_gradients(strangers: Seen) -> None:
    f = tileir.FunctionBuilder()
    x = f.input("X", "N")
    function = f.build(Y=ops.strange_swish(x))  # type: ignore[attr-defined]
    given = np.linspace(-2, 2, 5)
    np.testing.assert_allclose(tileir.evaluate(function, [given]), given / (1 + np.exp(-given)))
    gradient = tileir.gradient(function, wrt=["X"])
    np.testing.assert_allclose(tileir.evaluate(gradient, {"X": given}), 3 * np.ones(5))


def test_forms_of_listings(strangers: Seen) -> None:
    executable = tileir.compile(ADD, [(3,)], device="llvm")
    assert executable.listing("kernels") == "1 kernels"
    with pytest.raises(tileir.BackendError, match=r"TIL806.*no listing 'kernel'; did you mean 'kernels'"):
        executable.listing("kernel")
    with pytest.raises(tileir.BackendError, match=r"TIL806.*lists 'llvm' or 'asm', not 'lvm'; did you mean 'llvm'"):
        executable.listing("lvm")
    for form, said in (("failing", "ZeroDivisionError: no"), ("number", "is a int, not a text")):
        with pytest.raises(tileir.BackendError, match=said):
            executable.listing(form)


def command(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["tileir", *words])
    return cli.run()


def test_commands(strangers: Seen, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(monkeypatch, "shout", "word") == 0
    assert capsys.readouterr().out == "WORD\n"
    assert command(monkeypatch, "no_command", "word", "--option") == 1
    assert "TIL811" in capsys.readouterr().err
    assert command(monkeypatch, "--help") == 0
    shown = capsys.readouterr().out
    assert "Shout a word." in shown
    assert "(cannot be loaded)" in shown
    assert command(monkeypatch, "check", "--help") == 0
    assert "Parse FILE" in capsys.readouterr().out


def test_all_are_listed_with_what_is_wrong(
    strangers: Seen, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, "extensions", "--json") == 0
    rows = {(row["kind"], row["name"]): row for row in json.loads(capsys.readouterr().out)}
    assert {row["distribution"] for key, row in rows.items() if key[1] in GROUPS["tileir.passes"]} == {"strangers 1.0"}
    working = {key for key, row in rows.items() if row["problem"] is None}
    assert working >= {("pass", "count_kernels"), ("schedule", "counted"), ("target", "strange_target")}
    assert working >= {("operation", "strange_swish"), ("listing", "kernels"), ("command", "shout")}
    assert "calls itself 'other'" in rows["target", "wrong_target"]["problem"]
    assert not working & {("pass", "absent"), ("schedule", "two"), ("command", "no_command")}
    assert command(monkeypatch, "extensions") == 0
    assert "strange_swish" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("use", "code", "said"),
    [
        (lambda: parse_pipeline("no_attrs"), "TIL811", "not an attrs class"),
        (lambda: parse_pipeline("misnamed"), "TIL811", "calls itself 'count_kernels'"),
        (lambda: parse_pipeline("absent"), "TIL811", "pass 'absent' of strangers 1.0 cannot be loaded: AttributeError"),
        (lambda: parse_pipeline("two"), "TIL811", "it has 2 steps"),
        (lambda: parse_pipeline("count_kernel"), "TIL541", "did you mean count_kernels?"),
        (lambda: parse_pipeline("count_kernels{lable=x}"), "TIL542", "did you mean label?"),
        (lambda: tileir.compile(ADD, [(3,)], target="strange_targe"), "TIL547", "did you mean strange_target?"),
        (lambda: tileir.compile(ADD, [(3,)], target="wrong_target"), "TIL811", "calls itself 'other'"),
        (lambda: ops.no_function, "TIL811", "not a function over tensors"),  # type: ignore[attr-defined]
    ],
)
def test_failures_say_whose_they_are(strangers: Seen, use: Callable[[], object], code: str, said: str) -> None:
    with pytest.raises(tileir.TileError) as caught:
        use()
    assert caught.value.diagnostics[0].code == code
    assert said in caught.value.diagnostics[0].message


def test_an_operation_that_nobody_has_is_an_attribute_error(strangers: Seen) -> None:
    with pytest.raises(AttributeError, match="did you mean 'strange_swish'"):
        ops.strange_swis  # type: ignore[attr-defined]  # noqa: B018


def test_two_distributions_with_one_name(strangers: Seen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    again = {"tileir.passes": {"count_kernels": "strangers_too:CountKernels"}}
    install(tmp_path, monkeypatch, "strangers_too", again, MODULE)
    with pytest.raises(tileir.BackendError, match=r"TIL812.*strangers 1.0 .* and strangers_too 1.0"):
        parse_pipeline("count_kernels")
    assert parse_pipeline("fuse")


def test_failures_are_kept_and_logged_once(strangers: Seen, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            with pytest.raises(tileir.BackendError):
                parse_pipeline("absent")
    assert len(caplog.records) == 1


def test_what_exits_or_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "exiting", {"tileir.commands": {"gone": "exiting:x"}}, "raise SystemExit(3)")
    install(tmp_path, monkeypatch, "stopped", {"tileir.commands": {"stop": "stopped:x"}}, "raise KeyboardInterrupt")
    extensions = Extensions()
    with pytest.raises(tileir.BackendError, match="SystemExit: 3"):
        extensions.get(Kind.COMMAND, "gone", lambda _: None)
    with pytest.raises(KeyboardInterrupt):
        extensions.get(Kind.COMMAND, "stop", lambda _: None)
    monkeypatch.undo()
    EXTENSIONS.forget()


PROGRAM = """
import sys, tileir
tileir.compile("function (A[N]) -> (B) { B = A + 1; }", [(3,)], device="llvm", passes="count_kernels,accumulate")
print("ran" if getattr(sys.modules.get("changing"), "SEEN", None) else "kept")
"""


@pytest.mark.sampled(0)
def test_kernels_of_a_pass_that_changed_are_not_taken_from_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    install(site, monkeypatch, "changing", {"tileir.passes": {"count_kernels": "changing:CountKernels"}}, "")
    monkeypatch.undo()
    EXTENSIONS.forget()
    environment = {**os.environ, "PYTHONPATH": str(site), "TILEIR_CACHE_DIR": str(tmp_path / "cache")}
    told = []
    for text in (MODULE, MODULE, MODULE + "# changed\n"):
        (site / "changing.py").write_text(text)
        os.utime(site / "changing.py", (1e9, 1e9))  # what is younger than a process is never kept
        command = [sys.executable, "-B", "-c", PROGRAM]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        told.append(done.stdout.strip())
    assert told == ["ran", "kept", "ran"]


def test_pipelines_without_strangers_have_no_digest_of_them(strangers: Seen) -> None:
    assert digest_of_extensions("cpu") == ""
    assert digest_of_extensions("fuse,localise") == ""
    assert digest_of_extensions("fuse,count_kernels") != ""


def test_the_kit_tells_which_name_may_be_meant(strangers: Seen) -> None:
    with pytest.raises(ValueError, match="offers the operation 'strange_swich'; did you mean strange_swish"):
        check_installed(Kind.OPERATION, "strange_swich")


@pytest.mark.parametrize(
    ("use", "code"),
    [
        (lambda: tileir.compile(ADD, [(3,)], target="dsp_conv"), "TIL547"),
        (lambda: tileir.compile(ADD, [(3,)], target="dsp_conv:NUM_CONV=2"), "TIL547"),
        (lambda: resolve_pipeline('{"name": "own", "passes": [{"include": "dsp_conv"}]}', tileir.Target()), "TIL547"),
        (lambda: parse_pipeline("accumulate, tensorise"), "TIL541"),
        (lambda: load_pipeline('[{"tensorize": {}}]'), "TIL541"),
    ],
)
def test_what_another_wheel_of_the_project_has_is_told_with_its_name(
    monkeypatch: pytest.MonkeyPatch, use: Callable[[], object], code: str
) -> None:
    monkeypatch.setattr(EXTENSIONS, "find", lambda kind: [e for e in installed(kind) if e.name not in WHEELS])
    target_file.target_called.cache_clear()
    EXTENSIONS.forget()
    try:
        with pytest.raises(tileir.TileError, match="; it comes with tileir-accelerators: pip install") as caught:
            use()
    finally:
        monkeypatch.undo()
        target_file.target_called.cache_clear()
        EXTENSIONS.forget()
    assert [fault.code for fault in caught.value.diagnostics] == [code]
