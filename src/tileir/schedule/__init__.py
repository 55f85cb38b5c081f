"""Schedules of kernels: a kernel as a tree of loops and statements, and steps that rearrange the tree.

Re-exports the names that passes use: nests, remarks on kernels, and renaming of indices.
"""

from tileir.schedule.block_writer import identity_of as identity_of
from tileir.schedule.nest import (
    Nest as Nest,
    Node as Node,
    Segment as Segment,
    Use as Use,
    analyse as analyse,
    atomic_names as atomic_names,
    chosen_by_data as chosen_by_data,
    emit as emit,
    leaf as leaf,
    product as product,
    with_loops_called as with_loops_called,
    with_one_range_each as with_one_range_each,
)
from tileir.schedule.products import dtype_of_product as dtype_of_product, factors_of_product as factors_of_product
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
from tileir.schedule.tree import (
    Item as Item,
    Known as Known,
    Leaf as Leaf,
    Loop as Loop,
    Producers as Producers,
    Replaced as Replaced,
    Size as Size,
    Tail as Tail,
    Tree as Tree,
    leaves as leaves,
    map_leaves as map_leaves,
    tree_of as tree_of,
    tree_of_nest as tree_of_nest,
    walk as walk,
    with_loops_replaced as with_loops_replaced,
)
