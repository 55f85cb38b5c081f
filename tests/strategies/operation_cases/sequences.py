"""Cases of sequences with a state."""

from __future__ import annotations

from typing import Any, Final

from fuzz.wide.signals import causal, linear_attention
from strategies.operations import Array, Case, sample
from tileir import ops

_SIGNAL: Final = {"X": sample(2, 3, 5), "W": sample(3, 1, 4, seed=1)}
_WHOLE: Final = {**_SIGNAL, "B": sample(3, seed=2), "S": sample(2, 3, 3, seed=3)}
_PARTS: Final = {
    "Q": sample(2, 4, 3, 2, low=-1, high=1),
    "K": sample(2, 2, 3, 2, low=-1, high=1, seed=1),
    "V": sample(2, 2, 3, 4, low=-1, high=1, seed=2),
}
_GATED: Final = {
    **_PARTS,
    "S": sample(2, 2, 2, 4, seed=3),
    "D": sample(2, 2, 3, 2, low=-1, high=0, seed=4),
    "B": sample(2, 1, 3, 1, low=0, high=1, seed=5),
}


def _rows(x: Array) -> Any:
    """Return [B, H, T, D] as [B, T, H * D]."""
    return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)


CASES: Final = (
    Case("causal_conv", ops.causal_conv, _SIGNAL, causal),
    Case(
        "causal_conv_that_goes_on",
        lambda x, w, b, s: ops.causal_conv(x, w, b, s, activation="silu"),
        _WHOLE,
        lambda x, w, b, s: causal(x, w, b, s, "silu"),
    ),
    Case("linear_attention", ops.linear_attention, _PARTS, linear_attention),
    Case(
        "linear_attention_by_the_delta_rule",
        lambda q, k, v, s, d, b: ops.linear_attention(q, k, v, s, decay=d, beta=b),
        _GATED,
        lambda q, k, v, s, d, b: linear_attention(q, k, v, s, decay=d, beta=b),
    ),
    Case(
        "linear_attention_of_rows",
        lambda q, k, v, d: ops.linear_attention(q, k, v, decay=d, scale=0.5, heads=4, key_heads=2)[0],
        {name: _rows(_GATED[name]) for name in "QKVD"},
        lambda *_: _rows(linear_attention(*(_GATED[name] for name in "QKV"), decay=_GATED["D"])[0] * 0.5 * 2**0.5),
        wrt=("Q", "V"),
    ),
)
