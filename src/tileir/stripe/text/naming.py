"""Names for people: views and scalars of a kernel called after the memory that a launch of it is on.

Kernels that are equal but for names are one, under the names of the first. In text each launch has names of its own
again, where they are free; whoever reads the text back finds the same kernel.
"""

from __future__ import annotations

from tileir.stripe.ir import Block, Kernel, Launch
from tileir.stripe.lower.kernel_table import launched
from tileir.stripe.lower.renaming import with_names


def named(kernel: Kernel, launch: Launch) -> Block:
    """Return the block of a launch, with the names of its arguments where the kernel has those of its parameters."""
    block = launched(kernel, launch)
    names = {own.name: name for own, name in zip(kernel.parameters, launch.arguments, strict=True) if own.name != name}
    return with_names(block, names) if names else block
