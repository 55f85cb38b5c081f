"""The version of each format of JSON."""

from __future__ import annotations

import json

import pytest

import tileir
from tileir.core.json.codec import format_of
from tileir.core.json.versions import VERSIONS, refusal, version_of
from tileir.semtree.ir import Program as SemProgram
from tileir.stripe.ir import Program as StripeProgram
from tileir.typed.ir import Function as TypedFunction
from tileir_formula.ir import Formula


@pytest.mark.parametrize("cls", [tileir.Function, TypedFunction, StripeProgram, SemProgram, Formula, tileir.Target])
def test_each_stage_has_a_version(cls: type) -> None:
    assert format_of(cls).rpartition(".")[0] in VERSIONS


def test_formats_of_others_have_version_one() -> None:
    assert version_of("somebody.Node") == 1


def test_the_document_has_the_version_of_its_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    program = tileir.parse("function (A) -> (B) { B = A + 1; }")
    monkeypatch.setattr("tileir.core.json.versions.VERSIONS", {**VERSIONS, "tileir.tile": 7})
    data = tileir.to_json(program)
    assert json.loads(data)["version"] == 7
    assert tileir.from_json(data, tileir.Function) == program
    assert json.loads(tileir.to_json(tileir.Target()))["version"] == VERSIONS["tileir.core"]


@pytest.mark.parametrize(("version", "advice"), [(0, "make it anew with this release"), (2, "upgrade tileir")])
def test_other_versions_are_refused_with_advice(version: int, advice: str) -> None:
    document = json.loads(tileir.to_json(tileir.parse("function (A) -> (B) { B = A + 1; }")))
    with pytest.raises(tileir.TileError, match=advice) as caught:
        tileir.from_json(json.dumps({**document, "version": version}), tileir.Function)
    (fault,) = caught.value.diagnostics
    assert fault.code == "TIL602"
    told = f"$: the version is {version}; this release of tileir reads version 1 of tileir.tile.Function"
    assert fault.message.startswith(told)


@pytest.mark.parametrize("version", [True, 1.0, "1", None, [1]])
def test_what_is_no_number_is_no_version(version: object) -> None:
    assert refusal("tileir.tile.Function", version)


def test_the_current_version_is_read() -> None:
    assert all(refusal(f"{package}.Node", version) is None for package, version in VERSIONS.items())
