"""The table of autotile's tiles, in Python and as `tileir explain --tiles`."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import attrs
import pytest

import tileir
from tileir.core.errors import TileError
from tileir.passes.pipelines.resolution import resolve_pipeline
from tileir_accelerators.tiling.autotile import Autotile
from tileir_cli import main as cli
from tileir_performance.explain.tiles import tables_json, tile_tables

if TYPE_CHECKING:
    from pathlib import Path

MATMUL = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"
TYPES = {"A": "f32[64, 32]", "B": "f32[32, 48]"}
TARGET = tileir.Target()


def test_rows_have_the_figures_of_the_pass() -> None:
    (table,) = tile_tables(
        MATMUL, TYPES, target=TARGET, passes="autotile{memory_bytes=4096, pipeline_depth=2}", count=4
    )
    assert (table.step, table.block, table.room, table.held) == ("autotile", "kernel_0(A,B)", 4096, 2)
    assert dict(zip(table.indices, table.ranges, strict=True)) == {"i": 64, "j": 48, "k": 32}
    assert [tile.cost for tile in table.tiles] == sorted(tile.cost for tile in table.tiles)
    for tile in table.tiles:
        i, j, k = (tile.sizes[table.indices.index(name)] for name in "ijk")
        assert tile.points == i * j * k
        assert tile.count == -(-64 // i) * -(-48 // j) * -(-32 // k)
        assert tile.nbytes == 4 * (i * k + k * j + i * j)
        assert 2 * tile.nbytes <= table.room
        assert tile.seconds > 0
        points = tile.count * tile.points / (64 * 48 * 32)
        assert tile.cost == pytest.approx(points * (1 + 4 * tile.lines[0] + 8 * tile.lines[1]) / tile.points)


def test_the_first_row_is_what_the_pass_takes() -> None:
    passes = "autotile{memory_bytes=4096}"
    (table,) = tile_tables(MATMUL, TYPES, target=TARGET, passes=passes, count=1)
    split = tileir.compile(MATMUL, TYPES, passes=f"{passes}, accumulate").scheduled.main.blocks[-1]
    counts = {index.name: index.range for index in split.indices}
    expected = {n: -(-r // s) for n, r, s in zip(table.indices, table.ranges, table.tiles[0].sizes, strict=True)}
    assert counts == expected


def test_each_step_and_each_block_has_a_table() -> None:
    passes = (
        "large: autotile{memory_bytes=8192, inner_set=(tile)},"
        "small: autotile{memory_bytes=1024, reqs=(tile)}, autotile{reqs=(nothing)}"
    )
    both = MATMUL.replace("}", "D[i, j : M, N] = +(C[i, l] * C[l, j]), l < 48; }").replace("(C)", "(D)")
    tables = tile_tables(both, TYPES, target=TARGET, passes=passes, count=2)
    assert [table.step for table in tables] == ["large", "large", "small", "small"]
    assert all(len(table.tiles) == 2 for table in tables)


def test_memory_is_that_of_the_model() -> None:
    for kib in (8, 64):
        (table,) = tile_tables(MATMUL, TYPES, target=f"dsp_conv:SRAM_SIZE_KIB={kib}", passes="autotile{memory=SRAM}")
        assert (table.memory, table.room) == ("SRAM", kib * 128)
        assert f"in {kib * 128 / 1024:.4g} KiB of SRAM" in str(table)


def test_nothing_fits() -> None:
    (table,) = tile_tables(MATMUL, TYPES, target=TARGET, passes="autotile{memory_bytes=4}")
    assert table.tiles == ()
    assert str(table).splitlines()[1:] == ["no tile fits"]


def test_a_pipeline_without_the_pass() -> None:
    with pytest.raises(TileError, match=r"TIL902.*no step of this pipeline chooses tiles"):
        tile_tables(MATMUL, TYPES, target=TARGET, passes="accumulate")


def test_programs_with_loops_have_tables_too() -> None:
    scan = (
        "function (X[M, N], H[N]) -> (Y) "
        "{ Y = scan(H; X) function (A[N], B[N]) -> (C) { C[i : N] = +(A[i] * B[j]); }; }"
    )
    tables = tile_tables(scan, {"X": (4, 32), "H": (32,)}, target=TARGET, passes="autotile{memory_bytes=64}")
    assert tables
    assert all(tile.seconds > 0 for table in tables for tile in table.tiles)


def test_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "matmul.tile").write_text(MATMUL)
    words = ["tileir", "explain", str(tmp_path / "matmul.tile"), "A=f32[64,32]", "B=f32[32,48]", "--tiles", "3"]
    words += ["--passes", "autotile{memory_bytes=4096}", "--target", "cpu"]
    monkeypatch.setattr(sys, "argv", words)
    assert cli.run() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("autotile: kernel_0(A,B) [")
    assert lines[0].endswith("in 4 KiB")
    assert lines[1].split() == [
        "i",
        "j",
        "k",
        "tiles",
        "points",
        "bytes",
        "lines",
        "in",
        "lines",
        "out",
        "cost",
        "time",
    ]
    assert len(lines) == 5
    monkeypatch.setattr(sys, "argv", [*words, "--json"])
    assert cli.run() == 0
    (table,) = json.loads(capsys.readouterr().out)
    assert len(table["tiles"]) == 3
    assert table["tiles"][0]["nbytes"] <= 4096


def test_json_has_all_attributes() -> None:
    tables = tile_tables(MATMUL, TYPES, target=TARGET, passes="autotile", count=1)
    (found,) = json.loads(tables_json(tables))
    assert set(found) == {field.name for field in attrs.fields(type(tables[0]))}
    (step,) = resolve_pipeline("autotile", TARGET)
    assert isinstance(step, Autotile)
    assert found["room"] == step.room
