"""Updates of array elements as one step, by the atomic functions of OpenCL 1.2."""

from __future__ import annotations

from tileir.core import DType, Op
from tileir.semtree.ir import Update
from tileir_emit.c_like import PRODUCT
from tileir_opencl.emit.expressions import Expressions


def update(out: Expressions, stmt: Update) -> str:
    """Return the statement of an update; that of an extremum of floats is one of integers with their bits."""
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
