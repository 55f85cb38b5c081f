"""Random functions with in-place updates, views and aliases, beside eager execution: ``python tests/generated.py 500``.

A function is the text of Python, made a line at a time: a line stays where eager execution takes it. What is compared
are results, their gradients, arguments after the call, and which of them share memory. A function that differs under
PyTorch's own ``aot_eager``, too, differs by what PyTorch makes of it before a back end sees it, and is counted apart.
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
    "{a} * 2.5", "{a} + True", "{a} // 2", "{a}.half() * {b}", "{a}.to(torch.uint8)", "{a}.bfloat16() + 1", "{a} ** 2",
    "torch.logical_and({a}, {b})", "{a}.remainder(3)", "{a} & {b}", "torch.nan_to_num({a}.log())", "{a}.eq({b}).long()",
    "torch.add({a}, {b}, out=torch.empty(0))", "torch.addcmul({a}, {a}, {b}, value=0.5)", "{a} % {b}",
)  # fmt: skip
_VIEWS: Final = (
    "{a}.transpose(0, -1)", "{a}.flatten()", "{a}.view(-1)", "{a}.reshape(-1)", "{a}.unsqueeze({i})", "{a}.squeeze()",
    "{a}[0]", "{a}[..., 1:]", "{a}[..., ::2]", "{a}[{i}:]", "{a}.select(-1, 0)", "{a}.narrow(0, 0, 1)",
    "{a}.diagonal()",
    "{a}.expand(3, *{a}.shape)", "{a}.unbind(0)[-1]", "{a}.chunk(2)[0]", "{a}.movedim(0, -1)", "{a}.detach()", "{a}",
    "{a}.unfold(0, 2, 1)", "{a}.T", "{a}.swapaxes(0, 1)", "{a}.split(1, -1)[0]",
    "{a}.as_strided((2, 2), (1, 2))", "{a}.as_strided((3,), (0,), 1)", "{a}.expand_as({b})", "{a}.view({a}.dtype)",
    "{a}.view(torch.int32)", "{a}.contiguous()", "{a}[:, None]", "{a}[1:-1]", "{a}.unflatten(-1, (2, -1))",
    "{a}.contiguous(memory_format=torch.channels_last)", "{a}.tensor_split(2)[1]", "{a}.broadcast_to(2, *{a}.shape)",
)  # fmt: skip
_REDUCING: Final = (
    "{a}.sum()", "{a}.sum(0)", "{a}.amax(-1, keepdim=True)", "{a}.mean(-1)", "{a}.cumsum(0)", "{a}.softmax(-1)",
    "torch.cat([{a}, {b}])", "torch.stack([{a}, {b}], -1)", "{a} @ {b}", "{a}.flip(0)", "{a}.roll(1, 0)",
    "torch.nn.functional.pad({a}, (1, 2))", "{a}.repeat(2, *[1] * ({a}.dim() - 1))",
    "{a}.argmax(-1)", "{a}.sort(0)[0]", "{a}.topk(1)[0]", "{a}.any(0)", "{a}.prod(-1)",
    "{a}.gather(0, {a}.long().abs() * 0)",
    "{a}[torch.tensor([0, 0])]", "torch.var_mean({a}, 0)[1]", "{a}.cummax(0)[0]",
    "torch.einsum('...i,...i->...', {a}, {b})",
    "{a}.log_softmax(0)", "{a}.tril()", "{a}.mT @ {a}",
)  # fmt: skip
_UPDATES: Final = (
    "{a}.add_({b})", "{a}.mul_(0.5)", "{a}.sub_({b}.sum())", "{a}.relu_()", "{a}.zero_()", "{a}.fill_(0.75)",
    "{a}.copy_({b}.clone())", "{a}.clamp_(min=-0.5)", "{a}[0] = 1.5", "{a}[..., 1:] = 0.25", "{a}[..., ::2].add_(1)",
    "{a}[0].mul_(2)", "{a}.transpose(0, -1).add_(0.125)", "{a}.view(-1)[1:].neg_()", "{a}[{a} > 0] = 0.5",
    "{a}.masked_fill_({a} < 0, 2.0)", "{a}.select(-1, 0).copy_({b}.clone())", "{a}.diagonal().fill_(3)", "{a}.tanh_()",
    "torch.add({a}, 1, out={a})", "{a}.t_()", "{a}.unsqueeze_(0)", "{a}.index_fill_(0, torch.tensor([0]), 0.1)",
    "{a} += {b}", "{a}.exp_().reciprocal_()",
    "torch.mul({a}, {b}, out={a})", "{a}.as_strided((2,), (1,)).add_(1)", "{a}[torch.tensor([0])] += 1",
    "{a}.index_put_((torch.tensor([0]),), {a}.sum(), accumulate=True)", "{a}.scatter_(0, {a}.long() * 0, 0.5)",
    "{a}.addcmul_({a}, {b}, value=0.5)", "{a}.lerp_({b}, 0.5)", "{a}.squeeze_()", "{a}.transpose_(0, 1)", "{a} //= 2",
    "{a}.unbind(0)[0].add_({b}.sum())", "{a}.chunk(2)[-1].zero_()", "{a}.detach().mul_(2)", "{a}.index_add_(0, "
    "torch.tensor([0]), {a}[:1].clone())", "{a} |= {b}", "{a}[..., -1] -= 1", "{a}.cumsum_(0)", "{a}.tril_()",
    "{a}[{i}:].copy_({a}[{i}:] * 2)", "{a}.set_({b})", "{a}.resize_as_({a})", "torch.sum({b}, 0, out={a})",
)  # fmt: skip
THEIRS: Final = "under aot_eager, too"
_SHAPES: Final = ((4, 4), (3, 4), (4,), (2, 3, 4), (1, 4), (), (0, 4), (4, 1), (2, 2, 2, 2), (1, 3, 2, 2), (8,))

_LAYOUTS: Final = ("transposed", "expanded", "gaps", "shifted", "channels last")
_OTHERS: Final = ("float64", "int64", "int32", "uint8", "bool", "bfloat16", "float16")


class Generated:
    """A function of tensors, as text, and how its arguments are made.

    Attributes:
        source: The text of ``function(x0, x1, …)``.
        kinds: What describes the arguments.
        aliases: Whether the last argument shares memory with the first.
        trains: Whether gradients of results are compared.

    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.seed = seed
        self.kinds = [self._kind() for _ in range(self._random.randint(1, 3))]
        self.aliases = self._random.random() < 0.15
        self.trains = self._random.random() < 0.3
        self.source = self._written()

    def _kind(self) -> tuple[tuple[int, ...], str, str]:
        layout = self._random.choice(("plain",) * 3 + _LAYOUTS)
        dtype = self._random.choice(("float32",) * 8 + _OTHERS)
        return self._random.choice(_SHAPES), layout, dtype

    def arguments(self) -> list[torch.Tensor]:
        """Return arguments anew, always the same."""
        generator = torch.Generator().manual_seed(self.seed)
        made = [_tensor(*kind, generator) for kind in self.kinds]
        for each in made:
            each.requires_grad_(self.trains and each.is_floating_point())
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
        if dtype == "bool":
            return made > 0
        return (
            (made * 3 if "int" in dtype else made)
            .to(torch.int64 if dtype == "uint8" else getattr(torch, dtype))
            .to(getattr(torch, dtype))
        )

    match layout:
        case "transposed" if len(shape) > 1:
            return drawn(*reversed(shape)).permute(*reversed(range(len(shape))))
        case "expanded" if shape and shape[0]:
            return drawn(1, *shape[1:]).expand(shape)
        case "channels last" if len(shape) == 4:
            return drawn(*shape).contiguous(memory_format=torch.channels_last)
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
    results = eager(*wanted_arguments)
    wanted, gradients = [*results, *wanted_arguments], _gradients(results, wanted_arguments)
    for turn in ("first", "second"):
        arguments = generated.arguments()
        results = compiled(*arguments)
        found = [*results, *arguments]
        if _shared(found) != _shared(wanted):
            return f"{turn} call: memory is shared by {_shared(found)} and not {_shared(wanted)}"
        for at, (mine, right) in enumerate(zip(found, wanted, strict=True)):
            told = f"{turn} call: result {at}" if at < len(results) else f"{turn} call: an argument"
            if mine.requires_grad != right.requires_grad:
                return f"{told} has {'a' if mine.requires_grad else 'no'} gradient"
            if words := _unlike(mine, right):
                return f"{told} {words}"
        for at, (mine, right) in enumerate(zip(_gradients(results, arguments), gradients, strict=True)):
            if (mine is None) != (right is None):
                return f"{turn} call: gradient {at} is {mine} and not {right}"
            if mine is not None and (words := _unlike(mine, right)):
                return f"{turn} call: gradient {at} {words}"
    return ""


