"""Kernels as C.

Every kernel becomes a static function of its arrays, in the order of its parameters, and of ``scratch``, ``begin`` and
``end``: it runs the groups ``begin`` to ``end`` (exclusive) of the grid in order, axis 0 fastest, and uses
:attr:`tileir.semtree.transform.layout.Layout.scratch_bytes` bytes at ``scratch`` that no other thread uses meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tileir.core.ops import Domain, Op
from tileir.core.text.names import NameScope
from tileir.core.text.writer import Writer
from tileir.semtree.analysis.effects import assigned_variables
from tileir.semtree.ir import For, GridIndex, GridLevel, LoopKind, ParamAccess, Prefetch, Subscript
from tileir.semtree.legalise.capabilities import C_LIKE
from tileir.semtree.legalise.legaliser import legalise
from tileir.semtree.legalise.repeated import with_parts_named
from tileir.semtree.legalise.scalariser import scalarised
from tileir.semtree.rewrite import (
    expressions,
    kernel_names,
    mentions,
    rewrite_stmts,
    statements,
    trip_values,
    unrolled,
    walk,
    with_body,
)
from tileir.semtree.transform.expansions import EXPANDED, expand_kernel
from tileir.semtree.transform.layout import layout
from tileir.semtree.transform.threads import one_thread
from tileir_c.expressions import BITS, Names
from tileir_c.identifiers import RESERVED, identifier, identifiers
from tileir_c.spelling import MEMORY, VALUE
from tileir_c.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileir.semtree.ir import KernelFunction, Param, Stmt

HEADER: Final = (
    """\
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

"""
    + BITS
)
"""What stands above all emitted code."""

NATIVE: Final = frozenset(op for op in Op if op not in EXPANDED and op.info.domain is not Domain.BITS)
"""The operations on floats that C has, or that are expressed by those: all that have no expansion."""


@attrs.frozen
class Source:
    """Emitted kernels.

    Attributes:
        functions: The definition of each kernel's function.
        names: The name of each kernel's function.
        scratch_bytes: Scratch memory that each kernel needs for one thread.
        arities: The number of arrays that each kernel takes.

    """

    functions: tuple[str, ...]
    names: tuple[str, ...]
    scratch_bytes: tuple[int, ...]
    arities: tuple[int, ...]


CAPABILITIES: Final = attrs.evolve(C_LIKE, hints=(Prefetch,))
"""What C has, as the extensions of GCC and Clang make it."""


def emit(kernels: Sequence[KernelFunction]) -> Source:
    """Return the functions of verified kernels.

    Raises:
        BackendError: TIL804, a kernel needs an operation that C lacks and tileir cannot expand.

    """
    names = tuple(symbol(number, kernel) for number, kernel in enumerate(kernels))
    prepared = [prepare(kernel) for kernel in kernels]
    functions = tuple(_function(kernel, name) for kernel, name in zip(prepared, names, strict=True))
    scratch_bytes = tuple(layout(kernel).scratch_bytes for kernel in prepared)
    return Source(functions, names, scratch_bytes, tuple(len(kernel.params) for kernel in kernels))


def symbol(number: int, kernel: KernelFunction) -> str:
    """Return the name of the function of kernel ``number``."""
    return f"tile_kernel_{number}_{identifier(kernel.name)}"


def prepare(kernel: KernelFunction) -> KernelFunction:
    """Return an equal kernel of operations that C has: one thread for each group, no lanes, no loops to unroll."""
    expanded = expand_kernel(one_thread(kernel), NATIVE)
    scope = NameScope.of(kernel_names(expanded))

    def unroll(stmt: Stmt) -> tuple[Stmt, ...]:
        if not isinstance(stmt, For) or stmt.kind is not LoopKind.UNROLL:
            return (stmt,)
        values = trip_values(stmt)
        return (stmt,) if values is None else unrolled(stmt, values, scope)

    scalar = scalarised(with_body(expanded, rewrite_stmts(unroll, expanded.body)))
    return with_parts_named(legalise(scalar, CAPABILITIES))


def parameter(param: Param, name: str) -> str:
    """Return the declaration of a parameter."""
    const = "const " if param.access is ParamAccess.READ else ""
    return f"{const}{MEMORY[param.dtype]} *{'restrict ' if param.no_alias else ''}{name}"


def _function(kernel: KernelFunction, function: str) -> str:
    scope = NameScope.of(RESERVED)
    names = identifiers(kernel_names(kernel), scope)
    coordinates = tuple(scope.fresh(f"group{axis}") for axis in range(len(kernel.grid)))
    out = Writer()
    for comment in kernel.comments:
        out.line(comment_line(comment))
    params = [parameter(param, names[param.name]) for param in kernel.params]
    out.line(f"TILE_KERNEL void {function}(")
    with out.indented(2):
        for text in params:
            out.line(f"{text},")
        out.line("unsigned char *restrict scratch, int64_t begin, int64_t end) {")
    places = layout(kernel)
    writer = Statements(out, Names(names, coordinates), scope, places, assigned_variables(kernel.body))
    with out.indented():
        if not places.offsets:
            out.line("(void)scratch;")
        for param in kernel.params:
            _use(out, kernel, param, names[param.name])
        out.line("for (int64_t group = begin; group < end; ++group) {")
        with out.indented():
            _coordinates(out, kernel, coordinates)
            writer.write(kernel.body)
        out.line("}")
    out.line("}")
    return out.text()


def _use(out: Writer, kernel: KernelFunction, param: Param, name: str) -> None:
    """Tell the compiler of a parameter's alignment, or that it is meant where nothing uses it."""
    touched = (root for stmt in statements(kernel.body) for root in mentions(stmt))
    if not any(isinstance(node, Subscript) and node.array == param.name for root in touched for node in walk(root)):
        out.line(f"(void){name};")
    elif param.alignment > param.dtype.itemsize:
        out.line(f"{name} = TILE_ALIGNED({name}, {param.alignment});")


def _coordinates(out: Writer, kernel: KernelFunction, names: tuple[str, ...]) -> None:
    """Declare the coordinates of the group that the kernel asks for; axis 0 varies fastest."""
    roots = [root for stmt in statements(kernel.body) for root in expressions(stmt)]
    nodes = (node for root in roots for node in walk(root))
    used = {node.axis for node in nodes if isinstance(node, GridIndex) and node.level is GridLevel.GROUP}
    below = 1
    for axis, extent in enumerate(kernel.grid):
        if axis in used:
            text = "group" if below == 1 else f"group / {below}"
            text = text if axis == len(kernel.grid) - 1 else f"{text} % {extent}"
            kind = VALUE[kernel.index]
            out.line(f"const {kind} {names[axis]} = {f'({kind})({text})' if kind != 'int64_t' else text};")
        below *= extent


def comment_line(text: str) -> str:
    """Return a comment of one line, even if the text ends with what continues a line of C."""
    return f"// {text.replace('??', '? ?').replace(chr(92), '/')}"
