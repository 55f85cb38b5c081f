"""Kernels as OpenCL C: one program text for all kernels of a library.

Kernel function number ``n`` has the name :func:`symbol` and a pointer to global memory for each parameter, in order. If
:func:`scratch_bytes` is not 0, one more pointer follows: to that many bytes for each group, in group order with axis 0
fastest. A launch has ``grid[axis] * group[axis]`` work items along each axis, in work groups of ``group``; a missing
axis counts 1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from tileir.core import BackendError, Diagnostic, DType, NameScope, Op, attrs
from tileir.semtree import ir as sem
from tileir.semtree.analysis.effects import census
from tileir.semtree.analysis.ranges import Ranges
from tileir.semtree.ir import Update
from tileir.semtree.legalise.legaliser import legalise
from tileir.semtree.matrices import without_instructions
from tileir.semtree.rewrite import distinct_nodes, kernel_names, mentions, statements, walk
from tileir.semtree.transform.expansions import expand_kernel
from tileir.semtree.transform.layout import Layout, layout
from tileir_emit.c_like import PRODUCT, SUM, Helpers, Value, comment, identifiers
from tileir_emit.c_vectors import Place
from tileir_emit.lanes import split_lanes
from tileir_emit.repeated import with_parts_named
from tileir_emit.storage import as_bits
from tileir_opencl.device.features import SPELT, WIDEST_UPDATE, Features
from tileir_opencl.emit.expressions import Expressions
from tileir_opencl.emit.instructions import commit, copy, multiply, wait
from tileir_opencl.emit.operations import BITS, FAST, NATIVE, SINGLE, capabilities
from tileir_opencl.emit.peephole import accumulation

HELPERS: Final = ("magnitude", "rounded", "copy_async", "wait_for_copies", "multiply")
"""First words of the names of helper functions."""

_PATTERN: Final = re.compile(
    r"(?:u?(?:char|short|int|long)|float|double|half|bool|quad)(?:\d+(?:x\d+)?)?"
    r"|(?:convert|as|native|half|get|atomic|atom|async|read|write|work_group|sub_group|ndrange|is|cl|intel)_\w*"
    r"|half\d+_in_\w*|v(?:load|store)\w*|is(?:nan|inf|finite|normal|equal|notequal|less|greater|ordered|unordered)\w*"
    r"|(?:size|ptrdiff|u?intptr|event|sampler|image\w*|queue|clk_event|ndrange|reserve_id)_t"
    rf"|(?:{'|'.join(HELPERS)})_\w*"
    r"|(?:CLK?|M|FLT|DBL|HALF|FP|S?CHAR|UCHAR|U?SHRT|U?INT|U?LONG)_\w*"
    r"|_\w*"
)

_WORDS: Final = frozenset(
    """
    auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while true false
    complex imaginary generic kernel global local private constant pipe uniform read_only write_only read_write
    linux unix NAN INFINITY MAXFLOAT HUGE_VAL HUGE_VALF NULL
    abs abs_diff add_sat all any barrier bitselect ceil clamp clz cos cross degrees distance dot erf exp exp2 fabs fdim
    floor fma fmax fmin fmod fract hadd hypot ilogb isnan ldexp length log log2 log10 mad mad24 mad_hi mad_sat max
    maxmag mem_fence min minmag mix modf mul24 mul_hi nan normalize pow popcount powr prefetch printf radians remainder
    remquo rhadd rint root rotate round rsqrt select shuffle sign sin sincos sinh smoothstep sqrt step sub_sat tan tanh
    tgamma trunc upsample vec_step cosh acos asin atan atan2 asinh acosh atanh cbrt copysign erfc exp10 expm1 frexp
    lgamma log1p logb nextafter pown rootn sinpi cospi tanpi acospi asinpi atanpi atan2pi trunc signbit
    commit_copies load_matrices load_turned round_tf32
    """.split()  # noqa: SIM905  # a list of strings would be longer than the screen
)
"""Keywords, macros, and functions that a variable would hide, the last four of them helpers."""


def means_nothing(name: str) -> bool:
    """Return whether a word is free for variables."""
    return name not in _WORDS and _PATTERN.fullmatch(name) is None


def update(out: Expressions, stmt: Update) -> str:
    """Return the statement of an atomic update; an extremum of floats is one of integers with their bits."""
    place, dtype, word = out.arrays[stmt.target.array], stmt.target.type.dtype, stmt.op.value
    value = out.canonical(out.value(stmt.value))
    offset = out.value(stmt.target.offset)
    integer = "uint" if dtype is DType.U32 else "int"

    def step(function: str, kind: str, text: str) -> str:
        return f"{function}((volatile {place.qualifiers}{kind} *)({place.pointer} + {offset.at(PRODUCT)}), {text});"

    if dtype is not DType.F32:
        return step(f"atomic_{word}", integer, value.text)
    own, kept = out.temporary("update", value), "0x7fc00000" if stmt.op is Op.MAX else "0xffc00000u"
    bits = f"(isnan({own.text}) ? as_float({kept}) : {own.text})"
    negative = step("atomic_min" if stmt.op is Op.MAX else "atomic_max", "uint", f"as_uint({bits})")
    return f"if (as_int({bits}) < 0) {negative} else {step(f'atomic_{word}', 'int', f'as_int({bits})')}"


ALIGNMENT: Final = 128
"""Alignment in bytes of each group's scratch memory and its arrays: that of the widest vector."""

