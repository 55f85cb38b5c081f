"""Passes of the catalogue with options, for pipelines at random."""

from __future__ import annotations

from typing import Final

from strategies.catalogue import PASSES, parse_pipeline

OPTIONS: Final = (
    "autotile{memory_bytes=64,inner_set=inner}",
    "autotile{only_po2=true,fast=true,memory_bytes=32}",
    "cache{odd_size=true,mem_loc=LOCAL}",
    "cache{reqs=inner,dirs=(out,inout)}",
    "canonicalise{merge=false}",
    "compute_deps{reqs=main}",
    "fuse{max_reductions=3}",
    "fuse{parent_reqs=fused,siblings=false}",
    "fuse{siblings=false}",
    "fusion{least_points=100}",
    "fusion{rows=true,least_row=2}",
    "fusion{siblings=false,a_inner_set=a,inner_remove_set=eltwise}",
    "group_rows{threads=4,vector_bytes=8,width=2,register_bytes=16}",
    "localise{sink=true}",
    "locate_block{loc=DSP}",
    "locate_memory{loc=DRAM}",
    "locate_memory{reqs=kernel,loc=L2,append_devs=true}",
    "pad{multiple=4,threshold=2,finite=true}",
    'partition_compute{num_parts=2,loc={name=CONV,units="#part"}}',
    "partition_memory{num_parts=2}",
    "register_tile{vector_bytes=16,rows=2,columns=1,threads=2}",
    "register_transpose{vector_bytes=16,max_tile=2,rows=4,columns=4}",
    "combine{vector_bytes=8,parts=2,part_terms=4}",
    "scan{least=2,vector_bytes=8,parts=2,part_terms=1}",
    "scan{least=2,threads=4,each=2,local_bytes=4096}",
    "schedule{mem_kib=0,num_banks=2,window=0}",
    "schedule{reqs=kernel,pipeline_depth=2}",
    "separate{least=1,share=1,operations=0}",
    "split_reduction{parts=2,operations=1}",
    "split_rows{parts=3,row_bytes=8,rows=9}",
    "split_scatter{parts=4,updates=1}",
    "stream_reduction{vector_bytes=16}",
    "tensorise{reqs=agg_op_add,startup_cost=0,stencils=({idxs=({name=m,size=2,outs=-1},{name=k,size=-1,outs=0})})}",
    "thread_inner{threads=4}",
    "thread{groups=4}",
    "transpose{least_reuse=1}",
    "unroll{mark=true}",
    "unroll{most=4}",
    "vectorise_inner{vector_bytes=16}",
    "vectorise_reduction{vector_bytes=16}",
    "vectorise_reduction{vector_bytes=8,unroll=2,rows=2}",
    "vectorise{vector_bytes=16}",
    "window{least=2,least_outputs=1}",
)
"""Passes that have something to do in small programs, unlike some of the defaults."""

STEPS: Final = (*(kind() for kind in PASSES), *(step for text in OPTIONS for step in parse_pipeline(text)))
