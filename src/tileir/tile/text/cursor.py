"""A place in the tokens of a Tile text, and what is passed over after a fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tileir.core.text.lexing import Cursor as CoreCursor
from tileir.tile.text.lexer import Lexer

if TYPE_CHECKING:
    from tileir.core.text.lexing import Faults
    from tileir.core.text.span import Source


@attrs.define
class Cursor(CoreCursor):
    """The token that is looked at, and where the one before it stopped."""

    tokens: Lexer

    @classmethod
    def at_start(cls, source: Source, faults: Faults) -> Cursor:
        """Look at the first token of ``source``."""
        lexer = Lexer(source, faults)
        return cls(source, faults, lexer.next(), lexer)

    def recover(self) -> None:
        """Pass over the rest of a statement: look at the next ``;`` or ``}``."""
        self.tokens.skip_statement(self.token.start)
        self.token = self.tokens.next()

    def recover_header(self) -> None:
        """Pass over the rest of a function's header: look at the next ``{``."""
        self.tokens.skip_header(self.token.start)
        self.token = self.tokens.next()
