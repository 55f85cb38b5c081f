"""Kernels as LLVM IR text for NVIDIA GPUs, by the CPU emitter with other hooks.

Every kernel becomes ``ptx_kernel void @name(ptr …)`` with a pointer for each parameter. A launch has a block for each
group of the grid, and a thread for each thread of a group. A grid that exceeds the driver's limits along the second or
third axis is linearised along the first (:func:`blocks`).
"""

from __future__ import annotations

import math
from typing import Final

from tileir.core import BackendError, Diagnostic, DType
from tileir.core.fragments import FRAGMENTS
from tileir.core.updates import WIDEST_UPDATE
from tileir.semtree.analysis.effects import assigned_variables
from tileir.semtree.analysis.ranges import Ranges
from tileir.semtree.check.verifier import verify
from tileir.semtree.clusters import with_parts, without_clusters
from tileir.semtree.ir import Exchange, GridLevel, KernelFunction, MatrixMultiply, ParamAccess, Type
from tileir.semtree.legalise.legaliser import legalise
from tileir.semtree.matrices import is_plain, without_instructions
from tileir.semtree.rewrite import statements
from tileir.semtree.transform.expansions import expand_kernel
from tileir.semtree.transform.layout import Layout
from tileir_cuda.architectures import BULK_COPIES, MOST_OF_CLUSTER, Architecture
from tileir_cuda.emit.boxes import Channels, copies_boxes, promised, stores_boxes, tensor_maps
from tileir_cuda.emit.exponentials import CAPABILITIES, EXPONENTIAL, OWN, ROUNDED, exponentials, in_base_two
from tileir_cuda.emit.flags import with_shared_arrivals
from tileir_cuda.emit.products import OF_WARPS
from tileir_cuda.emit.remainders import by_reciprocals, remainders
from tileir_cuda.emit.roles import Roles, faults as role_faults
from tileir_cuda.emit.shared_divisors import by_shared_reciprocals
from tileir_cuda.emit.statements import CudaStatements, SharedMemory
from tileir_cuda.emit.warpgroups import CONVERGENT, OF_WARPGROUPS, is_spelt
from tileir_emit.storage import stored_as_bits
from tileir_llvm.emit.conversions import integer
from tileir_llvm.emit.emitter import FAST_MATH, coordinates, promises
from tileir_llvm.emit.expressions import Environment
from tileir_llvm.emit.floats import NATIVE
from tileir_llvm.emit.memory import Place
from tileir_llvm.emit.spelling import symbol
from tileir_llvm.emit.text import FunctionText, ModuleText, Value

MOST_BLOCKS: Final = (2**31 - 1, 65535, 65535)
"""Maximum number of blocks in a launch along each axis."""

MOST_THREADS: Final = (1024, 1024, 64)
"""Maximum number of threads in a block along each axis, with 1024 in total."""

_AXES: Final = "xyz"

_REGISTERS: Final = 65536
_SHARED_BYTES: Final = 228 * 1024
_RESERVED_BYTES: Final = 1024
"""Registers and shared memory of an ``sm_90a`` multiprocessor, and shared memory reserved for each group."""

_OF_THREADS_THAT_HOLD: Final = 168
"""Registers of threads that hold operands of products of four warps."""

_MANY_THREADS: Final = 512
"""Threads of groups with rows in registers, which should share a multiprocessor."""

_FULL: Final = 1024
"""Threads of the largest groups, which have 64 registers each."""

_WARP: Final = 32
_BUSY: Final = 512
"""Threads of a multiprocessor that hide memory latency: on an H200, a window of 7 x 7 over 64 x 14 x 14 x 384 takes 31
us with registers for this many threads, and 79 us with 254 registers per thread.
"""

_ATTRIBUTES: Final = "nounwind mustprogress norecurse"


def emit(kernel: KernelFunction, architecture: Architecture, number: int = 0, *, fast_math: bool = False) -> str:
    """Return a module with the function of a kernel, named by :func:`tileir_llvm.emit.emitter.symbol`.

    Args:
        kernel: The kernel.
        architecture: Its architecture.
        number: Number of the kernel in its library.
        fast_math: Whether to add :data:`tileir_llvm.emit.emitter.FAST_MATH`.

    Raises:
        VerifyError: The kernel is not legal.
        BackendError: TIL804, the kernel needs unsupported features.
    """
    flags, remainder = FAST_MATH if fast_math else "", f"remainder{number}"
    module = ModuleText(flags, remainder=remainder, extrema=True, exponential=EXPONENTIAL)
    verify(kernel)
    kernel = settled(kernel, architecture)
    plain = spelt_out(kernel, architecture)
    _check(kernel, SharedMemory.of(plain).nbytes, architecture)
    # With fast_math LLVM reorders sums, and folds those that recover rounding errors.
    divided = by_reciprocals(plain, rounded=not fast_math)
    divided = divided if fast_math else by_shared_reciprocals(divided)
    expanded = expand_kernel(with_shared_arrivals(divided), NATIVE, rounded=ROUNDED, own={} if fast_math else OWN)
    ready = legalise(stored_as_bits(in_base_two(expanded)), CAPABILITIES)
    own = Roles(ready, reallocates=architecture.name in BULK_COPIES)
    module.functions.append(_kernel(module, ready, symbol(number, kernel), own))
    module.functions.extend(remainders("".join(module.functions), remainder))
    module.functions.extend(exponentials("".join(module.functions)))
    last = f"attributes #1 = {{ {_ATTRIBUTES} noinline }}\nattributes #{CONVERGENT} = {{ convergent nounwind }}"
    return module.text(last)


