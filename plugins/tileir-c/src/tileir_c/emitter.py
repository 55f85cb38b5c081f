"""Emitter of kernels as C.

Every kernel becomes a static function of its arrays, in the order of its parameters, and of ``scratch``, ``begin`` and
``end``: it runs the groups ``begin`` to ``end`` (exclusive) of the grid in order, axis 0 fastest, and uses
:attr:`tileir.semtree.transform.layout.Layout.scratch_bytes` bytes of exclusive memory at ``scratch``.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import attrs

from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.core.text.names import NameScope
from tileir.semtree.ir import DeclareArray, For, GridIndex, GridLevel, LoopKind, Prefetch, Subscript, Type
from tileir.semtree.legalise.capabilities import C_LIKE
from tileir.semtree.rewrite import distinct_nodes, kernel_names, statements
from tileir.semtree.transform.layout import ALIGNMENT, layout
from tileir_c.identifiers import RESERVED, identifier, identifiers
from tileir_emit.c_like import UNARY, CLike, Value, call, scalar_c

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileir.semtree.ir import KernelFunction, Param

HEADER: Final = """\
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if FLT_EVAL_METHOD != 0
#error "float and double must be computed in their own precision; with GCC on x86 add -msse2 -mfpmath=sse"
#endif

#if defined(__GNUC__)
#define TILE_ALIGNED(pointer, alignment) __builtin_assume_aligned((pointer), (alignment))
#define TILE_KERNEL static __attribute__((noinline)) // inlining would lose what restrict promises
#else
#define TILE_ALIGNED(pointer, alignment) (pointer)
#define TILE_KERNEL static
#endif

#if defined(__clang__)
#define TILE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define TILE_INDEPENDENT _Pragma("GCC ivdep")
#else
#define TILE_INDEPENDENT
#endif

// Reading another member of a union than the one written is defined in C, and no copy in any compiler.
#define TILE_BITS(name, of, to) \\
  static inline to name(of x) { const union { of from; to to_; } bits = {x}; return bits.to_; }
TILE_BITS(tile_u32_of_f32, float, uint32_t)
TILE_BITS(tile_f32_of_u32, uint32_t, float)
TILE_BITS(tile_u64_of_f64, double, uint64_t)
TILE_BITS(tile_f64_of_u64, uint64_t, double)

