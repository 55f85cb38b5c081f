"""Any pass of the catalogue with any of its options: numbers so small that they matter to small programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st

from strategies.catalogue import PASSES, parse_pipeline
from tileir.passes.pipelines.options import hints_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.passes.base import Pass

NUMBERS: Final[Mapping[str, tuple[float, ...]]] = {
    "ahead": (1, 2),
    "alignment": (1, 4, 16),
    "cache_bytes": (0, 64, 32768),
    "cache_width": (1, 16, 64),
    "chunk": (1, 4, 64),
    "columns": (1, 2, 3),
    "cut_bytes": (0, 64),
    "depth": (0, 1, 2, 4),
    "each": (1, 2, 3),
    "factor_bound": (0, 4),
    "far": (0, 1, 8),
    "groups": (1, 2, 4),
    "least": (2, 3, 4),
    "least_bytes": (0, 4),
    "least_outputs": (1, 2),
    "least_points": (1, 2, 100),
    "least_reuse": (1, 4),
    "least_row": (1, 2, 32),
    "line_bytes": (4, 16, 64),
    "local_bytes": (0, 64, 256, 4096),
    "max_bytes": (0, 16, 1000),
    "max_count": (0, 4),
    "max_input_size": (0, 64),
    "max_lanes": (0, 1, 2, 3, 4),
    "max_operations": (0, 4, 100),
    "max_output_size": (0, 32),
    "max_reductions": (0, 1, 3, 8),
    "max_refs": (1, 4, 64),
    "max_sizes_product": (0, 16),
    "max_statements": (1, 8, 128),
    "max_tile": (2, 4),
    "max_total_size": (0, 64),
    "mem_kib": (0, 0.25, 1, 256),
    "memory_bytes": (0, 16, 64, 256),
    "min_count": (0, 2),
    "min_out_count": (0, 2),
    "min_out_size": (0, 2),
    "min_size": (0, 2),
    "most": (1, 2, 16),
    "most_apart": (0, 9),
    "most_runs": (1, 2, 8),
    "most_threads": (1, 4, 8),
    "multiple": (1, 2, 4),
    "num_banks": (1, 2, 4),
    "num_parts": (1, 2, 3),
    "odd_limit": (1, 2, 4),
    "only_multiple_of": (1, 2),
    "only_multiples": (0, 2, 3),
    "operations": (0, 1, 100),
    "panel_bytes": (0, 64, 1 << 18),
    "part_terms": (1, 3),
    "parts": (1, 2, 3),
    "pipeline_depth": (1, 2, 3),
    "reads": (1, 8),
    "register_bytes": (0, 16, 64),
    "registers": (1, 4, 16),
    "points": (1, 2, 100),
    "rows": (1, 2, 3, 4),
    "share": (0, 1, 50),
    "split_factor": (0, 1),
    "stages": (1, 2, 3),
    "startup_cost": (0, 4),
    "stretch_bytes": (4, 16, 64),
    "threads": (1, 2, 3, 4, 8, 32),
    "threshold": (1, 2),
    "tile": (2, 4, 8),
    "unroll": (1, 2, 3, 4),
    "vector_bytes": (4, 8, 16, 32, 64),
    "vectors": (1, 2),
    "width": (1, 2, 4, 32),
    "window": (0, 1, 3),
}
"""Values of options that are numbers."""

TEXTS: Final[Mapping[str, tuple[str, ...]]] = {
    "dirs": ("in", "out", "inout", "(out,inout)"),
    "dots": ("dot_m1n8k2_i16",),
    "dtypes": ("dot_m1n8k2_i16",),
    "fragments": ("()", "mma_m16n8k16_f16", "(mma_m16n8k16_bf16,mma_m16n8k8_f32)"),
    "limits": ("()", "({name=SRAM,kib=1048576})"),
    "loc": ("DSP", "L2"),
    "locs": ("SRAM", "DRAM"),
    "match": ("{}", "{loops=(i,j)}", "{loops=(i,j),reductions=(k)}", "{kernel=kernel_0}"),
    "mem_loc": ("LOCAL", "SRAM", "L1"),
    "order": ("(1,0)", "(0,1)"),
    "parameters": ("()", "({name=rows,value=2})"),
    "laws": ('("neg(neg(x)) -> x")', '("add(x, x) -> mul(x, 2)","mul(x, x) -> pow(x, 2)")'),
    "prefix": ("SRAM",),
    "sizes": ("2", "(2,3)", "(2,2,2)"),
    "steps": (
        "(split{loop=i,by=2,into=(block,row),tail=peel},jam{loops=(row)},bind{loop=row,to=unroll})",
        "(split{loop=i1,by=2,into=(block,lane),tail=peel},jam{loops=(lane)},bind{loop=lane,to=vector})",
        "(reorder{loops=(j,i)},bind{loop=j,to=grid})",
        "(split{loop=k,by=2,into=(part,term)})",
    ),
    "stencils": ("({idxs=({name=m,size=2,outs=-1},{name=k,size=-1,outs=0})})",),
    "xfer_loc": ("DMA", "()"),
}
"""Values of options that are more than a number or a tag."""

TAGS: Final = (
    "agg_op_add", "agg_op_max", "beside", "comb_op_mul", "comb_op_none", "contraction", "eltwise", "fused", "inner",
    "kernel", "rows", "scan", "swap_in",
)  # fmt: skip
SELECTING: Final = (*TAGS, "main", "program", "loop", "all")

BEGINNINGS: Final = (
    "accumulate",
    "accumulate,fuse",
    "inline,accumulate,fuse,localise",
    "fusion",
    "fuse{sibling_reductions=true,max_reductions=8}",
    "accumulate,fusion{rows=true,least_points=1,least_row=1}",
    "schedule",
)
"""Passes whose kernels give later passes something to do."""


@st.composite
def steps(draw: st.DrawFn) -> tuple[Pass, ...]:
    """One pass with some of its options; the same one twice now and then."""
    kind = draw(st.sampled_from(PASSES))
    options = [f"{name}={draw(_values(name, hint))}" for name, hint in hints_of(kind).items() if draw(_chances(name))]
    (step,) = parse_pipeline(f"{kind.name}{{{','.join(options)}}}" if options else kind.name)
    return (step, step) if draw(st.integers(0, 11)) == 11 else (step,)


def _chances(name: str) -> st.SearchStrategy[bool]:
    often = name in ("least", "operations", "vector_bytes")
    return st.sampled_from((False, True)) if often else st.sampled_from((False, False, False, True))


def _values(name: str, hint: object) -> st.SearchStrategy[str]:
    if hint is bool:
        return st.sampled_from(("true", "false"))
    if name in NUMBERS:
        return st.sampled_from(NUMBERS[name]).map(str)
    if name in TEXTS:
        return st.sampled_from(TEXTS[name])
    if hint == tuple[str, ...]:
        return st.sampled_from(SELECTING if name.endswith("reqs") else TAGS)
    return st.just({"candidates": "()", "memory": "()"}.get(name, "4" if hint in (int, float) else '"x"'))


@st.composite
def pipelines(draw: st.DrawFn, most: int = 6) -> tuple[Pass, ...]:
    """Pipelines of any passes in any order."""
    begun = parse_pipeline(draw(st.sampled_from(BEGINNINGS))) if draw(st.booleans()) else ()
    return (*begun, *(step for several in draw(st.lists(steps(), min_size=1, max_size=most)) for step in several))
