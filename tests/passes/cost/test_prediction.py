"""Counts of the cost model against what the interpreter does, and predictions where they are obvious."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import given

from strategies.effort import examples
from strategies.passes import arrays_for, program_of, programs
from strategies.stripe import programs as stripe_programs
from tileir.core.targets.hardware import REGISTER
from tileir.core.targets.target import Target
from tileir.core.targets.target_file import hardware_of
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.cost.figures import Kind
from tileir.passes.cost.machine import machine_of
from tileir.passes.pipelines.catalog import pipeline_for
from tileir.stripe.interpret import interpreter
from tileir.stripe.interpret.lanes import Lanes
from tileir.stripe.interpret.memory import Elements
from tileir.stripe.ir import Convert, Intrinsic, Load, Store
from tileir_performance.cost.prediction import predict

if TYPE_CHECKING:
    from tileir.passes.cost.figures import KernelCost
    from tileir.stripe.ir import Program, Refinement, Statement

CPU = Target("cpu", vector_bytes=64, vector_registers=32, threads=2, cache_bytes=(32 << 10, 1 << 20, 32 << 20))
GPU = Target("gpu", 16, 0, 132, (50 << 20,), local_bytes=48 << 10, group_threads=1024, group_width=32, pipeline="gpu")
MACHINE = machine_of(hardware_of(CPU), CPU)


@attrs.define
class Tally:
    """Counted work of one kernel while the interpreter ran it."""

    accessed: int = 0
    operations: int = 0
    elements: dict[tuple[int, int], int] = attrs.field(factory=dict)


@attrs.define
class Recorder:
    """Watches the interpreter: loads, stores and operations of each kernel, and the elements that they touch."""

    program: Program
    tallies: list[Tally] = attrs.field(factory=list)
    owners: dict[int, tuple[Refinement, Any]] = attrs.field(factory=dict)

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        kernels = [id(statement) for statement in self.program.main.statements]
        allocate, load, store, execute = interpreter._allocate, Elements.load, Elements.store, Lanes.execute
        original = interpreter._Machine.run

        def runs(machine: Any, plan: Any, outer: Any, sources: Any) -> None:
            if id(plan.block) in kernels:
                self.tallies.append(Tally())
            original(machine, plan, outer, sources)

        def allocates(refinement: Refinement, numbers: Any) -> Any:
            view = allocate(refinement, numbers)
            self.owners[id(view.memory)] = (refinement, view.memory)
            return view

        def loads(elements: Any, displacement: Any = None) -> Any:
            self.touch(elements)
            return load(elements, displacement)

        def stores(elements: Any, values: Any, displacement: Any = None) -> Any:
            self.touch(elements)
            return store(elements, values, displacement)

        def executes(lanes: Any, statement: Any, values: Any) -> None:
            self.tallies[-1].operations += lanes.points * self.weight(lanes, statement)
            execute(lanes, statement, values)

        patch.setattr(interpreter._Machine, "run", runs)
        patch.setattr(interpreter, "_allocate", allocates)
        patch.setattr(Elements, "load", loads)
        patch.setattr(Elements, "store", stores)
        patch.setattr(Lanes, "execute", executes)

    def touch(self, elements: Any) -> None:
        refinement, _ = self.owners[id(elements.view.memory)]
        if refinement.location and refinement.location[0].name == REGISTER:
            return
        itemsize = refinement.shape.dtype.itemsize
        self.tallies[-1].accessed += itemsize * len(elements.offsets)
        self.tallies[-1].elements.update(((id(refinement), int(offset)), itemsize) for offset in elements.offsets)

    @staticmethod
    def weight(lanes: Any, statement: Statement) -> int:
        match statement:
            case Intrinsic(op=op, dtype=dtype):
                return op.info.weight_in(dtype)
            case Convert():
                return 1
            case Store(into=into):
                aggregation = lanes.elements[into].view.aggregation
                return int(aggregation is not None and aggregation.op is not None)
            case _:
                return 0


def watched(program: Program) -> list[Tally]:
    recorder = Recorder(program)
    with pytest.MonkeyPatch.context() as patch:
        recorder.watch(patch)
        interpreter.interpret(program, arrays_for(program))
    return recorder.tallies


def is_indirect(program: Program) -> bool:
    pending = list(program.main.blocks)
    for block in pending:
        pending.extend(block.blocks)
    return any(isinstance(s, Load | Store) and s.index is not None for b in pending for s in b.statements)


def assert_counts(program: Program) -> None:
    for cost, tally in zip(predict(program, MACHINE).kernels, watched(program), strict=True):
        whole = cost.whole
        assert all(block.exact for block in cost.blocks)  # small programs are enumerated
        assert whole.total_operations == tally.operations
        assert whole.accessed_bytes == tally.accessed
        touched = sum(tally.elements.values())
        if whole.footprint_exact and not is_indirect(program):
            assert whole.footprint_bytes == touched
        else:
            assert whole.footprint_bytes >= touched


@examples(100)
@given(programs())
def test_counts_are_those_of_the_interpreter_before_passes(program: Program) -> None:
    assert_counts(program)


@examples(60)
@given(programs(4))
def test_counts_are_those_of_the_interpreter_after_passes(program: Program) -> None:
    for target in (CPU, GPU):
        assert_counts(run(pipeline_for(target), program))


MATMUL = """
    block [i:{m}, j:{n}, k:{k}]:1 ( // product
        in A[i, k] fp32:I(1, 1):({k}, 1):4 B
        in B[k, j] fp32:I(1, 1):({n}, 1):4 B
        out C[i, j]:add fp32:I(1, 1):({n}, 1):4 B
    ) {{
      0: $a = load(A)
      1: $b = load(B)
      2: $c = mul($a, $b)
      3: C = store($c)
    }}