def settled(kernel: KernelFunction, architecture: Architecture) -> KernelFunction:
    """Return a kernel in terms of single groups: clusters copy by parts, if an architecture supports that."""
    own = with_parts(kernel) if 1 < kernel.cluster <= MOST_OF_CLUSTER else kernel
    return own if own is not kernel and has_maps(own, architecture) else without_clusters(kernel)


def spelt_out(kernel: KernelFunction, architecture: Architecture) -> KernelFunction:
    """Return a settled kernel with unsupported operations expanded; the expansions may share memory."""
    return without_instructions(
        kernel,
        _spelt(kernel, architecture),
        copies=False,
        folds=True,
        exchanges=_exchanges_parts(kernel),
        channels=not has_maps(kernel, architecture),
        roles=False,
        flags=False,
        updates=WIDEST_UPDATE,
    )


def launch_bytes(kernel: KernelFunction, architecture: Architecture) -> int:
    """Return the bytes of dynamic shared memory for a launch of a settled kernel."""
    return SharedMemory.of(spelt_out(kernel, architecture)).launch_bytes


def has_maps(kernel: KernelFunction, architecture: Architecture) -> bool:
    """Return whether a kernel takes tensor maps (:func:`tileir_cuda.emit.boxes.tensor_maps`) after its parameters."""
    return architecture.name in BULK_COPIES and copies_boxes(kernel)


def blocks(kernel: KernelFunction) -> tuple[int, int, int]:
    """Return the number of blocks of a launch along each axis."""
    x, y, z = (*kernel.grid, 1, 1)[:3]
    fits = y <= MOST_BLOCKS[1] and z <= MOST_BLOCKS[2]
    return (x, y, z) if fits else (x * y * z, 1, 1)


def threads(kernel: KernelFunction) -> tuple[int, int, int]:
    """Return the number of threads of a block along each axis."""
    x, y, z = (*kernel.group, 1, 1)[:3]
    return x, y, z


def _spelt(kernel: KernelFunction, architecture: Architecture) -> frozenset[str]:
    """Return the fragments of a kernel's products that all its uses can compute by instructions."""
    products = [stmt for stmt in statements(kernel.body) if isinstance(stmt, MatrixMultiply)]
    whole = OF_WARPGROUPS if architecture.name == "sm_90a" else ()
    missing = {stmt.fragment for stmt in products if not (is_spelt(stmt) if stmt.fragment in whole else is_plain(stmt))}
    own = (name for name in OF_WARPS if FRAGMENTS[name].feature == "sm_80" or name in architecture.fragments)
    return frozenset((*own, *whole)) - missing


def _exchanges_parts(kernel: KernelFunction) -> bool:
    """Return whether threads exchange elements other than 32-bit words."""
    exchanged = (stmt.source.type.dtype for stmt in statements(kernel.body) if isinstance(stmt, Exchange))
    return not all(dtype in (DType.F32, DType.I32, DType.U32) for dtype in exchanged)


def _check(kernel: KernelFunction, shared: int, architecture: Architecture) -> None:
    """Refuse a kernel that the cards cannot launch; its groups take ``shared`` bytes."""
    faults = [*role_faults(kernel)]
    if math.prod(kernel.group) > MOST_THREADS[0] or threads(kernel)[2] > MOST_THREADS[2]:
        faults.append(f"has groups of {kernel.group} threads, and cards run 1024 of them, 64 along the last axis")
    if blocks(kernel)[0] > MOST_BLOCKS[0]:
        faults.append(f"has {math.prod(kernel.grid)} groups, and cards count {MOST_BLOCKS[0]} of them")
    if shared > architecture.shared_bytes:
        faults.append(f"shares {shared} bytes in a group, and gets {architecture.shared_bytes}")
    if faults:
        message = "; it ".join(faults)
        note = "compile with the pipeline of cards, gpu, or with smaller tiles"
        raise BackendError((Diagnostic("TIL804", f"kernel {kernel.name!r} {message}: {note}"),))


