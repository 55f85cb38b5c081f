"""The builtin functions of Tile: names, numbers of arguments, and kinds of meaning.

One table for the verifier (existing names, numbers of arguments, constant arguments), for typed inference (which gives
every row its meaning) and for the builder (which offers each one).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tileir.core import OPS, Aggregation, Combine, DType, Op, attrs, meant, own_form


@attrs.frozen
class Builtin:
    """One builtin function.

    Attributes:
        name: Its name in texts.
        least: The least number of arguments; at least 1.
        most: The greatest number of arguments, or None if there is no limit.
        op: The elementwise operation that it is, or None if inference expands it.
        elementwise: Whether its result has the broadcast shape of its arguments.
        constants: Position of the first argument that must be known when compiling (a size, an axis,
            a width); all after it must be too. None if no argument must.
        folds: Whether it may occur in a size, a bound or an index polynomial, applied to dimensions.
    """

    name: str
    least: int
    most: int | None
    op: Op | None = None
    elementwise: bool = True
    constants: int | None = None
    folds: bool = False

    def takes(self, count: int) -> bool:
        """Return whether it takes ``count`` arguments."""
        return self.least <= count and (self.most is None or count <= self.most)

    @property
    def arity(self) -> str:
        """The number of arguments in words, for messages."""
        if self.most is None:
            return f"{self.least} or more arguments"
        if self.most != self.least:
            return f"{self.least} to {self.most} arguments"
        return "1 argument" if self.least == 1 else f"{self.least} arguments"


# Functions that the reference folds when all arguments are constants; the others need a tensor.
_FOLDS: Final = frozenset(
    {
        Op.IDENT, Op.NEG, Op.ABS, Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.MOD, Op.MAX, Op.MIN, Op.COND, Op.FLOOR, Op.CEIL,
        Op.CMP_EQ, Op.CMP_NE, Op.CMP_LT, Op.CMP_LE, Op.CMP_GT, Op.CMP_GE,
    }
)  # fmt: skip

SCATTERS: Final[Mapping[str, Aggregation]] = MappingProxyType(
    {"scatter": Aggregation.SUM, **{f"scatter_{how.value}": how for how in Aggregation if how is not Aggregation.SUM}}
)
"""The aggregation of functions that scatter updates into rows."""

SIZE: Final = "size"
"""The function whose result is known when compiling, though its first argument is not."""

SCATTER_LAST: Final = "scatter_last"
"""The function that replaces rows by the last of their updates."""

SCATTER_NAMES: Final = (*SCATTERS, SCATTER_LAST)


def scatter_name(how: Aggregation, *, ordered: bool) -> str:
    """Return the name of the scatter with this aggregation."""
    return SCATTER_LAST if ordered else next(name for name, each in SCATTERS.items() if each is how)


_ASSERTION: Final = Builtin("assert_", 1, 1, constants=0)  # assert_anything(c): c is a constant other than 0


def _function(name: str, least: int, most: int | None = -1, *, constants: int | None = None) -> Builtin:
    """Build a row of a function with a shape rule of its own; without ``most``, it takes ``least`` arguments."""
    return Builtin(name, least, least if most == -1 else most, elementwise=False, constants=constants)


def _rows() -> tuple[Builtin, ...]:
    operations = tuple(
        Builtin(op.value, info.arity, info.arity, op=op, folds=op in _FOLDS)
        for op, info in OPS.items()
        if op not in (Op.FMA, Op.BITS)  # a program writes a * b + c, and bits_as_f32(x)
    )
    casts = tuple(Builtin(f"as_{dtype.value}", 1, 1) for dtype in DType if not dtype.is_bool)
    return (
        *operations,
        *casts,
        *(Builtin(f"bits_as_{dtype.value}", 1, 1) for dtype in DType if not dtype.is_bool),  # the same bits
        *(Builtin(f"expect_{dtype.value}", 1, 1) for dtype in DType),  # x with a check of its dtype
        _function("expect_sizes", 1, None, constants=1),  # (T, sizes…): T with a check of its sizes
        Builtin("where", 3, 3, op=Op.COND, folds=True),  # cond by NumPy's name
        Builtin("recip", 1, 1),  # 1 / x
        Builtin("relu", 1, 1),  # x < 0 ? 0 : x
        Builtin("sign", 1, 1),  # -1, 0 or 1 in the type of x
        Builtin("logical_and", 2, 2),  # (x != 0) & (y != 0)
        Builtin("logical_or", 2, 2),
        Builtin("logical_not", 1, 1),  # x == 0
        Builtin("as_bool", 1, 2, constants=1),  # as_bool(x) or as_bool(x, 1)
        Builtin("as_float", 2, 2, constants=1),  # as_float(x, 16), 32 or 64
        Builtin("as_int", 2, 2, constants=1),  # as_int(x, 8), 16, 32 or 64
        Builtin("as_uint", 2, 2, constants=1),
        _function("as_like", 2),  # (x, y): x in the dtype of y
        Builtin("quantize", 1, 1),  # the reference's name for as_i8
        Builtin("widen", 1, 1),  # x in the dtype of its sums
        Builtin("match", 2, 2, constants=0, folds=True),  # two equal constants, or an error
        Builtin("broadcast", 2, 2, constants=0, folds=True),  # two sizes that are equal or of which one is 1
        Builtin("stop_gradient", 1, 1),  # x; its gradient is stopped
        Builtin("checkpoint", 1, 1),  # x; kept for the backward pass, which recomputes other values
        Builtin("upstream", 1, 1),  # the gradient of x: only in the gradients of its override
        Builtin("reverse_grad", 2, 2),  # x; its gradient is -s·g
        Builtin("builtin_binary_crossentropy", 3, 3),  # -t·log p - (1 - t)·log(1 - p) of (p, t, scale)
        _function("override_gradient", 1, None),  # (Y, X, G, …): Y; in backward passes, X gets its G, others nothing
        _function("builtin_softmax", 1, 3, constants=1),  # (X, rows, columns): over the last axis of rank 2
        _function("builtin_logsoftmax", 1, 3, constants=1),
        _function("index", 2, 3, constants=1),  # (T, axis, reach): the coordinate on that axis, shape of T
        _function("shape", 1),  # the sizes of T as a vector
        Builtin(SIZE, 2, 2, elementwise=False, constants=1, folds=True),  # (T, axis): the size of T, a constant
        _function("reshape", 1, None, constants=1),  # (T, sizes…); no sizes make rank 0
        _function("argsort", 2, 4, constants=1),  # (T, axis, descending, count): the positions of the sorted elements
        _function("gather", 2),  # (data, indices)
        *(_function(name, 3) for name in SCATTER_NAMES),  # (updates, indices, like)
        _function("simple_reduce", 1, None, constants=1),  # (T, sizes…): sum down to these sizes
        *(  # (T, axes…): the components of a state, a tuple
            _function(f"reduce_{combine.value}", 1, None, constants=1) for combine in Combine
        ),
        _function("prng_step", 1, None, constants=1),  # (state, sizes…): only prng_state and prng_value may read it
        _function("prng_state", 1),
        _function("prng_value", 1),
        _function("tuple", 1, None),  # only element may read it
        _function("element", 2, constants=1),  # (tuple, position)
        _function("gradient", 2, None),  # (Y, X…): of the sum of Y with respect to each X, a tuple for several
        _function("vjp", 3, None),  # (Y, DY, X…): likewise with cotangents of Y
        _function("jvp", 3),  # (Y, X, DX): the tangent of Y for the tangent DX of X; each may be a tuple
    )


BUILTINS: Final[Mapping[str, Builtin]] = MappingProxyType({row.name: row for row in _rows()})
"""Every function, by name. Besides these there is ``assert_…(c)`` with any ending."""


def builtin(name: str) -> Builtin | None:
    """Return the function called ``name``, or None if Tile has none."""
    found = BUILTINS.get(name)
    if found is None and name.startswith(_ASSERTION.name) and name != _ASSERTION.name:
        return attrs.evolve(_ASSERTION, name=name)
    return found


def advice(name: str) -> tuple[str, ...]:
    """Return notes about an unknown or misused function name: a replacement."""
    form = own_form(name)
    if form is not None:
        return (form,)
    found = meant(name, BUILTINS)
    return () if found is None else (f"did you mean {found!r}?",)
