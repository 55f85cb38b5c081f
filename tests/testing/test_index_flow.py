"""Reads of temporaries that nothing has written, or that come before the last write, are told with a point."""

from __future__ import annotations

import attrs
import pytest

from strategies.catalogue import parse_pipeline
from strategies.passes import program_of
from tileir.passes.base import run
from tileir.stripe.flattening import with_entry
from tileir.stripe.ir import Block, Program, Statement
from tileir_testing.isl.index_flow import premature_reads, undefined_reads


def kernel(source: str, target: str, count: int = 8) -> str:
    """Return a kernel that copies the first elements of a tensor."""
    return f"""block [i:{count}]:{count} ( // {target}
      in {source}[i] fp32:I(1):(1):4 B
      out {target}[i] fp32:I(1):(1):4 B
    ) {{
      0: $a = load({source})
      1: {target} = store($a)
    }}"""


def chain() -> Program:
    return program_of([kernel("X", "T"), kernel("T", "O")], dict.fromkeys("XTO", (8,)))


def reordered(program: Program, *statements: Statement) -> Program:
    main = attrs.evolve(program.main, statements=statements)
    return with_entry(program, attrs.evolve(program.entry, statements=(main,)))


@pytest.mark.parametrize("pipeline", ["canonicalise", "tile{sizes=(3)}", "fuse", "accumulate,schedule", "localise"])
def test_right_programs_read_what_was_written_for_good(pipeline: str) -> None:
    program = run(parse_pipeline(pipeline), chain())
    assert undefined_reads(program) == premature_reads(program) == ()


def test_a_consumer_before_its_producer() -> None:
    program = chain()
    first, second = program.main.statements
    wrong = reordered(program, second, first)
    assert "reads an element of 'T', which no point before it writes" in undefined_reads(wrong)[0]
    assert "reads an element of 'T', which a later point writes again" in premature_reads(wrong)[0]


def test_a_producer_that_leaves_elements_out() -> None:
    program = program_of([kernel("X", "T", 7), kernel("T", "O")], dict.fromkeys("XTO", (8,)))
    (problem,) = undefined_reads(program)
    assert "[7]" in problem
    assert premature_reads(program) == ()


def test_a_sum_that_is_read_halfway() -> None:
    program = chain()
    first, second = program.main.statements
    assert isinstance(first, Block)
    wrong = reordered(program, first, second, attrs.evolve(first, name="again"))
    assert undefined_reads(wrong) == ()
    assert premature_reads(wrong)
