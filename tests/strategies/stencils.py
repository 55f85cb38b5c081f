"""Programs of stencils, composed with what is no stencil, and partitioned so that most of them read halos."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from hypothesis import strategies as st

from strategies.sharded import MESHES
from tileir.core import DType
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType
from tileir.typed.sharding.mesh import Sharding
from tileir.typed.sharding.partition import partition

if TYPE_CHECKING:
    from tileir.typed.ir import Function
    from tileir.typed.sharding.partitioned import Partitioned

DTYPES = (DType.I32, DType.F32, DType.F64, DType.I8, DType.U16, DType.F16)


@attrs.frozen
class Stencils:
    """A typed function with arrays for its inputs, and the program for ranks that is made of it."""

    text: str
    function: Function
    inputs: dict[str, Any]
    program: Partitioned


@attrs.define
class _Draft:
    """Statements of a program that is drawn, whose values are ``U``, ``K`` and those of the statements."""

    draw: st.DrawFn
    sizes: list[int]
    statements: list[str] = attrs.field(factory=list)
    values: list[str] = attrs.field(factory=lambda: ["U", "U", "K"])
    halves: list[str] = attrs.field(factory=list)

    @property
    def indices(self) -> list[str]:
        return [f"i{axis}" for axis in range(len(self.sizes))]

    def _sizes(self, divisor: int = 1) -> str:
        return ", ".join(str(-(-size // divisor)) for size in self.sizes)

    def add(self, make: Any) -> None:
        name = f"S{len(self.statements)}"
        self.statements.append(make(self, name))

    def window(self, name: str) -> str:
        """Return a stencil of any width along one axis or two, which need not lie around its middle."""
        read, bounds = self.indices, []
        for number in range(self.draw(st.integers(1, min(2, len(read))))):
            axis = self.draw(st.integers(0, len(read) - 1))
            width, step = self.draw(st.integers(2, 3)), self.draw(st.sampled_from((1, 1, 2, -1)))
            read[axis] += f" + {step} * k{number} + {self.draw(st.integers(-2, 1))}"
            bounds.append(f"k{number} < {width}")
        how = self.draw(st.sampled_from(("+", "+", ">", "<")))
        source = self.draw(st.sampled_from(self.values))
        self.values.append(name)
        output = f"{name}[{', '.join(self.indices)} : {self._sizes()}]"
        return f"{output} = {how}({source}[{', '.join(read)}]), {', '.join(bounds)};"

    def mixed(self, name: str) -> str:
        left, right = (self.draw(st.sampled_from(self.values)) for _ in range(2))
        self.values.append(name)
        return f"{name} = {left} {self.draw(st.sampled_from('+-'))} {right} + 1;"

    def pooled(self, name: str) -> str:
        """Return every second place, each with a neighbour."""
        read = ", ".join(f"2 * {index} + k{axis}" for axis, index in enumerate(self.indices))
        bounds = ", ".join(f"k{axis} < {self.draw(st.integers(1, 3))}" for axis in range(len(self.sizes)))
        source = self.draw(st.sampled_from(self.values))
        self.halves.append(name)
        return f"{name}[{', '.join(self.indices)} : {self._sizes(2)}] = +({source}[{read}]), {bounds};"

    def total(self, name: str) -> str:
        read = ", ".join(self.indices)
        return f"{name}[] = >({self.draw(st.sampled_from(self.values))}[{read}]);"

    def shown(self, name: str) -> str:
        """Return a value less its maximum, which each rank knows after all others."""
        source, read = self.draw(st.sampled_from(self.values)), ", ".join(self.indices)
        self.values.append(name)
        return f"{name}_T[] = >({source}[{read}]); {name} = {source} - {name}_T;"

    def ordered(self, name: str) -> str:
        """Return rows in an order that is looked up, which is no stencil."""
        source, read = self.draw(st.sampled_from(self.values)), ", ".join(self.indices)
        self.values.append(name)
        rows = f"{name}_R[i0 : {self.sizes[0]}] = >({name}_I[{read}])"
        return f"{name}_I = index({source}, 0); {rows}; {name} = gather({source}, {self.sizes[0] - 1} - {name}_R);"


@st.composite
def stencils(draw: st.DrawFn, most: int = 5) -> Stencils:
    """Draw a program, a mesh, and shardings of its values."""
    rank = draw(st.integers(1, 3))
    sizes = [draw(st.integers(*((12, 60), (10, 20), (7, 10))[rank - 1])) for _ in range(rank)]
    dtype = draw(st.sampled_from(DTYPES))
    draft = _Draft(draw, sizes)
    draft.add(_Draft.window)
    kinds = [_Draft.window, _Draft.window, _Draft.mixed, _Draft.mixed, _Draft.pooled, _Draft.total, _Draft.shown]
    for _ in range(draw(st.integers(0, most - 1))):
        draft.add(draw(st.sampled_from((*kinds, _Draft.ordered))))
    made = [f"S{number}" for number in range(len(draft.statements))]
    outputs = sorted({made[-1], *draw(st.lists(st.sampled_from(made), min_size=1, max_size=2))})
    dims = ", ".join(f"N{axis}" for axis in range(rank))
    text = f"function (U[{dims}], K[{dims}]) -> ({', '.join(outputs)}) {{ {' '.join(draft.statements)} }}"
    function = infer(parse(text), {name: TensorType(dtype, tuple(sizes)) for name in "UK"})
    least = 0 if dtype.name.startswith("U") else -3
    random = np.random.default_rng(draw(st.integers(0, 99)))
    inputs = {name: np.asarray(random.integers(least, 4, sizes)).astype(dtype.numpy) for name in "UK"}
    mesh = draw(st.sampled_from(MESHES))
    entries: list[tuple[str, ...]] = [()] * rank
    for name, _ in mesh.axes:
        axis = draw(st.integers(0, rank - 1))
        entries[axis] = (*entries[axis], name)
    cut = Sharding(tuple(entries))
    alike = {each.name: cut for each in function.operations if each.shape == tuple(sizes)}
    everywhere = draw(st.integers(0, 3)) > 0  # else ranks may compute all of what is as small as this
    chosen = {name: each for name, each in alike.items() if everywhere or draw(st.booleans())}
    program = partition(function, mesh, {**chosen, "U": cut, "K": cut})
    return Stencils(text, function, inputs, program)
