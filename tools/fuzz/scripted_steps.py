"""Steps of scripts at random, by the loops and the memory that a kernel has when each of them comes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

from tileir.core import attrs
from tileir.schedule.tree import Loop, Tree, leaves
from tileir_testing.generated.choices import Choices

_TAILS: Final = ("peel", "guard", "pad", "mask", "shift", "even")
_LEVELS: Final = ("register", "scratch", "local")


Step: TypeAlias = "Callable[[Drawing], str]"


@attrs.define
class Drawing:
    """A script that grows step by step, with the loops and the memory that a kernel has by then.

    Attributes:
        choices: The source of choices.
        tree: The kernel so far.
        kinds: What chooses a step of each kind.
        number: How many steps there are.
    """

    choices: Choices
    tree: Tree
    kinds: Sequence[Step]
    number: int = 0

    def step(self) -> str:
        """Choose a step."""
        self.number += 1
        return self.choices.pick(self.kinds)(self)

    def _loops(self) -> list[str]:
        return list(dict.fromkeys(loop.name for loop in self.tree.loops())) or ["i"]

    def loop(self) -> str:
        """Choose a loop; now and then one that is not there."""
        return "nowhere" if self.choices.integer(0, 40) == 40 else self.choices.pick(self._loops())

    def chain(self, least: int = 1) -> list[str]:
        """Choose loops that stand in one another with nothing between them."""
        chains = []
        for loop in self.tree.loops():
            chain = [loop]
            while len(chain[-1].body) == 1 and isinstance(chain[-1].body[0], Loop):
                chain.append(chain[-1].body[0])
            chains.append([each.name for each in chain])
        own = self.choices.pick([each for each in chains if len(each) >= least] or [self._loops() * 2])
        return own[: self.choices.integer(least, len(own))]

    def neighbours(self) -> tuple[str, str]:
        """Choose two loops beside each other."""
        bodies = [self.tree.body, *(loop.body for loop in self.tree.loops())]
        pairs = [pair for body in bodies for pair in pairwise(body)]
        found = [(a.name, b.name) for a, b in pairs if isinstance(a, Loop) and isinstance(b, Loop)]
        return self.choices.pick(found or [(self.loop(), self.loop())])

    def read(self) -> str:
        """Choose a tensor that the kernel reads."""
        roots = {use.root for leaf in leaves(self.tree.body) for use in leaf.uses if not use.direction.writes}
        return self.choices.pick(sorted(roots) or ["A"])

    def memory(self, *, own: bool = False) -> str:
        """Choose memory that the kernel touches; with ``own``, what it allocates."""
        held = [*self.tree.allocations, *(each for loop in self.tree.loops() for each in loop.allocations)]
        roots = {use.root for leaf in leaves(self.tree.body) for use in leaf.uses}
        return self.choices.pick([each.name for each in held] if own and held else sorted(roots) or ["C"])

    def size(self, loop: str) -> str:
        """Choose a number or an expression."""
        form = self.choices.pick((
            "2", "3", "4", "1", "5", "8", "16", "100", '"{0}"', '"{0} // 2"', '"min(3, {0})"', '"{0} + 1"', "p",
            '"2 * p"', "q", '"max(1, {0} // p)"', '"VECTOR_BYTES // 4"', "0", '"{0} // 0"', '"1.5 * {0}"',
        ))  # fmt: skip
        return form.format(loop)

    def names(self, count: int) -> str:
        """Return new names; now and then one that is taken."""
        new = [f"{letter}{self.number}" for letter in "abc"[:count]]
        if self.choices.integer(0, 15) == 15:
            new[0] = self.choices.pick(
                (*self._loops(), new[-1], self.memory(), f"{self.choices.pick(self._loops())}_0")
            )
        return f"({', '.join(new)})" if count > 1 else new[0]

    def order(self) -> str:
        """Choose an order of axes, mostly none."""
        return self.choices.pick(("", "", "", ", order=(1, 0)", ", order=(0, 1)", ", order=(0)", ", order=(2, 0, 1)"))

    def level(self) -> str:
        """Choose a level, or none."""
        return self.choices.pick(("", *(f", level={each}" for each in _LEVELS)))


def _split(d: Drawing) -> str:
    loop = d.loop()
    tail = d.choices.pick(("", *(f", tail={each}" for each in _TAILS)))
    return f"split{{loop={loop}, by={d.size(loop)}, into={d.names(2)}{tail}}}"


def _reorder(d: Drawing) -> str:
    chain = d.chain(2)
    order = [chain.pop(d.choices.integer(0, len(chain) - 1)) for _ in tuple(chain)]
    return f"reorder{{loops=({', '.join(reversed(order))})}}"


def _join(d: Drawing) -> str:
    return f"join{{loops=({', '.join(d.chain(2)[:2])}), into={d.names(1)}}}"


def _jam(d: Drawing) -> str:
    above = f", above=({d.loop()})" if d.choices.integer(0, 3) == 3 else ""
    return f"jam{{loops=({', '.join(d.chain())}){above}}}"


def _cut(d: Drawing) -> str:
    loop = d.loop()
    if d.choices.integer(0, 3) == 3:
        return f'cut{{loop={loop}, at=(1, "{loop} - 1"), into={d.names(3)}}}'
    return f"cut{{loop={loop}, at={d.size(loop)}, into={d.names(2)}}}"


def _specialise(d: Drawing) -> str:
    return f"specialise{{loop={d.loop()}, into={d.names(3)}}}"


def _fuse(d: Drawing) -> str:
    return f"fuse{{loops=({', '.join(d.neighbours())}), into={d.names(1)}}}"


def _distribute(d: Drawing) -> str:
    after, chain = d.choices.pick(("1", "2", "3", "(1, 2)", "(1, 3)")), d.chain()
    if len(chain) > 1 or "," in after:
        return f"distribute{{loop=({', '.join(chain)}), after={after}}}"
    return f"distribute{{loop={d.loop()}, after={after}, into={d.names(2)}}}"


def _sink(d: Drawing) -> str:
    return f"sink{{loop={d.loop()}}}"


def _skew(d: Drawing) -> str:
    chain = d.chain(2)
    return f"skew{{loops=({', '.join(chain[:2])}), by={d.size(chain[0])}, into={d.names(1)}}}"


def _persist(d: Drawing) -> str:
    loop = d.loop()
    return f"persist{{loop={loop}, groups={d.size(loop)}, into={d.names(2)}}}"


def _bind(d: Drawing) -> str:
    loop = d.loop() if d.choices.integer(0, 3) else f"({d.loop()}, {d.loop()})"
    return f"bind{{loop={loop}, to={d.choices.pick(('vector', 'unroll', 'grid', 'vector', 'thread'))}}}"


def _stage(d: Drawing) -> str:
    plain = f"stage{{tensor={d.read()}, at={d.loop()}, into={d.names(1)}{d.level()}"
    if d.choices.integer(0, 2):
        return f"{plain}{d.order()}}}"
    over, lanes = ", ".join(d.chain(2)[: d.choices.integer(1, 2)]), d.choices.pick((1, 2, 3))
    outside = d.choices.pick(("clamp", "zero"))
    return f"{plain}, over=({over}), pad={d.choices.integer(0, 2)}, lanes={lanes}, outside={outside}}}"


def _accumulate(d: Drawing) -> str:
    over = f", over=({d.loop()}, {d.loop()})" if d.choices.integer(0, 2) == 2 else ""
    return f"accumulate{{memory={d.memory()}, at={d.loop()}, into={d.names(1)}{d.level()}{over}}}"


def _rfactor(d: Drawing) -> str:
    through = d.choices.pick(("", "", ", through=(2)", ", through=(4)", ", through=(4, 2)"))
    loop, stores = f"({', '.join(d.chain()[:2])})", d.choices.pick(("", "", ", stores=true"))
    if d.choices.integer(0, 3) == 3:
        two = f"memory=({d.memory(own=True)}, {d.memory(own=True)}), loop={loop}, into={d.names(2)}"
        return f"rfactor{{{two}{d.level()}{through}{stores}}}"
    return f"rfactor{{memory={d.memory()}, loop={loop}, into={d.names(1)}{d.level()}{through}{stores}}}"


def _pipeline(d: Drawing) -> str:
    holding = [loop.name for loop in d.tree.loops() if loop.allocations]
    return f"pipeline{{loop={d.choices.pick(holding or [d.loop()])}, stages={d.choices.pick((2, 3, 1))}}}"


def _place(d: Drawing) -> str:
    return f"place{{memory={d.memory(own=True)}, level={d.choices.pick(_LEVELS)}}}"


def _interleave(d: Drawing) -> str:
    axis, by = d.choices.integer(0, 2), d.choices.pick((2, 3, 4))
    return f"interleave{{memory={d.memory(own=True)}, axis={axis}, by={by}}}"


def _tensorise(d: Drawing) -> str:
    lanes, terms = d.chain(2)[:2]
    fragment = d.choices.pick(("dot_m1n16k4_u8_i8", "dot_m1n8k4_u8_i8", "nothing"))
    return f"tensorise{{lanes={lanes}, terms={terms}, fragment={fragment}}}"


def _transpose(d: Drawing) -> str:
    return f"transpose{{loops=({', '.join(d.chain(2)[:2])})}}"


def _inline(d: Drawing) -> str:
    return f"inline{{tensor={d.read()}}}"


def _compute_at(d: Drawing) -> str:
    return f"compute_at{{tensor={d.read()}, at={d.loop()}, into={d.names(1)}{d.level()}{d.order()}}}"


def _fold(d: Drawing) -> str:
    held = [(each.name, loop.name) for loop in d.tree.loops() for each in loop.allocations if each.shape.dims]
    memory, loop = d.choices.pick(held or [(d.memory(), d.loop())])
    rows, axis = d.choices.pick((3, 2, 4, 1)), d.choices.integer(0, 1)
    return f"fold{{memory={memory}, loop={loop}, by={rows}, into={d.names(1)}, axis={axis}}}"


def _join_kernel(d: Drawing) -> str:
    return f"join_kernel{{tensor={d.read()}, into={d.choices.pick(('()', f'({d.names(1)})', d.names(2)))}}}"


STEPS: Final[Sequence[Step]] = (
    _split, _split, _split, _reorder, _reorder, _join, _jam, _jam, _cut, _specialise, _fuse, _distribute, _sink, _skew,
    _persist, _bind, _bind, _bind, _stage, _stage, _accumulate, _rfactor, _pipeline, _place, _interleave, _tensorise,
    _transpose, _inline, _compute_at, _compute_at, _fold, _join_kernel,
)  # fmt: skip


def _thread(d: Drawing) -> str:
    return f"bind{{loop={d.loop()}, to=thread}}"


def _shared(d: Drawing) -> str:
    return f"stage{{tensor={d.read()}, at={d.loop()}, into={d.names(1)}, level=local}}"


CARD_STEPS: Final[Sequence[Step]] = (*STEPS, *(_thread, _shared) * 6, _pipeline, _pipeline, _cut, _rfactor)
"""Steps only for groups of threads that share memory."""
