"""Cost of a cold compilation of networks and workloads, by stage and kernel.

    python benchmarks/compile_stages.py [NAME ...] [--rounds 3] [--kernels] [--jax PYTHON]

Each round compiles in a fresh process without a cache on disk, from the calls of the builder to the first result;
imports are told apart. Stages are the time of their own functions, without those of stages inside them, in milliseconds
of processor and of the clock; LLVM's add up all threads, so that they may take less of the clock than stands there.
``--jax`` names an interpreter that has JAX: ResNet-18 is then compiled by it in turns, and the ratios are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial, wraps
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
NETWORKS: Final = ("resnet_18", "densenet_121", "gpt_block")

DTYPES: Final = {"float32": "f32", "float64": "f64", "int32": "i32"}
"""Types of the arguments of workloads, as tileir calls them."""

STAGES: Final = (
    ("infer", "tileir.driver.compiler", "infer"),
    ("prepare types", "tileir.driver.compiler", "prepared"),
    ("lower to Stripe", "tileir.driver.compiler", "lower_to_stripe"),
    ("load passes", "tileir.driver.compiler", "passes_of"),
    ("verify Stripe", "tileir.passes.recovery", "verify_program"),
    ("verify Stripe", "tileir.passes.base", "diagnose"),
    ("lower to semtree", "tileir.driver.compiler", "lower_to_semtree"),
    ("share kernels", "tileir.driver.compiler", "share_kernels"),
    ("simplify", "tileir.driver.compiler", "simplify_kernel"),
    ("reuse in place", "tileir.driver.compiler", "reuse_in_place"),
    ("interleave", "tileir.driver.compiler", "interleave"),
    ("verify semtree", "tileir.driver.compiler", "verify_program"),
    ("expand", "tileir.semtree.transform.expansions", "expand_kernel"),
    ("write LLVM", "tileir_llvm.emit.emitter", "_kernel"),
    ("LLVM parse, verify", "tileir_llvm.run.modules", "parsed"),
    ("LLVM optimise", "tileir_llvm.run.modules", "_passes"),
    ("LLVM machine code", "tileir_llvm.run.modules", "emitted"),
    ("link and load", "tileir_llvm.run.executor", "load_code"),
)
"""Label, module and name of the functions that are timed; labels that occur twice are added up."""


class Clock:
    """Adds up the seconds of functions, each without those that it calls and that are timed as well."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}
        self._inside = threading.local()
        self._lock = threading.Lock()

    def timed(self, label: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that counts its time under a label."""

        @wraps(function)
        def measured(*arguments: Any, **options: Any) -> Any:
            with self(label):
                return function(*arguments, **options)

        return measured

    def __call__(self, label: str) -> _Span:
        """Return a context whose time counts under a label."""
        return _Span(self, label)

    def add(self, label: str, wall: float, cpu: float) -> None:
        """Count seconds of the clock and of the processor."""
        with self._lock:
            total = self.seconds.setdefault(label, [0.0, 0.0, 0])
            total[0], total[1], total[2] = total[0] + wall, total[1] + cpu, total[2] + 1

    @property
    def stack(self) -> list[_Span]:
        """The spans of this thread, innermost last."""
        if not hasattr(self._inside, "spans"):
            self._inside.spans = []
        spans: list[_Span] = self._inside.spans
        return spans


class _Span:
    def __init__(self, clock: Clock, label: str) -> None:
        self.clock, self.label = clock, label
        self.begin, self.below = (0.0, 0.0), [0.0, 0.0]

    def __enter__(self) -> None:
        self.clock.stack.append(self)
        self.begin = time.perf_counter(), time.thread_time()

    def __exit__(self, *_: object) -> None:
        spent = time.perf_counter() - self.begin[0], time.thread_time() - self.begin[1]
        stack = self.clock.stack
        stack.pop()
        for place in (0, 1):
            if stack:
                stack[-1].below[place] += spent[place]
        self.clock.add(self.label, spent[0] - self.below[0], spent[1] - self.below[1])


def watch(clock: Clock) -> None:
    """Let the clock time all stages, and each pass."""
    from tileir.passes import base
    from tileir_llvm.run import modules

    for label, module, name in STAGES:
        owner = import_module(module)
        setattr(owner, name, clock.timed(label, getattr(owner, name)))
    run = base._called

    def called(step: Any, program: Any) -> Any:
        with clock(f"pass {base.label_of(step)}"):
            return run(step, program)

    base._called = called
    optimise = modules._optimise()

    class Optimise:
        """LLVM's passes, past llvmlite's lock and not."""

        _cfn = staticmethod(clock.timed("LLVM optimise", optimise._cfn))
        __call__ = staticmethod(clock.timed("LLVM optimise", optimise))

    modules._optimise = Optimise


def program(name: str) -> tuple[Any, Callable[[], dict[str, Any]]]:
    """Return the function of a network, or the text of a workload, and what makes its arguments."""
    import numpy as np

    if name not in NETWORKS:
        from suite import WORKLOADS

        workload = next(each for each in WORKLOADS if each.name == name)
        return workload.text, lambda: dict(workload.inputs())
    from strategies import networks

    sizes = (1, 128, 768, 12) if name == "gpt_block" else (1, 224)
    function, types = getattr(networks, name)(*sizes)
    random = np.random.default_rng(0)
    return function, lambda: {key: 0.01 + 0.05 * random.random(kind.shape, np.float32) for key, kind in types.items()}


def load_stages() -> None:
    """Load what is timed, while the collector pauses: so it does when a first call loads it."""
    from tileir.core.process.collection import collection_paused

    with collection_paused(lasting=True):
        for _, module, _ in STAGES:
            import_module(module)


def cold(name: str) -> dict[str, Any]:
    """Compile one program in this process, which has imported nothing of tileir, and return what it cost."""
    sys.path.insert(0, str(HERE.parent / "tests"))
    clock, totals = Clock(), [0.0, 0.0]

    def counted(label: str, call: Callable[[], Any]) -> Any:
        before = time.perf_counter(), time.process_time()
        with clock(label):
            result = call()
        totals[0] += time.perf_counter() - before[0]
        totals[1] += time.process_time() - before[1]
        return result

    import_module("numpy")
    with clock("import tileir"):
        tileir = import_module("tileir")
        import_module("tileir.ops")
    import_module("strategies.networks")
    source, arguments = counted("build", lambda: program(name))
    arrays = arguments()
    counted("load back end", load_stages)
    watch(clock)
    function = tileir.jit(source)
    counted("first run, and the rest", lambda: function(**arrays))
    with clock("second call"):
        function(**arrays)
    return {"stages": clock.seconds, "cold": totals}


def by_kernel(name: str) -> list[tuple[str, dict[str, float]]]:
    """Return the milliseconds of the processor that each distinct kernel of a program takes, by stage."""
    sys.path.insert(0, str(HERE.parent / "tests"))
    import attrs

    import tileir
    from tileir.driver.compiler import compile_stages
    from tileir.semtree.check.verifier import verify
    from tileir.semtree.lower.lowering import lower
    from tileir.semtree.simplify.simplifier import simplify
    from tileir_llvm.run import modules

    source, arguments = program(name)
    types = {key: tileir.TensorType(tileir.DType(DTYPES[str(a.dtype)]), a.shape) for key, a in arguments().items()}
    context = tileir.default_context()
    device = context.device("llvm")
    compiler: Any = context.compiler(device)
    made = compile_stages(source, types, device.target)
    lowered = {kernel.name: kernel for kernel in lower(made.scheduled, device.target).kernels}
    rows = []
    for kernel in made.sem.kernels:
        clock = Clock()
        with clock("simplify"):
            simplify(lowered.get(kernel.name, kernel))
        with clock("verify"):
            verify(attrs.evolve(kernel))  # what was verified is known by its identity
        with clock("write LLVM"):
            (text,) = compiler._modules((kernel,))
        with clock("LLVM"):
            modules.object_code(text, device.features)
        rows.append((kernel.name, {label: 1e3 * spent[1] for label, spent in clock.seconds.items()}))
    return rows


def ask(*command: str, bytecode: str | None = None) -> Any:
    """Return the JSON that a fresh process prints, which finds nothing in a cache on disk.

    Args:
        command: What to run.
        bytecode: A folder for the bytecode of all modules, as packages have it from their installation, whatever this
            environment says: to compile the sources takes longer than anything else that an import does.

    """
    environment = {**os.environ, "TILEIR_CACHE": "0"}
    if bytecode is not None:
        environment |= {"PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def stages_table(rounds: list[dict[str, Any]]) -> str:
    """Return the medians of all stages, those that take longest first."""
    labels = list(dict.fromkeys(label for each in rounds for label in each["stages"]))

    def median(label: str, place: int) -> float:
        seconds: list[float] = [each["stages"].get(label, (0.0, 0.0, 0))[place] for each in rounds]
        return 1e3 * statistics.median(seconds)

    lines = ["| stage | times | processor ms | clock ms |", "|---|---:|---:|---:|"]
    for label in sorted(labels, key=lambda label: -median(label, 1)):
        count = int(max(each["stages"].get(label, (0, 0, 0))[2] for each in rounds))
        lines.append(f"| {label} | {count} | {median(label, 1):.1f} | {median(label, 0):.1f} |")
    wall, cpu = (1e3 * statistics.median(each["cold"][place] for each in rounds) for place in (0, 1))
    return "\n".join(
        (*lines, f"| **cold, without imports of tileir and the second call** | | {cpu:.0f} | {wall:.0f} |")
    )


def kernels_table(rows: list[tuple[str, dict[str, float]]]) -> str:
    """Return a line for each kernel, and the sums."""
    labels = list(rows[0][1])
    sums = {label: sum(row[label] for _, row in rows) for label in labels}
    lines = [f"| kernel | {' | '.join(labels)} |", "|---|" + "---:|" * len(labels)]
    for name, row in (*rows, (f"all {len(rows)}", sums)):
        lines.append(f"| {name[:48]} | {' | '.join(f'{row[label]:.1f}' for label in labels)} |")
    return "\n".join(lines)


def ratio_to_jax(ours: list[dict[str, Any]], theirs: list[dict[str, Any]], kind: str) -> str:
    """Return the medians of both sides, and of the ratios of each round."""
    parts = []
    for place, clock in enumerate(("clock", "processor")):
        ratios = [a["cold"][place] / b["first"][place] for a, b in zip(ours, theirs, strict=True)]
        a, b = (
            statistics.median(each[key][place] for each in side) for side, key in ((ours, "cold"), (theirs, "first"))
        )
        parts.append(f"{clock}: {a:.2f} s beside {b:.2f} s, ratio {statistics.median(ratios):.2f}")
    return f"tileir beside JAX ({kind}), {'; '.join(parts)}"


def main() -> None:
    """Measure in fresh processes, and print tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=[NETWORKS[0]], help="networks and workloads")
    parser.add_argument("--rounds", type=int, default=3, help="how many fresh processes")
    parser.add_argument("--kernels", action="store_true", help="show each distinct kernel")
    parser.add_argument("--jax", help="an interpreter that has JAX")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(by_kernel(options.names[0]) if options.kernels else cold(options.names[0])))
        return
    with TemporaryDirectory() as bytecode:
        for name in options.names:
            report(name, partial(ask, bytecode=bytecode), options)


def report(name: str, ask_ours: Callable[..., Any], options: argparse.Namespace) -> None:
    """Measure one program, and print tables."""
    command = (sys.executable, str(HERE / "compile_stages.py"), name, "--one")
    ask_ours(*command)  # from then on there is bytecode
    ours: list[dict[str, Any]] = []
    theirs: dict[str, list[dict[str, Any]]] = {"cold": [], "warm": []}
    for _ in range(options.rounds):
        ours.append(ask_ours(*command))
        for kind in theirs if options.jax and name == NETWORKS[0] else ():
            theirs[kind].append(ask(options.jax, str(HERE / "jax_resnet.py"), kind))
    print(f"\n{name}\n\n{stages_table(ours)}")
    for kind, side in theirs.items():
        if side:
            print(ratio_to_jax(ours, side, kind))
    if options.kernels:
        print(f"\n{kernels_table(ask_ours(*command, '--kernels'))}")


if __name__ == "__main__":
    main()
