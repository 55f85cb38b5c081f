"""Which kernels of a program must stay in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tileir.stripe.ir import views_read, views_written

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.stripe.ir import Program, Statement


def roots(program: Program) -> dict[str, str]:
    """Return the allocation behind each refinement of ``main``, by its name there."""
    return {r.name: r.source or r.name for r in program.main.refinements}


@attrs.define
class DependenceScan:
    """Sees kernels in program order, and tells on which earlier ones each depends.

    A kernel depends on the last writer of what it touches and, for what it writes, on the readers since then. Older
    dependences follow through these.
    """

    _roots: Mapping[str, str]
    _writer: dict[str, int] = attrs.field(factory=dict, init=False)
    _readers: dict[str, list[int]] = attrs.field(factory=dict, init=False)

    def visit(self, number: int, kernel: Statement) -> set[int]:
        """Return the numbers of the kernels on which ``kernel`` directly depends, and remember it as ``number``."""
        reads = {self._roots[name] for name in views_read(kernel)}
        writes = {self._roots[name] for name in views_written(kernel)}
        found = {self._writer[root] for root in reads | writes if root in self._writer}
        for root in writes:
            found.update(self._readers.pop(root, ()))
            self._writer[root] = number
        for root in reads - writes:
            self._readers.setdefault(root, []).append(number)
        return found - {number}
