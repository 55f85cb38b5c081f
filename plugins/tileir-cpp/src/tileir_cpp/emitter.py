"""Kernels as C++: vectors are a class template with the operators of scalars, so that both are written alike.

What C++ leaves undefined, or lacks, :mod:`tileir.semtree.legalise` has expressed before: this is spelling only.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, assert_never

import attrs
import numpy as np

from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.core.text.names import NameScope
from tileir.core.text.writer import Writer
from tileir.semtree import ir as sem
from tileir.semtree.analysis.effects import assigned_variables
from tileir.semtree.legalise.c_operators import FUNCTIONS, INFIX
from tileir.semtree.legalise.capabilities import C_LIKE
from tileir.semtree.legalise.legaliser import legalise
from tileir.semtree.legalise.repeated import with_parts_named
from tileir.semtree.rewrite import kernel_names
from tileir.semtree.transform.expansions import expand_kernel
from tileir.semtree.transform.layout import ALIGNMENT, layout
from tileir.semtree.transform.threads import one_thread
from tileir_c.emitter import NATIVE
from tileir_c.spelling import MEMORY, VALUE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tileir.semtree.transform.layout import Layout

HEADER: Final = (Path(__file__).parent / "lanes.hpp").read_text(encoding="utf-8")


CAPABILITIES: Final = attrs.evolve(C_LIKE, hints=(sem.Prefetch,))
"""What C++ has, as the extensions of GCC and Clang make it."""


def emit(kernels: Sequence[sem.KernelFunction], functions: Sequence[str]) -> tuple[str, tuple[int, ...]]:
    """Return C++ with a function ``extern "C" void name(arguments, scratch, begin, end)`` for each verified kernel.

    It runs the groups ``begin`` to ``end`` (exclusive) of the grid in order, axis 0 fastest. The second value is the
    scratch memory in bytes that each kernel needs for one thread.
    """
    prepared = [prepare(kernel) for kernel in kernels]
    layouts = [layout(kernel) for kernel in prepared]
    texts = map(_function, prepared, layouts, functions)
    return HEADER + "\n".join(texts), tuple(each.scratch_bytes for each in layouts)


def prepare(kernel: sem.KernelFunction) -> sem.KernelFunction:
    """Return an equal kernel with one thread for each group, of operations that C++ has."""
    return with_parts_named(legalise(expand_kernel(one_thread(kernel), NATIVE), CAPABILITIES))


def _function(kernel: sem.KernelFunction, places: Layout, function: str) -> str:
    scope = NameScope.of(("arguments", "scratch", "begin", "end", "group"))
    names = {name: scope.fresh("v_" + re.sub(r"[^0-9A-Za-z]", "_", name)) for name in kernel_names(kernel)}
    out = Writer()
    for comment in kernel.comments:
        out.line("// " + comment.replace("\\", "/").replace("??", "? ?"))
    pointers = [f"{_pointer(p.dtype, p.access)}{'__restrict__ ' if p.no_alias else ''}" for p in kernel.params]
    declared = [f"{pointer}{names[p.name]}" for pointer, p in zip(pointers, kernel.params, strict=True)]
    rest = "[[maybe_unused]] unsigned char *scratch, int64_t begin, int64_t end"
    out.line(f"static __attribute__((noinline)) void {function}_groups({', '.join((*declared, rest))}) {{")
    with out.indented():
        out.line("for (int64_t group = begin; group < end; ++group) {")
        with out.indented():
            _Emitter(out, names, scope, kernel, places, assigned_variables(kernel.body)).write(kernel.body)
        out.line("}")
    out.line("}")
    args = [f"static_cast<{_pointer(p.dtype, p.access)}>(arguments[{n}])" for n, p in enumerate(kernel.params)]
    head = "[[maybe_unused]] void *const *arguments, void *scratch, int64_t begin, int64_t end"
    out.line(f'extern "C" void {function}({head}) {{')
    call = ", ".join((*args, "static_cast<unsigned char *>(scratch)", "begin", "end"))
    out.line(f"  {function}_groups({call});")
    out.line("}")
    return out.text()


def _pointer(dtype: DType, access: sem.ParamAccess) -> str:
    return f"{'const ' if access is sem.ParamAccess.READ else ''}{MEMORY[dtype]} *"


def _type(kind: sem.Type) -> str:
    return VALUE[kind.dtype] if kind.lanes == 1 else f"Lanes<{VALUE[kind.dtype]}, {kind.lanes}>"


def _constant(number: bool | int | float, dtype: DType) -> str:
    """Return a scalar constant of its type."""
    kind = VALUE[dtype]
    if dtype.is_narrow:
        return f"{kind}({int(np.asarray(number).astype(dtype.numpy).view(f'u{dtype.itemsize}'))})"
    if dtype.is_bool:
        return str(bool(number)).lower()
    if dtype.is_integer:
        low = dtype is DType.I64 and number == dtype.minimum
        return f"std::numeric_limits<{kind}>::min()" if low else f"{kind}({int(number)}{'u' * (not dtype.is_signed)})"
    if math.isfinite(number):
        return f"{kind}({float(number).hex()})"
    limit = f"std::numeric_limits<{kind}>::{'quiet_NaN' if math.isnan(number) else 'infinity'}()"
    return limit if math.isnan(number) or number > 0 else f"(-{limit})"


@attrs.frozen
class _Emitter:
    """Writes the statements of one kernel."""

    out: Writer
    names: Mapping[str, str]
    scope: NameScope
    kernel: sem.KernelFunction
    places: Layout
    assigned: frozenset[str]

    def write(self, stmts: tuple[sem.Stmt, ...]) -> None:
        for stmt in stmts:
            for line in self._lines(stmt):
                self.out.line(line)

    def _lines(self, stmt: sem.Stmt) -> Iterator[str]:
        match stmt:
            case sem.Declare(variable=variable, value=expr):
                const = "" if variable.name in self.assigned else "const "
                declared = f"{const}{_type(variable.type)} {self.names[variable.name]}"
                yield f"[[maybe_unused]] {declared} = {self.value(expr)};"
            case sem.DeclareArray(name=name, dtype=dtype, size=size):
                kind, spelt = MEMORY[dtype], self.names[name]
                if stmt in self.places.offsets:
                    start = f"reinterpret_cast<{kind} *>(scratch + {self.places.offsets[stmt]})"
                    yield f"{kind} *const {spelt} = {start};"
                else:
                    yield f"alignas({max(dtype.itemsize, min(stmt.alignment, ALIGNMENT))}) {kind} {spelt}[{size}];"
            case sem.Assign(target=sem.Subscript(array=array, offset=offset, type=kind), value=expr) if kind.lanes > 1:
                place, value = self.value(offset), self.value(expr)
                to = ("scatter(", ", ") if offset.type.lanes > 1 else ("store(", " + ")
                yield f"{to[0]}{self.names[array]}{to[1]}{place}, {value});"
            case sem.Assign(target=target, value=expr):
                yield f"{self._place(target)} = {self.value(expr)};"
            case sem.For(counter=counter, begin=begin, end=end, step=step, body=body):
                kind, name, last = VALUE[counter.type.dtype], self.names[counter.name], self.scope.fresh("last")
                following = f"++{name}" if step == 1 else f"{name} = advance<{kind}>({name}, {last}, {step})"
                head = f"{kind} {name} = {self.value(begin)}, {last} = {self.value(end)}"
                yield from self._block(f"for ({head}; {name} < {last}; {following})", body)
            case sem.If(condition=condition, then=then, otherwise=otherwise):
                yield from self._block(f"if ({self.value(condition)})", then)
                if otherwise:
                    yield from self._block("else", otherwise)
            case sem.Prefetch(target=sem.Subscript(array=array, offset=offset)):
                yield f"__builtin_prefetch({self.names[array]} + {self.value(offset)});"
            case (
                sem.Barrier()
                | sem.Turn()
                | sem.AssignLanes()
                | sem.AsyncCopy()
                | sem.AsyncCommit()
                | sem.AsyncWait()
                | sem.MatrixMultiply()
                | sem.Exchange()
                | sem.Vote()
                | sem.Arrive()
                | sem.Await()
                | sem.Update()
                | sem.Channel()
                | sem.BulkCopy()
                | sem.BulkStore()
                | sem.BulkWait()
                | sem.WarpRole()
            ):
                pass  # groups have one thread, and what it does is spelt out, or refused
            case _:
                assert_never(stmt)

    def _block(self, header: str, body: tuple[sem.Stmt, ...]) -> Iterator[str]:
        yield f"{header} {{"
        with self.out.indented():
            self.write(body)
        yield "}"

    def _place(self, target: sem.LValue) -> str:
        """Return a variable, or one element of an array."""
        if isinstance(target, sem.Var):
            return self.names[target.name]
        return f"{self.names[target.array]}[{self.value(target.offset)}]"

    def value(self, expr: sem.Expr) -> str:
        """Return an expression, which binds tighter than any operator."""
        kind = expr.type
        match expr:
            case sem.Const(value=number):
                text = _constant(number, kind.dtype)
                return text if kind.lanes == 1 else f"broadcast<{VALUE[kind.dtype]}, {kind.lanes}>({text})"
            case sem.Var():
                return self._place(expr)
            case sem.GridIndex(level=level, axis=axis):
                return self._coordinate(axis) if level is sem.GridLevel.GROUP else "0"
            case sem.Apply(op=op, args=args):
                return self._apply(op, [self.value(arg) for arg in args], expr)
            case sem.Cast(operand=operand):
                function = "static_cast" if kind.lanes == 1 else "cast"
                return f"{function}<{VALUE[kind.dtype]}>({self.value(operand)})"
            case sem.Bitcast(operand=operand):
                return f"bits<{_type(kind)}>({_type(operand.type)}({self.value(operand)}))"
            case sem.Broadcast(operand=operand, lanes=lanes):
                return (
                    self.value(operand)
                    if lanes == 1
                    else f"broadcast<{VALUE[kind.dtype]}, {lanes}>({self.value(operand)})"
                )
            case sem.Ramp(base=base, stride=stride, lanes=lanes):
                step = _constant(sem.Const.of(stride, base.type).value, kind.dtype)
                first = self.value(base)
                return first if lanes == 1 else f"ramp<{VALUE[kind.dtype]}, {lanes}>({first}, {step})"
            case sem.Shuffle(operands=operands, lanes=lanes):
                scalars = operands[0].type.lanes == 1
                texts = [f"broadcast<{VALUE[kind.dtype]}, 1>({t})" if scalars else t for t in map(self.value, operands)]
                return f"shuffle<{', '.join(map(str, lanes))}>({', '.join(texts)})" + (
                    ".at[0]" if kind.lanes == 1 else ""
                )
            case sem.Subscript(type=kind) if kind.lanes == 1:
                return f"({self._place(expr)} != 0)" if kind.dtype.is_bool else self._place(expr)
            case sem.Subscript(array=array, offset=offset):
                name, place, element = self.names[array], self.value(offset), VALUE[kind.dtype]
                if offset.type.lanes > 1:
                    return f"gather<{element}>({name}, {place})"
                return f"load<{element}, {kind.lanes}>({name} + {place})"
            case sem.Reduce() | sem.Dot():
                raise TypeError(f"{type(expr).__name__} is expressed by other operations before")
            case _:
                assert_never(expr)

    def _apply(self, op: Op, args: list[str], expr: sem.Apply) -> str:
        dtype, lanes = expr.args[-1].type.dtype, expr.args[-1].type.lanes
        if op is Op.COND:
            return f"choose({', '.join(args)})" if lanes > 1 else f"({args[0]} ? {args[1]} : {args[2]})"
        if op in (Op.NEG, Op.BIT_NOT):
            return f"({'-' if op is Op.NEG else '!' if dtype.is_bool else '~'}{args[0]})"
        if op in FUNCTIONS and dtype.is_float:
            return f"{'' if lanes > 1 else 'std::'}{FUNCTIONS[op]}({', '.join(args)})"
        return f"({args[0]} {INFIX[op]} {args[1]})"

    def _coordinate(self, axis: int) -> str:
        below = math.prod(self.kernel.grid[:axis])
        return f"static_cast<{VALUE[self.kernel.index]}>(group / {below} % {self.kernel.grid[axis]})"
