"""Tables of the manual, made of the tables that the compiler itself uses, so that they cannot differ."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from fuzz.wide.table import ROWS
from tileir import ops
from tileir.core.codes import CODES, WARNINGS
from tileir.core.dtype import DType
from tileir.core.extensions import EXTENSIONS, Kind
from tileir.ops.plaidml import ALIASES
from tileir.passes.pipelines.catalog import PASSES
from tileir.schedule.reasons import REASONS
from tileir.semtree.transform.expansions import ULP
from tileir.tile.ir import UnaryOperator
from tileir.tile.text.grammar import OPERATORS
from tileir_cli.new import contents_of
from tileir_formula.definitions.catalogue import FOLDER, read_file
from tileir_formula.definitions.functions import WORDS
from tileir_formula.definitions.parameters import ChoiceParameter, NumberParameter, WeightsParameter
from tileir_formula.text.printer import value_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tileir.passes.base import Pass
    from tileir_formula.definitions.parameters import Parameter

STAGES = {
    "1": "Text",
    "2": "Names and structure",
    "3": "Dtypes and shapes",
    "4": "Index mathematics",
    "5": "Intermediate representations and passes",
    "6": "JSON",
    "7": "Arrays and running",
    "8": "Back ends and devices",
    "9": "Command line",
}


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = tuple(heads)
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def codes() -> str:
    """Return one table of diagnostic codes for each stage, under a bold title."""
    parts = []
    for digit, title in STAGES.items():
        stage = ((code, text) for code, text in CODES.items() if code[3] == digit)
        rows = [(f"`{code}`", f"warning: {text}" if code in WARNINGS else text) for code, text in stage]
        parts.append(f"**{title}**\n\n{_table(('code', 'meaning'), rows)}")
    return "\n\n".join(parts)


REMARKS = {
    "0": "General",
    "1": "Form of kernels",
    "2": "Loops",
    "3": "Vectors",
    "4": "Groups of threads",
    "5": "Register tiles",
    "6": "Algorithms and regions",
    "7": "Scripts",
}


def remarks() -> str:
    """Return one table of codes of remarks for each kind of step, under a bold title."""
    parts = []
    for digit, title in REMARKS.items():
        rows = [
            (f"`{code}`", reason.text, "yes" if reason.relevant else "")
            for code, reason in REASONS.items()
            if code[2] == digit
        ]
        parts.extend([f"**{title}**\n\n{_table(('code', 'reason', 'shown'), rows)}"] if rows else [])
    return "\n\n".join(parts)


def precedence() -> str:
    """Return the operators of Tile, loosest first, each rank on a line."""
    ranks = sorted({row.rank for row in OPERATORS.rows})
    infix = [" ".join(f"`{row.sign}`" for row in OPERATORS.rows if row.rank == rank) for rank in ranks]
    prefix = " ".join(f"`{op.value}`" for op in UnaryOperator)
    rows = ["`? :`", *infix, f"{prefix} in front of an operand"]
    return _table(("rank", "operators"), ((str(rank), row) for rank, row in enumerate(rows, 1)))


def dtypes() -> str:
    """Return the element types with their NumPy dtypes and limits."""

    def limits(dtype: DType) -> str:
        if not dtype.is_float:
            return f"{dtype.minimum} to {dtype.maximum}"
        if dtype.bits > 8:
            return "IEEE, with infinities and NaN"
        largest, infinities = dtype.format.largest, "infinities" if dtype.format.infinities else "no infinities"
        return f"-{largest:g} to {largest:g}, {infinities}, NaN"

    rows = [(f"`{d.value}`", f"`{d.numpy.name}`", str(d.itemsize), limits(d)) for d in DType]
    return _table(("dtype", "NumPy", "bytes", "values"), rows)


def expansions() -> str:
    """Return the bounds of the errors of expanded functions, in units in the last place."""
    ops = dict.fromkeys(op for op, _ in ULP)
    rows = [(f"`{op.value}`", *(f"{ULP[op, dtype]:g}" for dtype in (DType.F32, DType.F64))) for op in ops]
    return _table(("function", "f32", "f64"), rows)


def emitter() -> str:
    """Return the module of the back end that ``tileir new`` writes."""
    return f"```python\n{contents_of('backend', 'my_backend')['src/tileir_my_backend/__init__.py']}```"


def passes() -> str:
    """Return every pass of tileir with its options and their defaults."""
    return _passes(PASSES)


def passes_of_accelerators() -> str:
    """Return every pass of the wheel tileir-accelerators with its options and their defaults."""
    entries = (entry for same in EXTENSIONS.entries(Kind.PASS).values() for entry in same)
    kinds = (entry.load() for entry in entries if entry.module.startswith("tileir_accelerators."))
    return _passes(sorted(dict.fromkeys(kinds), key=lambda kind: kind.name))


def _passes(kinds: Iterable[type[Pass]]) -> str:
    rows = []
    for step in kinds:
        options = [f"`{field.name}={_default(field.default)}`" for field in attrs.fields(step)]  # type: ignore[arg-type]
        first_sentence = (step.__doc__ or "").partition(".")[0]
        rows.append((f"`{step.name}`", " ".join(first_sentence.split()), ", ".join(options)))
    return _table(("pass", "what it does", "options"), rows)


CHANGES = Path(__file__).parent / "changes"


def changes(kind: str) -> str:
    """Return what each of the ``passes``, or of the ``steps`` of schedules, changes in a small program."""
    sections = []
    for path in sorted((CHANGES / kind).glob("*.diff")):
        lines = path.read_text(encoding="utf-8").splitlines()
        said = "\n".join(line.removeprefix("# ") for line in lines if line.startswith("#"))
        changed = "\n".join(line for line in lines if not line.startswith("#"))
        sections.append(f"**{path.stem}**\n\n```text\n{said}\n```\n\n```diff\n{changed}\n```")
    return "\n\n".join(sections)


def _default(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value).replace("'", "")


def operations() -> str:
    """Return the operations of the library with what each does, a table for each file of it under a bold title."""
    families: dict[str, list[Callable[..., Any]]] = {}
    for name in ops.__all__:
        operation = getattr(ops, name)
        families.setdefault(_home(name, operation), []).append(operation)
    parts = []
    for module in sorted(families):
        title = (sys.modules[module].__doc__ or "").strip().splitlines()[0]
        rows = [
            (f"`{operation.__name__}({_parameters(operation)})`", _summary(operation)) for operation in families[module]
        ]
        parts.append(f"**{title}**\n\n{_table(('operation', 'what it does'), rows)}")
    return "\n\n".join(parts)


def accuracy() -> str:
    """Return how far results of f32 and f64 may be off, with the operations of which that is true."""
    bounds: dict[tuple[float, bool], list[str]] = {}
    for row in ROWS.values():
        bound = (0.0 if row.exact else row.units, row.terms is not None and not row.exact)
        bounds.setdefault(bound, []).append(f"`{row.name}`")
    rows = [
        (f"{units:g}" if units else "none", "4 of each" if terms else "", " ".join(sorted(names)))
        for (units, terms), names in sorted(bounds.items())
    ]
    return _table(("units in the last place", "roundings of terms", "operations"), rows)


def _home(name: str, operation: Callable[..., Any]) -> str:
    """Return the file of the library that has an operation; Tile's own stand in one that lists them, or with others."""
    if operation.__module__.startswith("tileir.ops."):
        return operation.__module__
    modules = (module for module in sorted(sys.modules) if module.startswith("tileir.ops."))
    listed = (module for module in modules if name in getattr(sys.modules[module], "__all__", ()))
    return next(listed, "tileir.ops.arithmetic.elementwise")


