"""Loops of steps beside PyTorch's: recurrences element by element, state spaces, recurrent networks, gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from card_workload import Size, Workload
from tileir import DType, ops
from tileir.ops import RecurrentWeights
from tileir.tile import builder_functions as tf

GROUP = "scans"


def scans(size: Size) -> Iterator[Workload]:
    """Return loops of some hundred to some thousand steps."""
    for steps, elements in ((512, 65536), (4097, 1024), (20_000, 64)):
        yield _decay(size, steps, elements)
    yield _gradient_of_decay(size, 512, 65536)
    for steps in (512, 1024):
        yield _state_space(size, steps)
    yield _normed(size, 256, 65536)
    for dtype in (DType.F32, DType.F16):
        yield _recurrent(size, "lstm", dtype)
        yield _recurrent(size, "gru", dtype)


def _decay_step(h: Any, x: Any) -> tuple[Any, ...]:
    following = h * 0.9 + x
    return following, following * 2


def _decayed(torch: Any, h: Any, xs: Any) -> tuple[Any, Any]:
    found = []
    for x in xs:
        h = h * 0.9 + x
        found.append(h * 2)
    return h, torch.stack(found)


def _decay(size: Size, steps: int, elements: int) -> Workload:
    shapes = ((size(elements),), (size(steps), size(elements)))
    return Workload(
        GROUP, f"decay of {steps} steps", shapes, DType.F32, lambda h, xs: tf.scan(_decay_step, [h], [xs]), _decayed
    )


def _gradient_of_decay(size: Size, steps: int, elements: int) -> Workload:
    def program(h: Any, xs: Any) -> Any:
        last, _ = tf.scan(lambda h, x: (ops.tanh(h * 0.9 + x), x), [h], [xs])
        return tuple(tf.gradient(ops.sum(last * last), h, xs))

    def peer(torch: Any, h: Any, xs: Any) -> Any:
        with torch.enable_grad():
            h, xs = h.detach().requires_grad_(), xs.detach().requires_grad_()
            last = h
            for x in xs:
                last = torch.tanh(last * 0.9 + x)
            return torch.autograd.grad((last * last).sum(), [h, xs])

    shapes = ((size(elements),), (size(steps), size(elements)))
    return Workload(GROUP, f"gradient of {steps} steps", shapes, DType.F32, program, peer)


def _state_space(size: Size, steps: int) -> Workload:
    """Return the recurrence of selective state spaces: each channel has some states, which decay by the input."""
    batch, channels, states = size(4), size(1024), size(16)

    def step(h: Any, dt: Any, x: Any, b: Any, c: Any, a: Any) -> tuple[Any, ...]:
        rate, into = ops.unsqueeze(dt, -1), ops.unsqueeze(dt * x, -1) * ops.unsqueeze(b, 1)
        following = ops.exp(rate * a) * h + into
        return following, ops.sum(following * ops.unsqueeze(c, 1), -1)

    def peer(torch: Any, h: Any, dts: Any, xs: Any, bs: Any, cs: Any, a: Any) -> Any:
        found = []
        for dt, x, b, c in zip(dts, xs, bs, cs, strict=True):
            h = torch.exp(dt[..., None] * a) * h + (dt * x)[..., None] * b[:, None]
            found.append((h * c[:, None]).sum(-1))
        return torch.stack(found)

    rows = (size(steps), batch)
    shapes = ((batch, channels, states), (*rows, channels), (*rows, channels), (*rows, states), (*rows, states))
    return Workload(
        GROUP,
        f"state space of {steps} steps",
        (*shapes, (channels, states)),
        DType.F32,
        lambda h, dts, xs, bs, cs, a: tf.scan(step, [h], [-ops.abs(dts), xs, bs, cs], [ops.abs(a)])[1],
        lambda torch, h, dts, xs, bs, cs, a: peer(torch, h, -dts.abs(), xs, bs, cs, a.abs()),
    )


def _normed(size: Size, steps: int, elements: int) -> Workload:
    """Return steps that need a sum over all elements: a power iteration of a diagonal matrix, with noise."""

    def step(h: Any, x: Any) -> tuple[Any, ...]:
        following = h * 0.9 + x
        return (following * ops.rsqrt(ops.sum(following * following) + 1),)

    def peer(torch: Any, h: Any, xs: Any) -> Any:
        for x in xs:
            following = h * 0.9 + x
            h = following * torch.rsqrt((following * following).sum() + 1)
        return h

    shapes = ((size(elements),), (size(steps), size(elements)))
    return Workload(GROUP, f"normed, {steps} steps", shapes, DType.F32, lambda h, xs: tf.scan(step, [h], [xs])[0], peer)


def _recurrent(size: Size, name: str, dtype: DType) -> Workload:
    """Return a layer of a recurrent network, 128 steps of 64 rows, 512 units."""
    steps, rows, units = size(128), size(64), size(512)
    gates = {"lstm": 4, "gru": 3}[name] * units

    def peer(torch: Any, x: Any, w_x: Any, w_h: Any) -> Any:
        state = torch.zeros(1, rows, units, dtype=x.dtype, device=x.device)
        first = (state, state) if name == "lstm" else state
        return getattr(torch, name)(x, first, [w_x, w_h], False, 1, 0.0, False, False, False)[0]

    return Workload(
        GROUP,
        name,
        ((steps, rows, units), (gates, units), (gates, units)),
        dtype,
        lambda x, w_x, w_h: getattr(ops, name)(x, [RecurrentWeights(w_x, w_h)])[0],
        peer,
        2.0 * 2 * steps * rows * gates * units,
    )
