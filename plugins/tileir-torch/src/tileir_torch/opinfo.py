"""Operations of PyTorch with the samples of its tests, compiled: ``python -m tileir_torch.opinfo --only softmax``.

OpInfo is the database of PyTorch's tests: entries with samples of arguments for each dtype. An entry is right if all
samples are compiled in one part, with nothing left to eager execution, and results have the dtype, sizes and values of
eager; a value is right if its distance from eager in f64, for equal arguments, is explained by rounding.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import mpmath  # type: ignore[import-untyped]  # it has no types
import torch
from attrs import asdict, frozen
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from tileir import BackendError, TileError
from tileir_testing.processes import outcomes
from tileir_torch.dynamo import backend

OUTCOMES: Final = ("right", "partly", "wrong", "refused", "crash")
DTYPES: Final[Mapping[str, torch.dtype]] = MappingProxyType(
    {
        "f32": torch.float32,
        "f64": torch.float64,
        "f16": torch.float16,
        "bf16": torch.bfloat16,
        "i64": torch.int64,
        "bool": torch.bool,
    }
)
GRADIENTS: Final = "f32 gradients"
_OTHERS: Final = 3
"""Number of samples of a dtype other than f32."""
_ANY_OF_EQUAL: Final = frozenset({"kthvalue", "median", "mode", "msort", "nanmedian", "sort", "topk"})
"""Entries that may return the place of any of several equal elements."""
_BY_MPMATH: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "polygamma": lambda x, n: mpmath.psi(n, x),
        "special.bessel_j0": lambda x: mpmath.besselj(0, x),
        "special.bessel_j1": lambda x: mpmath.besselj(1, x),
        "special.bessel_y0": lambda x: mpmath.bessely(0, x),
        "special.bessel_y1": lambda x: mpmath.bessely(1, x),
        "special.polygamma": lambda x, n: mpmath.psi(n, x),
    }
)
"""Elementwise functions whose error in eager execution exceeds rounding, even in f64."""
_UNINITIALISED: Final = re.compile(r"(new_)?empty(_like|_strided|_permuted)?")


@frozen
class Verdict:
    """Outcome of the samples of an entry and a dtype.

    Attributes:
        entry: Name of the entry.
        case: The dtype, or :data:`GRADIENTS`.
        outcome: One of :data:`OUTCOMES`.
        reasons: Distinct reasons of failing samples, in a line each.
        samples: Number of samples, without those that eager execution refuses.
        right: Number of right samples.
        seconds: Time that they took.
    """

    entry: str
    case: str
    outcome: str
    reasons: tuple[str, ...] = ()
    samples: int = 0
    right: int = 0
    seconds: float = 0.0


def entries() -> dict[str, Any]:
    """Return all entries by name.

    Raises:
        BackendError: TIL903, this version of PyTorch has no such database, or it needs a package that is missing.
    """
    try:
        with warnings.catch_warnings(action="ignore"):
            database = import_module("torch.testing._internal.common_methods_invocations").op_db
    except (ImportError, AttributeError) as error:
        message = f"the database of PyTorch's tests cannot be loaded ({error}); pip install expecttest"
        raise BackendError.of("TIL903", message) from error
    return {name_of(entry): entry for entry in database}


def name_of(entry: Any) -> str:
    """Return the name of an entry, including its variant."""
    return f"{entry.name}.{entry.variant_test_name}" if entry.variant_test_name else str(entry.name)


def cases(entry: Any) -> Iterator[str]:
    """Yield the cases of an entry."""
    supported = entry.supported_dtypes("cpu")
    yield from (word for word, dtype in DTYPES.items() if dtype in supported)
    if entry.supports_autograd and torch.float32 in entry.supported_backward_dtypes("cpu") & supported:
        yield GRADIENTS


def run(name: str, entry: Any, case: str, limit: int | None) -> Verdict:
    """Run the samples of a case.

    Args:
        name: The name of the entry.
        entry: The entry.
        case: The dtype, or :data:`GRADIENTS`.
        limit: Maximum number of samples of f32, evenly spread over all.
    """
    began = time.perf_counter()
    reasons: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for sample in _samples(entry, case, limit):
        outcome, reason = _tried(entry, sample, is_gradient=case == GRADIENTS)
        counts[outcome] += 1
        if outcome not in ("right", "invalid"):
            reasons.setdefault(reason, f"{outcome}: {reason}" if outcome != "refused" else reason)
    total = counts.total() - counts["invalid"]
    outcome = next((each for each in ("crash", "wrong") if counts[each]), "partly")
    if outcome == "partly" and (counts["right"] == total or not counts["right"]):
        outcome = "right" if counts["right"] == total else "refused"
    told = tuple(reasons.values())[:8]
    return Verdict(name, case, outcome, told, total, counts["right"], time.perf_counter() - began)


def _samples(entry: Any, case: str, limit: int | None) -> list[Any]:
    is_gradient = case == GRADIENTS
    dtype = torch.float32 if is_gradient else DTYPES[case]
    torch.manual_seed(0)
    with warnings.catch_warnings(action="ignore"):
        found = list(entry.sample_inputs("cpu", dtype, requires_grad=is_gradient))
    count = limit if dtype is torch.float32 else _OTHERS
    if count is None or len(found) <= count:
        return found
    return [found[at * (len(found) - 1) // max(1, count - 1)] for at in range(count)]


@frozen(eq=False)
class _Call:
    """Call of an operation: a function of tensors alone, and its tensors.

    Attributes:
        function: The function, which returns a list of tensors.
        tensors: Its arguments.
    """

    function: Callable[..., list[torch.Tensor]]
    tensors: tuple[torch.Tensor, ...]


def _call_of(entry: Any, sample: Any) -> _Call:
    leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [at for at, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def function(*tensors: torch.Tensor) -> list[torch.Tensor]:
        given = list(leaves)
        for at, tensor in zip(places, tensors, strict=True):
            given[at] = tensor
        first, args, kwargs = pytree.tree_unflatten(given, spec)
        found = pytree.tree_leaves(sample.output_process_fn_grad(entry.op(first, *args, **kwargs)))
        return [each for each in found if isinstance(each, torch.Tensor)]

    return _Call(function, tuple(leaves[at] for at in places))


def _tried(entry: Any, sample: Any, *, is_gradient: bool) -> tuple[str, str]:
    """Return the outcome of a sample, which is ``invalid`` if eager execution refuses it, and a reason."""
    call = _call_of(entry, sample)
    try:
        wanted = _run(call.function, call, is_gradient)
    except Exception:  # results of eager execution for a sample are not checked
        return "invalid", ""
    if not wanted:
        return "invalid", ""
    if any(each.dtype.is_complex or each.layout is not torch.strided for each in (*call.tensors, *wanted)):
        return "refused", "complex or sparse tensors"
    try:
        graph = make_fx(call.function)(*_copies(call, is_gradient))
    except Exception as error:  # PyTorch cannot record it
        return "refused", f"no graph: {_line(error)}"
    is_random = bool(_UNINITIALISED.fullmatch(entry.name)) or any(map(_draws, graph.graph.nodes))
    try:
        found = _run(backend(graph, _copies(call, is_gradient), options={"fullgraph": True}), call, is_gradient)
    except TileError as error:
        return "refused", _line(error)
    except Exception as error:  # a crash, or a dependence on elements
        is_tracing = type(error).__name__ in _TRACING
        return ("refused", f"no graph: {_line(error)}") if is_tracing else ("crash", _line(error))
    exact = None if is_random else _exactly(call, is_gradient)
    is_by_element = type(entry).__name__ in _BY_ELEMENT and not is_gradient  # rounded by other results
    moved = _exactly(call, is_gradient, moved=True) if is_by_element and exact is not None else None
    if exact and entry.name in _BY_MPMATH and not is_gradient:
        exact, moved = ([_by_mpmath(_BY_MPMATH[entry.name], sample, moved=each)] for each in (False, True))
    if entry.name == "argsort":
        found, wanted, exact = ([_ordered(sample, each[0])] for each in (found, wanted, wanted))
    if entry.name in _ANY_OF_EQUAL:
        found, wanted, exact = found[:1], wanted[:1], None if exact is None else exact[:1]
    told = _difference(found, wanted, exact, moved, is_random=is_random, is_by_element=is_by_element)
    return ("wrong", told) if told else ("right", "")


_TRACING: Final = frozenset(
    {
        "DataDependentOutputException",
        "DynamicOutputShapeException",
        "GuardOnDataDependentSymNode",
        "UnsupportedFakeTensorException",
        "UnsupportedOperatorException",
    }
)
"""Exceptions of PyTorch for graphs that depend on the elements of tensors."""

_BY_ELEMENT: Final = frozenset({"UnaryUfuncInfo", "BinaryUfuncInfo"})
"""Classes of entries with elementwise results: their errors are not those of sums."""


def _copies(
    call: _Call, is_gradient: bool, dtype: torch.dtype | None = None, *, moved: bool = False
) -> list[torch.Tensor]:
    """Return copies of the arguments, as an operation may change them; in another dtype, or perturbed by a rounding.

    Integers are converted only if there are no floats: they may be places, and are computed with otherwise.
    """
    of_integers = not any(each.is_floating_point() for each in call.tensors)
    found = []
    for tensor in call.tensors:
        made = tensor.detach().clone()
        if dtype is not None and made.is_floating_point():
            made = made.to(dtype) * (1 + moved * torch.finfo(made.dtype).eps)
        elif dtype is not None and of_integers:
            made = made.to(dtype)
        found.append(made.requires_grad_(is_gradient and tensor.requires_grad))
    return found


def _run(
    function: Callable[..., Any],
    call: _Call,
    is_gradient: bool,
    dtype: torch.dtype | None = None,
    *,
    moved: bool = False,
) -> list[torch.Tensor]:
    """Return results, or gradients for cotangents that only depend on their sizes."""
    tensors = _copies(call, is_gradient, dtype, moved=moved)
    torch.manual_seed(0)
    results = list(function(*tensors))
    if not is_gradient:
        return [each.detach() for each in results]
    results = [each for each in results if each.requires_grad]
    wrt = [each for each in tensors if each.requires_grad]
    if not results or not wrt:
        return []
    found = torch.autograd.grad(results, wrt, [_cotangent(each) for each in results], allow_unused=True)
    return [torch.zeros_like(each) if got is None else got.detach() for each, got in zip(wrt, found, strict=True)]


def _cotangent(result: torch.Tensor) -> torch.Tensor:
    drawn = torch.rand(result.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float32)
    return (drawn + 0.5).to(result.dtype)


def _exactly(call: _Call, is_gradient: bool, *, moved: bool = False) -> list[torch.Tensor] | None:
    """Return results in f64, optionally from arguments perturbed by a rounding of their dtype."""
    try:
        return _run(call.function, call, is_gradient, dtype=torch.float64, moved=moved)
    except Exception:  # not every sample is one of f64
        return None


def _ordered(sample: Any, places: torch.Tensor) -> torch.Tensor:
    """Return the elements at places, sorted where elements are equal, as their order is undefined."""
    x, dim = sample.input.detach(), (*sample.args, sample.kwargs.get("dim", -1))[0]
    return x if x.dim() == 0 else torch.take_along_dim(x, places, dim)


def _by_mpmath(function: Callable[..., Any], sample: Any, *, moved: bool) -> torch.Tensor:
    """Return mpmath's results for each element, or for a perturbed one; NaN if it has none."""

    def one(x: float) -> float:
        try:
            return float(function(x, *sample.args))
        except (TypeError, ValueError, ZeroDivisionError):  # at a pole only the result of eager execution is right
            return float("nan")

    given = sample.input.detach()
    step = torch.finfo(given.dtype).eps if moved and given.is_floating_point() else 0.0
    x = given.to(torch.float64) * (1 + step)
    return torch.tensor([one(each) for each in x.flatten().tolist()], dtype=torch.float64).reshape(x.shape)


