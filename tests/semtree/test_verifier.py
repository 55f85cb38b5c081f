"""Each invariant is broken by itself, and every fault is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
import pytest
from hypothesis import given

from strategies.effort import examples
from strategies.semtree import kernel_cases
from tileir.core.dtype import DType
from tileir.core.errors import VerifyError
from tileir.core.ops import Op
from tileir.semtree.check import verifier
from tileir.semtree.check.scopes import Survey
from tileir.semtree.check.verifier import verify, verify_program
from tileir.semtree.ir import (
    Apply,
    Assign,
    Barrier,
    Bitcast,
    Broadcast,
    Buffer,
    BufferRole,
    Cast,
    Const,
    Declare,
    DeclareArray,
    Dot,
    For,
    GridIndex,
    GridLevel,
    If,
    KernelFunction,
    Launch,
    LoopKind,
    Param,
    ParamAccess,
    Program,
    Ramp,
    Reduce,
    Region,
    Shuffle,
    Subscript,
    Type,
    Var,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from strategies.semtree import KernelCase
    from tileir.semtree.ir import Expr, Stmt

I64: Final = Type(DType.I64)
I32: Final = Type(DType.I32)
F32: Final = Type(DType.F32)
F32X4: Final = Type(DType.F32, 4)
BOOL: Final = Type(DType.BOOL)
A: Final = Param("A", DType.F32, 16, ParamAccess.READ)
B: Final = Param("B", DType.F32, 16, ParamAccess.WRITE)
ZERO: Final = Const(0, I64)
FOUR: Final = Const(4, I64)
ONE: Final = Const(1.0, F32)
TRUE: Final = Const(True, BOOL)
COUNTER: Final = Var("i", I64)
X: Final = Var("x", F32)


def kernel(*body: Stmt, **facts: Any) -> KernelFunction:
    return KernelFunction("k", (A, B), body, **facts)


def faults(value: KernelFunction | Program) -> list[tuple[str, str]]:
    check: Callable[[Any], None] = verify_program if isinstance(value, Program) else verify
    with pytest.raises(VerifyError) as caught:
        check(value)
    return [(fault.code, fault.message) for fault in caught.value.diagnostics]


def store(value: Expr, offset: Expr = ZERO) -> Assign:
    return Assign(Subscript("B", offset, value.type), value)


def load(offset: Expr = ZERO, kind: Type = F32) -> Subscript:
    return Subscript("A", offset, kind)


def loop(*body: Stmt, begin: Expr = ZERO, end: Expr = FOUR, **facts: Any) -> For:
    return For(COUNTER, begin, end, facts.pop("step", 1), body, **facts)


def deep(count: int) -> Expr:
    expr: Expr = ONE
    for _ in range(count):
        expr = Apply(Op.NEG, (expr,))
    return expr


def wide(doublings: int) -> Expr:
    expr: Expr = X
    for _ in range(doublings):
        expr = Apply(Op.ADD, (expr, expr))
    return expr


def nested(count: int) -> Stmt:
    stmt: Stmt = store(ONE)
    for _ in range(count):
        stmt = If(TRUE, (stmt,))
    return stmt


def test_a_legal_kernel_passes() -> None:
    verify(kernel(Declare(X, load()), loop(store(X, COUNTER)), store(deep(127)), nested(64)))


def test_a_kernel_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[KernelFunction] = []

    def note(survey: Survey) -> tuple[()]:
        checked.append(survey.kernel)
        return ()

    monkeypatch.setattr(verifier, "_STAGES", ((note,),))
    first, equal = kernel(store(ONE)), kernel(store(ONE))
    for each in (first, first, equal):
        verify(each)
    assert [id(each) for each in checked] == [id(first), id(equal)], "by identity, as to compare costs as much"


def test_an_illegal_kernel_is_told_each_time() -> None:
    broken = kernel(store(X))
    assert faults(broken) == faults(broken) != []


@examples(50)
@given(case=kernel_cases())
def test_generated_kernels_pass(case: KernelCase) -> None:
    verify(case.kernel)


@pytest.mark.parametrize(
    ("broken", "code", "words"),
    [
        (kernel(nested(65)), "TIL103", "nested more than 64"),
        (kernel(nested(10_000)), "TIL103", "nested more than 64"),
        (kernel(store(deep(128))), "TIL103", "nested more than 128"),
        (kernel(Assign(Subscript("B", ZERO, F32), deep(10_000))), "TIL103", "nested more than 128"),
        (kernel(Declare(X, ONE), store(wide(60))), "TIL105", "more than 100000 nodes"),
        (kernel(store(Apply(Op.ADD, (ONE,)))), "TIL552", "takes 2 operands, not 1"),
        (kernel(grid=()), "TIL551", "grid has 1 to 3 axes"),
        (kernel(grid=(1, 1, 1, 1)), "TIL551", "grid has 1 to 3 axes"),
        (kernel(group=(0,)), "TIL551", "group is at least 1"),
        (kernel(index=DType.U32), "TIL551", "signed integers"),
        (kernel(index=DType.F32), "TIL551", "signed integers"),
        (kernel(operations=-1), "TIL551", "at least 0"),
        (kernel(comments=("a\nb",)), "TIL551", "one line"),
        (attrs.evolve(kernel(), name=""), "TIL551", "no name"),
        (kernel(Declare(Var("a`b", F32), ONE)), "TIL551", "no name"),
        (kernel(DeclareArray("p", DType.F32, 0)), "TIL551", "cannot have 0 elements"),
        (kernel(DeclareArray("p", DType.F32, 4, alignment=48)), "TIL551", "power of two"),
        (attrs.evolve(kernel(), params=(attrs.evolve(A, size=-1),)), "TIL551", "cannot have -1"),
        (attrs.evolve(kernel(), params=(A, A)), "TIL202", "'A' is declared twice"),
        (kernel(Declare(X, ONE), Declare(X, ONE)), "TIL202", "'x' is declared again"),
        (kernel(Declare(X, ONE), If(TRUE, (Declare(X, ONE),))), "TIL202", "'x' is declared again"),
        (kernel(DeclareArray("A", DType.F32, 4)), "TIL202", "'A' is declared again"),
        (kernel(loop(loop())), "TIL202", "'i' is declared again"),
        (kernel(store(X)), "TIL201", "'x' is used where"),
        (kernel(Assign(X, ONE)), "TIL201", "'x' is used where"),
        (kernel(If(TRUE, (Declare(X, ONE),)), store(X)), "TIL201", "'x' is used where"),
        (kernel(Declare(X, X)), "TIL201", "'x' is used where"),
        (kernel(loop(), store(ONE, COUNTER)), "TIL201", "'i' is used where"),
        (kernel(store(Subscript("C", ZERO, F32))), "TIL201", "'C' is used where"),
        (kernel(store(Var("A", F32))), "TIL552", "'A' is an array"),
        (kernel(Declare(X, ONE), store(Subscript("x", ZERO, F32))), "TIL552", "'x' is a variable"),
        (kernel(Declare(X, ONE), store(Cast(Var("x", I64), F32))), "TIL552", "declared as f32 and used as i64"),
        (kernel(store(Cast(load(kind=I32), F32))), "TIL552", "array 'A' of f32 is read or written as i32"),
        (kernel(store(Const(1, F32))), "TIL552", "holds a Python float"),
        (kernel(Declare(COUNTER, Const(True, I64))), "TIL552", "holds a Python int"),
        (kernel(Declare(COUNTER, Const(2**63, I64))), "TIL552", "out of the range"),
        (kernel(store(Const(0.1, F32))), "TIL552", "round it first"),
        (kernel(store(Reduce(Op.ADD, Broadcast(ONE, 0)))), "TIL552", "1 to 1024 lanes"),
        (kernel(store(Broadcast(load(kind=F32X4), 4))), "TIL552", "only a scalar"),
        (kernel(Declare(COUNTER, GridIndex(GridLevel.GROUP, 1, I64))), "TIL552", "axis 1 does not exist"),
        (kernel(Declare(Var("j", I32), GridIndex(GridLevel.LOCAL, 0, I32))), "TIL552", "index type i64"),
        (kernel(store(Apply(Op.ADD, (Cast(ONE, Type(DType.F64)), ONE)))), "TIL552", "differ in type: f64, f32"),
        (kernel(store(Apply(Op.COND, (ONE, ONE, ONE)))), "TIL552", "the condition of f32 is bool"),
        (kernel(store(Apply(Op.BIT_AND, (ONE, ONE)))), "TIL552", "bit_and is not defined for f32"),
        (kernel(Declare(COUNTER, Apply(Op.EXP, (ZERO,)))), "TIL552", "exp is not defined for i64"),
        (kernel(Declare(Var("b", BOOL), Apply(Op.ADD, (TRUE, TRUE)))), "TIL552", "add is not defined for bool"),
        (kernel(Declare(Var("b", BOOL), Apply(Op.BIT_LEFT, (TRUE, TRUE)))), "TIL552", "bit_left is not defined"),
        (kernel(store(Cast(ZERO, F32X4))), "TIL552", "keeps the number of lanes"),
        (kernel(store(Bitcast(ZERO, F32))), "TIL552", "keeps lanes and bits"),
        (kernel(store(Reduce(Op.ADD, Ramp(ONE, 1, 4)))), "TIL552", "scalar integer"),
        (kernel(store(ONE, Ramp(Const(0, Type(DType.I8)), 200, 1))), "TIL552", "stride 200 is out"),
        (kernel(store(Reduce(Op.SUB, ONE))), "TIL552", "merged by add, mul, max or min"),
        (kernel(Declare(Var("b", BOOL), Reduce(Op.ADD, TRUE))), "TIL552", "add is not defined for bool"),
        (kernel(Assign(Subscript("B", ZERO, F32), Shuffle((), (0,)))), "TIL552", "one operand at least"),
        (kernel(store(Shuffle((ONE, ZERO), (0,)))), "TIL552", "operands of shuffle differ in type: f32, i64"),
        (kernel(store(Shuffle((ONE, ONE), (2,)))), "TIL552", "there is no lane 2"),
        (kernel(store(Dot(ONE, Broadcast(ONE, 2), ONE))), "TIL552", "factors of dot have as many lanes"),
        (kernel(store(Dot(Broadcast(ONE, 2), Broadcast(ONE, 3), ONE))), "TIL552", "not f32x2 and f32x3"),
        (kernel(store(ONE, ONE)), "TIL552", "an offset is an integer"),
        (kernel(store(load(Ramp(ZERO, 1, 2), F32X4))), "TIL552", "2 lanes cannot address 4"),
        (kernel(Declare(X, ZERO)), "TIL552", "cannot start as i64"),
        (kernel(Assign(Subscript("B", ZERO, F32X4), ONE)), "TIL552", "cannot hold a value of type f32"),
        (kernel(If(ZERO, ())), "TIL552", "scalar bool, not i64"),
        (kernel(If(Const(True, Type(DType.BOOL, 4)), ())), "TIL552", "scalar bool, not boolx4"),
        (kernel(For(X, ONE, ONE, 1, ())), "TIL552", "scalar integer, not f32"),
        (kernel(loop(end=Const(4, I32))), "TIL552", "a bound of the counter 'i' is i64, not i32"),
        (kernel(loop(step=0)), "TIL551", "at least 1, not 0"),
        (kernel(loop(end=GridIndex(GridLevel.GROUP, 0, I64), kind=LoopKind.UNROLL)), "TIL551", "are constants"),
        (kernel(loop(Assign(COUNTER, ZERO))), "TIL554", "counter 'i' cannot be assigned"),
        (kernel(Assign(load(), ONE)), "TIL554", "'A' is only read"),
        (kernel(store(ONE, Const(16, I64))), "TIL553", "B[16] is outside"),
        (kernel(store(load(Const(-1, I64)))), "TIL553", "A[-1] is outside"),
        (kernel(store(load(Const(13, I64), F32X4))), "TIL553", "A[13 : 4] is outside"),
        (kernel(store(load(Ramp(ZERO, 8, 4), F32X4))), "TIL553", "outside 'A', which has 16"),
        (kernel(store(load(Const(16, Type(DType.I64, 4)), F32X4))), "TIL553", "outside 'A'"),
    ],
)
def test_broken_invariant(broken: KernelFunction, code: str, words: str) -> None:
    found = faults(broken)
    assert [fault[0] for fault in found] == [code]
    assert words in found[0][1]
    assert found[0][1].startswith(f"kernel {broken.name!r}: ")


def test_all_faults_are_reported() -> None:
    assert [code for code, _ in faults(kernel(store(X), store(Var("y", F32)), Declare(X, ONE)))] == ["TIL201", "TIL201"]


def test_names_may_be_reused_where_they_are_not_visible() -> None:
    small = (DeclareArray("p", DType.F32, 2), Assign(Subscript("p", ZERO, F32), ONE))
    large = (DeclareArray("p", DType.I64, 20), Assign(Subscript("p", Const(19, I64), I64), ZERO))
    verify(kernel(If(TRUE, small, large), loop(), Declare(COUNTER, ZERO), Assign(COUNTER, ZERO)))


def test_many_statements_are_linear() -> None:
    verify(kernel(*(store(Apply(Op.ADD, (load(), ONE))) for _ in range(5000))))


LOCAL_ID: Final = GridIndex(GridLevel.LOCAL, 0, I64)
PRIVATE: Final = DeclareArray("p", DType.BOOL, 4)
VARYING: Final = Apply(Op.CMP_LT, (LOCAL_ID, Const(2, I64)))
B_VAR: Final = Var("b", BOOL)


@pytest.mark.parametrize(
    "body",
    [
        (If(VARYING, (Barrier(),)),),
        (If(VARYING, (If(TRUE, (Barrier(),)),)),),
        (loop(Barrier(), end=LOCAL_ID),),
        (Declare(B_VAR, VARYING), If(B_VAR, (), (Barrier(),))),
        (Declare(B_VAR, TRUE), If(VARYING, (Assign(B_VAR, Const(False, BOOL)),)), If(B_VAR, (Barrier(),))),
        (Declare(B_VAR, TRUE), loop(If(B_VAR, (Barrier(),)), Assign(B_VAR, VARYING))),
        (PRIVATE, Assign(Subscript("p", LOCAL_ID, BOOL), TRUE), If(Subscript("p", ZERO, BOOL), (Barrier(),))),
    ],
)
def test_divergent_barrier(body: tuple[Stmt, ...]) -> None:
    assert [code for code, _ in faults(kernel(*body, group=(4,)))] == ["TIL555"]
    verify(kernel(*body))


def test_uniform_barriers_pass() -> None:
    condition = Apply(Op.CMP_LT, (GridIndex(GridLevel.GROUP, 0, I64), ZERO))
    shared = DeclareArray("s", DType.BOOL, 4, Region.LOCAL)
    fill = Assign(Subscript("s", LOCAL_ID, BOOL), VARYING)
    read = If(Subscript("s", ZERO, BOOL), (Barrier(),))
    verify(kernel(shared, fill, Barrier(), If(condition, (loop(Barrier()),)), read, group=(4,)))


KERNEL: Final = kernel(store(load()))
INPUT: Final = Buffer("a", DType.F32, (4, 4), BufferRole.INPUT)
OUTPUT: Final = Buffer("b", DType.F32, (16,), BufferRole.OUTPUT)
TEMPORARY: Final = Buffer("t", DType.F32, (16,), BufferRole.TEMPORARY)
CONSTANT: Final = Buffer("c", DType.F32, (16,), BufferRole.CONSTANT, bytes(64))


def program(*launches: tuple[str, ...], buffers: tuple[Buffer, ...] = (INPUT, OUTPUT), number: int = 0) -> Program:
    return Program((KERNEL,), buffers, tuple(Launch(number, arguments) for arguments in launches))


def test_legal_programs_pass() -> None:
    verify_program(program(("a", "b")))
    verify_program(program(("c", "t"), ("t", "b"), buffers=(OUTPUT, TEMPORARY, CONSTANT)))


@pytest.mark.parametrize(
    ("broken", "code"),
    [
        (attrs.evolve(program(("a", "b")), kernels=(kernel(store(X)),)), "TIL201"),
        (program(("a", "b"), buffers=(INPUT, OUTPUT, INPUT)), "TIL202"),
        (program(("a", "b"), buffers=(INPUT, OUTPUT, attrs.evolve(TEMPORARY, name="`"))), "TIL551"),
        (program(("a", "b"), buffers=(INPUT, OUTPUT, attrs.evolve(TEMPORARY, shape=(-1,)))), "TIL551"),
        (program(("a", "b"), buffers=(INPUT, OUTPUT, attrs.evolve(CONSTANT, data=b"0"))), "TIL551"),
        (program(("a", "b"), buffers=(attrs.evolve(INPUT, data=b"0"), OUTPUT)), "TIL551"),
        (program(("a", "b"), ("a",)), "TIL556"),
        (program(("a", "b"), ("a", "z")), "TIL201"),
        (program(("a", "b"), buffers=(attrs.evolve(INPUT, shape=(3,)), OUTPUT)), "TIL556"),
        (program(("a", "b"), buffers=(attrs.evolve(INPUT, dtype=DType.I32), OUTPUT)), "TIL556"),
        (program(("a", "b"), ("b", "a")), "TIL554"),
        (program(("a", "b"), ("b", "b")), "TIL556"),
        (program(("t", "b"), buffers=(TEMPORARY, OUTPUT)), "TIL557"),
        (program(), "TIL557"),
        (attrs.evolve(program(("a", "b")), works=(Launch(0, ("a", "b")), Launch(1, ()))), "TIL556"),
    ],
)
def test_broken_program(broken: Program, code: str) -> None:
    assert [found for found, _ in faults(broken)] == [code]
