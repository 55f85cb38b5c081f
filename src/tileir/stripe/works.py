"""Works: launches, loops and branches of a program, and walks over them, including their use of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias, assert_never

from tileir.core import BODY, PART, READS, USES, WRITES, attrs, rewritten, schema
from tileir.stripe.shapes import Node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence, Set as AbstractSet

    from tileir.stripe.blocks import Refinement
    from tileir.stripe.ir import Program
    from tileir.stripe.kernels import Kernel


@attrs.frozen(cache_hash=True, repr=False)
class Launch(Node):
    """Run kernel number ``kernel`` on memory, one name for each of its parameters."""

    form: ClassVar[str] = "launch {kernel}({arguments})"
    kernel: int
    arguments: tuple[str, ...] = attrs.field(metadata=USES)
    name: str = ""
    comments: tuple[str, ...] = ()
    deps: tuple[int, ...] = ()


@attrs.frozen(cache_hash=True, repr=False)
class Carry(Node):
    """A carried value: a step of a loop writes ``made``; the next step, and code after the loop, read ``kept``."""

    form: ClassVar[str] = "{kept} = {made}"
    kept: str = attrs.field(metadata=WRITES)
    made: str = attrs.field(metadata=READS)


@attrs.frozen(cache_hash=True, repr=False)
class While(Node):
    """A condition for loops: ``memory``, of one bool, is true; it is read before each step."""

    form: ClassVar[str] = "while ({memory})"
    memory: str = attrs.field(metadata=READS)


@attrs.frozen(cache_hash=True, repr=False)
class Loop(Node):
    """Run ``works``, in order, and then copy carried values, a number of times, or while a condition holds.

    Steps pass on carried values, and memory that works outside the loop use, too. Temporaries that only this loop uses
    are undefined when a step begins.
    """

    form: ClassVar[str] = "{times:times} \\{{works:lines}{carries:lines}\n\\}"
    times: int | While = attrs.field(metadata=PART)
    works: tuple[Work, ...] = attrs.field(metadata=BODY)
    carries: tuple[Carry, ...] = attrs.field(default=(), metadata=PART)
    name: str = ""
    comments: tuple[str, ...] = ()
    deps: tuple[int, ...] = ()


@attrs.frozen(cache_hash=True, repr=False)
class Branch(Node):
    """Run ``then`` if memory ``condition``, of one bool, is true, and ``otherwise`` if not."""

    form: ClassVar[str] = "if ({condition}) \\{{then:lines}\n[\\} else \\{{otherwise:lines}\n]\\}"
    condition: str = attrs.field(metadata=READS)
    then: tuple[Work, ...] = attrs.field(metadata=BODY)
    otherwise: tuple[Work, ...] = attrs.field(default=(), metadata=BODY)
    name: str = ""
    comments: tuple[str, ...] = ()
    deps: tuple[int, ...] = ()


Work: TypeAlias = Launch | Loop | Branch

MAX_LOOPS: Final = 32
"""Maximum nesting of loops and branches."""


@attrs.frozen
class Uses:
    """Memory that works use, by name: reads and writes."""

    read: AbstractSet[str]
    written: AbstractSet[str]

    def __contains__(self, name: object) -> bool:
        return name in self.read or name in self.written

    @property
    def names(self) -> frozenset[str]:
        """All memory that is read or written."""
        return frozenset(self.read) | frozenset(self.written)


def parts(work: Work) -> tuple[tuple[Work, ...], ...]:
    """Return the lists of works in a work."""
    return schema.bodies(work)


def with_parts(work: Work, changed: Callable[[tuple[Work, ...]], tuple[Work, ...]]) -> Work:
    """Return a work with its lists of works changed; itself if none changed."""
    return schema.map_bodies(changed, work)


def depth_of(works: Iterable[Work]) -> int:
    """Return the nesting depth of loops and branches; 0 if there are none."""
    depth, level = -1, list(works)
    while level:
        depth += 1
        level = [inner for work in level for held in parts(work) for inner in held]
    return max(depth, 0)


def launches(works: Iterable[Work]) -> Iterator[Launch]:
    """Yield every launch once, in the order of the text. Without recursion: nesting may not be verified yet."""
    pending = list(works)[::-1]
    while pending:
        work = pending.pop()
        if isinstance(work, Launch):
            yield work
        pending.extend(inner for held in reversed(parts(work)) for inner in reversed(held))


def map_launches(works: tuple[Work, ...], function: Callable[[Launch], tuple[Launch, ...]]) -> tuple[Work, ...]:
    """Replace every launch by any number of launches; ``works`` itself if none changed."""

    def new(work: Work) -> tuple[Work, ...]:
        if isinstance(work, Launch):
            return function(work)
        return (with_parts(work, lambda inner: map_launches(inner, function)),)

    return rewritten(works, new)


def sequential_works(works: tuple[Work, ...]) -> tuple[Work, ...]:
    """Return works without dependencies, which run in order."""

    def plain(work: Work) -> Work:
        inner = with_parts(work, sequential_works)
        return attrs.evolve(inner, deps=()) if inner.deps else inner

    return rewritten(works, lambda work: (plain(work),))


def uses_of(kernels: Sequence[Kernel], works: Iterable[Work]) -> Uses:
    """Return the memory that works use, in the order of first use."""
    read: dict[str, None] = {}
    written: dict[str, None] = {}
    pending = list(works)
    for work in pending:  # grows
        match work:
            case Launch():
                kernel = kernels[work.kernel]
                for parameter, name in zip(kernel.parameters, work.arguments, strict=False):
                    if parameter.name in kernel.reads:
                        read[name] = None
                    if parameter.name in kernel.writes:
                        written[name] = None
            case Loop() | Branch():
                read.update(dict.fromkeys(schema.reads(work)))
                written.update(dict.fromkeys(schema.writes(work)))
            case _:
                assert_never(work)
        for inner in parts(work):
            pending.extend(inner)
    return Uses(read.keys(), written.keys())


def needed(kernels: Sequence[Kernel], works: Iterable[Work]) -> frozenset[str]:
    """Return the memory whose earlier content works need: they read it before they certainly write it.

    Kept values of a loop count as read. Nesting is bounded, so recursion is.
    """
    found: set[str] = set()
    written: set[str] = set()
    for work in works:
        asked = frozenset().union(*(needed(kernels, inner) for inner in parts(work)))
        match work:
            case Launch():
                asked |= uses_of(kernels, (work,)).read
            case Loop(times=times, carries=carries):
                asked |= {carry.kept for carry in carries}
                asked |= {times.memory} if isinstance(times, While) else frozenset()
            case Branch(condition=condition):
                asked |= {condition}
            case _:
                assert_never(work)
        found |= asked - written
        written |= _surely_written(kernels, work)
    return frozenset(found)


def _surely_written(kernels: Sequence[Kernel], work: Work) -> frozenset[str]:
    """Return the memory that a work writes under all conditions."""
    match work:
        case Launch():
            return frozenset(uses_of(kernels, (work,)).written)
        case Loop(times=While()):
            return frozenset()
        case Loop(works=works, carries=carries):
            kept = (carry.kept for carry in carries)
            return frozenset(kept).union(*(_surely_written(kernels, inner) for inner in works))
        case Branch(then=then, otherwise=otherwise):
            sides = [(_surely_written(kernels, inner) for inner in side) for side in (then, otherwise)]
            return frozenset().union(*sides[0]) & frozenset().union(*sides[1])
        case _:
            assert_never(work)


def local_memory(program: Program) -> dict[int, frozenset[str]]:
    """Return the temporaries used only by the steps of one loop, by the :func:`id` of the innermost such loop."""
    if all(isinstance(work, Launch) for work in program.works):
        return {}
    fixed = {*program.inputs, *program.outputs, *(buffer.name for buffer in program.buffers)}
    candidates = frozenset(each.name for each in program.memory) - fixed
    found: dict[int, frozenset[str]] = {}
    _find_local(program.kernels, program.works, candidates, found)
    return found


def _find_local(
    kernels: Sequence[Kernel],
    works: tuple[Work, ...],
    candidates: frozenset[str],
    found: dict[int, frozenset[str]],
) -> None:
    """Find, among temporaries used only by ``works``, those used only by one loop, at any depth."""
    used = [uses_of(kernels, (work,)).names for work in works]
    times: dict[str, int] = {}
    for names in used:
        for name in names:
            times[name] = times.get(name, 0) + 1
    for work, names in zip(works, used, strict=True):
        alone = candidates & frozenset(name for name in names if times[name] == 1)
        match work:
            case Launch():
                continue
            case Loop():
                outside = {carry.kept for carry in work.carries}
                outside.update([work.times.memory] if isinstance(work.times, While) else [])
                own = frozenset(name for name in alone if name not in outside)
                carried = {carry.made for carry in work.carries}
                _find_local(kernels, work.works, own - carried, found)
                inner = {name for loop in map(id, loops(work.works)) for name in found.get(loop, ())}
                if own - inner:
                    found[id(work)] = own - inner
            case Branch():
                inside = frozenset(alone - {work.condition})
                sides = [uses_of(kernels, side).names for side in (work.then, work.otherwise)]
                both = frozenset(sides[0] & sides[1])
                for side in (work.then, work.otherwise):
                    _find_local(kernels, side, inside - both, found)
            case _:
                assert_never(work)


def loops(works: Iterable[Work]) -> Iterator[Loop]:
    """Yield every loop, outer loops first; nesting is bounded, so recursion is."""
    for work in works:
        if isinstance(work, Loop):
            yield work
        for inner in parts(work):
            yield from loops(inner)


def inner_memory(program: Program) -> frozenset[str]:
    """Return the temporaries in memories that hold nothing else, which text allocates in ``main``."""
    lasting = {*program.inputs, *program.outputs, *(buffer.name for buffer in program.buffers)}
    outside = {_devices(each) for each in program.memory if each.name in lasting}
    return frozenset(
        each.name
        for each in program.memory
        if each.location and each.name not in lasting and _devices(each) not in outside
    )


def _devices(memory: Refinement) -> tuple[str, ...]:
    return tuple(device.name for device in memory.location)


def sorted_memory(program: Program) -> Program:
    """Return the program with its memory in the order of its text: that of loops after that of the whole program."""
    local = local_memory(program)
    numbers = {id(loop): number for number, loop in enumerate(loops(program.works), 1)}
    owners = {name: numbers[loop] for loop, names in local.items() for name in names}
    inner = inner_memory(program) - {carry.made for loop in loops(program.works) for carry in loop.carries}
    memory = sorted(program.memory, key=lambda each: (owners.get(each.name, 0), each.name in inner))
    return program if tuple(memory) == program.memory else attrs.evolve(program, memory=tuple(memory))
