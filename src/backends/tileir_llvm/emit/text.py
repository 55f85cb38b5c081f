"""Text of one LLVM function under construction.

Pure instructions are value-numbered by their text: an instruction is not repeated where an earlier one dominates.
Loop-invariant instructions are hoisted. Both keep unrolled kernels small, and are cheaper here than as LLVM passes,
which most kernels then do not need at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import attrs

from tileir.semtree.ir import Type


@attrs.define(eq=False)  # not frozen: for the many operands of unrolled loops that would take a tenth of the time
class Value:
    """Operand: its text, its type, and its integer value (of every lane) if known. Immutable by convention.

    Attributes:
        text: A register or a constant.
        type: Its semtree type.
        known: Value of every lane of a bool or integer constant, else None.
    """

    text: str
    type: Type
    known: int | None = None


SCHEDULED: Final = "; scheduled"
"""First line of modules for which LLVM only selects instructions and registers."""

WEIGHTS: Final = '!"branch_weights"'
"""Beginning of a metadata node with branch weights: how often a jump is taken, and how often not."""

_MOST_WEIGHT: Final = (1 << 31) - 1


@attrs.define(eq=False, repr=False)
class ModuleText:
    """Common text of the functions of a module, and the finished functions.

    Attributes:
        float_flags: Fast-math flags of float operations, each followed by a blank.
        scheduled: Whether the kernels specify parallelism and order explicitly.
        remainder: Name prefix of functions for remainders of floats, if ``frem`` is not exact; else empty.
        extrema: Whether the device has instructions for maxima and minima that keep NaN.
        exponential: Name of the function for exponentials that are rounded to f16; empty if there are none.
        globals: Variables of the module.
        declarations: Called functions.
        functions: Texts of the functions.
        metadata: Nodes that loops refer to.
    """

    float_flags: str = ""
    scheduled: bool = False
    remainder: str = ""
    extrema: bool = False
    exponential: str = ""
    globals: list[str] = attrs.field(factory=list, init=False)
    declarations: dict[str, None] = attrs.field(factory=dict, init=False)
    functions: list[str] = attrs.field(factory=list, init=False)
    metadata: list[str] = attrs.field(factory=list, init=False)

    @property
    def length(self) -> int:
        """Characters of its functions."""
        return sum(map(len, self.functions))

    def node(self, text: str) -> int:
        """Return the number of a shared metadata node."""
        if text not in self.metadata:
            self.metadata.append(text)
        return self.metadata.index(text)

    def text(self, attributes: str = "") -> str:
        """Return the whole module, with the common function attributes."""
        first = (SCHEDULED,) if self.scheduled else ()
        numbered = (f"!{number} = {node}" for number, node in enumerate(self.metadata))
        return "\n".join((*first, *self.globals, *self.functions, attributes, *self.declarations, *numbered, ""))


Key: TypeAlias = tuple[int | str | bool | None, ...]
"""A name of registers that follow from others: these and all else that they depend on."""

_REGISTER: Final = re.compile(r"%\w+")


@attrs.define(eq=False, repr=False)
class _Scope:
    """Part of a function whose instructions do not dominate the rest: an iteration of a loop, or a branch.

    Attributes:
        lines: Destination of its instructions.
        repeated: Whether it is an iteration of a loop.
        written: Pure instructions written into it.
        remembered: Keys of the values remembered in it.
    """

    lines: list[str]
    repeated: bool = False
    written: list[str] = attrs.field(factory=list)
    remembered: list[Key] = attrs.field(factory=list)


@attrs.define(eq=False, repr=False)
class FunctionText:
    """Lines of one function of ``module``."""

    module: ModuleText
    block: str = attrs.field(default="entry", init=False)
    _entry: list[str] = attrs.field(factory=list, init=False)
    _scopes: list[_Scope] = attrs.field(factory=lambda: [_Scope([])], init=False)
    _depths: dict[str, int] = attrs.field(factory=dict, init=False)
    _numbered: dict[str, str] = attrs.field(factory=dict, init=False)
    _remembered: dict[Key, Any] = attrs.field(factory=dict, init=False)
    _registers: int = attrs.field(default=0, init=False)
    _labels: int = attrs.field(default=0, init=False)

    @property
    def lines(self) -> list[str]:
        """Lines of the current scope."""
        return self._scopes[-1].lines

    def register(self) -> str:
        """Return a fresh register, which belongs to the current scope."""
        self._registers += 1
        return self.belongs_here(f"%v{self._registers}")

    def belongs_here(self, register: str) -> str:
        """Return a register whose value may change each time that the current scope begins."""
        self._depths[register] = len(self._scopes) - 1
        return register

    def depth_of(self, operand: str) -> int:
        """Return the depth of the outermost scope in which an operand is known."""
        return self._depths.get(operand, 0)

    def pure(self, instruction: str) -> str:
        """Return the register with the result of an instruction without effects."""
        found = self._numbered.get(instruction)
        if found is not None:
            return found
        depth = len(self._scopes) - 1
        scope = self._scopes[depth]
        if scope.repeated:
            depth = self._depth_of(instruction)
            scope = self._scopes[depth]
        self._registers += 1
        result = f"%v{self._registers}"
        self._depths[result] = depth
        scope.lines.append(f"  {result} = {instruction}")
        scope.written.append(instruction)
        self._numbered[instruction] = result
        return result

    def recalled(self, key: Key) -> Any:
        """Return the value remembered for pure instructions that dominate; None if there is none."""
        return self._remembered.get(key)

    def remember(self, key: Key, found: object) -> None:
        """Remember the value of pure instructions to the end of the current scope."""
        self._remembered[key] = found
        self._scopes[-1].remembered.append(key)

    def once(self, instruction: str) -> str:
        """Return the register of a pure instruction that is only valid in this iteration of the current loop."""
        found = self._numbered.get(instruction)
        if found is None:
            found = self._numbered[instruction] = self.result(instruction)
            self._scopes[-1].written.append(instruction)
        return found

    def _depth_of(self, instruction: str) -> int:
        """Return the depth of the outermost valid scope of an instruction: no loop around it changes its operands.

        It stays in its branch, since it may be a guarded load.
        """
        scopes, depths = self._scopes, self._depths
        depth = len(scopes) - 1
        needed = 0
        for register in _REGISTER.findall(instruction):
            needed = max(needed, depths.get(register, 0))
            if needed == depth:
                return depth
        while depth > needed and scopes[depth].repeated:
            depth -= 1
        return depth

    def result(self, instruction: str) -> str:
        """Write an instruction and return the register with its result."""
        result = self.register()
        self.lines.append(f"  {result} = {instruction}")
        return result

    def effect(self, instruction: str) -> None:
        """Write an instruction without a result."""
        self.lines.append(f"  {instruction}")

    def call(self, result: str, name: str, *arguments: tuple[str, str], flags: str = "") -> str:
        """Return the register with the result of a pure function; ``arguments`` are types and operands."""
        types = ", ".join(kind for kind, _ in arguments)
        self.module.declarations[f"declare {result} @{name}({types})"] = None
        operands = ", ".join(f"{kind} {operand}" for kind, operand in arguments)
        return self.pure(f"call {flags}{result} @{name}({operands})")

    def alloca(self, kind: str, alignment: int) -> str:
        """Return a pointer to fresh stack memory, allocated once on entry."""
        result = self.register()
        self._entry.append(f"  {result} = alloca {kind}, align {alignment}")
        return result

    def fresh_label(self, stem: str) -> str:
        """Return a fresh label."""
        self._labels += 1
        return f"{stem}{self._labels}"

    def start(self, label: str) -> None:
        """Begin a basic block."""
        self.block = label
        self.lines.append(f"{label}:")

    def branch(self, label: str) -> None:
        """End the block with a jump."""
        self.lines.append(f"  br label %{label}")

    def branch_if(self, condition: str, then: str, otherwise: str) -> None:
        """End the block with a conditional jump."""
        self.lines.append(f"  br i1 {condition}, label %{then}, label %{otherwise}")

    def loop_back(
        self,
        condition: str,
        body: str,
        done: str,
        *,
        vectorise: bool | None,
        unroll: bool | int = True,
        turns: int | None = None,
    ) -> None:
        """End a loop's last block.

        ``vectorise`` lets LLVM vectorise or forbids it, None leaves it open; ``unroll`` allows unrolling, or is the
        factor. ``turns`` is the trip count, if known: code generators assume equal trip counts, and would spill sums of
        a long loop for the constants of two short nested loops.
        """
        hints = [] if vectorise is None else [f'!{{!"llvm.loop.vectorize.enable", i1 {str(vectorise).lower()}}}']
        if not isinstance(unroll, bool):
            hints.append(f'!{{!"llvm.loop.unroll.count", i32 {unroll}}}')
        elif not unroll:
            hints.append('!{!"llvm.loop.unroll.disable"}')
        hint = ""
        if hints:
            nodes = self.module.metadata
            hint = f", !llvm.loop !{len(nodes)}"
            numbers = [f"!{len(nodes) + place}" for place in range(len(hints) + 1)]
            nodes.extend((f"distinct !{{{', '.join(numbers)}}}", *hints))
        if turns is not None:
            hint += f", !prof !{len(self.module.metadata)}"
            self.module.metadata.append(f"!{{{WEIGHTS}, i32 {min(turns - 1, _MOST_WEIGHT)}, i32 1}}")
        self.lines.append(f"  br i1 {condition}, label %{body}, label %{done}{hint}")

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Forget, at the end, instructions numbered inside, which do not dominate the rest."""
        with self._inside(_Scope(self.lines)):
            yield

    @contextmanager
    def where(self, condition: str, inside: str, behind: str) -> Iterator[None]:
        """Write code that runs if a condition holds; ``inside`` and ``behind`` are stems of labels."""
        inside, behind = self.fresh_label(inside), self.fresh_label(behind)
        self.branch_if(condition, inside, behind)
        self.start(inside)
        with self.scope():
            yield
        self.branch(behind)
        self.start(behind)

    @contextmanager
    def loop(self, body: str) -> Iterator[None]:
        """Write an iteration of a loop, which starts with the block ``body``, and the jump to it."""
        scope = _Scope([], repeated=True)
        with self._inside(scope):
            self.start(body)
            yield
        self.branch(body)
        self.lines.extend(scope.lines)

    @contextmanager
    def _inside(self, scope: _Scope) -> Iterator[None]:
        self._scopes.append(scope)
        try:
            yield
        finally:
            self._scopes.pop()
            for instruction in scope.written:
                del self._numbered[instruction]
            for key in scope.remembered:
                del self._remembered[key]

    def text(self, header: str) -> str:
        """Return the whole function with the line ``header``."""
        return "\n".join((f"{header} {{", "entry:", *self._entry, *self.lines, "}", ""))
