"""Faults to plant into passes: a piece of source and what stands there instead.

Each is of a kind that passes have had: guards of tiles off by one, remainders that are dropped, accumulators that are
cleared twice, loops that must not run in parallel, coverage that is not there, and the like.
"""

from __future__ import annotations

from typing import Final

from mutants.in_emitters import IN_EMITTERS
from mutants.in_kernels import IN_KERNELS
from mutants.in_pixels import IN_PIXELS
from mutants.in_ranks import IN_RANKS
from mutants.in_scatters import IN_SCATTERS
from mutants.in_stencils import IN_STENCILS
from mutants.mutant import Mutant

IN_PASSES: Final = (
    Mutant(
        "guard of a tile off by one",
        "passes.regions.tile",
        "ends.append(index.range - 1 - place)",
        "ends.append(index.range - place)",
        "tile{sizes=(3)}",
    ),
    Mutant(
        "no guard of a tile",
        "passes.regions.tile",
        "ends.append(index.range - 1 - place)",
        "ends.append(place * 0 + 99)",
        "tile{sizes=(3)}",
    ),
    Mutant(
        "guard of a tile one too tight",
        "passes.regions.tile",
        "ends.append(index.range - 1 - place)",
        "ends.append(index.range - 2 - place)",
        "tile{sizes=(3)}",
    ),
    Mutant(
        "part of a reduction off by one",
        "passes.algorithms.split_reduction",
        "i.range - 1 - values[i.name]",
        "i.range - values[i.name]",
        "split_reduction{parts=8,operations=1,columns=4}",
    ),
    Mutant(
        "part of a reduction without end",
        "passes.algorithms.split_reduction",
        "if i.range < part.range * within[i.name].range",
        "if False",
        "split_reduction{parts=8,operations=1,columns=4}",
    ),
    Mutant(
        "last part of a row one too long",
        "passes.algorithms.split_rows",
        "(index.range - 1 - value,)",
        "(index.range - value,)",
        tests="passes/test_split_rows.py",
    ),
    Mutant(
        "aggregates of rows in memory that others write, too, merged by each part",
        "passes.algorithms.split_rows",
        "if output.source in self.once",
        "if output.source",
        tests="passes/test_split_rows.py",
    ),
    Mutant(
        "kernels along part of a row cut with it",
        "passes.algorithms.split_rows",
        "or tuple(kernel.ranges[name] for name in names) != whole",
        "",
        tests="passes/test_split_rows.py",
    ),
    Mutant(
        "part of a scatter off by one",
        "passes.algorithms.split_scatter",
        "else (index.range - 1 - value,)",
        "else (index.range - value,)",
        tests="passes/test_split_scatter.py",
    ),
    Mutant(
        "one table for all parts of a scatter",
        "passes.algorithms.split_scatter",
        "access=(*of.access, part)",
        "access=(*of.access, Affine())",
        tests="passes/test_split_scatter.py",
    ),
    Mutant(
        "last updates of a scatter one too early",
        "passes.algorithms.split_scatter",
        "Affine.index(index.name) + part.range * size",
        "Affine.index(index.name) + (part.range * size - 1)",
        tests="passes/test_split_scatter.py",
    ),
    Mutant(
        "lanes that merge where the first one does",
        "semtree.lower.block",
        "sem.Shuffle((v,), (lane,)) for v in (place, *values)",
        "sem.Shuffle((v,), (0,)) for v in (place, *values)",
        tests="passes/test_vectorise_scatter.py",
    ),
    Mutant(
        "result read before it is written",
        "passes.algorithms.accumulate",
        "Direction.OUT if hit is None else Direction.INOUT",
        "Direction.INOUT",
    ),
    Mutant(
        "vector of a remainder dropped",
        "schedule.emission",
        "max(0, int(room // -step) + 1)",
        "max(0, int(room // -step))",
        "accumulate,vectorise_reduction{vector_bytes=8,unroll=2}",
    ),
    Mutant(
        "last elements of a reduction dropped",
        "schedule.steps.loops",
        "size=end - start,",
        "size=max(1, end - start - 1),",
        "accumulate,vectorise_reduction{vector_bytes=16}",
    ),
    Mutant(
        "vector of sums dropped",
        "schedule.steps.memory",
        "Loop(more, size // left - 1,",
        "Loop(more, max(1, size // left - 2),",
        "accumulate,vectorise_reduction{vector_bytes=8,unroll=4}",
    ),
    Mutant(
        "start of the last elements off by one",
        "schedule.steps.loops",
        "Affine.index(name) + start}",
        "Affine.index(name) + max(0, start - 1)}",
        "accumulate,vectorise_reduction{vector_bytes=16}",
    ),
    Mutant(
        "accumulator set to zero for every aggregation",
        "schedule.block_writer",
        "return stripe.Constant(into, use.dtype, use.aggregation.identity(use.dtype))",
        "value = 0",
        "accumulate,vectorise_reduction{vector_bytes=16}",
    ),
    Mutant(
        "threads for results that overlap",
        "passes.schedules.vectors.thread",
        "abs(int(a.coefficient(index))) >= size for",
        "abs(int(a.coefficient(index))) >= 0 * size for",
        "accumulate,thread{groups=4}",
    ),
    Mutant(
        "threads for every index",
        "passes.schedules.vectors.thread",
        "if index.name in allowed and index.range > 1",
        "if index.range > 1",
        "scan{least=2},accumulate,thread{groups=400}",
    ),
    Mutant(
        "threads of a group without guard",
        "passes.schedules.vectors.thread",
        "ends.append(index.range - 1 - values[index.name])",
        "ends.append(values[index.name] * 0 + 99)",
    ),
    Mutant(
        "guard of threads off by one",
        "passes.schedules.vectors.thread",
        "ends.append(index.range - 1 - values[index.name])",
        "ends.append(index.range - values[index.name])",
    ),
    Mutant(
        "distributed threads off by one",
        "passes.schedules.vectors.thread",
        "ends.append(index.range - 1 - values[index.name])",
        "ends.append(index.range - 2 - values[index.name])",
        "accumulate,distribute{threads=4}",
    ),
    Mutant(
        "distributed threads without guard",
        "passes.schedules.vectors.thread",
        "ends.append(index.range - 1 - values[index.name])",
        "ends.append(values[index.name] * 0 + 99)",
        "accumulate,distribute{threads=4}",
    ),
    Mutant(
        "unrolled where copies meet",
        "tileir_accelerators.tiling.unroll",
        "return all(_moves_alone(r, index.name) for r in scoped)",
        "return True",
        "unroll{most=4}",
    ),
    Mutant(
        "unrolled out of order",
        "tileir_accelerators.tiling.unroll",
        "return False  # copies would come before",
        "return True  # copies would come before",
        "scan{least=2,vector_bytes=16},unroll{most=4}",
    ),
    Mutant(
        "padded where an earlier kernel wrote",
        "tileir_accelerators.tiling.pad",
        "if term.output.direction is Direction.OUT and term.output.source in written:",
        "if False and written:",
        "pad{multiple=4,threshold=2,finite=true}",
    ),
    Mutant(
        "padded tensor one too short",
        "tileir_accelerators.tiling.pad",
        "sizes = [last - first + 1 for",
        "sizes = [last - first for",
        "pad{multiple=4,threshold=2,finite=true}",
    ),
    Mutant(
        "digits that overlap",
        "passes.rewrites.canonicalise",
        "if step <= reach:",
        "if step < reach:",
        "canonicalise,accumulate",
    ),
    Mutant("constraint dropped that fails at one point", "passes.rewrites.canonicalise", "if low < 0:", "if low < -1:"),
    Mutant(
        "block dropped that runs at one point",
        "passes.rewrites.canonicalise",
        "if high < 0:",
        "if high < 1:",
        "accumulate,separate{least=1,share=1,operations=0}",
    ),
    Mutant(
        "state of a loop taken for dead",
        "passes.rewrites.dead_code",
        "if _is_in_turn(block):",
        "if False:",
        tests="passes/test_dead_code.py",
    ),
    Mutant(
        "range one too short",
        "tileir_accelerators.tiling.reduce_constraints",
        "range=high - low + 1, affine=start",
        "range=max(1, high - low), affine=start",
        "accumulate,separate{least=1,share=1,operations=0},reduce_constraints",
    ),
    Mutant(
        "range that starts at zero",
        "tileir_accelerators.tiling.reduce_constraints",
        "moves[index.name] = Affine.index(index.name) + low",
        "moves[index.name] = Affine.index(index.name)",
        "accumulate,separate{least=1,share=1,operations=0},reduce_constraints",
    ),
    Mutant(
        "inside and outside overlap",
        "passes.regions.interior",
        "within = attrs.evolve(index, range=high - low)",
        "within = attrs.evolve(index, range=high - low + 1)",
        "accumulate,separate{least=1,share=1,operations=0}",
    ),
    Mutant(
        "one side forgotten",
        "passes.regions.interior",
        "2 if low and high < size else 1)",
        "1)",
        "accumulate,separate{least=1,share=1,operations=0}",
    ),
    Mutant(
        "window that holds its own term twice",
        "passes.algorithms.window",
        "constraint = distance - 1 if direction > 0 else -distance",
        "constraint = distance if direction > 0 else -distance",
        "window{least=2,least_outputs=1}",
    ),
    Mutant(
        "window without its rest",
        "passes.algorithms.window",
        "if self._left:",
        "if self._left > 1:",
        "window{least=2,least_outputs=1}",
    ),
    Mutant(
        "parts of a scan see themselves",
        "passes.algorithms.scans",
        "(sch.part(number) - sch.part(other) - 1,)",
        "(sch.part(number) - sch.part(other),)",
        "scan{least=2,vector_bytes=8,parts=2,part_terms=1}",
    ),
    Mutant(
        "last steps of a scan in the wrong place",
        "passes.algorithms.scans",
        "first + sch.part(step) + vectors * lanes",
        "first + sch.part(step)",
        "scan{least=2,vector_bytes=16}",
    ),
    Mutant(
        "inside one too long",
        "passes.regions.interior",
        "high = min(high, least // -step + 1)",
        "high = min(high, least // -step + 2)",
        tests="passes/test_split_border.py",
    ),
    Mutant(
        "inside one too early",
        "passes.regions.interior",
        "low = max(low, -(least // step))",
        "low = max(low, -(least // step) - 1)",
        tests="passes/test_split_border.py",
    ),
    Mutant(
        "joined view that forgets what is read",
        "passes.fusion.group",
        "return first if whole or not second.reads else Direction.INOUT",
        "return first",
        "canonicalise,accumulate,fusion",
    ),
    Mutant(
        "fused over a step that differs",
        "passes.fusion.match",
        "alike = step == theirs_step and",
        "alike =",
        "accumulate,fusion",
    ),
    Mutant(
        "fused over different offsets",
        "passes.fusion.match",
        "if len(mine.terms) != 1 or len(theirs.terms) != 1 or mine.offset != theirs.offset:",
        "if len(mine.terms) != 1 or len(theirs.terms) != 1:",
        "accumulate,fusion",
    ),
    Mutant(
        "fused across a true dependence",
        "passes.fusion.scan",
        "if all(g is first or g is second or g.position < first.position for g in needs):",
        "if True:",
    ),
    Mutant("coverage with a gap of one", "poly.coverage", "if step > reach + 1:", "if step > reach + 2:"),
    Mutant(
        "coverage that ends one early",
        "poly.coverage",
        "return low <= 0 and high >= size - 1",
        "return low <= 0 and high >= size - 2",
    ),
    Mutant("boxes with a gap of one", "poly.coverage", "if low > reached + 1:", "if low > reached + 2:"),
    Mutant(
        "shadow that is not dark",
        "poly.coverage",
        "yield below * b + above * a - (a - 1) * (b - 1)",
        "yield below * b + above * a",
    ),
    Mutant(
        "everything is injective", "poly.coverage", "return _no_move(moves, [*confined, *within], ends)", "return True"
    ),
    Mutant(
        "iterations of a split one too many",
        "schedule.steps.loops",
        "tests = (loop.size - 1 - place,) if rest else ()",
        "tests = (loop.size - place,) if rest else ()",
        "accumulate,group_contraction{threads=32,rows=1,columns=1,depth=8,always=true}",
    ),
    Mutant(
        "first weight for each term",
        "passes.rewrites.immediates",
        "sum(int(a.offset) * dim.stride for a, dim in axes)",
        "0 * sum(int(a.offset) * dim.stride for a, dim in axes)",
        tests="passes/test_immediates.py",
    ),
    Mutant(
        "terms that are left out although they may be NaN",
        "passes.algorithms.terms",
        "return self.finite or not self._dtype(name).is_float",
        "return True",
        tests="passes/test_immediates.py",
    ),
    Mutant(
        "sum that begins with its first term, which may be -0.0",
        "passes.algorithms.terms",
        "if self.aggregation is Aggregation.SUM or not values:",
        "if not values:",
        tests="passes/test_immediates.py",
    ),
    Mutant(
        "constant that is 0 taken for one that changes no product",
        "passes.algorithms.terms",
        "Aggregation.PROD: 1.0",
        "Aggregation.PROD: 0.0",
        tests="passes/test_immediates.py",
    ),
    Mutant(
        "temporary shared by kernels made local",
        "passes.rewrites.localise",
        "                shared.add(behind[refinement.source])\n",
        "                pass\n",
        "accumulate,localise",
    ),
)

PLANTED: Final = (*IN_PASSES, *IN_SCATTERS, *IN_PIXELS, *IN_STENCILS, *IN_KERNELS, *IN_RANKS, *IN_EMITTERS)

QUICK: Final = (
    "guard of a tile off by one",
    "part of a reduction off by one",
    "LLVM: unsigned numbers shifted with their sign",
)
"""Faults that programs in pipelines and kernels of emitters catch in a push; the others are the nightly run's."""
