"""Subjects of the rules of a kernel, collected in one walk: statements with the names visible there, and nodes."""

from __future__ import annotations

from functools import cached_property
from typing import TypeAlias

from tileir.core.nodes import attrs, schema
from tileir.semtree.ir import Const, Declare, DeclareArray, Expr, For, KernelFunction, Param, Stmt, Subscript, Var
from tileir.semtree.rewrite import statements

Declared: TypeAlias = Param | DeclareArray | Declare | For
"""A node that introduces a name; a loop introduces its counter."""

Use: TypeAlias = tuple[Var | Subscript, Declared | None]
"""A variable or subscript, with the declaration of its name there; None if it is not visible."""


@attrs.frozen(eq=False)
class ScopedStatement:
    """A statement with the names visible right before it.

    Attributes:
        stmt: The statement; nested statements are listed separately.
        uses: Its variables and subscripts, including those that it only writes or names, each object once.
        hidden: The visible declaration of the name that the statement introduces, if any.
    """

    stmt: Stmt
    uses: tuple[Use, ...]
    hidden: Declared | None

    def meaning(self, of: Expr) -> Declared | None:
        """Return the declaration of the name of one of the uses."""
        return next((known for node, known in self.uses if node is of), None)


@attrs.frozen(eq=False, slots=False)
class Survey:
    """A kernel, with the subjects of its rules, collected on first use."""

    kernel: KernelFunction

    @cached_property
    def statements(self) -> tuple[Stmt, ...]:
        """All statements, in the order of the text."""
        return tuple(statements(self.kernel.body))

    @cached_property
    def kinds(self) -> frozenset[type]:
        """The classes of the statements."""
        return frozenset(map(type, self.statements))

    @property
    def scoped(self) -> tuple[ScopedStatement, ...]:
        """All statements, in the order of the text; nesting is bounded, so recursion is safe.

        If a visible name is declared again, the first declaration counts.
        """
        return tuple(self._walked.scoped)

    @property
    def nodes(self) -> tuple[Expr, ...]:
        """Every expression, in the order of the text; shared objects come once."""
        return tuple(self._walked.nodes.values())

    @cached_property
    def _walked(self) -> _Walk:
        walk = _Walk()
        for param in self.kernel.params:
            walk.visible.setdefault(param.name, param)
        walk.body(self.kernel.body)
        return walk


@attrs.define(eq=False, repr=False)
class _Walk:
    scoped: list[ScopedStatement] = attrs.field(factory=list)
    nodes: dict[int, Expr] = attrs.field(factory=dict)
    visible: dict[str, Declared] = attrs.field(factory=dict)

    def body(self, stmts: tuple[Stmt, ...]) -> None:
        local: list[str] = []
        visible = self.visible
        for stmt in stmts:
            names = schema.introduced(stmt)
            name = names[0] if names else None
            hidden = visible.get(name) if name is not None else None
            self.scoped.append(ScopedStatement(stmt, self._uses(stmt), hidden))
            new = name is not None and hidden is None
            if isinstance(stmt, For):
                if new:
                    visible[stmt.counter.name] = stmt
                self.body(stmt.body)
                if new:
                    del visible[stmt.counter.name]
            elif isinstance(stmt, Declare | DeclareArray):
                if new and name is not None:
                    visible[name] = stmt
                    local.append(name)
            else:
                for body in schema.bodies(stmt):
                    self.body(body)
        for name in local:
            del visible[name]

    def _uses(self, stmt: Stmt) -> tuple[Use, ...]:
        """Return the variables and subscripts of a statement, and record all its nodes."""
        found: list[Use] = []
        seen: set[int] = set()
        nodes, visible = self.nodes, self.visible
        stack = list(reversed(schema.mentions(stmt)))
        while stack:
            node = stack.pop()
            key = id(node)
            if key in seen:
                continue
            seen.add(key)
            nodes[key] = node
            kind = type(node)
            if kind is Var:
                found.append((node, visible.get(node.name)))
            elif kind is not Const:
                if kind is Subscript:
                    found.append((node, visible.get(node.array)))
                stack.extend(reversed(schema.operands(node)))
        return tuple(found)