COPY_ALIGNMENT: Final = 16
"""Alignment of destinations of asynchronous copies, so that compilers can merge loads of neighbours."""

_COLUMNS: Final = 120
_FUNCTIONS: Final = {sem.GridLevel.GROUP: ("gid", "get_group_id"), sem.GridLevel.LOCAL: ("tid", "get_local_id")}


def emit(kernels: Sequence[sem.KernelFunction], features: Features, *, fast_math: bool = False) -> str:
    """Return a program with a function for each kernel, named by :func:`symbol`.

    Args:
        kernels: Verified kernels. Mathematical functions are expanded, and vectors split, as necessary.
        features: Features of the device.
        fast_math: Whether ``native_`` functions and fused operations may be used everywhere.

    Raises:
        BackendError: TIL804, kernels need unsupported features; one diagnostic for each.
    """
    native = FAST if fast_math else NATIVE if features.fp64 else SINGLE
    spelt = SPELT if features.ptx else ()
    plain = [without_instructions(kernel, spelt, copies=not features.ptx, updates=WIDEST_UPDATE) for kernel in kernels]
    ready = [
        _legal(split_lanes(expand_kernel(kernel, native), features.max_lanes, features.max_vector_bytes), native)
        for kernel in plain
    ]
    used = [census(kernel).dtypes for kernel in ready]
    _check(kernels, used, features)
    helpers = Helpers()
    texts = []
    for number, kernel in enumerate(ready):
        scope, name = NameScope(), symbol(number, kernel)
        names, ranges = identifiers(kernel_names(kernel), scope, means_nothing), Ranges.of(kernel)
        writer = OpenCL(
            kernel, names, scope, ranges=ranges, helpers=helpers, features=features, fast_math=fast_math, name=name
        )
        texts.append(writer.definition())
    dtypes = frozenset().union(*used)
    return "\n".join((*_pragmas(dtypes, features, fast_math=fast_math), *helpers.texts, *texts))


def _legal(kernel: sem.KernelFunction, native: frozenset[Op]) -> sem.KernelFunction:
    """Return an equivalent kernel of supported operations, with common subexpressions named."""
    return with_parts_named(as_bits(legalise(kernel, capabilities(native)), BITS))


def symbol(number: int, kernel: sem.KernelFunction) -> str:
    """Return the name of the function of kernel ``number`` of a program."""
    return f"k{number}_" + "".join(c if c.isascii() and c.isalnum() else "_" for c in kernel.name)


def scratch_bytes(kernel: sem.KernelFunction) -> int:
    """Return the scratch memory of one group in bytes."""
    return _layout(kernel).scratch_bytes


def _layout(kernel: sem.KernelFunction) -> Layout:
    """Place the scratch arrays; those of threads and groups are declared at their use."""
    return layout(kernel, alignment=ALIGNMENT, in_scratch=(sem.Region.SCRATCH,), stack_bytes=None)


def _check(kernels: Sequence[sem.KernelFunction], used: Sequence[frozenset[DType]], features: Features) -> None:
    faults = [
        Diagnostic("TIL804", f"kernel {kernel.name!r} computes in f64, which the device lacks: use f32")
        for kernel, dtypes in zip(kernels, used, strict=True)
        if DType.F64 in dtypes and not features.fp64
    ]
    if faults:
        raise BackendError(faults)


def _pragmas(dtypes: frozenset[DType], features: Features, *, fast_math: bool) -> Iterator[str]:
    wanted = {
        "OPENCL EXTENSION cl_khr_fp64 : enable": DType.F64 in dtypes,
        "OPENCL EXTENSION cl_khr_fp16 : enable": DType.F16 in dtypes and features.fp16,
        "OPENCL FP_CONTRACT OFF": any(dtype.is_float for dtype in dtypes) and not fast_math,
    }
    if any(wanted.values()):
        yield "".join(f"#pragma {words}\n" for words, is_wanted in wanted.items() if is_wanted)


