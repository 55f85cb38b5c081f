"""Einstein's sums: products of any number of tensors, pair by pair, in an order with small intermediate results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from tileir.ops.shared.foundation import (
    Aggregation,
    CombinedElements,
    Constraint,
    Dim,
    Polynomial,
    Tensor,
    aggregate,
    broadcast_index,
    dims_of,
    equal_sizes,
    for_sums,
    index_of,
    mistaken,
    promoted,
    rank_of,
)
from tileir.tile.building.sizes import wider

Labelled: TypeAlias = "tuple[Tensor, list[str]]"
"""A tensor with a label for each axis; axes with equal labels run together."""

_UNKNOWN: Final = 64  # assumed size of axes that are known only when compiling, to compare orders


def einsum(subscripts: str, *tensors: Tensor) -> Tensor:
    """Return the sum of products that ``subscripts`` describe, as NumPy's ``einsum``.

    ``"ij,jk->ik"`` names each axis of each tensor, then those of the result; all others are summed over. Without ``->``
    the result has the letters that occur once, in alphabetical order. ``...`` stands for axes without letters. A letter
    that occurs twice for one tensor selects its diagonal. Axes of size 1 are broadcast. Blanks are ignored.

    Three and more tensors are multiplied in pairs; the next pair is always the one whose product has the fewest
    elements more than its factors. Every pair is one contraction.

    Dtypes: the promoted one; sums of bool are i32. The product of each pair is rounded to it.

    Raises:
        TileError: TIL217, the subscripts do not describe these tensors; TIL310, a letter has two sizes, none of which
            is 1 (TIL301 if that is known only when compiling, and TIL312 for a diagonal).

    Source: NumPy's ``einsum``; Smith and Gray 2018, "opt_einsum", for greedy orders.
    """
    terms, output = _parsed(subscripts, tensors)
    broadcast = {label for labels in terms for label in labels}
    return contract(list(zip(tensors, terms, strict=True)), output, broadcast)


def contract(operands: Sequence[Labelled], output: Sequence[str], broadcast: set[str]) -> Tensor:
    """Sum the product of labelled tensors over all labels that are not those of the result.

    Labels in ``broadcast`` may have size 1 in some of the tensors; the others have one size.
    """
    sizes = _sizes(operands, broadcast)
    left = _summed_alone(operands, output)
    is_wide = any(part is not operand for part, operand in zip(left, operands, strict=True))
    while len(left) > 2:
        first, second = _next_pair(left, output, sizes)
        others = [part for place, part in enumerate(left) if place not in (first, second)]
        kept = _kept([left[first], left[second]], others, output)
        left = [*others, (_product([left[first], left[second]], kept, sizes, broadcast), kept)]
    result = _product(left, output, sizes, broadcast)
    return promoted(result, *(tensor for tensor, _ in operands), 1) if is_wide else result


def _product(
    operands: Sequence[Labelled], output: Sequence[str], sizes: Mapping[str, Dim], broadcast: set[str]
) -> Tensor:
    """Multiply one or two tensors, and sum over axes that are not in the result."""
    x = operands[0][0]
    names = {label: index_of(x, f"x{position}") for position, label in enumerate(_labels(operands))}
    combined: CombinedElements | None = None
    for tensor, labels in operands:
        indices: list[Polynomial | int] = []
        checks: list[Constraint] = []
        own = _own_sizes(tensor, labels)
        for label, dim in zip(labels, dims_of(tensor), strict=True):
            if label in broadcast:
                index, constraints = broadcast_index(names[label], own[label], sizes[label])
                if own[label] != dim and isinstance(index, Polynomial):
                    constraints += (index < own[label],)  # demands equal sizes along a diagonal
            else:
                index, constraints = names[label], equal_sizes(names[label], dim, sizes[label])
            indices.append(index)
            checks += constraints
        element = tensor[tuple(indices)].given(*checks)
        combined = element if combined is None else combined * element
    if combined is None:
        raise mistaken("there is nothing to multiply")
    present = [label for label in output if label in names]
    return aggregate(
        Aggregation.SUM, combined, [names[label] for label in present], [sizes[label] for label in present]
    )


def _summed_alone(operands: Sequence[Labelled], output: Sequence[str]) -> list[Labelled]:
    """Sum each tensor over the labels that no other one has, before products, in the dtype of the product."""
    result: list[Labelled] = []
    for place, (tensor, labels) in enumerate(operands):
        others = [part for other, part in enumerate(operands) if other != place]
        kept = _kept([(tensor, labels)], others, output)
        whole = len(operands) == 1 or len(kept) == len(set(labels))
        own = _own_sizes(tensor, labels)
        if whole:
            result.append(operands[place])
            continue
        wide = for_sums(promoted(tensor, *(each for each, _ in operands)))
        result.append((_product([(wide, labels)], kept, own, set()), kept))
    return result


def _next_pair(operands: Sequence[Labelled], output: Sequence[str], sizes: Mapping[str, Dim]) -> tuple[int, int]:
    """Return the pair whose product has the fewest elements more than its factors; of several, the cheapest."""
    elements = [_elements(labels, sizes) for _, labels in operands]

    def growth(pair: tuple[int, int]) -> tuple[int, int]:
        others = [part for place, part in enumerate(operands) if place not in pair]
        factors = [operands[place] for place in pair]
        more = _elements(_kept(factors, others, output), sizes) - elements[pair[0]] - elements[pair[1]]
        return more, _elements(_labels(factors), sizes)

    count = len(operands)
    return min(((first, second) for first in range(count) for second in range(first + 1, count)), key=growth)


def _elements(labels: Sequence[str], sizes: Mapping[str, Dim]) -> int:
    known = (sizes[label].value for label in set(labels))
    return math.prod(_UNKNOWN if value is None else value for value in known)


def _labels(operands: Sequence[Labelled]) -> list[str]:
    return list(dict.fromkeys(label for _, labels in operands for label in labels))


def _kept(chosen: Sequence[Labelled], others: Sequence[Labelled], output: Sequence[str]) -> list[str]:
    """Return the labels of some tensors that the others or the result still need."""
    needed = {*output, *_labels(others)}
    return [label for label in _labels(chosen) if label in needed]


def _sizes(operands: Sequence[Labelled], broadcast: set[str]) -> dict[str, Dim]:
    """Return the size of each label: the greater one if it is broadcast, else one that is known, or the first."""
    sizes: dict[str, Dim] = {}
    for tensor, labels in operands:
        for label, dim in _own_sizes(tensor, labels).items():
            before = sizes.get(label, dim)
            if label in broadcast:
                sizes[label] = wider(before, dim)
            else:
                sizes[label] = dim if before.value is None and dim.value is not None else before
    return sizes


def _own_sizes(tensor: Tensor, labels: Sequence[str]) -> dict[str, Dim]:
    """Return the size of each label in one tensor; axes along a diagonal have one size."""
    own: dict[str, Dim] = {}
    for label, dim in zip(labels, dims_of(tensor), strict=True):
        before = own.setdefault(label, dim)
        own[label] = before if before == dim else before.call("match", dim)
    return own


def _parsed(subscripts: str, tensors: Sequence[Tensor]) -> tuple[list[list[str]], list[str]]:
    """Return the labels of each tensor and of the result; anonymous axes are ``.0``, ``.1`` … from the last one on.

    Raises:
        TileError: TIL217, the subscripts do not describe these tensors.
    """
    inputs, arrow, result = "".join(subscripts.split()).partition("->")
    terms = inputs.split(",")
    if len(terms) != len(tensors):
        raise mistaken(f"{subscripts!r} describes {len(terms)} tensors, but there are {len(tensors)}")
    labels = [_term(term, rank_of(tensor), subscripts) for term, tensor in zip(terms, tensors, strict=True)]
    hidden = max((sum(label.startswith(".") for label in group) for group in labels), default=0)
    anonymous = [f".{place}" for place in reversed(range(hidden))]
    letters = [label for group in labels for label in group if not label.startswith(".")]
    if not arrow:
        return labels, [*anonymous, *sorted(letter for letter in set(letters) if letters.count(letter) == 1)]
    lead, dots, rest = result.partition("...")
    output = [*lead, *(anonymous if dots else []), *rest]
    for letter in (*lead, *rest):
        if letter not in letters or output.count(letter) > 1:
            raise mistaken(f"the result of {subscripts!r} has a letter that is unknown or stands twice: {letter!r}")
    return labels, output


def _term(term: str, rank: int, subscripts: str) -> list[str]:
    """Return the labels of one tensor."""
    lead, dots, rest = term.partition("...")
    if not all(letter.isascii() and letter.isalpha() for letter in lead + rest):
        raise mistaken(f"subscripts are letters, commas, '...' and '->', not {subscripts!r}")
    hidden = rank - len(lead) - len(rest)
    if hidden < 0 or (hidden and not dots):
        raise mistaken(f"{term!r} has {len(lead) + len(rest)} letters, but its tensor has rank {rank}")
    return [*lead, *(f".{place}" for place in reversed(range(hidden))), *rest]
