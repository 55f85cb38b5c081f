"""Import of ATen graphs as Tile functions: nodes run in order on a builder's tensors."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from math import isfinite, prod
from typing import Any, Final, TypeAlias

import numpy as np
import torch
from attrs import define, field, frozen
from sympy import sympify
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg
from torch.utils._python_dispatch import _disable_current_modes

from tileir import Diagnostic, DType, Function, FunctionBuilder, TileError, ops
from tileir.tile.builder import Tensor
from tileir_torch.custom import PROGRAMS
from tileir_torch.dtypes import DTYPES
from tileir_torch.packing import PACKED, PART, is_packed
from tileir_torch.rows.table import RefusedError, row_of
from tileir_torch.writing import Memories, is_writing, made_instead

Value: TypeAlias = Any
"""Meaning of a node: a tensor, a number such as a size, or a sequence of these; None for nothing."""

Order: TypeAlias = tuple[int, ...]
"""Axes from the outermost in memory to the innermost."""

_FOLDED: Final = 1 << 16
"""Maximum number of elements of operations without tensors that are run on import."""

_DROPPED: Final = frozenset(
    {
        "aten._assert_async.msg",
        "aten._assert_scalar.default",
        "aten._assert_tensor_metadata.default",
        "aten.sym_constrain_range.default",
        "aten.sym_constrain_range_for_size.default",
    }
)
"""Checks that hold already for a graph made for these sizes and dtypes."""


@frozen
class Unsupported:
    """Node that tileir does not support.

    Attributes:
        node: Name in the graph.
        target: Operation, such as ``aten.sort.stable``.
        reason: Reason.
        place: Line of the user's Python that it comes from; empty if unknown.
    """

    node: str
    target: str
    reason: str
    place: str

    @property
    def diagnostic(self) -> Diagnostic:
        """Diagnostic for the node."""
        where = f", of {self.place}" if self.place else ""
        return Diagnostic("TIL605", f"{self.target} ({self.node}{where}): {self.reason}")


@frozen(eq=False)
class Imported:
    """Function made of a graph.

    Attributes:
        function: The function; None if nothing is computed.
        inputs: Positions of its placeholders, in order.
        orders: For each input of the function, the order of its axes in memory; None for any order.
        results: For each output of the graph: the position of the function's result, or its other origin.
        computed: Results of the function, in order; some are only visible through views.
        parts: For each input of the function, its offset in the placeholder's bytes, and its size; None for the whole
            placeholder.
        draws: Whether it draws random numbers: its last input, after all placeholders, is a state for these, u32[4].
    """

    function: Function | None
    inputs: tuple[int, ...]
    orders: tuple[Order, ...]
    results: tuple[Result, ...]
    computed: tuple[Computed, ...]
    parts: tuple[tuple[int, int] | None, ...]
    draws: bool = False


@frozen
class Computed:
    """Result of the function.

    Attributes:
        position: Its position.
        dtype: Its dtype.
        sizes: Its sizes.
        order: Order of its axes in memory, in which the function makes them.
    """

    position: int
    dtype: torch.dtype
    sizes: tuple[int, ...]
    order: Order


@frozen
class Passed:
    """Output of a graph that is one of its inputs."""

    position: int


@frozen
class Known:
    """Output of a graph that is not a tensor."""

    value: Any


@frozen
class Viewed:
    """Output of a graph that is a view of another one's memory, as in eager.

    Attributes:
        position: Result of the function that it views.
        sizes: Its sizes.
        strides: Its strides, in elements.
        offset: Its offset in elements of the result.
    """

    position: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


@frozen
class Seen:
    """Output of a graph that is a view of one of its inputs, as in eager.

    Attributes:
        position: The input.
        steps: Successive views: operation, its other arguments, and those by name.
    """

    position: int
    steps: tuple[tuple[Any, tuple[Any, ...], Mapping[str, Any]], ...]

    def of(self, tensor: torch.Tensor) -> Any:
        """Return the view of a tensor."""
        found = tensor.detach() if tensor.requires_grad else tensor
        for function, args, kwargs in self.steps:
            found = function(found, *args, **kwargs)
        return found


@frozen
class Packed:
    """Output of a graph whose bytes are results of the function.

    Attributes:
        parts: Positions of these results, and their offsets, in bytes.
        nbytes: Size of the output.
    """

    parts: tuple[tuple[int, int], ...]
    nbytes: int


Result: TypeAlias = Computed | Passed | Known | Viewed | Seen | Packed


_LETTERS: Final = 300
"""Maximum number of shown characters of a line of the user's Python."""