def formula_words() -> str:
    """Return the words of bodies of functions of formulas."""
    return _table(("word", "what it is"), ((f"`{word.form}`", word.about) for word in WORDS.values()))


def formula_functions() -> str:
    """Return the functions of formulas with their parameters, a table for each file of them under a bold title."""
    parts = []
    for path in sorted(FOLDER.glob("*.tile")):
        rows = []
        for function in read_file(path):
            reads = "two" if len(function.pictures) == 2 else "one"
            values = "<br>".join(f"`{_parameter(each)}`: {each.about}" for each in function.parameters)
            rows.append((f"`{function.name}`", reads, function.about, values))
        heads = ("function", "reads", "what it does", "parameters")
        parts.append(f"**{path.stem.replace('_', ' ').capitalize()}**\n\n{_table(heads, rows)}")
    return "\n\n".join(parts)


def _parameter(parameter: Parameter) -> str:
    """Return what a file says of a parameter before the sentence about it."""
    text = f"{parameter.name} = {value_text(parameter.default)}"
    match parameter:
        case NumberParameter():
            return f"{text} from {parameter.low:g} to {parameter.high:g} step {parameter.step:g}"
        case ChoiceParameter():
            return f"{text} among {', '.join(parameter.words)}"
        case WeightsParameter():
            return f"{text} up to {parameter.most}"
        case _:
            return text


def plaidml_names() -> str:
    """Return PlaidML's names for operations."""
    return _table(("PlaidML", "tileir.ops"), ((f"`{old}`", f"`{new}`") for old, new in ALIASES.items()))


def _parameters(operation: Callable[..., Any]) -> str:
    """Return the parameters of a function with their defaults, without their types."""
    parts: list[str] = []
    keywords = False
    for parameter in inspect.signature(operation).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not keywords:
            keywords = True
            parts.append("*")
        star = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
        keywords = keywords or bool(star)
        default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
        parts.append(f"{star}{parameter.name}{default}")
    return ", ".join(parts)


def _summary(operation: Callable[..., Any]) -> str:
    """Return the first paragraph of a docstring in one line, with single backquotes."""
    paragraph = (inspect.getdoc(operation) or "").partition("\n\n")[0]
    return " ".join(paragraph.split()).replace("``", "`")
