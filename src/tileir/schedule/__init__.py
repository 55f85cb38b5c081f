"""Schedules of kernels: kernels taken apart into loops and statements, and steps that rearrange them.

What passes speak of is handed on here: nests, what a pass says of kernels, and indices under other names.
"""

from tileir.schedule.nest import (
    Nest as Nest,
    Node as Node,
    Segment as Segment,
    Use as Use,
    analyse as analyse,
    chosen_by_data as chosen_by_data,
    emit as emit,
    leaf as leaf,
    product as product,
    with_one_range_each as with_one_range_each,
)
from tileir.schedule.reindex import (
    moved as moved,
    reindexed as reindexed,
    renamed as renamed,
    with_values as with_values,
)
from tileir.schedule.remarks import (
    Done as Done,
    Fact as Fact,
    Refused as Refused,
    Remark as Remark,
    Remarks as Remarks,
    accepted as accepted,
    done as done,
    facts_text as facts_text,
    listener as listener,
    listening as listening,
    refused as refused,
    refusing as refusing,
    remark as remark,
    rule_out as rule_out,
    strongest as strongest,
)
