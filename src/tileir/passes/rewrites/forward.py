"""Forwarding of copies: readers of a tensor made of pieces of another one read the source instead."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import ClassVar

from tileir.core import attrs, grouped
from tileir.passes.analysis import is_element, roots
from tileir.passes.analysis.pieces import Pieces, is_copy, pieces
from tileir.passes.base import at_least, with_kernels
from tileir.stripe.ir import (
    Block,
    Direction,
    Load,
    Program,
    Refinement,
    Special,
    Statement,
    TensorShape,
    views_read,
    views_written,
)


@attrs.frozen
class Forward:
    """Forward copies: let elementwise kernels read the sources of a copied or padded tensor.

    A padded tensor has borders that repeat its interior: a window over it computes the address of each element by
    comparisons of coordinates, and reads the original tensor. Addresses that are affine over a kernel's whole box need
    no comparisons. A copy is bypassed only if all of its readers are elementwise kernels, or copies that are bypassed
    as well.

    Attributes:
        mark: Whether to only tag the copies with ``copies``, which excludes them from fusion because a later pass
            bypasses them. Other kernels lose the tag: a reader that was inlined meanwhile may keep its copy.
        most_runs: Maximum number of runs of constant stride along an axis that a reader sees.
        most_apart: Maximum number of views through which a kernel may read neighbours of a tensor that are not
            neighbours in the source: gathering more vectors costs as much as the copy.
    """

    name: ClassVar[str] = "forward"
    mark: bool = False
    most_runs: int = attrs.field(default=8, validator=at_least(1))
    most_apart: int = attrs.field(default=8, validator=at_least(0))

    def __call__(self, program: Program) -> Program:
        """Return the program with copies bypassed; those without remaining readers are removed."""
        scan = _Scan(self, program)
        through = scan.read_through()
        if self.mark:
            return _marked(program, through)
        if not through:
            return program
        from tileir.passes.rewrites.redirected_loads import reading_through  # few programs copy

        statements: list[Statement] = []
        for statement in program.main.statements:
            copies = isinstance(statement, Block) and not through.keys().isdisjoint(views_written(statement))
            if not isinstance(statement, Block):
                statements.append(statement)
            elif not copies:
                statements.append(reading_through(statement, through, program.main, self.most_runs))
        return with_kernels(program, tuple(statements))


@attrs.define(eq=False, repr=False)
class _Scan:
    """Tensors of a program that are made of pieces, and their readers."""

    options: Forward
    program: Program
    _roots: Mapping[str, str] = attrs.field(init=False)
    _writers: dict[str, list[int]] = attrs.field(factory=dict, init=False)
    _readers: dict[str, list[int]] = attrs.field(factory=dict, init=False)
    _loads: dict[int, frozenset[str] | None] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._roots = roots(self.program)
        statements = self.program.main.statements
        self._writers = grouped((self._roots[v], n) for n, s in enumerate(statements) for v in set(views_written(s)))
        self._readers = grouped((self._roots[v], n) for n, s in enumerate(statements) for v in set(views_read(s)))

    def read_through(self) -> dict[str, Pieces]:
        """Return the tensors to bypass, by their names in ``main``."""
        program = self.program
        kept = {*program.inputs, *program.outputs, *(buffer.name for buffer in program.buffers)}
        found: dict[str, Pieces] = {}
        last = {name: max(writers) for name, writers in self._writers.items()}
        for view in sorted(program.main.refinements, key=lambda r: last.get(r.name, -1)):  # copies before their copies
            if view.name == self._roots[view.name] and view.name not in kept:
                made = self._pieces(view, found)
                if made is not None:
                    found[view.name] = made
        for name in reversed(tuple(found)):
            if not all(self._reads_through(number, name, found) for number in self._readers[name]):
                del found[name]
        return found

    def _pieces(self, view: Refinement, found: Mapping[str, Pieces]) -> Pieces | None:
        """Return the pieces of a tensor that does not change while it is read; None for others."""
        name, statements = view.name, self.program.main.statements
        writers, readers = self._writers.get(name, ()), self._readers.get(name, ())
        if not writers or not readers or max(writers) >= min(readers):
            return None
        kernels = [s for number in writers if isinstance(s := statements[number], Block) and is_copy(s, name)]
        if len(kernels) < len(writers):
            return None
        if any(r.shape.strides != view.shape.strides for k in kernels for r in k.refinements if r.source == name):
            return None
        made = pieces(kernels, view.shape.sizes, found)
        if made is None or not self._is_plain(made.source):
            return None
        return made if max(self._writers.get(made.source, ()), default=-1) < min(writers) else None

    def _is_plain(self, source: str) -> bool:
        """Return whether places in a tensor are counted in elements."""
        shape = self.program.main.refinement(source).shape
        dense = shape.strides == TensorShape.dense(shape.dtype, shape.sizes).strides
        return self._roots[source] == source and dense

    def _reads_through(self, number: int, name: str, found: Mapping[str, Pieces]) -> bool:
        """Return whether a kernel that reads a tensor can read its sources instead."""
        kernel = self.program.main.statements[number]
        if not isinstance(kernel, Block):
            return False
        if any(is_copy(kernel, target) for target in views_written(kernel) if target in found):
            return True
        if number not in self._loads:
            self._loads[number] = _loads(kernel) if _is_elementwise(kernel) else None
        loaded = self._loads[number]
        if loaded is None:
            return False
        views = [r for r in kernel.refinements if r.source == name]
        strides = self.program.main.refinement(name).shape.strides
        if len(views) > self.options.most_apart and not _stays_near(found[name]):
            return False
        from tileir.passes.rewrites.redirected_loads import axes_seen  # few programs copy

        return all(
            r.direction is Direction.IN
            and is_element(r)
            and r.name in loaded
            and r.shape.strides == strides
            and axes_seen(r, found[name], kernel.ranges, self.options.most_runs) is not None
            for r in views
        )


def _marked(program: Program, through: Mapping[str, Pieces]) -> Program:
    """Return the program with the tag ``copies`` on the kernels that write bypassed tensors, and on no others."""
    statements: list[Statement] = []
    for statement in program.main.statements:
        if isinstance(statement, Block):
            copies = not through.keys().isdisjoint(views_written(statement))
            tags = statement.tags.add("copies") if copies else statement.tags.remove("copies")
            statement = statement if tags is statement.tags else attrs.evolve(statement, tags=tags)
        statements.append(statement)
    return with_kernels(program, tuple(statements))


def _stays_near(made: Pieces) -> bool:
    """Return whether most neighbours along the last axis are neighbours, or one element, in the source."""
    last = made.table[-1]
    pairs = [(a, b) for a, b in pairwise(last) if a is not None and b is not None]
    return 2 * sum(abs(b - a) <= 1 for a, b in pairs) >= len(pairs)


def _loads(kernel: Block) -> frozenset[str]:
    return frozenset(s.source for s in kernel.statements if isinstance(s, Load) and s.index is None)


def _is_elementwise(kernel: Block) -> bool:
    """Return whether a kernel has no schedule, no nested blocks, and no merging stores."""
    if any(isinstance(s, Block | Special) for s in kernel.statements):
        return False
    if kernel.constraints or not all(i.is_plain for i in kernel.indices):
        return False
    indirect = {s.source for s in kernel.statements if isinstance(s, Load) and s.index is not None}
    return not any(r.merges or (r.name in indirect and is_element(r)) for r in kernel.refinements)
