"""Interpreter of kernels, which defines their meaning. Every back end is tested against it.

Kernels are compiled to Python closures once, and then run group by group. Threads that meet at barriers run as
generators in lock step from barrier to barrier. The threads of one role are a party, which runs until it needs a
message of others; so are the groups of a cluster.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from math import prod

import numpy as np

from tileir.core import ArgumentError, Diagnostic, attrs, fail
from tileir.core.numbers.number_system import REAL, NumberSystem
from tileir.semtree.check.verifier import verify, verify_program
from tileir.semtree.interpret.channels import check_received
from tileir.semtree.interpret.evaluation import AGENT, CLUSTER, COPIES, SHARED, STEPS, Frame
from tileir.semtree.interpret.execution import StatementCompiler
from tileir.semtree.interpret.instructions import Action, PendingWait, Step, Steps
from tileir.semtree.interpret.memory import NO_CHECKS, Agent, Array, Checks, Memory, WatchedMemory, poisoned
from tileir.semtree.interpret.orders import Clock, Order
from tileir.semtree.ir import (
    WARP,
    Arrive,
    Await,
    Barrier,
    Buffer,
    BufferRole,
    KernelFunction,
    Param,
    ParamAccess,
    Program,
    WarpRole,
)
from tileir.semtree.launches import executed
from tileir.semtree.matrices import waits
from tileir.semtree.rewrite import statements
from tileir.semtree.roles import roles, teams_of


@attrs.define(eq=False)
class ConvergedThreads:
    """Threads that run in lock step from one waiting statement to the next.

    Attributes:
        kernel: The kernel.
        who: Name of the party, for messages.
        frames: States of the threads.
        steps: The generator of each thread.
        clocks: The clocks that advance at their barriers, by the numbers of parties.
        runs: Whether any statements are left.
    """

    kernel: KernelFunction
    who: str
    frames: list[Frame]
    steps: Steps
    clocks: Mapping[int, Clock]
    runs: bool = True
    _threads: list[Generator[Step, None, None]] = attrs.field(init=False)
    _reached: list[Step | None] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self._threads = [self.steps(frame) for frame in self.frames]

    @property
    def may_go_on(self) -> bool:
        """True if no thread waits for a message."""
        return all(each.is_over() for each in self._reached if isinstance(each, PendingWait))

    @property
    def waits_for(self) -> str:
        """The awaited message, in words."""
        (step, *_) = (each.stmt for each in self._reached if isinstance(each, PendingWait))
        if isinstance(step, Await):
            return f"await a flag of {step.flag.array!r}"
        return "meet" if isinstance(step, Barrier) else f"{step.step.value} the channel {step.channel.array!r}"

    def go_on(self) -> None:
        """Run all threads up to their next wait.

        Raises:
            TileError: TIL555, some wait elsewhere than others.
        """
        reached = self._reached = [next(thread, None) for thread in self._threads]
        stmts = [each.stmt if isinstance(each, PendingWait) else each for each in reached]
        self.runs = any(stmt is not None for stmt in stmts)
        if any(stmt is not stmts[0] for stmt in stmts):
            raise fail("TIL555", f"kernel {self.kernel.name!r}: {self.who} do not meet at the same barrier")
        if isinstance(stmts[0], Barrier | Arrive | Await):  # exchanges of operands order nothing in memory
            for clock in self.clocks.values():
                clock.stretch += 1
            for frame in self.frames:
                agent = frame[AGENT]
                for party, clock in self.clocks.items():
                    agent.known[party] = clock.stretch + agent.released


def run_in_turn(parties: list[ConvergedThreads]) -> None:
    """Run parties that wait for each other in turn.

    Raises:
        TileError: TIL555, deadlock, or some threads of one wait elsewhere than others.
    """
    while running := [party for party in parties if party.runs]:
        if not any(party.may_go_on for party in running):
            what = ", and ".join(f"{party.who} waits to {party.waits_for}" for party in running)
            raise fail("TIL555", f"kernel {running[0].kernel.name!r}: {what}: they would wait for ever")
        for party in running:
            while party.runs and party.may_go_on:
                party.go_on()


def run(kernel: KernelFunction, arrays: Sequence[Array], checks: Checks = NO_CHECKS) -> None:
    """Run a kernel over its whole grid; writes go to ``arrays``, one flat array for each parameter.

    Raises:
        VerifyError: the kernel is not legal.
        ArgumentError: the arrays do not fit the parameters.
        TileError: TIL553 to TIL558 for a run-time fault of the kernel.
    """
    compile_kernel(kernel, checks).run(arrays)


def run_program(
    program: Program, inputs: Mapping[str, Array], checks: Checks = NO_CHECKS, *, numbers: NumberSystem = REAL
) -> dict[str, Array]:
    """Run all launches of a program and return its outputs by name, in their shapes.

    Args:
        program: The program.
        inputs: An array, of any shape with the right number of elements, for each input buffer, as ``numbers`` stores
            its dtype.
        checks: The run-time checks.
        numbers: The number system.

    Raises:
        VerifyError: the program is not legal.
        ArgumentError: the inputs do not fit the input buffers.
        TileError: as :func:`run`.
    """
    verify_program(program)
    memory = {buffer.name: _content(buffer, inputs, numbers) for buffer in program.buffers}
    compiled: dict[int, CompiledKernel] = {}
    for launch in executed(program.works, lambda name: bool(memory[name][0])):
        if launch.kernel not in compiled:
            compiled[launch.kernel] = compile_kernel(program.kernels[launch.kernel], checks, numbers)
        compiled[launch.kernel].run([memory[name] for name in launch.arguments])
    outputs = [buffer for buffer in program.buffers if buffer.role is BufferRole.OUTPUT]
    return {buffer.name: memory[buffer.name].reshape(buffer.shape) for buffer in outputs}


def _content(buffer: Buffer, inputs: Mapping[str, Array], numbers: NumberSystem) -> Array:
    """Return the initial flat content of a buffer."""
    if buffer.role is BufferRole.CONSTANT:
        return numbers.encoded(np.frombuffer(buffer.data, buffer.dtype.numpy))
    if buffer.role is not BufferRole.INPUT:
        return poisoned(buffer.dtype, buffer.elements, numbers)
    if buffer.name not in inputs:
        raise ArgumentError.of("TIL705", f"no array was passed for input {buffer.name!r}")
    array = np.ascontiguousarray(inputs[buffer.name]).reshape(-1)
    if array.dtype != numbers.storage(buffer.dtype) or array.size != buffer.elements:
        wanted = f"{buffer.elements} {buffer.dtype.value}"
        given = f"{array.size} {array.dtype}"
        raise ArgumentError.of("TIL701", f"input {buffer.name!r} needs {wanted}, and got {given}")
    return array


def compile_kernel(kernel: KernelFunction, checks: Checks = NO_CHECKS, numbers: NumberSystem = REAL) -> CompiledKernel:
    """Prepare a kernel for several runs.

    Raises:
        VerifyError: the kernel is not legal.
    """
    verify(kernel)
    threads, found = prod(kernel.group), roles(kernel)
    taken = tuple(team for role in found for team in teams_of(role))
    others = tuple(number for number in range(threads) if not any(number in each for each in taken))
    parties: tuple[Sequence[int], ...] = (*taken, *((others,) if others else ()))
    compiler = StatementCompiler(kernel, checks, numbers, len(parties))
    names = tuple(compiler.expressions.slot(param.name) for param in kernel.params)
    last = next((n for n, stmt in enumerate(kernel.body, 1) if isinstance(stmt, WarpRole)), len(kernel.body) + 1)
    shared = kernel.body[: last - 1]  # nothing follows roles
    parallel = any(map(waits, statements(shared)))
    action = None if parallel else compiler.body(shared)
    steps = compiler.stepped_body(shared) if parallel else None
    own = tuple(compiler.stepped_body(role.body) for role in found for _ in range(role.teams))
    return CompiledKernel(kernel, checks, numbers, compiler.expressions.frame_size, names, parties, action, steps, own)


@attrs.frozen
class CompiledKernel:
    """A kernel as closures; exactly one of ``action`` and ``steps`` is set.

    ``parties`` has the numbers of threads of each team of each role, those of threads without a role last. ``own`` has
    the steps of each team, after those that all threads run.
    """

    kernel: KernelFunction
    checks: Checks
    numbers: NumberSystem
    frame_size: int
    slots: tuple[int, ...]
    parties: tuple[Sequence[int], ...]
    action: Action | None
    steps: Steps | None
    own: tuple[Steps, ...] = ()

    def run(self, arrays: Sequence[Array]) -> None:
        """Run the whole grid, as :func:`run` does."""
        _check_arguments(self.kernel, arrays, self.numbers)
        template: Frame = [0] * self.frame_size
        for slot, param, array in zip(self.slots, self.kernel.params, arrays, strict=True):
            template[slot] = self._memory(param, array)
        start = 0
        with np.errstate(all="ignore"):
            groups = enumerate(_points(self.kernel.grid))
            if any(isinstance(stmt, Arrive | Await) for stmt in statements(self.kernel.body)):
                self._run_together(template, groups)
            while cluster := tuple(itertools.islice(groups, self.kernel.cluster)):
                start = 1 + self._run_cluster(template, cluster, start)

    def _memory(self, param: Param, array: Array) -> Memory:
        if self.checks == NO_CHECKS:
            return Memory(param.name, array)
        fresh = self.checks.undefined and param.access is ParamAccess.WRITE
        defined = np.zeros(len(array), np.bool_) if fresh else None
        watched = prod(self.kernel.group) if self.checks.races else 1
        return WatchedMemory(param.name, array, self.kernel.name, defined, self.checks.races, watched, self._clocks)

    @property
    def _clocks(self) -> int:
        """Number of parties with separate clocks: of roles or clusters, or one."""
        return len(self.parties) * self.kernel.cluster

    def _run_cluster(self, template: Frame, points: tuple[tuple[int, tuple[int, int, int]], ...], start: int) -> int:
        """Run the groups of a cluster from time ``start`` on, and return the time of their end."""
        clocks = [Clock(start) for _ in range(self._clocks)]
        template[CLUSTER] = [{} for _ in points]
        groups = [self._frames(template, number, point, clocks) for number, point in points]
        if self.steps is not None:
            who = "all threads" if len(groups) == 1 else ""
            parties = [
                ConvergedThreads(
                    self.kernel, who or f"group {number}", frames, self.steps, self._own_clocks(number, clocks)
                )
                for (number, _), frames in zip(points, groups, strict=True)
            ]
            while len(parties) == 1 and parties[0].runs:
                parties[0].go_on()
            run_in_turn(parties)
        elif self.action is not None:
            for frame in itertools.chain(*groups):
                self.action(frame)
        if self.own:
            self._run_roles(dict(zip((number for number, _ in points), groups, strict=True)), clocks)
        return max(int(frame[AGENT].time) for frame in itertools.chain(*groups))

    def _run_together(self, template: Frame, groups: Iterable[tuple[int, tuple[int, int, int]]]) -> None:
        """Run all groups of a kernel with flags in turn, each until it waits."""
        assert self.steps is not None
        parties = []
        clocks: list[Clock] = []
        for number, point in groups:
            template[CLUSTER] = [{}]
            clocks.append(Clock(1))
            frames = self._frames(template, number, point, clocks[-1:])
            order = Order(number, clocks[-1], clocks)
            for frame in frames:
                frame[AGENT].order = order
            parties.append(ConvergedThreads(self.kernel, f"group {number}", frames, self.steps, {0: clocks[-1]}))
        run_in_turn(parties)

    def _frames(self, template: Frame, group: int, point: tuple[int, int, int], clocks: list[Clock]) -> list[Frame]:
        """Return the initial states of the threads of a group."""
        own = zip(self._own_clocks(group, clocks), self.parties, strict=True)
        party_of = {thread: party for party, threads in own for thread in threads}
        frames = []
        for thread, place in enumerate(_points(self.kernel.group)):
            frame, party = template.copy(), party_of[thread]
            frame[0:3], frame[3:6] = point, place
            frame[SHARED] = template[CLUSTER][group % self.kernel.cluster]
            known = [clock.stretch for clock in clocks]
            frame[AGENT] = Agent(group, thread, clocks[party], known, party=party)
            frame[COPIES] = [[]]
            frame[STEPS] = {}
            frames.append(frame)
        return frames

    def _own_clocks(self, group: int, clocks: list[Clock]) -> dict[int, Clock]:
        """Return the clocks of a group among those of its cluster, by the numbers of its parties."""
        first = group % self.kernel.cluster * len(self.parties)
        return {number: clocks[number] for number in range(first, first + len(self.parties))}

    def _run_roles(self, groups: dict[int, list[Frame]], clocks: list[Clock]) -> None:
        """Run the roles of groups in turn, each until it waits."""
        parties = []
        for group, frames in groups.items():
            own = self._own_clocks(group, clocks).items()
            for (number, clock), threads, steps in zip(own, self.parties, self.own, strict=False):
                who = f"the role of warps {threads[0] // WARP} to {threads[-1] // WARP}"
                who = who if len(groups) == 1 else f"{who} of group {group}"
                parties.append(ConvergedThreads(self.kernel, who, [frames[n] for n in threads], steps, {number: clock}))
        run_in_turn(parties)
        for frames in groups.values():
            check_received(frames[0], self.kernel.name)


def _points(extents: tuple[int, ...]) -> Iterator[tuple[int, int, int]]:
    """Yield all coordinates, axis 0 fastest."""
    x, y, z = (*extents, 1, 1)[:3]
    for k, j, i in itertools.product(range(z), range(y), range(x)):
        yield i, j, k


def _check_arguments(kernel: KernelFunction, arrays: Sequence[Array], numbers: NumberSystem) -> None:
    if len(arrays) != len(kernel.params):
        wanted = len(kernel.params)
        raise ArgumentError.of("TIL705", f"kernel {kernel.name!r} takes {wanted} arrays, not {len(arrays)}")
    faults = []
    for position, (param, array) in enumerate(zip(kernel.params, arrays, strict=True)):
        place = f"array {param.name!r} of kernel {kernel.name!r}"
        if array.dtype != numbers.storage(param.dtype) or array.shape != (param.size,):
            given = f"{array.shape} of {array.dtype}"
            faults.append(Diagnostic("TIL706", f"{place} is flat, {param.size} {param.dtype.value}, and not {given}"))
        elif param.access is not ParamAccess.READ and not array.flags.writeable:
            faults.append(Diagnostic("TIL703", f"{place} is written by the kernel, and cannot be"))
        elif param.no_alias and param.access is not ParamAccess.READ:
            others = (other for number, other in enumerate(arrays) if number != position)
            if any(np.may_share_memory(array, other) for other in others):
                faults.append(Diagnostic("TIL704", f"{place} is noalias, and overlaps another one"))
    if faults:
        raise ArgumentError(faults)
