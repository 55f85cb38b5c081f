"""Selection of results of a function, with the statements that they need."""

from __future__ import annotations

from tileir.core import ArgumentError, attrs, nearest
from tileir.tile.checks.unused import defined, needed_names
from tileir.tile.checks.verifier import verify
from tileir.tile.ir import Function


def returning(function: Function, names: tuple[str, ...]) -> Function:
    """Return the function with only some outputs, in this order; see :meth:`tileir.Function.returning`."""
    outputs = {output.name: output for output in function.outputs}
    unknown = [name for name in names if name not in outputs]
    if unknown:
        raise ArgumentError.of("TIL710", f"there is no output {unknown[0]!r}{nearest(unknown[0], outputs)}")
    if not names or len(set(names)) < len(names):
        raise ArgumentError.of("TIL710", f"name some of the outputs {', '.join(outputs)}, each once")
    if names == tuple(outputs):
        return function
    left = attrs.evolve(function, outputs=tuple(outputs[name] for name in names))
    needed = needed_names(left, asserting=False)
    statements = tuple(each for each in function.statements if not needed.isdisjoint(defined(each)))
    chosen = attrs.evolve(left, statements=statements)
    verify(chosen)
    return chosen
