"""Which module each pass is in. Nothing registers itself: this page is the list."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

FILES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "accumulate": "algorithms.accumulate",
        "autotile": "tiling.autotile",
        "block_sums": "algorithms.block_sums",
        "bound_places": "rewrites.bound_places",
        "cache": "placement.cache",
        "canonicalise": "rewrites.canonicalise",
        "combine": "algorithms.combine",
        "compute_deps": "analysis.compute_deps",
        "constant_propagate": "rewrites.constant_propagate",
        "dead_code": "rewrites.dead_code",
        "deinterleave": "layouts.deinterleave",
        "distribute": "schedules.groups.distribute",
        "forward": "rewrites.forward",
        "fuse": "fusion.fuse",
        "fusion": "fusion.fuse",
        "group_contraction": "schedules.groups.group_contraction",
        "group_elementwise": "schedules.groups.group_elementwise",
        "group_reduction": "schedules.groups.group_reduction",
        "group_rows": "schedules.groups.group_rows",
        "group_transpose": "schedules.groups.group_transpose",
        "immediates": "rewrites.immediates",
        "inline": "fusion.inline",
        "inline_stencil": "fusion.inline_stencil",
        "join_border": "regions.join_border",
        "join_strips": "regions.join_strips",
        "localise": "rewrites.localise",
        "locate_block": "placement.locate",
        "locate_inner_block": "placement.locate",
        "locate_memory": "placement.locate",
        "matrix_contraction": "schedules.groups.matrix_contraction",
        "memory_placement": "placement.memory_placement",
        "order_loops": "tiling.order_loops",
        "pad": "layouts.pad",
        "partition_compute": "placement.partition",
        "partition_memory": "placement.partition",
        "permute_gather": "schedules.vectors.permute_gather",
        "prefetch": "tiling.prefetch",
        "reduce_constraints": "rewrites.reduce_constraints",
        "register_tile": "schedules.registers.register_tile",
        "register_transpose": "schedules.vectors.register_transpose",
        "rewrite_locations": "placement.locate",
        "scalarise": "rewrites.scalarise",
        "scan": "algorithms.scan",
        "schedule": "placement.schedule_memory",
        "separate": "regions.separate",
        "shadow": "rewrites.shadow",
        "split_border": "regions.split_border",
        "split_reduction": "algorithms.split_reduction",
        "split_scatter": "algorithms.split_scatter",
        "stream_reduction": "schedules.vectors.stream_reduction",
        "strips": "regions.strips",
        "tensorise": "tiling.tensorise",
        "thread": "schedules.vectors.thread",
        "thread_inner": "tiling.thread_inner",
        "tile": "tiling.tile",
        "transpose": "layouts.transpose",
        "two_step_window": "algorithms.two_step_window",
        "unroll": "tiling.unroll",
        "unroll_window": "algorithms.unroll_window",
        "vectorise": "schedules.vectors.vectorise",
        "vectorise_inner": "tiling.vectorise_inner",
        "vectorise_reduction": "schedules.vectors.vectorise_reduction",
        "vectorise_short": "schedules.vectors.vectorise_short",
        "window": "algorithms.window",
    }
)
"""Modules below ``tileir.passes``, by the names of the passes."""
