"""Channels as mbarriers in shared memory, and tensor copies of boxes (TMA), as instructions of ``sm_90a``.

A channel of ``n`` places has ``n`` barriers that are full when the copies of a message have arrived, and ``n`` that are
empty when all warps have released it. A barrier has phases, and a thread waits for the parity of a phase. The first
thread of a group issues the copies; a tensor map, made by the host, describes the tensor.

Each group of a cluster requests a part of a box, which is multicast to all groups. The barriers are full when all parts
have arrived, and empty when the warps of all groups have released the message.

Follows NVIDIA, "PTX ISA" (mbarrier, cp.async.bulk.tensor), and "CUDA Driver API" (cuTensorMapEncodeTiled).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from tileir.core import DType, attrs
from tileir.semtree.clusters import channels_of_clusters
from tileir.semtree.ir import (
    WARP,
    BulkCopy,
    BulkStore,
    Channel,
    ChannelStep,
    DeclareArray,
    GridLevel,
    KernelFunction,
    MatrixMultiply,
    Scope,
    Stmt,
)
from tileir.semtree.rewrite import statements
from tileir.semtree.roles import releasing
from tileir.semtree.swizzles import PLAIN, folded
from tileir_cuda.emit.products import Shared
from tileir_cuda.emit.roles import Roles
from tileir_llvm.emit.conversions import cast
from tileir_llvm.emit.expressions import Environment, evaluate
from tileir_llvm.emit.text import FunctionText

CONVERGENT: Final = 2
"""Attributes of statements that all threads of a warp run together."""

MAP_BYTES: Final = 128
MAP_ALIGNMENT: Final = 64
"""Alignment of a tensor map as a kernel parameter."""

ALIGNMENT: Final = 1024
"""Alignment in bytes of copied boxes: eight rows of the widest swizzle."""

_UNIT: Final = 16
_SIDE: Final = 256
_STEP: Final = 8
_BARRIER: Final = 8
_ROWS: Final = (128, 64, 32)


@attrs.frozen
class TensorMap:
    """Description of a tensor and of the boxes copied from it, as the host passes it to the device.

    Attributes:
        array: The tensor's parameter.
        first: Offset of its first element.
        itemsize: Bytes of an element.
        extents: Elements along each axis, innermost first.
        strides: Bytes between them, except along the innermost axis.
        box: Elements of a box along each axis, including those skipped by steps.
        swizzle: Bytes of a swizzled row; 0 for none.
        steps: Stride of the copied elements along each axis.
    """

    array: str
    first: int
    itemsize: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    steps: tuple[int, ...]

    @classmethod
    def of(cls, stmt: BulkCopy | BulkStore) -> TensorMap | None:
        """Return the map for copying a box, one column of pieces at a time; None if no map can express it."""
        size, width = stmt.tensor.type.dtype.itemsize, stmt.box[-1]
        joint = isinstance(stmt, BulkCopy) and stmt.scope is Scope.CLUSTER
        piece, row, rows = stmt.fold
        if stmt.fold != PLAIN:
            parts = rows * row // math.prod(stmt.box)
            if row != width or parts * math.prod(stmt.box) != rows * row or (parts > 1 and not joint):
                return None
            width = piece
        swizzle = width * size if stmt.mask else 0
        lowest = stmt.mask & -stmt.mask
        swizzled = stmt.mask * size + _UNIT == swizzle and lowest * size == _UNIT
        swizzled = swizzled and (1 << stmt.shift) * lowest * size == ALIGNMENT // 8 and swizzle in _ROWS
        extents, steps = stmt.extents[::-1], stmt.every[::-1]
        box = tuple(side * step for side, step in zip((width, *stmt.box[-2::-1]), steps, strict=True))
        strides = tuple(stride * size for stride in stmt.strides[-2::-1])
        first = getattr(stmt.tensor.offset, "value", None)
        fits = all(stride % _UNIT == 0 for stride in strides) and max(box) <= _SIDE and width * size % _UNIT == 0
        fits = fits and steps[0] == 1 and max(steps) <= _STEP
        if not fits or (stmt.mask and not swizzled) or not isinstance(first, int) or first * size % _UNIT:
            return None
        return cls(stmt.tensor.array, first, size, extents, strides, box, swizzle, steps)


def copies_boxes(kernel: KernelFunction) -> bool:
    """Return whether a kernel has copies of boxes, and the instructions support all of them."""
    alignments = {param.name: param.alignment for param in kernel.params}
    found = [stmt for stmt in statements(kernel.body) if isinstance(stmt, BulkCopy | BulkStore)]
    mapped = all(TensorMap.of(stmt) is not None and alignments[stmt.tensor.array] % _UNIT == 0 for stmt in found)
    return bool(found) and mapped and math.prod(kernel.group) % WARP == 0


def stores_boxes(kernel: KernelFunction) -> bool:
    """Return whether a kernel has stores of boxes."""
    return any(isinstance(stmt, BulkStore) for stmt in statements(kernel.body))


def tensor_maps(kernel: KernelFunction) -> tuple[TensorMap, ...]:
    """Return the maps that a kernel takes after its parameters, if it copies boxes."""
    maps = (TensorMap.of(stmt) for stmt in statements(kernel.body) if isinstance(stmt, BulkCopy | BulkStore))
    return tuple(dict.fromkeys(each for each in maps if each is not None))


def rounding_maps(kernel: KernelFunction) -> frozenset[TensorMap]:
    """Return maps that only copy factors of products in TF32, so that copies may round to TF32."""
    found = [stmt for stmt in statements(kernel.body) if isinstance(stmt, BulkCopy | BulkStore | MatrixMultiply)]
    factors = [each for stmt in found if isinstance(stmt, MatrixMultiply) for each in (stmt.left, stmt.right)]
    rounded = {each.start.array for each in factors if each.start.type.dtype is DType.F32}
    boxes = [(TensorMap.of(stmt), stmt) for stmt in found if not isinstance(stmt, MatrixMultiply)]
    factor = {made for made, stmt in boxes if isinstance(stmt, BulkCopy) and stmt.local.array in rounded}
    others = {made for made, stmt in boxes if isinstance(stmt, BulkStore) or stmt.local.array not in rounded}
    return frozenset(made for made in factor - others if made is not None)


def operands_of_boxes(kernel: KernelFunction) -> frozenset[str]:
    """Return the local arrays that boxes are copied to or from."""
    found = (stmt for stmt in statements(kernel.body) if isinstance(stmt, BulkCopy | BulkStore))
    return frozenset(stmt.local.array for stmt in found)


def channels(kernel: KernelFunction) -> frozenset[str]:
    """Return the arrays that are channels."""
    return frozenset(s.channel.array for s in statements(kernel.body) if isinstance(s, Channel | BulkCopy))


@attrs.define(eq=False)
class _Turn:
    """Next message of a thread, for one kind of steps: its place, and the parity of the phase there."""

    place: str
    parity: str


@attrs.define(eq=False)
class Channels:
    """Writer of the channels of one kernel.

    Attributes:
        env: Environment of the code.
        group: Threads of a group along each axis.
        maps: Parameter of each tensor map.
        names: Arrays that are channels.
        roles: Roles of warps: the first thread of the sending role issues copies.
        releasing: Number of threads that release the messages of each channel.
        cluster: Groups of a cluster.
        joint: Channels whose messages all groups of a cluster release.
        targets: Local arrays that receive the messages of each channel.
    """

    env: Environment
    group: tuple[int, ...]
    maps: Mapping[TensorMap, str]
    names: frozenset[str]
    roles: Roles
    releasing: Mapping[str, int]
    cluster: int
    joint: frozenset[str]
    targets: Mapping[str, frozenset[str]]
    _places: dict[str, int] = attrs.field(factory=dict, init=False)
    _turns: dict[tuple[str, ChannelStep], _Turn] = attrs.field(factory=dict, init=False)

    @classmethod
    def of(cls, env: Environment, kernel: KernelFunction, maps: Mapping[TensorMap, str], roles: Roles) -> Channels:
        """Return the writer for the channels of a kernel."""
        joint, names = channels_of_clusters(kernel), channels(kernel)
        boxes = [stmt for stmt in statements(kernel.body) if isinstance(stmt, BulkCopy)]
        targets = {name: frozenset(box.target.array for box in boxes if box.channel.array == name) for name in names}
        return cls(env, kernel.group, maps, names, roles, releasing(kernel), kernel.cluster, joint, targets)

    def open(self, array: DeclareArray, shared: Shared) -> None:
        """Initialise the barriers of a channel, and make them visible to all threads."""
        out, count = self.env.out, array.size // 2
        self._places[array.name] = count
        for step in ChannelStep:
            turn = _Turn(out.alloca("i32", 4), out.alloca("i32", 4))
            self._turns[array.name, step] = turn
            out.effect(f"store i32 0, ptr {turn.place}")
            # The first messages of a channel need no release.
            out.effect(f"store i32 {int(step is ChannelStep.ACQUIRE)}, ptr {turn.parity}")
        counts = [1] * count + [self.releasing.get(array.name, WARP) // WARP] * count
        lines = ["{", ".reg .pred p;", "setp.eq.u32 p, $1, 0;"]
        lines += [
            f"@p mbarrier.init.shared::cta.b64 [$0+{_BARRIER * number}], {count};"
            for number, count in enumerate(counts)
        ]
        lines += ["@p fence.mbarrier_init.release.cluster;", "}"]
        self._asm(lines, (("r", shared.address), ("r", self._thread())))
        if array.name in self.joint:
            meet_cluster(out)
            return
        out.module.declarations["declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)"] = None
        out.effect("call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)")

    def released(self, stmt: Stmt) -> frozenset[str]:
        """Return the local arrays whose messages a statement releases."""
        steps = (each for each in statements((stmt,)) if isinstance(each, Channel))
        names = {each.channel.array for each in steps if each.step is ChannelStep.RELEASE}
        return frozenset().union(*(self.targets[name] for name in names))

    def step(self, stmt: Channel, shared: Mapping[str, Shared]) -> None:
        """Write a channel step."""
        name, step = stmt.channel.array, stmt.step
        turn, out = self._turns[name, step], self.env.out
        full = self._barrier(name, step, shared)
        empty = out.pure(f"add i32 {full}, {_BARRIER * self._places[name]}")
        match step:
            case ChannelStep.SEND:
                line = "@p mbarrier.arrive.shared::cta.b64 _, [$0];"
                self._asm(_where(f"$1, {self.roles.first}", line), (("r", full), ("r", self._thread())))
            case ChannelStep.RELEASE:
                lane = out.pure(f"and i32 {self._thread()}, {WARP - 1}")
                lines = _where("$1, 0", "@p mbarrier.arrive.shared::cta.b64 _, [$0];")
                if name in self.joint:  # each of the first lanes arrives at the barrier of one of the groups
                    lines = ["{", ".reg .pred p;", ".reg .b32 r;", f"setp.lt.u32 p, $1, {self.cluster};", *_ARRIVE, "}"]
                self._asm(["bar.warp.sync -1;", *lines], (("r", empty), ("r", lane)))
            case ChannelStep.ACQUIRE | ChannelStep.RECEIVE:
                parity = out.result(f"load i32, ptr {turn.parity}")
                barrier = empty if step is ChannelStep.ACQUIRE else full
                self._asm(_WAIT, (("r", barrier), ("r", parity)))
        self._advance(name, turn)

    def copy(self, stmt: BulkCopy, shared: Mapping[str, Shared]) -> None:
        """Write the copy of a box: one instruction for each column of pieces."""
        env, out, found = self.env, self.env.out, TensorMap.of(stmt)
        assert found is not None  # others are expanded
        barrier = self._barrier(stmt.channel.array, ChannelStep.SEND, shared)
        start = cast(out, evaluate(env, folded(stmt.target.offset, stmt.fold), index=True), DType.I32)
        place = out.pure(f"mul nuw nsw i32 {start.text}, {found.itemsize}")
        address = out.pure(f"add i32 {place}, {shared[stmt.target.array].address}")
        at = [cast(out, evaluate(env, each), DType.I32).text for each in reversed(stmt.at)]
        size = (stmt.fold[2] or 1) * found.box[0] * found.itemsize
        axes = len(at)
        lines = ["{", ".reg .pred p;", ".reg .b32 c, d;", f"setp.eq.u32 p, $0, {self.roles.first};"]
        expected, to, groups = math.prod(stmt.box) * found.itemsize, "", ""
        if stmt.scope is Scope.CLUSTER:  # equal parts come from all groups
            lines += [".reg .b16 m;", f"mov.b16 m, {(1 << self.cluster) - 1};"]
            expected, to, groups = expected * self.cluster, ".multicast::cluster", ", m"
        lines.append(f"@p mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [$3], {expected};")
        rest = "".join(f", ${number}" for number in range(5, 4 + axes))
        for piece in range(stmt.box[-1] // found.box[0]):
            lines.append(f"add.u32 c, $4, {piece * found.box[0]};")
            lines.append(f"add.u32 d, $1, {piece * size};")
            lines.append(
                f"@p cp.async.bulk.tensor.{axes}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes{to}"
                f" [d], [$2, {{c{rest}}}], [$3]{groups};"
            )
        lines.append("}")
        tensor = out.pure(f"ptrtoint ptr {self.maps[found]} to i64")
        operands = (("r", self._thread()), ("r", address), ("l", tensor), ("r", barrier), *(("r", each) for each in at))
        self._asm(lines, operands)

    def store(self, stmt: BulkStore, shared: Mapping[str, Shared]) -> None:
        """Write the store of a box to its tensor: one instruction for each column of pieces, as one bulk group."""
        env, out, found = self.env, self.env.out, TensorMap.of(stmt)
        assert found is not None  # others are expanded
        start = cast(out, evaluate(env, folded(stmt.source.offset, stmt.fold), index=True), DType.I32)
        address = out.pure(f"mul nuw nsw i32 {start.text}, {found.itemsize}")
        address = out.pure(f"add i32 {address}, {shared[stmt.source.array].address}")
        at = [cast(out, evaluate(env, each), DType.I32).text for each in reversed(stmt.at)]
        size, axes = (stmt.fold[2] or 1) * found.box[0] * found.itemsize, len(at)
        lines = ["{", ".reg .pred p;", ".reg .b32 c, d;", "setp.eq.u32 p, $0, 0;"]
        rest = "".join(f", ${number}" for number in range(4, 3 + axes))
        for piece in range(stmt.box[-1] // found.box[0]):
            lines.append(f"add.u32 c, $3, {piece * found.box[0]};")
            lines.append(f"add.u32 d, $1, {piece * size};")
            lines.append(f"@p cp.async.bulk.tensor.{axes}d.global.shared::cta.tile.bulk_group [$2, {{c{rest}}}], [d];")
        lines += ["@p cp.async.bulk.commit_group;", "}"]
        tensor = out.pure(f"ptrtoint ptr {self.maps[found]} to i64")
        thread = self.roles.place(out, self._thread())
        self._asm(lines, (("r", thread), ("r", address), ("l", tensor), *(("r", each) for each in at)))

    def wait(self, pending: int) -> None:
        """Wait until all stores except the last ``pending`` have read shared memory; no-op in threads without any."""
        self._asm([f"cp.async.bulk.wait_group.read {pending};"], ())

    def end(self) -> None:
        """Wait until all stores are done."""
        self._asm(["cp.async.bulk.wait_group 0;"], ())

    def _barrier(self, name: str, step: ChannelStep, shared: Mapping[str, Shared]) -> str:
        """Return the address of the full barrier for the thread's next message."""
        out = self.env.out
        place = out.result(f"load i32, ptr {self._turns[name, step].place}")
        return out.pure(f"add i32 {out.pure(f'mul i32 {place}, {_BARRIER}')}, {shared[name].address}")

    def _advance(self, name: str, turn: _Turn) -> None:
        out = self.env.out
        place, parity = (out.result(f"load i32, ptr {each}") for each in (turn.place, turn.parity))
        following = out.pure(f"add i32 {place}, 1")
        last = out.pure(f"icmp eq i32 {following}, {self._places[name]}")
        flipped = out.pure(f"xor i32 {parity}, 1")
        out.effect(f"store i32 {out.pure(f'select i1 {last}, i32 0, i32 {following}')}, ptr {turn.place}")
        out.effect(f"store i32 {out.pure(f'select i1 {last}, i32 {flipped}, i32 {parity}')}, ptr {turn.parity}")

    def _thread(self) -> str:
        """Return the thread's number in its group."""
        out, number = self.env.out, "0"
        for axis in reversed(range(len(self.group))):
            own = cast(out, self.env.coordinates[GridLevel.LOCAL, axis], DType.I32)
            before = "0" if number == "0" else out.pure(f"mul nuw nsw i32 {number}, {self.group[axis]}")
            number = own.text if before == "0" else out.pure(f"add nuw nsw i32 {before}, {own.text}")
        return number

    def _asm(self, lines: list[str], operands: tuple[tuple[str, str], ...]) -> None:
        marks = ",".join((*(mark for mark, _ in operands), "~{memory}"))
        values = ", ".join(f"{'i64' if mark == 'l' else 'i32'} {text}" for mark, text in operands)
        code = "\\0A".join(lines)
        self.env.out.effect(f'call void asm sideeffect "{code}", "{marks}"({values}) #{CONVERGENT}')


