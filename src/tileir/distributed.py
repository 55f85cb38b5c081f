"""Arrays whose parts ranks have, and files that all ranks write together and read again on any mesh."""

from tileir.driver.distribution.arrays import DistributedArray, array, from_parts
from tileir.driver.distribution.checkpoints import Checkpoint, load, save, saved
from tileir.driver.distribution.partitioning import repeated
from tileir.driver.distribution.stepping import DistributedStepper
from tileir.typed.sharding.mesh import Mesh, Sharding, Split

__all__ = [
    "Checkpoint",
    "DistributedArray",
    "DistributedStepper",
    "Mesh",
    "Sharding",
    "Split",
    "array",
    "from_parts",
    "load",
    "repeated",
    "save",
    "saved",
]
