"""Functions that a text imports from other files, and what is refused."""

from __future__ import annotations

import sys
import zipfile
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tileir import evaluate, parse
from tileir.core.errors import ParseError, TileError, VerifyError

if TYPE_CHECKING:
    from pathlib import Path

LAYERS = """
function double(X) -> (Y) { Y = plus(X, X); }
function plus(A, B) -> (C) { C = A + B; }
"""


def written(folder: Path, **files: str) -> Path:
    """Write files, whose names have a slash where the keywords have ``__``; return that called ``main``."""
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.tile"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder / "main.tile"


def fault(text: str | Path, folder: Path | None = None) -> tuple[str, str, str]:
    with pytest.raises(TileError) as caught:
        parse(text, folder=folder)
    (found,) = caught.value.diagnostics
    return found.code, found.underlined, str(caught.value)


def test_functions_of_a_file_are_called_with_those_that_they_call(tmp_path: Path) -> None:
    text = """
    import double, plus as sum_of from "nets/layers.tile";
    function plus(X) -> (Y) { Y = X - 1; }
    function (A) -> (O) { O = plus(double(A)) * sum_of(A, 1); }
    """
    main = written(tmp_path, main=text, nets__layers=LAYERS)
    for program in (parse(main), parse(text, folder=tmp_path), parse(text, folder=str(tmp_path))):
        assert evaluate(program, [np.array([3.0])]).tolist() == [(6 - 1) * (3 + 1)]
    assert evaluate(main, [np.array([3.0])]).tolist() == [20]
    assert evaluate(tmp_path / "nets" / "layers.tile:double", [np.array([3.0])]).tolist() == [6]


def test_files_import_from_their_own_folders_and_from_each_other(tmp_path: Path) -> None:
    main = written(
        tmp_path,
        main='import outer from "nets/first.tile"; function (A) -> (O) { O = outer(A); }',
        nets__first='import inner from "second.tile"; function outer(X) -> (Y) { Y = inner(X) + 1; }\n'
        "function base(X) -> (Y) { Y = X * X; }",
        nets__second='import base from "first.tile"; function inner(X) -> (Y) { Y = base(X) + 2; }',
    )
    assert evaluate(main, [np.array([3.0])]).tolist() == [12]


def test_recursion_through_files_is_refused(tmp_path: Path) -> None:
    main = written(
        tmp_path,
        main='import f from "one.tile"; function (A) -> (O) { O = f(A); }',
        one='import g from "two.tile"; function f(X) -> (Y) { Y = g(X); }',
        two='import f from "one.tile"; function g(X) -> (Y) { Y = f(X) + 1; }',
    )
    code, underlined, words = fault(main)
    assert (code, underlined) == ("TIL229", "f(X)")
    assert "f -> g -> f" in words


@pytest.mark.parametrize("stored", ["folder", "archive", "namespace"])
def test_packages_ship_files_and_none_of_their_code_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: str
) -> None:
    name = f"tile_layers_{stored}"
    files = {
        f"{name}/__init__.py": "raise RuntimeError",
        f"{name}/layers.tile": LAYERS,
        f"{name}/nets/deep.tile": 'import shift from "near.tile"; function deep(X) -> (Y) { Y = shift(X) * 2; }',
        f"{name}/nets/near.tile": "function shift(X) -> (Y) { Y = X + 1; }",
    }
    if stored == "namespace":
        del files[f"{name}/__init__.py"]
        (tmp_path / "before" / name).mkdir(parents=True)
    place = tmp_path / ("packages.zip" if stored == "archive" else "packages")
    if stored != "archive":
        for path, text in files.items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_text(text, encoding="utf-8")
    else:
        with zipfile.ZipFile(place, "w") as archive:
            for path, text in files.items():
                archive.writestr(path, text)
    monkeypatch.syspath_prepend(str(place))
    if stored == "namespace":
        monkeypatch.syspath_prepend(str(tmp_path / "before"))
    if stored == "folder":  # as some installers put links to what they share
        (place / name / "layers.tile").rename(tmp_path / "shared.tile")
        (place / name / "layers.tile").symlink_to(tmp_path / "shared.tile")
    text = f"""
    import double from "{name}:layers.tile";
    import deep from "{name}:nets/deep.tile";
    function (A) -> (O) {{ O = double(A) + deep(A); }}
    """
    assert evaluate(text, [np.array([3.0])]).tolist() == [14]
    assert name not in sys.modules
    assert fault(f'import f from "{name}:no.tile"; function (A) -> (A) {{}}')[2].find(f"no file {name}:no.tile") > 0


