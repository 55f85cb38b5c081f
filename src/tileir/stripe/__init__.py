"""Stripe: nested blocks of parallel index points over views of tensors.

The package re-exports nodes and works.
"""

from tileir.stripe.instructions import INSTRUCTIONS as INSTRUCTIONS
from tileir.stripe.ir import (
    FOLD as FOLD,
    KERNEL as KERNEL,
    MAIN as MAIN,
    PADDED as PADDED,
    PLACES as PLACES,
    SWIZZLE_MASK as SWIZZLE_MASK,
    SWIZZLE_SHIFT as SWIZZLE_SHIFT,
    Binding as Binding,
    Block as Block,
    Branch as Branch,
    Buffer as Buffer,
    Device as Device,
    Dim as Dim,
    Direction as Direction,
    Index as Index,
    Kernel as Kernel,
    Launch as Launch,
    Load as Load,
    LoadIndex as LoadIndex,
    Location as Location,
    Loop as Loop,
    Program as Program,
    Refinement as Refinement,
    Role as Role,
    RoleKind as RoleKind,
    Special as Special,
    Statement as Statement,
    Store as Store,
    Tags as Tags,
    Work as Work,
    allocation as allocation,
    scalar_inputs as scalar_inputs,
    scalar_output as scalar_output,
    views_read as views_read,
    views_written as views_written,
)
from tileir.stripe.lower.kernel_table import KernelTable as KernelTable, launched as launched
from tileir.stripe.works import (
    launches as launches,
    local_memory as local_memory,
    loops as loops,
    map_launches as map_launches,
    parts as parts,
    sequential_works as sequential_works,
    sorted_memory as sorted_memory,
    uses_of as uses_of,
)
