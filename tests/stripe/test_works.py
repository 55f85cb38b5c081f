"""Programs with loops, whiles and branches, built by hand: what they mean, and that text and JSON keep them."""

from __future__ import annotations

from typing import Final

import attrs
import numpy as np
import pytest

from strategies.passes import program_of
from tileir.core.codec import from_json, to_json
from tileir.core.dtype import DType
from tileir.core.errors import VerifyError
from tileir.stripe.interpreter import interpret
from tileir.stripe.ir import (
    Branch,
    Carry,
    Direction,
    Launch,
    Loop,
    Program,
    Refinement,
    Tags,
    TensorShape,
    While,
    Work,
)
from tileir.stripe.parser import parse
from tileir.stripe.printer import to_text
from tileir.stripe.verifier import diagnose, verify
from tileir.stripe.works import depth_of, launches, local_memory

SUM: Final = """block [i:4]:4 ( // {o}
  in {a}[i] i32:I(1):(1):4 B
  in {b}[i] i32:I(1):(1):4 B
  out {o}[i] i32:I(1):(1):4 B
) {{
  0: $a = load({a})
  1: $b = load({b})
  2: $o = add($a, $b)
  3: {o} = store($o)
}}"""
COPY: Final = """block [i:4]:4 ( // {o}
  in {a}[i] i32:I(1):(1):4 B
  out {o}[i] i32:I(1):(1):4 B
) {{
  0: $a = load({a})
  1: {o} = store($a)
}}"""
LESS: Final = """block []:1 ( // {o}
  in {a}[0] i32:I(1):(1):4 B
  out {o}[0] bool:I(1):(1):1 B
) {{
  0: $a = load({a})
  1: $m = (i32)100
  2: $o = cmp_lt($a, $m)
  3: {o} = store($o)
}}"""
NAMES: Final = ("X", "Y", "K", "M", "O")


def memory(name: str, dtype: DType = DType.I32, size: int = 4, tag: str = "tmp") -> Refinement:
    shape = TensorShape.dense(dtype, (size,))
    zero = program_of([COPY.format(a="X", o="O")], {"X": (4,), "O": (4,)}, dtype=DType.I32).memory[0].access
    return Refinement(name, Direction.NONE, "", zero, shape, tags=Tags.of(tag))


def kernels(*texts: str, **sizes: tuple[int, ...]) -> Program:
    """Return a program whose kernels are those of some texts: 0 for the first, and so on."""
    names = dict.fromkeys((*NAMES, "C", "D"), (4,)) | sizes
    return program_of(texts, names, ("O",), ("X", "Y"), dtype=DType.I32)


def program(*works: Work) -> Program:
    """Return a program: kernel 0 adds, 1 copies, and 2 compares the first element with 100."""
    base = kernels(SUM.format(a="X", b="Y", o="K"), COPY.format(a="X", o="M"))
    less = program_of([LESS.format(a="M", o="C")], {"M": (4,), "C": (1,)}, ("C",), (), dtype=DType.I32)
    (third,) = less.kernels
    third = attrs.evolve(
        third,
        parameters=(third.parameters[0], attrs.evolve(third.parameters[1], shape=memory("C", DType.BOOL, 1).shape)),
    )
    allocations = (
        memory("X", tag="user"),
        memory("Y", tag="user"),
        memory("O", tag="user"),
        memory("K"),
        memory("M"),
        memory("C", DType.BOOL, 1),
        memory("D", DType.BOOL, 1),
    )
    used = {name for launch in launches(works) for name in launch.arguments} | {"X", "Y", "O"}
    used |= {"C", "D"} if depth_of(works) else set()
    kept = tuple(each for each in allocations if each.name in used or each.name in ("K", "M"))
    return attrs.evolve(base, memory=kept, kernels=(*base.kernels, third), works=works)


def add(a: str, b: str, o: str) -> Launch:
    return Launch(0, (a, b, o), o)


def copy(a: str, o: str) -> Launch:
    return Launch(1, (a, o), o)


def less(a: str, o: str) -> Launch:
    return Launch(2, (a, o), o)