def _draws(node: torch.fx.Node) -> bool:
    """Return whether a node draws random numbers."""
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def _difference(
    found: Sequence[torch.Tensor],
    wanted: Sequence[torch.Tensor],
    exact: Sequence[torch.Tensor] | None,
    moved: Sequence[torch.Tensor] | None,
    *,
    is_random: bool,
    is_by_element: bool,
) -> str:
    """Return the difference of results from expected values in words; empty for none."""
    if len(found) != len(wanted):
        return f"{len(found)} results and not {len(wanted)}"
    references = wanted if exact is None or len(exact) != len(wanted) else exact
    others = references if moved is None or len(moved) != len(wanted) else moved
    for at, (mine, right, reference, other) in enumerate(zip(found, wanted, references, others, strict=True)):
        if mine.dtype != right.dtype or mine.shape != right.shape:
            return f"result {at} is {mine.dtype}{list(mine.shape)} and not {right.dtype}{list(right.shape)}"
        differs = (
            torch.zeros_like(right, dtype=torch.bool)
            if is_random
            else off(mine, right, reference, other, is_by_element=is_by_element)
        )
        if differs.any():
            place = tuple(int(each) for each in differs.nonzero()[0])
            told = f"{mine[place].item()} and not {right[place].item()} at {list(place)}"
            return f"result {at} differs in {int(differs.sum())} of {differs.numel()}: {told}"
    return ""


