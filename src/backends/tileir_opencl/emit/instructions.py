"""Asynchronous copies and products of matrices as statements of PTX, which NVIDIA's OpenCL C passes on.

Fragments of operands are those of NVIDIA, "PTX ISA" (mma.m16n8k16, mma.m16n8k8, ldmatrix): lane ``4·g + t`` has rows
``g`` and ``g + 8`` of the left operand, column ``g`` of the right one, and neighbouring pairs along the depth.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from tileir.core import DType, attrs
from tileir.core.fragments import FRAGMENTS
from tileir.semtree.emit.c_like import PRODUCT, SUM
from tileir.semtree.ir import AsyncCopy, MatrixMultiply, MatrixOperand
from tileir.semtree.rewrite import summands
from tileir.semtree.swizzles import period

if TYPE_CHECKING:
    from tileir_opencl.emit.expressions import Expressions, Place

_PTX: Final = {DType.F16: "f16", DType.U16: "bf16", DType.F32: "tf32"}
"""What instructions call elements; of bf16 there are the bits."""
_ROWS: Final = 16
"""Rows of the left operand, and columns of the right one, that are loaded at a time."""
_ROW_BYTES: Final = 16
"""What ldmatrix takes from one address."""


def copy(out: Expressions, stmt: AsyncCopy) -> None:
    """Write an asynchronous copy; an ordinary one where the elements may not be aligned."""
    kind = stmt.target.type
    to, source = out.arrays[stmt.target.array], out.arrays[stmt.source.array]
    place, origin = out.value(stmt.target.offset), out.value(stmt.source.offset)
    after, before = (out.divisor(each.offset) for each in (stmt.target, stmt.source))
    if not (to.is_aligned(after, kind) and source.is_aligned(before, kind)):
        out.store(to, place, after, out.read(source, origin, before, kind))
        return
    size = kind.lanes * kind.dtype.itemsize
    cache = "cg" if size == _ROW_BYTES else "ca"
    body = f'asm volatile("cp.async.{cache}.shared.global [%0], [%1], {size};" :: "r"(to), "l"(from) : "memory");'
    name = _function(out, f"copy_async_{size}", "void", "uint to, __global const void *from", body)
    target = f"(uint)(size_t)({to.pointer} + {place.at(PRODUCT)})"
    out.line(f"{name}({target}, {source.pointer} + {origin.at(PRODUCT)});")


def commit(out: Expressions) -> str:
    """Return the function that makes one group of the copies so far."""
    return _function(out, "commit_copies", "void", "void", 'asm volatile("cp.async.commit_group;" ::: "memory");')


def wait(out: Expressions, pending: int) -> str:
    """Return the function that waits for all groups of copies but the last ``pending`` ones."""
    body = f'asm volatile("cp.async.wait_group {pending};" ::: "memory");'
    return _function(out, f"wait_for_copies_{pending}", "void", "void", body)


def _function(out: Expressions, name: str, result: str, params: str, *body: str) -> str:
    lines = "".join(f"  {line}\n" for line in body)
    return out.helpers.use(name, lambda: f"static inline {result} {name}({params})\n{{\n{lines}}}\n")


def multiply(out: Expressions, stmt: MatrixMultiply) -> None:
    """Write a product: for each step the fragments of both operands, then all pairs of them."""
    dtype, fragment = stmt.left.start.type.dtype, FRAGMENTS[stmt.fragment]
    (rows, columns, step), (height, width, depth) = fragment.mnk, stmt.tile
    lane = out.scope.fresh("lane")
    out.line(f"const uint {lane} = {_number(out.kernel.group)} % {fragment.threads};")
    left: _Held | _Fragments
    if stmt.left.held:
        left = _Held(out, stmt, out.arrays[stmt.left.start.array])
    else:
        left = _Fragments.of(out, stmt.left, lane, step, height, right=False)
    right = _Fragments.of(out, stmt.right, lane, step, width, right=True)
    first = out.value(stmt.accumulators.offset)
    sums = out.arrays[stmt.accumulators.array].pointer
    function = _multiplier(out, dtype, step)
    count = fragment.sums.held
    for number in range(depth // step):
        a = [left.at(row, number * step) for row in range(0, height, _ROWS)]
        b = [right.at(column, number * step) for column in range(0, width, _ROWS)]
        for row in range(height // rows):
            for column in range(width // columns):
                at = (row * (width // columns) + column) * count
                pair = f"{b[column // 2]}.{'lo' if column % 2 == 0 else 'hi'}"
                out.line(f"{function}({sums} + {first.at(PRODUCT)} + {at}, {a[row]}, {pair});")


@attrs.frozen(eq=False, repr=False)
class _Held:
    """Takes fragments of the left operand from a private array, where they lie as instructions want them."""

    out: Expressions
    stmt: MatrixMultiply
    place: Place

    def at(self, row: int, step: int) -> str:
        """Return the variable with the fragment at a row and a step: four words."""
        out, (height, _, depth) = self.out, FRAGMENTS[self.stmt.fragment].mnk
        number = row // height * (self.stmt.tile[2] // depth) + step // depth
        first = self.out.value(self.stmt.left.start.offset).at(PRODUCT)
        distance = number * (_ROW_BYTES // self.place.dtype.itemsize)
        words = f"vload4(0, (const __private uint *)({self.place.pointer} + {first} + {distance}))"
        name = out.scope.fresh("held")
        if self.place.dtype is DType.F32:
            words = f"{_rounder(out)}({words})"
        out.line(f"const uint4 {name} = {words};")
        return name


def _number(group: tuple[int, ...]) -> str:
    """Return the number of a thread in its group."""
    text = ""
    for axis in reversed(range(len(group))):
        if group[axis] > 1:
            text = f"get_local_id({axis})" + (f" + {group[axis]} * ({text})" if text else "")
    return f"({text})"


def _multiplier(out: Expressions, dtype: DType, step: int) -> str:
    """Return the function that adds one product to four sums of a thread."""
    name, kind = f"multiply_{_PTX[dtype]}", _PTX[dtype]
    sums = ", ".join(f'"+f"(sums[{n}])' for n in range(4))
    inputs = ", ".join(f'"r"({value})' for value in ("a.x", "a.y", "a.z", "a.w", "b.x", "b.y"))
    code = f"mma.sync.aligned.m16n8k{step}.row.col.f32.{kind}.{kind}.f32 {{%0, %1, %2, %3}}, "
    code += "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
    return _function(out, name, "void", "float *sums, uint4 a, uint2 b", f'asm volatile("{code}" : {sums} : {inputs});')


@attrs.define(eq=False, repr=False)
class _Fragments:
    """Loads fragments of one operand: sixteen rows of the left one, or sixteen columns of the right one, at a time.

    Attributes:
        out: The kernel.
        place: The array.
        strides: Elements from one row, or column of the right operand, to the next, and from one step to the next.
        swizzle: Shift and mask.
        start: Terms of the start that no swizzle changes, as text.
        inside: The other ones.
        lane: The variable that holds the number of the thread in its instruction.
        step: Depth of an instruction.
        end: Rows, or columns, that there are.
        right: Whether the operand is the right one.
        by_rows: Whether ldmatrix may be used.
    """

    out: Expressions
    place: Place
    strides: tuple[int, int]
    swizzle: tuple[int, int]
    start: str
    inside: str
    lane: str
    step: int
    end: int
    right: bool
    by_rows: bool
    _bases: dict[tuple[str, int], str] = attrs.field(factory=dict, init=False)

    @classmethod
    def of(cls, out: Expressions, operand: MatrixOperand, lane: str, step: int, end: int, *, right: bool) -> _Fragments:
        """Look at an operand; the right one is taken by its columns."""
        place = out.arrays[operand.start.array]
        unit = period(operand.shift, operand.mask) if operand.mask else 1
        start: list[str] = []
        inside: list[str] = []
        divisor = 0
        for term in summands(operand.start.offset):
            text, own = out.value(term).at(SUM + 1), out.divisor(term)
            (start if own % unit == 0 else inside).append(text)
            divisor = math.gcd(divisor, own)
        major, minor = operand.strides[::-1] if right else operand.strides
        eight = _ROW_BYTES // place.dtype.itemsize
        other = minor if major == 1 else major
        lowest = operand.mask & -operand.mask if operand.mask else eight
        fits = divisor % eight == 0 and other % eight == 0 and lowest % eight == 0 and place.alignment % 16 == 0
        along = minor == 1 or (major == 1 and place.dtype is not DType.F32)
        by_rows = fits and along and end % _ROWS == 0 and place.qualifiers.startswith("__local")
        return cls(
            out,
            place,
            (major, minor),
            (operand.shift, operand.mask),
            " + ".join(start) or "0",
            " + ".join(inside),
            lane,
            step,
            end,
            right,
            by_rows,
        )

    def at(self, row: int, step: int) -> str:
        """Return the variable with the fragments of sixteen rows from ``row`` and the steps from ``step`` on."""
        out = self.out
        name = out.scope.fresh("right" if self.right else "left")
        parts = self._by_rows(row, step) if self.by_rows else self._by_elements(row, step)
        if self.place.dtype is DType.F32:
            parts = f"{_rounder(out)}({parts})"
        out.line(f"const uint4 {name} = {parts};")
        return name

    def _by_rows(self, row: int, step: int) -> str:
        """Return the four matrices of eight by sixteen bytes that make up the fragments.

        Of the left operand these are: the rows, the next eight rows, then both for the other half of the depth. Of the
        right one: both halves of the depth for eight columns, then those of the next eight.
        """
        (major, minor), half = self.strides, self.step // 2
        second, fourth = f"({self.lane} / 8 % 2)", f"({self.lane} / 16)"
        rows, depth = (fourth, second) if self.right else (second, fourth)
        turned = minor != 1
        if turned:
            place = f"({rows} * 8) * {major} + ({self.lane} % 8 + {depth} * {half}) * {minor}"
        else:
            place = f"({self.lane} % 8 + {rows} * 8) * {major} + {depth} * {half}"
        variable, rest = self._base(place, row * major + step * minor)
        size = self.place.dtype.itemsize
        pointer = f"(uint)(size_t)({self.place.pointer} + {self.start}) + {size} * ({variable} + {rest})"
        return f"{_loader(self.out, turned=turned)}({pointer})"

    def _by_elements(self, row: int, step: int) -> str:
        """Return the fragments put together from single elements."""
        (major, minor) = self.strides
        wide = self.place.dtype.itemsize == 4
        pair = 1 if wide else 2
        halves = [(0, 0), (8, 0), (0, self.step // 2), (8, self.step // 2)]
        if self.right:
            halves = [halves[0], halves[2], halves[1], halves[3]]
        words = []
        place = f"({self.lane} / 4) * {major} + ({self.lane} % 4) * {pair * minor}"
        for down, along in halves:
            if row + down >= self.end:
                words.append("0")
                continue
            elements = []
            for number in range(pair):
                variable, rest = self._base(place, (row + down) * major + (step + along + number) * minor)
                elements.append(f"{self._words()}[{self.start} + {variable} + {rest}]")
            words.append(self._word(elements))
        return f"(uint4)({', '.join(words)})"

    def _words(self) -> str:
        """Return the array as one of unsigned integers."""
        kind = "uint" if self.place.dtype.itemsize == 4 else "ushort"
        return f"(({self.place.qualifiers}{kind} *){self.place.pointer})"

    def _word(self, elements: list[str]) -> str:
        if len(elements) == 2:
            return f"((uint){elements[0]} | (uint){elements[1]} << 16)"
        return elements[0]

    def _base(self, place: str, offset: int) -> tuple[str, int]:
        """Return a variable with the swizzled part of a place that is known but for ``offset``, and what to add."""
        shift, mask = self.swizzle
        inner = offset % period(shift, mask) if mask else 0
        key = (place, inner)
        if key not in self._bases:
            out = self.out
            name = self._bases[key] = out.scope.fresh("place")
            terms = " + ".join(term for term in (self.inside, place, str(inner) if inner else "") if term)
            out.line(f"uint {name} = {terms};")
            if mask:
                out.line(f"{name} ^= {name} >> {shift} & {mask};")
        return self._bases[key], offset - inner


def _loader(out: Expressions, *, turned: bool) -> str:
    """Return the function that loads four matrices from local memory, each transposed if they are ``turned``."""
    code = f"ldmatrix.sync.aligned.m8n8.x4{'.trans' if turned else ''}.shared.b16 {{%0, %1, %2, %3}}, [%4];"
    outputs = ", ".join(f'"=r"({name})' for name in "xyzw")
    return _function(
        out,
        "load_turned" if turned else "load_matrices",
        "uint4",
        "uint from",
        "uint x, y, z, w;",
        f'asm volatile("{code}" : {outputs} : "r"(from) : "memory");',
        "return (uint4)(x, y, z, w);",
    )


def _rounder(out: Expressions) -> str:
    """Return the function that rounds fragments of f32 to TF32."""
    lines = (f'asm("cvt.rna.tf32.f32 %0, %1;" : "=r"({name}) : "f"(as_float(from.{name})));' for name in "xyzw")
    return _function(
        out, "round_tf32", "uint4", "uint4 from", "uint x, y, z, w;", *lines, "return (uint4)(x, y, z, w);"
    )