"""


def matmul(m: int, n: int, k: int) -> Program:
    sizes = {"A": (m, k), "B": (k, n), "C": (m, n)}
    return program_of([MATMUL.format(m=m, n=n, k=k)], sizes, ("C",))


def cost_of(program: Program) -> KernelCost:
    (cost,) = predict(program, MACHINE).kernels
    return cost


def test_matmul_multiplies_and_adds() -> None:
    whole = cost_of(matmul(100, 200, 300)).whole
    assert [(each.kind, each.count) for each in whole.operations] == [(Kind.MULTIPLY_ADD, 2 * 100 * 200 * 300)]
    assert whole.footprint_bytes == 4 * (100 * 300 + 300 * 200 + 100 * 200)
    assert whole.footprint_exact


def test_layer_conditions_decide_what_is_read_again() -> None:
    """Of B (256 KiB) nothing stays in L1 from one row of C to the next; in L2 all of it does."""
    l2, l3, dram = cost_of(matmul(256, 128, 512)).levels
    assert l2.read_bytes > 256 * 4 * 512 * 128
    assert l3.read_bytes < 2 * 4 * (256 * 512 + 512 * 128)
    assert dram.read_bytes == 0


def test_schedules_make_it_faster() -> None:
    program = matmul(512, 512, 512)
    plain = predict(run((Accumulate(),), program), MACHINE)
    tiled = predict(run(pipeline_for(CPU), program), MACHINE)
    assert tiled.seconds < plain.seconds / 10
    assert max(kernel.units for kernel in tiled.kernels) == 2


def test_memory_bounds_what_computes_little() -> None:
    size = 1 << 24
    text = f"""
    block [i:{size}]:1 ( // sum
        in A[i] fp32:I(1):(1):4 B
        in B[i] fp32:I(1):(1):4 B
        out C[i] fp32:I(1):(1):4 B
    ) {{
      0: $a = load(A)
      1: $b = load(B)
      2: $c = add($a, $b)
      3: C = store($c)
    }}
    """
    program = run(pipeline_for(CPU), program_of([text], dict.fromkeys("ABC", (size,)), ("C",)))
    cost = cost_of(program)
    assert cost.bound == "DRAM"
    assert cost.levels[-1].read_bytes == pytest.approx(2 * 4 * size, rel=0.01)
    assert cost.levels[-1].written_bytes == pytest.approx(4 * size, rel=0.01)


def test_empty_tensors_cost_a_launch() -> None:
    cost = cost_of(matmul(0, 4, 4))
    assert cost.whole.points == cost.whole.total_operations == 0
    assert cost.seconds == MACHINE.launch_seconds


@examples(100)
@given(stripe_programs())
def test_any_program_has_a_cost(program: Program) -> None:
    """Specials, gathers, tiles and constraints of all kinds."""
    machines = (MACHINE, machine_of(hardware_of(GPU), GPU))
    for machine in machines:
        for cost in predict(program, machine).kernels:
            assert cost.seconds >= machine.launch_seconds
            assert cost.bound in (*cost.times, "launch")
            assert all(block.points >= 0 and block.footprint_bytes >= 0 for block in cost.blocks)
            assert all(level.read_bytes >= 0 and level.written_bytes >= 0 for level in cost.levels)
