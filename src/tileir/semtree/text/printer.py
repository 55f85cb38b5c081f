"""Kernels and programs as C-like text, which :mod:`tileir.semtree.text.parser` reads back to an equal value.

A bare integer is a scalar of the kernel's index type, a bare float one of f32; constants of other types are
written ``f64(0.5)`` or ``f32x16(0.5)``. ``A[i : 16]`` are 16 neighbours; ``A[v]`` of a vector ``v`` is a gather.
Other names than plain words are between back quotes.
"""

from __future__ import annotations

import math
from typing import assert_never

from tileir.core import DType, Op, attrs, rounded
from tileir.core.text.writer import Writer
from tileir.semtree.ir import (
    Apply,
    Assign,
    Branch,
    Buffer,
    Const,
    Declare,
    Expr,
    For,
    GridIndex,
    If,
    KernelFunction,
    Launch,
    Loop,
    LoopKind,
    Program,
    Stmt,
    Subscript,
    Var,
    WarpRole,
    While,
    Work,
)
from tileir.semtree.node import Node
from tileir.semtree.text.language import LANGUAGE
from tileir.semtree.text.syntax import GRID_FUNCTIONS, OPERATORS, PREFIX, UNARY_RANK, spelt_name


def to_text(value: KernelFunction | Program) -> str:
    """Return the text of a verified kernel or program; it depends only on the value."""
    writer = Writer()
    if isinstance(value, Program):
        _program(writer, value)
    else:
        _kernel(writer, value)
    return writer.text()


def node_text(node: Node) -> str:
    """Return the text of any node, as in the text of a program, in a kernel with i64 indices.

    Statements and works have their semicolons.
    """
    writer = Writer()
    match node:
        case Program() | KernelFunction():
            return to_text(node)
        case Launch() | Loop() | Branch():
            _works(writer, (node,))
        case Buffer():
            return f"{_text(node)};"
        case _ if isinstance(node, Expr):
            return expr_text(node)
        case _ if isinstance(node, Stmt):
            _Statements(writer, _Expressions(DType.I64)).statement(node)
        case _:
            return _text(node)
    return writer.text().rstrip("\n")


def expr_text(expr: Expr, index: DType = DType.I64) -> str:
    """Return the text of one expression in a kernel whose index type is ``index``."""
    return _Expressions(index).text(expr)


def _text(node: Node) -> str:
    return LANGUAGE.text(_Expressions(DType.I64), node)


def _program(writer: Writer, program: Program) -> None:
    writer.line("program {")
    with writer.indented():
        for buffer in program.buffers:
            writer.line(f"{_text(buffer)};")
        for kernel in program.kernels:
            writer.line()
            _kernel(writer, kernel)
        if program.works:
            writer.line()
        _works(writer, program.works)
    writer.line("}")


def _works(writer: Writer, works: tuple[Work, ...]) -> None:
    for work in works:
        match work:
            case Launch():
                writer.line(f"{_text(work)};")
            case Loop(times=times, works=inner):
                again = _text(times) if isinstance(times, While) else f"repeat {times}"
                _block(writer, again, inner)
                writer.line("}")
            case Branch(condition=condition, then=then, otherwise=otherwise):
                _block(writer, f"if ({spelt_name(condition)})", then)
                if otherwise:
                    _block(writer, "} else", otherwise)
                writer.line("}")
            case _:
                assert_never(work)


def _block(writer: Writer, head: str, works: tuple[Work, ...]) -> None:
    writer.line(f"{head} {{")
    with writer.indented():
        _works(writer, works)


def _kernel(writer: Writer, kernel: KernelFunction) -> None:
    for comment in kernel.comments:
        writer.line(f"// {comment}" if comment else "//")
    writer.line(f"kernel {spelt_name(kernel.name)}(")
    with writer.indented(2):
        for position, param in enumerate(kernel.params):
            writer.line(_text(param) + ("," if position + 1 < len(kernel.params) else ""))
    writer.line(") " + " ".join(_facts(kernel)) + " {")
    _Statements(writer, _Expressions(kernel.index)).body(kernel.body)
    writer.line("}")


