from __future__ import annotations

import attrs
import pytest

from strategies.passes import program_of
from tileir.core.errors import VerifyError
from tileir.core.ops import Aggregation
from tileir.stripe.ir import Block, Dim, Program, Refinement, Statement, Tags
from tileir.stripe.twins import as_twin, twins
from tileir.stripe.verifier import diagnose, verify

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


def main(*statements: Statement) -> Block:
    return attrs.evolve(PROGRAM.main, statements=statements)


SECOND = seeing(FIRST, "C", "D", "P")


def test_kernels_are_twins_if_they_share_statements() -> None:
    assert twins(PROGRAM.main) == {}
    third = seeing(FIRST, "A", "C", "Q")
    assert twins(main(FIRST, SECOND, third)) == {id(SECOND): FIRST, id(third): FIRST}


@pytest.mark.parametrize(
    "other",
    [
        seeing(FIRST, "C", "C", "P"),
        attrs.evolve(SECOND, tags=SECOND.tags.add("fused")),
        attrs.evolve(SECOND, deps=(0,)),
        attrs.evolve(SECOND, indices=(attrs.evolve(SECOND.indices[0], range=3),)),
        attrs.evolve(
            SECOND,
            refinements=(*SECOND.refinements[:2], attrs.evolve(SECOND.refinements[2], aggregation=Aggregation.SUM)),
        ),
    ],
    ids=["one tensor twice", "tags", "order", "range", "aggregation"],
)
def test_kernels_that_differ_otherwise_are_no_twins(other: Block) -> None:
    assert other.statements is FIRST.statements
    assert twins(main(FIRST, other)) == {}


def test_tensors_of_twins_are_laid_out_alike() -> None:
    def changed(of: Refinement) -> Block:
        views = (of if view.name == of.name else view for view in PROGRAM.main.refinements)
        return attrs.evolve(PROGRAM.main, refinements=tuple(views), statements=(FIRST, SECOND))

    view = PROGRAM.main.refinement("C")
    (dim,) = view.shape.dims
    assert twins(changed(view)) == {id(SECOND): FIRST}
    assert twins(changed(attrs.evolve(view, shape=attrs.evolve(view.shape, dims=(Dim(8, dim.stride),))))) == {}
    assert twins(changed(attrs.evolve(view, tags=Tags.of("tmp")))) == {}
    assert twins(changed(attrs.evolve(view, source="D"))) == {}, "two views of one tensor are no two tensors"


def test_a_twin_becomes_what_the_first_becomes() -> None:
    assert as_twin(FIRST, FIRST, SECOND) is SECOND
    scheduled = attrs.evolve(FIRST, tags=FIRST.tags.add("vector"))
    assert as_twin(scheduled, FIRST, SECOND) == attrs.evolve(SECOND, tags=scheduled.tags)
    part = attrs.evolve(scheduled, name=f"{FIRST.name}_0", comments=("a part",), refinements=FIRST.refinements[1:])
    made = as_twin(part, FIRST, SECOND)
    assert isinstance(made, Block)
    assert (made.name, made.comments) == ("second_0", ("a part",))
    assert [view.source for view in made.refinements] == ["D", "P"]


def test_the_verifier_looks_at_one_of_twins() -> None:
    broken = attrs.evolve(FIRST, statements=FIRST.statements[1:])

    def program(*kernels: Block) -> Program:
        return attrs.evolve(PROGRAM, entry=attrs.evolve(PROGRAM.entry, statements=(main(*kernels),)))

    verify(program(FIRST, SECOND))
    alone = diagnose(program(broken, SECOND))
    assert alone
    assert diagnose(program(broken, seeing(broken, "C", "D", "P"))) == alone
    with pytest.raises(VerifyError):
        verify(program(SECOND, broken))
