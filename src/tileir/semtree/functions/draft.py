"""Notation of semtree code as formulas: terms with operators, and drafts that name intermediate results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tileir.core import DType, NameScope, Op, attrs, rewritten, schema
from tileir.core.operators import method_of, methods_of
from tileir.semtree.ir import Apply, Assign, Bitcast, Cast, Const, Declare, Expr, Stmt, Type, Var
from tileir.semtree.rewrite import map_bodies, map_expr


@attrs.frozen(order=False)
class Term:
    """An expression with Python's operators; numbers on either side become constants of its type.

    Integer terms are unsigned, so ``>>`` shifts in zeros. Comparisons give bool terms.
    """

    expr: Expr

    @property
    def type(self) -> Type:
        """The type of the expression."""
        return self.expr.type

    def of(self, value: Operand) -> Term:
        """Return ``value`` as a term of this one's type."""
        return value if isinstance(value, Term) else Term(Const.of(value, self.type))

    def apply(self, op: Op, *others: Operand) -> Term:
        """Return ``op`` of this term and others of its type."""
        return Term(Apply(op, (self.expr, *(self.of(other).expr for other in others))))

    def __neg__(self) -> Term:
        return self.apply(Op.NEG)

    def __abs__(self) -> Term:
        return self.apply(Op.ABS)

    def _reflected(self, op: Op, other: Operand) -> Term:
        return self.of(other).apply(op, self)

    __add__, __radd__ = methods_of(apply, _reflected, Op.ADD)
    __sub__, __rsub__ = methods_of(apply, _reflected, Op.SUB)
    __mul__, __rmul__ = methods_of(apply, _reflected, Op.MUL)
    __truediv__, __rtruediv__ = methods_of(apply, _reflected, Op.DIV)
    __and__ = method_of(apply, Op.BIT_AND)
    __or__ = method_of(apply, Op.BIT_OR)
    __xor__ = method_of(apply, Op.BIT_XOR)
    __lshift__ = method_of(apply, Op.BIT_LEFT)
    __rshift__ = method_of(apply, Op.BIT_RIGHT)
    __lt__ = method_of(apply, Op.CMP_LT)
    __le__ = method_of(apply, Op.CMP_LE)
    __gt__ = method_of(apply, Op.CMP_GT)
    __ge__ = method_of(apply, Op.CMP_GE)

    def equals(self, other: Operand) -> Term:
        """Return whether the two are equal; ``==`` stays structural."""
        return self.apply(Op.CMP_EQ, other)

    def differs(self, other: Operand) -> Term:
        """Return whether the two are unequal; ``!=`` stays structural."""
        return self.apply(Op.CMP_NE, other)

    def cast(self, dtype: DType) -> Term:
        """Convert by value."""
        return Term(Cast(self.expr, self.type.with_dtype(dtype)))

    def bitcast(self, dtype: DType) -> Term:
        """Read the same bits as another dtype of the same width."""
        return Term(Bitcast(self.expr, self.type.with_dtype(dtype)))

    @property
    def bits(self) -> Term:
        """The bits of a float as an unsigned integer."""
        return self.bitcast(_INTEGERS[self.type.dtype])

    @property
    def real(self) -> Term:
        """The float that has these bits."""
        return self.bitcast(_FLOATS[self.type.dtype])


Operand: TypeAlias = Term | bool | int | float

_INTEGERS = {DType.F32: DType.U32, DType.F64: DType.U64}
_FLOATS = {integer: real for real, integer in _INTEGERS.items()}


@attrs.define(eq=False, repr=False)
class Draft:
    """The statements of one expansion, collected in order."""

    names: NameScope
    statements: list[Stmt] = attrs.field(factory=list, init=False)

    def let(self, name: str, value: Term) -> Term:
        """Compute ``value`` once; the result may be used several times."""
        variable = Var(self.names.fresh(name), value.type)
        self.statements.append(Declare(variable, value.expr))
        return Term(variable)

    def assign(self, variable: Term, value: Term) -> None:
        """Set a variable that :meth:`let` made."""
        if not isinstance(variable.expr, Var):
            raise TypeError("only a variable can be assigned")
        self.statements.append(Assign(variable.expr, value.expr))

    def branch(self) -> Draft:
        """Return an empty draft for nested statements, with the same names in use."""
        return Draft(self.names)


@attrs.frozen
class Expansion:
    """A function written in other operations.

    Attributes:
        write: Returns the result for its operands, variables or constants, and adds statements to a draft.
        ulp_f32: Error bound in f32, in units in the last place.
        ulp_f64: Error bound in f64.
        write_narrow: Variant of ``write`` for operands in f32, only as precise as f16 and bf16 need; None if it is not
            shorter.
    """

    write: Callable[..., Term]
    ulp_f32: float = 2.0
    ulp_f64: float = 2.0
    write_narrow: Callable[..., Term] | None = None


def where(condition: Term, then: Operand, otherwise: Operand) -> Term:
    """Select lane by lane; at least one of the choices is a term."""
    some = then if isinstance(then, Term) else otherwise
    if not isinstance(some, Term):
        raise TypeError("one of the choices must be a term, to tell the type")
    return Term(Apply(Op.COND, (condition.expr, some.of(then).expr, some.of(otherwise).expr)))


def fma(x: Term, y: Operand, z: Operand) -> Term:
    """Return ``x * y + z``, rounded once."""
    return x.apply(Op.FMA, y, z)


def horner(x: Term, coefficients: Sequence[float]) -> Term:
    """Return the polynomial in ``x`` with at least two coefficients, constant first."""
    *rest, lower, highest = coefficients
    result = fma(x, highest, lower)
    for coefficient in reversed(rest):
        result = fma(result, x, coefficient)
    return result


def two_chains(draft: Draft, x: Term, coefficients: Sequence[float]) -> Term:
    """Evaluate as :func:`horner`, with even and odd powers in separate chains: half of the dependent steps."""
    square = draft.let("square", x * x)
    return fma(horner(square, coefficients[1::2]), x, horner(square, coefficients[::2]))


def at_most(x: Term, limit: Operand) -> Term:
    """Return the lesser of the two; NaN if ``x`` is NaN (one instruction, unlike MAX and MIN)."""
    return where(x.of(limit) < x, limit, x)


def at_least(x: Term, limit: Operand) -> Term:
    """Return the greater of the two; NaN if ``x`` is NaN."""
    return where(x.of(limit) > x, limit, x)


def with_drafts(stmts: tuple[Stmt, ...], names: NameScope, change: Callable[[Expr, Draft], Expr]) -> tuple[Stmt, ...]:
    """Change the expressions of statements at all depths, each after the drafted statements that its change needs."""

    def visit(stmt: Stmt) -> tuple[Stmt, ...]:
        draft = Draft(names)
        own = schema.map_operands(lambda root: map_expr(lambda expr: change(expr, draft), root), stmt)
        return (*draft.statements, map_bodies(lambda body: with_drafts(body, names, change), own))

    return rewritten(stmts, visit)
