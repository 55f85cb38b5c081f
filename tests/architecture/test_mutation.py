"""Existence of the mutated modules, and of the tests that have to notice."""

from __future__ import annotations

import tomllib

import pytest

from strategies.sources import ROOT

LAYERS = tomllib.loads((ROOT / "tests/mutation/layers.toml").read_text(encoding="utf-8"))
NAMED = [(name, pattern) for name, layer in LAYERS.items() for pattern in (*layer["files"], *layer["tests"])]


@pytest.mark.parametrize(("layer", "pattern"), NAMED)
def test_what_layers_of_mutants_name_is_there(layer: str, pattern: str) -> None:
    assert any(ROOT.glob(pattern.partition("::")[0])), f"{pattern} of the layer {layer} of tests/mutation names no file"
