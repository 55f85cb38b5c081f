"""Faults to plant into what becomes of kernels: the rules that simplify them, and the emitters of back ends."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

IN_EMITTERS: Final = (
    Mutant(
        "integer to float to integer wraps instead of saturating",
        "semtree.simplify.conversion_rules",
        "alike = inner.is_float == source.is_float or not outer.is_integer or outer.holds(source)",
        "alike = True",
        tests="theorems/test_semtree_rules.py",
    ),
    Mutant(
        "LLVM: unsigned numbers compared as signed ones",
        "tileir_llvm.emit.integers",
        'else "s" if signed else "u"',
        'else "s"',
    ),
    Mutant(
        "LLVM: not equal is false for NaN",
        "tileir_llvm.emit.spelling",
        '{op: f"o{name}" if op is not Op.CMP_NE else "une" for',
        '{op: f"o{name}" for',
    ),
    Mutant(
        "LLVM: unsigned numbers shifted with their sign",
        "tileir_llvm.emit.integers",
        'Op.BIT_RIGHT: "lshr"',
        'Op.BIT_RIGHT: "ashr"',
    ),
    Mutant(
        "LLVM: lanes of a shuffle blended the wrong way round",
        "tileir_llvm.emit.expressions",
        "j + len(lanes) * (lane in places)",
        "j + len(lanes) * (lane not in places)",
    ),
    Mutant(
        "LLVM: lanes that are apart stored side by side",
        "tileir_llvm.emit.memory",
        "_store_run(out, place, start.moved(lane), lane_of(out, value, lane))",
        "_store_run(out, place, attrs.evolve(start, step=1).moved(lane), lane_of(out, value, lane))",
    ),
    Mutant(
        "LLVM: alignment of a vector overstated",
        "tileir_llvm.emit.memory",
        "alignment = math.gcd(place.alignment, unknown * size, distance * size)",
        "alignment = max(size, place.alignment)",
    ),
    Mutant(
        "LLVM: maximum forgets a NaN on its left",
        "tileir_llvm.emit.floats",
        'f"fcmp uno {kind} {left.text}, {left.text}"',
        'f"fcmp uno {kind} {right.text}, {right.text}"',
    ),
    Mutant(
        "LLVM: sums promised not to wrap that may",
        "tileir_llvm.emit.integers",
        '" nsw" if index and signed',
        '" nsw" if signed',
    ),
    Mutant(
        "OpenCL: sums of 16 bits left as wide as C makes them",
        "tileir_emit.c_vectors",
        "or kind.dtype.is_float or kind.dtype.bits >= 32:",
        "or kind.dtype.is_float or kind.dtype.bits >= 16:",
        tests="emit/test_c_vectors.py",
    ),
    Mutant(
        "lanes of a chunk taken from the first one",
        "tileir_emit.lanes",
        "order = {key: width * position for position, key in enumerate(used)}",
        "order = {key: 0 * position for position, key in enumerate(used)}",
        tests="emit/test_lanes.py",
    ),
    Mutant(
        "chunks written before the next is read",
        "tileir_emit.lanes",
        "return scalar and not (loads and self.overlap) and all(node.array != stmt.target.array for node in loads)",
        "return scalar",
        tests="emit/test_lanes.py",
    ),
    Mutant(
        "OpenCL: fmax of operands that may be NaN",
        "semtree.legalise.legaliser",
        "return all(map(is_number, expr.args))",
        "return True",
        tests="backends_opencl/test_operations.py",
    ),
    Mutant(
        "rows: minimum of integers that are not less",
        "semtree.legalise.integer_rows",
        "_extremum(Op.CMP_LT)",
        "_extremum(Op.CMP_GT)",
        tests="semtree/legalise/test_legaliser.py",
    ),
    Mutant(
        "rows: quotient by -1 of the least number",
        "semtree.legalise.integer_rows",
        "divisor.low <= -1 <= divisor.high",
        "divisor.low <= -2 <= divisor.high < 0",
        tests="semtree/legalise/test_legaliser.py",
    ),
    Mutant(
        "rows: maximum forgets a NaN on its left",
        "semtree.legalise.float_rows",
        "where(left.apply(sign, right) | left.differs(left), left, right)",
        "where(left.apply(sign, right), left, right)",
        tests="semtree/legalise/test_legaliser.py",
    ),
    Mutant(
        "rows: i32 to bf16 rounded twice",
        "semtree.legalise.narrow_rows",
        "or bits <= _F32.precision:",
        "or bits <= 32:",
        tests="semtree/legalise/test_legaliser.py",
    ),
    Mutant(
        "rows: narrow floats rounded up at ties",
        "semtree.legalise.narrow_rows",
        "+ ((word >> shift) & 1)) >> shift",
        "+ 1) >> shift",
        tests="semtree/legalise/test_legaliser.py",
    ),
    Mutant(
        "ranges: the divisor of a quotient that may be 0",
        "semtree.analysis.ranges",
        "return not overflows and not divisor.low <= 0 <= divisor.high",
        "return not overflows",
        tests="semtree/test_ranges.py",
    ),
    Mutant(
        "lanes in one loop that touch what others write",
        "tileir_emit.scalariser",
        "else 0 < abs(distance) < self.lanes",
        "else 0 < distance < self.lanes",
        tests="emit/test_scalariser.py",
    ),
)
