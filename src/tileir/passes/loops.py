"""Application of passes to programs with loops and branches, which most passes never see.

The launches between two loops, those of a loop step, and those of each side of a branch are programs of their own,
with memory used elsewhere as parameters and results. So nothing moves into a loop, out of it or past it, and a pass
optimises the launches of a step as it does a program. Passes that handle loops themselves have
``sees_loops: ClassVar[bool] = True`` and get the whole program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Set as AbstractSet

from tileir.core import NameScope, attrs, schema
from tileir.stripe import (
    Branch,
    Buffer,
    KernelTable,
    Launch,
    Loop,
    Program,
    Refinement,
    Work,
    local_memory,
    parts,
    sorted_memory,
    uses_of,
)


def between_loops(function: Callable[[Program], Program], program: Program) -> Program:
    """Apply ``function`` to the launches between loops, in steps, and on sides of branches, each as a program.

    The program itself is returned if nothing changed.
    """
    if all(isinstance(work, Launch) for work in program.works):
        return function(program)
    return _LoopProgram.of(program, function).result()


def _stretches(works: Iterable[Work]) -> list[tuple[Work, ...]]:
    """Return works cut before and after each loop and branch."""
    found: list[list[Work]] = []
    for work in works:
        if not found or not isinstance(work, Launch) or not isinstance(found[-1][-1], Launch):
            found.append([])
        found[-1].append(work)
    return [tuple(stretch) for stretch in found]


@attrs.define(eq=False, repr=False)
class _LoopProgram:
    """State of a program with loops while its parts change.

    Attributes:
        program: The original program.
        function: The function applied to the parts.
        memory: Its allocations, by name.
        buffers: The contents of constants, by name.
        users: How many stretches, carries and conditions use each allocation.
        fixed: Parameters and results, which stay.
        local: The memory that each loop alone uses, by the :func:`id` of the loop.
        table: The kernels of the finished parts.
        names: Names of memory in use.
    """

    program: Program
    function: Callable[[Program], Program]
    memory: dict[str, Refinement]
    buffers: dict[str, Buffer]
    users: Counter[str]
    fixed: frozenset[str]
    local: dict[int, frozenset[str]]
    table: KernelTable = attrs.field(factory=KernelTable, init=False)
    names: NameScope = attrs.field(factory=NameScope, init=False)
    changed: bool = attrs.field(default=False, init=False)

    @classmethod
    def of(cls, program: Program, function: Callable[[Program], Program]) -> _LoopProgram:
        """Set up the state for a program."""
        whole = cls(
            program,
            function,
            {each.name: each for each in program.memory},
            {buffer.name: buffer for buffer in program.buffers},
            Counter(),
            frozenset((*program.inputs, *program.outputs)),
            local_memory(program),
        )
        whole._count(program.works)
        whole.names = NameScope.of(whole.memory)
        return whole

    def _count(self, works: tuple[Work, ...]) -> None:
        """Count the users of memory; nesting is bounded, so recursion is."""
        for stretch in _stretches(works):
            first = stretch[0]
            match first:
                case Launch():
                    self.users.update(uses_of(self.program.kernels, stretch).names)
                case Loop() | Branch():
                    self.users.update((*schema.reads(first), *schema.writes(first)))
            for inner in parts(first):
                self._count(inner)

    def result(self) -> Program:
        """Return the program with its parts changed; itself if none changed."""
        works = self._after(self.program.works, None)
        if not self.changed:
            return self.program
        return sorted_memory(
            attrs.evolve(
                self.program,
                memory=tuple(self.memory.values()),
                kernels=tuple(self.table.kernels),
                works=works,
                buffers=tuple(self.buffers.values()),
            )
        )

    def _after(self, works: tuple[Work, ...], content: AbstractSet[str] | None) -> tuple[Work, ...]:
        """Return transformed works.

        Args:
            works: The works of the program, of a step, or of a side of a branch.
            content: The memory that is undefined before them; None if they write nothing else.
        """
        after: list[Work] = []
        for stretch in _stretches(works):
            first = stretch[0]
            match first:
                case Launch():
                    after.extend(self._stretch(stretch, content))
                case Loop(works=inner):
                    local = self.local.get(id(first), frozenset())
                    after.append(attrs.evolve(first, works=self._after(inner, local), deps=()))
                case Branch(then=then, otherwise=otherwise):
                    sides = [self._after(side, frozenset()) for side in (then, otherwise)]
                    after.append(attrs.evolve(first, then=sides[0], otherwise=sides[1], deps=()))
        return tuple(after)

    def _stretch(self, stretch: tuple[Work, ...], content: AbstractSet[str] | None) -> list[Launch]:
        """Apply the function to neighbouring launches, and keep the memory that the result needs."""
        used = uses_of(self.program.kernels, stretch)
        own = [name for name in self.memory if name in used]
        user = [name for name in own if name not in self.buffers and (name in self.fixed or self.users[name] > 1)]
        made = tuple(name for name in user if name in used.written)
        before = () if content is None else tuple(name for name in made if name not in content)
        part = Program(
            tuple(self.memory[name] for name in own),
            self.program.kernels,
            stretch,
            (*(name for name in user if name not in used.written), *before),
            made,
            tuple(self.buffers[name] for name in own if name in self.buffers),
            self.program.name,
            self.program.tags,
        )
        new = self.function(part)
        if new is part:
            return self._numbered(part, {})
        self.changed = True
        kept = {*user, *(name for name in own if name in self.buffers and self.users[name] > 1)}
        self.users.subtract(own)
        for name in own:
            if name not in kept:
                del self.memory[name]
                self.buffers.pop(name, None)
        renamed = self._added(new, kept)
        launches = self._numbered(new, renamed)
        self.users.update({name for launch in launches for name in launch.arguments})
        return launches

    def _added(self, part: Program, kept: AbstractSet[str]) -> dict[str, str]:
        """Add the memory of a changed part under fresh names, and return these names."""
        renamed: dict[str, str] = {}
        content = {buffer.name: buffer for buffer in part.buffers}
        for each in part.memory:
            if each.name in kept:
                continue
            name = each.name if each.name not in self.memory else self.names.fresh(each.name)
            self.names.add(name)
            renamed[each.name] = name
            self.memory[name] = each if name == each.name else attrs.evolve(each, name=name)
            if each.name in content:
                self.buffers[name] = attrs.evolve(content[each.name], name=name)
        return renamed

    def _numbered(self, part: Program, renamed: dict[str, str]) -> list[Launch]:
        """Return the launches of a part with kernel numbers of the whole program."""
        launches: list[Launch] = []
        for work in part.works:
            assert isinstance(work, Launch)  # passes make no loops
            arguments = tuple(renamed.get(name, name) for name in work.arguments)
            launch = attrs.evolve(work, arguments=arguments, deps=())
            launches.append(self.table.relaunch(part.kernels[work.kernel], launch))
        return launches
