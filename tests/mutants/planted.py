"""Faults to plant into passes and lowerings: a piece of source and what stands there instead.

Each is of a kind that passes have had: guards of tiles off by one, remainders that are dropped, accumulators that are
cleared twice, loops that must not run in parallel, coverage that is not there, and the like.
"""

from __future__ import annotations

from typing import Final

import attrs


@attrs.frozen
class Mutant:
    """One fault.

    Attributes:
        name: What to call it.
        module: The module, without ``tileir.``.
        old: A piece of its source, which stands there once.
        new: What to put there.
        passes: Passes that show it, as a pipeline's text; empty for those of targets.
        kernels: Whether it shows in kernels only: Stripe says nothing about what runs at the same time.

    """

    name: str
    module: str
    old: str
    new: str
    passes: str = ""
    kernels: bool = False


PLANTED: Final = (
    Mutant(
        "guard of a tile off by one",
        "passes.tile",
        "ends.append(index.range - 1 - place)",
        "ends.append(index.range - place)",
        "tile{sizes=(3)}",
    ),
    Mutant(
        "no guard of a tile",
        "passes.tile",
        "ends.append(index.range - 1 - place)",
        "ends.append(index.range + 99)",
        "tile{sizes=(3)}",
    ),
    Mutant(
        "guard of a tile one too tight",
        "passes.tile",
        "ends.append(index.range - 1 - place)",
        "ends.append(index.range - 2 - place)",
        "tile{sizes=(3)}",
    ),
    Mutant(
        "part of a reduction off by one",
        "passes.split_reduction",
        "else (index.range - 1 - value,)",
        "else (index.range - value,)",
        "split_reduction{parts=8,operations=1,columns=4}",
    ),
    Mutant(
        "part of a reduction without end",
        "passes.split_reduction",
        "else (index.range - 1 - value,)",
        "else ()",
        "split_reduction{parts=8,operations=1,columns=4}",
    ),
    Mutant(
        "result read before it is written",
        "passes.accumulate",
        "Direction.OUT if hit is None else Direction.INOUT",
        "Direction.INOUT",
    ),
    Mutant(
        "vector of a remainder dropped",
        "passes.vectorise_reduction",
        "if left >= lanes:",
        "if left > lanes:",
        "accumulate,vectorise_reduction{vector_bytes=8,unroll=2}",
    ),
    Mutant(
        "last elements of a reduction dropped",
        "passes.vectorise_reduction",
        "while left:",
        "while left > 1:",
        "accumulate,vectorise_reduction{vector_bytes=16}",
    ),
    Mutant(
        "vector of sums dropped",
        "passes.vectorise_reduction",
        "range=vector.range - 1)",
        "range=max(1, vector.range - 2))",
        "accumulate,vectorise_reduction{vector_bytes=8,unroll=4}",
    ),
    Mutant(
        "start of the last elements off by one",
        "passes.vectorise_reduction",
        "sch.part(lane) + (index.range - left)",
        "sch.part(lane) + (index.range - left - 1)",
        "accumulate,vectorise_reduction{vector_bytes=16}",
    ),
    Mutant(
        "accumulator set to zero for every aggregation",
        "passes.vectorise_reduction",
        "value = use.aggregation.identity(use.dtype)",
        "value = 0",
        "accumulate,vectorise_reduction{vector_bytes=16}",
    ),
    Mutant(
        "threads for results that overlap",
        "passes.thread",
        "abs(int(a.coefficient(index))) >= size for",
        "abs(int(a.coefficient(index))) >= 0 * size for",
        "accumulate,thread{groups=4}",
        kernels=True,
    ),
    Mutant(
        "threads for every index",
        "passes.thread",
        "if index.name in allowed and index.range > 1",
        "if index.range > 1",
        "scan{least=2},accumulate,thread{groups=400}",
        kernels=True,
    ),
    Mutant(
        "threads of a group without guard",
        "passes.thread_inner",
        "ends.append(index.range - 1 - values[index.name])",
        "ends.append(index.range + 99)",
    ),
    Mutant(
        "guard of threads off by one",
        "passes.thread_inner",
        "ends.append(index.range - 1 - values[index.name])",
        "ends.append(index.range - values[index.name])",
    ),
    Mutant(
        "distributed threads off by one",
        "passes.distribute",
        "ends.append(index.range - 1 - values[index.name])",
        "ends.append(index.range - 2 - values[index.name])",
        "accumulate,distribute{threads=4}",
    ),
    Mutant(
        "distributed threads without guard",
        "passes.distribute",
        "ends.append(index.range - 1 - values[index.name])",
        "ends.append(index.range + 99)",
        "accumulate,distribute{threads=4}",
    ),
    Mutant(
        "unrolled where copies meet",
        "passes.unroll",
        "return all(_moves_alone(r, index.name) for r in scoped)",
        "return True",
        "unroll{most=4}",
    ),
    Mutant(
        "unrolled out of order",
        "passes.unroll",
        "return False  # copies would come before",
        "return True  # copies would come before",
        "scan{least=2,vector_bytes=16},unroll{most=4}",
    ),
    Mutant(
        "padded where an earlier kernel wrote",
        "passes.pad",
        "if term.output.direction is Direction.OUT and term.output.source in written:",
        "if False and written:",
        "pad{multiple=4,threshold=2,finite=true}",
    ),
    Mutant(
        "padded tensor one too short",
        "passes.pad",
        "shape = TensorShape.dense(dtype, [last - first + 1 for",
        "shape = TensorShape.dense(dtype, [last - first for",
        "pad{multiple=4,threshold=2,finite=true}",
    ),
    Mutant("digits that overlap", "passes.canonicalise", "if step <= reach:", "if step < reach:"),
    Mutant("constraint dropped that fails at one point", "passes.canonicalise", "if low < 0:", "if low < -1:"),
    Mutant("block dropped that runs at one point", "passes.canonicalise", "if high < 0:", "if high < 1:"),
    Mutant(
        "state of a loop taken for dead",
        "passes.dead_code",
        "if block.is_serial:",
        "if False:",
        "scan{least=2},dead_code",
    ),
    Mutant(
        "range one too short",
        "passes.reduce_constraints",
        "range=high - low + 1, affine=start",
        "range=max(1, high - low), affine=start",
        "reduce_constraints",
    ),
    Mutant(
        "range that starts at zero",
        "passes.reduce_constraints",
        "moves[index.name] = Affine.index(index.name) + low",
        "moves[index.name] = Affine.index(index.name)",
        "reduce_constraints",
    ),
    Mutant(
        "inside and outside overlap",
        "passes.separate",
        "inside = attrs.evolve(cut.index, range=cut.high - cut.low)",
        "inside = attrs.evolve(cut.index, range=cut.high - cut.low + 1)",
        "separate{least=1,share=1,operations=0}",
    ),
    Mutant(
        "one side forgotten",
        "passes.separate",
        "2 if cut.low and cut.high < size else 1)",
        "1)",
        "separate{least=1,share=1,operations=0}",
    ),
    Mutant(
        "window that holds its own term twice",
        "passes.window",
        "constraint = distance - 1 if direction > 0 else -distance",
        "constraint = distance if direction > 0 else -distance",
        "window{least=2,least_outputs=1}",
    ),
    Mutant(
        "window without its rest",
        "passes.window",
        "if self._left:",
        "if self._left > 1:",
        "window{least=2,least_outputs=1}",
    ),
    Mutant(
        "parts of a scan see themselves",
        "passes.kernels.scans",
        "(sch.part(number) - sch.part(other) - 1,)",
        "(sch.part(number) - sch.part(other),)",
        "scan{least=2,vector_bytes=8,parts=2,part_terms=1}",
    ),
    Mutant(
        "last steps of a scan in the wrong place",
        "passes.kernels.scans",
        "first + sch.part(step) + vectors * lanes",
        "first + sch.part(step)",
        "scan{least=2,vector_bytes=16}",
    ),
    Mutant(
        "inside one too long",
        "passes.kernels.inside",
        "high = min(high, least // -step + 1)",
        "high = min(high, least // -step + 2)",
    ),
    Mutant(
        "inside one too early",
        "passes.kernels.inside",
        "low = max(low, -(least // step))",
        "low = max(low, -(least // step) - 1)",
    ),
    Mutant(
        "joined view that forgets what is read",
        "passes.fusion.group",
        "return first if whole or not second.reads else Direction.INOUT",
        "return first",
    ),
    Mutant("fused over a step that differs", "passes.fusion.match", "alike = step == theirs_step and", "alike ="),
    Mutant(
        "fused over different offsets",
        "passes.fusion.match",
        "if len(mine.terms) != 1 or len(theirs.terms) != 1 or mine.offset != theirs.offset:",
        "if len(mine.terms) != 1 or len(theirs.terms) != 1:",
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
        "one buffer passed twice",
        "semtree.in_place",
        "if name in temporaries and launch.arguments.count(name) == 1",
        "if name in temporaries",
    ),
    Mutant(
        "in place where counters overlap",
        "semtree.in_place",
        "if extent > 1 and stride <= reach:",
        "if extent > 1 and stride < reach:",
    ),
    Mutant(
        "in place where reads come later",
        "semtree.in_place",
        "if start < 0 or (loads and loads[-1][0] > start):",
        "if start < 0:",
    ),
    Mutant("no barrier between phases", "semtree.lower_barriers", "if _meet(pending, step.touches):", "if False:"),
    Mutant(
        "no barrier between iterations",
        "semtree.lower_barriers",
        "if step.repeats and _meet(_from_last_iteration(body.after), body.before):",
        "if False:",
    ),
    Mutant(
        "asynchronous copies waited for too late",
        "semtree.lower_pipeline",
        "sem.AsyncWait(stages - 2)",
        "sem.AsyncWait(stages - 1)",
    ),
    Mutant(
        "asynchronous copies overwritten while read",
        "semtree.lower_pipeline",
        "sem.AsyncWait(stages - 2),\n            sem.Barrier(),",
        "sem.AsyncWait(stages - 2),",
    ),
    Mutant(
        "upper bound of a loop one too small",
        "semtree.lower_loops",
        "upper = tuple(c.substitute({variable.name: 0}) + 1 for",
        "upper = tuple(c.substitute({variable.name: 0}) for",
    ),
    Mutant(
        "lanes of running sums one too far",
        "semtree.lower_running",
        "self.lanes + lane - distance",
        "self.lanes + lane - distance + 1",
        "scan{least=2,vector_bytes=16}",
    ),
    Mutant(
        "index that is not clamped from above",
        "semtree.lower_block",
        "for bound in (0, dim.size - 1))",
        "for bound in (0, dim.size))",
    ),
    Mutant(
        "depth of a staged product one too long",
        "passes.groups.contraction",
        "tests.append(loop.range - 1 - first - place)",
        "tests.append(loop.range - first - place)",
    ),
    Mutant(
        "temporary shared by kernels made local",
        "passes.localise",
        "owner.setdefault(refinement.source, number) != number:",
        "False and owner.setdefault(refinement.source, number):",
    ),
)
