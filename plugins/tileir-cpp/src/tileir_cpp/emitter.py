"""Emitter of kernels as C++, where vectors are a class template with the operators of scalars.

:mod:`tileir.semtree.legalise` expands everything that C++ leaves undefined or lacks, and
:class:`tileir_emit.c_like.CLike` has the parts common with C: this module adds vectors.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from tileir.core.ops import Op
from tileir.core.text.names import NameScope
from tileir.semtree import ir as sem
from tileir.semtree.legalise.capabilities import C_LIKE
from tileir.semtree.legalise.legaliser import legalise
from tileir.semtree.rewrite import kernel_names
from tileir.semtree.transform.expansions import expand_kernel
from tileir.semtree.transform.threads import one_thread
from tileir_emit.c_like import NATIVE, PRODUCT, CLike, Value, call, comment, identifiers
from tileir_emit.repeated import with_parts_named

if TYPE_CHECKING:
    from collections.abc import Sequence

HEADER: Final = (Path(__file__).parent / "lanes.hpp").read_text(encoding="utf-8")

CAPABILITIES: Final = attrs.evolve(C_LIKE, hints=(sem.Prefetch,))
"""Capabilities of C++ with the extensions of GCC and Clang."""


def emit(kernels: Sequence[sem.KernelFunction], functions: Sequence[str]) -> tuple[str, tuple[int, ...]]:
    """Return C++ with a function ``extern "C" void name(arguments, scratch, begin, end)`` for each verified kernel.

    It runs the groups ``begin`` to ``end`` (exclusive) of the grid in order, axis 0 fastest. The second value is the
    scratch memory per thread of each kernel, in bytes.
    """
    writers = [_writer(prepare(kernel)) for kernel in kernels]
    texts = (writer.definition(function) for writer, function in zip(writers, functions, strict=True))
    return HEADER + "\n".join(texts), tuple(writer.places.scratch_bytes for writer in writers)


def prepare(kernel: sem.KernelFunction) -> sem.KernelFunction:
    """Return an equivalent kernel with one thread per group, of operations that C++ has."""
    return with_parts_named(legalise(expand_kernel(one_thread(kernel), NATIVE), CAPABILITIES))


def _writer(kernel: sem.KernelFunction) -> Cpp:
    scope = NameScope.of(("arguments", "scratch", "begin", "end", "group", "bound"))
    return Cpp(kernel, identifiers(kernel_names(kernel), scope, lambda _: False), scope)


@attrs.define(eq=False, repr=False)
class Cpp(CLike):
    """C++17 with the vectors of ``lanes.hpp``."""

    VECTOR = "Lanes<{element}, {lanes}>"
    DECLARED = "[[maybe_unused]] {const}{type} {name} = {value};"
    ARRAY = "alignas({alignment}) {type} {name}[{size}];"
    SCRATCH = "{type} *const {name} = reinterpret_cast<{type} *>(scratch + {offset});"
    RESTRICT = "__restrict__ "

    def definition(self, function: str) -> str:
        """Return the functions of the kernel: only parameters can be declared free of aliases."""
        taken = ", ".join(map(self.parameter, self.kernel.params))
        rest = f"{taken}{', ' * bool(taken)}[[maybe_unused]] unsigned char *scratch, int64_t begin, int64_t end"
        head, loop = f"static __attribute__((noinline)) void {function}_groups({rest})", "int64_t group = begin"
        with self.block(head), self.block(f"for ({loop}; group < end; ++group)"):
            self.write(self.kernel.body)
        types = [self.parameter(param).rpartition("*")[0] + "*" for param in self.kernel.params]
        args = [f"static_cast<{kind}>(arguments[{number}])" for number, kind in enumerate(types)]
        head = "[[maybe_unused]] void *const *arguments, void *scratch, int64_t begin, int64_t end"
        with self.block(f'extern "C" void {function}({head})'):
            call = ", ".join((*args, "static_cast<unsigned char *>(scratch)", "begin", "end"))
            self.line(f"{function}_groups({call});")
        return "".join(map(comment, self.kernel.comments)) + self.out.text()

    def assign(self, stmt: sem.Assign) -> None:
        """Set a variable or elements, neighbours or those at a vector of offsets."""
        target = stmt.target
        if not isinstance(target, sem.Subscript) or target.type.lanes == 1:
            super().assign(stmt)
            return
        function, place = ("scatter", ", ") if target.offset.type.lanes > 1 else ("store", " + ")
        offset = self.value(target.offset).at(PRODUCT)
        self.line(f"{function}({self.names[target.array]}{place}{offset}, {self.value(stmt.value).text});")

    def vector(self, expr: sem.Expr) -> Value:
        """Return vectors made of scalars, or of lanes of others."""
        kind = expr.type
        element = f"{self.TYPES[kind.dtype]}, {kind.lanes}"
        match expr:
            case sem.Broadcast(operand=operand):
                return self.splat(self.value(operand), kind)
            case sem.Ramp(base=base, stride=stride):
                step = self.value(sem.Const.of(stride, base.type))
                return call(f"ramp<{element}>", kind, self.value(base), step)
            case sem.Shuffle(operands=operands, lanes=lanes):
                scalar = sem.Type(kind.dtype)
                parts = [self.splat(self.value(o), scalar) if o.type.lanes == 1 else self.value(o) for o in operands]
                picked = call(f"shuffle<{', '.join(map(str, lanes))}>", kind, *parts)
                return picked if kind.lanes > 1 else Value(f"{picked.text}.at[0]", kind)
            case _:
                return super().vector(expr)

    @classmethod
    def splat(cls, scalar: Value, kind: sem.Type) -> Value:
        """Return a broadcast scalar."""
        return call(f"broadcast<{cls.TYPES[kind.dtype]}, {kind.lanes}>", kind, scalar)

    def load(self, place: sem.Subscript) -> Value:
        """Return elements, neighbours or those at a vector of offsets."""
        if place.type.lanes == 1:
            return super().load(place)
        array, offset, element = self.names[place.array], self.value(place.offset), self.TYPES[place.type.dtype]
        if place.offset.type.lanes > 1:
            return call(f"gather<{element}>", place.type, array, offset)
        return call(f"load<{element}, {place.type.lanes}>", place.type, f"{array} + {offset.at(PRODUCT)}")

    def choice(self, condition: Value, then: Value, otherwise: Value) -> Value:
        """Return ``then`` if a condition holds, else ``otherwise``, lane by lane."""
        if condition.type.lanes == 1:
            return super().choice(condition, then, otherwise)
        return call("choose", then.type, condition, then, otherwise)

    def function_name(self, op: Op, kind: sem.Type) -> str:
        """Return the overloaded function of the standard library, or that of vectors."""
        return f"{'std::' if kind.lanes == 1 else ''}{self.FUNCTIONS[op]}"

    def converted(self, value: Value, kind: sem.Type) -> Value:
        """Return a value converted to another type."""
        return call(f"{'static_cast' if kind.lanes == 1 else 'cast'}<{self.TYPES[kind.dtype]}>", kind, value)

    def reinterpreted(self, value: Value, kind: sem.Type) -> Value:
        """Return the bits of a value as another type; constants of small integers are of type ``int``."""
        return call(f"bits<{self.type(kind)}>", kind, call(self.type(value.type), value.type, value))
