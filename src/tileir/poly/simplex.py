"""Exact integer linear programming: a bounded dual simplex over the rationals, with branch and bound.

The tableau holds integers over one common denominator and is pivoted without fractions (J. Edmonds, "Systems of
distinct representatives and linear algebra", 1967). Since every index is confined from both sides, each non-basic
variable can be set to the limit that suits the objective, so the first tableau is dual feasible for any objective and
there is no first phase (Chvátal, "Linear Programming", chapters 8 and 10). Bland's rule excludes cycles.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tileir.core.nodes import attrs
from tileir.poly.constraint import Row, Span, Terms

_WORK = 1_000_000  # roughly a quarter of a second


@attrs.define(eq=False, repr=False)
class Budget:
    """Number of tableau entries that a family of searches may still compute; each search gets a quarter of it."""

    left: int = _WORK

    def share(self) -> Budget:
        """Set a part aside for one search; the search should give back the rest."""
        part = self.left // 4
        self.left -= part
        return Budget(part)


@attrs.frozen
class Optimum:
    """The least value of an objective, with a point that reaches it.

    Without a point the search ended early: ``value`` is then a lower bound only, and there may be no integer point.
    """

    value: int
    point: tuple[tuple[str, int], ...] | None


def minimise(
    objective: Terms, rows: Iterable[Row], box: Mapping[str, Span], budget: Budget | None = None
) -> Optimum | None:
    """Return the least value of ``objective`` over the integer points of ``box`` and ``rows``; None if there are none.

    Args:
        objective: The linear form to minimise; its indices are keys of ``box``.
        rows: Constraints on the indices.
        box: The span of every index.
        budget: The permitted work, from which the work is subtracted.

    Raises:
        ValueError: The spans and rows that have two limits do not confine every index.
    """
    names = tuple(box)
    rows = tuple(rows)
    if any(_crossed(span) for span in box.values()) or any(_crossed((row.low, row.high)) for row in rows):
        return None
    budget = Budget() if budget is None else budget
    best: Optimum | None = None
    nodes = [_tableau(names, box, rows, objective)]
    while nodes:
        node = nodes.pop()
        if best is not None and node.floor >= best.value:
            continue
        if not node.optimise(budget):
            continue
        if budget.left <= 0:
            return Optimum(min(n.floor for n in (node, *nodes)), None)
        if best is not None and node.floor >= best.value:
            continue
        branches = node.branches()
        if branches is None:
            best = Optimum(node.floor, tuple(zip(names, node.values()[: len(names)], strict=True)))
        else:
            nodes.extend(branches)
    return best


def _crossed(span: Span) -> bool:
    """Return whether the span is empty."""
    low, high = span
    return low is not None and high is not None and low > high


def _tableau(names: Sequence[str], box: Mapping[str, Span], rows: Sequence[Row], objective: Terms) -> _Tableau:
    """Build the first tableau: indices are non-basic unless their span is open; the objective is the last row."""
    column = {name: k for k, name in enumerate(names)}
    forms = [*(row.terms for row in rows), objective]
    matrix = [[0] * len(names) for _ in forms]
    for line, terms in zip(matrix, forms, strict=True):
        for name, coefficient in terms:
            line[column[name]] = coefficient
    limits: list[Span] = [*box.values(), *((row.low, row.high) for row in rows), (None, None)]
    tableau = _Tableau(
        matrix, 1, list(range(len(names), len(limits))), list(range(len(names))),
        [low for low, _ in limits], [high for _, high in limits],
    )  # fmt: skip
    tableau.expel_open()
    return tableau


@attrs.define(eq=False, repr=False)
class _Tableau:
    """``basic[i] = Σ matrix[i][j] / denominator · nonbasic[j]``; variables have numbers, the objective the last.

    ``at`` is the integer value of each non-basic variable: one of its limits. ``floor`` is the best known
    lower bound of the objective over the integers.
    """

    matrix: list[list[int]]
    denominator: int
    basic: list[int]
    nonbasic: list[int]
    low: list[int | None]
    high: list[int | None]
    at: list[int] = attrs.field(factory=list, init=False)
    floor: int = attrs.field(default=0, init=False)

    def copy(self) -> _Tableau:
        """Return an independent copy."""
        twin = _Tableau(
            list(self.matrix), self.denominator, list(self.basic), list(self.nonbasic), list(self.low), list(self.high)
        )
        twin.at = list(self.at)
        twin.floor = self.floor
        return twin

    def boxed(self, variable: int) -> bool:
        """Return whether the variable has two limits."""
        return self.low[variable] is not None and self.high[variable] is not None

    def expel_open(self) -> None:
        """Make every non-basic variable a boxed one, set at the limit that suits the objective."""
        for column, variable in enumerate(self.nonbasic):
            if self.boxed(variable):
                continue
            found = next((r for r, b in enumerate(self.basic) if self.matrix[r][column] != 0 and self.boxed(b)), None)
            if found is None:
                raise ValueError("the constraints do not confine every index")
            self.pivot(found, column)
        for variable, cost in zip(self.nonbasic, self.matrix[-1], strict=True):
            limit = self.low[variable] if cost >= 0 else self.high[variable]
            self.at.append(limit if limit is not None else 0)
        self.floor = self.least()

    def least(self) -> int:
        """Return the objective rounded up: no integer point is below it, as every tableau is dual feasible."""
        value = sum(cost * at for cost, at in zip(self.matrix[-1], self.at, strict=True))
        return -(-value // self.denominator)

    def pivot(self, row: int, column: int) -> None:
        """Exchange a basic and a non-basic variable; rows are replaced, never changed, so copies may share them."""
        old = self.matrix[row]
        pivot = old[column]
        sign = 1 if pivot > 0 else -1
        fresh = [-sign * x for x in old]
        fresh[column] = sign * self.denominator
        for r, line in enumerate(self.matrix):
            if r == row:
                continue
            factor = line[column]
            new = [(pivot * x - factor * y) // self.denominator for x, y in zip(line, old, strict=True)]
            new[column] = factor
            self.matrix[r] = new if sign > 0 else [-x for x in new]
        self.matrix[row] = fresh
        self.denominator = abs(pivot)
        self.basic[row], self.nonbasic[column] = self.nonbasic[column], self.basic[row]

    def optimise(self, budget: Budget) -> bool:
        """Take dual simplex steps until no limit is violated or the budget ends, and set ``floor``.

        False says that there is no solution. The budget pays for the first test as well.
        """
        cost = len(self.matrix) * len(self.nonbasic)
        while True:
            budget.left -= cost
            leaving = self.leaving() if budget.left > 0 else None
            if leaving is None:
                self.floor = self.least()
                return True
            row, limit, rises = leaving
            column = self.entering(row, rises)
            if column is None:
                return False
            self.pivot(row, column)
            self.at[column] = limit

    def leaving(self) -> tuple[int, int, bool] | None:
        """Return (row, violated limit, whether the value must rise) of the violated variable with the least number."""
        found: tuple[int, int, bool] | None = None
        for r, variable in enumerate(self.basic):
            if found is not None and variable > self.basic[found[0]]:
                continue
            low, high = self.low[variable], self.high[variable]
            value = sum(x * v for x, v in zip(self.matrix[r], self.at, strict=True))
            if low is not None and value < low * self.denominator:
                found = (r, low, True)
            elif high is not None and value > high * self.denominator:
                found = (r, high, False)
        return found

    def entering(self, row: int, rises: bool) -> int | None:
        """Return the column whose variable can move the row's value the right way at the least relative cost."""
        best: tuple[int, int, int] | None = None  # cost, effect, column: compared as cost / effect
        for column, (effect, cost) in enumerate(zip(self.matrix[row], self.matrix[-1], strict=True)):
            if effect == 0:
                continue
            variable = self.nonbasic[column]
            low, high = self.low[variable], self.high[variable]
            if low is not None and low == high:
                continue
            at_low = self.at[column] == low
            if (effect > 0) == (at_low == rises):
                candidate = (abs(cost), abs(effect), column)
                if best is None or self.cheaper(candidate, best):
                    best = candidate
        return None if best is None else best[2]

    def cheaper(self, candidate: tuple[int, int, int], best: tuple[int, int, int]) -> bool:
        """Compare two ratios; ties go to the variable with the smaller number."""
        left, right = candidate[0] * best[1], best[0] * candidate[1]
        return left < right or (left == right and self.nonbasic[candidate[2]] < self.nonbasic[best[2]])

    def values(self) -> list[int]:
        """Return the values of the variables by number, rounded down if they are fractional."""
        values = [0] * len(self.low)
        for variable, value in zip(self.nonbasic, self.at, strict=True):
            values[variable] = value
        for r, variable in enumerate(self.basic):
            values[variable] = sum(x * v for x, v in zip(self.matrix[r], self.at, strict=True)) // self.denominator
        return values

    def branches(self) -> tuple[_Tableau, _Tableau] | None:
        """Split at the fractional index of the narrowest span; the nearer side comes last. None if there is none."""
        found: tuple[int, int, int] | None = None  # index, value rounded down, numerator of the rest
        width: int | None = None
        for r, variable in enumerate(self.basic):
            if variable >= len(self.nonbasic):
                continue
            value = sum(x * v for x, v in zip(self.matrix[r], self.at, strict=True))
            whole, rest = divmod(value, self.denominator)
            low, high = self.low[variable], self.high[variable]
            extent = None if low is None or high is None else high - low
            if rest != 0 and (found is None or (extent is not None and (width is None or extent < width))):
                found, width = (variable, whole, rest), extent
        if found is None:
            return None
        variable, whole, rest = found
        down, up = self.copy(), self.copy()
        down.high[variable], up.low[variable] = whole, whole + 1
        return (up, down) if 2 * rest <= self.denominator else (down, up)
