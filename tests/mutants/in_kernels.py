"""Faults to plant into the making of kernels: lowering, barriers, pipelines, results in place."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

IN_KERNELS: Final = (
    Mutant(
        "one buffer passed twice",
        "semtree.transform.in_place",
        " and launch.arguments.count(name) == 1",
        "",
        tests="semtree/test_in_place.py",
    ),
    Mutant(
        "in place where counters overlap",
        "semtree.transform.in_place",
        "if extent > 1 and stride <= reach:",
        "if extent > 1 and stride < reach:",
        tests="semtree/test_in_place.py",
    ),
    Mutant(
        "in place where reads come later",
        "semtree.transform.in_place",
        "load.number < store.number",
        "True",
        tests="semtree/test_in_place.py",
    ),
    Mutant(
        "in place where loads and stores go different ways",
        "semtree.transform.in_place",
        "both == alike and ",
        "",
        tests="semtree/test_in_place.py",
    ),
    Mutant(
        "in place while copies are under way",
        "semtree.transform.in_place",
        "plain = is_plain(stmt)",
        "plain = True",
        tests="semtree/test_in_place.py",
    ),
    Mutant("no barrier between phases", "semtree.lower.barriers", "if _meet(pending, step.touches):", "if False:"),
    Mutant(
        "no barrier between iterations",
        "semtree.lower.barriers",
        "if step.repeats and _meet(_from_last_iteration(body.after), body.before):",
        "if False:",
    ),
    Mutant(
        "asynchronous copies waited for too late",
        "semtree.lower.pipeline",
        "sem.AsyncWait(stages - 2)",
        "sem.AsyncWait(stages - 1)",
    ),
    Mutant(
        "asynchronous copies overwritten while read",
        "semtree.lower.pipeline",
        "(sem.AsyncWait(stages - 2), sem.Barrier(), ",
        "(sem.AsyncWait(stages - 2), ",
    ),
    Mutant(
        "upper bound of a loop one too small",
        "semtree.lower.loops",
        "upper = tuple(c.substitute({variable.name: 0}) + 1 for",
        "upper = tuple(c.substitute({variable.name: 0}) for",
    ),
    Mutant(
        "lanes of running sums one too far",
        "semtree.lower.specials",
        "self.lanes + lane - distance",
        "self.lanes + lane - distance + 1",
        "scan{least=2,vector_bytes=16}",
    ),
    Mutant(
        "index that is not clamped from above",
        "semtree.lower.views",
        "for bound in (0, size - 1))",
        "for bound in (0, size))",
    ),
    Mutant(
        "equal elements of two runs in another order",
        "semtree.lower.orders.groups",
        "self._op(Op.CMP_LE, *keys)",
        "self._op(Op.CMP_LT, *keys)",
        tests="passes/test_group_order.py",
    ),
    Mutant(
        "no barrier before joined elements are put back",
        "semtree.lower.orders.groups",
        "sem.If(active, tuple(merge)), sem.Barrier(), ",
        "sem.If(active, tuple(merge)), ",
        tests="passes/test_group_order.py",
    ),
    Mutant(
        "part of a row too long for what is left",
        "semtree.lower.orders.groups",
        "Affine.constant(step), size - part * step)",
        "Affine.constant(step), size - part * 0)",
        tests="passes/test_group_order.py",
    ),
)
