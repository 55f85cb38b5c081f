"""Proofs that LLVM IR of operations and conversions of integers is defined and right, for every width.

Together with the rows that express what LLVM leaves undefined: safe division, shifts beyond the width, wrapping,
extrema, truth values; with variables, and with each constant at which a row or the emitter chooses another form.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
import z3

from strategies import smt
from strategies.llvm_terms import Instructions
from strategies.semtree_values import allowed_ops
from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.semtree.ir import Apply, Assign, Cast, Const, Declare, KernelFunction, Subscript, Type, Var
from tileir.semtree.legalise.legaliser import legalise
from tileir.semtree.rewrite import walk
from tileir_llvm.emit.capabilities import CAPABILITIES
from tileir_llvm.emit.expressions import Environment, evaluate
from tileir_llvm.emit.integers import select
from tileir_llvm.emit.text import FunctionText, ModuleText, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tileir.semtree.ir import Expr

INTEGRAL = tuple(dtype for dtype in DType if not dtype.is_float)
COMPARISONS = tuple(op for op in Op if op.info.compares)
DIVISIONS = {"sdiv": lambda a, b: a / b, "udiv": z3.UDiv, "srem": z3.SRem, "urem": z3.URem}


def unknown_divisions(bits: int) -> dict[str, Callable[[Any, Any], Any]]:
    """Return divisions of which only those by 1 are known: two equal ones of 64 bits are soon told, unlike circuits."""
    sort = z3.BitVecSort(bits)

    def division(name: str) -> Callable[[Any, Any], Any]:
        unknown = z3.Function(name, sort, sort, sort)
        return lambda a, b: z3.If(b == 1, a if name.endswith("div") else z3.BitVecVal(0, bits), unknown(a, b))

    return {name: division(name) for name in DIVISIONS}


def refuted(
    out: FunctionText,
    result: Value,
    wanted: Any,
    registers: Mapping[str, Any],
    divisions: Mapping[str, Any] = DIVISIONS,
) -> str | None:
    """Return values for which the instructions are undefined or compute something else."""
    code = Instructions(dict(registers), divisions)
    code.run(out.lines)
    actual = code.operand("i1" if result.type.dtype.is_bool else f"i{result.type.dtype.bits}", result.text)
    solver = z3.Solver()
    solver.set("timeout", smt.TIMEOUT_MS)
    solver.add(z3.Or(*(z3.Not(each) for each in code.defined), actual != wanted))
    found = solver.check()
    assert found != z3.unknown, out.lines
    return None if found == z3.unsat else f"{solver.model()} in {out.lines}"


def symbols(dtype: DType, names: Sequence[str]) -> dict[str, Any]:
    return {f"%{name}": z3.Bool(name) if dtype.is_bool else z3.BitVec(name, dtype.bits) for name in names}


def variants(dtype: DType) -> list[Var | Const]:
    """Return a variable, and the constants that rows and emitters look at."""
    low, high = int(dtype.minimum), int(dtype.maximum)
    numbers = dict.fromkeys((0, 1, 2, 7, dtype.bits - 1, dtype.bits, -1, low, high))
    kind = Type(dtype)
    return [Var("b", kind), *(Const.of(number, kind) for number in numbers if low <= number <= high)]


def written(out: FunctionText, expr: Expr) -> Value:
    """Write an expression of the variables ``a`` and ``b`` as the back end does."""
    names = {node.name: Value(f"%{node.name}", node.type) for node in walk(expr) if isinstance(node, Var)}
    env = Environment(out, dict(names))
    place = Subscript("result", Const(0, Type(DType.I64)), expr.type)
    made = legalise(KernelFunction("k", (), (Assign(place, expr),)), CAPABILITIES)
    for stmt in made.body[:-1]:
        assert isinstance(stmt, Declare)
        env.variables[stmt.variable.name] = evaluate(env, stmt.value)
    last = made.body[-1]
    assert isinstance(last, Assign)
    return evaluate(env, last.value)


def quotient(op: Op, dtype: DType, divisions: Mapping[str, Any], left: Any, right: Any) -> Any:
    """Return a division by way of a function that need not be known: what 0 and -1 give is said here."""
    name = f"{'s' if dtype.is_signed else 'u'}{'div' if op is Op.DIV else 'rem'}"
    zero = left - left
    special = [(right == 0, zero), (right == -1, -left if op is Op.DIV else zero)][: 1 + dtype.is_signed]
    result = divisions[name](left, right)
    for condition, value in reversed(special):
        result = z3.If(condition, value, result)
    return result


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", INTEGRAL, ids=str)
def test_operations(dtype: DType) -> None:
    kind, registers = Type(dtype), symbols(dtype, "ab")
    wide = dtype.bits > 8
    for op in (*allowed_ops(dtype), *COMPARISONS):
        rights = variants(dtype) if op.info.arity == 2 else [None]
        divisions = unknown_divisions(dtype.bits) if wide else DIVISIONS
        for right in rights:
            out = FunctionText(ModuleText(""))
            args = (Var("a", kind),) if right is None else (Var("a", kind), right)
            result = written(out, Apply(op, args))
            terms = [registers["%a"]]
            if right is not None:
                terms.append(registers["%b"] if isinstance(right, Var) else smt.number(int(right.value), dtype))
            if wide and op in (Op.DIV, Op.MOD):
                wanted = quotient(op, dtype, divisions, *terms)
            else:
                wanted = smt.operation(op, dtype, *terms)
            assert refuted(out, result, wanted, registers, divisions) is None, (op, dtype, right)


@pytest.mark.parametrize("dtype", INTEGRAL, ids=str)
def test_choices(dtype: DType) -> None:
    kind, registers = Type(dtype), {**symbols(dtype, "ab"), "%c": z3.Bool("c")}
    out = FunctionText(ModuleText(""))
    condition = Value("%c", Type(DType.BOOL))
    result = select(out, condition, Value("%a", kind), Value("%b", kind))
    assert refuted(out, result, z3.If(z3.Bool("c"), registers["%a"], registers["%b"]), registers) is None


@pytest.mark.parametrize(("source", "target"), list(itertools.permutations(INTEGRAL, 2)), ids=str)
def test_conversions(source: DType, target: DType) -> None:
    registers = symbols(source, "a")
    out = FunctionText(ModuleText(""))
    result = written(out, Cast(Var("a", Type(source)), Type(target)))
    assert refuted(out, result, smt.cast(registers["%a"], source, target), registers) is None


def test_what_is_undefined_is_refuted() -> None:
    kind, registers = Type(DType.I32), symbols(DType.I32, "ab")
    for text in ("sdiv i32 %a, %b", "shl i32 %a, %b"):
        out = FunctionText(ModuleText(""))
        name = out.result(text)
        code = Instructions(dict(registers), DIVISIONS)
        code.run(out.lines)
        assert refuted(out, Value(name, kind), code.registers[name], registers) is not None
    out = FunctionText(ModuleText(""))
    total = Value(out.result("add i32 %a, %b"), kind)
    assert refuted(out, total, registers["%a"] + registers["%b"], registers) is None
    assert refuted(out, total, registers["%a"] - registers["%b"], registers) is not None
