"""Kernels as OpenCL C: one program text for all kernels of a library.

The kernel function number ``n`` has the name :func:`symbol` and a pointer to global memory for each parameter, in
their order. Where :func:`scratch_bytes` is not 0, one more pointer follows: to that many bytes for each group,
groups in order with axis 0 fastest. A launch has ``grid[axis] * group[axis]`` work items along each axis, in work
groups of ``group``; a missing axis counts 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tileir.core import BackendError, Diagnostic, DType, NameScope, Op
from tileir.semtree.analysis.effects import assigned_variables, census
from tileir.semtree.analysis.ranges import Ranges
from tileir.semtree.ir import (
    AsyncCopy,
    Declare,
    DeclareArray,
    Expr,
    GridIndex,
    GridLevel,
    KernelFunction,
    Param,
    ParamAccess,
    Region,
    Subscript,
    Type,
)
from tileir.semtree.legalise.legaliser import legalise
from tileir.semtree.legalise.repeated import with_parts_named
from tileir.semtree.legalise.storage import as_bits
from tileir.semtree.matrices import without_instructions
from tileir.semtree.rewrite import kernel_names, mentions, statements, walk
from tileir.semtree.transform.expansions import expand_kernel
from tileir.semtree.transform.layout import Layout, layout
from tileir_opencl.device.features import SPELT, WIDEST_UPDATE, Features
from tileir_opencl.emit.expressions import Environment
from tileir_opencl.emit.lanes import split_lanes
from tileir_opencl.emit.memory import Place
from tileir_opencl.emit.names import identifiers
from tileir_opencl.emit.operations import BITS, FAST, NATIVE, SINGLE, capabilities
from tileir_opencl.emit.spelling import MEMORY
from tileir_opencl.emit.statements import Statements, aligned
from tileir_opencl.emit.text import Helpers, KernelText, Value

ALIGNMENT: Final = 128
"""Alignment in bytes of each group's scratch memory, and of every array in it: that of the widest vector."""

COPY_ALIGNMENT: Final = 16
"""Alignment of what is filled by asynchronous copies, so that compilers can join loads of neighbours."""

_COLUMNS: Final = 120
_AXES: Final = "xyz"
_CONTINUED: Final = ("\\", "??/")
"""Ends of lines, one of them a trigraph, after which C takes the next line as a part of the same."""

_FUNCTIONS: Final = {GridLevel.GROUP: ("gid", "get_group_id"), GridLevel.LOCAL: ("tid", "get_local_id")}


def emit(kernels: Sequence[KernelFunction], features: Features, *, fast_math: bool = False) -> str:
    """Return a program with a function for each kernel, under the names of :func:`symbol`.

    Args:
        kernels: Verified kernels. Mathematical functions are expanded, and vectors split, as far as needed.
        features: What the device offers.
        fast_math: Whether ``native_`` functions and fused operations may be used everywhere.

    Raises:
        BackendError: TIL804, kernels need what the device lacks; one diagnostic for each.

    """
    native = FAST if fast_math else NATIVE if features.fp64 else SINGLE
    spelt = SPELT if features.ptx else ()
    plain = [without_instructions(kernel, spelt, copies=not features.ptx, updates=WIDEST_UPDATE) for kernel in kernels]
    ready = [_legal(split_lanes(expand_kernel(kernel, native), features), native) for kernel in plain]
    used = [census(kernel).dtypes for kernel in ready]
    _check(kernels, used, features)
    helpers = Helpers()
    texts = []
    for number, kernel in enumerate(ready):
        names = NameScope()
        out = KernelText(helpers, features, names, fast_math)
        texts.append(_kernel(out, kernel, symbol(number, kernel)))
    dtypes = frozenset().union(*used)
    return "\n".join((*_pragmas(dtypes, features, fast_math=fast_math), *helpers.texts, *texts))


def _legal(kernel: KernelFunction, native: frozenset[Op]) -> KernelFunction:
    """Return an equal kernel of operations that the language has, each of which is written once."""
    return with_parts_named(as_bits(legalise(kernel, capabilities(native)), BITS))


def symbol(number: int, kernel: KernelFunction) -> str:
    """Return the name of the function of kernel ``number`` of a program."""
    return f"k{number}_" + "".join(c if c.isascii() and c.isalnum() else "_" for c in kernel.name)


