"""Identifiers: legal, distinct, and free of other meanings."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from tileir.core.text.names import NameScope
from tileir_emit.c_like import identifiers
from tileir_opencl.emit.emitter import HELPERS, means_nothing


@examples(200)
@given(names=st.lists(st.one_of(st.text(min_size=1, max_size=6), st.sampled_from(["a b", "v_a_b", "a-b", "float4"]))))
def test_identifiers_are_legal_and_distinct(names: list[str]) -> None:
    spelt = identifiers(names, NameScope(), means_nothing)
    assert set(spelt) == set(names)
    assert len(set(spelt.values())) == len(set(names))
    assert all(re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII) for name in spelt.values())


@pytest.mark.parametrize("name", ["x", "X_T2", "A", "i_block", "assign", "island", "total4", "images", "getter"])
def test_ordinary_names_stay(name: str) -> None:
    assert identifiers([name], NameScope(), means_nothing) == {name: name}


@pytest.mark.parametrize(
    "name",
    ["float", "float4", "uint16", "half", "kernel", "global", "restrict", "max", "exp", "select", "convert_int4"]
    + ["as_float", "vload4", "vstorea_half4_rte", "native_log", "get_global_id", "isnan", "atomic_add", "size_t"]
    + ["image2d_t", "NAN", "INFINITY", "CLK_LOCAL_MEM_FENCE", "M_PI", "FLT_MAX", "INT_MIN", "__x", "_Bool", "linux"]
    + [f"{helper}_int" for helper in HELPERS]
    + ["half4_in_local", "commit_copies", "load_turned", "in it", "über", "1st", "a.b"],
)
def test_names_with_a_meaning_are_changed(name: str) -> None:
    assert identifiers([name], NameScope(), means_nothing)[name].startswith("v_")


def test_a_changed_name_gives_way_to_a_real_one() -> None:
    assert identifiers(["a b", "v_a_b"], NameScope(), means_nothing) == {"v_a_b": "v_a_b", "a b": "v_a_b_0"}
