"""Vectors, tensor cores, staging and fusion of known programs: a change that loses any of them is told in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pytest

from strategies.golden_kernels import TARGETS, compiled, operations, workloads
from strategies.kernel_properties import Row, differences, kernel_rows, program_digest, program_row
from tileir.core.text.names import NameScope
from tileir.driver.compiler import compile_stages
from tileir.semtree.rewrite import freshened, kernel_names, with_body
from tileir.semtree.text.parser import parse_program

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tileir.tile.ir import Function
    from tileir.typed.ir import TensorType

    Described = dict[str, tuple[Row, list[Row]]]
    Source = tuple[str, str | Function, dict[str, TensorType]]

GOLDEN = Path(__file__).parents[1] / "golden" / "properties"


def described(sources: Iterable[Source], target: str, *, digests: bool) -> Described:
    found: Described = {}
    for name, function, types in sources:
        program = compiled(function, types, target)
        head = program_row(program)
        if digests:
            head["digest"] = program_digest(program)
        found[name] = head, kernel_rows(program, digests=digests)
    return found


def text_of(found: Described) -> str:
    """One line for each kernel."""
    lines = ["{"]
    for number, (name, (head, rows)) in enumerate(found.items()):
        lines.append(f" {json.dumps(name)}: [{json.dumps(head)}, [")
        lines += [f"  {json.dumps(row)}{',' if place + 1 < len(rows) else ''}" for place, row in enumerate(rows)]
        lines.append(" ]]" + ("," if number + 1 < len(found) else ""))
    return "\n".join([*lines, "}", ""])


def lost(old: Described, new: Described, target: str) -> list[str]:
    """Return in words all that differs."""
    found = [f"{name} {target}: no golden row; run pytest --update-golden" for name in new if name not in old]
    found += [f"{name} {target}: is no longer compiled" for name in old if name not in new]
    for name in [name for name in old if name in new]:
        (head, rows), (new_head, new_rows) = old[name], new[name]
        own = differences(f"{name} {target}", head, new_head) if len(rows) == len(new_rows) else []
        if len(rows) != len(new_rows):
            own = [f"{name} {target}: kernels {len(rows)} -> {len(new_rows)}"]
            own += differences(f"{name} {target}", {**head, "digest": ""}, {**new_head, "digest": ""})
        places = [f"{name} {target}" + (f", kernel {place}" if len(rows) > 1 else "") for place in range(len(rows))]
        inner = [w for place, *both in zip(places, rows, new_rows, strict=False) for w in differences(place, *both)]
        found += [word for word in own if not (inner and "the text is another" in word)] + inner
    return found


def check(request: pytest.FixtureRequest, name: str, new: Described, target: str) -> None:
    path = GOLDEN / f"{name}.json"
    if request.config.getoption("--update-golden"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text_of(new), encoding="utf-8")
    old: Described = json.loads(path.read_text(encoding="utf-8"))
    words = lost(old, json.loads(text_of(new)), target)
    if words:
        pytest.fail("\n".join([*words, "If that is meant: pytest tests/properties --update-golden"]), pytrace=False)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("target", TARGETS)
def test_operations_keep_their_kernels(request: pytest.FixtureRequest, target: str) -> None:
    check(request, f"operations-{target}", described(operations(target), target, digests=False), target)


@pytest.mark.parametrize("target", ["x86-64-v3", "nvidia-hopper"])
def test_workloads_and_networks_keep_their_kernels(request: pytest.FixtureRequest, target: str) -> None:
    check(request, f"workloads-{target}", described(workloads(), target, digests=True), target)


def test_what_is_lost_is_told_in_words() -> None:
    (name, text, types), *_ = (row for row in operations("nvidia-hopper") if row[0] == "matmul f16")
    plain = attrs.evolve(TARGETS["nvidia-hopper"], fragments=(), async_copies=False)
    old, new = compiled(text, types, "nvidia-hopper"), compile_stages(text, types, plain).sem
    words = lost({name: (program_row(old), kernel_rows(old))}, {name: (program_row(new), kernel_rows(new))}, "hopper")
    assert "matmul f16 hopper: multiply fragments 32 -> 0" in words
    assert "matmul f16 hopper: groups of the grid 8 x 16 x 2 -> 8 x 16" in words
    assert "matmul f16 hopper: loads of f16x8 6 -> 2" in words


def test_fusion_that_is_lost_is_told_in_words() -> None:
    (name, text, types), *_ = (row for row in operations("x86-64-v3") if row[0] == "softmax f32")
    old, new = (
        compile_stages(text, types, attrs.evolve(TARGETS["x86-64-v3"], pipeline=p)).sem for p in ("cpu", "plain")
    )
    words = lost({name: (program_row(old), kernel_rows(old))}, {name: (program_row(new), kernel_rows(new))}, "v3")
    assert words[:2] == ["softmax f32 v3: kernels 1 -> 5", "softmax f32 v3: launches 1 -> 5"]


def test_digests_do_not_see_names_and_see_the_rest() -> None:
    text, types = next((text, types) for name, text, types in workloads() if name == "softmax_4096x1024")
    program = compiled(text, types, "x86-64-v3")
    (kernel,) = program.kernels
    scope = NameScope.of(kernel_names(kernel))
    renamed = attrs.evolve(with_body(kernel, freshened(kernel.body, scope)), name="other", comments=("other",))
    assert renamed.body != kernel.body
    assert program_digest(attrs.evolve(program, kernels=(renamed,))) == program_digest(program)
    half = attrs.evolve(program, kernels=(attrs.evolve(kernel, grid=(kernel.grid[0] // 2, *kernel.grid[1:])),))
    assert program_digest(half) != program_digest(program)
    assert differences("softmax", {"digest": "a"}, {"digest": "b"}) == [
        "softmax: the text is another, though all that is counted is the same"
    ]


SIBLINGS = """program {{
  output i32 a[4];
  kernel k(out i32 A[4]) grid(1) {{
    for (i64 i = 0; i < 4; i += 1) {{ i32 x = i32(1); A[i] = x; }}
    for (i64 {0} = 0; {0} < 4; {0} += 1) {{ i32 {1} = i32(1); A[{0}] = {1}; }}
  }}
  launch 0(a);
}}
"""


def test_siblings_that_share_a_name_are_told_apart() -> None:
    one, two = (program_digest(parse_program(SIBLINGS.format(*names))) for names in (("i", "x"), ("j", "y")))
    assert one == two