def scratch_bytes(kernel: KernelFunction) -> int:
    """Return how many bytes of scratch memory one group needs."""
    return _layout(kernel).scratch_bytes


def _layout(kernel: KernelFunction) -> Layout:
    """Place the scratch arrays; those of threads and groups are declared where they are used."""
    return layout(kernel, alignment=ALIGNMENT, in_scratch=(Region.SCRATCH,), stack_bytes=None)


def _roots(kernel: KernelFunction) -> Iterator[Expr]:
    for stmt in statements(kernel.body):
        yield from mentions(stmt)


def _check(kernels: Sequence[KernelFunction], used: Sequence[frozenset[DType]], features: Features) -> None:
    faults = [
        Diagnostic("TIL804", f"kernel {kernel.name!r} computes in f64, which the device lacks: use f32")
        for kernel, dtypes in zip(kernels, used, strict=True)
        if DType.F64 in dtypes and not features.fp64
    ]
    if faults:
        raise BackendError(faults)


def _pragmas(dtypes: frozenset[DType], features: Features, *, fast_math: bool) -> Iterator[str]:
    lines = []
    if DType.F64 in dtypes:
        lines.append("#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n")
    if DType.F16 in dtypes and features.fp16:
        lines.append("#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n")
    if any(dtype.is_float for dtype in dtypes) and not fast_math:
        lines.append("#pragma OPENCL FP_CONTRACT OFF\n")
    if lines:
        yield "".join(lines)


def _kernel(out: KernelText, kernel: KernelFunction, name: str) -> str:
    """Return one kernel function, with its comments above it."""
    spelt = identifiers(kernel_names(kernel), out.names)
    places = _layout(kernel)
    params = [_param(param, spelt[param.name]) for param in kernel.params]
    scratch = out.names.fresh("scratch") if places.scratch_bytes else ""
    if scratch:
        params.append(f"__global uchar *restrict {scratch}")
    env = Environment(out, Ranges.of(kernel))
    for param in kernel.params:
        alignment = max(param.alignment, param.dtype.itemsize)
        qualifiers = "__global const " if param.access is ParamAccess.READ else "__global "
        env.arrays[param.name] = Place(spelt[param.name], qualifiers, param.dtype, alignment)
    with out.writer.indented():
        _coordinates(env, kernel)
        alignments = _vector_bytes(kernel)
        shared = _shared_arrays(out, kernel, spelt, alignments, scratch)
        fences = "CLK_LOCAL_MEM_FENCE" + (" | CLK_GLOBAL_MEM_FENCE" if scratch else "")
        assigned = assigned_variables(kernel.body)
        Statements(env, spelt, assigned, shared, alignments, fences, kernel.group).write(kernel.body)
    return "".join((*map(_comment, kernel.comments), _header(kernel, name, params), "{\n", out.writer.text(), "}\n"))


def _comment(text: str) -> str:
    """Return a comment that no character of the text can end, or continue."""
    lines = ["".join(c if " " <= c <= "~" else ascii(c)[1:-1] for c in line) for line in text.splitlines()]
    return "".join(f"// {line} .\n" if line.endswith(_CONTINUED) else f"// {line}\n" for line in lines)


def _param(param: Param, name: str) -> str:
    const = "const " if param.access is ParamAccess.READ else ""
    return f"__global {const}{MEMORY[param.dtype]} *{'restrict ' if param.no_alias else ''}{name}"


def _header(kernel: KernelFunction, name: str, params: list[str]) -> str:
    group = (*kernel.group, 1, 1)[:3]
    first = f"__kernel __attribute__((reqd_work_group_size({', '.join(map(str, group))})))\n"
    line = f"void {name}({', '.join(params)})\n"
    return first + (line if len(line) <= _COLUMNS else f"void {name}(\n    {f',{chr(10)}    '.join(params)})\n")


def _coordinates(env: Environment, kernel: KernelFunction) -> None:
    """Say what the coordinates are, and declare those that the kernel does not just give a name to itself."""
    kind = Type(kernel.index)
    inside = set(_coordinates_inside(kernel))
    for level, extents in ((GridLevel.GROUP, kernel.grid), (GridLevel.LOCAL, kernel.group)):
        stem, function = _FUNCTIONS[level]
        for axis, extent in enumerate(extents):
            value = Value(f"{function}({axis})", kind)
            if (level, axis) in inside and extent != 1:
                name = env.out.names.fresh(stem if len(extents) == 1 else f"{stem}_{_AXES[axis]}")
                env.out.writer.line(f"{MEMORY[kernel.index]} {name} = {value.text};")
                value = Value(name, kind)
            env.coordinates[level, axis] = value