CARRY: Final = (Carry("K", "M"),)
COUNTED: Final = program(copy("X", "K"), Loop(3, (add("K", "Y", "M"),), CARRY), copy("K", "O"))
WHILE: Final = program(
    copy("X", "K"),
    less("K", "C"),
    Loop(While("C"), (add("K", "Y", "M"), less("M", "D")), (*CARRY, Carry("C", "D"))),
    copy("K", "O"),
)
BRANCH: Final = program(less("X", "C"), Branch("C", (add("X", "Y", "O"),), (copy("Y", "O"),)))
ONE_SIDED: Final = program(copy("X", "O"), less("X", "C"), Branch("C", (copy("Y", "O"),)))
NESTED: Final = program(
    copy("X", "K"),
    Loop(2, (Loop(2, (add("K", "Y", "M"),), CARRY), copy("K", "O"), less("K", "C"), Branch("C", (copy("Y", "O"),)))),
)
ALL: Final = {"counted": COUNTED, "while": WHILE, "branch": BRANCH, "one sided": ONE_SIDED, "nested": NESTED}
GIVEN: Final = [(3, 10), (98, 1), (100, 1), (250, 7)]


def arrays(x: int, y: int) -> dict[str, np.ndarray]:
    return {"X": np.full(4, x, np.int32), "Y": np.full(4, y, np.int32)}


def expected(name: str, x: int, y: int) -> int:
    """Return what all elements of the result are."""
    match name:
        case "counted":
            return x + 3 * y
        case "while":
            while x < 100:
                x += y
            return x
        case "branch":
            return x + y if x < 100 else y
        case "one sided":
            return y if x < 100 else x
        case _:
            return y if x + 4 * y < 100 else x + 4 * y


@pytest.mark.parametrize(("x", "y"), GIVEN)
@pytest.mark.parametrize("name", ALL)
def test_works_mean_what_they_say(name: str, x: int, y: int) -> None:
    result = interpret(ALL[name], arrays(x, y))["O"]
    np.testing.assert_array_equal(result, np.full(4, expected(name, x, y), np.int32))


@pytest.mark.parametrize("name", ALL)
def test_text_and_json_keep_works(name: str) -> None:
    whole = ALL[name]
    verify(whole)
    again = parse(to_text(whole))
    assert to_text(again) == to_text(whole)
    assert parse(to_text(again)) == again
    assert from_json(to_json(whole), Program) == whole


def test_a_kernel_that_is_launched_in_and_out_of_loops_is_one() -> None:
    assert [launch.kernel for launch in launches(parse(to_text(COUNTED)).works)] == [0, 1, 0]


def test_what_one_loop_alone_uses_is_its_own() -> None:
    loop = COUNTED.works[1]
    assert local_memory(COUNTED) == {id(loop): frozenset({"M"})}
    assert local_memory(BRANCH) == {}


def test_a_step_finds_nothing_in_what_it_does_not_carry() -> None:
    forgotten = program(copy("X", "K"), Loop(2, (add("K", "M", "M"),)), copy("K", "O"))
    loop = forgotten.works[1]
    assert isinstance(loop, Loop)
    assert local_memory(forgotten)[id(loop)] == {"M"}


@pytest.mark.parametrize(
    ("works", "words"),
    [
        ((Launch(7, ("X", "O")),), "work 0 launches kernel 7, of 3"),
        ((Launch(1, ("X",)),), "a kernel of 2 parameters on 1 arguments"),
        ((copy("X", "Q"),), "launches a kernel on 'Q', which the program does not allocate"),
        ((less("X", "O"),), "'O', an argument of work 0, is not laid out as the parameter 'C'"),
        ((Launch(0, ("X", "X", "O")),), "names memory twice"),
        ((copy("X", "Y"),), "must not write 'Y'"),
        ((Loop(0, (copy("X", "O"),)),), "a loop of 0 steps"),
        ((Loop(While("X"), (copy("X", "O"),)),), "the condition 'X' of work 0 must be memory that holds one bool"),
        ((Branch("Q", ()),), "the condition 'Q' of work 0"),
        ((Loop(2, (copy("X", "M"),), (Carry("C", "M"),)),), "both must be memory of one shape"),
        ((Loop(2, (copy("X", "M"),), (Carry("M", "M"),)),), "names memory twice among what its steps keep and make"),
    ],
)
def test_works_that_cannot_run_are_refused(works: tuple[Work, ...], words: str) -> None:
    with pytest.raises(VerifyError, match=words):
        verify(program(*works))


def test_works_nested_without_end_are_a_fault_and_not_a_crash() -> None:
    works: tuple[Work, ...] = (copy("X", "O"),)
    for _ in range(10_000):
        works = (Loop(1, works),)
    deep = attrs.evolve(COUNTED, works=works)
    assert any("nested deeper than 32" in fault.message for fault in diagnose(deep))
