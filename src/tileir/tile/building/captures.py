"""Captures: tensors and sizes of a surrounding function become inputs of the function that reads them."""

from __future__ import annotations

from tileir.core import DType, call_site
from tileir.tile import ir
from tileir.tile.building.assembly import substitute
from tileir.tile.building.dtypes import dtype_of
from tileir.tile.building.indices import Dim
from tileir.tile.building.recording import Recorder, Trace, mistake
from tileir.tile.building.sizes import Sizes, sizes_of
from tileir.tile.ir import Expr
from tileir.tile.text.grammar import is_tensor_name
from tileir.tile.traversal import walk


def inner_trace(around: Recorder) -> Trace | None:
    """Return the trace of a function inside one that is traced."""
    return None if around.trace is None else Trace(f"a function inside {around.trace.name}")


def declare(inner: Recorder, name: str, sizes: Sizes | None, dtype: DType | None = None) -> str:
    """Declare an input of an inner function; equal sizes around it are one dimension inside, numbers stay numbers."""
    span = call_site()
    inner.dtypes[name] = dtype
    if sizes is None:
        inner.inputs.append(ir.Input(name, None, span=span))
        inner.sizes[name] = None
        return name
    axes: list[ir.Size] = []
    known: list[Dim] = []
    for size in sizes:
        if isinstance(size.own_expr, ir.IntLiteral):
            axes.append(size.own_expr)
            known.append(Dim(size.own_expr, inner))
            continue
        found = next((dim for dim, expr in inner.outside.items() if expr == size.own_expr and size.value is None), None)
        if found is None:
            stem = size.own_expr.name if isinstance(size.own_expr, ir.Name) else "D"
            found = inner.names.fresh(stem if is_tensor_name(stem) else "D")
            inner.dims[found] = None
            inner.outside[found] = size.own_expr
        axes.append(ir.Name(found, span=span))
        known.append(Dim(size.own_expr if size.value is not None else axes[-1], inner))
    inner.inputs.append(ir.Input(name, tuple(axes), span=span))
    inner.sizes[name] = tuple(known)
    inner.ranks[name] = len(axes)
    return name


def captured(inner: Recorder, home: Recorder, reference: str) -> str:
    """Return the input for a tensor of a surrounding function, which is declared when it is first read."""
    around = inner.around
    assert around is not None
    if around is not home:
        reference = captured(around, home, reference)
    if reference not in inner.captured:
        if reference in around.targets:
            raise mistake("TIL201", f"{reference!r} is read before a contraction defined it")
        stem = reference if is_tensor_name(reference) else "W"
        sizes = sizes_of(around, reference)
        inner.captured[reference] = declare(inner, inner.names.fresh(stem), sizes, dtype_of(around, reference))
    return inner.captured[reference]


def captured_size(inner: Recorder, home: Recorder, expr: Expr) -> Expr:
    """Return a size of a surrounding function as that of inner tensors, one of which is captured if none has it."""
    around = inner.around
    assert around is not None
    if around is not home:
        expr = captured_size(around, home, expr)
    for node in tuple(walk(expr)):
        while isinstance(node, ir.Name) and node.name in around.steps:
            expr = substitute(expr, {node.name: around.steps[node.name].body})  # type: ignore[dict-item]  # a size
            node = around.steps[node.name].body  # type: ignore[assignment]
    inside: dict[str, Expr] = {}
    for node in tuple(walk(expr)):
        if isinstance(node, ir.Name) and node.name not in inside:
            inside[node.name] = _dimension(inner, around, node.name)
    return substitute(expr, inside)


def _dimension(inner: Recorder, around: Recorder, name: str) -> ir.Name:
    def known() -> str | None:
        same = (dim for dim, expr in inner.outside.items() if isinstance(expr, ir.Name) and expr.name == name)
        return next(same, None)

    if known() is None:
        for parameter in around.inputs:
            if any(isinstance(dim, ir.Name) and dim.name == name for dim in parameter.dims or ()):
                captured(inner, around, parameter.name)
                break
    found = known()
    if found is None:
        raise mistake("TIL216", "this size is computed around the function; pass a tensor that has it")
    return ir.Name(found, span=call_site())