def _coordinates_inside(kernel: KernelFunction) -> Iterator[tuple[GridLevel, int]]:
    """Yield the coordinates that are read as a part of an expression, not to be declared as they are."""
    for stmt in statements(kernel.body):
        if isinstance(stmt, Declare) and isinstance(stmt.value, GridIndex):
            continue
        for root in mentions(stmt):
            yield from ((node.level, node.axis) for node in walk(root) if isinstance(node, GridIndex))


def _vector_bytes(kernel: KernelFunction) -> Mapping[str, int]:
    """Return the bytes of the widest vector that is read from or written to each array; more for copied ones."""
    copies = (stmt.target.array for stmt in statements(kernel.body) if isinstance(stmt, AsyncCopy))
    found = dict.fromkeys(copies, COPY_ALIGNMENT)
    for root in _roots(kernel):
        for node in walk(root):
            if isinstance(node, Subscript) and node.type.lanes in (2, 4, 8, 16):
                size = 4 if node.type.dtype.is_narrow else node.type.dtype.itemsize
                found[node.array] = max(found.get(node.array, 1), node.type.lanes * size)
    return found


def _shared_arrays(
    out: KernelText, kernel: KernelFunction, spelt: Mapping[str, str], alignments: Mapping[str, int], scratch: str
) -> Mapping[DeclareArray, Place]:
    """Declare the arrays of the group at the top of the kernel, as the language demands."""
    places: dict[DeclareArray, Place] = {}
    offsets = _layout(kernel).offsets
    group = _group_number(kernel)
    for stmt in statements(kernel.body):
        if not isinstance(stmt, DeclareArray) or stmt.region is Region.PRIVATE or stmt in places:
            continue
        taken = any(array.name == stmt.name for array in places)
        name = out.names.fresh(spelt[stmt.name]) if taken else spelt[stmt.name]
        if stmt in offsets:
            element = MEMORY[stmt.dtype]
            start = f"{scratch} + {group} * {scratch_bytes(kernel)}ul" if group else scratch
            start = f"({start} + {offsets[stmt]})" if offsets[stmt] else f"({start})" if group else start
            out.writer.line(f"__global {element} *restrict {name} = (__global {element} *){start};")
            places[stmt] = Place(name, "__global ", stmt.dtype, ALIGNMENT)
        else:
            places[stmt] = _local(out, stmt, name, alignments)
    return places


def _local(out: KernelText, array: DeclareArray, name: str, alignments: Mapping[str, int]) -> Place:
    """Declare an array in local memory; one of halves by way of its bits, since not every device has halves.

    One that vectors move is aligned as far as it may be: NVIDIA's compiler joins offsets, above all those that are
    permuted for the banks, only to a start that is known to be aligned. Products of bf16 whose tiles are aligned to 16
    bytes take 1.4 times as long as with 32.
    """
    moved = alignments.get(array.name, 1) > array.dtype.itemsize
    alignment, text = aligned(array, {array.name: array.alignment} if moved else alignments)
    if array.dtype is DType.F16:
        bits = out.names.fresh(f"{name}_bits")
        out.writer.line(f"__local ushort {bits}[{array.size}]{text};")
        out.writer.line(f"__local half *{name} = (__local half *){bits};")
    else:
        out.writer.line(f"__local {MEMORY[array.dtype]} {name}[{array.size}]{text};")
    return Place(name, "__local ", array.dtype, alignment)


def _group_number(kernel: KernelFunction) -> str:
    """Return the number of this group as C, axis 0 fastest; empty where there is one group only."""
    terms = []
    for axis, extent in enumerate(kernel.grid):
        if extent != 1:
            before = math.prod(kernel.grid[:axis])
            terms.append(f"get_group_id({axis})" + (f" * {before}" if before > 1 else ""))
    return terms[0] if len(terms) == 1 and " " not in terms[0] else f"({' + '.join(terms)})" if terms else ""
