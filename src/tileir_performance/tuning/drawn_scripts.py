"""Random search over scripts for the kernels of a program, guided by the cost model and measurements.

The search begins with empty scripts, without knowledge of a target's schedules, on the program as earlier passes leave
it. A kernel without a script is left to the passes of the target.
"""

from __future__ import annotations

import math
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, ClassVar, Final

from tileir.core import TileError, attrs
from tileir.passes.base import Pass, applied, expand_kernels, unnamed
from tileir.passes.schedules.scripted import SCHEDULES, Scripted
from tileir.schedule import Refused, Tree, refused, tree_of
from tileir.schedule.emission import kernels_of
from tileir.schedule.script import Pattern
from tileir_performance.cost.prediction import predict
from tileir_performance.tuning.candidates import Candidate
from tileir_performance.tuning.drawing import Room
from tileir_performance.tuning.sketches import Sketch, sketched

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tileir.passes.cost.machine import Machine
    from tileir.stripe.ir import Block, Program
    from tileir.stripe.kernels import Kernel

    Sketches = Mapping[str, Sketch]

FIRST_DRAWN: Final = 160
"""How many sketches are drawn before the first is timed: the model is quick, and a device is not."""

LATER_DRAWN: Final = 40
"""How many are made for each round of timing after that."""

ROUND: Final = 20
"""How many are timed in a round."""

MOST_WAITING: Final = 200
"""So many of the most promising wait for the next round."""

PARENTS: Final = 8
"""Of so many of the fastest the next sketches are made."""


@attrs.frozen
class ScriptedPipeline:
    """A pipeline with scripts, the sketches that these were made of, and the time that the model expects."""

    sketches: tuple[tuple[str, Sketch], ...]
    candidate: Candidate