"""
"""Header of all emitted code."""


@attrs.frozen
class Source:
    """Emitted kernels.

    Attributes:
        functions: Definition of each kernel's function.
        names: Name of each kernel's function.
        scratch_bytes: Scratch memory per thread of each kernel.
        arities: Number of arrays of each kernel.
    """

    functions: tuple[str, ...]
    names: tuple[str, ...]
    scratch_bytes: tuple[int, ...]
    arities: tuple[int, ...]


CAPABILITIES: Final = attrs.evolve(C_LIKE, hints=(Prefetch,))
"""Capabilities of C with the extensions of GCC and Clang."""


def emit(kernels: Sequence[KernelFunction]) -> Source:
    """Return the functions of verified kernels.

    Raises:
        BackendError: TIL804, a kernel needs an operation that C lacks and tileir cannot expand.

    """
    names = tuple(symbol(number, kernel) for number, kernel in enumerate(kernels))
    prepared = [scalar_c(kernel, capabilities=CAPABILITIES) for kernel in kernels]
    functions = tuple(_function(kernel, name) for kernel, name in zip(prepared, names, strict=True))
    scratch_bytes = tuple(layout(kernel).scratch_bytes for kernel in prepared)
    return Source(functions, names, scratch_bytes, tuple(len(kernel.params) for kernel in kernels))


def symbol(number: int, kernel: KernelFunction) -> str:
    """Return the name of the function of kernel ``number``."""
    return f"tile_kernel_{number}_{identifier(kernel.name)}"


_SHIFTS: Final = (Op.BIT_LEFT, Op.BIT_RIGHT)
_REAL: Final = (DType.F32, DType.F64)


@attrs.define(eq=False, repr=False)
class C(CLike):
    """C11 in the dialect that the header defines for GCC and Clang."""

    SCRATCH = f"{{type}} *restrict {{name}} = ({{type}} *)TILE_ALIGNED(scratch + {{offset}}, {ALIGNMENT});"
    HINTS = MappingProxyType({LoopKind.VECTOR: "TILE_INDEPENDENT"})

    coordinates: tuple[str, ...] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Name the coordinates of groups."""
        super().__attrs_post_init__()
        self.coordinates = tuple(self.scope.fresh(f"group{axis}") for axis in range(len(self.kernel.grid)))

    def definition(self, name: str) -> str:
        """Return the function of the kernel."""
        for text in self.kernel.comments:
            self.line(comment_line(text))
        self.line(f"TILE_KERNEL void {name}(")
        with self.out.indented(2):
            for param in self.kernel.params:
                self.line(f"{self.parameter(param)},")
            self.line("unsigned char *restrict scratch, int64_t begin, int64_t end) {")
        with self.out.indented():
            if not self.places.offsets:
                self.line("(void)scratch;")
            for param in self.kernel.params:
                self._use(param)
            with self.block("for (int64_t group = begin; group < end; ++group)"):
                self._coordinates()
                self.write(self.kernel.body)
        self.line("}")
        return self.out.text()

    def _use(self, param: Param) -> None:
        """Declare a parameter's alignment, or mark it as intentionally unused."""
        name, nodes = self.names[param.name], distinct_nodes(self.kernel)
        if not any(isinstance(node, Subscript) and node.array == param.name for node in nodes):
            self.line(f"(void){name};")
        elif param.alignment > param.dtype.itemsize:
            self.line(f"{name} = TILE_ALIGNED({name}, {param.alignment});")

    def _coordinates(self) -> None:
        """Declare the group coordinates that the kernel uses; axis 0 varies fastest."""
        nodes = distinct_nodes(self.kernel)
        used = {node.axis for node in nodes if isinstance(node, GridIndex) and node.level is GridLevel.GROUP}
        below, kind = 1, self.TYPES[self.kernel.index]
        for axis, extent in enumerate(self.kernel.grid):
            if axis in used:
                text = "group" if below == 1 else f"group / {below}"
                text = text if axis == len(self.kernel.grid) - 1 else f"{text} % {extent}"
                text = f"({kind})({text})" if kind != "int64_t" else text
                self.line(f"const {kind} {self.coordinates[axis]} = {text};")
            below *= extent

    def coordinate(self, expr: GridIndex) -> Value:
        """Return the variable of a coordinate."""
        return Value(self.coordinates[expr.axis] if expr.level is GridLevel.GROUP else "0", expr.type)

    def first(self, loop: For) -> str:
        """Return the initial value of a counter as a loop-invariant expression."""
        return self.fixed(loop.begin, "bound")

    def end(self, loop: For) -> str:
        """Return the bound of a loop."""
        return self.fixed(loop.end, "bound")

    def loop_hint(self, loop: For) -> str:
        """Return a hint that iterations are independent, unless they share an array in scratch memory."""
        return "" if any(isinstance(stmt, DeclareArray) for stmt in statements(loop.body)) else super().loop_hint(loop)

    def infix(self, op: Op, left: Value, right: Value) -> Value:
        """Return an operation, in which a constant beside another operand needs no type."""
        if op not in _SHIFTS and (left.known is None) != (right.known is None):
            left, right = _plain(left), _plain(right)
        return super().infix(op, left, right)

    def reinterpreted(self, value: Value, kind: Type) -> Value:
        """Return the bits of a value as another type of the same width."""
        source, target = value.type.dtype, kind.dtype
        if self.TYPES[source] == self.TYPES[target]:
            return value.retyped(kind)
        if source in _REAL:
            read = call(f"tile_u{source.bits}_of_{source.value}", Type(DType(f"u{source.bits}")), value)
            return read.retyped(kind) if not target.is_signed else self.converted(read, kind)
        if target in _REAL:
            return call(f"tile_{target.value}_of_u{source.bits}", kind, value)
        return self.converted(value, kind)


def _plain(value: Value) -> Value:
    """Return a small constant of 64 bits without its type."""
    known = value.known
    plain = known is not None and value.type.dtype is DType.I64 and abs(known) <= DType.I32.maximum
    return Value(str(known), value.type, UNARY, known) if plain else value


def _function(kernel: KernelFunction, name: str) -> str:
    scope = NameScope.of(RESERVED)
    return C(kernel, identifiers(kernel_names(kernel), scope), scope).definition(name)


def comment_line(text: str) -> str:
    """Return a comment of one line, even if the text ends with a line continuation of C."""
    return f"// {text.replace('??', '? ?').replace(chr(92), '/')}"
