"""Random functions with in-place updates, views and aliases, beside eager execution: ``python tests/generated.py 500``.

A function is the text of Python, made a line at a time: a line stays where eager execution takes it. What is compared
are results, arguments after the call, and which of them share memory.
"""

from __future__ import annotations

import argparse
import random
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

_LINES: Final = 12
_TRIES: Final = 40
_ELEMENTWISE: Final = (
    "{a} + {b}", "{a} - {b} * 2", "{a} * {b}", "torch.maximum({a}, {b})", "torch.where({a} > 0, {a}, {b})",
    "torch.relu({a})", "torch.tanh({a})", "torch.sigmoid({a}) + {b}", "{a}.abs().sqrt()", "{a} / ({b}.abs() + 1)",
    "{a}.clamp(-1, 1)", "{a}.clone()", "torch.zeros_like({a}) + {b}", "{a} > {b}", "{a}.to(torch.float64)",
    "{a}.to(torch.int32)", "{a}.float()", "-{a}", "torch.lerp({a}, {b}, 0.25)",
)  # fmt: skip
_VIEWS: Final = (
    "{a}.transpose(0, -1)", "{a}.flatten()", "{a}.view(-1)", "{a}.reshape(-1)", "{a}.unsqueeze({i})", "{a}.squeeze()",
    "{a}[0]", "{a}[..., 1:]", "{a}[..., ::2]", "{a}[{i}:]", "{a}.select(-1, 0)", "{a}.narrow(0, 0, 1)",
    "{a}.diagonal()",
    "{a}.expand(3, *{a}.shape)", "{a}.unbind(0)[-1]", "{a}.chunk(2)[0]", "{a}.movedim(0, -1)", "{a}.detach()", "{a}",
    "{a}.unfold(0, 2, 1)", "{a}.T", "{a}.swapaxes(0, 1)", "{a}.split(1, -1)[0]",
)  # fmt: skip
_REDUCING: Final = (
    "{a}.sum()", "{a}.sum(0)", "{a}.amax(-1, keepdim=True)", "{a}.mean(-1)", "{a}.cumsum(0)", "{a}.softmax(-1)",
    "torch.cat([{a}, {b}])", "torch.stack([{a}, {b}], -1)", "{a} @ {b}", "{a}.flip(0)", "{a}.roll(1, 0)",
    "torch.nn.functional.pad({a}, (1, 2))", "{a}.repeat(2, *[1] * ({a}.dim() - 1))",
)  # fmt: skip
_UPDATES: Final = (
    "{a}.add_({b})", "{a}.mul_(0.5)", "{a}.sub_({b}.sum())", "{a}.relu_()", "{a}.zero_()", "{a}.fill_(0.75)",
    "{a}.copy_({b}.clone())", "{a}.clamp_(min=-0.5)", "{a}[0] = 1.5", "{a}[..., 1:] = 0.25", "{a}[..., ::2].add_(1)",
    "{a}[0].mul_(2)", "{a}.transpose(0, -1).add_(0.125)", "{a}.view(-1)[1:].neg_()", "{a}[{a} > 0] = 0.5",
    "{a}.masked_fill_({a} < 0, 2.0)", "{a}.select(-1, 0).copy_({b}.clone())", "{a}.diagonal().fill_(3)", "{a}.tanh_()",
    "torch.add({a}, 1, out={a})", "{a}.t_()", "{a}.unsqueeze_(0)", "{a}.index_fill_(0, torch.tensor([0]), 0.1)",
    "{a} += {b}", "{a}.exp_().reciprocal_()",
)  # fmt: skip
_SHAPES: Final = ((4, 4), (3, 4), (4,), (2, 3, 4), (1, 4), (), (0, 4), (4, 1), (2, 2, 2, 2))


