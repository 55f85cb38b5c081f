"""Base for emitters of C-like languages, driven by tables of a dialect; the defaults are C11.

:class:`CLike` emits the statements and expressions that :mod:`tileir.semtree.legalise` leaves in a kernel. A language
derives from it and replaces tables, or methods where tables do not suffice.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import ClassVar, Final

import numpy as np

from tileir.core import Domain, DType, NameScope, Op, attrs
from tileir.core.text.writer import Writer
from tileir.semtree.analysis.effects import assigned_variables
from tileir.semtree.analysis.ranges import Ranges
from tileir.semtree.ir import (
    Apply,
    Assign,
    Bitcast,
    Broadcast,
    Cast,
    Const,
    Declare,
    DeclareArray,
    Expr,
    For,
    GridIndex,
    GridLevel,
    If,
    KernelFunction,
    LoopKind,
    Param,
    ParamAccess,
    Prefetch,
    Ramp,
    Stmt,
    Subscript,
    Type,
    Var,
)
from tileir.semtree.legalise.capabilities import C_LIKE, Capabilities
from tileir.semtree.legalise.legaliser import legalise
from tileir.semtree.rewrite import kernel_names, rewrite_stmts, trip_values, unrolled, with_body
from tileir.semtree.transform.expansions import EXPANDED, expand_kernel
from tileir.semtree.transform.layout import ALIGNMENT, Layout, layout
from tileir.semtree.transform.threads import one_thread
from tileir_emit.repeated import with_parts_named
from tileir_emit.scalariser import scalarised

LOOSE, TERNARY, EITHER, BOTH, BIT_OR, BIT_XOR, BIT_AND, EQUAL, ORDER, SHIFT, SUM, PRODUCT, UNARY, ATOM = range(14)
"""Operator precedences; ``LOOSE`` operands are always bracketed."""

SIGNS: Final[Mapping[Op, str]] = MappingProxyType(
    {
        Op.ADD: "+",
        Op.SUB: "-",
        Op.MUL: "*",
        Op.DIV: "/",
        Op.MOD: "%",
        Op.BIT_AND: "&",
        Op.BIT_OR: "|",
        Op.BIT_XOR: "^",
        Op.BIT_LEFT: "<<",
        Op.BIT_RIGHT: ">>",
        Op.CMP_EQ: "==",
        Op.CMP_NE: "!=",
        Op.CMP_LT: "<",
        Op.CMP_LE: "<=",
        Op.CMP_GT: ">",
        Op.CMP_GE: ">=",
    }
)
"""Binary operators."""

FUNCTIONS: Final[Mapping[Op, str]] = MappingProxyType(
    {
        Op.ABS: "fabs",
        Op.SQRT: "sqrt",
        Op.FLOOR: "floor",
        Op.CEIL: "ceil",
        Op.ROUND: "rint",
        Op.TRUNC: "trunc",
        Op.MOD: "fmod",
        Op.FMA: "fma",
    }
)
"""Float functions that are exact or correctly rounded; ``rint`` rounds to even unless a program changes the mode."""

NATIVE: Final = frozenset(op for op in Op if op not in EXPANDED and op.info.domain is not Domain.BITS)
"""Float operations available in C or expressed by those: all that have no expansion."""


def scalar_c(
    kernel: KernelFunction, native: frozenset[Op] = NATIVE, capabilities: Capabilities = C_LIKE
) -> KernelFunction:
    """Return an equivalent kernel in the subset of any C-like language that :class:`CLike` emits.

    Statements are ``Declare``, ``DeclareArray``, ``Assign``, ``For`` and ``If``; groups have one thread, so that there
    are no barriers; loops are unrolled as requested, and hints dropped. Expressions have one lane. They are ``Const``,
    ``Var``, ``Subscript``, ``Cast``, ``Bitcast``, the ``GridIndex`` of groups, and ``Apply`` of ``NEG``, ``BIT_NOT``,
    ``COND`` and the operations of :data:`SIGNS` and :data:`FUNCTIONS`, where C defines the result. Floats narrower than
    f32 are only their bits.

    Args:
        kernel: The kernel.
        native: Mathematical functions that are not expanded.
        capabilities: Other capabilities of the language, including hints.

    Raises:
        BackendError: TIL804, the kernel has an operation that no row of :mod:`tileir.semtree.legalise` expresses.
    """
    expanded = expand_kernel(one_thread(kernel), native)
    scope = NameScope.of(kernel_names(expanded))

    def unroll(stmt: Stmt) -> tuple[Stmt, ...]:
        values = trip_values(stmt) if isinstance(stmt, For) and stmt.kind is LoopKind.UNROLL else None
        return unrolled(stmt, values, scope) if values is not None and isinstance(stmt, For) else (stmt,)

    scalar = scalarised(with_body(expanded, rewrite_stmts(unroll, expanded.body)))
    return with_parts_named(legalise(scalar, capabilities))


@attrs.frozen
class Value:
    """Expression of the language.

    Attributes:
        text: Text of the expression.
        type: Its type.
        rank: Precedence of the outermost operator, from :data:`LOOSE` to :data:`ATOM`.
        known: Value of an integer or bool constant, equal in all lanes.
        mask: Bits of each lane of a vector of bools, if comparisons of vectors give integers, 0 or -1.
        splat: Scalar from which a vector of numbers was broadcast, if any.
    """

    text: str
    type: Type
    rank: int = ATOM
    known: int | None = None
    mask: int = 8
    splat: Value | None = None

    def at(self, rank: int) -> str:
        """Return the text as an operand that must bind at least as tightly as ``rank``."""
        return self.text if self.rank >= rank else f"({self.text})"

    def retyped(self, kind: Type) -> Value:
        """Return a value of another type with this text."""
        return attrs.evolve(self, type=kind, known=None, splat=None)


@attrs.frozen
class Infix:
    """Binary operator: its precedence, and the minimum precedence of each side.

    A left operand with the precedence of the operator needs no brackets either, unless that is ``LOOSE``.
    """

    sign: str
    rank: int
    left: int
    right: int

    def of(self, left: Value, right: Value, kind: Type) -> Value:
        """Return the operation, with a result of type ``kind``."""
        least = self.rank if left.rank == self.rank > LOOSE else self.left
        return Value(f"{left.at(least)} {self.sign} {right.at(self.right)}", kind, self.rank)


def call(function: str, kind: Type, *args: Value | str) -> Value:
    """Return a function call."""
    return Value(f"{function}({', '.join(arg if isinstance(arg, str) else arg.text for arg in args)})", kind)


def _types() -> Iterator[tuple[DType, str]]:
    for dtype in DType:
        yield dtype, f"{'' if dtype.is_integer and dtype.is_signed else 'u'}int{dtype.bits}_t"
    yield from ((DType.BOOL, "bool"), (DType.F32, "float"), (DType.F64, "double"))


def _infix() -> Iterator[tuple[Op, Infix]]:
    for op, sign in SIGNS.items():
        yield op, Infix(sign, LOOSE, UNARY, UNARY)
    yield from ((op, Infix(SIGNS[op], SUM, SUM, PRODUCT)) for op in (Op.ADD, Op.SUB))
    yield Op.MUL, Infix(SIGNS[Op.MUL], PRODUCT, PRODUCT, UNARY)


@attrs.define(eq=False, repr=False)
class Helpers:
    """Helper functions of a program beside its kernels, in the order of first use."""

    _functions: dict[str, str] = attrs.field(factory=dict, init=False)

    def use(self, name: str, make: Callable[[], str]) -> str:
        """Return ``name``, and add the function from ``make`` if it is new.

        ``make`` may use other helpers, which then precede this one.
        """
        if name not in self._functions:
            self._functions[name] = make()
        return name

    def function(self, name: str, result: str, params: str, *body: str) -> str:
        """Return ``name``, and add a function with these parameters and lines."""
        lines = "".join(f"  {line}\n" for line in body)
        return self.use(name, lambda: f"static inline {result} {name}({params})\n{{\n{lines}}}\n")

    @property
    def texts(self) -> tuple[str, ...]:
        """Helper functions in use."""
        return tuple(self._functions.values())


_CONTINUED: Final = ("\\", "??/")
"""Line endings, one of them a trigraph, by which C continues a line."""


@attrs.define(eq=False, repr=False)
class CLike:
    """Writer of the statements and expressions of one kernel.

    The tables are those of C11 with the headers ``math.h``, ``stdbool.h`` and ``stdint.h``, where every value is a
    scalar, groups have one thread, and floats narrower than f32 are their bits.

    Attributes:
        TYPES: Type of a variable, by its dtype.
        ELEMENTS: Type of an element in memory, if different.
        VECTOR: Type of several lanes.
        LITERALS: Integer constants other than plain digits.
        LEAST: Least integers of types without a literal for them.
        INFIX: Binary operators.
        FUNCTIONS: Functions of f64.
        FUNCTION: Names of functions of f32.
        VALUED: Narrow floats whose values are held in variables; for others it is the bits.
        SIGNED: Precedence of unary signs.
        OPENING: Text after the head of a block; without a brace, that is on its own line.
        HINTS: Lines before loops of some kinds, as hints to compilers.
        DECLARED: Declaration of a variable; ``const`` is ``CONST`` if it is not reassigned.
        ARRAY: Array of one thread.
        SCRATCH: Array in the memory ``scratch`` of a group.
        POINTER: Parameter; ``restrict`` is ``RESTRICT`` if it overlaps no other.
        kernel: The kernel.
        names: Identifier of each name of the kernel.
        scope: Identifiers in use.
        out: Output lines.
        ranges: Ranges of integers, for replacing single-valued integers by constants; None for no replacement.
        helpers: Helper functions of the kernel's program.
        places: Places of arrays.
        variables: Facts about variables beside their types.
        assigned: Names of the variables that are reassigned in the kernel.
    """

    TYPES: ClassVar[Mapping[DType, str]] = MappingProxyType(dict(_types()))
    ELEMENTS: ClassVar[Mapping[DType, str]] = MappingProxyType({DType.BOOL: "uint8_t"})
    VECTOR: ClassVar[str] = "{element}{lanes}"
    LITERALS: ClassVar[Mapping[DType, str]] = MappingProxyType(
        {DType.U32: "{}u", DType.I64: "INT64_C({})", DType.U64: "UINT64_C({})"}
    )
    LEAST: ClassVar[Mapping[DType, str]] = MappingProxyType({DType.I32: "INT32_MIN", DType.I64: "INT64_MIN"})
    INFIX: ClassVar[Mapping[Op, Infix]] = MappingProxyType(dict(_infix()))
    FUNCTIONS: ClassVar[Mapping[Op, str]] = FUNCTIONS
    FUNCTION: ClassVar[str] = "{}f"
    SIGNED: ClassVar[int] = LOOSE
    OPENING: ClassVar[str] = " {"
    VALUED: ClassVar[frozenset[DType]] = frozenset()
    HINTS: ClassVar[Mapping[LoopKind, str]] = MappingProxyType({})
    CONST: ClassVar[str] = "const "
    DECLARED: ClassVar[str] = "{const}{type} {name} = {value};"
    ARRAY: ClassVar[str] = "_Alignas({alignment}) {type} {name}[{size}];"
    SCRATCH: ClassVar[str] = "{type} *restrict {name} = ({type} *)(scratch + {offset});"
    RESTRICT: ClassVar[str] = "restrict "
    POINTER: ClassVar[str] = "{const}{type} *{restrict}{name}"

    kernel: KernelFunction
    names: Mapping[str, str]
    scope: NameScope = attrs.field(factory=NameScope)
    out: Writer = attrs.field(factory=Writer)
    ranges: Ranges | None = None
    helpers: Helpers = attrs.field(factory=Helpers)
    variables: dict[str, Value] = attrs.field(factory=dict, init=False)
    places: Layout = attrs.field(init=False)
    assigned: frozenset[str] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Place the arrays, and collect reassigned variables."""
        self.places = self.layout()
        self.assigned = assigned_variables(self.kernel.body)

    def layout(self) -> Layout:
        """Return the places of arrays: small arrays of a thread are variables, others are in scratch memory."""
        return layout(self.kernel)

    # Statements

    def write(self, stmts: Iterable[Stmt]) -> None:
        """Write statements, one after the other."""
        for stmt in stmts:
            self.statement(stmt)

    def line(self, text: str) -> None:
        """Write one line."""
        self.out.line(text)

    @contextmanager
    def block(self, head: str = "") -> Iterator[None]:
        """Write between braces."""
        if head and self.OPENING:
            self.line(head + self.OPENING)
        else:
            for text in filter(None, (head, "{")):
                self.line(text)
        with self.out.indented():
            yield
        self.line("}")

    def statement(self, stmt: Stmt) -> None:
        """Write a statement."""
        match stmt:
            case Declare():
                self.declare(stmt)
            case DeclareArray():
                self.declare_array(stmt)
            case Assign():
                self.assign(stmt)
            case For():
                self.loop(stmt)
            case If():
                self.branch(stmt)
            case Prefetch(target=target):
                self.line(f"{self.prefetch(target)};")
            case _:
                self.instruction(stmt)

    def instruction(self, stmt: Stmt) -> None:
        """Write an optional statement; statements that this language lacks are lowered before, or dropped."""
        raise TypeError(f"there is no {type(stmt).__name__} in this language; see tileir.semtree.legalise")

    def declare(self, stmt: Declare) -> None:
        """Declare a variable."""
        variable, value = stmt.variable, self.value(stmt.value)
        const = "" if variable.name in self.assigned else self.CONST
        kind, name = self.type(variable.type), self.names[variable.name]
        self.line(self.DECLARED.format(const=const, type=kind, name=name, value=value.text))
        self.note(stmt)

    def note(self, stmt: Declare | For) -> None:
        """Record facts of a statement about its variable."""
        if self.ranges is not None:
            self.ranges.enter(stmt)

    def temporary(self, stem: str, value: Value) -> Value:
        """Return ``value`` as a name: itself if it is one, else a new variable."""
        return value if value.text.isidentifier() else self.named(stem, value)

    def named(self, stem: str, value: Value) -> Value:
        """Return a value as a new variable."""
        name = self.scope.fresh(stem)
        self.line(self.DECLARED.format(const=self.CONST, type=self.type(value.type), name=name, value=value.text))
        return Value(name, value.type)

    def declare_array(self, stmt: DeclareArray) -> None:
        """Declare an array, of this thread or in scratch memory."""
        kind, name = self.element_type(stmt.dtype), self.names[stmt.name]
        if stmt in self.places.offsets:
            self.line(self.SCRATCH.format(type=kind, name=name, offset=self.places.offsets[stmt]))
        else:
            alignment = max(stmt.dtype.itemsize, min(stmt.alignment, ALIGNMENT))
            self.line(self.ARRAY.format(alignment=alignment, type=kind, name=name, size=stmt.size))

    def assign(self, stmt: Assign) -> None:
        """Set a variable or an element."""
        target = stmt.target
        place = self.names[target.name] if isinstance(target, Var) else self.element(target)
        self.line(f"{place} = {self.value(stmt.value).text};")

    def loop(self, loop: For) -> None:
        """Write a loop, whose bounds are evaluated once."""
        kind, name = self.type(loop.counter.type), self.names[loop.counter.name]
        begin, end = self.first(loop), self.end(loop)
        if hint := self.loop_hint(loop):
            self.line(hint)
        step = self.advance(loop, name, end)
        head = f"for ({kind} {name} = {begin}; {name} < {end}; {step})"
        self.note(loop)
        with self.block(head):
            self.write(loop.body)

    def first(self, loop: For) -> str:
        """Return the initial value of a counter."""
        return self.plain(self.value(loop.begin))

    def end(self, loop: For) -> str:
        """Return the bound of a loop as a text with a loop-invariant value."""
        return self.fixed(loop.end, f"{self.names[loop.counter.name]}_end")

    def loop_hint(self, loop: For) -> str:
        """Return a compiler hint before a loop; empty if there is none."""
        return self.HINTS.get(loop.kind, "")

    def fixed(self, expr: Expr, stem: str) -> str:
        """Return a constant or a variable that is never reassigned, made anew for other expressions."""
        value = self.value(expr)
        if value.known is not None or (isinstance(expr, Var) and expr.name not in self.assigned):
            return self.plain(value)
        return self.named(stem, value).text

    def plain(self, value: Value) -> str:
        """Return an integer for uses independent of its type: a small constant as plain digits."""
        small = value.known is not None and abs(value.known) <= DType.I32.maximum
        return str(value.known) if small else value.text

    def advance(self, loop: For, name: str, end: str) -> str:
        """Return the step of a loop; it must not overflow after the last iteration."""
        values, dtype = trip_values(loop), loop.counter.type.dtype
        if loop.step == 1:
            return f"++{name}"
        if values is not None and (not values or values[-1] + loop.step <= dtype.maximum):
            return f"{name} += {loop.step}"
        step, wide = self.literal(loop.step, dtype), self.TYPES[DType.U64 if dtype.bits == 64 else DType.U32]
        left = f"({wide})({end}) - ({wide}){name}"
        return f"{name} = {left} > {step} ? ({self.TYPES[dtype]})({name} + {step}) : {end}"

    def branch(self, stmt: If) -> None:
        """Write both sides of a condition."""
        with self.block(f"if ({self.value(stmt.condition).text})"):
            self.write(stmt.then)
        if stmt.otherwise:
            with self.block("else"):
                self.write(stmt.otherwise)

    def prefetch(self, target: Subscript) -> str:
        """Return a prefetch call for an element, which may lie outside of the array."""
        return f"__builtin_prefetch(&{self.element(target)})"

    # Expressions

    def value(self, expr: Expr) -> Value:
        """Return an expression, after writing the statements that it needs."""
        known = self.known(expr)
        if known is not None:
            return self.constant(known, expr.type)
        match expr:
            case Const(value=number, type=kind):
                return self.constant(number, kind)
            case Var(name=name, type=kind):
                return self.variables.get(name) or Value(self.names[name], kind)
            case GridIndex():
                return self.coordinate(expr)
            case Apply():
                return self.apply(expr)
            case Cast(operand=operand, type=kind):
                return self.converted(self.value(operand), kind)
            case Bitcast(operand=operand, type=kind):
                return self.reinterpreted(self.value(operand), kind)
            case Broadcast(operand=operand, lanes=1) | Ramp(base=operand, lanes=1):
                return self.value(operand)
            case Subscript():
                return self.load(expr)
            case _:
                return self.vector(expr)

    def known(self, expr: Expr) -> int | None:
        """Return the single value of an integer by its range; None for several."""
        return None if self.ranges is None or expr.type.dtype.is_float else self.ranges.at(expr).known

    def divisor(self, expr: Expr) -> int:
        """Return a divisor of an integer, by its range."""
        return 1 if self.ranges is None else self.ranges.at(expr).divisor

    def vector(self, expr: Expr) -> Value:
        """Return a ``Broadcast``, ``Ramp`` or ``Shuffle``; unsupported nodes are lowered before."""
        raise TypeError(f"there is no {type(expr).__name__} in this language; see tileir.semtree.legalise")

    @classmethod
    def type(cls, kind: Type) -> str:
        """Return the type of a variable."""
        element = cls.TYPES[kind.dtype]
        return element if kind.lanes == 1 else cls.VECTOR.format(element=element, lanes=kind.lanes)

    @classmethod
    def element_type(cls, dtype: DType) -> str:
        """Return the type of an element in memory."""
        return cls.ELEMENTS.get(dtype) or cls.TYPES[dtype]

    def coordinate(self, expr: GridIndex) -> Value:
        """Return a coordinate of the group number ``group``, axis 0 fastest; its only thread is number 0."""
        if expr.level is GridLevel.LOCAL:
            return Value("0", expr.type, known=0)
        place = f"group / {math.prod(self.kernel.grid[: expr.axis])} % {self.kernel.grid[expr.axis]}"
        return Value(f"({self.type(expr.type)})({place})", expr.type, UNARY)

    @classmethod
    def constant(cls, value: bool | int | float, kind: Type) -> Value:
        """Return a constant that is representable in its dtype."""
        text = cls.literal(value, kind.dtype)
        signed = text.startswith("-") or (text.startswith("(") and not text.endswith(")"))
        known = None if kind.dtype.is_float else int(value)
        scalar = Value(text, Type(kind.dtype), UNARY if signed else ATOM, known)
        return scalar if kind.lanes == 1 else cls.splat(scalar, kind)

    @classmethod
    def splat(cls, scalar: Value, kind: Type) -> Value:
        """Return a constant in every lane."""
        raise TypeError(f"there is no {kind} of {scalar.text} in this language; see tileir.semtree.legalise")

    @classmethod
    def literal(cls, value: bool | int | float, dtype: DType) -> str:
        """Return the text of a scalar constant."""
        if dtype.is_bool:
            return "true" if value else "false"
        if dtype.is_narrow and dtype not in cls.VALUED:
            bits = int(np.asarray(value).astype(dtype.numpy).view(f"u{dtype.itemsize}"))
            return cls.LITERALS.get(dtype, "0x{:0{}x}").format(bits, dtype.bits // 4)
        if dtype.is_float:
            return cls.real(float(value), dtype)
        if value == dtype.minimum and dtype in cls.LEAST:
            return cls.LEAST[dtype]
        return cls.LITERALS.get(dtype, "{}").format(int(value))

    @classmethod
    def real(cls, value: float, dtype: DType) -> str:
        """Return a float literal; a finite one as the shortest decimal that rounds to it."""
        suffix, cast = ("f", "") if dtype is DType.F32 else ("", f"({cls.TYPES[dtype]})")
        if not math.isfinite(value):
            return f"{'-' * (value < 0)}{cast}{'NAN' if math.isnan(value) else 'INFINITY'}"
        text = repr(value) if dtype is DType.F64 else str(np.float32(value))
        return text + suffix if "." in text or "e" in text else f"{text}.0{suffix}"

    def apply(self, expr: Apply) -> Value:
        """Return an operation."""
        return self.applied(expr.op, tuple(map(self.value, expr.args)))

    def applied(self, op: Op, args: tuple[Value, ...]) -> Value:
        """Return an operation on operands of one type."""
        kind = args[-1].type
        if op is Op.COND:
            return self.choice(*args)
        if op in (Op.NEG, Op.BIT_NOT):
            return self.signed("-" if op is Op.NEG else "!" if kind.dtype.is_bool else "~", args[0])
        if op in self.FUNCTIONS and kind.dtype.is_float:
            return call(self.function_name(op, kind), kind, *args)
        return self.infix(op, *args)

    def choice(self, condition: Value, then: Value, otherwise: Value) -> Value:
        """Return ``then`` if a condition holds, else ``otherwise``."""
        return Value(f"{condition.at(UNARY)} ? {then.at(UNARY)} : {otherwise.at(UNARY)}", then.type, LOOSE)

    def signed(self, sign: str, value: Value) -> Value:
        """Return an operand with a sign."""
        text = value.at(UNARY if self.SIGNED == LOOSE else ATOM)
        return Value(f"{sign}({text})" if text.startswith("-") else sign + text, value.type, self.SIGNED)

    def function_name(self, op: Op, kind: Type) -> str:
        """Return the name of a function of floats."""
        return (self.FUNCTION if kind.dtype is DType.F32 else "{}").format(self.FUNCTIONS[op])

    def infix(self, op: Op, left: Value, right: Value) -> Value:
        """Return a binary operation."""
        return self.INFIX[op].of(left, right, left.type.with_dtype(DType.BOOL) if op.info.compares else left.type)

    def converted(self, value: Value, kind: Type) -> Value:
        """Return a value converted to another type."""
        return Value(f"({self.type(kind)}){value.at(UNARY)}", kind, UNARY)

    def reinterpreted(self, value: Value, kind: Type) -> Value:
        """Return the bits of a value as another type."""
        source, target = self.type(value.type), self.type(kind)
        if source == target:
            return value.retyped(kind)
        if "float" in (text := source + target) or "double" in text:
            return Value(f"((union {{ {source} a; {target} b; }}){{{value.text}}}).b", kind)
        return self.converted(value, kind)

    def element(self, place: Subscript) -> str:
        """Return an element of an array, to be read or written."""
        offset = self.value(place.offset)
        return f"{self.names[place.array]}[{offset.text if offset.known is None else offset.known}]"

    def load(self, place: Subscript) -> Value:
        """Return a loaded element; any byte but 0 is true."""
        text = self.element(place)
        return Value(f"{text} != 0", place.type, LOOSE) if place.type.dtype.is_bool else Value(text, place.type)

    # Functions

    def parameter(self, param: Param) -> str:
        """Return the declaration of a parameter."""
        const = "const " if param.access is ParamAccess.READ else ""
        restrict = self.RESTRICT if param.no_alias else ""
        kind = self.element_type(param.dtype)
        return self.POINTER.format(const=const, type=kind, restrict=restrict, name=self.names[param.name])


def comment(text: str) -> str:
    """Return a comment line for each line of texts, with characters escaped that could end or continue it."""
    lines = ["".join(c if " " <= c <= "~" else ascii(c)[1:-1] for c in line) for line in text.splitlines()]
    return "".join(f"// {line} .\n" if line.endswith(_CONTINUED) else f"// {line}\n" for line in lines)


def identifiers(names: Iterable[str], scope: NameScope, is_free: Callable[[str], bool]) -> Mapping[str, str]:
    """Return a distinct identifier for each name.

    Args:
        names: Any texts. Free identifiers stay; other names get the prefix ``v_``.
        scope: Identifiers in use; new identifiers are added.
        is_free: Whether a word has no meaning in the language.
    """
    ordered = tuple(dict.fromkeys(names))
    free = {name for name in ordered if re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII) and is_free(name)}
    result = {name: scope.fresh(name) for name in ordered if name in free}
    for name in ordered:
        if name not in result:
            result[name] = scope.fresh("v_" + re.sub(r"\W", "_", name, flags=re.ASCII))
    return result
