"""A stage looks only at the stages before it, and back ends see only what a stranger's could."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

import pytest

from strategies.sources import BACKENDS, PACKAGE, ROOT, functions_of, imports_of, module_of, name_of, python_files

if TYPE_CHECKING:
    from pathlib import Path

LAYERS: Final = (
    *("core", "poly", "tile", "ops", "numpy", "typed", "stripe", "schedule", "passes", "semtree"),
    *("runtime", "driver"),
)
TOP: Final = ("tileir", "tileir.__main__", "tileir.distributed", "tileir.frontends", "tileir.testing")
OPEN_TO_BACKENDS: Final = {"core", "semtree", "runtime"}
OPEN_TO_FRONTENDS: Final = {
    *("tileir.ops", "tileir.tile.builder", "tileir.tile.builder_functions", "tileir.tile.ir"),
    "tileir.tile.checks.integers",
}
OPEN_TO_PASSES: Final = (
    *("tileir.poly", "tileir.schedule.reindex", "tileir.stripe"),
    *("tileir.passes.base", "tileir.passes.analysis", "tileir.passes.kernels", "tileir.passes.regions.tile"),
    *("tileir.passes.regions.narrowing", "tileir.passes.schedules.vectors.thread"),
)
"""Modules, with all below them, that a wheel of passes may import, as docs/extensions.md says."""
STAGES: Final = [path for path in python_files(PACKAGE) if module_of(path) not in TOP]
PLUGINS: Final = python_files(ROOT / "plugins")
OUTSIDERS: Final = [*python_files(BACKENDS), *PLUGINS]
CALLERS: Final = {"driver"}
"""Packages above the stages, which may import any of them."""


def stage_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def uses(path: Path) -> list[tuple[str, str]]:
    """Return what a file imports of the package, with ``from tileir import stage`` resolved."""
    found = [(module, name) for module, name in imports_of(path) if module.split(".")[0] == "tileir"]
    return [
        (f"tileir.{name}", "") if module == "tileir" and name in LAYERS else (module, name) for module, name in found
    ]


def test_every_stage_has_its_place() -> None:
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert folders == set(LAYERS)


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_pages_tell_the_order_of_the_stages(page: str) -> None:
    words = " ".join((ROOT / page).read_text("utf-8").split())
    assert words.count("core < ") == words.count(" < ".join(LAYERS)) == 1


def test_stages_look_only_back() -> None:
    def earlier(path: Path) -> tuple[str, ...]:
        return LAYERS[: LAYERS.index(stage_of(module_of(path))) + 1]

    assert [(name_of(p), module) for p in STAGES for module, _ in uses(p) if stage_of(module) not in earlier(p)] == []


def is_frontend(name: str) -> bool:
    """Return whether a file belongs to a front end, which builds programs."""
    return "tileir-onnx/" in name or "tileir-torch/" in name


def is_open_to_passes(module: str) -> bool:
    """Return whether a wheel of passes may import a module."""
    return any(f"{module}.".startswith(f"{each}.") for each in OPEN_TO_PASSES)


def test_backends_see_what_is_open_to_them() -> None:
    used = [(name_of(path), module) for path in OUTSIDERS for module, _ in uses(path) if module != "tileir"]
    used = [(name, module) for name, module in used if not (is_frontend(name) and module in OPEN_TO_FRONTENDS)]
    used = [
        (name, module) for name, module in used if not ("tileir_accelerators/" in name and is_open_to_passes(module))
    ]
    closed = [(name, module) for name, module in used if stage_of(module) not in OPEN_TO_BACKENDS]
    closed = [(name, module) for name, module in closed if "tileir-accelerators/tests/" not in name]  # moved with it
    assert [(name, module) for name, module in closed if module != "tileir.testing" or "/tests/" not in name] == []


def test_no_more_is_open_to_passes_than_is_seen_and_told() -> None:
    used = {module for path in PLUGINS if "tileir_accelerators/" in name_of(path) for module, _ in uses(path)}
    assert [each for each in OPEN_TO_PASSES if not any(f"{module}.".startswith(f"{each}.") for module in used)] == []
    told = (ROOT / "docs/extensions.md").read_text("utf-8")
    assert [each for each in OPEN_TO_PASSES if f"`{each}`" not in told] == []


def test_plugins_know_nothing_of_our_own_backends() -> None:
    used = [(name_of(path), module) for path in PLUGINS for module, _ in imports_of(path)]
    assert [
        (name, module) for name, module in used if module.startswith(("tileir_cuda", "tileir_llvm", "tileir_opencl"))
    ] == []


def test_private_names_stay_in_their_module() -> None:
    used = [(name_of(path), *use) for path in (*python_files(PACKAGE), *OUTSIDERS) for use in uses(path)]
    assert [(path, module, name) for path, module, name in used if name.startswith("_") or "._" in module] == []


def test_stages_import_stages_at_the_top() -> None:
    """Inside functions stands only what is slow to load; the driver decides for itself."""
    inner = [
        (name_of(path), node.module)
        for path in STAGES
        if stage_of(module_of(path)) not in CALLERS
        for function in functions_of(path)
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tileir")
    ]
    assert sorted(inner) == [
        ("src/tileir/core/text/markup.py", "tileir_pygments"),
        ("src/tileir/core/text/shown.py", "tileir.core.companions"),
        ("src/tileir/passes/algorithms/scan.py", "tileir.passes.schedules.groups.scan"),
        ("src/tileir/passes/algorithms/scan.py", "tileir.passes.schedules.groups.scan"),
        ("src/tileir/passes/pipelines/installed.py", "tileir.passes.pipelines.resolution"),
        ("src/tileir/passes/pipelines/installed.py", "tileir.passes.schedules.scripted"),
        ("src/tileir/passes/pipelines/installed.py", "tileir.schedule.script"),
        ("src/tileir/passes/pipelines/resolution.py", "tileir.passes.pipelines.installed"),
        ("src/tileir/passes/rewrites/constant_propagate.py", "tileir.stripe.interpret.interpreter"),
        ("src/tileir/passes/rewrites/forward.py", "tileir.passes.rewrites.redirected_loads"),
        ("src/tileir/passes/rewrites/forward.py", "tileir.passes.rewrites.redirected_loads"),
        ("src/tileir/runtime/caches/source_digest.py", "tileir.core.targets.target_names"),
        ("src/tileir/runtime/context.py", "tileir.runtime.devices.home"),
        ("src/tileir/semtree/check/scope_checks.py", "tileir.semtree.text.printer"),
        ("src/tileir/semtree/check/scope_checks.py", "tileir.semtree.text.printer"),
        ("src/tileir/semtree/ir.py", "tileir.semtree.dataflow"),
        ("src/tileir/semtree/lower/lowering.py", "tileir.semtree.lower.attention.forward"),
        ("src/tileir/semtree/lower/lowering.py", "tileir.semtree.lower.orders.groups"),
        ("src/tileir/semtree/lower/lowering.py", "tileir.semtree.lower.segments"),
        ("src/tileir/semtree/lower/lowering.py", "tileir.semtree.lower.threads"),
        ("src/tileir/semtree/lower/specials.py", "tileir.semtree.lower.orders.ordering"),
        ("src/tileir/semtree/node.py", "tileir.semtree.text.printer"),
        ("src/tileir/stripe/blocks.py", "tileir.stripe.text.instruction_words"),
        ("src/tileir/stripe/check/verifier.py", "tileir.stripe.dependences"),
        ("src/tileir/stripe/check/verifier.py", "tileir.stripe.lifetimes"),
        ("src/tileir/stripe/ir.py", "tileir.stripe.dataflow"),
        ("src/tileir/stripe/shapes.py", "tileir.stripe.text.printer"),
        ("src/tileir/tile/building/indices.py", "tileir.tile.building.captures"),
        ("src/tileir/tile/ir.py", "tileir.tile.checks.unused"),
        ("src/tileir/tile/ir.py", "tileir.tile.dataflow"),
        ("src/tileir/tile/ir.py", "tileir.tile.results"),
        ("src/tileir/tile/node.py", "tileir.tile.building.inlining"),
        ("src/tileir/tile/node.py", "tileir.tile.text.printer"),
        ("src/tileir/typed/inference/builtins.py", "tileir.typed.derivatives.builtins"),
        ("src/tileir/typed/ir.py", "tileir.typed.dataflow"),
        ("src/tileir/typed/node.py", "tileir.typed.text.printer"),
        ("src/tileir/typed/sharding/partitioned.py", "tileir.typed.sharding.collective_operations"),
        ("src/tileir/typed/sharding/partitioned.py", "tileir.typed.sharding.explanation"),
        ("src/tileir/typed/sharding/partitioned.py", "tileir.typed.sharding.partition"),
        ("src/tileir/typed/sharding/partitioned.py", "tileir.typed.sharding.text"),
        ("src/tileir/typed/simplify/bands.py", "tileir.typed.interpreter"),
    ]
