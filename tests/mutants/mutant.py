"""Description of a planted fault."""

from __future__ import annotations

import attrs


@attrs.frozen
class Mutant:
    """One fault.

    Attributes:
        name: What to call it.
        module: The module, without ``tileir.`` before it; one of a back end or of tileir-accelerators with all of it.
        old: A piece of its source, which stands there once.
        new: What to put there.
        passes: Passes that show it, as a pipeline's text; empty where those of targets do.
        tests: Tests that show it, a file below ``tests``: of what no program of the nets leads to.

    """

    name: str
    module: str
    old: str
    new: str
    passes: str = ""
    tests: str = ""

    @property
    def is_emitter(self) -> bool:
        """Say whether the module belongs to a back end."""
        return self.module.startswith("tileir_") and not self.module.startswith("tileir_accelerators.")

    @property
    def path(self) -> str:
        """The module as Python imports it."""
        return self.module if self.module.startswith("tileir_") else f"tileir.{self.module}"
