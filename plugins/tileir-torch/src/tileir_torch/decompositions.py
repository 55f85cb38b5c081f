"""Decompositions of operations before import, and the operations that are kept whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

import torch
from torch._decomp import core_aten_decompositions, decompositions as theirs
from torch._ops import OpOverload

from tileir_torch.rows.table import rows

_WHOLE_IN_EXPORT: Final = (
    "aten.conv1d.default",
    "aten.conv2d.default",
    "aten.conv3d.default",
    "aten.gru.input",
    "aten.layer_norm.default",
    "aten.linear.default",
    "aten.lstm.input",
    "aten.rms_norm.default",
    "aten.rnn_relu.input",
    "aten.rnn_tanh.input",
    "aten.scaled_dot_product_attention.default",
)
"""Compositions that would otherwise be decomposed regardless of the table."""

_TAKEN_APART: Final = (
    "aten._native_batch_norm_legit_functional.default",
    "aten.dot.default",
    "aten.matmul.default",
    "aten.reshape.default",
    "aten.vdot.default",
)
"""Operations with rows for which PyTorch's own decomposition is better, or the only one for functions."""


def _overload(name: str) -> OpOverload | None:
    namespace, packet, overload = name.split(".")
    found = getattr(getattr(getattr(torch.ops, namespace), packet, None), overload, None)
    return found if found is not None and torch._C._dispatch_has_kernel(found.name()) else None


def _kept() -> Iterator[OpOverload]:
    for name in rows():
        found = _overload(name)
        if found is not None and name not in _TAKEN_APART:
            yield found


@cache
def of_autograd() -> dict[OpOverload, Callable[..., Any]]:
    """Return the decompositions for graphs of ``aot_autograd``: PyTorch's except those of rows."""
    table: dict[Any, Callable[..., Any]] = dict(core_aten_decompositions())
    for overload in _kept():
        table.pop(overload, None)
    return table


def of_export() -> Any:
    """Return the decompositions for exported programs: PyTorch's except those of rows, with compositions kept whole."""
    table = torch.export.default_decompositions()
    for overload in _kept():
        is_composite = overload.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd)
        if not is_composite or str(overload) in _WHOLE_IN_EXPORT:
            table.pop(overload, None)
    return table


@contextmanager
def mended() -> Iterator[None]:
    """Let PyTorch trace operations whose decompositions differ from eager with the results of eager.

    The one of ``lstm`` in PyTorch 2.11, which also gives its sizes if it is kept whole, left an axis of size 1 in the
    states; the one of ``multilabel_margin_loss`` adds margins for targets after the first -1.
    """
    layer = theirs.one_layer_lstm

    def layer_mended(inp: Any, hidden: Any, *others: Any, **named: Any) -> Any:
        out, states = layer(inp, hidden, *others, **named)
        return out, tuple(state.reshape(given.shape) for state, given in zip(states, hidden, strict=True))

    loss, key = torch.ops.aten.multilabel_margin_loss_forward.default, torch._C.DispatchKey.Autograd
    margins = loss.py_kernels[key]
    theirs.one_layer_lstm = layer_mended
    loss.py_kernels[key] = _margins_of_labels
    loss._dispatch_cache.clear()
    try:
        yield
    finally:
        theirs.one_layer_lstm = layer
        loss.py_kernels[key] = margins
        loss._dispatch_cache.clear()


def _margins_of_labels(x: torch.Tensor, target: torch.Tensor, reduction: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the results of ``multilabel_margin_loss_forward``, as eager execution computes them."""
    _, is_target = theirs.multilabel_margin_loss_forward(x, target, reduction)
    rows, places = torch.atleast_2d(x), torch.atleast_2d(target)
    counts = (places == -1).cumsum(1) == 0
    scores = rows.gather(1, torch.where(counts, places, 0))
    margins = torch.relu(1 - scores[:, :, None] + rows[:, None])
    others = is_target.reshape(rows.shape) == 0
    found = torch.where(counts[:, :, None] & others[:, None], margins, 0).sum((1, 2)) / rows.shape[1]
    if reduction == theirs.Reduction.NONE.value:
        return found.reshape(target.shape[:-1]), is_target
    return found.sum() if reduction == theirs.Reduction.SUM.value else found.mean(), is_target