@attrs.define(eq=False, repr=False)
class OpenCL(Expressions):
    """Writer of one kernel, whose name in the program is ``name``.

    Attributes:
        name: The name.
        alignments: Alignment of each array, by name, that its vectors require.
        shared: Local and scratch arrays, which are declared at the top of the kernel.
        scratch: Parameter with the scratch memory of all groups; empty if there is none.
    """

    OPENING = ""
    CONST = ""
    HINTS = MappingProxyType({sem.LoopKind.UNROLL: "#pragma unroll"})
    POINTER = "__global {const}{type} *{restrict}{name}"

    name: str = attrs.field(kw_only=True)
    alignments: Mapping[str, int] = attrs.field(init=False)
    shared: dict[sem.DeclareArray, Place] = attrs.field(factory=dict, init=False)
    scratch: str = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Collect the declarations of the kernel."""
        super().__attrs_post_init__()
        self.alignments = _vector_bytes(self.kernel)
        self.scratch = self.scope.fresh("scratch") if self.places.scratch_bytes else ""

    def layout(self) -> Layout:
        """Return the places of scratch arrays."""
        return _layout(self.kernel)

    # The function

    def definition(self) -> str:
        """Return the function, with its comments above it."""
        kernel = self.kernel
        params = [self.parameter(param) for param in kernel.params]
        if self.scratch:
            params.append(f"__global uchar *restrict {self.scratch}")
        for param in kernel.params:
            qualifiers = "__global const " if param.access is sem.ParamAccess.READ else "__global "
            alignment = max(param.alignment, param.dtype.itemsize)
            self.arrays[param.name] = Place(self.names[param.name], qualifiers, param.dtype, alignment)
        group = ", ".join(map(str, (*kernel.group, 1, 1)[:3]))
        line = f"void {self.name}({', '.join(params)})"
        line = line if len(line) < _COLUMNS else f"void {self.name}(\n    {f',{chr(10)}    '.join(params)})"
        with self.block(f"__kernel __attribute__((reqd_work_group_size({group})))\n{line}"):
            self._declare_coordinates()
            for stmt in statements(kernel.body):
                if (
                    isinstance(stmt, sem.DeclareArray)
                    and stmt.region is not sem.Region.PRIVATE
                    and stmt not in self.shared
                ):
                    self.shared[stmt] = self._shared(stmt)
            self.write(kernel.body)
        return "".join((*map(comment, kernel.comments), self.out.text()))

    def _declare_coordinates(self) -> None:
        """Write the coordinates; those inside expressions are declared."""
        kind = sem.Type(self.kernel.index)
        inside = set(_coordinates_inside(self.kernel))
        for level, extents in ((sem.GridLevel.GROUP, self.kernel.grid), (sem.GridLevel.LOCAL, self.kernel.group)):
            stem, function = _FUNCTIONS[level]
            for axis, extent in enumerate(extents):
                value = Value(f"{function}({axis})", kind)
                if (level, axis) in inside and extent != 1:
                    value = self.named(stem if len(extents) == 1 else f"{stem}_{'xyz'[axis]}", value)
                self.coordinates[level, axis] = value

    def _shared(self, array: sem.DeclareArray) -> Place:
        """Declare an array of the group; in local memory one of halves by its bits, since not every device has halves.

        If vectors access it, it gets the largest alignment: NVIDIA's compiler only merges offsets, above all those
        permuted for the banks, with an aligned start. Products of bf16 whose tiles are aligned to 16 bytes take 1.4
        times as long as with 32.
        """
        taken = any(other.name == array.name for other in self.shared)
        name = self.scope.fresh(self.names[array.name]) if taken else self.names[array.name]
        element = self.element_type(array.dtype)
        if array in self.places.offsets:
            group, offset = _group_number(self.kernel), self.places.offsets[array]
            start = f"{self.scratch} + {group} * {self.places.scratch_bytes}ul" if group else self.scratch
            start = f"({start} + {offset})" if offset else f"({start})" if group else start
            self.line(f"__global {element} *restrict {name} = (__global {element} *){start};")
            return Place(name, "__global ", array.dtype, ALIGNMENT)
        moved = self.alignments.get(array.name, 1) > array.dtype.itemsize
        alignment, text = _aligned(array, array.alignment if moved else 1)
        if array.dtype is DType.F16:
            bits = self.scope.fresh(f"{name}_bits")
            self.line(f"__local ushort {bits}[{array.size}]{text};")
            self.line(f"__local half *{name} = (__local half *){bits};")
        else:
            self.line(f"__local {element} {name}[{array.size}]{text};")
        return Place(name, "__local ", array.dtype, alignment)

    # Statements

    def instruction(self, stmt: sem.Stmt) -> None:
        """Write cooperative statements of a group, and those with PTX statements."""
        match stmt:
            case sem.Barrier():
                self.line(f"barrier(CLK_LOCAL_MEM_FENCE{' | CLK_GLOBAL_MEM_FENCE' if self.scratch else ''});")
            case sem.AsyncCopy():
                copy(self, stmt)
            case sem.AsyncCommit():
                self.line(f"{commit(self)}();")
            case sem.AsyncWait(pending=pending):
                self.line(f"{wait(self, pending)}();")
            case sem.Update():
                self.line(update(self, stmt))
            case sem.MatrixMultiply():
                with self.block():
                    multiply(self, stmt)
            case _:
                super().instruction(stmt)

    def declare_array(self, stmt: sem.DeclareArray) -> None:
        """Declare an array of this thread; halves are kept as floats, like variables."""
        if stmt in self.shared:
            self.arrays[stmt.name] = self.shared[stmt]
            return
        name, registers = self.names[stmt.name], stmt.dtype is DType.F16
        alignment, text = _aligned(stmt, self.alignments.get(stmt.name, 1))
        self.line(f"{self.element_type(DType.F32 if registers else stmt.dtype)} {name}[{stmt.size}]{text};")
        self.arrays[stmt.name] = Place(name, "__private ", stmt.dtype, alignment, registers=registers)

    def assign(self, stmt: sem.Assign) -> None:
        """Set a variable or elements; sums may be fused."""
        target, content = stmt.target, stmt.value
        if isinstance(target, sem.Subscript) and isinstance(content, sem.Cast):
            halves = self.arrays[target.array].stored is DType.F16
            content = content.operand if halves and content.operand.type.dtype is DType.F32 else content  # stores round
        found = accumulation(stmt)
        value = self.value(content) if found is None else self.builtin(found)
        self.put(target, value)

    def loop(self, loop: sem.For) -> None:
        """Write a loop that is not unrolled."""
        begin, end = (self.known(bound) for bound in (loop.begin, loop.end))
        if begin is None or end is None or begin < end:
            super().loop(loop)

    def first(self, loop: sem.For) -> str:
        """Return the initial value of a counter."""
        return self.value(loop.begin).text

    def plain(self, value: Value) -> str:
        """Return an integer of its type."""
        return value.at(SUM)

    def advance(self, loop: sem.For, name: str, end: str) -> str:  # noqa: ARG002  # no counter comes near its limits
        """Return the step of a loop."""
        return f"{name}++" if loop.step == 1 else f"{name} += {loop.step}"


def _aligned(array: sem.DeclareArray, wanted: int) -> tuple[int, str]:
    """Return the alignment of an array, and the attribute for it if the element's is not enough."""
    wanted, own = min(wanted, array.alignment), array.dtype.itemsize
    return (wanted, f" __attribute__((aligned({wanted})))") if wanted > own else (own, "")


