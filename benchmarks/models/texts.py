"""Networks that read and write texts."""

from __future__ import annotations

import numpy as np

from models.builder import Array, Builder, Network


def bert(
    batch: int, layers: int = 12, size: int = 768, heads: int = 12, rows: int = 128, words: int = 30522
) -> Network:
    """Return an encoder of texts: Devlin et al., "BERT", 2019."""
    b = Builder()
    x = b.op("Gather", b.weight(words, size, gain=0.5), b.text(batch, rows, words))
    x = b.norm(b.op("Add", x, b.weight(1, rows, size, gain=0.5)), size, 1e-12)
    for _ in range(layers):
        x = b.norm(b.op("Add", x, b.attention(x, rows, size, heads)), size, 1e-12)
        x = b.norm(b.op("Add", x, b.feed_forward(x, size)), size, 1e-12)
    return b.network(x)


def gpt2(
    batch: int, layers: int = 12, size: int = 768, heads: int = 12, rows: int = 128, words: int = 50257
) -> Network:
    """Return a decoder of texts at its first pass: Radford et al., "Language models are unsupervised", 2019."""
    b = Builder()
    table = b.random.standard_normal((words, size)).astype(np.float32) * np.float32(0.05)
    x = b.op("Gather", b.constant(table), b.text(batch, rows, words))
    x = b.op("Add", x, b.weight(1, rows, size, gain=0.05))
    mask = np.triu(np.full((rows, rows), -1e9, np.float32), 1)
    for _ in range(layers):
        x = b.op("Add", x, b.attention(b.norm(x, size, 1e-5), rows, size, heads, mask))
        x = b.op("Add", x, b.feed_forward(b.norm(x, size, 1e-5), size, "tanh"))
    return b.network(b.op("MatMul", b.norm(x, size, 1e-5), b.constant(np.ascontiguousarray(table.T))))


