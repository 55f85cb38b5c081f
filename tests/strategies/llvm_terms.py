"""Results of LLVM instructions as terms of z3, and the conditions under which they are defined."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
import z3

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Term: TypeAlias = Any

_LINE: Final = re.compile(r"\s*(%\w+) = (.*)")
_BINARY: Final = re.compile(r"(\w+) (i\d+) (\S+), (\S+)")
_COMPARISON: Final = re.compile(r"icmp (\w+) (i\d+) (\S+), (\S+)")
_SELECT: Final = re.compile(r"select i1 (\S+), (i\d+) (\S+), i\d+ (\S+)")
_CONVERSION: Final = re.compile(r"(\w+) (i\d+) (\S+) to (i\d+)")
_CALL: Final = re.compile(r"call (i\d+) @llvm\.(\w+)\.i\d+\((.*)\)")


@attrs.define
class Instructions:
    """Registers that are known so far; ``defined`` holds where nothing was undefined.

    Division is a function that is passed: where it only has to be the same on both sides, it need not be known.
    """

    registers: dict[str, Term]
    divisions: Mapping[str, Callable[[Term, Term], Term]]
    defined: list[Term] = attrs.field(factory=list)

    def run(self, lines: Iterable[str]) -> None:
        """Compute each line; a line of another form is a TypeError."""
        for line in lines:
            found = _LINE.fullmatch(line)
            if found is None:
                raise TypeError(line)
            self.registers[found[1]] = self._instruction(found[2])

    def operand(self, kind: str, text: str) -> Term:
        """Return a register or constant; an ``i1`` is a Boolean."""
        if text.startswith("%"):
            return self.registers[text]
        if kind == "i1":
            return z3.BoolVal({"true": True, "false": False, "1": True, "0": False, "-1": True}[text])
        return z3.BitVecVal(int(text), int(kind[1:]))

    def _instruction(self, text: str) -> Term:
        if found := _COMPARISON.fullmatch(text):
            return self._compared(found[1], *(self.operand(found[2], each) for each in (found[3], found[4])))
        if found := _SELECT.fullmatch(text):
            chosen = (self.operand(found[2], each) for each in (found[3], found[4]))
            return z3.If(self.operand("i1", found[1]), *chosen)
        if found := _CONVERSION.fullmatch(text):
            return _converted(found[1], self.operand(found[2], found[3]), int(found[4][1:]))
        if found := _CALL.fullmatch(text):
            args = [self.operand(*each.split(" ")) for each in found[3].split(", ")]
            return _INTRINSICS[found[2]](*args)
        if found := _BINARY.fullmatch(text):
            return self._binary(found[1], *(self.operand(found[2], each) for each in (found[3], found[4])))
        raise TypeError(text)

    def _binary(self, name: str, left: Term, right: Term) -> Term:
        if z3.is_bool(left):
            return {"and": z3.And, "or": z3.Or, "xor": z3.Xor}[name](left, right)
        if name in ("shl", "lshr", "ashr"):
            self.defined.append(z3.ULT(right, left.size()))
        if name in self.divisions:
            self.defined.append(right != 0)
            if name.startswith("s"):
                least = z3.BitVecVal(1 << (left.size() - 1), left.size())
                self.defined.append(z3.Not(z3.And(left == least, right == -1)))
            return self.divisions[name](left, right)
        return _BINARIES[name](left, right)

    @staticmethod
    def _compared(name: str, left: Term, right: Term) -> Term:
        if z3.is_bool(left):
            left, right = (z3.If(each, z3.BitVecVal(1, 1), z3.BitVecVal(0, 1)) for each in (left, right))
        return _COMPARISONS[name](left, right)


def _converted(name: str, value: Term, bits: int) -> Term:
    if z3.is_bool(value):
        number = -1 if name == "sext" else 1
        return z3.If(value, z3.BitVecVal(number, bits), z3.BitVecVal(0, bits))
    if name == "trunc":
        return z3.Extract(bits - 1, 0, value)
    return {"sext": z3.SignExt, "zext": z3.ZeroExt}[name](bits - value.size(), value)


_BINARIES: Final[Mapping[str, Callable[[Term, Term], Term]]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b,
    "lshr": z3.LShR,
    "ashr": lambda a, b: a >> b,
}
_COMPARISONS: Final[Mapping[str, Callable[[Term, Term], Term]]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "slt": lambda a, b: a < b,
    "sle": lambda a, b: a <= b,
    "sgt": lambda a, b: a > b,
    "sge": lambda a, b: a >= b,
    "ult": z3.ULT,
    "ule": z3.ULE,
    "ugt": z3.UGT,
    "uge": z3.UGE,
}
_INTRINSICS: Final[Mapping[str, Callable[..., Term]]] = {
    "abs": lambda a, _poisons: z3.If(a < 0, -a, a),
    "smax": lambda a, b: z3.If(a > b, a, b),
    "smin": lambda a, b: z3.If(a < b, a, b),
    "umax": lambda a, b: z3.If(z3.UGT(a, b), a, b),
    "umin": lambda a, b: z3.If(z3.ULT(a, b), a, b),
}
