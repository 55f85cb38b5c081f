"""Explanation of a partitioned program: the cause, bytes and price of its exchanges, and the layouts of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileir.core import attrs
from tileir.core.text.quantities import seconds_text, size_text
from tileir.typed.dataflow import loop_of
from tileir.typed.ir import Argsort, Collective, Function, Gather, Operation, Scan, Scatter
from tileir.typed.sharding.collective_operations import KINDS, meets, met_needs, met_operand, met_traffic
from tileir.typed.sharding.exchanges import largest, traffic
from tileir.typed.sharding.mesh import CollectiveKind, whole
from tileir.typed.sharding.needs import reads
from tileir.typed.sharding.partitioned import LOCAL, MERGED, PART, Partitioned, Placement
from tileir.typed.sharding.prices import ANY_MODEL, CALLS, Price, Prices
from tileir.typed.sharding.spreading import may_border, met_work, needs_of_part, work_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tileir.core import DType, HardwareModel
    from tileir.typed.ir import Shape

_CAUSES: Final[Mapping[CollectiveKind, str]] = {
    CollectiveKind.ALL_REDUCE: "ranks along {axes} have parts of {tensor}, of which each needs the whole aggregate",
    CollectiveKind.REDUCE_SCATTER: "ranks along {axes} have parts of {tensor}, of which each keeps some elements",
    CollectiveKind.ALL_GATHER: "{statement} needs all of {tensor} along {axes}",
    CollectiveKind.BROADCAST: "{statement} needs all of {tensor}, which one rank along {axes} has",
    CollectiveKind.HALO: "{statement} reads {tensor} beyond the part of a rank along {axes}",
    CollectiveKind.PERMUTE: "{statement} reads the part of {tensor} that another rank along {axes} has",
    CollectiveKind.ALL_TO_ALL: "{statement} needs {tensor} cut otherwise than it is along {axes}",
}
_MET: Final[Mapping[type[Operation], str]] = {
    Argsort: "ranks along {axes} merge what they have sorted, in rounds: {count}",
    Gather: "{statement} looks for rows that ranks along {axes} hand round, in rounds: {count}",
    Scatter: "{statement} updates rows by what ranks along {axes} have, in rounds: {count}",
}
_ASKED: Final = "{statement} is asked for in another layout than that in which it is made"


@attrs.frozen
class Exchange:
    """Exchange of a partitioned program.

    Attributes:
        collective: The operation.
        statement: The statement that needs it.
        tensor: The value that ranks exchange.
        cause: A sentence that explains the need.
        size: Bytes that all ranks together get from others.
        price: Its price by the links of the model, and the overlap with work.
    """

    collective: Collective
    statement: str
    tensor: str
    cause: str
    size: int
    price: Price

    @property
    def seconds(self) -> float:
        """Seconds by which it extends the program; shardings are chosen by these."""
        return self.price.seconds


def exchanges(program: Partitioned, model: HardwareModel | None = None) -> tuple[Exchange, ...]:
    """Return the exchanges of a partitioned program, in order; a merge of several results is counted once."""
    values = (*program.function.inputs, *program.function.operations)
    dtypes = {each.name: each.dtype for each in values}
    called = {name: each.name for each in program.collectives if not is_copy(each) for name in each.inputs}
    readers: dict[str, list[Operation]] = {}
    for operation in program.function.operations:
        for name in () if isinstance(operation, Collective) else reads(operation):
            readers.setdefault(name, []).append(operation)
    prices, found, merged = Prices(program.mesh, model or ANY_MODEL), list[Exchange](), set()
    met: set[Scan] = set()
    for each in program.function.operations:
        if isinstance(each, Scan) and (step := program.rounds.get(loop_of(each))) is not None:
            if loop_of(each) not in met:
                found += [_repeated(one, each) for one in exchanges(step, model)]
            met.add(loop_of(each))
        if each.name in program.meetings:
            found.append(_met(program, each, dtypes, prices))
        if not isinstance(each, Collective):
            continue
        size = 0 if each.combine is not None and each.inputs in merged else traffic(each, program.mesh, dtypes)
        merged.add(each.inputs)
        copied = is_copy(each)
        first = next(iter(readers.get(each.name, ())), each) if copied else each
        statement = called.get(first.name, first.name)
        tensor = each.input if copied else each.name
        cause = (_CAUSES[each.kind] if copied or each.kind.merges else _ASKED).format(
            axes=" and ".join(each.axes), tensor=tensor, statement=statement
        )
        price = Price(prices.exchange(size))
        if not each.kind.merges:
            beside = _beside(program, readers.get(each.name, ()), prices) if copied else 0.0
            price = prices.laid_out(each.source, each.target, each.dtype.itemsize, beside)
        found.append(Exchange(each, statement, tensor, cause, size, price))
    return tuple(found)


def _met(program: Partitioned, operation: Operation, dtypes: Mapping[str, DType], prices: Prices) -> Exchange:
    """Return the exchange of all rounds of an operation in which ranks meet."""
    axes, placements = program.meetings[operation.name], dict(program.placements)
    layouts = {name: placements[name].layout for name in (*reads(operation), operation.name)}
    sizes = met_traffic(operation, axes, layouts, program.mesh, dtypes)
    cause = _MET[type(operation)].format(axes=" and ".join(axes), count=len(sizes), statement=operation.name)
    operand, _ = met_operand(operation) or ("", 0)
    kind = KINDS[type(operation)]
    like = Collective(
        operation.name, kind, (operand,), axes, layouts[operand], layouts[operand], operation.dtype, operation.shape
    )
    return Exchange(like, operation.name, operand, cause, sum(sizes), Price(sum(map(prices.exchange, sizes))))


def _repeated(exchange: Exchange, loop: Scan) -> Exchange:
    """Return the sum of an exchange over all steps of a loop; of one step if their number is unknown."""
    count = 1 if loop.count is None else loop.count
    inner = attrs.evolve(exchange.collective, name=f"{loop.name}.{exchange.collective.name}")
    steps = "each step" if loop.count is None else f"each of {count} steps"
    cause = f"in {steps} of {loop.name}, {exchange.cause}"
    return attrs.evolve(
        exchange, collective=inner, cause=cause, size=count * exchange.size, price=exchange.price.times(count)
    )


def cut_text(placement: Placement) -> str:
    """Return the layout of a value as text, as in ``(x, whole), parts along y``."""
    entries = ", ".join("*".join(split.axes) or "whole" for split in placement.layout)
    return f"({entries}){''.join(f', parts along {axis}' for axis in placement.partial)}"


def price_text(exchange: Exchange, *, is_beside: bool) -> str:
    """Return bytes and price of an exchange, as in ``8 KiB, 20 us beside work, 2 us of borders``."""
    price = exchange.price
    link = f"{seconds_text(price.link)}{' beside work' if is_beside else ''}"
    more = [f"{seconds_text(price.borders)} of {'borders' if price.beside else 'copies'}"] * bool(price.borders)
    return ", ".join((size_text(exchange.size), link, *more))


def is_copy(collective: Collective) -> bool:
    """Return whether a collective makes a copy of a value for a reader, instead of the value itself."""
    own = tuple(f"{collective.name}{suffix}" for suffix in (PART, LOCAL, MERGED))
    return not collective.input.startswith(own)


def seconds(program: Partitioned, prices: Prices) -> float:
    """Return the price of a program, which decides between programs: of its inputs, all work and all exchanges."""
    placements = dict(program.placements)
    total = sum(each.seconds for each in exchanges(program, prices.model)) + work_seconds(program, prices)
    for value in program.function.inputs:
        size = largest(placements[value.name].layout) * value.dtype.itemsize * program.mesh.size
        total += prices.exchange(size) / CALLS
    return total


def work_seconds(program: Partitioned, prices: Prices) -> float:
    """Return the price of all work of a program, for each operation on the rank with the largest part."""
    return sum(works(program, prices).values())


def loop_seconds(scan: Scan, step: Partitioned | None, prices: Prices) -> float:
    """Return the price of all steps of a loop, with exchanges; of one step if their number is unknown."""
    if step is None:
        return (1 if scan.count is None else scan.count) * sum(price for _, price in _works(scan.body, {}, {}, prices))
    exchanged = sum(each.seconds for each in exchanges(step, prices.model)) if step.meets else 0.0
    return (1 if scan.count is None else scan.count) * (work_seconds(step, prices) + exchanged)


def works(program: Partitioned, prices: Prices) -> dict[str, float]:
    """Return the price of each operation that is no exchange, by name; that of a loop under its first result."""
    return dict(_works(program.function, dict(program.placements), program.steps, prices))


def _works(
    function: Function,
    placements: Mapping[str, Placement],
    steps: Mapping[Scan, Partitioned | None],
    prices: Prices,
) -> Iterator[tuple[str, float]]:
    """Yield the operations of a function with their prices; values without placements are whole on each rank."""
    values = (*function.inputs, *function.operations)
    shapes, dtypes = {each.name: each.shape for each in values}, {each.name: each.dtype for each in values}
    loops = set()
    for each in function.operations:
        if isinstance(each, Scan):
            loop = loop_of(each)
            if loop not in loops:
                loops.add(loop)
                step = steps.get(loop)
                inner = _works(loop.body, {}, {}, prices) if step is None else works(step, prices).items()
                yield each.name, (1 if loop.count is None else loop.count) * sum(price for _, price in inner)
        elif reads(each) and not isinstance(each, Collective):
            yield each.name, _work_of(each, placements, shapes, dtypes, prices)


def _work_of(
    operation: Operation,
    placements: Mapping[str, Placement],
    shapes: Mapping[str, Shape],
    dtypes: Mapping[str, DType],
    prices: Prices,
) -> float:
    """Return the price of the work of ranks for an operation."""
    own = placements.get(operation.name) or Placement(whole(operation.shape))
    axes = meets(operation, placements) if placements else ()
    if axes:
        needs = met_needs(operation, own.layout, axes, shapes, prices.mesh)
        return met_work(operation, own.layout, axes, needs, shapes, dtypes, prices)
    needs = needs_of_part(operation, own.layout, own.shares, shapes, prices.mesh)
    return work_of(operation, own.layout, own.shares, needs, shapes, dtypes, prices)


def _beside(program: Partitioned, readers: Sequence[Operation], prices: Prices) -> float:
    """Return the seconds of work of the first reader of a halo; 0 if one of the readers has to wait for it."""
    placements = dict(program.placements)
    if not all(may_border(each, placements[each.name].shares) for each in readers):
        return 0.0
    values = (*program.function.inputs, *program.function.operations)
    shapes, dtypes = {each.name: each.shape for each in values}, {each.name: each.dtype for each in values}
    return sum(_work_of(each, placements, shapes, dtypes, prices) for each in readers[:1])
