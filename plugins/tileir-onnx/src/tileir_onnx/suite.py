"""Test cases of the ONNX standard, run on a device: ``python -m tileir_onnx.suite --only softmax``.

These are the cases of the wheel ``onnx``: single nodes, small models, operators of PyTorch, and networks. Results are
compared in dtype, shape and value, with the tolerances of the case; a bfloat16 may be off by one unit in the last
place.

Floats of 16 bits that differ by more are compared with exact values, those of the model in f64: the expected values of
a case are rounded to 16 bits after each node, and so are off by some units themselves. A result may be off by one unit,
or by the error of the expected values; these cases are listed with both distances.
"""

from __future__ import annotations

import argparse
import pickle
import re
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from attrs import frozen
from onnx import ModelProto, TensorProto, TypeProto, numpy_helper
from onnx.backend.test import loader

import tileir
from tileir import TileError
from tileir_onnx.exact import PRECISIONS, exact_results, units
from tileir_onnx.graph import DTYPES
from tileir_onnx.model import load
from tileir_testing.processes import outcomes

KINDS: Final = ("node", "simple", "pytorch-operator", "pytorch-converted", "light")
OUTCOMES: Final = ("pass", "wrong", "refused", "crash")
_RANDOM: Final = frozenset({"Bernoulli", "RandomNormalLike", "RandomUniform", "RandomUniformLike"})


@frozen(eq=False)
class Case:
    """Model, its inputs, and its expected results.

    Attributes:
        name: Name without ``test_``.
        kind: One of :data:`KINDS`.
        model: Bytes of the model, or its file.
        data: Inputs and results of each call: arrays, lists of arrays for a sequence, None for an empty optional.
        rtol: Relative tolerance.
        atol: Absolute tolerance.
        ours: Whether all of its inputs and results are tensors of element types that tileir has.
        op: Operator of its first node.
        is_random: Whether numbers are drawn, so that only dtypes and shapes of results can be compared.
    """

    name: str
    kind: str
    model: bytes | Path
    data: tuple[tuple[tuple[Any, ...], tuple[Any, ...]], ...]
    rtol: float
    atol: float
    ours: bool
    op: str
    is_random: bool = False


@frozen
class Verdict:
    """Outcome of a case.

    Attributes:
        case: Name of the case.
        outcome: One of :data:`OUTCOMES`.
        reason: Reason of a failure, or distance from exact values, in a line.
        seconds: Time that it took.
    """

    case: str
    outcome: str
    reason: str = ""
    seconds: float = 0.0


def cases(kinds: Sequence[str] = KINDS) -> list[Case]:
    """Return all cases of kinds, in the order of their names."""
    found: list[Case] = []
    for kind in kinds:
        with warnings.catch_warnings(action="ignore"):  # those of NumPy, where cases divide by zero
            tests = () if kind == "light" else loader.load_model_tests(kind=kind)
        found += _light() if kind == "light" else (_case(each, kind) for each in tests)
    return sorted(found, key=lambda case: (KINDS.index(case.kind), case.name))


def _case(test: Any, kind: str) -> Case:
    if test.model_dir is None:
        model, content = test.model, test.model.SerializeToString()
        data = tuple((tuple(map(_value, inputs)), tuple(map(_value, outputs))) for inputs, outputs in test.data_sets)
    else:
        content = Path(test.model_dir, "model.onnx")
        model = onnx.load(content)
        data = tuple(_folder(each, model) for each in sorted(Path(test.model_dir).glob("test_data_set*")))
    ports = (*model.graph.input, *model.graph.output)
    ours = all(each.type.WhichOneof("value") == "tensor_type" for each in ports)
    ours = ours and all(each.type.tensor_type.elem_type in DTYPES for each in ports)
    name, op = test.name.removeprefix("test_"), model.graph.node[0].op_type if model.graph.node else ""
    drawn = name.startswith("training_dropout") or any(node.op_type in _RANDOM for node in model.graph.node)
    return Case(name, kind, content, data, test.rtol, max(test.atol, 1e-6), ours, op, drawn)


def _folder(folder: Path, model: ModelProto) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    def read(kind: str, ports: Any) -> tuple[Any, ...]:
        files = (folder / f"{kind}_{number}.pb" for number in range(len(ports)))
        return tuple(
            _stored(file.read_bytes(), port.type) for file, port in zip(files, ports, strict=True) if file.exists()
        )

    return read("input", model.graph.input), read("output", model.graph.output)


def _stored(data: bytes, kind: TypeProto) -> Any:
    match kind.WhichOneof("value"):
        case "sequence_type":
            return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
        case "optional_type":
            return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
        case _:
            return numpy_helper.to_array(TensorProto.FromString(data))