def off(
    found: torch.Tensor,
    wanted: torch.Tensor,
    exact: torch.Tensor,
    moved: torch.Tensor | None = None,
    *,
    is_by_element: bool,
) -> torch.Tensor:
    """Return a mask of results that are neither eager's nor close to exact.

    The error may be four times eager's own, plus some roundings: of each element for elementwise results, and of the
    greatest for sums. Near a zero of a function, rounding its argument changes the result by more than rounding that.

    Args:
        found: Our result.
        wanted: Eager's result.
        exact: Result in f64.
        moved: Result in f64 for perturbed arguments; None to ignore it.
        is_by_element: Whether results are elementwise.
    """
    same = (found == wanted) | (found.isnan() & wanted.isnan())
    if not wanted.is_floating_point() or exact.shape != wanted.shape:
        return ~same
    left, eager, right = (each.to(torch.float64) for each in (found, wanted, exact))
    limits = torch.finfo(wanted.dtype)
    slack = 64 if wanted.dtype is torch.float64 else 8
    errors = (eager - right).abs().nan_to_num(0.0, 0.0, 0.0)
    bound = slack * limits.eps * right.abs() + 4 * errors + limits.tiny
    if moved is not None and moved.shape == exact.shape:
        bound = bound + slack * (moved.to(torch.float64) - right).abs().nan_to_num(0.0, 0.0, 0.0)
    if not is_by_element:
        finite = torch.where(right.isfinite(), right.abs(), 0.0)
        bound = bound + 2 * slack * limits.eps * (finite.max() if finite.numel() else 0.0)
        bound = bound + 4 * (errors.max() if errors.numel() else 0.0)
    return ~(same | ((left - right).abs() <= bound) | (left == right))


