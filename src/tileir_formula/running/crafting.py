"""Formulas that run: crafted for the pictures that they are called with, edited, and explained."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from tileir import Context, DeviceInfo, Executable, Options, bind, jit
from tileir.core import ArgumentError, DType, TileError, attrs, nearest, with_short_traceback
from tileir.driver.calls.arguments import check_kind, check_options, is_number
from tileir.driver.texts import read
from tileir.runtime import to_array
from tileir_formula.definitions.catalogue import default_catalogue
from tileir_formula.definitions.functions import Function
from tileir_formula.editing import edits
from tileir_formula.editing.control_tree import controls_of
from tileir_formula.editing.controls import each_control
from tileir_formula.editing.given_values import GivenValue, given_text
from tileir_formula.ir import Formula
from tileir_formula.lower.applying import apply
from tileir_formula.lower.inputs import inputs_of
from tileir_formula.lower.lowering import Crafted, craft as lowered
from tileir_formula.running.faults import Trial
from tileir_formula.running.function import RANKS, FormulaFunction, as_passed, dtype_of, shown
from tileir_formula.running.low_rank import with_low_rank
from tileir_formula.running.picture_parts import MOST_PIXELS, Array, Rectangle, check_inside, in_tiles, part, part_read
from tileir_formula.text.parser import parse
from tileir_formula.text.printer import to_text
from tileir_formula.verifier import verify

if TYPE_CHECKING:
    from tileir_formula.running.explanation import FormulaExplanation


@with_short_traceback
def craft(
    source: Formula | str | Path,
    functions: Mapping[str, Function] | None = None,
    *,
    device: str | DeviceInfo | None = None,
    context: Context | None = None,
    live: str | Iterable[str] = (),
    tolerance: float = 0.0,
    options: Options | None = None,
    name: str | None = None,
) -> CraftedFormula:
    """Return a formula that runs on pictures.

    Args:
        source: A formula, its text, or the path of its file.
        functions: The functions that its steps may call, by name; by default those of tileir and of installed
            distributions.
        device: A device or its id; by default the choice of the context.
        context: Owner of devices and caches; by default the process-wide one.
        live: The path of a parameter, or several, that are passed at each call, say while a control is dragged: another
            value of them compiles nothing. All others are constants of the kernels, which makes these faster.
        tolerance: The greatest error when windows of weights are replaced by sums of windows of rank one, which are
            faster: the sum of the absolute differences, as a share of the sum of the absolute weights.
            :meth:`CraftedFormula.explain` lists the replacements.
        options: Options of compilation; by default those of the context.
        name: The name of the text in errors; by default the path of a file.

    Raises:
        ParseError: The text is no formula; all faults.
        VerifyError: The formula breaks rules; all of them.
        ArgumentError: TIL221, a path of ``live`` leads to no parameter; TIL707, an argument is of another kind; TIL901,
            the file cannot be read, or is no UTF-8.
    """
    check_kind("source", source, str | Formula | Path, "a formula, its text or a pathlib.Path")
    check_kind("functions", functions, Mapping | None, "a mapping of functions by their names")
    check_kind("live", live, Iterable, "the path of a parameter, or several")
    name = name or (str(source) if isinstance(source, Path) else "<formula>")
    content = read(source) if isinstance(source, Path) else source
    if isinstance(content, bytes):
        raise ArgumentError.of("TIL901", f"cannot read {source}: it is a bundle, and no formula")
    text = content if isinstance(content, str) else to_text(content)
    known = default_catalogue().functions if functions is None else functions
    paths = frozenset((live,) if isinstance(live, str) else live)
    check_options(options)
    crafted = CraftedFormula(text, MappingProxyType(dict(known)), device, context, paths, tolerance, options, name)
    verify(crafted.formula, known)
    if crafted.live:
        _check_live(crafted)
    return crafted


def _check_live(crafted: CraftedFormula) -> None:
    """Check that paths lead to parameters, or to numbers of conditions."""
    known = [control.path for control in each_control(controls_of(crafted.formula, crafted.functions))]
    for path in crafted.live.difference(known):
        raise ArgumentError.of("TIL221", f"live: the formula has no parameter {path!r:.80}{nearest(path, known)}")


def _check_tolerance(_: object, __: object, value: object) -> None:
    if not is_number(value) or not 0 <= value < 1:
        raise ArgumentError.of("TIL707", f"a tolerance is a share from 0 to 1, and less than 1; it was {value!r:.80}")


@attrs.frozen(eq=False, slots=False)
class CraftedFormula:
    """A formula that runs on pictures.

    Attributes:
        text: The formula.
        functions: The functions that its steps call.
        device: The device; None for the choice of the context.
        context: Owner of devices and caches; None for the process-wide one.
        live: The paths of the parameters that are passed at each call.
        tolerance: The greatest error when windows are replaced by sums of windows of rank one.
        options: Options of compilation; None for those of the context.
        name: The name of the text in errors.
    """

    text: str
    functions: Mapping[str, Function] = attrs.field(repr=False)
    device: str | DeviceInfo | None = None
    context: Context | None = attrs.field(default=None, repr=False)
    live: frozenset[str] = frozenset()
    tolerance: float = attrs.field(default=0.0, validator=_check_tolerance)
    options: Options | None = None
    name: str = attrs.field(default="<formula>", repr=False)
    _crafted: dict[tuple[DType, ...], FormulaFunction] = attrs.field(factory=dict, init=False, repr=False)

    @cached_property
    def formula(self) -> Formula:
        """The formula of the text."""
        return parse(self.text, self.name)

    def __call__(self, *pictures: Any, out: Any = None) -> Any:
        """Return the results for some pictures.

        Args:
            pictures: ``[rows, columns]`` or ``[rows, columns, channels]``, of floats, bool or unsigned integers: an
                array for each input.
            out: Where the result goes: an array of its dtype and shape.

        Returns:
            One array, or a tuple where there are several results, in the dtype of the first picture. Results with one
                channel are ``[rows, columns]`` where the first picture is.

        Raises:
            ArgumentError: TIL705, the number of pictures is not that of the inputs; TIL904, an array is no picture; or
                any error of a call of a function. Nothing was written.
        """
        arrays, flat = self._pictures(pictures)
        target = out if out is None or not flat or out.ndim != 2 else out[..., None]
        with self._faults_located(arrays):
            function = self._function(arrays)
            reach = function.reach(arrays) if arrays[0][..., 0].size > MOST_PIXELS and out is None else None
            results = function.on(arrays, target) if reach is None else function.in_strips(arrays, reach)
        return out if out is not None else shown(results, flat)

    def region(self, rectangle: tuple[int, int, int, int], *pictures: Any) -> Any:
        """Return a part of the results, computed from no more of the pictures than it needs.

        Where steps depend on places, the whole is computed.

        Args:
            rectangle: Its top, left, height and width.
            pictures: As for a call.

        Returns:
            The results of a call, cut to these rows and columns.

        Raises:
            ArgumentError: TIL314, results have no rows or columns of these numbers; or any error of a call.
        """
        arrays, flat = self._pictures(pictures)
        wanted = Rectangle(*rectangle)
        with self._faults_located(arrays):
            function = self._function(arrays)
            reach = function.reach(arrays)
        if reach is not None:
            check_inside(wanted, arrays[0].shape)
            return shown(part(function.on, arrays, reach, wanted), flat)
        results = function.on(arrays)
        check_inside(wanted, results[0].shape)
        return shown(tuple(result[wanted.slices] for result in results), flat)

    def parts(self, first: tuple[int, int, int, int], *pictures: Any) -> Iterator[tuple[Rectangle, Any]]:
        """Yield the results in parts, so that the visible part is there before the rest.

        Where steps depend on places, the whole is the only part.

        Args:
            first: Top, left, height and width of the first part; the others have its size.
            pictures: As for a call.

        Yields:
            The place of a part, and the results of a call, cut to it.

        Raises:
            ArgumentError: TIL314, results have no rows or columns of these numbers; or any error of a call.
        """
        arrays, flat = self._pictures(pictures)
        with self._faults_located(arrays):
            function = self._function(arrays)
            reach = function.reach(arrays)
        if reach is None:
            whole = function.on(arrays)
            yield Rectangle(0, 0, *whole[0].shape[:2]), shown(whole, flat)
            return
        check_inside(Rectangle(*first), arrays[0].shape)
        for place, results in in_tiles(function.on, arrays, reach, Rectangle(*first)):
            yield place, shown(results, flat)

    def executable(self, *pictures: Any, region: tuple[int, int, int, int] | None = None) -> Executable:
        """Return the executable for these pictures, or for a rectangle of the results; raises as a call."""
        arrays, _ = self._pictures(pictures)
        with self._faults_located(arrays):
            function = self._function(arrays)
            return function.call.specialise(*_read(function, arrays, region), *function.passed)

    def is_compiled(self, *pictures: Any, region: tuple[int, int, int, int] | None = None) -> bool:
        """Return whether :meth:`executable` need not compile: the context or the cache on disk has the kernels."""
        arrays, _ = self._pictures(pictures)
        with self._faults_located(arrays):
            function = self._function(arrays)
            return function.call.is_compiled(*_read(function, arrays, region), *function.passed)

    def with_options(self, options: Options) -> CraftedFormula:
        """Return the formula compiled with other options."""
        changed = attrs.evolve(self, options=options)
        changed._crafted.update((dtypes, made.with_options(options)) for dtypes, made in self._crafted.items())
        return changed

    def tile(self, pixels: str | Sequence[str] = "f32") -> Crafted:
        """Return the formula as a Tile function for pictures of one dtype, or of one dtype each."""
        return lowered(self.formula, self.functions, pixels=pixels)

    def explain(self, *pictures: Any, measure: bool = False) -> FormulaExplanation:
        """Return the kernels of the steps, their buffers and their times.

        Args:
            pictures: As for a call.
            measure: Whether each kernel is also run on the device.

        Raises:
            TileError: Any error of a call; TIL902, a formula with a loop is to be measured.
        """
        from tileir_formula.running.explanation import explained

        arrays, _ = self._pictures(pictures)
        with self._faults_located(arrays):
            function = self._function(arrays)
            return explained(self, function, [*arrays, *function.passed], measure)

    def with_value(self, path: str, value: GivenValue) -> CraftedFormula:
        """Return the formula with another value at a path, such as ``steps[0].arguments.sigma``, which is live then.

        The value is text, as in a formula, or a bool, a number, or rows of weights.

        Paths and values are those of controls (:func:`tileir_formula.lower.applying.apply`): another function keeps the
        arguments that it takes.

        Raises:
            ParseError: The text of the value cannot be read.
            VerifyError: The value is out of bounds.
            ArgumentError: TIL221, there is no element or parameter at this path; TIL707, a formula cannot express the
                value.
        """
        step, dot, name = path.rpartition(".arguments.")
        if dot:
            edited = edits.with_argument(self.text, step, name, given_text(path, value))
        else:
            edited = apply(self.text, path, value, self.functions).edited
        changed = self._as(edited.text, {*self.live, path})
        if path in self.live:
            changed._take_over(self, path)
        return changed

    def _take_over(self, other: CraftedFormula, path: str) -> None:
        """Reuse the compiled functions of a formula that differs only in the value passed for a path."""
        before, now = (inputs_of(each.formula, self.functions) for each in (other, self))
        baked = {name for name, value in now.values.items() if not self._is_live(now.paths[name], value)}
        same = before.paths == now.paths and before.fixed == now.fixed and path in now.paths.values()
        if same and all(np.array_equal(before.values[name], now.values[name]) for name in baked):
            passed = tuple(as_passed(value) for name, value in now.values.items() if name not in baked)
            for dtypes, made in other._crafted.items():
                crafted = attrs.evolve(made.crafted, arguments=now.values)
                self._crafted[dtypes] = attrs.evolve(made, crafted=crafted, passed=passed)

    def with_text(self, text: str) -> CraftedFormula:
        """Return another formula with these functions, device and options; raises as :func:`craft`."""
        return self._as(text, ())

    def baked(self) -> CraftedFormula:
        """Return the formula with all parameters as constants of its kernels, for when a control rests."""
        return self._as(self.text, ()) if self.live else self

    def _as(self, text: str, live: Iterable[str]) -> CraftedFormula:
        changed = attrs.evolve(self, text=text, live=frozenset(live))
        verify(changed.formula, self.functions)
        return changed

    def __str__(self) -> str:
        """Return the text."""
        return self.text

    def _repr_html_(self) -> str:
        """Return the HTML for notebooks."""
        from tileir_formula.running.notebook import formula_html

        return formula_html(self)

    def _pictures(self, pictures: Sequence[Any]) -> tuple[list[Array], bool]:
        """Return pictures with channels, and whether the first one came without."""
        names = self.formula.inputs
        if len(pictures) != len(names):
            message = f"the formula reads {len(names)} pictures, {', '.join(names)}; it was given {len(pictures)}"
            raise ArgumentError.of("TIL705", message)
        arrays = [to_array(name, picture) for name, picture in zip(names, pictures, strict=True)]
        for name, array in zip(names, arrays, strict=True):
            if array.ndim not in RANKS or not array.size:
                message = f"{name} is no picture: pass [rows, columns] or [rows, columns, channels], not {array.shape}"
                raise ArgumentError.of("TIL904", message)
        return [array[..., None] if array.ndim == min(RANKS) else array for array in arrays], arrays[0].ndim == min(
            RANKS
        )

    @contextmanager
    def _faults_located(self, arrays: Sequence[Array]) -> Iterator[None]:
        """Name the step in errors that depend on the sizes of the pictures."""
        try:
            yield
        except TileError as error:
            dtypes = tuple(map(dtype_of, self.formula.inputs, arrays))
            located = Trial(self.formula, self.functions, arrays, dtypes).located(error)
            if located is error:
                raise
            raise located from error

    def _function(self, arrays: Sequence[Array]) -> FormulaFunction:
        dtypes = tuple(map(dtype_of, self.formula.inputs, arrays))
        if dtypes not in self._crafted:
            crafted = lowered(self.formula, self.functions, pixels=dtypes)
            paths = crafted.paths
            passed = {name: value for name, value in crafted.arguments.items() if self._is_live(paths[name], value)}
            fixed = {name: value for name, value in crafted.arguments.items() if name not in passed}
            bound, found = with_low_rank(bind(crafted.function, fixed), self.tolerance)
            call = jit(bound, self.device, context=self.context, options=self.options)
            self._crafted[dtypes] = FormulaFunction(crafted, call, tuple(map(as_passed, passed.values())), found)
        return self._crafted[dtypes]

    def _is_live(self, path: str, value: object) -> bool:
        """Return whether a call passes a value: a live parameter, or a float derived from live parameters.

        Derived integers are mostly radii; another radius means a new compilation anyway.
        """
        if path in self.live:
            return True
        call, dot, name = path.rpartition(".arguments.")
        is_derived = bool(dot) and name[:1].isupper() and isinstance(value, float)
        return is_derived and any(each.rpartition(".arguments.")[0] == call for each in self.live)


def _read(
    function: FormulaFunction, arrays: Sequence[Array], region: tuple[int, int, int, int] | None
) -> Sequence[Array]:
    """Return the parts of pictures that a rectangle of the results needs; all of them where steps depend on places.

    Raises:
        ArgumentError: TIL314, results have no rows or columns of these numbers.
    """
    reach = None if region is None else function.reach(arrays)
    if region is None or reach is None:
        return arrays
    wanted = Rectangle(*region)
    check_inside(wanted, arrays[0].shape)
    return [array[part_read(wanted, reach, array.shape).slices] for array in arrays]