_WAIT: Final = [
    "{",
    ".reg .pred p;",
    "W_${:uid}:",
    "mbarrier.try_wait.parity.shared::cta.b64 p, [$0], $1;",
    "@p bra D_${:uid};",
    "bra W_${:uid};",
    "D_${:uid}:",
    "}",
]


_ARRIVE: Final = ["@p mapa.shared::cluster.u32 r, $0, $1;", "@p mbarrier.arrive.shared::cluster.b64 _, [r];"]


def meet_cluster(out: FunctionText) -> None:
    """Write a barrier for the threads of all groups of a cluster."""
    for step in ("arrive", "wait"):
        out.module.declarations[f"declare void @llvm.nvvm.barrier.cluster.{step}.aligned()"] = None
        out.effect(f"call void @llvm.nvvm.barrier.cluster.{step}.aligned()")


def _where(equal: str, line: str) -> list[str]:
    return ["{", ".reg .pred p;", f"setp.eq.u32 p, {equal};", line, "}"]


def promised(maps: Mapping[TensorMap, str]) -> Iterator[str]:
    """Yield the parameters of a kernel that are tensor maps."""
    for name in maps.values():
        yield f'ptr byval([{MAP_BYTES} x i8]) align {MAP_ALIGNMENT} "nvvm.grid_constant" {name}'
