"""Warps of a kernel with roles, and the threads that take the steps of its channels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from tileir.semtree.clusters import channels_of_clusters
from tileir.semtree.ir import WARP, Channel, ChannelStep, KernelFunction, Stmt, WarpRole
from tileir.semtree.rewrite import statements


def roles(kernel: KernelFunction) -> tuple[WarpRole, ...]:
    """Return the roles of a kernel, in their order."""
    return tuple(stmt for stmt in kernel.body if isinstance(stmt, WarpRole))


def threads_of(role: WarpRole) -> range:
    """Return the numbers of the threads of a role, in all teams."""
    return range(role.first * WARP, (role.first + role.warps * role.teams) * WARP)


def teams_of(role: WarpRole) -> tuple[range, ...]:
    """Return the numbers of the threads of each team of a role."""
    threads, team = threads_of(role), role.warps * WARP
    return tuple(threads[team * number : team * (number + 1)] for number in range(role.teams))


def releasing(kernel: KernelFunction) -> Mapping[str, int]:
    """Return the number of threads that release messages of each channel: without roles, the group or cluster."""
    parts = [(role.body, len(threads_of(role))) for role in roles(kernel)]
    joint = channels_of_clusters(kernel)
    counts: dict[str, int] = {}
    for body, threads in parts or [(kernel.body, math.prod(kernel.group))]:
        for name in dict.fromkeys(_released(body)):
            counts[name] = counts.get(name, 0) + threads * (kernel.cluster if name in joint else 1)
    return counts


def _released(body: tuple[Stmt, ...]) -> Iterator[str]:
    for stmt in statements(body):
        if isinstance(stmt, Channel) and stmt.step is ChannelStep.RELEASE:
            yield stmt.channel.array
