"""Rules of clusters: what their groups copy for each other, and when they may leave."""

from __future__ import annotations

from collections.abc import Iterator

from tileir.core.errors import Diagnostic
from tileir.semtree.check.scopes import Survey
from tileir.semtree.clusters import channels_of_clusters, part_of
from tileir.semtree.ir import Barrier, BulkCopy, Scope


def check_clusters(survey: Survey) -> Iterator[Diagnostic]:
    """Boxes for clusters have equal parts, and no group leaves while others may still write into its memory."""
    kernel = survey.kernel
    if BulkCopy not in survey.kinds:
        return
    for stmt in survey.statements:
        if isinstance(stmt, BulkCopy) and part_of(stmt, kernel) is None:
            message = f"the box {stmt.box} of {stmt.target.array!r} has no equal parts for {kernel.cluster} groups"
            yield Diagnostic("TIL551", f"{message}: copy it to each group alone")
    if kernel.body[-1:] != (Barrier(Scope.CLUSTER),) and (names := sorted(channels_of_clusters(kernel))):
        message = f"groups of a cluster write into each other's memory by the channel {names[0]!r}: end the kernel with"
        yield Diagnostic("TIL555", f"{message} 'barrier() of cluster', so that none leaves before others have done so")
