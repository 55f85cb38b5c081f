"""Constant propagation between kernels: kernels that read only constants become constants."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import ClassVar

from tileir.core.nodes import attrs
from tileir.passes.analysis.dependences import roots
from tileir.passes.base import at_least, selected_kernel, with_kernels
from tileir.passes.fusion.inline import CHEAP
from tileir.stripe.ir import Block, Buffer, Intrinsic, Program, Special, Statement, views_read, views_written


@attrs.frozen
class ConstantPropagate:
    """Fold kernels whose inputs are all constants, by the interpreter.

    A kernel qualifies if it reads only constants or results of qualifying kernels, and writes temporaries that only
    qualifying kernels write. Outputs of the program are always computed at run time.

    Attributes:
        reqs: Tags that a kernel must carry.
        max_operations: Maximum number of scalar statements to interpret at compile time.
        max_bytes: Maximum size of a resulting constant, in bytes.
        cheap: Whether to fold kernels that cost less than a load per element, too. Otherwise, fusion recomputes these
            elements where they are used.
        small: Maximum number of elements, from 2, of results of cheap kernels that are folded without ``cheap``:
            windows with constant weights of this size are unrolled. 0 for none.
    """

    name: ClassVar[str] = "constant_propagate"
    reqs: tuple[str, ...] = ()
    max_operations: int = attrs.field(default=1 << 18, validator=at_least(0))
    max_bytes: int = attrs.field(default=1 << 16, validator=at_least(0))
    cheap: bool = True
    small: int = attrs.field(default=0, validator=at_least(0))

    def __call__(self, program: Program) -> Program:
        """Return the program with constants in place of the kernels that compute them."""
        behind = roots(program)
        chosen = self._chosen(program, behind)
        if not chosen:
            return program
        made = {behind[name] for number in chosen for name in views_written(program.main.statements[number])}
        left = [s for number, s in enumerate(program.main.statements) if number not in chosen]
        needed = made.intersection(behind[name] for statement in left for name in views_read(statement))
        outputs = tuple(r.name for r in program.memory if r.name in needed)
        return _with_constants(program, left, made, _computed(program, chosen, outputs))

    def _chosen(self, program: Program, behind: Mapping[str, str]) -> frozenset[int]:
        """Return the numbers of the kernels to run."""
        known = {buffer.name for buffer in program.buffers}
        fixed = {*program.inputs, *program.outputs}
        size = {r.name: r.shape.span * r.shape.dtype.itemsize for r in program.memory}
        chosen: dict[int, frozenset[str]] = {}
        operations = 0
        for number, kernel in enumerate(program.main.statements):
            if not isinstance(kernel, Block) or not self._fits(kernel):
                continue
            written = frozenset(behind[name] for name in views_written(kernel))
            read = {behind[name] for name in views_read(kernel)} - written
            fits = written.isdisjoint(fixed) and all(size.get(name, inf) <= self.max_bytes for name in written)
            if fits and read <= known and operations + _cost(kernel) <= self.max_operations:
                chosen[number] = written
                known |= written
                operations += _cost(kernel)
        return _closed(program, behind, chosen if self.cheap else self._worthwhile(program, behind, chosen))

    def _worthwhile(
        self, program: Program, behind: Mapping[str, str], chosen: Mapping[int, frozenset[str]]
    ) -> dict[int, frozenset[str]]:
        """Keep costly kernels and those with small results, those that use their results, and those that they need."""
        numbered = enumerate(program.main.statements)
        kernels = {number: kernel for number, kernel in numbered if number in chosen and isinstance(kernel, Block)}
        reads = {number: {behind[name] for name in views_read(kernel)} for number, kernel in kernels.items()}
        small = {r.name for r in program.memory if 1 < r.shape.elements <= self.small}
        costly: set[str] = set()
        kept: set[int] = set()
        for number, kernel in kernels.items():
            if _is_costly(kernel) or reads[number] & costly or chosen[number] <= small:
                costly |= chosen[number]
                kept.add(number)
        needed: set[str] = set()
        for number in reversed(kernels):
            if number in kept or chosen[number] & needed:
                kept.add(number)
                needed |= reads[number] | chosen[number]
        return {number: written for number, written in chosen.items() if number in kept}

    def _fits(self, kernel: Block) -> bool:
        return selected_kernel(kernel, self.reqs) and not _has_unknown_special(kernel)


def _is_costly(kernel: Block) -> bool:
    """Return whether computing an element costs more than loading it."""
    merges = any(r.merges for r in kernel.refinements)
    operations = {s.op for s in kernel.statements if isinstance(s, Intrinsic)}
    return bool(kernel.blocks) or merges or not CHEAP.issuperset(operations)


def _closed(program: Program, behind: Mapping[str, str], chosen: dict[int, frozenset[str]]) -> frozenset[int]:
    """Drop chosen kernels that share memory with writers that are not chosen, until none are left."""
    while True:
        others = (s for number, s in enumerate(program.main.statements) if number not in chosen)
        open_ = {behind[name] for statement in others for name in views_written(statement)}
        dropped = [
            number
            for number, written in chosen.items()
            if written & open_ or open_.intersection(behind[n] for n in views_read(program.main.statements[number]))
        ]
        if not dropped:
            return frozenset(chosen)
        for number in dropped:
            del chosen[number]


def _has_unknown_special(kernel: Block) -> bool:
    specials = (s for block in kernel.nested() for s in block.statements if isinstance(s, Special))
    return any(special.name not in ("copy", "fill", "zero") for special in specials)


def _cost(kernel: Block) -> int:
    """Return the maximum number of scalar statements that a kernel executes."""
    total, pending = 0, [(kernel, 1)]
    while pending:
        block, times = pending.pop()
        times *= block.points
        total += times * len(block.statements)
        pending.extend((inner, times) for inner in block.blocks)
    return total


def _computed(program: Program, chosen: frozenset[int], outputs: tuple[str, ...]) -> tuple[Buffer, ...]:
    """Return the content of temporaries after only some kernels have run."""
    from tileir.stripe.interpret.interpreter import interpret  # few programs have anything to compute

    kernels = tuple(s for number, s in enumerate(program.main.statements) if number in chosen)
    kernels = tuple(attrs.evolve(kernel, deps=()) for kernel in kernels)
    behind = {name for kernel in kernels for name in (*views_read(kernel), *views_written(kernel))}
    memory = (each for each in program.memory if each.name in behind)
    buffers = (buffer for buffer in program.buffers if buffer.name in behind)
    alone = with_kernels(attrs.evolve(program, inputs=(), outputs=outputs), kernels, memory, buffers)
    results = interpret(alone, {})
    return tuple(Buffer(name, results[name].tobytes()) for name in outputs)


def _with_constants(program: Program, left: list[Statement], made: set[str], constants: tuple[Buffer, ...]) -> Program:
    """Return the program with other kernels, and constants for some temporaries of the removed kernels."""
    kept = {buffer.name for buffer in constants}
    memory = (
        attrs.evolve(each, constant=True) if each.name in kept else each
        for each in program.memory
        if each.name in kept or each.name not in made
    )
    return with_kernels(program, tuple(left), memory, (*program.buffers, *constants))
