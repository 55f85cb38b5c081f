"""Parser of the text of :mod:`tileir.semtree.text.printer`, to an equal kernel or program.

Names, types and nesting are checked while reading, so that faults point into the text. After a fault in a
statement, reading continues with the next one; rules about whole kernels are left to the verifier.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from tileir.core import DType, attrs
from tileir.core.text.lexing import END, AbandonError, everything, source_of
from tileir.semtree.check.type_rules import MAX_NESTING
from tileir.semtree.ir import (
    Assign,
    Branch,
    Buffer,
    BufferRole,
    Declare,
    DeclareArray,
    For,
    If,
    KernelFunction,
    Launch,
    Loop,
    LoopKind,
    Param,
    Program,
    Stmt,
    Subscript,
    Type,
    Var,
    WarpRole,
    While,
    Work,
)
from tileir.semtree.launches import MAX_NESTED_WORKS
from tileir.semtree.text.cursor import WORD, Cursor, HopelessError
from tileir.semtree.text.expression_parser import ExpressionParser
from tileir.semtree.text.language import STATEMENTS, OperandReader, Reader
from tileir.semtree.text.syntax import type_of

T = TypeVar("T")


def parse_kernel(text: str, name: str = "<kernel>") -> KernelFunction:
    """Return the kernel that a text describes; errors call the text ``name``.

    Raises:
        ParseError: the text is no kernel; one diagnostic for each faulty statement.
    """
    return _parsed(text, name, lambda parser: parser.kernel())


def parse_program(text: str, name: str = "<program>") -> Program:
    """Return the program that a text describes; errors call the text ``name``.

    Raises:
        ParseError: the text is no program; one diagnostic for each faulty statement.
    """
    return _parsed(text, name, lambda parser: parser.program())


def _parsed(text: str, name: str, read: Callable[[_Parser], T]) -> T:
    source = source_of(text, name)

    def whole(cursor: Cursor) -> T:
        try:
            return read(_Parser(cursor))
        except RecursionError:
            # The limits on nesting leave room, but the caller's own stack may have none.
            cursor.fail("TIL103", "this is nested too deeply to be read here")

    return everything(Cursor, source, whole)


@attrs.define(eq=False, repr=False)
class _Parser:
    """Parser of programs, kernels and statements."""

    cursor: Cursor

    def program(self) -> Program:
        """Read a program."""
        cursor = self.cursor
        cursor.expect("program")
        cursor.expect("{")
        buffers: list[Buffer] = []
        kernels: list[KernelFunction] = []
        works: list[Work] = []
        roles = {role.value for role in BufferRole}
        while not cursor.accept("}"):
            if cursor.token.text in roles:
                buffers.append(Reader(cursor).node(Buffer, {}))
                cursor.expect(";")
            elif cursor.at("kernel"):
                kernels.append(self.kernel())
            elif any(map(cursor.at, WORDS)):
                works.append(parse_work(cursor))
            else:
                cursor.reject(f"a buffer, a kernel, {', '.join(WORDS)} or '}}'")
        return Program(tuple(kernels), tuple(buffers), tuple(works))

    def kernel(self) -> KernelFunction:
        """Read a kernel."""
        cursor = self.cursor
        comments = cursor.comments()
        cursor.expect("kernel")
        name = cursor.name().text
        with cursor.scope():
            params = cursor.enclosed(self._param)
            header = self._facts(KernelFunction(name, params, (), comments=comments))
            return attrs.evolve(header, body=_Body(self, ExpressionParser(cursor, header)).block())

    def _param(self) -> Param:
        reader = Reader(self.cursor)
        param: Param = reader.node(Param, {})
        if reader.declared is not None:
            self.cursor.declare(reader.declared, param.dtype)
        return param

    def _facts(self, kernel: KernelFunction) -> KernelFunction:
        """Read the launch grid and other clauses between the parameters and the body."""
        cursor = self.cursor
        while not cursor.at("{"):
            word = cursor.advance()
            if word.text in ("grid", "group"):
                extents = cursor.enclosed(cursor.integer)
                same = word.text == "grid"
                kernel = attrs.evolve(kernel, grid=extents) if same else attrs.evolve(kernel, group=extents)
            elif word.text == "cluster":
                kernel = attrs.evolve(kernel, cluster=cursor.inside(cursor.integer))
            elif word.text == "index":
                kernel = attrs.evolve(kernel, index=cursor.inside(self._index))
            elif word.text == "operations":
                kernel = attrs.evolve(kernel, operations=cursor.inside(cursor.integer))
            else:
                cursor.fail("TIL102", "expected grid, group, cluster, index, operations or '{'", cursor.span_of(word))
        return kernel

    def _index(self) -> DType:
        span = self.cursor.here
        dtype = self.cursor.dtype()
        if not dtype.is_integer:
            self.cursor.fail("TIL552", "indices are signed integers", span)
        return dtype

    def recover(self, compound: bool) -> None:
        """Step past a faulty statement; a ``compound`` one ends with a block."""
        self._skip_statement(compound)
        while compound and self.cursor.accept("else"):
            self._skip_statement(compound)

    def _skip_statement(self, compound: bool) -> None:
        """Step past the next semicolon, or past the next block for a compound statement."""
        cursor, depth = self.cursor, 0
        while cursor.token.kind != END and not (cursor.at("}") and depth == 0):
            token = cursor.advance()
            depth += (token.kind == "{") - (token.kind == "}")
            if depth == 0 and (token.kind == "}" or (token.kind == ";" and not compound)):
                return


@attrs.define(eq=False, repr=False)
class _Body:
    """Parser of the statements of one kernel."""

    parser: _Parser
    expressions: ExpressionParser
    _nesting: int = attrs.field(default=-1, init=False)

    @property
    def cursor(self) -> Cursor:
        """The place in the text."""
        return self.parser.cursor

    def block(self) -> tuple[Stmt, ...]:
        """Read statements between braces."""
        cursor = self.cursor
        opening = cursor.expect("{")
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            cursor.fail("TIL103", f"statements are nested more than {MAX_NESTING} deep", cursor.span_of(opening))
        stmts: list[Stmt] = []
        nesting = self._nesting
        with cursor.scope():
            while not cursor.at("}"):
                if cursor.token.kind == END:
                    cursor.reject("'}'")
                compound = any(map(cursor.at, ("for", "if", "role")))
                try:
                    stmts.append(self._statement())
                except HopelessError:
                    raise
                except AbandonError:
                    if cursor.token.kind == END:
                        raise
                    self._nesting = nesting
                    self.expressions.restart()
                    self.parser.recover(compound)
        cursor.expect("}")
        self._nesting -= 1
        return tuple(stmts)

    def _statement(self) -> Stmt:
        cursor = self.cursor
        word = cursor.token.text if cursor.token.kind == WORD else ""
        if type_of(word) is not None:
            return self._declare()
        if word == "for":
            return self._loop()
        if word == "if":
            return self._branch()
        if word == "role":
            return self._role()
        if word in STATEMENTS:
            reader = OperandReader(cursor, self.expressions)
            stmt: Stmt = reader.node(STATEMENTS[word], {})
            cursor.expect(";")
            if isinstance(stmt, DeclareArray) and reader.declared is not None:
                cursor.declare(reader.declared, stmt.dtype)
            return stmt
        return self._assign()

    def _declare(self) -> Stmt:
        kind = self.cursor.kind()
        name = self.cursor.name()
        try:
            self.cursor.expect("=")
            value = self.expressions.of_type(self.expressions.expression(), kind)
        finally:
            # Declared even if the value is at fault, so that later uses are not reported too.
            self.cursor.declare(name, kind)
        self.cursor.expect(";")
        return Declare(Var(name.text, kind), value)

    def _assign(self) -> Stmt:
        target = self.expressions.reference()
        if not isinstance(target.expr, Var | Subscript):
            self.cursor.fail("TIL102", "only a variable or array elements can be assigned", target.span)
        self.cursor.expect("=")
        value = self.expressions.of_type(self.expressions.expression(), target.expr.type)
        self.cursor.expect(";")
        return Assign(target.expr, value)

    def _loop(self) -> Stmt:
        cursor, expressions = self.cursor, self.expressions
        cursor.advance()
        cursor.expect("(")
        kind = cursor.kind()
        name = cursor.name()
        cursor.expect("=")
        begin = expressions.of_type(expressions.expression(), kind)
        cursor.expect(";")
        self._again(name.text)
        cursor.expect("<")
        end = expressions.of_type(expressions.expression(), kind)
        cursor.expect(";")
        self._again(name.text)
        cursor.expect("+=")
        step = cursor.integer()
        cursor.expect(")")
        loop_kind = LoopKind.SERIAL if cursor.at("{") else cursor.one_of(_LOOP_KINDS)
        with cursor.scope():
            cursor.declare(name, kind)
            return For(Var(name.text, kind), begin, end, step, self.block(), loop_kind)

    def _again(self, counter: str) -> None:
        span = self.cursor.here
        if self.cursor.name().text != counter:
            self.cursor.fail("TIL102", f"expected the counter {counter!r} again", span)

    def _branch(self) -> Stmt:
        cursor, expressions = self.cursor, self.expressions
        cursor.advance()
        condition = cursor.inside(lambda: expressions.of_type(expressions.expression(), Type(DType.BOOL)))
        then = self.block()
        return If(condition, then, self.block() if cursor.accept("else") else ())

    def _role(self) -> Stmt:
        cursor = self.cursor
        start = cursor.advance()
        place = cursor.enclosed(cursor.integer)
        if len(place) != 2:
            cursor.fail("TIL102", "a role has a first warp, and so many of them", cursor.span_of(start))
        teams = cursor.inside(cursor.integer) if cursor.accept("teams") else 1
        registers = cursor.inside(cursor.integer) if cursor.accept("registers") else 0
        return WarpRole(*place, self.block(), registers, teams)


_LOOP_KINDS: Final = {kind.value: kind for kind in LoopKind}


WORDS: Final = ("launch", "repeat", "while", "if")
"""First words of works."""


def parse_work(cursor: Cursor, depth: int = 0) -> Work:
    """Read a launch, a loop or a branch, which is nested in ``depth`` others.

    Raises:
        AbandonError: the text is no work, or nested too deeply, which is reported.
    """
    word = cursor.token
    if word.text not in WORDS:
        cursor.reject(f"{', '.join(WORDS)} or '}}'")
    if cursor.at("launch"):
        launch: Launch = Reader(cursor).node(Launch, {})
        cursor.expect(";")
        return launch
    if depth == MAX_NESTED_WORKS:
        message = f"more than {MAX_NESTED_WORKS} loops and branches inside one another"
        cursor.fail("TIL103", message, cursor.span_of(word))
    cursor.advance()
    if word.text == "repeat":
        return Loop(cursor.integer(), _block(cursor, depth))
    condition = cursor.inside(cursor.name).text
    works = _block(cursor, depth)
    if word.text == "while":
        return Loop(While(condition), works)
    return Branch(condition, works, _block(cursor, depth) if cursor.accept("else") else ())


def _block(cursor: Cursor, depth: int) -> tuple[Work, ...]:
    cursor.expect("{")
    works: list[Work] = []
    while not cursor.accept("}"):
        works.append(parse_work(cursor, depth + 1))
    return tuple(works)
