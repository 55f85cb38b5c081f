"""Search over the options of a pipeline's passes by the cost model, with the search space as data.

:data:`SPACES` lists, for each pass by name, values of options that are worth a try; a value without effect on a program
costs one prediction.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

from tileir.core import TileError, attrs, grouped
from tileir.passes.base import Pass, applied
from tileir.passes.cost.machine import Machine
from tileir.stripe.ir import Block, Program
from tileir_performance.cost.prediction import predict

Values: TypeAlias = tuple[bool | int, ...]
Space: TypeAlias = tuple[Mapping[str, Values], ...]
"""Groups of options: those of one group are tried in all combinations, groups one at a time."""

SPACES: Final[Mapping[str, Space]] = MappingProxyType(
    {
        "scan": ({"stretch_bytes": (1024, 4096, 16384)}, {"parts": (1, 2, 4, 8)}),
        "split_reduction": ({"parts": (1, 2, 4, 8, 16, 32, 64)},),
        "inline": ({"max_operations": (0, 4, 16, 64)},),
        "fuse": ({"siblings": (True, False)}, {"max_reductions": (1, 2)}),
        "fusion": ({"rows": (True, False), "most_bytes": (16384, 65536, 262144, 1048576)},),
        "separate": ({"share": (0, 25, 50, 100), "most": (1, 2, 4)},),
        "register_tile": (
            {"rows": (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14), "columns": (1, 2, 3, 4, 6, 8)},
            {"panel_bytes": (0, 65536, 262144, 1048576), "reads": (1, 64, 512, 1 << 30)},
            {"operations": (0, 1 << 18, 1 << 24)},
        ),
        "register_transpose": ({"max_tile": (4, 8, 16)}, {"rows": (16, 64, 256, 512), "columns": (16, 64, 256)}),
        "stream_reduction": ({"stretch_bytes": (1024, 4096, 16384), "unroll": (2, 4, 8, 16)},),
        "vectorise_reduction": ({"unroll": (1, 2, 4, 8, 16)}, {"rows": (1, 2, 4, 8)}),
        "vectorise": ({"chunk": (2048, 8192, 16384, 65536)}, {"rows": (1, 2, 4, 8)}),
        "thread": ({"groups": (8, 64, 512)},),
        "group_transpose": ({"tile": (16, 32, 64)},),
        "group_elementwise": ({"vectors": (1, 2, 4, 8), "threads": (64, 128, 256)},),
        "group_rows": ({"vectors": (1, 2, 4, 8), "threads": (64, 128, 256)},),
        "group_reduction": ({"vectors": (1, 2, 4, 8), "threads": (64, 128, 256)},),
        "matrix_contraction": (
            {"rows": (0, 32, 64, 128, 256), "columns": (0, 32, 64, 128, 256), "stages": (2, 3, 4)},
            {"threads": (64, 128, 256)},
        ),
        "group_contraction": (
            {"rows": (0, 16, 32, 64, 128), "columns": (0, 32, 64, 128), "depth": (0, 8, 32)},
            {"threads": (64, 128, 256)},
        ),
        "distribute": ({"threads": (64, 128, 256)},),
    }
)
"""Values to try, by pass and option."""


@attrs.frozen
class Candidate:
    """A pipeline, its result for a program, the predicted time, and the pass that was changed."""

    passes: tuple[Pass, ...]
    program: Program = attrs.field(repr=False, eq=False)
    seconds: float
    knob: str = ""


@attrs.frozen
class FailedCandidate:
    """A pipeline that a pass refused, and why."""

    passes: tuple[Pass, ...]
    error: TileError


def variants(step: Pass) -> Iterator[Pass]:
    """Yield a pass with all combinations of other values for its options, as :data:`SPACES` has them."""
    space = SPACES.get(step.name)
    if space is None:
        return
    known = {field.name for field in attrs.fields(type(step))}  # type: ignore[arg-type]  # every pass is an attrs class
    for group in space:
        names = [name for name in group if name in known]
        for values in itertools.product(*(group[name] for name in names)):
            changed: Pass = attrs.evolve(step, **dict(zip(names, values, strict=True)))  # type: ignore[misc]
            if changed != step:
                yield changed


def chosen(ranked: Sequence[Candidate], count: int) -> list[Candidate]:
    """Return up to this many candidates: the first one and those to time against it.

    Half of them are the best by the model. The others are the best of each changed pass in turn, since the model may
    underestimate an option.
    """
    best = list(ranked[: 1 + -(-count // 2)])
    rest = grouped((candidate.knob, candidate) for candidate in ranked[len(best) :])
    turns = itertools.chain.from_iterable(itertools.zip_longest(*rest.values()))
    best.extend(itertools.islice((each for each in turns if each is not None), max(0, count + 1 - len(best))))
    return best


@attrs.define(eq=False, repr=False)
class Search:
    """Search for pipelines with different results, best first, by changing one pass at a time.

    Two sweeps: the first changes each pass of the given pipeline alone, the second starts from the best result of the
    first. Results of common prefixes of pipelines are computed once.

    Attributes:
        program: A program before any pass.
        machine: The cost model.
        stop: Asked between candidates; the search ends early when it returns True.
        found: The candidates so far, by their kernels.
        failed: Candidates that could not be tried.
    """

    program: Program
    machine: Machine
    stop: Callable[[], bool] = attrs.field(default=lambda: False)
    found: dict[Block, Candidate] = attrs.field(factory=dict, init=False)
    failed: list[FailedCandidate] = attrs.field(factory=list, init=False)
    _made: dict[tuple[Pass, ...], Program] = attrs.field(factory=dict, init=False)

    def run(self, passes: tuple[Pass, ...], progress: Callable[[int, int], None] | None = None) -> list[Candidate]:
        """Return the given pipeline first, if it works, then all others that were found, by predicted time.

        ``progress`` is called with the number of tried pipelines and their total.
        """
        total = 2 * sum(1 for step in passes for _ in variants(step))
        first = self._try(passes)
        best, done = first, 0
        for _ in range(2):
            start = passes if best is None else best.passes
            for place, step in enumerate(start):
                for changed in variants(step):
                    if self.stop():
                        return self._ranked(first)
                    done += 1
                    if progress is not None:
                        progress(done, total)
                    tried = self._try((*start[:place], changed, *start[place + 1 :]), step.name)
                    if tried is not None and (best is None or tried.seconds < best.seconds):
                        best = tried
        return self._ranked(first)

    def _ranked(self, first: Candidate | None) -> list[Candidate]:
        others = sorted((each for each in self.found.values() if each is not first), key=lambda each: each.seconds)
        return others if first is None else [first, *others]

    def _try(self, passes: tuple[Pass, ...], knob: str = "") -> Candidate | None:
        """Return the candidate for a pipeline, or the one before it that made the same program; None if it fails."""
        try:
            program = self._after(passes)
        except TileError as error:
            self.failed.append(FailedCandidate(passes, error))
            return None
        known = self.found.get(program.main)
        if known is None:
            seconds = predict(program, self.machine).seconds
            known = self.found[program.main] = Candidate(passes, program, seconds, knob)
        return known

    def _after(self, passes: tuple[Pass, ...]) -> Program:
        """Return the program after some passes; the verifier runs when it is compiled."""
        if not passes:
            return self.program
        made = self._made.get(passes)
        if made is None:
            made = self._made[passes] = applied(passes[-1], self._after(passes[:-1]))
        return made
