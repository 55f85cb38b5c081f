"""Each broken rule of a typed function is found, and named by the value that breaks it."""

import attrs
import pytest

from tileir.core.dtype import DType
from tileir.core.errors import VerifyError
from tileir.core.ops import Aggregation, Combination, Op
from tileir.poly.affine import Affine
from tileir.typed.ir import (
    Access,
    Argsort,
    Cast,
    Checkpoint,
    Constant,
    Constraint,
    Contraction,
    Coordinate,
    Elementwise,
    Function,
    Gather,
    NumberArithmetic,
    NumberLiteral,
    Operation,
    Override,
    Recall,
    Reshape,
    Scatter,
    ShapeOf,
    Upstream,
    Value,
)
from tileir.typed.verifier import check_function, verify

A = Value("A", DType.F32, (2, 3))
B = Value("B", DType.I32, (3,))
C = Value("C", DType.BOOL, (3,))
F = DType.F32
i, j = Affine.index("i"), Affine.index("j")
SUM = Contraction(
    "R", (i,), (Access("A", (i, j)),), Aggregation.SUM, Combination.NONE, F, F, F, (2,)
)  # fmt: skip


def broken(operation: Operation) -> str:
    with pytest.raises(VerifyError) as caught:
        verify(Function((A, B, C), (operation.name,), (operation,)))
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "TIL531"
    return diagnostic.message


OPERATIONS = [
    (Constant("R", DType.I8, 300), "is 300, which is no value of i8"),
    (Constant("R", DType.I8, 3.0), "is 3.0"),
    (Constant("R", DType.I32, True), "is True"),
    (Constant("R", DType.F32, 0.1), "is 0.1"),
    (Elementwise("R", Op.ADD, ("A",), F, (2, 3)), "has 1 operands, but add takes 2"),
    (Elementwise("R", Op.ADD, ("A", "B"), F, (2, 3)), "has operands of f32, i32"),
    (Elementwise("R", Op.ADD, ("C", "C"), DType.BOOL, (3,)), "applies add to bool"),
    (Elementwise("R", Op.EXP, ("B",), DType.I32, (3,)), "applies exp to i32"),
    (Elementwise("R", Op.BIT_AND, ("A", "A"), F, (2, 3)), "applies bit_and to f32"),
    (Elementwise("R", Op.BIT_LEFT, ("C", "C"), DType.BOOL, (3,)), "applies bit_left to bool"),
    (Elementwise("R", Op.CMP_LT, ("B", "B"), DType.I32, (3,)), "has dtype i32, not bool"),
    (Elementwise("R", Op.ADD, ("B", "B"), DType.I64, (3,)), "has dtype i64, not i32"),
    (Elementwise("R", Op.COND, ("B", "B", "B"), DType.I32, (3,)), "has a condition of i32"),
    (Elementwise("R", Op.NEG, ("B",), DType.I32, (4,)), "has shape [4], not [3]"),
    (Elementwise("R", Op.NEG, ("B",), DType.I32, (-3,)), "has a negative size"),
    (Cast("R", "A", DType.F64, (3, 2)), "is a cast"),
    (Coordinate("R", 2, DType.I32, (2, 3)), "is the coordinate on axis 2"),
    (Coordinate("R", 0, DType.I64, (2, 3)), "counts in i64"),
    (ShapeOf("R", (2, 3), DType.I32, (3,)), "does not have the type of a shape"),
    (Reshape("R", "A", F, (7,)), "is a reshape"),
    (Reshape("R", "A", DType.F64, (6,)), "is a reshape"),
    (Argsort("R", "A", 2, False, DType.I32, (2, 3)), "sorts along axis 2 of rank 2"),
    (Argsort("R", "A", 1, False, DType.I32, (2, 4)), "keeps 4 of 3 elements"),
    (Argsort("R", "A", 1, False, DType.I32, (1, 3)), "changes the size of another axis"),
    (Argsort("R", "A", 1, False, DType.I64, (2, 3)), "cannot name places as i64"),
    (Gather("R", "A", "A", F, (2, 3, 3)), "has indices of f32"),
    (Gather("R", "A", "B", F, (3, 2)), "does not have the shape"),
    (Gather("R", "A", "B", DType.F64, (3, 3)), "has dtype f64"),
    (Scatter("R", "A", "A", F, F, (3,)), "has indices of f32"),
    (Scatter("R", "A", "B", F, F, (4, 3)), "does not have the shape"),
    (Scatter("R", "B", "B", DType.I64, DType.I32, (4,)), "accumulates in i64"),
    (Scatter("R", "B", "B", DType.I64, DType.I64, (4,)), "has dtype i64"),
    (Scatter("R", "B", "B", DType.I32, DType.I32, (0,)), "scatters to an empty axis"),
    (Scatter("R", "B", "B", DType.I32, DType.I32, (4,), Aggregation.ASSIGN), "replaces rows of nothing"),
    (Scatter("R", "B", "B", DType.I32, DType.I32, (3,), ordered=True), "aggregates, and so has no last update"),
    (Scatter("R", "B", "B", DType.I32, DType.I32, (3,), into="B"), "aggregates into rows of another value"),
    (Scatter("R", "B", "B", DType.I32, DType.I32, (4,), Aggregation.ASSIGN, "B"), "is 'B' itself, but has another"),
    (Checkpoint("R", "A", F, (3, 2)), "is 'A' itself, but has another dtype or shape"),
    (Recall("R", "A", 0, DType.F64, (2, 3)), "is 'A' itself, but has another dtype or shape"),
    (Override("R", "A", (), None, F, (6,)), "is 'A' itself, but has another dtype or shape"),
    (Override("R", "A", (), "A", F, (2, 3)), "has 'A' as its upstream, which is none"),
    (Override("R", "A", (("B", "A"),), None, F, (2, 3)), "gives a gradient to 'B', which is i32"),
    (Override("R", "A", (("A", "B"),), None, F, (2, 3)), "gives 'A' the gradient 'B', whose dtype or shape"),
    (attrs.evolve(SUM, combination=Combination.MUL), "has 1 inputs"),
    (attrs.evolve(SUM, output=(i, 0 * j)), "is written with 2 indices"),
    (attrs.evolve(SUM, inputs=(Access("A", (i,)),)), "reads 'A' with 1 indices"),
    (attrs.evolve(SUM, operand_dtype=DType.F64), "combines in f64, not f32"),
    (attrs.evolve(SUM, accumulator=DType.F64), "aggregates in f64, not f32"),
    (attrs.evolve(SUM, dtype=DType.F64), "has dtype f64, not f32"),
    (attrs.evolve(SUM, default="A"), "has a default 'A'"),
    (attrs.evolve(SUM, inputs=(Access("A", (i, i)),), output=(j + Affine.index("k"),)), "has an index 'k'"),
    (attrs.evolve(SUM, constraints=(Constraint(Affine.index("k") + Affine.index("l"), 3),)), "has an index 'l'"),
]