def _line(error: BaseException) -> str:
    """Return an error in a line, with values replaced by their types, so that equal reasons are equal."""
    lines = [line for line in f"{error}".splitlines() if line.strip()] or [""]
    line = re.sub(r"^.*?error\[(TIL\d+)\]", r"\1", lines[0])
    line = re.sub(r"0x[0-9a-f]+", "0x…", line)
    return f"{line if isinstance(error, TileError) else f'{type(error).__name__}: {line}':.160}"


def verdicts(chosen: Mapping[str, Any], only: Sequence[str], jobs: int, limit: int | None) -> Iterator[Verdict]:
    """Run cases in processes, so that a case which kills its process is reported without ending the others.

    Args:
        chosen: Entries by name.
        only: The cases to run.
        jobs: Processes at a time.
        limit: Maximum number of samples of f32.
    """
    waiting = [(name, case) for name, entry in chosen.items() for case in cases(entry) if case in only]
    return outcomes(waiting, partial(_run_in_process, chosen, limit), _crashed, jobs=jobs, most=30)


def _run_in_process(chosen: Mapping[str, Any], limit: int | None, each: tuple[str, str]) -> Verdict:
    warnings.simplefilter("ignore")  # PyTorch's, about samples
    torch.set_num_threads(1)
    name, case = each
    return run(name, chosen[name], case, limit)


def _crashed(each: tuple[str, str], told: str) -> Verdict:
    return Verdict(*each, "crash", (f"{told:.160}",))


def outcome_of(found: Sequence[Verdict]) -> str:
    """Return the outcome of an entry from those of its cases, ignoring those without samples."""
    outcomes = {each.outcome for each in found if each.samples or each.outcome == "crash"}
    if len(outcomes) <= 1:
        return next(iter(outcomes), "refused")
    return next((each for each in ("crash", "wrong") if each in outcomes), "partly")


