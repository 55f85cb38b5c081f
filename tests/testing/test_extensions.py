"""The kit of extensions: what is right passes, and what is wrong is told."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import click
import numpy as np
import pytest

from strategies.wheels import install
from tileir.core.extensions import EXTENSIONS
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import map_kernels
from tileir.passes.fusion.fuse import Fuse
from tileir.tile import builder_functions as tf
from tileir_testing.extensions import (
    check_command,
    check_listing,
    check_operation,
    check_pass,
    check_schedule,
    check_target,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tileir.stripe.ir import Block, Program


@attrs.frozen
class Shorten:
    """Leaves the last row out."""

    name: ClassVar[str] = "shorten"

    def __call__(self, program: Program) -> Program:
        return map_kernels(program, self._shortened)

    def _shortened(self, kernel: Block) -> Block:
        if not kernel.indices:
            return kernel
        *others, last = kernel.indices
        return attrs.evolve(kernel, indices=(*others, attrs.evolve(last, range=last.range - 1)))


@attrs.frozen
class Failing:
    """Fails."""

    name: ClassVar[str] = "failing"

    def __call__(self, program: Program) -> Program:
        raise ZeroDivisionError(f"{len(program.kernels)} kernels")


@click.command()
def greet() -> None:
    """Greet."""


def wrong_gradient(x: Any) -> Any:
    y = x * x
    return tf.override_gradient(y, (x, tf.upstream(y)))


@pytest.mark.sampled(0)
def test_what_is_right_passes() -> None:
    check_pass(Accumulate)
    check_pass(Fuse, steps=[Fuse(), Fuse(siblings=False)])
    check_schedule("accumulate")
    check_target('{"name": "mine", "passes": [{"include": "cpu"}]}')
    check_operation(lambda x, y: x * tf.sigmoid(y), np.linspace(-1, 1, 6).reshape(2, 3), np.ones(3))
    check_operation(lambda x: tf.floor(x), np.array(2.5), expected=np.floor)
    check_listing(lambda executable: str(len(executable.sem.kernels)))
    check_command(greet)


@pytest.mark.parametrize(
    ("check", "said"),
    [
        (lambda: check_pass(Shorten), "pass 1, 'shorten', changes what the program computes"),
        (lambda: check_pass(Failing), "ZeroDivisionError"),
        (lambda: check_pass(Accumulate, "another"), "calls itself 'accumulate'"),
        (lambda: check_pass(int), "not an attrs class"),  # type: ignore[arg-type]
        (lambda: check_schedule("fuse,accumulate"), "it has 2 steps"),
        (lambda: check_schedule(3), "it is a int"),
        (lambda: check_target("{"), "the target file is wrong"),
        (lambda: check_target('{"name": "mine", "passes": [{"name": "nothing"}]}'), "there is no pass nothing"),
        (
            lambda: check_target('{"name": "mine", "parameters": {"N": {"meaning": "how many"}}, "passes": []}'),
            "cannot be used without N",
        ),
        (lambda: check_operation(lambda x: x + 1, np.ones(3), expected=np.negative), "Not equal to tolerance"),
        (lambda: check_operation(wrong_gradient, np.linspace(1, 2, 3)), "gradient"),
        (lambda: check_listing(lambda _: 3), "is a int, not a text"),
        (lambda: check_listing(lambda _, seen=[]: seen.append(1) or str(seen)), "differs"),
        (lambda: check_command(len), "not a click.Command"),
    ],
)
def test_what_is_wrong_is_told(check: Callable[[], None], said: str) -> None:
    with pytest.raises(AssertionError) as caught:
        check()
    assert said in str(caught.value)


@pytest.mark.sampled(0)
def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = "SCHEDULE = 'accumulate'\nWRONG = 3\n"
    groups = {"tileir.schedules": {"mine": "kit_strangers:SCHEDULE", "wrong": "kit_strangers:WRONG"}}
    install(tmp_path, monkeypatch, "kit_strangers", groups, module)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for name, code, said in (
        ("mine", 0, "all checks passed"),
        ("wrong", 1, "it is a int"),
        ("nobody", 2, "mine, wrong"),
    ):
        command = [sys.executable, "-m", "tileir.testing", "--extension", "schedule", name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, said in done.stdout + done.stderr) == (code, True)
    monkeypatch.undo()
    EXTENSIONS.forget()
