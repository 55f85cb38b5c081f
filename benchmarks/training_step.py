"""One step of training a small convolutional network on 64 images of 8x8: forward, backward, and Adam's update.

The Tile program is the whole step; PyTorch takes its functions and its fused Adam. Both begin with the same parameters,
and return the loss and the first update.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

PARAMETERS: Final = {
    "K1[I, J, C0, C1]": (3, 3, 1, 32),
    "B1[C1]": (32,),
    "K2[I, J, C1, C2]": (3, 3, 32, 64),
    "B2[C2]": (64,),
    "W1[P, R, C2, F]": (4, 4, 64, 128),
    "B3[F]": (128,),
    "W2[F, Q]": (128, 10),
    "B4[Q]": (10,),
}
NAMES: Final = tuple(declaration.split("[")[0] for declaration in PARAMETERS)
BATCH: Final = 64
RATE: Final = 0.001

FORWARD: Final = """
    A1[n, y, x, d : N, H, W, C1] = +(X[n, y + i - 1, x + j - 1, c] * K1[i, j, c, d]);
    R1 = relu(A1 + B1);
    A2[n, y, x, d : N, H, W, C2] = +(R1[n, y + i - 1, x + j - 1, c] * K2[i, j, c, d]);
    R2 = relu(A2 + B2);
    P2[n, y, x, d : N, H / 2, W / 2, C2] = >(R2[n, 2*y + i, 2*x + j, d]), i < 2, j < 2;
    A3[n, f : N, F] = +(P2[n, y, x, d] * W1[y, x, d, f]);
    R3 = relu(A3 + B3);
    A4[n, q : N, Q] = +(R3[n, f] * W2[f, q]);
    L = A4 + B4;
    G[n, 0 : N, 1] = >(L[n, q]);
    D = L - stop_gradient(G);
    E = exp(D);
    S[n, 0 : N, 1] = +(E[n, q]);
    LP = (D - log(S)) * T;
    Total[] = +(LP[n, q]);
    Loss = -Total / N;
"""


def text() -> str:
    """Return the Tile program of a step."""
    moments = [f"M{name}, V{name}" for name in NAMES]
    inputs = ", ".join(["X[N, H, W, C0]", "T[N, Q]", "Step[]", *PARAMETERS, *moments])
    outputs = ", ".join(["Loss", *(f"New{n}, NewM{n}, NewV{n}" for n in NAMES)])
    updates = "".join(
        f"""
    D{name} = element(Gradients, {place});
    NewM{name} = 0.9 * M{name} + 0.1 * D{name};
    NewV{name} = 0.999 * V{name} + 0.001 * D{name} * D{name};
    New{name} = {name} - {RATE} * (NewM{name} / First) / (sqrt(NewV{name} / Second) + 0.00000001);"""
        for place, name in enumerate(NAMES)
    )
    return f"""function ({inputs}) -> ({outputs}) {{{FORWARD}
    Gradients = gradient(Loss, {", ".join(NAMES)});
    First = 1.0 - pow(0.9, Step);
    Second = 1.0 - pow(0.999, Step);{updates}
}}"""


def arrays() -> dict[str, np.ndarray[Any, Any]]:
    """Return all inputs, the same in every process."""
    random = np.random.default_rng(5)
    inputs = {
        "X": random.standard_normal((BATCH, 8, 8, 1), np.float32),
        "T": np.eye(10, dtype=np.float32)[random.integers(0, 10, BATCH)],
        "Step": np.ones((), np.float32),
    }
    parameters = {
        n: 0.1 * random.standard_normal(s, np.float32) for n, s in zip(NAMES, PARAMETERS.values(), strict=True)
    }
    moments = {f"{m}{n}": np.zeros(p.shape, np.float32) for n, p in parameters.items() for m in "MV"}
    return {**inputs, **parameters, **moments}


def tileir_step() -> Callable[[], Sequence[Any]]:
    """Compile the program, and reuse the arrays of its results; each call is the first step again."""
    import tileir

    given = arrays()
    executable = tileir.compile(text(), given)
    inputs = [given[name] for name in executable.inputs]
    out = list(executable(*inputs))
    shown = [executable.outputs.index(name) for name in ("Loss", *(f"New{name}" for name in NAMES))]

    def call() -> Sequence[Any]:
        executable(*inputs, out=out)
        return [out[place] for place in shown]

    return call


def torch_step() -> Callable[[], Sequence[Any]]:
    """Return a step of PyTorch: the first call is the first step, later ones go on from there."""
    import torch

    functional, last = torch.nn.functional, torch.channels_last
    given = {name: torch.from_numpy(array) for name, array in arrays().items()}
    k1, k2 = (given[name].permute(3, 2, 0, 1).contiguous(memory_format=last) for name in ("K1", "K2"))
    dense = given["W1"].permute(2, 0, 1, 3).reshape(1024, 128).contiguous()  # PyTorch flattens channels first
    parameters = [k1, given["B1"], k2, given["B2"], dense, given["B3"], given["W2"], given["B4"]]
    parameters = [p.clone().requires_grad_() for p in parameters]
    optimiser = torch.optim.Adam(parameters, lr=RATE, fused=True)
    images, labels = given["X"].permute(0, 3, 1, 2), given["T"].argmax(1)

    def call() -> Sequence[Any]:
        k1, b1, k2, b2, w1, b3, w2, b4 = parameters
        optimiser.zero_grad()
        hidden = functional.relu(functional.conv2d(images, k1, b1, padding=1))
        hidden = functional.relu(functional.conv2d(hidden, k2, b2, padding=1))
        hidden = functional.max_pool2d(hidden, 2).reshape(BATCH, -1)
        hidden = functional.relu(hidden @ w1 + b3)
        loss = functional.cross_entropy(hidden @ w2 + b4, labels)
        loss.backward()
        optimiser.step()
        orders = {0: (2, 3, 1, 0), 2: (2, 3, 1, 0)}
        shown = [p.detach().permute(orders[k]) if k in orders else p.detach() for k, p in enumerate(parameters)]
        shown[4] = shown[4].reshape(64, 4, 4, 128).permute(1, 2, 0, 3)
        return [loss.detach(), *shown]

    return call