def place_of(node: Node) -> str:
    """Return the line of the user's Python that a node comes from, and its text; empty for none.

    Unprintable characters, such as tabs, become spaces. A long line is cut at the end, a long path at the beginning.
    """
    trace = node.meta.get("stack_trace") or ""
    trace = "".join(each if each.isprintable() or each == "\n" else " " for each in trace)
    lines = [line.strip() for line in trace.split("\n") if line.strip()]
    files = [at for at, line in enumerate(lines) if line.startswith("File ")]
    if not files:
        return ""
    where, *code = lines[files[-1] :][:2]
    return ": ".join((where[-_LETTERS:].strip(), *(line[:_LETTERS].strip() for line in code)))


def dense_order(sizes: Sequence[int], strides: Sequence[int]) -> Order:
    """Return the order of a dense tensor's axes in memory, else their natural order."""
    plain = tuple(range(len(sizes)))
    if _is_dense(sizes, strides, plain):
        return plain
    order = tuple(sorted(plain, key=lambda axis: (-strides[axis], axis)))
    return order if _is_dense(sizes, strides, order) else plain


def _is_dense(sizes: Sequence[int], strides: Sequence[int], order: Order) -> bool:
    expected = 1
    for axis in reversed(order):
        if sizes[axis] != 1 and strides[axis] != expected:
            return False
        expected *= sizes[axis]
    return True


def size_of(value: Any, symbols: Mapping[Any, int]) -> Any:
    """Return a number for a possibly symbolic one; unknown symbols have their hint.

    Args:
        value: The number.
        symbols: Values of symbols.
    """
    if not isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return value
    found = sympify(value.node.expr).xreplace(dict(symbols))
    if found.free_symbols:
        hint = value.node.hint
        if hint is None:
            raise RefusedError("a size depends on values, which only running tells")
        return hint
    return bool(found) if isinstance(value, torch.SymBool) else float(found) if _is_float(value) else int(found)


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.SymFloat)


def outputs_of(graph: Graph) -> list[Any]:
    """Return the outputs of a graph, in order."""
    last = next(node for node in reversed(graph.nodes) if node.op == "output")
    found = last.args[0]
    return list(found) if isinstance(found, tuple | list) else [found]