def counts(found: Sequence[Verdict]) -> bool:
    """Return whether an entry is covered: all samples of f32 are right, and all or :data:`_OTHERS` of other dtypes.

    Cases without samples, and gradients, are ignored.

    Args:
        found: Outcomes of the entry's cases.
    """
    values = [each for each in found if each.case != GRADIENTS and (each.samples or each.outcome == "crash")]
    return bool(values) and all(
        each.outcome == "right" or (each.outcome == "partly" and each.case != "f32" and each.right >= _OTHERS)
        for each in values
    )


def report(found: Sequence[Verdict]) -> str:
    """Return tables of entries and cases by outcome, wrong and crashed cases, and the reasons of all others."""
    by_entry: dict[str, list[Verdict]] = defaultdict(list)
    by_case: dict[str, Counter[str]] = defaultdict(Counter)
    for each in found:
        if each.case != GRADIENTS:
            by_entry[each.entry].append(each)
        if each.samples or each.outcome == "crash":
            by_case[each.case][each.outcome] += 1
    by_case["entries"] = Counter(outcome_of(each) for each in by_entry.values())
    lines = [f"{'':16}" + "".join(f"{word:>9}" for word in (*OUTCOMES, "all"))]
    for case in ("entries", *DTYPES, GRADIENTS):
        if count := by_case[case]:
            numbers = (*(count[word] for word in OUTCOMES), count.total())
            lines.append(f"{case:16}" + "".join(f"{number:9}" for number in numbers))
    covered = sum(map(counts, by_entry.values()))
    lines.append(
        f"{covered} of {len(by_entry)} entries count: all samples of f32 and {_OTHERS} of other dtypes are right"
    )
    reasons: dict[str, dict[str, None]] = defaultdict(dict)
    for each in found:
        if each.outcome in ("wrong", "crash"):
            lines += [f"{each.outcome}: {each.entry} {each.case}: {reason}" for reason in each.reasons]
        elif each.outcome != "right":
            for reason in each.reasons:
                reasons[reason][each.entry] = None
    for reason, names in sorted(reasons.items(), key=lambda each: -len(each[1])):
        shown = ", ".join(list(names)[:8]) + (" …" if len(names) > 8 else "")
        lines.append(f"{len(names):4}  {reason}: {shown}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run entries and print the report; return 1 if one is wrong or crashed."""
    parser = argparse.ArgumentParser(prog="python -m tileir_torch.opinfo", description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="REGEX", default="", help="entries whose name has a match")
    parser.add_argument("--cases", nargs="+", choices=[*DTYPES, GRADIENTS], default=[*DTYPES, GRADIENTS])
    parser.add_argument("--samples", type=int, metavar="N", help="at most N samples of f32 of an entry, evenly chosen")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--slow", type=int, default=0, metavar="N", help="list the N slowest cases")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write outcomes to a file, a line for each case")
    given = parser.parse_args(arguments)
    began = time.perf_counter()
    pattern = re.compile(given.only)
    try:
        chosen = {name: entry for name, entry in entries().items() if pattern.search(name)}
    except BackendError as error:
        parser.exit(2, f"{error}\n")
    found = []
    with contextlib.ExitStack() as stack:
        file = None if given.json is None else stack.enter_context(given.json.open("w", encoding="utf-8", buffering=1))
        for verdict in verdicts(chosen, given.cases, given.jobs, given.samples):
            found.append(verdict)
            if file is not None:
                file.write(f"{json.dumps(asdict(verdict))}\n")
    lines = [report(found)]
    slowest = sorted(found, key=lambda each: -each.seconds)[: given.slow]
    lines += [f"slow: {each.entry} {each.case}: {each.seconds:.1f} s for {each.samples}" for each in slowest]
    lines.append(f"{time.perf_counter() - began:.0f} s for {len(chosen)} entries")
    sys.stdout.write("\n".join((*lines, "")))
    return int(any(each.outcome in ("wrong", "crash") for each in found))


if __name__ == "__main__":
    from tileir_torch import opinfo  # classes that readers of the file can find again

    sys.exit(opinfo.main())
