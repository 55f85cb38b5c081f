"""Prices: seconds of work and of exchanges, by bytes and by the fields of a hardware model.

The choice of shardings, the number of steps for one halo, and explanations of exchanges all use these prices.
"""

from __future__ import annotations

from typing import Final

from tileir.core import Bus, DType, ExecutionUnit, HardwareModel, MemoryUnit, attrs
from tileir.typed.sharding.exchanges import kind_of, largest, missing, moved
from tileir.typed.sharding.mesh import CollectiveKind, Layout, Mesh

_REFUSED: Final = 1e6
"""Seconds for a refused exchange: more than any program takes."""

LEAST_CLEAN: Final = 2
"""Greatest ratio of a rank's elements to those that need no halo for which borders are computed separately."""

CALLS: Final = 16
"""Number of calls over which the cost of distributing inputs is spread."""

ANY_MODEL: Final = HardwareModel(
    "any",
    1000,
    (MemoryUnit("DRAM"),),
    (ExecutionUnit("CORE", 1, ((None, 512),)),),
    buses=(Bus(("DRAM",), ("CORE",), 64),),
    link_us=20,
)
"""Default model of ranks: 512 operations and 64 bytes of memory in a nanosecond.

Links are those of InfiniBand; their latency is the time in which a Python process sends a message and receives it.
"""


@attrs.frozen
class Price:
    """Seconds of an exchange.

    Attributes:
        link: Time of the transfer by the links of the model.
        beside: The part of it that overlaps with independent work of ranks. The latency is work of the ranks
            themselves,
            and does not overlap.
        borders: Time of ranks to compute the dependent elements, or to join their part and a halo.
    """

    link: float
    beside: float = 0.0
    borders: float = 0.0

    @property
    def seconds(self) -> float:
        """Seconds by which the exchange extends a program."""
        return self.link - self.beside + self.borders

    def times(self, count: int) -> Price:
        """Return the price of ``count`` exchanges."""
        return Price(count * self.link, count * self.beside, count * self.borders)


@attrs.define(eq=False)
class Prices:
    """Seconds of work and of exchanges on a mesh whose ranks are devices of one model.

    Attributes:
        mesh: The ranks.
        model: The device of each rank, and its links to others.
        reshard: Whether values may change their layouts for readers; halos are always allowed.
        joined: Whether halos are assumed to travel together with others, so that only their bytes count.
        around: Whether the price of a halo that may travel with others was asked for.
    """

    mesh: Mesh
    model: HardwareModel = ANY_MODEL
    reshard: bool = True
    joined: bool = False
    around: bool = attrs.field(default=False, init=False)
    _speed: float = attrs.field(default=0.0, init=False)
    _peaks: dict[DType, float] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        for level in self.model.levels()[:1]:
            units = self.model.execution_units
            self._speed = max((self.model.bandwidth(level.name, unit.name) for unit in units), default=0.0)

    def exchange(self, size: float) -> float:
        """Return the seconds in which all ranks together get a number of bytes from others."""
        return self.model.exchange_seconds(size / self.mesh.size)

    def laid_out(self, have: Layout, target: Layout, itemsize: int, beside: float) -> Price:
        """Return the price of a change of layout.

        Args:
            have: The present layout.
            target: The new layout.
            itemsize: Bytes of an element.
            beside: Seconds of a rank's work on readers, if some of their elements can be computed before the exchange;
                else 0.
        """
        link = self.exchange(moved(have, target, self.mesh) * itemsize)
        kind, share = kind_of(have, target), missing(have, target)
        if beside and kind.goes_around and LEAST_CLEAN * share < (LEAST_CLEAN - 1) * (1 - share):
            self.around = True
            travelling = link - min(link, self.model.link_us * 1e-6)
            if self.joined:
                link = travelling
            return Price(link, min(travelling, (1 - share) * beside), share * beside)
        if kind is CollectiveKind.HALO:
            return Price(link, 0.0, self.work(0, DType.I8, 2 * largest(target) * itemsize))
        return Price(link)

    def move(self, have: Layout, target: Layout, itemsize: int, beside: float) -> float:
        """Return the seconds of a change of layout for a reader, by :meth:`laid_out`."""
        is_refused = not self.reshard and kind_of(have, target) is not CollectiveKind.HALO
        return self.laid_out(have, target, itemsize, beside).seconds + _REFUSED * is_refused

    def work(self, operations: float, dtype: DType, size: float) -> float:
        """Return the seconds in which a rank does some operations and memory traffic in bytes."""
        if dtype not in self._peaks:
            self._peaks[dtype] = self.model.peak(dtype)
        peak = self._peaks[dtype]
        return max(operations / peak if peak else 0.0, size / self._speed if self._speed else 0.0)
