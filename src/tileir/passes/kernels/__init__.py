"""Analysis, change and replacement of kernels, shared by the passes over them. The package re-exports it."""

from tileir.passes.kernels.expansion import called_block as called_block, left as left
from tileir.passes.kernels.forms import (
    SCHEDULED as SCHEDULED,
    against_parallel as against_parallel,
    against_plain as against_plain,
    against_plain_places as against_plain_places,
    against_reading as against_reading,
    against_scalars as against_scalars,
    against_varying_places as against_varying_places,
    cleared_scatter as cleared_scatter,
    crossing_indices as crossing_indices,
    elementwise_nest as elementwise_nest,
    may_overlap as may_overlap,
    unscheduled_elementwise as unscheduled_elementwise,
    unscheduled_reduction as unscheduled_reduction,
)
from tileir.passes.kernels.merge import (
    joined as joined,
    merged as merged,
    nest_of as nest_of,
    reduction_nest as reduction_nest,
    with_joined_rows as with_joined_rows,
)
from tileir.passes.kernels.schedule import (
    divisor_near as divisor_near,
    is_scheduled as is_scheduled,
    power_of_two_below as power_of_two_below,
    vector_lanes as vector_lanes,
)
