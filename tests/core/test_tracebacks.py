"""Errors show one frame of tileir at most, and none of the user's is lost."""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tileir
from strategies.tile_parts import Parts
from tileir import FunctionBuilder, TileError, ops
from tileir.core.process.tracebacks import with_short_traceback
from tileir.tile import builder_functions as tf

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE = str(Path(tileir.__file__).parent)


def frames(error: BaseException) -> list[str]:
    """The functions of tileir in a traceback."""
    found = traceback.extract_tb(error.__traceback__)
    return [frame.name for frame in found if frame.filename.startswith(PACKAGE)]


@pytest.mark.parametrize(
    "mistake",
    [
        lambda p: p.x + "x",
        lambda p: 1 + ops.softmax(p.x, dim=3),  # type: ignore[call-arg]
        lambda p: ops.max_pool(p.x, 2),
        lambda p: p.b[p.i * p.i],
        lambda p: (p.i + 1) * p.i,
        lambda p: p.n + "x",
        lambda p: p.f.build(),
        lambda p: bool(p.x),
        lambda _: tileir.parse("function"),
        lambda _: tileir.compile("function (A) -> (B) { B = A; }", []),
        lambda _: tileir.jit("function"),
        lambda _: tileir.gradient("function (A) -> (B) { B = A; }", wrt=["Q"]),
        lambda _: tileir.explain("function"),
        lambda _: tileir.warnings_of("function"),
        lambda _: tileir.stepper("function", updates={}, state={}),
        lambda _: tileir.evaluate("function (A) -> (B) { B = A + C; }", [np.ones(3)]),
    ],
)
def test_one_frame_at_most(mistake: Callable[[Any], object]) -> None:
    parts = Parts()
    with pytest.raises(TileError) as caught:
        mistake(parts)
    assert len(frames(caught.value)) <= 1


def test_calls_of_jit_show_two_frames_at_most() -> None:
    function = tileir.jit("function (A[N], B[N]) -> (C) { C = A + B; }")
    for arguments in ((np.ones(3),), (np.ones(3), np.ones(4)), (np.ones(3), "x")):
        with pytest.raises(TileError) as caught:
            function(*arguments)
        assert len(frames(caught.value)) <= 2


def test_functions_of_the_builder_show_themselves_too() -> None:
    a = FunctionBuilder().input("A")
    with pytest.raises(TileError) as caught:
        tf.where(a, a)  # type: ignore[call-overload]
    assert len(frames(caught.value)) <= 2


ADD = "function (A[N]) -> (B) { B = A + 1.0; }"
CALLED = tileir.jit(ADD)
COMPILED = tileir.compile(ADD, [(3,)])
STEPPED = tileir.stepper(
    "function (W, R) -> (V) { V = W - R; }", updates={"W": "V"}, state={"W": np.ones(2, np.float32)}
)


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: CALLED(),
        lambda: CALLED(np.ones(3, complex)),
        lambda: CALLED(np.ones((2, 2))),
        lambda: CALLED(B=np.ones(3)),
        lambda: CALLED(np.ones(3, np.float32), out=np.ones(4, np.float32)),
        lambda: CALLED.specialise(np.ones((2, 2))),
        lambda: COMPILED(np.ones((5, 2), np.float32)),
        lambda: COMPILED(),
        lambda: COMPILED(np.ones(3, np.float32), out=[]),
        lambda: COMPILED.submit(np.ones((5, 2), np.float32)),
        lambda: STEPPED(np.ones((3, 3, 3), np.float32)),
        lambda: STEPPED(),
        lambda: STEPPED.load({"X": np.ones(2)}),
        lambda: tileir.verify(3),  # type: ignore[arg-type]
        lambda: tileir.to_text(3),  # type: ignore[arg-type]
        lambda: tileir.from_json("{", tileir.Function),
        lambda: tileir.craft("no formula"),
        lambda: tileir.parse("{", stage="pipeline"),
        lambda: tileir.warnings_of(ADD, [(3, 3)]),
    ],
)
def test_calls_of_all_kinds_show_one_frame(mistake: Callable[[], object]) -> None:
    with pytest.raises(TileError) as caught:
        mistake()
    assert len(frames(caught.value)) == 1