def gpt2_decode(
    batch: int, layers: int = 12, size: int = 768, heads: int = 12, past: int = 128, words: int = 50257
) -> Network:
    """Return a decoder of texts at one word behind others, whose keys and values come in and go out with it.

    Results are logits, and the keys and values of each layer, [batch, heads, past + 1, size // heads].
    """
    b = Builder()
    table = b.random.standard_normal((words, size)).astype(np.float32) * np.float32(0.05)
    x = b.op("Gather", b.constant(table), b.text(batch, 1, words))
    x = b.op("Add", x, b.weight(1, 1, size, gain=0.05))
    caches = []
    for layer in range(layers):
        normed = b.norm(x, size, 1e-5)
        parts = b.split(b.linear(normed, size, 3 * size), [size] * 3, 2)
        q, *new = (b.heads(part, 1, size, heads) for part in parts)
        k, v = (
            b.op("Concat", _past(b, f"past_{role}_{layer}", batch, heads, past, size // heads), part, axis=2)
            for role, part in zip(("keys", "values"), new, strict=True)
        )
        caches += [k, v]
        turned = b.op("Transpose", k, perm=[0, 1, 3, 2])
        x = b.op("Add", x, b.attended(q, turned, v, 1, size, heads))
        x = b.op("Add", x, b.feed_forward(b.norm(x, size, 1e-5), size, "tanh"))
    logits = b.op("MatMul", b.norm(x, size, 1e-5), b.constant(np.ascontiguousarray(table.T)))
    return b.network(logits, *caches)


def _past(b: Builder, name: str, batch: int, heads: int, rows: int, size: int) -> str:
    random = np.random.default_rng(len(b.feeds))
    return b.input(name, random.standard_normal((batch, heads, rows, size)).astype(np.float32))


def llama_decode(
    batch: int,
    layers: int = 12,
    size: int = 768,
    heads: int = 12,
    key_heads: int = 4,
    hidden: int = 2048,
    capacity: int = 256,
    words: int = 32000,
) -> Network:
    """Return a decoder with grouped queries at one word, whose cache has a fixed capacity: Touvron et al., 2023.

    The input "lengths" tells how many words the cache of each example has. Results are logits, and the caches,
    [batch, key_heads, capacity, size // heads], with the keys and values of the word written to that place.
    """
    b, width = Builder(), size // heads
    x = b.op("Gather", b.weight(words, size, gain=0.5), b.text(batch, 1, words))
    lengths = b.input("lengths", np.arange(capacity // 2, capacity // 2 + batch, dtype=np.int32))
    angles = np.outer(np.arange(capacity), 10000.0 ** (-np.arange(0, width, 2) / width))
    turns = [b.constant(part(angles).astype(np.float32)) for part in (np.cos, np.sin)]
    most, caches = b.constant(np.array(capacity, np.int32)), []
    for layer in range(layers):
        normed = _root_normed(b, x, size)
        q, k, v = (b.matmul(normed, size, many * width) for many in (heads, key_heads, key_heads))
        old = [_past(b, f"past_{role}_{layer}", batch, key_heads, capacity, width) for role in ("keys", "values")]
        y, *new = b.ops(
            "GroupQueryAttention",
            3,
            *(q, k, v, *old, lengths, most, *turns),
            domain="com.microsoft",
            num_heads=heads,
            kv_num_heads=key_heads,
            do_rotary=1,
        )
        caches += new
        x = b.op("Add", x, b.matmul(y, size, size))
        normed = _root_normed(b, x, size)
        gated = b.op("Mul", b.swish(b.matmul(normed, size, hidden)), b.matmul(normed, size, hidden))
        x = b.op("Add", x, b.matmul(gated, hidden, size))
    return b.network(b.matmul(_root_normed(b, x, size), size, words), *caches)


def _root_normed(b: Builder, x: str, size: int) -> str:
    """Divide by the root of the mean square, as exporters write it."""
    squares = b.op("ReduceMean", b.op("Pow", x, b.constant(2.0)), b.constant(np.array([-1])), keepdims=1)
    root = b.op("Sqrt", b.op("Add", squares, b.constant(1e-5)))
    return b.op("Mul", b.op("Mul", x, b.op("Reciprocal", root)), b.filled(size, 1))


def tagger(batch: int, rows: int = 64, hidden: int = 256, size: int = 128, words: int = 10000) -> Network:
    """Return a tagger of words: Huang, Xu and Yu, "Bidirectional LSTM-CRF models", 2015, without the last layer."""
    b = Builder()
    x = b.op("Gather", b.weight(words, size), b.text(batch, rows, words))
    x = b.op("Transpose", x, perm=[1, 0, 2])
    w, r = b.weight(2, 4 * hidden, size, fan_in=size), b.weight(2, 4 * hidden, hidden, fan_in=hidden)
    y = b.op("LSTM", x, w, r, b.weight(2, 8 * hidden, gain=0.1), hidden_size=hidden, direction="bidirectional")
    y = b.reshape(b.op("Transpose", y, perm=[2, 0, 1, 3]), batch, rows, 2 * hidden)
    return b.network(b.linear(y, 2 * hidden, 20))


def whisper(
    batch: int, layers: int = 4, size: int = 384, heads: int = 6, frames: int = 3000, bands: int = 80
) -> Network:
    """Return the encoder of speech of Radford et al., "Robust speech recognition", 2022; the tiny one."""
    b = Builder()
    x = b.image(batch, bands, frames)
    for inputs, stride in ((bands, 1), (size, 2)):
        w = b.weight(size, inputs, 3, fan_in=3 * inputs)
        x = b.op("Gelu", b.op("Conv", x, w, b.filled(size, 0), pads=[1, 1], strides=[stride]))
    rows = frames // 2
    x = b.op("Add", b.op("Transpose", x, perm=[0, 2, 1]), b.constant(_waves(rows, size)))
    for _ in range(layers):
        x = b.op("Add", x, b.attention(b.norm(x, size, 1e-5), rows, size, heads, key_bias=False))
        x = b.op("Add", x, b.feed_forward(b.norm(x, size, 1e-5), size))
    return b.network(b.norm(x, size, 1e-5))


def _waves(rows: int, size: int) -> Array:
    """Return sines and cosines of places, f32[rows, size]."""
    angles = np.outer(np.arange(rows), 10000.0 ** (-np.arange(size // 2) / (size // 2 - 1)))
    return np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(np.float32)
