from __future__ import annotations

import attrs
import numpy as np
import pytest

from strategies.passes import program_of
from tileir.core.errors import VerifyError
from tileir.core.ops import Aggregation
from tileir.stripe.check.verifier import diagnose, verify
from tileir.stripe.flattening import with_blocks
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Block, Dim, Launch, Program, Refinement, Special, Statement, Tags
from tileir.stripe.lower.kernel_table import KernelTable, launched
from tileir.stripe.text.parser import parse, parse_block
from tileir.stripe.text.printer import to_text

ADD = """block [i:4]:4 ( // first
  // O = add(A, B)
  in A[i] fp32:I(1):(1):4 B
  in B[i] fp32:I(1):(1):4 B
  out O[i] fp32:I(1):(1):4 B
) {
  0: $a = load(A)
  1: $b = load(B)
  2: $o = add($a, $b)
  3: O = store($o)
}"""
SIZES = dict.fromkeys(("A", "B", "O", "C", "D", "P", "Q"), (4,))
OTHERS = [ADD.replace("O[", f"{name}[").replace("O = store", f"{name} = store") for name in "PQ"]
PROGRAM = program_of([ADD, *OTHERS], SIZES, ("O", "P", "Q"))
FIRST = PROGRAM.main.blocks[0]


def seeing(kernel: Block, *sources: str, name: str = "second") -> Block:
    views = zip(kernel.refinements, sources, strict=True)
    refinements = tuple(attrs.evolve(view, source=source) for view, source in views)
    return attrs.evolve(kernel, name=name, comments=("other",), refinements=refinements)


SECOND = seeing(FIRST, "C", "D", "P")
ARRAYS = {
    name: scale * np.arange(1, 5, dtype=np.float32) for name, scale in {"A": 1, "B": 10, "C": 100, "D": 1000}.items()
}


def holding(*blocks: Statement, **memory: Refinement) -> Program:
    """Return a program of some kernels, with other allocations for some names."""
    return with_blocks(PROGRAM, blocks, [memory.get(each.name, each) for each in PROGRAM.memory])


def kernels(*blocks: Statement, **memory: Refinement) -> int:
    return len(holding(*blocks, **memory).kernels)


def test_kernels_that_differ_in_names_are_one() -> None:
    assert len(PROGRAM.kernels) == 1
    assert [launch.arguments for launch in PROGRAM.works] == [("A", "B", name) for name in "OPQ"]  # type: ignore[union-attr]
    renamed = parse_block(f"0: {ADD.replace('$', '$s_')}")
    other = seeing(attrs.evolve(renamed, tags=FIRST.tags), "C", "D", "P")
    program = holding(FIRST, other)
    assert len(program.kernels) == 1
    first, second = program.main.blocks
    assert first == FIRST
    assert second == SECOND, "it has the names of the first"
    assert second.statements is first.statements


@pytest.mark.parametrize(
    "other",
    [
        seeing(FIRST, "C", "C", "P"),
        attrs.evolve(SECOND, tags=SECOND.tags.add("fused")),
        attrs.evolve(SECOND, indices=(attrs.evolve(SECOND.indices[0], range=3),)),
        attrs.evolve(
            SECOND,
            refinements=(*SECOND.refinements[:2], attrs.evolve(SECOND.refinements[2], aggregation=Aggregation.SUM)),
        ),
        attrs.evolve(SECOND, statements=parse_block(f"0: {ADD.replace('($a, $b)', '($b, $a)')}").statements),
    ],
    ids=["one tensor twice", "tags", "range", "aggregation", "operands"],
)
def test_kernels_that_do_something_else_are_not(other: Block) -> None:
    assert kernels(FIRST, other) == 2


def test_the_order_that_launches_ask_for_is_not_the_kernels() -> None:
    program = holding(FIRST, attrs.evolve(SECOND, deps=(0,)))
    assert len(program.kernels) == 1
    assert [work.deps for work in program.works] == [(), (0,)]