@pytest.mark.parametrize(
    "path",
    [
        *("../layers.tile", "/etc/layers.tile", "./layers.tile", "nets//layers.tile", "nets\\\\layers.tile"),
        *("layers.txt", "", "missing.tile", "nets", "C:/layers.tile", ":layers.tile"),
        *("a.b:layers.tile", "no_such_package:layers.tile", "math:layers.tile", "__main__:layers.tile"),
    ],
)
def test_paths_stay_below_the_folder(tmp_path: Path, path: str) -> None:
    written(tmp_path, nets__layers=LAYERS, layers=LAYERS, inside__main="")
    text = f'import double from "{path}"; function (A) -> (A) {{}}'
    if path:
        code, underlined, _ = fault(text, tmp_path / "inside")
        assert (code, underlined) == ("TIL230", f'"{path}"')
    else:
        assert fault(text, tmp_path)[:2] == ("TIL101", '""')


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    main = written(tmp_path, inside__main="", layers=LAYERS).parent / "inside" / "main.tile"
    (main.parent / "layers.tile").symlink_to(tmp_path / "layers.tile")
    main.write_text('import double from "layers.tile"; function (A) -> (O) { O = double(A); }', encoding="utf-8")
    code, underlined, words = fault(main)
    assert (code, underlined) == ("TIL230", '"layers.tile"')
    assert "link out of the folder" in words
    (main.parent / "layers.tile").unlink()
    (main.parent / "real.tile").write_text(LAYERS, encoding="utf-8")
    (main.parent / "layers.tile").symlink_to(main.parent / "real.tile")
    assert evaluate(main, [np.array([3.0])]).tolist() == [6]


def test_texts_without_a_folder_say_how_to_get_one() -> None:
    code, underlined, words = fault('import double from "layers.tile"; function (A) -> (A) {}')
    assert (code, underlined) == ("TIL230", '"layers.tile"')
    assert "tileir.parse(text, folder=…)" in words


def test_files_that_cannot_be_read_are_faults_of_the_import(tmp_path: Path) -> None:
    (tmp_path / "bytes.tile").write_bytes(b"\xff\xfe")
    (tmp_path / "folder.tile").mkdir()
    for path, words in (("bytes.tile", "cannot read"), ("folder.tile", "there is no file")):
        code, underlined, said = fault(f'import f from "{path}"; function (A) -> (A) {{}}', tmp_path)
        assert (code, underlined) == ("TIL230", f'"{path}"')
        assert words in said


def test_what_a_file_does_not_have_is_named(tmp_path: Path) -> None:
    written(tmp_path, layers=LAYERS, bare="function (A) -> (A) {}")
    code, underlined, words = fault('import doubled from "layers.tile"; function (A) -> (A) {}', tmp_path)
    assert (code, underlined) == ("TIL230", "doubled")
    assert "did you mean 'double'?" in words
    assert "it has none that has a name" in fault('import f from "bare.tile"; function (A) -> (A) {}', tmp_path)[2]


def test_faults_of_a_file_name_it_and_the_import(tmp_path: Path) -> None:
    written(tmp_path, wrong="function f(X) -> (Y) { Y = ; }", loose="function f(X) -> (Y) { Y = Z; }")
    for name, kind, code in (("wrong", ParseError, "TIL102"), ("loose", VerifyError, "TIL201")):
        with pytest.raises(kind) as caught:
            parse(f'import f from "{name}.tile"; function (A) -> (A) {{}}', "main.tile", folder=tmp_path)
        (found,) = caught.value.diagnostics
        assert found.code == code
        assert found.span is not None
        assert found.span.source.name.endswith(f"{name}.tile")
        assert found.notes[-1] == "imported at main.tile:1"


def test_names_are_those_of_one_function(tmp_path: Path) -> None:
    written(tmp_path, layers=LAYERS)
    for text, underlined in (
        ('import double from "layers.tile"; function double(A) -> (A) {}', "double"),
        ('import double, plus as double from "layers.tile"; function (A) -> (A) {}', "plus"),
        ('import double as exp from "layers.tile"; function (A) -> (A) {}', "double"),
    ):
        assert fault(text, tmp_path)[:2] == ("TIL202", underlined)


@pytest.mark.parametrize(
    ("text", "underlined"),
    [
        ('import from "layers.tile"; function (A) -> (A) {}', '"layers.tile"'),
        ('import f g from "layers.tile"; function (A) -> (A) {}', "g"),
        ("import f from layers; function (A) -> (A) {}", "layers"),
        ("import f from Layers; function (A) -> (A) {}", "Layers"),
        ('import f from "layers.tile" function (A) -> (A) {}', "function"),
        ('import "f" from "layers.tile"; function (A) -> (A) {}', '"f"'),
        ('function (A) -> (A) {} import f from "layers.tile";', "import"),
    ],
)
def test_grammar(text: str, underlined: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text)
    found = caught.value.diagnostics[0]
    assert (found.code, found.underlined) == ("TIL102", underlined)


def test_words_of_imports_are_names_elsewhere() -> None:
    text = "function as(A[N]) -> (B) { B[import : N] = =(A[import]); } function (X[N]) -> (Y) { Y = as(X); }"
    assert evaluate(text, [np.arange(3.0)]).tolist() == [0, 1, 2]
