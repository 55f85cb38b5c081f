"""Exports that make equal pictures: scripts bit for bit, source in another program."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np
import pytest
from PIL import Image

import tileir
from studio.strangers import by_opencl
from studio.taken import COLOUR, DEEP, FLOATS, FORMULAS, GREY, PICTURES, assignment, check_equal, check_near, results_of
from tileir.core.errors import TileError
from tileir.runtime.context import Context, default_context
from tileir.runtime.discovery import Registry
from tileir_cli.pictures.files import as_levels
from tileir_opencl.device.platforms import POCL, scan
from tileir_opencl.listing import whole
from tileir_studio.design.bench import Assignment, Bench
from tileir_studio.design.exports import script_of, source_of, writers
from tileir_studio.serve.uploads import store
from tileir_testing.generated.choices import Seeded
from tileir_testing.generated.works import works_case

if TYPE_CHECKING:
    from pathlib import Path

OTHERS: Final = {
    "several": "grey",
    "conditioned": "deep",
    "two": "grey",
    "edges": "deep",
    "merged": "floats",
    "repeated": "floats",
}
CASES: Final = tuple((name, OTHERS.get(name, "colour")) for name in FORMULAS)
"""Each formula with one kind of picture; scripts have colours with all that take one."""


def platform() -> str:
    """Return the version of a platform that compiles kernels, PoCL's where there is one; it may be here twice."""
    platforms = [each.platform for each in scan().require()]
    return next((each.version for each in platforms if each.name == POCL), platforms[0].version)


@pytest.mark.sampled(0)
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_opencl_source_runs_without_tileir(name: str, kind: str, tmp_path: Path) -> None:
    given = assignment(FORMULAS[name], PICTURES[kind])
    found = by_opencl(source_of(given, "opencl"), given.pictures, platform(), tmp_path)
    check_equal(found, results_of(given, "opencl.0"))
    check_near(found, results_of(given))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", range(4))
def test_opencl_source_loops_and_branches_without_tileir(number: int, tmp_path: Path) -> None:
    device = default_context().device("opencl")
    case = works_case(Seeded(f"source {number}"), device.target.index_dtype)
    found = by_opencl(whole(case.program, device, "works"), list(case.inputs.values()), platform(), tmp_path)
    case.check(dict(zip(case.expected(), found, strict=True)))


@pytest.mark.sampled(0)
@pytest.mark.parametrize("name", FORMULAS)
def test_the_script_makes_the_same_bytes(name: str, tmp_path: Path) -> None:
    given = assignment(FORMULAS[name], GREY if name == "two" else COLOUR)
    inputs = [f"{each}.png" for each in given.formula.formula.inputs]
    for file, picture in zip(inputs, given.pictures, strict=True):
        Image.fromarray(picture).save(tmp_path / file)
    expected = results_of(given)
    outputs = [f"result{number}.png" for number in range(len(expected))]
    (tmp_path / "formula.py").write_text(script_of(given, "formula.py"), "utf-8")
    command = [sys.executable, "formula.py", *inputs, *outputs]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    for file, result in zip(outputs, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / file)), as_levels(result))


@pytest.mark.sampled(0)
def test_a_parameter_that_is_dragged_is_written_with_its_value(tmp_path: Path) -> None:
    formula = tileir.craft("gaussian(sigma=1)\n").with_value("steps[0].arguments.sigma", "2.5")
    given = attrs.evolve(assignment(FORMULAS["one"], COLOUR), formula=formula)
    found = by_opencl(source_of(given, "opencl"), given.pictures, platform(), tmp_path)
    check_equal(found, [tileir.craft("gaussian(sigma=2.5)\n", device="opencl.0")(COLOUR)])
    assert "sigma=2.5" in script_of(given, "formula.py")


@pytest.mark.sampled(0)
def test_pictures_of_16_bits_and_arrays_reach_the_script_as_they_reached_the_page(tmp_path: Path) -> None:
    """The script is called with the page's inputs."""
    Image.fromarray(DEEP[..., 0]).save(tmp_path / "deep.png")
    np.save(tmp_path / "array.npy", FLOATS)
    (tmp_path / "uploads").mkdir()
    bench = Bench()
    for file in ("deep.png", "array.npy"):
        name = store(tmp_path / "uploads", (tmp_path / file).read_bytes())
        formula = tileir.craft("gaussian\n")
        given = Assignment(formula, (bench.picture(name, tmp_path / "uploads"),))
        (tmp_path / "formula.py").write_text(script_of(given, "formula.py"), "utf-8")
        command = [sys.executable, "formula.py", file, "result.png"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr
        np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "result.png")), formula(*given.pictures))


def test_c_needs_its_back_end() -> None:
    if any(device.backend == "c" for device in tileir.devices()):
        assert "void formula(" in source_of(assignment(FORMULAS["one"], COLOUR), "c")
        return
    with pytest.raises(TileError) as caught:
        source_of(assignment(FORMULAS["one"], COLOUR), "c")
    assert caught.value.diagnostics[0].code == "TIL801"
    assert "there is source of opencl" in str(caught.value)


def test_any_back_end_that_writes_source_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = default_context()
    device = attrs.evolve(installed.device("opencl"), id="other.0", backend="other")
    other = attrs.evolve(
        installed.registry.backend("opencl"),
        name="other",
        devices=lambda: (device,),
        forms={"words": "Words"},
        source=lambda *_: "words",
    )
    without = attrs.evolve(other, name="none", devices=lambda: ())
    context = Context(registry=Registry.of(other, without, installed.registry.backend("llvm")))
    monkeypatch.setattr("tileir_studio.design.exports.default_context", lambda: context)
    assert {name: backend.title for name, backend in writers().items()} == {"other": "Words"}