@frozen(eq=False)
class Call:
    """Node for its row.

    Attributes:
        importer: Runner of the graph.
        node: The node.
    """

    importer: Importer
    node: Node

    @property
    def value(self) -> Any:
        """Fake tensor of the node, or a tuple of them."""
        return self.node.meta["val"]

    @property
    def dtype(self) -> DType:
        """Dtype of its first result."""
        value = self.value
        return DTYPES[(value if isinstance(value, torch.Tensor) else value[0]).dtype]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of its first result."""
        value = self.value
        return self.importer.sizes(value if isinstance(value, torch.Tensor) else value[0])

    def given(self, position: int) -> Any:
        """Return an argument as the graph has it: a fake tensor for a node."""
        return map_arg(self.node.args[position], lambda node: node.meta.get("val"))

    def number(self, value: Any, dtype: DType) -> Any:
        """Return a number as an operand of tensors of a dtype."""
        if dtype.is_float:
            return float(value) if isfinite(value) else self.tensor(np.array(value, dtype.numpy))
        if dtype.is_bool:
            return self.tensor(np.array(bool(value)))
        bounds = np.iinfo(dtype.numpy)  # beyond them numbers wrap around, as PyTorch's do
        return (int(value) - bounds.min) % (1 << bounds.bits) + bounds.min

    def operand(self, value: Any, dtype: DType) -> Any:
        """Return a tensor or number as an operand of a dtype."""
        return ops.cast(value, dtype) if isinstance(value, Tensor) else self.number(value, dtype)

    def tensor(self, array: np.ndarray[Any, Any]) -> Tensor:
        """Return an array as a constant."""
        return self.importer.builder.constant(array)

    def full(self, value: Any, sizes: Sequence[int], dtype: DType) -> Tensor:
        """Return a tensor filled with one number."""
        return ops.full(self.tensor(np.array(0, np.int32)), tuple(sizes), self.number(value, dtype), dtype=dtype)

    def drawn(self, draw: Callable[[Tensor], tuple[Tensor, Tensor]]) -> Tensor:
        """Return random numbers, which a function draws from a state, and returns with the next state."""
        found, self.importer.state = draw(self.importer.state_now())
        return found

    def refuse(self, reason: str) -> RefusedError:
        """Return the error for an unsupported node, to be raised."""
        return RefusedError(reason)


@define(eq=False)
class Importer:
    """Runner of a graph on tensors of a builder.

    Attributes:
        builder: Recorder of the tensors.
        owner: Module with the graph's constants.
        symbols: Values of symbols in sizes.
        unsupported: Unsupported nodes, whose results become inputs; None to raise errors about them.
        keeps_orders: Whether inputs and results may have PyTorch's memory order of axes.
        draws: Whether to support random operations, whose numbers then differ from eager.
        state: State of the next random numbers; None if none were drawn.
    """

    builder: FunctionBuilder
    owner: Any
    symbols: Mapping[Any, int]
    unsupported: list[Unsupported] | None = None
    keeps_orders: bool = True
    draws: bool = True
    state: Tensor | None = None
    values: dict[Node, Value] = field(factory=dict)
    orders: dict[Node, Order] = field(factory=dict)
    _memories: Memories | None = None

    def sizes(self, value: torch.Tensor) -> tuple[int, ...]:
        """Return the sizes of a fake tensor."""
        return tuple(size_of(size, self.symbols) for size in value.shape)

    def order(self, value: torch.Tensor, sizes: Sequence[int]) -> Order:
        """Return the order of a fake tensor's axes in memory."""
        if not self.keeps_orders:
            return tuple(range(len(sizes)))
        return dense_order(sizes, [size_of(stride, self.symbols) for stride in value.stride()])

    def run(self, graph: Graph) -> None:
        """Run all nodes of a graph except its last."""
        with _disable_current_modes():  # constants have elements, even while PyTorch traces with tensors that have none
            for node in graph.nodes:
                if node.op != "output":
                    self._run(node)

    def _run(self, node: Node) -> None:
        try:
            self.values[node] = self.made(node)
        except (RefusedError, TileError, TypeError, ValueError, IndexError, KeyError) as error:
            if self.unsupported is None:
                raise TileError([self._fault(node, error).diagnostic]) from error
            self.unsupported.append(self._fault(node, error))
            self.values[node] = self._replaced(node)

    def _fault(self, node: Node, error: Exception) -> Unsupported:
        reason = str(error.args[0]) if isinstance(error, RefusedError) else _reason_of(error)
        return Unsupported(node.name, str(node.target), reason, place_of(node))

    def made(self, node: Node) -> Value:
        """Return the result of a node for the values of others."""
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool | int | float | bool):
            return size_of(value, self.symbols)
        match node.op:
            case "placeholder":
                return self._input(node, value)
            case "get_attr":
                return self._attribute(node)
            case "call_function":
                return self._called(node, value)
            case _:
                raise RefusedError(f"tileir runs no {node.op}")

    def _input(self, node: Node, value: Any) -> Value:
        if not isinstance(value, torch.Tensor) or is_packed(node):
            return None
        check_kind(value)
        sizes = self.sizes(value)
        order = self.order(value, sizes)
        self.orders[node] = order
        dtype, name = DTYPES[value.dtype], node.name
        if not sizes:
            return self.builder.scalar(name, dtype)
        found = self.builder.input(name, *(sizes[axis] for axis in order), dtype=dtype)
        return found if order == tuple(range(len(sizes))) else ops.transpose(found, tuple(np.argsort(order).tolist()))

    def state_now(self) -> Tensor:
        """Return the current state of random numbers: that of the call, or its successor."""
        if self.state is None:
            self.state = self.builder.input("random.state", 4, dtype=DType.U32)
        return self.state

    def _replaced(self, node: Node) -> Value:
        """Return inputs that replace the results of an unsupported node; None for unsupported values."""

        def one(value: Any, name: str) -> Value:
            if not isinstance(value, torch.Tensor):
                return None
            try:
                check_kind(value)
                sizes, dtype = self.sizes(value), DTYPES[value.dtype]
            except RefusedError:
                return None
            return self.builder.input(name, *sizes, dtype=dtype) if sizes else self.builder.scalar(name, dtype)

        value = node.meta.get("val")
        if isinstance(value, tuple | list):
            return tuple(one(each, f"{node.name}.{at}'") for at, each in enumerate(value))
        return one(value, f"{node.name}'")

    def _attribute(self, node: Node) -> Value:
        found = self.owner
        for part in str(node.target).split("."):
            found = getattr(found, part)
        if isinstance(found, torch.Tensor):
            check_kind(found)
            return self.builder.constant(array_of(found))
        raise RefusedError("it is a graph of its own, which tileir does not run")

    def _called(self, node: Node, value: Any) -> Value:
        target = str(node.target)
        if node.target is operator.getitem:
            whole, at = node.args
            return self.values[whole][at]
        if target in _DROPPED or node.target is PACKED or (value is None and not node.users):
            return None
        if node.target is PART:
            return self._input(node, value)
        for each in value if isinstance(value, tuple | list) else (value,):
            if isinstance(each, torch.Tensor):
                check_kind(each)
        for each in node.all_input_nodes:
            known = each.meta.get("val")
            if isinstance(known, torch.Tensor):
                check_kind(known)
        args = map_arg(node.args, self._read)
        kwargs = map_arg(node.kwargs, self._read)
        with self.builder.at(_place(node)):
            if not is_writing(node):
                return self._fitted(node, self._found(node, target, value, args, kwargs), value)
            found = self._fitted(node, self._found(node, made_instead(node), value, args, kwargs), value)
            if self._memories is None:
                self._memories = Memories(node.graph)
            self._memories.write(self, node, found)
            return found

    def served(self, node: Node, target: str, *args: Any, **kwargs: Any) -> Value:
        """Return the result of an operation's row for a node."""
        row = row_of(target)
        if row is None:
            raise RefusedError("tileir has no row for it")
        return row(Call(self, node), *map(self.argument, args), **kwargs)

    def _read(self, node: Node) -> Value:
        value = self.values[node]
        if value is None and isinstance(node.meta.get("val"), torch.Tensor):
            raise RefusedError(f"it reads {node.name}, which is no tensor of tileir's")
        return value

    def _found(self, node: Node, target: str, value: Any, args: Any, kwargs: Any) -> Value:
        program = PROGRAMS.get(node.target)
        if program is not None:
            found = program(*args, **kwargs)
            return found if isinstance(found, tuple) or not isinstance(value, tuple | list) else (found,)
        row = row_of(target)
        if row is not None and not self.draws and torch.Tag.nondeterministic_seeded in node.target.tags:
            raise RefusedError("it draws the numbers that eager draws")
        if row is None and self._is_constant(node, value):
            return self._folded(node, value)
        return self.served(node, target, *args, **kwargs)

    def argument(self, value: Any) -> Any:
        """Return an argument of a node with numbers for sizes."""
        if isinstance(value, torch.SymInt | torch.SymFloat):
            return size_of(value, self.symbols)
        return list(map(self.argument, value)) if isinstance(value, list | tuple) else value

    def _is_constant(self, node: Node, value: Any) -> bool:
        """Return whether a node is a tensor with the same few elements each time."""
        tags = getattr(node.target, "tags", ())
        return bool(
            isinstance(value, torch.Tensor)
            and isinstance(node.target, torch._ops.OpOverload)
            and torch.Tag.nondeterministic_seeded not in tags
            and not any(isinstance(each.meta.get("val"), torch.Tensor) for each in node.all_input_nodes)
            and np.prod(self.sizes(value), dtype=np.int64) <= _FOLDED
        )

    def _folded(self, node: Node, value: torch.Tensor) -> Tensor:
        args, kwargs = map_arg(node.args, self._read), dict(map_arg(node.kwargs, self._read))
        if "device" in kwargs:
            kwargs["device"] = torch.device("cpu")
        kwargs.pop("pin_memory", None)
        found: torch.Tensor = node.target(*map(self.argument, args), **kwargs)
        return self.builder.constant(array_of(found.to(value.dtype)))

    def _fitted(self, node: Node, found: Value, value: Any) -> Value:
        """Return a result in PyTorch's dtype, after checking its sizes."""
        if isinstance(value, tuple | list):
            results = found if isinstance(found, tuple | list) else (found,)
            return tuple(self._fitted(node, each, one) for each, one in zip(results, value, strict=True))
        if not isinstance(value, torch.Tensor) or found is None:
            return found
        sizes = self.sizes(value)
        if not isinstance(found, Tensor):
            return Call(self, node).full(found, sizes, DTYPES[value.dtype])
        if tuple(found.shape) != sizes:
            raise RefusedError(f"tileir makes {tuple(found.shape)} of it, and PyTorch {sizes}")
        dtype = DTYPES[value.dtype]
        return found if _has_dtype(found, dtype) else ops.cast(found, dtype)


