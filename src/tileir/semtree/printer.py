"""Kernels and programs as C-like text, which :mod:`tileir.semtree.parser` reads back to an equal value.

A bare integer is a scalar of the kernel's index type, a bare float one of f32; constants of other types are
written ``f64(0.5)`` or ``f32x16(0.5)``. ``A[i : 16]`` are 16 neighbours; ``A[v]`` of a vector ``v`` is a gather.
Names that are no plain words stand between back quotes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, assert_never

import attrs

from tileir.core.arithmetic import rounded
from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.core.text import Writer, bytes_text
from tileir.semtree.ir import (
    Apply,
    Assign,
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Barrier,
    Bitcast,
    Broadcast,
    Buffer,
    Cast,
    Const,
    Declare,
    DeclareArray,
    Dot,
    For,
    GridIndex,
    If,
    KernelFunction,
    Loop,
    LoopKind,
    MatrixMultiply,
    MatrixOperand,
    Param,
    Prefetch,
    Program,
    Ramp,
    Reduce,
    Shuffle,
    Subscript,
    Var,
)
from tileir.semtree.syntax import ATOM_RANK, GRID_FUNCTIONS, INFIX, PREFIX, TERNARY_RANK, UNARY_RANK, spelt_name

if TYPE_CHECKING:
    from tileir.semtree.ir import Expr, Stmt, Work


def to_text(value: KernelFunction | Program) -> str:
    """Return the text of a verified kernel or program; it depends on nothing but the value."""
    writer = Writer()
    if isinstance(value, Program):
        _program(writer, value)
    else:
        _kernel(writer, value)
    return writer.text()


def expr_text(expr: Expr, index: DType = DType.I64) -> str:
    """Return the text of one expression in a kernel whose index type is ``index``."""
    return _Expressions(index).text(expr)


def _program(writer: Writer, program: Program) -> None:
    writer.line("program {")
    with writer.indented():
        for buffer in program.buffers:
            writer.line(_buffer(buffer))
        for kernel in program.kernels:
            writer.line()
            _kernel(writer, kernel)
        if program.works:
            writer.line()
        _launches(writer, program.works)
    writer.line("}")


def _launches(writer: Writer, works: tuple[Work, ...]) -> None:
    for work in works:
        if isinstance(work, Loop):
            writer.line(f"repeat {work.times} {{")
            with writer.indented():
                _launches(writer, work.works)
            writer.line("}")
        else:
            writer.line(f"launch {work.kernel}({', '.join(map(spelt_name, work.arguments))});")


def _buffer(buffer: Buffer) -> str:
    shape = ", ".join(map(str, buffer.shape))
    data = f' = "{bytes_text(buffer.data)}"' if buffer.data else ""
    return f"{buffer.role.value} {buffer.dtype.value} {spelt_name(buffer.name)}[{shape}]{data};"


def _kernel(writer: Writer, kernel: KernelFunction) -> None:
    for comment in kernel.comments:
        writer.line(f"// {comment}" if comment else "//")
    writer.line(f"kernel {spelt_name(kernel.name)}(")
    with writer.indented(2):
        for position, param in enumerate(kernel.params):
            writer.line(_param(param) + ("," if position + 1 < len(kernel.params) else ""))
    writer.line(") " + " ".join(_facts(kernel)) + " {")
    _Statements(writer, _Expressions(kernel.index)).body(kernel.body)
    writer.line("}")


def _facts(kernel: KernelFunction) -> list[str]:
    facts = [f"grid({', '.join(map(str, kernel.grid))})"]
    if kernel.group != (1,):
        facts.append(f"group({', '.join(map(str, kernel.group))})")
    if kernel.index is not DType.I64:
        facts.append(f"index({kernel.index.value})")
    if kernel.operations:
        facts.append(f"operations({kernel.operations})")
    return facts


def _param(param: Param) -> str:
    alignment = f" align({param.alignment})" if param.alignment != 1 else ""
    alias = " noalias" if param.no_alias else ""
    return f"{param.access.value} {param.dtype.value} {spelt_name(param.name)}[{param.size}]{alignment}{alias}"


@attrs.frozen
class _Expressions:
    """Prints the expressions of one kernel; bare integers have the type ``index``."""

    index: DType

    def text(self, expr: Expr, outer: int = 0) -> str:
        """Return the text of ``expr``, in parentheses where it binds looser than ``outer``."""
        match expr:
            case Const():
                return self._const(expr)
            case Var(name=name):
                return spelt_name(name)
            case GridIndex(level=level, axis=axis):
                return f"{GRID_FUNCTIONS[level]}({axis})"
            case Apply():
                return self._apply(expr, outer)
            case Cast(operand=operand, type=kind):
                return f"cast<{kind}>({self.text(operand)})"
            case Bitcast(operand=operand, type=kind):
                return f"bitcast<{kind}>({self.text(operand)})"
            case Broadcast(operand=operand, lanes=count):
                return f"broadcast<{count}>({self.text(operand)})"
            case Ramp(base=base, stride=stride, lanes=count):
                return f"ramp<{count}>({self.text(base)}, {stride})"
            case Reduce(op=op, operand=operand):
                return f"reduce<{op.value}>({self.text(operand)})"
            case Shuffle(operands=operands, lanes=lanes):
                return f"shuffle<{', '.join(map(str, lanes))}>({', '.join(map(self.text, operands))})"
            case Dot(left=left, right=right, total=total):
                return f"dot_add<{expr.terms}>({', '.join(map(self.text, (left, right, total)))})"
            case Subscript(array=array, offset=offset, type=kind):
                extent = f" : {kind.lanes}" if kind.lanes != offset.type.lanes else ""
                return f"{spelt_name(array)}[{self.text(offset)}{extent}]"
            case _:
                assert_never(expr)

    def _apply(self, expr: Apply, outer: int) -> str:
        op, args = expr.op, expr.args
        rank = ATOM_RANK
        if op in INFIX:
            sign, rank = INFIX[op]
            result = f"{self.text(args[0], rank)} {sign} {self.text(args[1], rank + 1)}"
        elif op in PREFIX:
            rank = UNARY_RANK
            operand = self.text(args[0], rank)
            # A sign right before a bare number belongs to the number.
            result = PREFIX[op] + (f"({operand})" if operand[0].isdigit() else operand)
        elif op is Op.COND:
            rank = TERNARY_RANK
            test = self.text(args[0], rank + 1)
            result = f"{test} ? {self.text(args[1], rank)} : {self.text(args[2], rank)}"
        else:
            result = f"{op.value}({', '.join(map(self.text, args))})"
        return f"({result})" if rank < outer else result

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


@attrs.frozen
class _Statements:
    writer: Writer
    expressions: _Expressions

    def body(self, stmts: tuple[Stmt, ...]) -> None:
        """Write statements, one step deeper."""
        with self.writer.indented():
            for stmt in stmts:
                self._statement(stmt)

    def _statement(self, stmt: Stmt) -> None:
        text, line = self.expressions.text, self.writer.line
        match stmt:
            case Declare(variable=variable, value=value):
                line(f"{variable.type} {spelt_name(variable.name)} = {text(value)};")
            case DeclareArray(name=name, dtype=dtype, size=size, region=region, alignment=alignment):
                line(f"{region.value} {dtype.value} {spelt_name(name)}[{size}] align({alignment});")
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
            case Barrier():
                line("barrier();")
            case AsyncCopy(target=target, source=source):
                line(f"async {text(target)} = {text(source)};")
            case AsyncCommit():
                line("async_commit();")
            case AsyncWait(pending=pending):
                line(f"async_wait({pending});")
            case MatrixMultiply(shape=shape, tile=tile, accumulators=sums, left=left, right=right):
                sizes = f"multiply({_numbers(shape)}) tile({_numbers(tile)})"
                line(f"{sizes} {text(sums)} += {self._operand(left)} * {self._operand(right)};")
            case Prefetch(target=target):
                line(f"prefetch {text(target)};")
            case _:
                assert_never(stmt)

    def _operand(self, operand: MatrixOperand) -> str:
        swizzle = f" swizzle({operand.shift}, {operand.mask})" if operand.mask else ""
        return f"{self.expressions.text(operand.start)} strides({_numbers(operand.strides)}){swizzle}"

    def _loop(self, loop: For) -> None:
        text, name = self.expressions.text, spelt_name(loop.counter.name)
        kind = "" if loop.kind is LoopKind.SERIAL else f"{loop.kind.value} "
        begin = f"{loop.counter.type} {name} = {text(loop.begin)}"
        self.writer.line(f"for ({begin}; {name} < {text(loop.end)}; {name} += {loop.step}) {kind}{{")
        self.body(loop.body)
        self.writer.line("}")


def _numbers(values: tuple[int, ...]) -> str:
    return ", ".join(map(str, values))
