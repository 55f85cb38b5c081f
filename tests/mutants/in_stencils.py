"""Faults to plant into the passes over stencils: windows, padding that is read through, and borders."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

IN_STENCILS: Final = (
    Mutant(
        "piece written over another at the place of its own",
        "passes.analysis.pieces",
        "old if new is None else new + moved",
        "old if new is None else new",
        "unroll_window,forward,dead_code",
    ),
    Mutant(
        "copy of what is changed before it is read",
        "passes.rewrites.forward",
        "default=-1) < min(writers)",
        "default=-1) < len(statements)",
        tests="passes/test_forward.py",
    ),
    Mutant(
        "computed place held one too far",
        "passes.rewrites.redirected_loads",
        "self._constant(axis.most - axis.least, dtype)",
        "self._constant(axis.most - axis.least + 1, dtype)",
        "unroll_window,forward,dead_code",
    ),
    Mutant(
        "elements behind a gap taken for none",
        "passes.rewrites.redirected_loads",
        "    if None in table[low : high + 1]:",
        "    if None in table[low : high + 1] and first <= high:",
        tests="differential/test_exact_regressions.py",
    ),
    Mutant(
        "stores dropped that are read through another view",
        "passes.rewrites.dead_code",
        "and r.source in seen}",
        "and r.source in views}",
        tests="differential/test_exact_regressions.py",
    ),
    Mutant(
        "comparison of coordinates off by one",
        "passes.rewrites.affine_places",
        "Op.CMP_LT: (-1, -1)",
        "Op.CMP_LT: (-1, 0)",
        "unroll_window,forward,dead_code,canonicalise,split_border{points=1}",
    ),
    Mutant(
        "last value at the other side of a border off by one",
        "passes.regions.interior",
        "side.name: size - ends",
        "side.name: size - ends - 1",
        "unroll_window,forward,dead_code,canonicalise,split_border{points=1}",
    ),
    Mutant(
        "both sides of a border computed as the first",
        "passes.fusion.sequential",
        "range=1, affine=Affine.index(shared.name)",
        "range=1, affine=Affine()",
        "unroll_window,forward,dead_code,canonicalise,split_border{points=1},join_border",
    ),
    Mutant(
        "weight of a window taken for the element",
        "passes.algorithms.unroll_window",
        "inputs = (fresh[self.factors[0]], fresh[self.factors[1]], self.total)",
        "inputs = (fresh[self.factors[1]], fresh[self.factors[1]], self.total)",
        tests="passes/test_unroll_window.py",
    ),
    Mutant(
        "element beyond the border merged into a window",
        "passes.algorithms.unroll_window",
        "(holds, self.total, before)",
        "(holds, self.total, self.total)",
        tests="passes/test_unroll_window.py",
    ),
    Mutant(
        "end of a row after a shorter vector dropped",
        "schedule.steps.loops",
        "return _in_turn(loop, self.into, (0, *ends))",
        "return _in_turn(loop, self.into, (0, *places, loop.size - 1))",
        "accumulate,vectorise{vector_bytes=64}",
    ),
    Mutant(
        "element of a window computed of its first",
        "passes.fusion.inline_stencil",
        "index = statement.index if moves else None",
        "index = None",
        "unroll_window,forward,dead_code,inline_stencil",
    ),
    Mutant(
        "weights beyond an edge that are not 0",
        "passes.schedules.registers.borders",
        "if not isinstance(statement, stripe.Load) or statement.source not in weights:",
        "if isinstance(statement, stripe.Load | stripe.Intrinsic | stripe.Store):",
        tests="passes/test_bordered_windows.py",
    ),
    Mutant(
        "border of zeros that ends one early",
        "passes.schedules.registers.borders",
        "self.high[-1] + 1))",
        "self.high[-1]))",
        tests="passes/test_bordered_windows.py",
    ),
    Mutant(
        "first elements taken for all of a tensor",
        "passes.layouts.eliminate_transposes",
        "return axes if [shape.sizes[axis] for axis in axes] == list(other.sizes) else None",
        "return axes",
        tests="passes/test_eliminate_transposes.py",
    ),
    Mutant(
        "part of a part at the place of the whole",
        "passes.rewrites.write_through",
        "tuple(a + b for a, b in zip(outer.offsets, offsets, strict=True))",
        "offsets",
        tests="passes/test_write_through.py",
    ),
    Mutant(
        "output that is touched meanwhile",
        "passes.rewrites.write_through",
        "if self._is_free(read.source, part, touching[0], number):",
        "if True:",
        tests="passes/test_write_through.py",
    ),
    Mutant(
        "shortcut written over that is read later",
        "passes.rewrites.write_over",
        "if self.touching[view.source][-1] == number]",
        "if self.touching[view.source]]",
        tests="passes/test_write_over.py",
    ),
    Mutant(
        "rows that lie elsewhere shared",
        "passes.regions.join_parts",
        "yield index.range, step, int(place.offset), view",
        "yield index.range, 1, 0, view",
        tests="passes/test_join_parts.py",
    ),
)
