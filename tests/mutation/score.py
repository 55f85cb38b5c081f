"""Mutation scores: how many small changes of a layer its own tests notice.

    python tests/mutation/score.py LAYER [--update] [--jobs 2] [--sample N] [--tests PATH …]

mutmut changes the covered lines of a layer of ``layers.toml`` one at a time, in a copy of the checkout, and runs the
tests that reach each. The share of killed mutants, a timeout being one, is compared with ``scores.json``: a score that
falls by more than its noise is an error, and ``--update`` writes a higher one down. What survives is listed with its
difference. Layers with a ``sample`` take so many mutants, drawn by a fixed seed. Quick tests come first, and property
tests draw a fifth of their usual examples. It takes minutes to an hour for each layer, so it is no part of the tests;
it needs ``pip install mutmut`` beside the group ``test``.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[1]
SCORES: Final = HERE / "scores.json"
NOISE: Final = 0.01
"""A score may be so much lower than the one on record: timeouts depend on the machine."""

SURVIVED, UNREACHED = 0, (5, 33)
"""mutmut's exit codes of mutants: tests passed; no test ran. All others are kills, by a test or a time-out."""

CALLED: Final = frozenset({"rule", "law", "property", "cache", "lru_cache", "contextmanager"})
"""Decorators that do the same when they are called after the function is made; mutmut changes no decorated function."""

PROFILE: Final = "--hypothesis-profile=mutation"

RUN: Final = """
import random, sys
import mutmut.__main__ as mutmut
from mutmut.workers.isolation import ForkServerRunner
jobs, count = map(int, sys.argv[1:])
collect = mutmut.collect_source_file_mutation_data
def drawn(*, mutant_names):
    mutants, files = collect(mutant_names=mutant_names)
    mutants.sort(key=lambda row: row[1])
    return random.Random(0).sample(mutants, min(count, len(mutants))) if count else mutants, files
mutmut.collect_source_file_mutation_data = drawn
ForkServerRunner.run_clean_tests = lambda self, tests: 0
mutmut._run((), jobs)
"""
"""Makes mutants and runs a sample of them, or all for a count of 0.

``mutmut run`` takes names only, which nobody knows before, and runs the tests once more than it needs.
"""

DIFFERENCES: Final = """
import sys
from mutmut.mutation.diff_apply import find_mutant, get_diff_for_mutant
for name in sys.argv[1:]:
    print("#", name, get_diff_for_mutant(name, path=find_mutant(name).path), sep="\\n")
"""
"""Prints how mutants differ from the source; ``mutmut show`` starts a process for each."""

COPIED: Final = ("tests", "src", "plugins", "typings", "benchmarks", "docs", "examples")
PAGES: Final = ("pyproject.toml", "README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "tox.ini")


def mutable(source: str) -> str:
    """Write ``name = decorator(name)`` after a function that has just one decorator of ``CALLED``.

    ``strict=True`` of ``zip`` goes: it is an assertion, which no test can reach, in a form that mutmut changes.
    """
    source = source.replace(", strict=True)", ")")
    lines = source.splitlines()
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    for function in sorted(functions, key=lambda node: node.lineno, reverse=True):
        match function.decorator_list:
            case [ast.Name(id=name) | ast.Call(func=ast.Name(id=name)) as decorator] if name in CALLED:
                made = f"{' ' * function.col_offset}{function.name} = {ast.unparse(decorator)}({function.name})"
                lines.insert(function.end_lineno or function.lineno, made)
                del lines[decorator.lineno - 1 : function.lineno - 1]
    return "\n".join(lines) + "\n"


def copy_checkout(folder: Path, files: list[str], tests: list[str]) -> None:
    """Copy what git knows of, and tell mutmut what to do with it."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, names.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    for path in {path for pattern in files for path in folder.glob(pattern)}:
        path.write_text(mutable(path.read_text(encoding="utf-8")), encoding="utf-8")
    settings = {
        "source_paths": ["src"],
        "only_mutate": files,
        "also_copy": [*COPIED, *PAGES],
        "mutate_only_covered_lines": True,
        "pytest_add_cli_args_test_selection": tests,
        "pytest_add_cli_args": ["-q", "-x", "-p", "no:cacheprovider", "-p", "mutation.quick_first", PROFILE],
        "process_isolation": "forkserver",  # the process that ran the tests has caches that hide mutants
        "timeout_multiplier": 4.0,
        "timeout_constant": 5.0,
        "use_git_change_detection": False,
    }
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
    with (folder / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write(f"\n[tool.mutmut]\n{lines}")


def python(folder: Path, *arguments: str) -> str:
    """Run Python in the copy, and return what it prints."""
    command = [sys.executable, *arguments]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise SystemExit(f"mutmut ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def mutants(folder: Path) -> dict[str, int | None]:
    """Return the exit code of each mutant, None for those that did not run."""
    found: dict[str, int | None] = {}
    for path in sorted((folder / "mutants").rglob("*.meta")):
        found.update(json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"])
    return found


def score(codes: dict[str, int | None]) -> dict[str, Any]:
    """Return how many mutants were killed, and which were not."""
    ran = {name: code for name, code in codes.items() if code is not None and code not in UNREACHED}
    survivors = sorted(name for name, code in ran.items() if code == SURVIVED)
    share = 1 - len(survivors) / len(ran) if ran else 1.0
    return {"mutants": len(ran), "killed": len(ran) - len(survivors), "score": round(share, 4), "survivors": survivors}


def main() -> int:
    """Run mutmut on one layer; the result is 1 where the score fell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    layers = tomllib.loads((HERE / "layers.toml").read_text(encoding="utf-8"))
    parser.add_argument("layer", choices=tuple(layers))
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="mutants that are tested at once")
    parser.add_argument("--sample", type=int, help="take so many mutants only")
    parser.add_argument("--only", help="glob of files to mutate instead of the layer's")
    parser.add_argument("--tests", nargs="+", help="tests to run instead of the layer's")
    parser.add_argument("--update", action="store_true", help="write the score down where it is higher")
    chosen = parser.parse_args()
    layer = layers[chosen.layer]
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        folder = Path(name)
        copy_checkout(folder, [chosen.only] if chosen.only else layer["files"], chosen.tests or layer["tests"])
        count = chosen.sample or layer.get("sample")
        python(folder, "-c", RUN, str(chosen.jobs), str(count or 0))
        found = score(mutants(folder))
        print(python(folder, "-c", DIFFERENCES, *found["survivors"]))
    print(f"{chosen.layer}: {found['killed']} of {found['mutants']} mutants killed, {found['score']:.1%}")
    return _compared(chosen, found, count)


def _compared(chosen: argparse.Namespace, found: dict[str, Any], count: int | None) -> int:
    """Compare with the score on record for as many mutants, and replace that where it is asked for."""
    if chosen.only or chosen.tests:
        return 0
    scores = json.loads(SCORES.read_text(encoding="utf-8")) if SCORES.exists() else {}
    known = scores.get(chosen.layer, {})
    alike = known.get("sample") == count
    if chosen.update and (not alike or found["score"] >= known.get("score", 0.0)):
        entry = {name: found[name] for name in ("score", "mutants", "killed")}
        scores[chosen.layer] = entry if count is None else {**entry, "sample": count}
        rows = (f"  {json.dumps(layer)}: {json.dumps(scores[layer])}" for layer in sorted(scores))
        SCORES.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
    if alike and found["score"] < known.get("score", 0.0) - NOISE:
        print(f"the score was {known['score']:.1%}: find tests for what survives")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
