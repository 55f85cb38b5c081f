from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import tileir.passes
from tileir.core.errors import TileError
from tileir.core.targets.target import Target
from tileir.core.targets.target_file import loaded
from tileir.core.targets.target_names import names_of_targets
from tileir.passes.base import Named, Pass
from tileir.passes.pipelines.catalog import PASSES, parse_pipeline
from tileir.passes.pipelines.installed import Schedule
from tileir.passes.pipelines.resolution import passes_called, pipeline_for, resolve_pipeline

ROOMS = Path(tileir.passes.__path__[0])
MODULES = sorted(ROOMS.rglob("*.py"))


@pytest.mark.parametrize("kind", PASSES, ids=lambda kind: kind.name)
def test_each_pass_is_found_alone(kind: type[Pass]) -> None:
    assert list(passes_called([kind.name])) == [kind]


def test_every_pass_is_in_the_catalogue() -> None:
    """Each class below ``passes`` that a pipeline could call stands in it; steps of scripts have names, too."""
    modules = [".".join(("tileir.passes", *path.relative_to(ROOMS).with_suffix("").parts)) for path in MODULES]
    members = (member for module in modules for member in vars(import_module(module)).values())
    public = (kind for kind in members if isinstance(kind, type) and not kind.__name__.startswith("_"))
    kinds = {kind for kind in public if kind.__module__ in modules}
    kinds = {kind for kind in kinds if isinstance(vars(kind).get("name"), str)}
    assert kinds - {Named, Schedule} == set(PASSES)


@pytest.mark.parametrize("name", ["nothing", "../base", "os.path", "", "localize"])
def test_for_other_names_all_passes_are_loaded(name: str) -> None:
    assert tuple(passes_called(["fuse", name]))[-len(PASSES) :] == PASSES


def test_a_wrong_name_is_told_with_the_nearest_of_all() -> None:
    with pytest.raises(TileError, match=r"there is no pass localse; did you mean localise\?"):
        resolve_pipeline("fuse,localse", Target())


def test_all_forms_mean_passes() -> None:
    expected = parse_pipeline("fuse,localise{reqs=(main)}")
    assert resolve_pipeline("fuse, localize{reqs=main}", Target()) == expected
    assert resolve_pipeline('// two\n[{"fuse": {}}, {"localise": {"reqs": ["main"]}}]', Target()) == expected
    text = '{"name": "it", "passes": [{"name": "fuse"}, {"localize": {"reqs": ["main"]}}]}'
    assert resolve_pipeline(text, Target()) == pipeline_for(Target(pipeline=text)) == expected


def test_targets_that_include_one_another_without_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tileir.passes.pipelines.resolution.passes_value", lambda *_: [{"include": "plain"}])
    with pytest.raises(TileError, match="include one another without end"):
        resolve_pipeline("plain", Target())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [name for name in names_of_targets() if name in ("cpu", "gpu", "fused", "plain")])
def test_only_the_passes_of_a_pipeline_are_loaded(name: str) -> None:
    script = (
        "import sys; from tileir.core.targets.target import Target;"
        "from tileir.passes.pipelines.resolution import pipeline_for;"
        f"pipeline_for(Target(pipeline={name!r}));"
        "print('tileir.passes.pipelines.catalog' in sys.modules, 'tileir.passes.rewrites.rewrite' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True, timeout=60)
    assert done.stdout.split() == ["False", "False"]


FILE = """{
  "name": "it",
  "passes": [
    { "name": "fuse" }, [% for i in range(2) %]
    { "localise": { "reqs": ["main"], "flavour": {{ i }} } }, [% endfor %]
    { "name": "second", "acumulate": {} },
    { "name": "tile", "options": { "sizes": "{{ VECTOR_BYTES }}x" } },
    { "include": "plain" }
  ]
}"""


def faults_of(text: str) -> list[tuple[str, int, str, str]]:
    with pytest.raises(TileError) as caught:
        resolve_pipeline(text, Target())
    found = []
    for fault in caught.value.diagnostics:
        assert fault.span is not None
        found.append((fault.code, fault.span.line, fault.span.text, fault.span.source.name))
    return found


def test_faults_in_the_passes_of_a_file_have_their_place() -> None:
    loaded(FILE, "it.json")
    assert faults_of(FILE) == [
        ("TIL542", 5, '"flavour"', "it.json"),
        ("TIL542", 5, '"flavour"', "it.json"),
        ("TIL541", 6, '"acumulate"', "it.json"),
        ("TIL543", 7, '"{{ VECTOR_BYTES }}x"', "it.json"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('"include": "plain"', '"include": "plane"', ("TIL547", 8, '"plane"', "<target>")),
        ('"name": "fuse"', '"nam": "fuse"', ("TIL602", 4, '{ "nam": "fuse" }', "<target>")),
        ('"name": "fuse"', '"name" "fuse"', ("TIL601", 4, '"', "<target>")),
        ("{{ VECTOR_BYTES }}", "{{ VECTOR_BITS }}", ("TIL546", 7, "{{ VECTOR_BITS }}", "<target>")),
    ],
)
def test_other_faults_of_a_file_have_their_place(old: str, new: str, fault: tuple[str, int, str, str]) -> None:
    assert old in FILE
    assert faults_of(FILE.replace(old, new)) == [fault]


def test_faults_in_a_list_of_passes_have_their_place() -> None:
    assert faults_of('[{"fuse": {}},\n {"name": "acumulate"}]') == [("TIL541", 2, '"acumulate"', "<pipeline>")]


def test_passes_that_are_no_list_have_a_place() -> None:
    assert faults_of('{ "name": "it",\n  "passes": {} }') == [("TIL602", 2, "{}", "<target>")]