def _kernel(module: ModuleText, kernel: KernelFunction, name: str, roles: Roles) -> str:
    out = FunctionText(module)
    env = Environment(out, ranges=Ranges.of(kernel))
    for number, param in enumerate(kernel.params):
        constant = param.no_alias and param.access is ParamAccess.READ
        env.arrays[param.name] = Place(f"%a{number}", param.dtype, max(param.alignment, param.dtype.itemsize), constant)
    _coordinates(env, kernel)
    room, nothing = SharedMemory.of(kernel, name), Layout({}, 0)
    module.globals.extend(room.definitions())
    products = [stmt.fragment for stmt in statements(kernel.body) if isinstance(stmt, MatrixMultiply)]
    whole = stores_boxes(kernel) or any(fragment in OF_WARPGROUPS for fragment in products)
    assigned = assigned_variables(kernel.body)
    maps = {each: f"%m{number}" for number, each in enumerate(tensor_maps(kernel))}
    steps = Channels.of(env, kernel, maps, roles)
    writer = CudaStatements(
        env,
        nothing,
        assigned,
        room=room,
        group=kernel.group,
        unseen=whole,
        multiplies=bool(products),
        channels=steps,
        roles=roles,
    )
    writer.begin_turns(kernel)
    writer.write(kernel.body)
    if stores_boxes(kernel):
        steps.end()
    out.effect("ret void")
    pointers = (f"ptr {promises(param)}%a{number}" for number, param in enumerate(kernel.params))
    params = ", ".join((*pointers, *promised(maps)))
    block = ",".join(map(str, threads(kernel)))
    attributes = f'{_ATTRIBUTES} "nvvm.reqntid"="{block}"'
    beside = _beside(kernel, room.nbytes)
    if kernel.cluster > 1:
        attributes += f' "nvvm.cluster_dim"="{kernel.cluster},1,1"'
    if beside > 1 or roles.changes:  # the assembler needs the initial number of registers per thread
        attributes += f' "nvvm.minctasm"="{beside}"'
    return out.text(f"define ptx_kernel void @{name}({params}) {attributes}")


def _beside(kernel: KernelFunction, shared: int) -> int:
    """Return the number of groups per multiprocessor that register allocation aims at; 1 to let the assembler choose.

    The assembler takes a few more than a third of all registers if threads hold operands of products beside sums, and a
    few more than half for groups of 512 threads. Without products it would often load far ahead instead.
    """
    threads = math.prod(kernel.group)
    products = [stmt for stmt in statements(kernel.body) if isinstance(stmt, MatrixMultiply)]
    if not products and threads >= _MANY_THREADS:
        return max(1, min(_FULL // threads, _SHARED_BYTES // (shared + _RESERVED_BYTES)))
    if not products:
        return max(1, min(_BUSY // max(threads, _WARP), _SHARED_BYTES // (shared + _RESERVED_BYTES)))
    if not any(stmt.left.held and stmt.fragment in OF_WARPGROUPS for stmt in products):
        return 1
    most = _REGISTERS // (_OF_THREADS_THAT_HOLD * threads)
    return max(1, min(most, _SHARED_BYTES // (shared + _RESERVED_BYTES)))


def _coordinates(env: Environment, kernel: KernelFunction) -> None:
    """Read the coordinates of the thread. Coordinates of extent 1 are 0."""
    grid, group = kernel.grid, kernel.group
    index = Type(DType.I32)
    if blocks(kernel)[: len(grid)] == grid:
        for axis, extent in enumerate(grid):
            env.coordinates[GridLevel.GROUP, axis] = _special(env.out, "ctaid", axis, extent)
    else:
        linear = env.out.pure(f"zext i32 {_special(env.out, 'ctaid', 0, math.prod(grid)).text} to i64")
        for axis, value in enumerate(coordinates(env.out, grid, Value(linear, Type(DType.I64)))):
            env.coordinates[GridLevel.GROUP, axis] = value
    for axis, extent in enumerate(group):
        env.coordinates[GridLevel.LOCAL, axis] = _special(env.out, "tid", axis, extent)
    for level, axes in ((GridLevel.GROUP, len(grid)), (GridLevel.LOCAL, len(group))):
        for axis in range(axes, 3):
            env.coordinates[level, axis] = integer(0, index)


def _special(out: FunctionText, register: str, axis: int, extent: int) -> Value:
    """Read a special register, which is below ``extent``."""
    if extent == 1:
        return integer(0, Type(DType.I32))
    name = f"llvm.nvvm.read.ptx.sreg.{register}.{_AXES[axis]}"
    out.module.declarations[f"declare i32 @{name}()"] = None
    return Value(out.pure(f"call range(i32 0, {extent}) i32 @{name}()"), Type(DType.I32))