def _facts(kernel: KernelFunction) -> list[str]:
    facts = [f"grid({', '.join(map(str, kernel.grid))})"]
    if kernel.group != (1,):
        facts.append(f"group({', '.join(map(str, kernel.group))})")
    if kernel.cluster != 1:
        facts.append(f"cluster({kernel.cluster})")
    if kernel.index is not DType.I64:
        facts.append(f"index({kernel.index.value})")
    if kernel.operations:
        facts.append(f"operations({kernel.operations})")
    return facts


@attrs.frozen(repr=False)
class _Expressions:
    """Printer of the expressions of one kernel; bare integers have the type ``index``."""

    index: DType
    name = staticmethod(spelt_name)

    def text(self, expr: Expr, outer: int = 0) -> str:
        """Return the text of ``expr``, in parentheses if it binds looser than ``outer``."""
        match expr:
            case Const():
                return self._const(expr)
            case Var(name=name):
                return spelt_name(name)
            case GridIndex(level=level, axis=axis):
                return f"{GRID_FUNCTIONS[level]}({axis})"
            case Apply():
                return self._apply(expr, outer)
            case Subscript(array=array, offset=offset, type=kind):
                extent = f" : {kind.lanes}" if kind.lanes != offset.type.lanes else ""
                return f"{spelt_name(array)}[{self.text(offset)}{extent}]"
            case _:
                return LANGUAGE.text(self, expr)

    def _apply(self, expr: Apply, outer: int) -> str:
        op, args = expr.op, expr.args
        if op in OPERATORS.known:
            return OPERATORS.infix_text(op, self.text, args, outer)
        if op is Op.COND:
            return OPERATORS.conditional_text(self.text, args, outer)
        if op not in PREFIX:
            return f"{op.value}({', '.join(map(self.text, args))})"
        operand = self.text(args[0], UNARY_RANK)
        # A sign right before a bare number belongs to the number.
        result = PREFIX[op] + (f"({operand})" if operand[0].isdigit() else operand)
        return f"({result})" if outer > UNARY_RANK else result

    def _const(self, const: Const) -> str:
        dtype = const.type.dtype
        text = literal(const)
        bare = const.type.lanes == 1 and (
            dtype.is_bool
            or (dtype is self.index and dtype.is_integer)
            or (dtype is DType.F32 and math.isfinite(const.value))
        )
        return text if bare else f"{const.type}({text})"


def literal(const: Const) -> str:
    """Return the shortest number or word that rounds to the value of ``const`` in its dtype."""
    value, dtype = const.value, const.type.dtype
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) or not math.isfinite(value) or not dtype.is_float:
        return str(value)
    short = str(dtype.numpy.type(value))
    exact = short if rounded(float(short), dtype) == value else repr(value)
    return exact if any(sign in exact for sign in ".e") else f"{exact}.0"


@attrs.frozen(repr=False)
class _Statements:
    writer: Writer
    expressions: _Expressions

    def body(self, stmts: tuple[Stmt, ...]) -> None:
        """Write statements, one step deeper."""
        with self.writer.indented():
            for stmt in stmts:
                self.statement(stmt)

    def statement(self, stmt: Stmt) -> None:
        """Write a statement, and those in it."""
        text, line = self.expressions.text, self.writer.line
        match stmt:
            case Declare(variable=variable, value=value):
                line(f"{variable.type} {spelt_name(variable.name)} = {text(value)};")
            case Assign(target=target, value=value):
                line(f"{text(target)} = {text(value)};")
            case For():
                self._loop(stmt)
            case If(condition=condition, then=then, otherwise=otherwise):
                line(f"if ({text(condition)}) {{")
                self.body(then)
                if otherwise:
                    line("} else {")
                    self.body(otherwise)
                line("}")
            case WarpRole(first=first, warps=warps, registers=registers, teams=teams):
                several, own = f" teams({teams})" if teams != 1 else "", f" registers({registers})" if registers else ""
                line(f"role({first}, {warps}){several}{own} {{")
                self.body(stmt.body)
                line("}")
            case _:
                line(f"{LANGUAGE.text(self.expressions, stmt)};")

    def _loop(self, loop: For) -> None:
        text, name = self.expressions.text, spelt_name(loop.counter.name)
        kind = "" if loop.kind is LoopKind.SERIAL else f"{loop.kind.value} "
        begin = f"{loop.counter.type} {name} = {text(loop.begin)}"
        self.writer.line(f"for ({begin}; {name} < {text(loop.end)}; {name} += {loop.step}) {kind}{{")
        self.body(loop.body)
        self.writer.line("}")
