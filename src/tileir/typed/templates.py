"""Templates of gradients: values between an upstream and its override, which are known only when differentiating.

Upstreams are scoped as variables are: an override binds its own in its gradients, and templates may nest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from tileir.typed.ir import Operation, Override, Upstream, operands

_NONE: Final[frozenset[str]] = frozenset()


def free_upstreams(operations: Iterable[Operation]) -> dict[str, frozenset[str]]:
    """Return the upstreams that each value needs and no override around it binds; values without any are left out.

    A function is complete if none of its outputs is a key.
    """
    free: dict[str, frozenset[str]] = {}
    for operation in operations:
        if isinstance(operation, Upstream):
            free[operation.name] = frozenset((operation.name,))
        elif free:
            needed = _NONE.union(*_needs(operation, free))
            if needed:
                free[operation.name] = needed
    return free


def _needs(operation: Operation, free: Mapping[str, frozenset[str]]) -> Iterator[frozenset[str]]:
    if not isinstance(operation, Override):
        yield from (free[name] for name in operands(operation) if name in free)
        return
    yield free.get(operation.input, _NONE)
    for value, gradient in operation.pairs:
        yield free.get(value, _NONE)
        yield free.get(gradient, _NONE) - {operation.upstream or ""}