def test_tensors_of_one_kernel_are_laid_out_alike() -> None:
    memory = next(each for each in PROGRAM.memory if each.name == "C")
    (dim,) = memory.shape.dims
    longer = attrs.evolve(memory, shape=attrs.evolve(memory.shape, dims=(Dim(8, dim.stride),)))
    assert kernels(FIRST, SECOND) == 1
    assert kernels(FIRST, SECOND, C=longer) == 2
    assert kernels(FIRST, SECOND, C=attrs.evolve(memory, tags=Tags.of("tmp"))) == 1


def test_zeros_of_both_signs_are_told_apart() -> None:
    def filling(value: float, name: str) -> Block:
        fill = Special("fill", (), ("O",), (("value", value),))
        whole = attrs.evolve(PROGRAM.main.refinement(name), name="O", source=name)
        return Block("fill", refinements=(whole,), statements=(fill,), tags=Tags.of("kernel"))

    assert kernels(filling(0.0, "O"), filling(0.0, "P")) == 1
    assert kernels(filling(0.0, "O"), filling(-0.0, "P")) == 2


def test_a_launch_stands_for_the_very_same_block_each_time() -> None:
    kernel, launch = PROGRAM.kernels[0], PROGRAM.works[1]
    assert launched(kernel, launch) is launched(kernel, launch)  # type: ignore[arg-type]
    assert PROGRAM.main.blocks[1] is launched(kernel, launch)  # type: ignore[arg-type]


def test_a_table_has_each_kernel_once() -> None:
    table = KernelTable()
    (kernel,) = PROGRAM.kernels
    launch = Launch(7, ("A", "B", "O"))
    assert [table.relaunch(each, launch).kernel for each in (kernel, attrs.evolve(kernel))] == [0, 0]
    assert table.kernels == [kernel]


def test_a_kernel_has_the_names_of_what_it_is_launched_on_first() -> None:
    both = holding(FIRST, SECOND)
    second = with_blocks(both, both.main.blocks[1:])
    assert parse(to_text(second)) == second
    (kernel,) = second.kernels
    assert [parameter.name for parameter in kernel.parameters] == ["C", "D", "P"]
    assert [view.name for view in kernel.block.refinements] == ["C", "D", "P"]
    verify(second)


def test_names_are_exchanged_where_a_kernel_loses_its_first_launch() -> None:
    both = holding(FIRST, seeing(FIRST, "B", "A", "P"))
    left = with_blocks(both, both.main.blocks[1:])
    assert parse(to_text(left)) == left
    assert interpret(left, ARRAYS)["P"].tolist() == [11, 22, 33, 44]


def test_text_shows_each_launch_under_names_of_its_own() -> None:
    text = to_text(holding(FIRST, SECOND))
    assert "in C[i] fp32" in text
    assert "in D[i] fp32" in text
    assert "P = store" in text
    assert parse(text) == holding(FIRST, SECOND)


def test_names_that_are_taken_stay() -> None:
    swapped = holding(FIRST, seeing(FIRST, "B", "A", "P"))
    assert parse(to_text(swapped)) == swapped
    assert "in B[i] fp32" in to_text(swapped)


def test_the_verifier_looks_at_a_kernel_once() -> None:
    broken = attrs.evolve(FIRST, statements=FIRST.statements[1:])
    verify(holding(FIRST, SECOND))
    alone = diagnose(holding(broken))
    assert alone
    assert diagnose(holding(broken, seeing(broken, "C", "D", "P"))) == alone
    with pytest.raises(VerifyError):
        verify(holding(SECOND, broken))


def test_equal_kernels_in_the_table_are_refused() -> None:
    (kernel,) = PROGRAM.kernels
    twice = attrs.evolve(PROGRAM, kernels=(kernel, kernel))
    with pytest.raises(VerifyError, match="the kernels 0 and 1 are equal: launch the first of them twice"):
        verify(twice)
