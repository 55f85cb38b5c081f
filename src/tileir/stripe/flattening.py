"""Conversion of nested blocks to programs: the inverse of :mod:`tileir.stripe.nesting`.

Views of the blocks around kernels disappear, so they have to show whole memory unchanged. Allocations of loops get
unique names in the program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NoReturn

from tileir.core import NameScope, VerifyError, attrs, rewritten
from tileir.stripe.ir import (
    Block,
    Branch,
    Buffer,
    Carry,
    Direction,
    Kernel,
    Launch,
    Loop,
    Program,
    Refinement,
    Special,
    Statement,
    While,
    Work,
)
from tileir.stripe.lower.kernel_table import KernelTable, is_laid_out
from tileir.stripe.tags import BRANCH, ELSE, LIFETIMES, LOOP, PROGRAM, THEN, WHILE
from tileir.stripe.works import MAX_LOOPS, parts, sorted_memory


def flattened(entry: Block, inputs: Iterable[str], outputs: Iterable[str], buffers: Iterable[Buffer] = ()) -> Program:
    """Return the program whose outermost block is ``entry``.

    Raises:
        VerifyError: TIL501, the blocks around kernels are not as :mod:`tileir.stripe.nesting` says.
    """
    return _Flattening({}).program(entry, tuple(inputs), tuple(outputs), tuple(buffers))


def with_entry(program: Program, entry: Block) -> Program:
    """Return a program with other blocks; itself if they are its own.

    Identical blocks stay the same kernel and launch.

    Raises:
        VerifyError: As :func:`flattened`.
    """
    if entry is program.entry:
        return program
    known: dict[int, tuple[Kernel, Launch]] = {}
    _remember(program.kernels, program.main, program.works, known)
    return _Flattening(known).program(entry, program.inputs, program.outputs, program.buffers)


def with_blocks(
    program: Program,
    blocks: Iterable[Statement],
    memory: Iterable[Refinement] | None = None,
    buffers: Iterable[Buffer] | None = None,
) -> Program:
    """Return a program without loops with other kernels.

    Args:
        program: The program.
        blocks: Kernels, whose views have names of memory as their sources, in the order in which they run.
        memory: The new allocations of the program; None for no change.
        buffers: The new constants; None for no change.

    Raises:
        VerifyError: TIL501, a statement is no kernel, or views unknown memory.
    """
    known: dict[int, tuple[Kernel, Launch]] = {}
    _remember(program.kernels, program.main, program.works, known)
    flattening = _Flattening(known)
    flattening.memory = {each.name: each for each in (program.memory if memory is None else memory)}
    names = {name: name for name in flattening.memory}
    works = tuple(flattening.launch(block, names, f"statement {number}") for number, block in enumerate(blocks))
    return sorted_memory(
        attrs.evolve(
            program,
            memory=tuple(flattening.memory.values()),
            kernels=tuple(flattening.table.kernels),
            works=works,
            buffers=program.buffers if buffers is None else tuple(buffers),
        )
    )


def _remember(
    kernels: tuple[Kernel, ...], block: Block, works: tuple[Work, ...], known: dict[int, tuple[Kernel, Launch]]
) -> None:
    """Record the kernel and the launch of each statement of a block, and of nested blocks."""
    for statement, work in zip(block.statements, works, strict=True):
        if isinstance(work, Launch):
            known[id(statement)] = (kernels[work.kernel], work)
        elif isinstance(statement, Block):
            for inner, held in zip(statement.blocks, parts(work), strict=True):
                _remember(kernels, inner, held, known)


@attrs.define(eq=False, repr=False)
class _Flattening:
    """State of the construction of a program from blocks.

    Attributes:
        known: The kernel and launch of blocks in their original program, by :func:`id`.
        table: The kernels so far.
        memory: The memory so far, by name.
        names: Names of memory in use.
    """

    known: Mapping[int, tuple[Kernel, Launch]]
    table: KernelTable = attrs.field(factory=KernelTable, init=False)
    memory: dict[str, Refinement] = attrs.field(factory=dict, init=False)
    names: NameScope = attrs.field(factory=NameScope, init=False)

    def program(
        self, entry: Block, inputs: tuple[str, ...], outputs: tuple[str, ...], buffers: tuple[Buffer, ...]
    ) -> Program:
        """Return the program of an entry block."""
        main = entry.statements[0] if len(entry.statements) == 1 else None
        if entry.indices or entry.constraints:
            _refuse("the entry block must have no indices or constraints")
        if not isinstance(main, Block):
            _refuse("the one statement of the entry block must be a block, which holds all kernels and loops")
        if wrong := [view.name for view in entry.refinements if view.direction is not Direction.NONE]:
            _refuse(f"{wrong[0]!r} of the entry block must be an allocation")
        outer = self._allocated(entry, {}, "the entry block")
        works = self.works(main, self._seen(main, outer, "main"), "main", 0)
        kernels = tuple(self.table.kernels)
        tags = entry.tags.remove(PROGRAM)
        memory = tuple(self.memory.values())
        return sorted_memory(Program(memory, kernels, works, inputs, outputs, buffers, entry.name, tags))

    def _allocated(self, block: Block, names: dict[str, str], place: str) -> dict[str, str]:
        """Add the allocations of a block, and return the names of all memory visible inside."""
        for each in block.refinements:
            if each.direction is Direction.NONE:
                if each.name in names:
                    _refuse(f"refinement {each.name!r} is defined twice in {place}", "TIL503")
                name = names[each.name] = self.names.fresh(each.name)
                said = each.tags.remove(*LIFETIMES)
                same = name == each.name and said is each.tags
                self.memory[name] = each if same else attrs.evolve(each, name=name, tags=said)
        return names

    def _seen(self, block: Block, outer: Mapping[str, str], place: str) -> dict[str, str]:
        """Return the memory of each view of a block, and add its allocations."""
        if (block.indices and LOOP not in block.tags) or block.constraints:
            _refuse(f"the {place} block must have no indices or constraints")
        names: dict[str, str] = {}
        for view in block.refinements:
            if view.direction is Direction.NONE:
                continue
            name = outer.get(view.source)
            if name is None:
                _refuse(f"{view.name!r} of the {place} block views {view.source!r}, which the block around it has not")
            moved = any(affine.offset or affine.terms for affine in view.access)
            if moved or not view.shape.holds_what(self.memory[name].shape):
                _refuse(f"{view.name!r} of the {place} block must show all of {view.source!r}, as it is")
            if view.name in names:
                _refuse(f"refinement {view.name!r} is defined twice in the {place} block", "TIL503")
            names[view.name] = name
            self._say(name, view)
        return self._allocated(block, names, f"the {place} block")

    def _say(self, name: str, view: Refinement) -> None:
        """Transfer the annotations of a view of whole memory to the memory."""
        memory = self.memory[name]
        if len(view.shape.dims) != len(memory.shape.dims):
            return
        new = memory.tags.add(*(tag for tag, _ in view.tags.items), **dict(view.tags.items))
        bank = memory.bank_dim if view.bank_dim is None else view.bank_dim
        if new is not memory.tags or bank != memory.bank_dim or view.location != memory.location:
            self.memory[name] = attrs.evolve(memory, tags=new, bank_dim=bank, location=view.location)

    def works(self, block: Block, names: Mapping[str, str], place: str, depth: int) -> tuple[Work, ...]:
        """Return the works of a block's statements; ``names`` has the memory of each view."""
        if depth > MAX_LOOPS:
            _refuse(f"loops are nested deeper than {MAX_LOOPS}")
        works: list[Work] = []
        for number, statement in enumerate(block.statements):
            if isinstance(statement, Block) and LOOP in statement.tags:
                works.append(self._loop(statement, names, f"loop {number} of the {place}", depth))
            elif isinstance(statement, Block) and BRANCH in statement.tags:
                works.append(self._branch(statement, names, f"branch {number} of the {place}", depth))
            else:
                works.append(self.launch(statement, names, f"statement {number} of the {place} block"))
        return tuple(works)

    def launch(self, block: Statement, names: Mapping[str, str], place: str) -> Launch:
        """Return the launch of a block; the known one if the block is from a program."""
        if not isinstance(block, Block):
            _refuse(f"{place} must be a block: a kernel, a loop or a branch")
        known = self._known(block)
        if known is not None and all(names.get(name) == name for name in known[1].arguments):
            return self.table.relaunch(*known)
        renamed = rewritten(
            block.refinements,
            lambda r: (attrs.evolve(r, source=names[r.source]) if names.get(r.source, r.source) != r.source else r,),
        )
        if renamed is not block.refinements:
            block = attrs.evolve(block, refinements=renamed)
        return self.table.launch(block, self.memory)

    def _known(self, block: Block) -> tuple[Kernel, Launch] | None:
        """Return the original kernel and launch of a block, unless the layout of its memory has changed."""
        known = self.known.get(id(block))
        if known is None:
            return None
        kernel, launch = known
        for parameter, name in zip(kernel.parameters, launch.arguments, strict=True):
            memory = self.memory.get(name)
            if memory is None or not is_laid_out(memory, parameter):
                return None
        return known

    def _loop(self, loop: Block, outer: Mapping[str, str], place: str, depth: int) -> Loop:
        times: int | While
        condition = loop.tags.get(WHILE)
        if isinstance(condition, str):
            if condition not in outer or loop.indices:
                _refuse(f"{place} must have no indices, and its condition must be memory of the block around it")
            times = While(outer[condition])
        else:
            index = loop.indices[0] if len(loop.indices) == 1 else None
            if index is None or not index.serial or index.affine is not None or loop.constraints:
                _refuse(f"{place} must have one index, which is serial, and no constraints")
            times = index.range
        body, *copies = loop.statements or (None,)
        if not isinstance(body, Block):
            _refuse(f"{place} must begin with a block, which holds the works of a step")
        names = self._seen(loop, outer, place)
        works = self.works(body, self._seen(body, names, f"body of {place}"), f"body of {place}", depth + 1)
        carries = tuple(self._carry(copy, loop, names, place) for copy in copies)
        return Loop(times, works, carries, loop.name, loop.comments, loop.deps)

    def _carry(self, copy: Statement, loop: Block, names: Mapping[str, str], place: str) -> Carry:
        if not isinstance(copy, Special) or copy.name != "copy" or len(copy.inputs) != 1 or len(copy.outputs) != 1:
            _refuse(f"{place} must hold nothing but copies after its body")
        directions = {view.name: view.direction for view in loop.refinements}
        made, kept = copy.inputs[0], copy.outputs[0]
        if directions.get(made) is not Direction.NONE or directions.get(kept) is not Direction.INOUT:
            _refuse(f"{place} must copy what it allocates to what it both reads and writes")
        return Carry(names[kept], names[made])

    def _branch(self, branch: Block, outer: Mapping[str, str], place: str, depth: int) -> Branch:
        condition = branch.tags.get(BRANCH)
        if not isinstance(condition, str) or condition not in outer:
            _refuse(f"the condition of {place} must be memory of the block around it")
        if [block.tags.items[:1] for block in branch.blocks] != [((THEN, None),), ((ELSE, None),)]:
            _refuse(f"{place} must hold a block with the tag then and one with the tag else")
        names = self._seen(branch, outer, place)
        then, otherwise = (
            self.works(side, self._seen(side, names, f"side of {place}"), f"side of {place}", depth + 1)
            for side in branch.blocks
        )
        return Branch(outer[condition], then, otherwise, branch.name, branch.comments, branch.deps)


def _refuse(message: str, code: str = "TIL501") -> NoReturn:
    raise VerifyError.of(code, message)