class Generated:
    """A function of tensors, as text, and how its arguments are made.

    Attributes:
        source: The text of ``function(x0, x1, …)``.
        kinds: What describes the arguments.

    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.seed = seed
        self.kinds = [self._kind() for _ in range(self._random.randint(1, 3))]
        self.aliases = self._random.random() < 0.15
        self.source = self._written()

    def _kind(self) -> tuple[tuple[int, ...], str, str]:
        layout = self._random.choice(("plain", "plain", "plain", "transposed", "expanded", "gaps", "shifted"))
        dtype = self._random.choice(("float32",) * 6 + ("float64", "int64", "bool", "bfloat16"))
        return self._random.choice(_SHAPES), layout, dtype

    def arguments(self) -> list[torch.Tensor]:
        """Return arguments anew, always the same."""
        generator = torch.Generator().manual_seed(self.seed)
        made = [_tensor(*kind, generator) for kind in self.kinds]
        if self.aliases:
            first = made[0]
            made.append(first[1:] if first.dim() and first.shape[0] > 1 and self.seed % 2 else first)
        return made

    def _written(self) -> str:
        count = len(self.kinds) + self.aliases
        names = [f"x{at}" for at in range(count)]
        head = f"def function({', '.join(names)}):"
        lines: list[str] = []
        for _ in range(_TRIES):
            if len(lines) == _LINES:
                break
            line = self._line(names, len(lines))
            if self._runs([head, *(f"    {each}" for each in (*lines, line)), "    return ()"]):
                lines.append(line)
                if " = " in line and line.split(" = ")[0].isidentifier():
                    names.append(line.split(" = ")[0])
        chosen = self._random.sample(names, min(len(names), self._random.randint(1, 4)))
        computed = [name for name in names if name.startswith("t")][-1:]
        results = list(dict.fromkeys([*computed, *chosen]))
        return "\n".join([head, *(f"    {each}" for each in lines), f"    return ({', '.join(results)},)", ""])

    def _line(self, names: Sequence[str], at: int) -> str:
        kind = self._random.choices((_ELEMENTWISE, _VIEWS, _REDUCING, _UPDATES), (4, 4, 2, 4))[0]
        recent = names[-4:]
        a, b = (self._random.choice(self._random.choice((names, recent))) for _ in range(2))
        text = self._random.choice(kind).format(a=a, b=b, i=self._random.choice((0, 1, -1)))
        return text if kind is _UPDATES else f"t{at} = {text}"

    def _runs(self, lines: Sequence[str]) -> bool:
        try:
            with warnings.catch_warnings(action="ignore"):
                function_of("\n".join(lines))(*self.arguments())
        except (RuntimeError, IndexError, TypeError, ValueError):
            return False
        return True


def _tensor(shape: tuple[int, ...], layout: str, dtype: str, generator: torch.Generator) -> torch.Tensor:
    def drawn(*sizes: int) -> torch.Tensor:
        made = torch.randn(sizes, generator=generator)
        return made > 0 if dtype == "bool" else (made * 3 if dtype == "int64" else made).to(getattr(torch, dtype))

    match layout:
        case "transposed" if len(shape) > 1:
            return drawn(*reversed(shape)).permute(*reversed(range(len(shape))))
        case "expanded" if shape and shape[0]:
            return drawn(1, *shape[1:]).expand(shape)
        case "gaps" if shape:
            return drawn(*shape[:-1], 2 * shape[-1])[..., ::2]
        case "shifted" if shape:
            return drawn(shape[0] + 1, *shape[1:])[1:]
        case _:
            return drawn(*shape)


def function_of(source: str) -> Callable[..., Any]:
    """Return the function that a text defines."""
    namespace: dict[str, Any] = {"torch": torch}
    exec(compile(source, "<generated>", "exec"), namespace)
    made: Callable[..., Any] = namespace["function"]
    return made


def difference(generated: Generated, backend: Any) -> str:
    """Return in words how a compiled function differs from eager execution; nothing where it does not."""
    torch._dynamo.reset()
    eager, compiled = function_of(generated.source), torch.compile(function_of(generated.source), backend=backend)
    wanted_arguments = generated.arguments()
    wanted = [*eager(*wanted_arguments), *wanted_arguments]
    for turn in ("first", "second"):
        arguments = generated.arguments()
        found = [*compiled(*arguments), *arguments]
        for at, (mine, right) in enumerate(zip(found, wanted, strict=True)):
            told = f"{turn} call: result {at}" if at < len(found) - len(arguments) else f"{turn} call: an argument"
            if mine.dtype != right.dtype or mine.shape != right.shape:
                return f"{told} is {mine.dtype}{list(mine.shape)} and not {right.dtype}{list(right.shape)}"
            bound = 0.02 if right.dtype is torch.bfloat16 else 1e-5
            if not torch.allclose(mine.double(), right.double(), rtol=bound, atol=bound, equal_nan=True):
                return f"{told} is {mine.tolist()} and not {right.tolist()}"
        if _shared(found) != _shared(wanted):
            return f"{turn} call: memory is shared by {_shared(found)} and not {_shared(wanted)}"
    return ""


def _shared(tensors: Sequence[torch.Tensor]) -> list[tuple[int, int]]:
    """Return pairs of tensors in one storage, without those of no elements."""
    places = [each.untyped_storage().data_ptr() if each.numel() else -at - 1 for at, each in enumerate(tensors)]
    return [(i, j) for j in range(len(places)) for i in range(j) if places[i] == places[j]]


def main() -> int:
    """Compare many functions; print those that differ; return 1 where there are any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--backend", default="tileir")
    given = parser.parse_args()
    backend: Any = given.backend
    if backend == "tileir":
        import tileir_torch

        backend = tileir_torch.backend
    wrong = 0
    warnings.simplefilter("ignore")
    for seed in range(given.first, given.first + given.count):
        generated = Generated(seed)
        try:
            told = difference(generated, backend)
        except Exception as error:  # a finding, too
            told = f"{type(error).__name__}: {error}"
        if told:
            wrong += 1
            sys.stdout.write(f"{seed}: {generated.kinds} {generated.aliases}\n{generated.source}{told:.600}\n\n")
    sys.stdout.write(f"{wrong} of {given.count} differ\n")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
