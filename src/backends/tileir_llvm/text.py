"""The text of one LLVM function under construction.

Pure instructions are numbered by their text: one that was written before, where it dominates, is not written
again. This keeps unrolled kernels small, which is most of their compile time.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tileir.semtree.ir import Type


@attrs.frozen
class Value:
    """An operand: its text, its type, and its integer value (of every lane) where that is known.

    Attributes:
        text: A register or a constant.
        type: The type in the sense of the semtree.
        known: The value of every lane of a bool or integer constant, else None.
        ramp: For integer vectors ``(base, step)`` where lane number ``k`` is ``base + k * step``, else None.

    """

    text: str
    type: Type
    known: int | None = None
    ramp: tuple[Value, int] | None = None


@attrs.define
class ModuleText:
    """What the functions of a module share, and the finished functions.

    ``float_flags`` are the fast-math flags of float operations, each followed by a blank.
    """

    float_flags: str = ""
    declarations: dict[str, None] = attrs.field(factory=dict, init=False)
    functions: list[str] = attrs.field(factory=list, init=False)
    metadata: list[str] = attrs.field(factory=list, init=False)

    def text(self) -> str:
        """Return the whole module."""
        numbered = (f"!{number} = {node}" for number, node in enumerate(self.metadata))
        return "\n".join((*self.functions, *self.declarations, *numbered, ""))


@attrs.define
class FunctionText:
    """Lines of one function of ``module``."""

    module: ModuleText
    lines: list[str] = attrs.field(factory=list, init=False)
    block: str = attrs.field(default="entry", init=False)
    _entry: list[str] = attrs.field(factory=list, init=False)
    _numbered: dict[str, str] = attrs.field(factory=dict, init=False)
    _written: list[str] = attrs.field(factory=list, init=False)
    _registers: int = attrs.field(default=0, init=False)
    _labels: int = attrs.field(default=0, init=False)

    def register(self) -> str:
        """Return a fresh register."""
        self._registers += 1
        return f"%v{self._registers}"

    def pure(self, instruction: str) -> str:
        """Return the register that holds the result of an instruction without effects."""
        found = self._numbered.get(instruction)
        if found is not None:
            return found
        result = self.result(instruction)
        self._numbered[instruction] = result
        self._written.append(instruction)
        return result

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
        """Return a pointer to fresh stack memory, which is taken once when the function is entered."""
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

    def loop_back(self, condition: str, body: str, done: str, *, vectorise: bool | None, unroll: bool = True) -> None:
        """End a loop's last block.

        ``vectorise`` tells LLVM whether to run several iterations at once, None lets it; ``unroll`` lets it repeat the
        body.
        """
        hints = [] if vectorise is None else [f'!{{!"llvm.loop.vectorize.enable", i1 {str(vectorise).lower()}}}']
        hints += [] if unroll else ['!{!"llvm.loop.unroll.disable"}']
        hint = ""
        if hints:
            nodes = self.module.metadata
            hint = f", !llvm.loop !{len(nodes)}"
            numbers = [f"!{len(nodes) + place}" for place in range(len(hints) + 1)]
            nodes.extend((f"distinct !{{{', '.join(numbers)}}}", *hints))
        self.lines.append(f"  br i1 {condition}, label %{body}, label %{done}{hint}")

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Forget, at the end, the instructions numbered inside: they do not dominate what follows."""
        mark = len(self._written)
        try:
            yield
        finally:
            for instruction in self._written[mark:]:
                del self._numbered[instruction]
            del self._written[mark:]

    def text(self, header: str) -> str:
        """Return the whole function under the line ``header``."""
        return "\n".join((f"{header} {{", "entry:", *self._entry, *self.lines, "}", ""))
