"""Base for emitters of C-like languages with vectors, and lane-wise operators and functions.

The default vectors are those of OpenCL C. A bool is ``bool``; a vector of bools is a mask with signed integer lanes, 0
or -1, like results of vector comparisons: with 8 bits if declared, else as wide as the compared operands. In memory a
bool is a byte.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, Final

from tileir.core import DType, Op, attrs
from tileir.semtree.ir import Apply, Assign, Broadcast, Const, Declare, Expr, Ramp, Shuffle, Subscript, Type, Var
from tileir.semtree.legalise.offsets import ramp_of
from tileir_emit.c_like import (
    BIT_AND,
    BIT_OR,
    BIT_XOR,
    BOTH,
    EITHER,
    EQUAL,
    ORDER,
    PRODUCT,
    SHIFT,
    SIGNS,
    SUM,
    TERNARY,
    UNARY,
    CLike,
    Infix,
    Value,
    call,
)
from tileir_emit.lanes import register_bits

_RANKS: Final[Mapping[str, int]] = MappingProxyType(
    {
        **dict.fromkeys(("<<", ">>"), SHIFT),
        "&": BIT_AND,
        "^": BIT_XOR,
        "|": BIT_OR,
        **dict.fromkeys(("==", "!="), EQUAL),
        **dict.fromkeys(("<", "<=", ">", ">="), ORDER),
        **dict.fromkeys(("*", "/", "%"), PRODUCT),
    }
)
_CONNECTIVES: Final = {Op.BIT_AND: ("&&", BOTH, "&", BIT_AND), Op.BIT_OR: ("||", EITHER, "|", BIT_OR)}
_DIFFER: Final = ("!=", EQUAL, "^", BIT_XOR)


def _infix() -> Iterator[tuple[Op, Infix]]:
    """Yield operators; operands of bit operators are bracketed, as few readers know their precedence."""
    for op, sign in SIGNS.items():
        rank = _RANKS.get(sign, SUM)
        inner = SUM if op.info.compares else UNARY
        yield op, Infix(sign, rank, rank, rank + 1) if rank > SHIFT else Infix(sign, rank, inner, inner)


@attrs.frozen
class Place:
    """Array: a qualified pointer to its first element, and the alignment of that.

    ``registers`` means that elements are stored like variables: narrow floats as wide floats.
    """

    pointer: str
    qualifiers: str
    dtype: DType
    alignment: int
    registers: bool = False

    @property
    def stored(self) -> DType:
        """Element type in memory."""
        return DType.F32 if self.registers and self.dtype.is_narrow else self.dtype

    def is_aligned(self, divisor: int, kind: Type) -> bool:
        """Return whether a vector of neighbours is aligned at offsets that ``divisor`` divides."""
        size = kind.dtype.itemsize
        return kind.lanes != 3 and math.gcd(self.alignment, divisor * size) % (kind.lanes * size) == 0

    def at(self, offset: Value) -> Value:
        """Return the pointer to an element; offsets are summed before they are widened to pointer size."""
        if offset.known == 0:
            return Value(self.pointer, offset.type)
        return Value(f"{self.pointer} + {offset.at(PRODUCT)}", offset.type, SUM)

    def pointer_to(self, element: str, offset: Value) -> str:
        """Return a pointer to an element, cast to a pointer to ``element``."""
        return f"*({self.qualifiers}{element} *){self.at(offset).at(UNARY)}"


@attrs.define(eq=False, repr=False)
class CVectors(CLike):
    """Writer of statements and expressions of vectors and scalars.

    Attributes:
        MASKS: Element type of a mask, by its bits.
        CONVERT: Function that converts every lane to those of a type.
        SELECT: Function that returns its second operand in lanes where the third, a mask, is set.
        PARTS: Vector of parts, or of one broadcast scalar.
        LANES: Lanes of a vector, by their numbers as hexadecimal digits.
        HALVES: Each half of a vector.
        LOAD: Load of neighbours without vector alignment.
        STORE: Store of neighbours without vector alignment.
        arrays: Place of each declared array.
    """

    INFIX = MappingProxyType(dict(_infix()))
    SIGNED = UNARY
    MASKS: ClassVar[Mapping[int, str]] = MappingProxyType({8: "char", 16: "short", 32: "int", 64: "long"})
    CONVERT: ClassVar[str] = "convert_{type}"
    SELECT: ClassVar[str] = "select"
    PARTS: ClassVar[str] = "({type})({parts})"
    LANES: ClassVar[str] = "{vector}.s{lanes}"
    HALVES: ClassVar[tuple[str, str]] = ("{vector}.lo", "{vector}.hi")
    LOAD: ClassVar[str] = "vload{lanes}(0, {pointer})"
    STORE: ClassVar[str] = "vstore{lanes}({value}, 0, {pointer})"

    arrays: dict[str, Place] = attrs.field(factory=dict, kw_only=True)

    # Statements

    def declare(self, stmt: Declare) -> None:
        """Declare a variable; a mask that is not reassigned keeps its width."""
        variable, value = stmt.variable, self.value(stmt.value)
        name, kind, lanes = self.names[variable.name], self.type(variable.type), variable.type.lanes
        changes = variable.name in self.assigned
        if variable.type.dtype.is_bool and lanes > 1:
            value = self.canonical(value) if changes else value
            kind = self.mask_type(value.mask, lanes)
        const = "" if changes else self.CONST
        self.line(self.DECLARED.format(const=const, type=kind, name=name, value=value.text))
        self.note(stmt)
        self.variables[variable.name] = Value(name, variable.type, mask=value.mask)

    def assign(self, stmt: Assign) -> None:
        """Set a variable or elements: neighbours, or one for each lane."""
        self.put(stmt.target, self.value(stmt.value))

    def put(self, target: Var | Subscript, value: Value) -> None:
        """Set a variable or elements to a value."""
        if isinstance(target, Var):
            self.line(f"{self.names[target.name]} = {self.canonical(value).text};")
            return
        array, ramp, lanes = self.arrays[target.array], ramp_of(target.offset), target.type.lanes
        if ramp is None or (ramp[1] != 1 and lanes > 1):
            offsets = self.offsets(target.offset)
            self.scatter(array, offsets * (lanes // len(offsets)), value)
        else:
            self.store(array, self.value(ramp[0]), self.divisor(ramp[0]), value)

    # Types and constants

    @classmethod
    def type(cls, kind: Type) -> str:
        """Return the type of a variable."""
        return cls.mask_type(8, kind.lanes) if kind.dtype.is_bool and kind.lanes > 1 else super().type(kind)

    @classmethod
    def mask_type(cls, bits: int, lanes: int) -> str:
        """Return the type of a mask."""
        return cls.VECTOR.format(element=cls.MASKS[bits], lanes=lanes)

    @classmethod
    def parts(cls, kind: Type, *parts: str) -> str:
        """Return a vector of these parts."""
        return cls.PARTS.format(type=cls.type(kind), parts=", ".join(parts))

    @classmethod
    def splat(cls, scalar: Value, kind: Type) -> Value:
        """Return a constant in every lane: the vector literal converts its operands."""
        if kind.dtype.is_bool:
            return Value(cls.parts(kind, str(-int(scalar.known or 0))), kind, known=scalar.known)
        text = str(scalar.known) if is_small(kind.dtype) else scalar.text
        return Value(cls.parts(kind, text), kind, known=scalar.known, splat=scalar)

    # Masks

    @classmethod
    def masked(cls, value: Value, bits: int) -> Value:
        """Return a vector of bools with lanes of ``bits`` bits."""
        if value.mask == bits:
            return value
        name = cls.CONVERT.format(type=cls.mask_type(bits, value.type.lanes))
        return attrs.evolve(call(name, value.type, value), known=value.known, mask=bits)

    @classmethod
    def canonical(cls, value: Value) -> Value:
        """Return a vector of bools in its declared width; any other value unchanged."""
        return cls.masked(value, 8) if value.type.dtype.is_bool and value.type.lanes > 1 else value

    def negated(self, value: Value) -> Value:
        """Return the negation of a truth value."""
        if value.known is not None:
            return self.constant(1 - value.known, value.type)
        sign = "!" if value.type.lanes == 1 else "~"
        return Value(sign + value.at(UNARY + 1), value.type, UNARY, mask=value.mask)

    def connected(self, op: Op, left: Value, right: Value) -> Value:
        """Return the conjunction, disjunction or exclusive disjunction of two truth values."""
        for value, other in ((left, right), (right, left)):
            if value.known is not None:
                if op is Op.BIT_XOR:
                    return self.negated(other) if value.known else other
                return other if bool(value.known) is (op is Op.BIT_AND) else value
        sign, rank, mask_sign, mask_rank = _CONNECTIVES.get(op, _DIFFER)
        if left.type.lanes == 1:
            inner = rank if sign != "!=" else SHIFT
            return Value(f"{left.at(inner)} {sign} {right.at(max(inner, rank + 1))}", left.type, rank)
        right = self.masked(right, left.mask)
        # Each bit operation of masks is bracketed, as few readers know its precedence.
        text = f"{left.at(mask_rank if left.rank == mask_rank else SUM)} {mask_sign} {right.at(SUM)}"
        return Value(text, left.type, mask_rank, mask=left.mask)

    # Operations

    def applied(self, op: Op, args: tuple[Value, ...]) -> Value:
        """Return an operation on operands of one type; C computes integers of less than 32 bits in ``int``."""
        kind = args[0].type
        if op is Op.COND:
            return self.choice(*args)
        if kind.dtype.is_bool:
            return self.negated(*args) if op is Op.BIT_NOT else self.connected(op, *args)
        same = _unchanged(op, args)
        if same is not None:
            return same
        value = super().applied(op, args)
        if op.info.compares or kind.lanes > 1 or kind.dtype.is_float or kind.dtype.bits >= 32:
            return value
        return super().converted(value, kind)

    def infix(self, op: Op, left: Value, right: Value) -> Value:
        """Return a binary operation; the language widens a scalar beside a vector."""
        kind, infix = left.type, self.INFIX[op]
        if infix.rank != SHIFT or right.splat is not None:
            left, right = _operands(left, right)
        if op.info.compares:
            mask = register_bits(kind.dtype)
            return attrs.evolve(infix.of(left, right, kind.with_dtype(DType.BOOL)), mask=mask)
        return infix.of(left, right, kind)

    def choice(self, condition: Value, then: Value, otherwise: Value) -> Value:
        """Return ``then`` in the lanes where ``condition`` holds, else ``otherwise``."""
        kind = then.type
        if kind.lanes == 1:
            text = f"{condition.at(UNARY)} ? {then.at(TERNARY + 1)} : {otherwise.at(TERNARY)}"
            return Value(self.parts(kind, text), kind, UNARY) if is_small(kind.dtype) else Value(text, kind, TERNARY)
        bits = register_bits(kind.dtype)
        if kind.dtype.is_bool:
            bits = condition.mask
            then, otherwise = self.masked(then, bits), self.masked(otherwise, bits)
        return attrs.evolve(call(self.SELECT, kind, otherwise, then, self.masked(condition, bits)), mask=bits)

    # Lanes

    def named(self, stem: str, value: Value) -> Value:
        """Return a value as a new variable."""
        return super().named(stem, self.canonical(value))

    def vector(self, expr: Expr) -> Value:
        """Return vectors made of scalars, or of lanes of others."""
        match expr:
            case Broadcast(operand=operand, lanes=lanes):
                return self._broadcast(self.value(operand), lanes)
            case Ramp(base=base, stride=stride, type=kind):
                first, scalar = self.value(base), Type(kind.dtype)
                each = (self.constant(Const.of(stride * n, scalar).value, scalar) for n in range(kind.lanes))
                texts = (str(part.known) if kind.dtype.bits < 32 else part.text for part in each)
                steps = Value(self.parts(kind, *texts), kind)
                return steps if first.known == 0 else self.applied(Op.ADD, (self._broadcast(first, kind.lanes), steps))
            case Shuffle(operands=operands, lanes=chosen):
                return self._shuffle(tuple(map(self.value, operands)), chosen)
            case _:
                return super().vector(expr)

    def _broadcast(self, value: Value, lanes: int) -> Value:
        """Return a broadcast scalar."""
        kind = Type(value.type.dtype, lanes)
        if kind.dtype.is_bool:
            return Value(self.parts(kind, f"{value.at(UNARY)} ? -1 : 0"), kind)
        return Value(self.parts(kind, value.text), kind, splat=value)

    def _shuffle(self, operands: tuple[Value, ...], lanes: tuple[int, ...]) -> Value:
        kind = operands[0].type
        used = dict.fromkeys(lane // kind.lanes for lane in lanes)
        named = {number: self.temporary("lanes", self.canonical(operands[number])) for number in used}
        result = Type(kind.dtype, len(lanes))
        if len(used) == 1 and len(lanes) > 1 and kind.lanes > 1:
            (only,) = named.values()
            inside = [lane % kind.lanes for lane in lanes]
            half, rest = divmod(inside[0], len(lanes))
            run = list(range(inside[0], inside[0] + len(lanes)))
            whole = not rest and 2 * len(lanes) == kind.lanes and inside == run
            text = (self.HALVES[half] if whole else self.LANES).format(
                vector=only.text, lanes="".join(f"{lane:x}" for lane in inside)
            )
            return Value(text, result)
        found = [
            named[lane // kind.lanes] if kind.lanes == 1 else self.lane(named[lane // kind.lanes], lane % kind.lanes)
            for lane in lanes
        ]
        if len(found) == 1:
            return found[0]
        texts = (f"-{value.at(UNARY)}" if kind.dtype.is_bool else value.text for value in found)
        return Value(self.parts(result, *texts), result)

    @classmethod
    def lane(cls, value: Value, number: int) -> Value:
        """Return one lane of a vector that is a name."""
        kind, text = Type(value.type.dtype), cls.LANES.format(vector=value.text, lanes=f"{number:x}")
        return Value(f"({text} != 0)", kind) if kind.dtype.is_bool else Value(text, kind)

    def offsets(self, offset: Expr) -> list[Value]:
        """Return the offset of each lane, or the common offset of all lanes."""
        ramp = ramp_of(offset)
        if ramp is None:
            whole = self.temporary("place", self.value(offset))
            return [self.lane(whole, number) for number in range(offset.type.lanes)]
        (base, step), count = ramp, offset.type.lanes if ramp[1] else 1
        return [self.value(Apply(Op.ADD, (base, Const(step * number, base.type)))) for number in range(count)]

    # Memory

    @classmethod
    def neighbours(cls, kind: Type) -> str:
        """Return the type of neighbours in memory; a single one is a scalar."""
        element = cls.element_type(kind.dtype)
        return element if kind.lanes == 1 else cls.VECTOR.format(element=element, lanes=kind.lanes)

    def element_at(self, array: Place, offset: Value) -> str:
        """Return one element in its memory type."""
        return f"{array.pointer}[{offset.text}]"

    def load(self, place: Subscript) -> Value:
        """Read neighbours, the element of each lane, or one element for all lanes."""
        array, ramp, kind = self.arrays[place.array], ramp_of(place.offset), place.type
        if ramp is not None and (ramp[1] == 1 or kind.lanes == 1):
            return self.read(array, self.value(ramp[0]), self.divisor(ramp[0]), kind)
        stored = kind.with_dtype(array.stored)
        elements = ", ".join(self.element_at(array, offset) for offset in self.offsets(place.offset))
        text = self.PARTS.format(type=self.neighbours(stored), parts=elements)
        return self._from_memory(Value(text, stored)).retyped(kind)

    def read(self, array: Place, offset: Value, divisor: int, kind: Type) -> Value:
        """Read ``kind.lanes`` neighbours from an offset that ``divisor`` divides."""
        stored = kind.with_dtype(array.stored)
        if kind.lanes == 1:
            value = Value(self.element_at(array, offset), stored)
        elif array.is_aligned(divisor, stored):
            value = Value(array.pointer_to(self.neighbours(stored), offset), stored, UNARY)
        else:
            value = Value(self.LOAD.format(lanes=kind.lanes, pointer=array.at(offset).text), stored)
        return self._from_memory(value).retyped(kind)

    def _from_memory(self, value: Value) -> Value:
        """Return loaded memory as a register value; any byte but 0 is true."""
        if not value.type.dtype.is_bool:
            return value
        byte = value.retyped(value.type.with_dtype(DType.U8))
        zero = Value("0", byte.type) if value.type.lanes == 1 else self.constant(0, byte.type)
        return self.infix(Op.CMP_NE, byte, zero)

    def store(self, array: Place, offset: Value, divisor: int, value: Value) -> None:
        """Write neighbours from an offset that ``divisor`` divides."""
        kind, content = value.type.with_dtype(array.stored), self._to_memory(value).text
        if kind.lanes == 1:
            self.line(f"{self.element_at(array, offset)} = {content};")
        elif array.is_aligned(divisor, kind):
            self.line(f"{array.pointer_to(self.neighbours(kind), offset)} = {content};")
        else:
            text = self.STORE.format(lanes=kind.lanes, value=content, pointer=array.at(offset).text)
            self.line(f"{text};")

    def _to_memory(self, value: Value) -> Value:
        """Return a register value in its memory type."""
        kind = value.type
        if not kind.dtype.is_bool or kind.lanes == 1:
            return value
        bytes_ = kind.with_dtype(DType.U8)
        return self.reinterpreted(Value("-" + self.masked(value, 8).at(UNARY + 1), kind, UNARY), bytes_)

    def scatter(self, array: Place, offsets: Sequence[Value], value: Value) -> None:
        """Write the element of each lane, lane 0 first."""
        value = self.temporary("value", self.canonical(value))
        for number, offset in enumerate(offsets):
            self.store(array, offset, 1, self.lane(value, number))


def is_small(dtype: DType) -> bool:
    """Return whether C computes numbers of a type in ``int``, so that results need a cast."""
    return dtype.is_integer and dtype.bits < 32


def _operands(left: Value, right: Value) -> tuple[Value, Value]:
    """Return operands of an operator: one of two vectors may be a scalar."""
    if right.splat is not None and left.splat is None:
        return left, right.splat
    if left.splat is not None and right.splat is None:
        return left.splat, right
    return left, right


def _unchanged(op: Op, args: tuple[Value, ...]) -> Value | None:
    """Return the operand that equals the result, if known."""
    match op, [arg.known for arg in args]:
        case (Op.ADD, (_, 0)) | (Op.SUB, (_, 0)) | ((Op.MUL | Op.DIV), (_, 1)):
            return args[0]
        case (Op.ADD, (0, _)) | (Op.MUL, (1, _)):
            return args[1]
        case _:
            return None
