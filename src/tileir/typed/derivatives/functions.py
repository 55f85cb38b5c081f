"""Gradients of typed functions as typed functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tileir.core.dtype import arithmetic_type
from tileir.core.ops import Op
from tileir.typed.derivatives.reverse import reverse
from tileir.typed.inference.emission import Emission
from tileir.typed.inference.values import Tensor
from tileir.typed.ir import Elementwise
from tileir.typed.simplify.simplifier import simplify

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileir.typed.ir import Function


def gradient(function: Function, wrt: Sequence[str], of: Sequence[str], *, even_ties: bool) -> Function:
    """Return the function of ``DX`` for each X of ``wrt``: the gradient of the sum of all elements of ``of``.

    Args:
        function: One that :func:`tileir.typed.verifier.verify` accepts.
        wrt: Names of float values of the function.
        of: Names of float values of the function.
        even_ties: Whether what arrives at a maximum or minimum is split evenly among tied elements.

    """
    emission = Emission.resuming(function)
    names = [emission.names.fresh(f"D{name}") for name in wrt]
    results, values = ([_tensor(emission, name) for name in group] for group in (of, wrt))
    ones = [emission.constant(1.0, arithmetic_type(y.dtype)) for y in results]
    found = reverse(emission, results, ones, values, even_ties=even_ties)
    for name, value in zip(names, found, strict=True):
        emission.add(Elementwise(name, Op.IDENT, (value.name,), value.dtype, value.shape))
    return simplify(attrs.evolve(function, outputs=tuple(names), operations=tuple(emission.operations)))


def _tensor(emission: Emission, name: str) -> Tensor:
    definition = emission.definitions[name]
    return Tensor(name, definition.dtype, definition.shape)
