"""The functions that emitted code calls: only those that it needs stand above it."""

from __future__ import annotations

import attrs


@attrs.define
class Prelude:
    """Definitions by name, each after those that it needs itself."""

    _definitions: dict[str, str] = attrs.field(factory=dict, init=False)

    def function(self, name: str, result: str, params: str, body: str) -> str:
        """Have ``static inline result name(params) { body }`` above the code, and return the name."""
        if name not in self._definitions:
            lines = body.splitlines()
            inner = f" {body} }}" if len(lines) == 1 else "\n" + "".join(f"  {line}\n" for line in lines) + "}"
            self._definitions[name] = f"static inline {result} {name}({params}) {{{inner}\n\n"
        return name

    def text(self) -> str:
        """Return all definitions."""
        return "".join(self._definitions.values())