def _has_dtype(tensor: Tensor, dtype: DType) -> bool:
    """Return whether a tensor is known to have a dtype; that of places depends on the number of elements."""
    try:
        return tensor.dtype is dtype
    except TileError:
        return False


def array_of(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """Return the elements of a tensor as a NumPy array."""
    tensor = tensor.detach().cpu().contiguous()
    tensor = tensor.clone() if tensor._is_zerotensor() else tensor  # a gradient that is 0 has no memory
    if tensor.dtype in (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2):
        integers = torch.int16 if tensor.dtype is torch.bfloat16 else torch.uint8
        tensor, dtype = tensor.view(integers), DTYPES[tensor.dtype].numpy
        return np.asarray(tensor).view(dtype)
    return np.asarray(tensor)


def check_kind(value: torch.Tensor) -> None:
    """Raise RefusedError for an unsupported kind of tensor."""
    if value.dtype not in DTYPES:
        raise RefusedError(f"its elements are {value.dtype}".replace("torch.", ""))
    if value.layout is not torch.strided or value.is_quantized:
        raise RefusedError(f"its layout is {value.layout}".replace("torch.", ""))


def _place(node: Node) -> str:
    place = place_of(node)
    return f"{node.target} ({node.name})" + (f" of {place}" if place else "")


def _reason_of(error: Exception) -> str:
    if isinstance(error, TileError):
        return "; ".join(each.message for each in error.diagnostics)
    return f"{type(error).__name__}: {error}"


def unsupported(graph_module: GraphModule, *, fallback_random: bool = False) -> list[Unsupported]:
    """Return the unsupported nodes of a graph of ATen operations, with reasons and lines of Python.

    Args:
        graph_module: A graph with fake tensors, from ``torch.export`` or ``aot_autograd``. Symbolic sizes have their
            traced values.
        fallback_random: Whether all random operations count as unsupported, to get the numbers of eager.
    """
    found: list[Unsupported] = []
    importer = Importer(FunctionBuilder(), graph_module, {}, found, draws=not fallback_random)
    importer.run(graph_module.graph)
    return found


def imported(
    graph: Graph, owner: Any, symbols: Mapping[Any, int] | None = None, *, keeps_orders: bool = True
) -> Imported:
    """Return the function of a graph of ATen operations for given sizes.

    Args:
        graph: The graph, whose nodes have fake tensors.
        owner: Module with its constants.
        symbols: Values of the symbols in sizes.
        keeps_orders: Whether inputs and results may have the memory order of axes that their strides define.

    Raises:
        TileError: TIL605, a node uses unsupported features.
    """
    importer = Importer(FunctionBuilder(), owner, symbols or {}, None, keeps_orders)
    importer.run(graph)
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    outputs = outputs_of(graph)
    bases = _bases(importer, graph, outputs) if keeps_orders else {}
    tensors: dict[str, Tensor] = {}
    known: dict[Node, Result] = {}

    def of(output: Any) -> Result:
        if not isinstance(output, Node):
            return Known(size_of(output, importer.symbols))
        if output not in known:
            if output.target is PACKED:
                return _packed([of(each) for each in output.args[0]], *output.args[1:])
            base = bases.get(output, output)
            seen = _seen(importer, output, placeholders) if keeps_orders else None
            if seen is not None or base is output:
                known[output] = seen or _result(importer, output, placeholders, tensors)
            else:
                known[output] = _viewed(importer, output, of(base))
        return known[output]

    results = tuple(map(of, outputs))
    computed = [each for each in known.values() if isinstance(each, Computed)]
    numbers = {node: at for at, node in enumerate(placeholders)}
    parts = [
        (node.args[1], node.args[0].meta["val"].numel()) if node.target is PART else None for node in importer.orders
    ]
    taken = [numbers[node if part is None else node.args[0]] for node, part in zip(importer.orders, parts, strict=True)]
    function = importer.builder.build(**tensors) if tensors else None
    orders = tuple(importer.orders.values())
    draws = importer.state is not None
    return Imported(
        function,
        (*taken, len(placeholders)) if draws else tuple(taken),
        (*orders, (0,)) if draws else orders,
        results,
        tuple(sorted(computed, key=lambda each: each.position)),
        (*parts, None) if draws else tuple(parts),
        draws,
    )


def _packed(parts: Sequence[Result], offsets: Sequence[int], nbytes: int) -> Packed:
    places = []
    for part, offset in zip(parts, offsets, strict=True):
        if not isinstance(part, Computed):
            raise TileError([Diagnostic("TIL605", "a graph keeps a tensor that it does not make")])
        places.append((part.position, offset))
    return Packed(tuple(places), nbytes)


def _bases(importer: Importer, graph: Graph, outputs: Sequence[Any]) -> dict[Node, Node]:
    """Return, for outputs that share memory in eager, repeat it or show a part of it, the node of the whole memory."""
    sharing: dict[Any, list[Node]] = {}
    for node in graph.nodes:
        value = node.meta.get("val") if node.op == "call_function" else None
        if isinstance(value, torch.Tensor) and isinstance(importer.values[node], Tensor):
            sharing.setdefault((value.untyped_storage()._cdata, value.dtype), []).append(node)
    returned = {each for each in outputs if isinstance(each, Node)}
    found: dict[Node, Node] = {}
    for together in sharing.values():
        seen = [node for node in together if node in returned]
        if len(seen) > 1 or any(_repeats(importer, node) or _is_part(importer, node) for node in seen):
            whole = next((node for node in (*seen, *together) if _is_whole(importer, node)), None)
            found.update(dict.fromkeys(seen, whole) if whole is not None else {})
    return found


def _seen(importer: Importer, output: Node, placeholders: Sequence[Node]) -> Seen | None:
    """Return an output as a view of an input; None if it has separate memory."""
    value, node = output.meta.get("val"), output
    if not isinstance(value, torch.Tensor) or not isinstance(importer.values[output], Tensor):
        return None
    steps: list[Any] = []
    while node.op == "call_function" and isinstance(source := (node.args or (None,))[0], Node):
        others = (node.args[1:], dict(node.kwargs))
        rest = map_arg(others, lambda each: None if isinstance(each.meta.get("val"), torch.Tensor) else each)
        if len(rest[0]) and any(each is None and old is not None for each, old in zip(rest[0], others[0], strict=True)):
            return None
        args, kwargs = map_arg(others, importer.values.__getitem__)
        steps.append((node.target, tuple(map(importer.argument, args)), kwargs))
        node = source
    if node not in placeholders or not isinstance(whole := node.meta.get("val"), torch.Tensor):
        return None
    is_view = bool(steps) and whole.untyped_storage()._cdata == value.untyped_storage()._cdata
    return Seen(placeholders.index(node), tuple(reversed(steps))) if is_view else None


def _strides(importer: Importer, node: Node) -> tuple[int, ...]:
    return tuple(size_of(stride, importer.symbols) for stride in node.meta["val"].stride())


def _repeats(importer: Importer, node: Node) -> bool:
    """Return whether several elements of a tensor share a place in memory."""
    sizes = importer.sizes(node.meta["val"])
    return any(size > 1 and not stride for size, stride in zip(sizes, _strides(importer, node), strict=True))


def _room(importer: Importer, node: Node) -> int:
    """Return the number of elements in a tensor's memory."""
    value = node.meta["val"]
    return int(size_of(value.untyped_storage().nbytes(), importer.symbols)) // int(value.itemsize)


def _is_part(importer: Importer, node: Node) -> bool:
    """Return whether memory has more elements than a tensor shows: ``as_strided`` can access them."""
    return 0 < prod(importer.sizes(node.meta["val"])) < _room(importer, node)


def _is_whole(importer: Importer, node: Node) -> bool:
    """Return whether a tensor covers all of its memory."""
    value = node.meta["val"]
    sizes = importer.sizes(value)
    order = dense_order(sizes, _strides(importer, node))
    return _room(importer, node) == prod(sizes) and _is_dense(sizes, _strides(importer, node), order)


def owner_of_memory(node: Node) -> Node:
    """Return the node of the tensor that owns the memory of a node's tensor."""
    storage, whole, at = node.meta["val"].untyped_storage()._cdata, node, node
    while at.op == "call_function" and at.args and isinstance(at.args[0], Node):
        at = at.args[0]
        source = at.meta.get("val")
        if isinstance(source, torch.Tensor):
            if source.untyped_storage()._cdata != storage:
                break
            whole = at
    return whole


_COPYING_MEMORY: Final = frozenset(
    {
        torch.ops.aten.as_strided_scatter.default,
        torch.ops.aten.diagonal_scatter.default,
        torch.ops.aten.select_scatter.default,
        torch.ops.aten.slice_scatter.default,
    }
)
"""Updates that copy the memory of a tensor, gaps included."""


def memory_of(importer: Importer, node: Node) -> Tensor | None:
    """Return all elements of a tensor's memory, in memory order; None if the graph does not have them.

    Gaps have the elements of the tensor that an update copied whole; 0 if nothing has written them.

    Args:
        importer: Runner of the graph.
        node: Node of the tensor, which was run.
    """
    whole = owner_of_memory(node)
    if whole.meta["val"].dtype is not node.meta["val"].dtype:
        return None
    found, sizes, strides = importer.values[whole], importer.sizes(whole.meta["val"]), _strides(importer, whole)
    if _is_whole(importer, whole):
        return ops.reshape(ops.transpose(found, dense_order(sizes, strides)) if sizes else found, prod(sizes))
    if whole.op != "call_function":
        return None
    offset = 0
    if whole.target in _COPYING_MEMORY:  # from its first byte on, which fake tensors do not tell
        copied = whole.args[0]
        offset, gaps = size_of(copied.meta["val"].storage_offset(), importer.symbols), memory_of(importer, copied)
        if gaps is None:
            return None
    else:
        gaps = ops.full(found, (_room(importer, whole),), 0)
    places = importer.builder.constant(strided_places(sizes, strides, offset).reshape(-1))
    return ops.scatter(gaps, places, ops.reshape(found, prod(sizes)), mode="set", unique=True)


def strided_places(sizes: Sequence[int], strides: Sequence[int], offset: int) -> np.ndarray[Any, Any]:
    """Return the places of elements in memory, for sizes and strides."""
    places = np.full(tuple(sizes), offset, np.int64)
    for axis, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        places += (np.arange(size) * stride).reshape(-1, *[1] * (len(sizes) - 1 - axis))
    return places


def _viewed(importer: Importer, output: Node, whole: Result) -> Result:
    assert isinstance(whole, Computed)
    value = output.meta["val"]
    offset = size_of(value.storage_offset(), importer.symbols)
    return Viewed(whole.position, importer.sizes(value), _strides(importer, output), offset)


def _result(importer: Importer, output: Node, placeholders: Sequence[Node], tensors: dict[str, Tensor]) -> Result:
    if output in placeholders and importer.keeps_orders:
        return Passed(placeholders.index(output))
    found, value = importer.values[output], output.meta.get("val")
    if not isinstance(found, Tensor):
        return Known(found)
    sizes = importer.sizes(value)
    order = importer.order(value, sizes)
    moved = found if order == tuple(range(len(sizes))) else ops.transpose(found, order)
    position = len(tensors)
    tensors[f"result.{position}"] = moved
    return Computed(position, value.dtype, sizes, order)