def _value(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


def _light() -> Iterator[Case]:
    folder = Path(onnx.__file__).parent / "backend/test/data/light"
    for file in sorted(folder.glob("*.onnx")):
        model = onnx.load(file)
        weights = {each.name for each in model.graph.initializer}
        inputs = []
        for port in model.graph.input:
            if port.name not in weights:
                shape = [dim.dim_value or 1 for dim in port.type.tensor_type.shape.dim]
                count = int(np.prod(shape))
                inputs.append((np.arange(count).reshape(shape) / count).astype(np.float32))
        wanted = TensorProto.FromString(file.with_name(f"{file.stem}_output_0.pb").read_bytes())
        name, data = file.stem.removeprefix("light_"), ((tuple(inputs), (numpy_helper.to_array(wanted),)),)
        yield Case(name, "light", file, data, 2e-3 if "densenet" in name else 1e-3, 1e-6, True, "")


def run(case: Case, device: str | None = None, interpret: bool = False) -> Verdict:
    """Run a case.

    Args:
        case: The case.
        device: The device; by default the first one.
        interpret: Whether to run it by the interpreter, which defines the meaning of programs, instead.
    """
    began = time.perf_counter()

    def verdict(outcome: str, reason: str = "") -> Verdict:
        return Verdict(case.name, outcome, reason, time.perf_counter() - began)

    try:
        model = load(case.model, device)
        if interpret:
            model.compiler = lambda function: partial(_interpreted, function)
        reason = ""
        for inputs, wanted in case.data:
            feeds = dict(zip((port.name for port in model.inputs), inputs, strict=True))
            results = model.run(feeds)
            differences = {
                at: f"result {port.name!r} {told}"
                for at, (port, found, right) in enumerate(zip(model.outputs, results, wanted, strict=True))
                if (told := difference(found, right, np.inf if case.is_random else case.rtol, case.atol))
            }
            for at, told in differences.items():
                reason = judged(case, inputs, at, results[at], wanted[at])
                if not reason:
                    return verdict("wrong", told)
    except TileError as error:
        return verdict("refused", f"{error}".splitlines()[0])
    except Exception as error:  # a crash, which the suite is there to find
        return verdict("crash", f"{type(error).__name__}: {error}".splitlines()[0])
    return verdict("pass", reason)


def judged(case: Case, inputs: Sequence[Any], at: int, found: Any, wanted: Any) -> str:
    """Return the distance of a 16-bit result from the exact one if that is acceptable, else nothing."""
    if getattr(wanted, "dtype", None) not in PRECISIONS or difference(found, wanted, np.inf, 0):
        return ""
    try:
        model = onnx.load(case.model) if isinstance(case.model, Path) else ModelProto.FromString(case.model)
        exact = exact_results(model, inputs)[at]
    except Exception:  # the reference may raise anything for missing features
        return ""
    ours, theirs = units(np.asarray(found), exact), units(wanted, exact)
    return f"{ours:.2f} units from exact values, expected ones {theirs:.2f}" if ours <= max(1.0, theirs) else ""


def _interpreted(function: tileir.Function, *arrays: Any) -> Any:
    return tileir.evaluate(function, arrays)


def difference(found: Any, wanted: Any, rtol: float, atol: float) -> str:
    """Return the difference between a result and its expected value in words; empty for none."""
    if isinstance(wanted, (list, tuple)):
        if not isinstance(found, (list, tuple)) or len(found) != len(wanted):
            return f"is no sequence of {len(wanted)}"
        told = (difference(*pair, rtol, atol) for pair in zip(found, wanted, strict=True))
        return next(filter(None, told), "")
    if found is None or wanted is None:
        return "" if found is wanted else f"is {found!r} and not {wanted!r}"
    found, wanted = np.asarray(found), np.asarray(wanted)
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return f"is {found.dtype}{list(found.shape)} and not {wanted.dtype}{list(wanted.shape)}"
    if rtol == np.inf:
        return ""
    if wanted.dtype.kind in "OUSb":
        return "" if np.array_equal(found, wanted) else "differs"
    if wanted.dtype.kind in "iu":
        left, right = found.astype(object), wanted.astype(object)
        off = np.abs(left - right) > atol + rtol * np.abs(right)
    else:
        wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
        left, right = found.astype(wide), wanted.astype(wide)
        with np.errstate(all="ignore"):
            allowed = atol + rtol * np.abs(right)
            if wanted.dtype == DTYPES[TensorProto.BFLOAT16]:
                allowed = np.maximum(allowed, np.exp2(np.floor(np.log2(np.abs(right))) - 7))
            close = (np.abs(left - right) <= allowed) & np.isfinite(right)
            off = ~(close | (left == right) | (np.isnan(left) & np.isnan(right)))
    if not np.any(off):
        return ""
    at = tuple(map(int, np.argwhere(off)[0]))
    return f"differs in {np.count_nonzero(off)} of {off.size}: {found[at]} and not {wanted[at]} at {list(at)}"


def verdicts(chosen: Sequence[Case], jobs: int, device: str | None, interpret: bool) -> Iterator[Verdict]:
    """Run cases in processes, so that a case which kills its process is reported without ending the others.

    Args:
        chosen: The cases.
        jobs: Processes at a time.
        device: The device; by default the first one.
        interpret: Whether to run cases by the interpreter instead.
    """
    return outcomes(chosen, partial(run, device=device, interpret=interpret), _crashed, jobs=jobs)


def _crashed(case: Case, told: str) -> Verdict:
    return Verdict(case.name, "crash", told)


def report(found: Mapping[str, tuple[Case, Verdict]]) -> str:
    """Return a table of outcomes and lists of failures; refused cases by operator."""
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    others: dict[str, list[tuple[Case, Verdict]]] = defaultdict(list)
    for case, verdict in found.values():
        counts[case.kind, "" if case.ours else "of other types"][verdict.outcome] += 1
        others[verdict.outcome].append((case, verdict))
    lines = [f"{'':36}" + "".join(f"{word:>9}" for word in (*OUTCOMES, "all"))]
    for (kind, group), count in sorted(counts.items(), key=lambda each: (KINDS.index(each[0][0]), each[0][1])):
        numbers = (*(count[word] for word in OUTCOMES), count.total())
        lines.append(f"{kind + (group and ', ' + group):36}" + "".join(f"{number:9}" for number in numbers))
    for outcome in ("crash", "wrong"):
        lines += [f"{outcome}: {case.name}: {verdict.reason}" for case, verdict in others[outcome]]
    lines += [f"exact: {case.name}: {verdict.reason}" for case, verdict in others["pass"] if verdict.reason]
    refused: dict[str, list[tuple[Case, Verdict]]] = defaultdict(list)
    for case, verdict in others["refused"]:
        refused[case.op].append((case, verdict))
    for op, together in sorted(refused.items()):
        lines.append(f"refused: {op} ({len(together)})")
        reasons: dict[str, list[str]] = defaultdict(list)
        for case, verdict in together:
            reasons[verdict.reason].append(case.name)
        lines += [f"    {', '.join(names)}: {reason}" for reason, names in reasons.items()]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run cases and print the report; return 1 if one is wrong or crashed."""
    parser = argparse.ArgumentParser(prog="python -m tileir_onnx.suite", description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="REGEX", default="", help="cases whose name, or operator, has a match")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS[:-1]), help="kinds of cases")
    parser.add_argument("--device", metavar="ID", help="the device, as `tileir devices` lists it")
    parser.add_argument("--interpret", action="store_true", help="use the interpreter instead of a device")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--slow", type=int, default=0, metavar="N", help="list the N slowest cases")
    parser.add_argument(
        "--cases", type=Path, metavar="FILE", help="a pickle of yours that keeps cases for the next run"
    )
    given = parser.parse_args(arguments)
    began = time.perf_counter()
    available = _kept(given.cases, given.kinds) if given.cases else cases(given.kinds)
    pattern = re.compile(given.only)
    chosen = [each for each in available if pattern.search(each.name) or pattern.fullmatch(each.op)]
    loaded = time.perf_counter()
    by_name = {each.name: each for each in chosen}
    found = {}
    for verdict in verdicts(chosen, given.jobs, given.device, given.interpret):
        found[verdict.case] = by_name[verdict.case], verdict
    lines = [report(found)]
    slowest = sorted(found.values(), key=lambda each: -each[1].seconds)[: given.slow]
    lines += [f"slow: {verdict.case}: {verdict.seconds:.2f} s" for _, verdict in slowest]
    now = time.perf_counter()
    lines.append(f"{loaded - began:.1f} s to load cases, {now - loaded:.1f} s to run {len(chosen)}")
    sys.stdout.write("\n".join((*lines, "")))
    return int(any(verdict.outcome in ("wrong", "crash") for _, verdict in found.values()))


def _kept(file: Path, kinds: Sequence[str]) -> list[Case]:
    """Return the cases of a file, which is made if it is missing."""
    if not file.exists():
        file.write_bytes(pickle.dumps(cases(KINDS)))
    kept: list[Case] = pickle.loads(file.read_bytes())  # the user's own file
    return [each for each in kept if each.kind in kinds]


if __name__ == "__main__":
    from tileir_onnx import suite  # classes that readers of the file can find again

    sys.exit(suite.main())
