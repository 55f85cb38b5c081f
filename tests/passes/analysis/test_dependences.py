from __future__ import annotations

from strategies.passes import program_of
from tileir.passes.analysis.dependences import DependenceScan, roots


def kernel(reads: str, writes: str) -> str:
    views = [f"in {name}[i] fp32:I(1):(1):4 B" for name in reads]
    views += [f"out {name}[i] fp32:I(1):(1):4 B" for name in writes]
    stores = "\n".join(f"{number}: {name} = store($c)" for number, name in enumerate(writes, 1))
    lines = "\n".join(views)
    return f"block [i:4]:4 (\n{lines}\n) {{\n0: $c = (fp32)0.0\n{stores}\n}}"


def test_kernels_depend_on_last_writers_and_on_readers_since() -> None:
    kernels = [kernel("X", "A"), kernel("A", "B"), kernel("A", "C"), kernel("X", "A"), kernel("AB", "O")]
    program = program_of(kernels, dict.fromkeys("XABCO", (4,)))
    scan = DependenceScan(roots(program))
    found = [scan.visit(number, block) for number, block in enumerate(program.main.blocks)]
    assert found == [set(), {0}, {0}, {0, 1, 2}, {1, 3}]