@attrs.define(eq=False, repr=False)
class ScriptSearch:
    """Search for scripts, most promising first, by predictions and measurements.

    Rounds of searches with equal seeds and equal measured times are equal.

    Attributes:
        program: A program before any pass.
        passes: The usual pipeline.
        machine: The cost model.
        vector_bytes: The width of a vector register.
        seed: The seed of drawing.
        stop: Asked between sketches; a round ends early when it returns True.
    """

    program: Program
    passes: tuple[Pass, ...]
    machine: Machine
    vector_bytes: int
    seed: int = 0
    stop: Callable[[], bool] = attrs.field(default=lambda: False)
    _random: Random = attrs.field(init=False)
    _before: Program = attrs.field(init=False)
    _trees: dict[str, Tree] = attrs.field(factory=dict, init=False)
    _rooms: dict[str, Room] = attrs.field(factory=dict, init=False)
    _kernels: int = attrs.field(default=0, init=False)
    _known: set[tuple[Kernel, ...]] = attrs.field(factory=set, init=False)
    _waiting: list[ScriptedPipeline] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        """Apply the passes that run before kernels are scheduled, and look at the kernels."""
        self._random = Random(self.seed)
        self._before = self.program
        for step in self.passes[: self._first]:
            self._before = applied(step, self._before)
        applied(_Kernels(self._seen), self._before)

    def _seen(self, kernel: Block) -> Refused:
        self._kernels += 1
        tree = tree_of(kernel)
        if not isinstance(tree, Refused) and (room := Room.of(tree, self.vector_bytes)).order:
            self._trees[_named(kernel)], self._rooms[_named(kernel)] = tree, room
        return refused("TR002")

    @property
    def _first(self) -> int:
        places = (n for n, step in enumerate(self.passes) if type(unnamed(step)).__module__.startswith(SCHEDULES))
        return next(places, len(self.passes))

    def round(self, timed: Sequence[tuple[ScriptedPipeline, float]]) -> list[ScriptedPipeline]:
        """Return the sketches to time next, given all earlier times; none where scripts fit none of the kernels."""
        if not self._rooms:
            return []
        best = [drawn for drawn, _ in sorted(timed, key=lambda each: each[1])[:PARENTS]]
        for _ in range(LATER_DRAWN if best else FIRST_DRAWN):
            if self.stop():
                break
            self._add(self._next(best))
        self._waiting.sort(key=lambda each: self._expected(each, timed))
        promising, others = self._waiting[: ROUND * 3 // 4], self._waiting[ROUND * 3 // 4 :]
        chance = self._random.sample(others[: 2 * ROUND], min(len(others[: 2 * ROUND]), ROUND - len(promising)))
        chosen = [*promising, *chance]
        left = (each for each in self._waiting if not any(each is one for one in chosen))
        self._waiting = [*islice(left, MOST_WAITING)]
        return chosen

    def _expected(self, drawn: ScriptedPipeline, timed: Sequence[tuple[ScriptedPipeline, float]]) -> float:
        """Return the predicted time, corrected by the errors of predictions for similar timed sketches.

        The model sees no difference between many sketches; those similar to fast ones are expected to be fast.
        """
        total = weights = 0.0
        for other, seconds in timed:
            weight = math.exp(-_distance(drawn, other))
            total += weight * math.log(max(seconds, _LEAST) / max(other.candidate.seconds, _LEAST))
            weights += weight
        return drawn.candidate.seconds * math.exp(total / weights if weights else 0.0)

    def _next(self, best: Sequence[ScriptedPipeline]) -> dict[str, Sketch]:
        """Return random sketches: new ones, or mutations of the best."""
        sketches = dict(self._random.choice(best).sketches) if best and self._random.random() < _LIKE_BEST else {}
        name = self._random.choice(list(self._rooms))
        room, held = self._rooms[name], sketches.get(name)
        if held is None:
            sketches[name] = room.draw(self._random)
        else:
            other = dict(self._random.choice(best).sketches).get(name, held)
            crossed = room.crossed(held, other, self._random) if self._random.random() < _CROSSED else held
            sketches[name] = room.changed(crossed, self._random)
        return sketches

    def _add(self, sketches: Sketches) -> None:
        """Queue sketches for timing, unless a step refuses or their kernels are known."""
        scripts: list[Pass] = []
        made: dict[str, tuple[Block, ...]] = {}
        for name, sketch in sketches.items():
            found = sketched(sketch, self._trees[name])
            if isinstance(found, Refused) or not found.steps:
                return
            kernels = kernels_of(found.tree)
            if isinstance(kernels, Refused):
                return
            made[name] = kernels
            match = Pattern.of(self._trees[name], name if self._kernels > 1 else "")
            scripts.append(Scripted.of(self._rooms[name].script(found, match)))
        rest = self.passes[self._first :]
        if len(sketches) == self._kernels:  # nobody else is to schedule
            rest = tuple(step for step in rest if not _schedules(step))
        program = self._before
        try:
            for step in (_Kernels(lambda kernel: made.get(_named(kernel), refused("TR002"))), *rest):
                program = applied(step, program)
        except TileError:
            return
        if program.kernels not in self._known:
            self._known.add(program.kernels)
            passes = (*self.passes[: self._first], *scripts, *rest)
            candidate = Candidate(passes, program, predict(program, self.machine).seconds, "script")
            self._waiting.append(ScriptedPipeline(tuple(sketches.items()), candidate))


_LEAST: Final = 1e-9
_UNLIKE: Final = 8.0
_LIKE_BEST: Final = 0.85
_CROSSED: Final = 0.3


def _schedules(step: Pass) -> bool:
    inner = unnamed(step)
    return type(inner).__module__.startswith(SCHEDULES) and inner.name != "thread"


def _distance(one: ScriptedPipeline, other: ScriptedPipeline) -> float:
    """Return in how much two schedules differ: a number for each choice, and for each doubling of a size."""
    ours, theirs = dict(one.sketches), dict(other.sketches)
    return sum(ours[name].distance(theirs[name]) if name in theirs else _UNLIKE for name in ours) + _UNLIKE * len(
        theirs.keys() - ours.keys()
    )


def _named(kernel: Block) -> str:
    return kernel.name.partition("(")[0]


@attrs.frozen(repr=False)
class _Kernels:
    """Puts something else in the place of each kernel, as a pass does."""

    name: ClassVar[str] = "kernels"
    made: Callable[[Block], tuple[Block, ...] | Refused]

    def __call__(self, program: Program) -> Program:
        return expand_kernels(program, self.made)
