"""Updates of array elements as one step, by LLVM's ``atomicrmw``."""

from __future__ import annotations

from typing import Final

from tileir.core import DType, Op
from tileir.semtree.ir import Update
from tileir_llvm.emit.expressions import Environment, evaluate, offset_of
from tileir_llvm.emit.memory import Offset, pointer_to
from tileir_llvm.emit.spelling import register

_BITS: Final = {DType.F32: ("i32", 0x7FC00000, -0x400000), DType.F64: ("i64", 0x7FF8 << 48, -(0x8 << 48))}
"""The integers with the bits of floats, and of these the NaN that is the greatest, and that which is the least."""


def update(env: Environment, stmt: Update, scope: str = "") -> None:
    """Write an update; ``scope`` says who else updates, where that is not everybody.

    The bits of floats that are not negative are ordered as integers are, and those of negative ones the other way
    round, behind all others where no sign is seen in them. So an extremum of floats is one of integers.
    """
    out, kind = env.out, stmt.target.type
    value = evaluate(env, stmt.value)
    offset = offset_of(env, stmt.target.offset)
    assert isinstance(offset, Offset)  # an update is of one element
    pointer, _ = pointer_to(out, env.arrays[stmt.target.array], offset)

    def step(word: str, spelt: str, text: str) -> None:
        out.effect(f"atomicrmw {word} ptr {pointer}, {spelt} {text} {scope}monotonic, align {kind.dtype.itemsize}")

    name = stmt.op.value
    if kind.dtype.is_float:
        spelt, greatest, least = _BITS[kind.dtype]
        floats = register(kind)
        bits = out.pure(f"bitcast {floats} {value.text} to {spelt}")
        is_nan = out.pure(f"fcmp uno {floats} {value.text}, {value.text}")
        bits = out.pure(f"select i1 {is_nan}, {spelt} {greatest if stmt.op is Op.MAX else least}, {spelt} {bits}")
        negative, positive = out.pure(f"icmp slt {spelt} {bits}, 0"), out.pure(f"icmp sge {spelt} {bits}, 0")
        with out.where(negative, "negative", "behind"):
            step("umin" if stmt.op is Op.MAX else "umax", spelt, bits)
        with out.where(positive, "positive", "behind"):
            step(name, spelt, bits)
    else:
        signed = stmt.op is Op.ADD or kind.dtype.is_signed
        step(name if signed else f"u{name}", register(kind), value.text)