def _unlike(mine: torch.Tensor, right: torch.Tensor) -> str:
    if mine.dtype != right.dtype or mine.shape != right.shape:
        return f"is {mine.dtype}{list(mine.shape)} and not {right.dtype}{list(right.shape)}"
    bound = {torch.bfloat16: 0.02, torch.float16: 2e-3}.get(right.dtype, 1e-5)
    if not torch.allclose(mine.double(), right.double(), rtol=bound, atol=bound, equal_nan=True):
        return f"is {mine.tolist()} and not {right.tolist()}"
    return ""


def _gradients(results: Sequence[torch.Tensor], arguments: Sequence[torch.Tensor]) -> list[torch.Tensor | None]:
    leaves = [each for each in arguments if each.requires_grad and each.is_leaf]
    ends = [each.double().sum() for each in results if each.requires_grad]
    return list(torch.autograd.grad(sum(ends), leaves, allow_unused=True)) if ends and leaves else []


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
    wrong = theirs = 0
    warnings.simplefilter("ignore")
    for seed in range(given.first, given.first + given.count):
        generated = Generated(seed)
        told = fault(generated, backend)
        theirs += told == THEIRS
        if told not in ("", THEIRS):
            wrong += 1
            sys.stdout.write(f"{seed}: {generated.kinds} {generated.aliases}\n{generated.source}{told:.600}\n\n")
            sys.stdout.flush()
    sys.stdout.write(f"{wrong} of {given.count} differ; {theirs} more do so with PyTorch's aot_eager, too\n")
    return int(wrong > 0)


def fault(generated: Generated, backend: Any) -> str:
    """Return in words how a back end is wrong; :data:`THEIRS` where PyTorch's own is, too, and nothing if it is not."""
    told = _told(generated, backend)
    return THEIRS if told and backend != "aot_eager" and _told(generated, "aot_eager") else told


def _told(generated: Generated, backend: Any) -> str:
    try:
        return difference(generated, backend)
    except Exception as error:  # a finding, too
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    sys.exit(main())
