"""Files of earlier releases, which all later ones read: texts of Tile, formulas, files of functions, bundles.

``golden/formats`` has a folder for each minor version. When a version is released, its folder gets the texts of that
version's tests and pages, with their canonical form, and bundles; none of its files is ever changed.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Final

import ml_dtypes
import numpy as np
import pytest

import tileir
from tileir.core.version import VERSION
from tileir_formula.definitions.catalogue import default_catalogue
from tileir_formula.definitions.function_file import read_functions
from tileir_formula.text.parser import parse as parse_formula

FOLDER: Final = Path(__file__).parents[1] / "golden/formats"
RELEASES: Final = sorted(path for path in FOLDER.iterdir() if path.is_dir())


def rows(folder: Path, name: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads((folder / name).read_text(encoding="utf-8"))
    return found


def test_this_version_has_its_files() -> None:
    assert VERSION.rpartition(".")[0] in {folder.name for folder in RELEASES}


@pytest.mark.parametrize("folder", RELEASES, ids=lambda path: path.name)
def test_files_of_a_release_stay_as_they_are(folder: Path) -> None:
    lines = (folder / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    sums = {name: digest for digest, name in (line.split() for line in lines)}
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "SHA256SUMS"]
    found = {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    assert found == sums


@pytest.mark.parametrize("folder", RELEASES, ids=lambda path: path.name)
def test_programs_are_read_and_mean_what_their_canonical_text_means(folder: Path) -> None:
    programs = rows(folder, "tile.json")
    assert len(programs) >= 500
    line = f"// tileir {folder.name}\n"
    wrong = [
        row["text"]
        for row in programs
        if not tileir.parse(row["text"]) == tileir.parse(line + row["canonical"]) == tileir.parse(row["canonical"])
    ]
    assert wrong == []


@pytest.mark.parametrize("folder", RELEASES, ids=lambda path: path.name)
def test_formulas_are_read_and_mean_what_their_canonical_text_means(folder: Path) -> None:
    formulas = rows(folder, "formulas.json")
    assert len(formulas) >= 200
    assert [row for row in formulas if parse_formula(row["text"]) != parse_formula(row["canonical"])] == []


@pytest.mark.parametrize("folder", RELEASES, ids=lambda path: path.name)
def test_functions_of_the_catalogue_keep_their_names_and_parameters(folder: Path) -> None:
    catalogue = default_catalogue().functions
    for path in (folder / "functions").glob("[a-z]*.tile"):
        for function in read_functions(path.read_text(encoding="utf-8"), path.name):
            if path.name.startswith("described_"):
                continue
            assert catalogue[function.name].pictures == function.pictures
            now = {parameter.name for parameter in catalogue[function.name].parameters}
            assert {parameter.name for parameter in function.parameters} <= now


@pytest.mark.parametrize("folder", RELEASES, ids=lambda path: path.name)
def test_bundles_are_read_and_run(folder: Path) -> None:
    x = np.random.default_rng(0).integers(-4, 5, (7, 20)).astype(np.float32)
    weights = np.random.default_rng(1).integers(-4, 5, (20, 16))
    made = tileir.jit(folder / "layer.tileir")(x)
    np.testing.assert_array_equal(made, 2 * (x @ weights) + np.arange(16))
    places = np.array([299, 0, 7])
    wanted = np.arange(300).astype(ml_dtypes.bfloat16)[places]
    np.testing.assert_array_equal(tileir.jit(folder / "table.tileir")(places), wanted)