def test_frames_of_the_user_stay() -> None:
    def step(a: Any) -> Any:
        return a + "x"

    with pytest.raises(TileError) as caught:
        tf.scan(step, [FunctionBuilder().input("A")], count=3)
    assert "step" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]


def test_other_errors_keep_their_frames() -> None:
    @with_short_traceback
    def broken() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        broken()
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "broken"


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        (lambda: tileir.compile(ADD, [(3,)], devise=""), "compile() has no argument 'devise'; did you mean 'device'"),  # type: ignore[call-arg]
        (lambda: tileir.jit(ADD, contxt=None), "jit() has no argument 'contxt'; did you mean 'context'"),  # type: ignore[call-overload]
        (lambda: tileir.explain(ADD, [(3,)], mesure=True), "did you mean 'measure'"),  # type: ignore[call-arg]
        (lambda: tileir.tune(ADD, [(3,)], script=True), "did you mean 'scripts'"),  # type: ignore[call-arg]
        (lambda: tileir.parse(ADD, stge="tile"), "did you mean 'stage'"),  # type: ignore[call-overload]
        (lambda: tileir.stepper(ADD, {}, {}, contexts=None), "did you mean 'context'"),  # type: ignore[call-arg]
        (lambda: tileir.gradient(ADD, wrts=["A"]), "did you mean 'wrt'"),  # type: ignore[call-overload]
        (lambda: tileir.to_device(np.ones(3), devise="llvm"), "did you mean 'device'"),  # type: ignore[call-arg]
        (lambda: tileir.memory(devise="llvm"), "did you mean 'device'"),  # type: ignore[call-arg]
        (lambda: tileir.Target(vector_byts=32), "Target() has no argument 'vector_byts'; did you mean 'vector_bytes'"),  # type: ignore[call-arg]
        (lambda: tileir.Options(fast_mth=True), "did you mean 'fast_math'"),  # type: ignore[call-arg]
        (lambda: tileir.Context(dsk_cache=None), "did you mean 'disk_cache'"),  # type: ignore[call-arg]
        (lambda: FunctionBuilder().input(nme="X"), "FunctionBuilder.input() has no argument 'nme'"),  # type: ignore[call-arg]
    ],
)
def test_arguments_that_are_misspelt_are_told_what_is_meant(mistake: Callable[[], object], said: str) -> None:
    with pytest.raises(TypeError) as caught:
        mistake()
    assert said in str(caught.value)
    assert len(frames(caught.value)) == 1


def test_other_errors_of_types_stay_as_they_are() -> None:
    @with_short_traceback
    def fails(given: int = 0) -> None:
        raise TypeError(f"got an unexpected keyword argument {given}")

    with pytest.raises(TypeError, match="unexpected keyword argument 3"):
        fails(3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'zzz'"):
        fails(zzz=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'give'"):
        fails(2, give=1, given=2)  # type: ignore[call-arg, misc]


def test_a_package_behind_a_link_is_known_too(tmp_path: Path) -> None:
    (tmp_path / "tileir").symlink_to(PACKAGE, target_is_directory=True)
    program = tmp_path / "program.py"
    program.write_text(
        "import traceback, tileir\n"
        "try:\n"
        "    tileir.FunctionBuilder().input('A', ('M', 'N'))\n"
        "except tileir.TileError as error:\n"
        "    (fault,) = error.diagnostics\n"
        "    print(fault.span.line, fault.message, fault.span.source.name)\n"
        "    print(len(traceback.extract_tb(error.__traceback__)), tileir.__file__)\n"
    )
    done = subprocess.run(
        [sys.executable, str(program)],
        check=True,
        text=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    place, frames_shown = done.stdout.splitlines()
    assert place == f"3 ('M', 'N') is no name; pass each on its own: 'M', 'N' {program}"
    assert frames_shown == f"2 {tmp_path / 'tileir' / '__init__.py'}"
