"""Asynchronous copies and matrix products as PTX statements, which NVIDIA's OpenCL C passes through.

:mod:`tileir_emit.warp_fragments` defines the layout of operands in threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileir.core import DType, attrs
from tileir.core.fragments import FRAGMENTS
from tileir.semtree.ir import AsyncCopy, MatrixMultiply
from tileir_emit.c_like import PRODUCT, SUM
from tileir_emit.warp_fragments import ROW_BYTES, WarpOperand, steps

if TYPE_CHECKING:
    from tileir_emit.c_vectors import Place
    from tileir_opencl.emit.expressions import Expressions

_PTX: Final = {DType.F16: "f16", DType.U16: "bf16", DType.F32: "tf32"}
"""Element type names in instructions; for bf16 its bits."""


def copy(out: Expressions, stmt: AsyncCopy) -> None:
    """Write an asynchronous copy; an ordinary one if the elements may not be aligned."""
    kind = stmt.target.type
    to, source = out.arrays[stmt.target.array], out.arrays[stmt.source.array]
    place, origin = out.value(stmt.target.offset), out.value(stmt.source.offset)
    after, before = (out.divisor(each.offset) for each in (stmt.target, stmt.source))
    if not (to.is_aligned(after, kind) and source.is_aligned(before, kind)):
        out.store(to, place, after, out.read(source, origin, before, kind))
        return
    size = kind.lanes * kind.dtype.itemsize
    cache = "cg" if size == ROW_BYTES else "ca"
    body = f'asm volatile("cp.async.{cache}.shared.global [%0], [%1], {size};" :: "r"(to), "l"(from) : "memory");'
    name = out.helpers.function(f"copy_async_{size}", "void", "uint to, __global const void *from", body)
    target = f"(uint)(size_t)({to.pointer} + {place.at(PRODUCT)})"
    out.line(f"{name}({target}, {source.pointer} + {origin.at(PRODUCT)});")


def commit(out: Expressions) -> str:
    """Return the function that commits the copies so far as one group."""
    return out.helpers.function("commit_copies", "void", "void", 'asm volatile("cp.async.commit_group;" ::: "memory");')


def wait(out: Expressions, pending: int) -> str:
    """Return the function that waits for all groups of copies except the last ``pending``."""
    body = f'asm volatile("cp.async.wait_group {pending};" ::: "memory");'
    return out.helpers.function(f"wait_for_copies_{pending}", "void", "void", body)


def multiply(out: Expressions, stmt: MatrixMultiply) -> None:
    """Write a product: for each step the fragments of both operands, then the products of all pairs."""
    fragment = FRAGMENTS[stmt.fragment]
    lane = out.scope.fresh("lane")
    out.line(f"const uint {lane} = {_number(out.kernel.group)} % {fragment.threads};")
    place = out.arrays[stmt.left.start.array]
    left: _PrivateFragments | _Fragments = (
        _PrivateFragments(out, stmt, place) if stmt.left.held else _Fragments.of(out, stmt, lane)
    )
    right = _Fragments.of(out, stmt, lane, right=True)
    first = out.value(stmt.accumulators.offset).at(PRODUCT)
    sums = out.arrays[stmt.accumulators.array].pointer
    function = _multiplier(out, stmt.left.start.type.dtype, fragment.mnk[2])
    for begin, rows, columns, products in steps(stmt):
        a = [left.at(row, begin) for row in rows]
        b = [right.at(column, begin) for column in columns]
        for row, column, at in products:
            pair = f"{b[column // 2]}.{'lo' if column % 2 == 0 else 'hi'}"
            out.line(f"{function}({sums} + {first} + {at}, {a[row]}, {pair});")


@attrs.frozen(eq=False, repr=False)
class _PrivateFragments:
    """Reader of left fragments from a private array, in the order of instructions."""

    out: Expressions
    stmt: MatrixMultiply
    place: Place

    def at(self, row: int, step: int) -> str:
        """Return the variable with the four words of the fragment at a row and a step."""
        out, (height, _, depth) = self.out, FRAGMENTS[self.stmt.fragment].mnk
        number = row // height * (self.stmt.tile[2] // depth) + step // depth
        first = self.out.value(self.stmt.left.start.offset).at(PRODUCT)
        distance = number * (ROW_BYTES // self.place.dtype.itemsize)
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
    """Return the function that adds one product to four accumulators of a thread."""
    name, kind = f"multiply_{_PTX[dtype]}", _PTX[dtype]
    sums = ", ".join(f'"+f"(sums[{n}])' for n in range(4))
    inputs = ", ".join(f'"r"({value})' for value in ("a.x", "a.y", "a.z", "a.w", "b.x", "b.y"))
    code = f"mma.sync.aligned.m16n8k{step}.row.col.f32.{kind}.{kind}.f32 {{%0, %1, %2, %3}}, "
    code += "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
    return out.helpers.function(
        name, "void", "float *sums, uint4 a, uint2 b", f'asm volatile("{code}" : {sums} : {inputs});'
    )


@attrs.define(eq=False, repr=False)
class _Fragments:
    """Loader of fragments of one operand.

    Attributes:
        out: Writer of the kernel.
        place: The array.
        operand: Layout of fragments in it.
        start: Terms of its start outside of the swizzle, as text.
        inside: The other terms.
        lane: Variable with the number of the thread in its instruction.
    """

    out: Expressions
    place: Place
    operand: WarpOperand
    start: str
    inside: str
    lane: str
    _bases: dict[tuple[str, int], str] = attrs.field(factory=dict, init=False)

    @classmethod
    def of(cls, out: Expressions, stmt: MatrixMultiply, lane: str, *, right: bool = False) -> _Fragments:
        """Return the loader for the left or the right operand of a product; ldmatrix reads local memory."""
        assert out.ranges is not None
        place = out.arrays[(stmt.right if right else stmt.left).start.array]
        alignment = place.alignment if place.qualifiers.startswith("__local") else 1
        operand = WarpOperand.of(stmt, out.ranges, alignment, right=right)
        parts: tuple[list[str], list[str]] = [], []
        for term, changed in operand.terms:
            parts[changed].append(out.value(term).at(SUM + 1))
        start, inside = map(" + ".join, parts)
        return cls(out, place, operand, start or "0", inside, lane)

    def at(self, row: int, step: int) -> str:
        """Return the variable with the fragments of sixteen rows from ``row`` and the steps from ``step`` on."""
        out = self.out
        name = out.scope.fresh("right" if self.operand.right else "left")
        parts = self._by_rows(row, step) if self.operand.by_rows else self._by_elements(row, step)
        if self.place.dtype is DType.F32:
            parts = f"{_rounder(out)}({parts})"
        out.line(f"const uint4 {name} = {parts};")
        return name

    def _by_rows(self, row: int, step: int) -> str:
        """Return the fragments as four matrices of eight by sixteen bytes (ldmatrix).

        For the left operand: the rows, the next eight rows, then both for the second half of the depth. For the right
        operand: both halves of the depth for eight columns, then for the next eight.
        """
        operand = self.operand
        major, minor, half = operand.major, operand.minor, operand.half
        second, fourth = f"({self.lane} / 8 % 2)", f"({self.lane} / 16)"
        rows, depth = (fourth, second) if operand.right else (second, fourth)
        if operand.turned:
            place = f"({rows} * 8) * {major} + ({self.lane} % 8 + {depth} * {half}) * {minor}"
        else:
            place = f"({self.lane} % 8 + {rows} * 8) * {major} + {depth} * {half}"
        variable, rest = self._base(place, row * major + step * minor)
        size = self.place.dtype.itemsize
        pointer = f"(uint)(size_t)({self.place.pointer} + {self.start}) + {size} * ({variable} + {rest})"
        return f"{_loader(self.out, turned=operand.turned)}({pointer})"

    def _by_elements(self, row: int, step: int) -> str:
        """Return the fragments assembled from single elements."""
        major, minor = self.operand.major, self.operand.minor
        kind, pair = ("uint", 1) if self.place.dtype.itemsize == 4 else ("ushort", 2)
        array = f"(({self.place.qualifiers}{kind} *){self.place.pointer})"
        words = []
        place = f"({self.lane} / 4) * {major} + ({self.lane} % 4) * {pair * minor}"
        for down, along in self.operand.words:
            if row + down >= self.operand.end:
                words.append("0")
                continue
            elements = []
            for number in range(pair):
                variable, rest = self._base(place, (row + down) * major + (step + along + number) * minor)
                elements.append(f"{array}[{self.start} + {variable} + {rest}]")
            words.append(elements[0] if pair == 1 else f"((uint){elements[0]} | (uint){elements[1]} << 16)")
        return f"(uint4)({', '.join(words)})"

    def _base(self, place: str, offset: int) -> tuple[str, int]:
        """Return a variable with the swizzled part of a place that is constant but for ``offset``, and an addend."""
        shift, mask = self.operand.swizzle
        inner, rest = self.operand.split(offset)
        key = (place, inner)
        if key not in self._bases:
            out = self.out
            name = self._bases[key] = out.scope.fresh("place")
            terms = " + ".join(term for term in (self.inside, place, str(inner) if inner else "") if term)
            out.line(f"uint {name} = {terms};")
            if mask:
                out.line(f"{name} ^= {name} >> {shift} & {mask};")
        return self._bases[key], rest


def _loader(out: Expressions, *, turned: bool) -> str:
    """Return the function that loads four matrices from local memory, each transposed if they are ``turned``."""
    code = f"ldmatrix.sync.aligned.m8n8.x4{'.trans' if turned else ''}.shared.b16 {{%0, %1, %2, %3}}, [%4];"
    outputs = ", ".join(f'"=r"({name})' for name in "xyzw")
    load = f'asm volatile("{code}" : {outputs} : "r"(from) : "memory");'
    return _words_from(out, "load_turned" if turned else "load_matrices", "uint", load)


def _rounder(out: Expressions) -> str:
    """Return the function that rounds fragments of f32 to TF32."""
    lines = (f'asm("cvt.rna.tf32.f32 %0, %1;" : "=r"({name}) : "f"(as_float(from.{name})));' for name in "xyzw")
    return _words_from(out, "round_tf32", "uint4", *lines)


def _words_from(out: Expressions, name: str, kind: str, *lines: str) -> str:
    """Return the function of one value, ``from``, that returns four words, set by the lines."""
    body = ("uint x, y, z, w;", *lines, "return (uint4)(x, y, z, w);")
    return out.helpers.function(name, "uint4", f"{kind} from", *body)