@pytest.mark.parametrize(
    ("operation", "message"), OPERATIONS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_operation(operation: Operation, message: str) -> None:
    assert broken(operation).startswith(f"'R' {message}")


def faults(function: Function) -> list[str]:
    with pytest.raises(VerifyError) as caught:
        verify(function)
    return [diagnostic.message for diagnostic in caught.value.diagnostics]


def test_names() -> None:
    neg = Elementwise("R", Op.NEG, ("B",), DType.I32, (3,))
    late = Elementwise("S", Op.NEG, ("T",), DType.I32, (3,))
    assert faults(Function((B, B), ("R",), (neg,))) == ["'B' is defined twice"]
    assert faults(Function((B,), ("R",), (neg, neg))) == ["'R' is defined twice"]
    assert faults(Function((B,), ("R",), (late, neg))) == ["'S' reads 'T', which is not defined before it"]
    assert faults(Function((B,), ("B",), (neg,))) == ["output 'B' is not defined by an operation"]
    assert faults(Function((B,), ("R", "R"), (neg,))) == ["output 'R' is listed twice"]
    assert faults(Function((B,), (), (neg,))) == ["a function needs at least one output"]
    assert faults(Function((B,), ("R",), (neg,), (("X", "x"),))) == ["label 'x' marks 'X', which no operation defines"]


def test_upstreams_belong_to_overrides() -> None:
    upstream = Upstream("U", F, (2, 3))
    template = Elementwise("G", Op.NEG, ("U",), F, (2, 3))
    override = Override("R", "A", (("A", "G"),), "U", F, (2, 3))
    verify(Function((A,), ("R",), (upstream, template, override)))
    assert faults(Function((A,), ("R", "G"), (upstream, template, override))) == [
        "output 'G' reads 'U', which stands only in gradients of overrides"
    ]
    other = attrs.evolve(override, upstream=None)
    assert faults(Function((A,), ("R",), (upstream, template, other))) == [
        "output 'R' reads 'U', which stands only in gradients of overrides"
    ]
    wide = attrs.evolve(upstream, shape=(4, 2, 3))
    assert faults(Function((A,), ("R",), (wide, attrs.evolve(override, pairs=())))) == [
        "'R' has an upstream 'U' of another dtype or shape"
    ]


def test_all_faults_come_at_once() -> None:
    operations = tuple(Cast(name, "B", DType.I8, (4,)) for name in "RST")
    assert len(faults(Function((B,), ("R",), operations))) == 3


def test_numbers_are_computed_in_order_for_inputs_without_axes() -> None:
    x = Value("X", DType.F32, (2,), number="B")
    steps = (
        NumberArithmetic("B", Op.ADD, ("B", "K"), None),
        NumberLiteral("B", 1, None),
    )
    copied = Elementwise("O", Op.IDENT, ("X",), DType.F32, (2,))
    faults = list(check_function(Function((x,), ("O",), (copied,), (), steps)))
    assert [fault.message for fault in faults] == [
        "'X' is a number, so it is an input of the function itself, without axes",
        "number 'B' is defined twice",
        "number 'B' reads 'B', which is no number before it",
    ]
