"""Stripe programs with loops, whiles and branches: some built by hand, and generated ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np
from hypothesis import strategies as st

from strategies.passes import program_of
from tileir.core.dtype import DType
from tileir.stripe.ir import (
    Branch,
    Carry,
    Direction,
    Launch,
    Loop,
    Program,
    Refinement,
    TensorShape,
    While,
    Work,
)
from tileir.stripe.works import depth_of, launches

if TYPE_CHECKING:
    from tileir.runtime.arrays import Array

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


def memory(name: str, dtype: DType = DType.I32, size: int = 4) -> Refinement:
    shape = TensorShape.dense(dtype, (size,))
    zero = program_of([COPY.format(a="X", o="O")], {"X": (4,), "O": (4,)}, dtype=DType.I32).memory[0].access
    return Refinement(name, Direction.NONE, "", zero, shape)


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
        memory("X"),
        memory("Y"),
        memory("O"),
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


def arrays(x: int, y: int) -> dict[str, Array]:
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


TEMPORARIES: Final = ("T", "U", "V")
CONDITIONS: Final = ("C", "D")


@st.composite
def programs_of_works(draw: st.DrawFn) -> Program:
    """Return a program of any works, all of whose memory has content from the beginning, and all of whose loops end."""
    drawn = _Drawn(draw)
    works = (
        *(copy("X", name) for name in (*TEMPORARIES, "O", "G")),
        *(less("X", name) for name in (*CONDITIONS, "E")),
        *drawn.works(3),
        add(draw(st.sampled_from(TEMPORARIES)), "Y", "O"),
    )
    base = program(copy("X", "O"))
    numbers = (*TEMPORARIES, "G", *drawn.numbers)
    allocations = (
        *(memory(name) for name in ("X", "Y", "O")),
        *(memory(name) for name in numbers),
        *(memory(name, DType.BOOL, 1) for name in (*CONDITIONS, "E", *drawn.flags)),
    )
    used = {launch.kernel for launch in launches(works)}
    assert used == {0, 1, 2}
    return attrs.evolve(base, memory=allocations, works=works)


@attrs.define
class _Drawn:
    """Works that are being drawn; ``numbers`` and ``flags`` name the memory of single loops."""

    draw: st.DrawFn
    numbers: list[str] = attrs.field(factory=list)
    flags: list[str] = attrs.field(factory=list)

    def works(self, depth: int) -> tuple[Work, ...]:
        count = self.draw(st.integers(0 if depth < 3 else 1, 3))
        return tuple(work for _ in range(count) for work in self._work(depth))

    def _work(self, depth: int) -> tuple[Work, ...]:
        forms = ["add", "copy", "less", *(["loop", "carry", "flag", "while", "branch"] if depth else [])]
        form = self.draw(st.sampled_from(forms))
        first, second, target = self.draw(st.permutations((*TEMPORARIES, "O")))[:3]
        condition = self.draw(st.sampled_from(CONDITIONS))
        match form:
            case "add":
                return (add(first, self.draw(st.sampled_from((second, "Y"))), target),)
            case "copy":
                return (copy(first, target),)
            case "less":
                return (less(first, condition),)
            case "branch":
                return (Branch(condition, self.works(depth - 1), self.works(depth - 1)),)
            case "loop":
                return (Loop(self.draw(st.integers(1, 4)), self.works(depth - 1)),)
            case "flag":
                made = self._fresh(self.flags, "F")
                step = (*self.works(depth - 1), less(first, made))
                return (Loop(self.draw(st.integers(1, 5)), step, (Carry(condition, made),)),)
            case "carry":
                made = self._fresh(self.numbers, "L")
                step = (*self.works(depth - 1), add(first, "Y", made))
                return (Loop(self.draw(st.integers(1, 5)), step, (Carry(first, made),)),)
            case _:
                made = self._fresh(self.numbers, "L")
                step = (*self.works(depth - 1), add("G", "Y", made), copy(made, "G"), less("G", "E"))
                return (copy("Y", "G"), less("G", "E"), Loop(While("E"), step))

    def _fresh(self, names: list[str], stem: str) -> str:
        names.append(f"{stem}{len(names)}")
        return names[-1]
