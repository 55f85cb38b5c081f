"""Updates and choices at places, of tensors without axes, of one element and of none, beside eager execution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from beside_eager import alike, tensor
from tileir_torch import backend

SHAPES: Final = ((), (1,), (0,), (3,), (0, 2), (2, 1), (2, 3))
INDICES: Final = ((), (1,), (0,), (2,), (1, 1), (2, 1), (0, 1))
ELEMENTS: Final[dict[str, Callable[..., Any]]] = {
    "scatter": lambda x, i, s: x.scatter(0, i, s),
    "scatter number": lambda x, i, _: x.scatter(0, i, 2.5),
    "scatter_add": lambda x, i, s: x.scatter_add(0, i, s),
    "gather": lambda x, i, _: x.gather(0, i),
    **{
        f"{word} {own}": lambda x, i, s, word=word, own=own: x.scatter_reduce(0, i, s, word, include_self=own)
        for word in ("sum", "prod", "mean", "amax", "amin")
        for own in (True, False)
    },
}
ROWS: Final[dict[str, Callable[..., Any]]] = {
    "index_add": lambda x, i, s: x.index_add(0, i, s),
    "index_copy": lambda x, i, s: x.index_copy(0, i, s),
    "index_select": lambda x, i, _: x.index_select(0, i),
    "index_fill": lambda x, i, _: x.index_fill(0, i, 1.5),
    "index_reduce": lambda x, i, s: x.index_reduce(0, i, s, "mean", include_self=False),
    "take": lambda x, i, _: torch.take(x, i),
    "put": lambda x, i, s: x.put(i, s, accumulate=True),
    "index_put": lambda x, i, s: x.index_put((i,), s.sum(), accumulate=True),
}


@pytest.mark.sampled(1)
@pytest.mark.filterwarnings("ignore:.*(deprecated|beta|prototype)")
@pytest.mark.parametrize("name", [*ELEMENTS, *ROWS])
@pytest.mark.parametrize("sizes", SHAPES)
def test_places(name: str, sizes: tuple[int, ...]) -> None:
    function, x = (ELEMENTS | ROWS)[name], tensor(*sizes)
    for shape in INDICES:
        count = sizes[0] if sizes else 1
        places = torch.arange(torch.Size(shape).numel()).reshape(shape) % max(count, 1)
        source = tensor(*(*shape, *sizes[1:]) if name in ROWS and len(shape) == 1 else shape, seed=1)
        given = (x, places, source)
        try:
            wanted = function(*given)
        except (RuntimeError, IndexError):  # ranks or sizes that it does not take
            continue
        graph = make_fx(lambda *each: [function(*each)])(*given)
        alike(backend(graph, given, options={"fullgraph": True})(*given)[0], wanted)