def _coordinates_inside(kernel: sem.KernelFunction) -> Iterator[tuple[sem.GridLevel, int]]:
    """Yield the coordinates that are read inside expressions, as opposed to declarations of only these."""
    for stmt in statements(kernel.body):
        if isinstance(stmt, sem.Declare) and isinstance(stmt.value, sem.GridIndex):
            continue
        for root in mentions(stmt):
            yield from ((node.level, node.axis) for node in walk(root) if isinstance(node, sem.GridIndex))


def _vector_bytes(kernel: sem.KernelFunction) -> Mapping[str, int]:
    """Return the bytes of the widest vector access to each array; more for destinations of copies."""
    copies = (stmt.target.array for stmt in statements(kernel.body) if isinstance(stmt, sem.AsyncCopy))
    found = dict.fromkeys(copies, COPY_ALIGNMENT)
    for node in distinct_nodes(kernel):
        if isinstance(node, sem.Subscript) and node.type.lanes in (2, 4, 8, 16):
            size = 4 if node.type.dtype.is_narrow else node.type.dtype.itemsize
            found[node.array] = max(found.get(node.array, 1), node.type.lanes * size)
    return found


def _group_number(kernel: sem.KernelFunction) -> str:
    """Return the number of this group as C, axis 0 fastest; empty if there is only one group."""
    terms = []
    for axis, extent in enumerate(kernel.grid):
        if extent != 1:
            before = math.prod(kernel.grid[:axis])
            terms.append(f"get_group_id({axis})" + (f" * {before}" if before > 1 else ""))
    return terms[0] if len(terms) == 1 and " " not in terms[0] else f"({' + '.join(terms)})" if terms else ""
