"""The stable codes of remarks: what a scheduling step did to a kernel, or why it refused, a sentence for each.

A code is never used for something else. ``TR0`` are general ones, ``TR1`` the form of kernels, ``TR2`` what can be
done to their loops, ``TR3`` vectors, ``TR4`` groups of threads, ``TR5`` register tiles, ``TR6`` other algorithms and
regions, ``TR7`` steps of scripts.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tileir.core.nodes import attrs


@attrs.frozen
class Reason:
    """Meaning of a code.

    Attributes:
        text: A sentence without a full stop that holds for each kernel with the code.
        relevant: Whether a user can act on it: a change of the program, of sizes, of dtypes or of options would have
            another outcome. Reasons for which a step does not apply to a kernel at all are not relevant.
    """

    text: str
    relevant: bool = True


def _beside(text: str) -> Reason:
    return Reason(text, relevant=False)


_GENERAL: Final = {
    "TR001": Reason("the step changed the kernel"),
    "TR002": _beside("the step left the kernel as it was, and says no more"),
    "TR003": _beside("the step is for kernels with other tags"),
    "TR004": Reason("the step failed and was left out, which is a defect of tileir"),
}
_FORMS: Final = {
    "TR101": _beside("the kernel has lanes, threads or groups already"),
    "TR102": Reason("an index of the kernel is not a loop: its values depend on other indices"),
    "TR103": Reason("points of the kernel must run sequentially"),
    "TR104": Reason("an address in the kernel's own memory depends on data"),
    "TR105": Reason("a view of the kernel merges into memory of its own, which others see when the kernel is done"),
    "TR106": Reason("a statement of the kernel works on whole views"),
    "TR107": Reason("a block of the kernel has blocks inside"),
    "TR108": Reason("a loop inside the kernel has the name of an index of the kernel"),
    "TR109": Reason("a block inside the kernel has memory of its own"),
    "TR110": Reason("a block inside the kernel sees a view by other strides than the kernel does"),
    "TR111": Reason("a statement takes a scalar that nothing before it in the kernel defines"),
    "TR112": Reason("a scalar is used after the memory was written that it was loaded from"),
    "TR113": _beside("the kernel has no loop inside, such as that of a reduction"),
    "TR114": _beside("the kernel has loops inside, such as those of a reduction"),
    "TR115": Reason("the kernel has memory of its own"),
    "TR116": Reason("the kernel has several parts, or none"),
}
_LOOPS: Final = {
    "TR201": Reason("different values of an outer index merge into the same elements"),
    "TR202": Reason("an address in a view depends on data"),
    "TR203": Reason("a loop reads memory that the kernel writes"),
    "TR204": Reason("memory of the kernel's own has more than one element"),
    "TR205": Reason("the kernel has several inner loops, and the step schedules one"),
    "TR206": Reason("something merges into memory that is no accumulator of the kernel's own, of one element"),
    "TR207": Reason("the kernel, or the loop inside, stores nothing"),
    "TR208": Reason("addresses of stores depend on data, so points may collide"),
    "TR211": Reason("no index of the kernel has several values that may run at the same time"),
}
_VECTORS: Final = {
    "TR301": Reason("the index that could have the lanes has too few values"),
    "TR302": Reason("no outer index has stride 1 in all outputs, as contiguous accesses need"),
    "TR303": _beside("no input is contiguous along another index than the outputs"),
    "TR304": Reason("a transposed input has fewer rows or columns than a tile"),
    "TR305": Reason("a transposed input holds bools"),
    "TR306": Reason("a constraint cuts the index that could have the lanes"),
    "TR307": Reason("lanes along the index would meet in one element of an output"),
    "TR308": Reason("a view is strided along the index, and cannot be packed"),
    "TR309": Reason("a vector holds a single element"),
    "TR310": _beside("the index that could have the lanes numbers strips of rows"),
    "TR312": Reason("no inner loop has stride 1 or 0 in all of its inputs"),
    "TR313": _beside("the kernel has no gathers"),
    "TR314": Reason("the index has a single value, or more than a vector has lanes"),
    "TR315": Reason("the index moves a view by more than one element"),
    "TR316": Reason("gathered addresses differ between values of the index"),
    "TR317": Reason("the index moves no gathered view"),
    "TR318": _beside("vectors have too few lanes for gathers at constant places"),
    "TR319": _beside("the program has no constant tensors"),
    "TR320": Reason("the last one or two indices do not move an output without gaps"),
    "TR321": Reason("addresses of a gather, or values that accompany them, are not constant"),
    "TR322": Reason("elements that a vector gathers are further apart than it has lanes"),
    "TR323": Reason("a gather reads from a view of another form than rows of elements of four bytes"),
}
_GROUPS: Final = {
    "TR401": _beside("both inputs are read again for many outputs, so that tiles of them are worth staging"),
    "TR402": _beside("no two inputs are read again for many outputs, so that tiles of them are not worth staging"),
    "TR403": Reason("no input is contiguous along an index of the reduction"),
    "TR404": Reason("the reduction is too short to be shared by the threads of a group"),
    "TR405": Reason("no input is contiguous along an index of the output"),
    "TR406": Reason("the group's shared data exceed local memory"),
    "TR407": _beside("the kernel has one loop inside, which stores no elements"),
    "TR408": Reason("a loop merges into memory that is no accumulator of one element"),
    "TR409": Reason("a loop overwrites an accumulator of the kernel"),
    "TR410": Reason("a statement reads what its loop merges into"),
    "TR411": Reason("a thread would read or overwrite memory that another thread of its group writes"),
    "TR420": _beside("the target has no instructions for products of matrices"),
    "TR421": Reason("a constraint of the product cannot be expressed by zeros in tiles"),
    "TR422": Reason("a statement of the reduction is neither a load, a conversion, a product, nor a store"),
    "TR423": Reason("the reduction is not one product of two inputs that goes to one sum"),
    "TR424": Reason("an operand of the product is not a loaded value, or both operands are one value"),
    "TR425": Reason("the product, or a conversion of an operand, is not in the dtype of the sum"),
    "TR426": Reason("the reduction stores something other than the product"),
    "TR427": Reason("the reduction is not a sum"),
    "TR429": Reason("the target has no instructions for products and sums of these dtypes"),
    "TR430": Reason("the inputs of the product are not one that moves with rows, and one that moves with columns"),
    "TR431": Reason("no index of the reduction moves both inputs"),
    "TR432": Reason("the output has fewer rows or columns than an instruction"),
    "TR433": Reason("the longest index of the reduction is too short for what an instruction takes"),
    "TR435": Reason("no tile fits the threads of a group and their local memory"),
    "TR436": _beside("the instruction reads local memory, where tiles of this product do not lie as it needs them"),
    "TR441": Reason("scores, or what follows from them, are used elsewhere as well"),
    "TR442": Reason("scores are changed before the softmax by something other than a scale and a band mask"),
    "TR443": Reason("queries, keys, values or results are not rows of whole vectors"),
}
_TILES: Final = {
    "TR501": _beside("no constraint cuts an outer index, as at the edges of a picture"),
    "TR502": Reason("one kernel with tests would be slower than one for the inside and others for the edges"),
    "TR503": Reason("the kernel has a single output"),
    "TR504": Reason("an input that lanes read across memory serves too few points to be packed"),
    "TR505": Reason("an input that lanes read across memory cannot be packed as a whole"),
    "TR506": Reason("the registers do not hold the sums of a tile"),
}
_ALGORITHMS: Final = {
    "TR601": Reason("no outer index has rows that are contiguous, used once, and far apart along the reduction"),
    "TR602": Reason("the rows are not longer than the minimum stretch"),
    "TR611": Reason("the kernel has too few points, or operations, to pay for another kernel"),
    "TR612": Reason("the interior, where no test fails, is too small a share of an index"),
    "TR613": _beside("no block inside the kernel has a constraint that cuts an outer index"),
    "TR614": Reason("the step cuts no index, by its options"),
    "TR615": _beside("the kernel computes no places from coordinates, as those of clamped elements"),
    "TR616": _beside("constraints cut the kernel as a whole"),
    "TR620": _beside("the step is turned off by its options"),
    "TR621": _beside("enough outputs run at the same time without parts, or the reduction is short"),
    "TR622": Reason("a constraint cuts an index of the output"),
    "TR623": _beside("no index is reduced without a constraint that cuts it"),
    "TR624": Reason("the index of the reduction has one value, which makes no parts"),
    "TR625": _beside("the kernel has several outputs, or none"),
    "TR626": _beside("the kernel reduces nothing"),
    "TR627": Reason("several indices move one axis of the output"),
    "TR628": _beside("the kernel is no running sum, product, maximum or minimum"),
    "TR629": Reason("the running sum has few elements"),
    "TR630": Reason(
        "each term adds an operand that stays, and in this dtype what cancels in a term would be lost if the sums were"
        " added: if nothing cancels, sum the other operand alone, and add this one times the number of terms"
    ),
    "TR631": _beside("no chain of kernels over the same rows ends with this one"),
    "TR632": Reason("the temporaries between the kernels of a chain fit the caches"),
    "TR633": Reason("the rows of a chain of kernels are too few, too long, or overlap too much for strips"),
    "TR641": _beside("nothing promises that the kernel reads neither infinity nor NaN"),
    "TR642": _beside("no factor is known to be 0 but where comparisons of coordinates hold"),
    "TR643": Reason("the comparisons bound no loop, several ones, or one with few steps"),
    "TR644": Reason("some outputs may have no step left"),
    "TR651": _beside("no elementwise kernel before makes a tensor that the reduction reads"),
    "TR652": Reason("the reduction reads other elements than a point before stores, or elements that data choose"),
    "TR653": Reason("the reduction would have more statements than it may"),
    "TR654": Reason("the reduction reads each element more often than it is stored"),
    "TR655": Reason("the tensor has other readers, and is not cheap to recompute"),
    "TR656": Reason("an input of the elements is overwritten before they are read"),
    "TR657": Reason("longer live ranges would take more memory than the eliminated tensor"),
    "TR661": _beside("the kernel does something else than to order rows of several elements"),
    "TR662": _beside("the kernel is no tuple reduction, or does something beside it"),
    "TR663": Reason("neither elements nor results are neighbours for a vector of states, and no parts are wanted"),
    "TR664": _beside("the kernel merges nothing into places that data choose"),
    "TR665": Reason("no kernel right before clears the target"),
    "TR666": _beside("each index of the kernel moves the place of an update"),
    "TR667": Reason("there are too few updates for each element of a table, or enough outputs that run side by side"),
    "TR668": Reason("updates are merged in another way than by sums"),
    "TR669": _beside("the kernel does not traverse a few long rows that a kernel aggregates"),
    "TR670": _beside("no kernel along these rows uses their aggregates"),
    "TR671": _beside("the kernel aggregates over no window that moves along an index"),
    "TR672": Reason("the elements of the window are not aggregated as they are"),
    "TR673": _beside("the window reaches over several rows"),
    "TR674": _beside("the window is narrower or wider than those that the step takes"),
    "TR675": Reason("the window has fewer outputs along its axis than the step asks for"),
    "TR676": Reason("no factorisation into two windows saves enough reads"),
    "TR677": Reason("the bounds of the window do not move alike, or change at too many places"),
    "TR678": _beside("no small window of the kernel slides over a tensor"),
    "TR679": _beside("the row is too short for a group of threads to sort it, or a group has too few of them"),
    "TR680": _beside("no blocks inside the kernel were joined"),
    "TR681": _beside("no kernel before makes, or reads, what the kernel reads"),
    "TR682": _beside("one of two kernels has a schedule, or a place in the device"),
    "TR683": _beside("the step leaves kernels alone that have blocks inside, or constraints, by its options"),
    "TR684": Reason("two kernels together would have more loops inside than the step joins"),
    "TR685": Reason("a product of matrices has a schedule of its own, and is joined with no other reduction"),
    "TR686": Reason("two kernels together would compute more, or touch more tensors, than the step joins"),
    "TR687": Reason("a kernel between two others has to stay between them"),
    "TR688": Reason("fusing two kernels would increase the live memory"),
    "TR689": Reason("two kernels do not access matching elements"),
    "TR690": Reason("a reduction runs in more threads than what stores its results at places that data choose"),
    "TR691": _beside("a thread of another kernel counts the steps of a loop, and so no loop of that kernel does"),
    "TR692": _beside("results of other updates than sums of integers, and extrema, depend on their order"),
    "TR693": Reason("the table is larger than what groups keep of it, or has too few updates for each element"),
    "TR694": _beside("all threads merge into the table at the same time already"),
    "TR695": Reason("no tensor has the places of updates, or these or the columns of rows lie in another order"),
    "TR696": _beside("loops that depend on constants alone run once, and are not joined with what runs at each call"),
    "TR697": Reason("products of matrices with many terms that share no factor have larger tiles apart"),
}

_SCRIPTS: Final = {
    "TR701": Reason("the kernel has no loop of this name"),
    "TR702": Reason("an expression names something other than a loop, a parameter or a fact of the target"),
    "TR703": Reason("an expression has no value"),
    "TR704": Reason("a size is an integer of 1 or more"),
    "TR705": Reason("the name is taken in this kernel"),
    "TR706": Reason("the size is not a multiple of the factor: let the split guard, mask or peel its tail"),
    "TR707": Reason("the loop is bound already: rearrange it before it is bound"),
    "TR708": Reason("a step over several loops names one or more, each once"),
    "TR709": Reason("the loops do not stand in one another with nothing between them"),
    "TR710": Reason("accesses along the two loops are not affine in one loop"),
    "TR711": Reason("uses of the tensor move along other loops in different ways"),
    "TR712": Reason("the kernel writes the tensor, so copies of it would become stale"),
    "TR713": Reason("nothing in the loop reads single elements of the tensor"),
    "TR714": Reason("axes are numbered from 0 on, and an order of them names each axis of the tensor once"),
    "TR715": Reason("nothing in the loop merges into the memory, or something reads it or overwrites it"),
    "TR716": Reason("the kernel has no memory of this name"),
    "TR717": Reason("a loop is cut before its end, at places in order, into one more loop than these"),
    "TR718": Reason("iterations merge into the same elements, so they cannot run at the same time"),
    "TR719": Reason("loops of the grid stand outside of all others, with nothing beside them"),
    "TR720": Reason("a loop over lanes has statements alone for a body: jam it first"),
    "TR721": Reason(
        "lanes do not write neighbours: bind another loop, or first jam this one, or rfactor what it merges"
    ),
    "TR722": Reason("a test cuts the lanes of a vector: let all splits that lead to it peel their tails, or mask them"),
    "TR724": _beside("the script is for another kernel"),
    "TR725": _beside("the script is for kernels with another number of loops or tensors"),
    "TR726": Reason("scripts bind loops to the grid, to threads, to lanes, or unroll them"),
    "TR727": Reason("loops over threads stand in one another with nothing between them"),
    "TR728": Reason("the group exceeds the threads that the target allows"),
    "TR729": Reason(
        "memory that the threads of a group share is made around loops over them: make it there, or in registers"
    ),
    "TR730": Reason("memory in registers belongs to one thread: it needs an axis for each loop over threads"),
    "TR731": Reason("a thread would touch what another one wrote in memory that is not local"),
    "TR732": Reason("the memory exceeds the local memory of the target"),
    "TR733": Reason("no kernel before this one makes the tensor alone, of what is still there when this one runs"),
    "TR734": Reason("the kernel that makes the tensor does not store one element at each point, in its place"),
    "TR735": Reason("the kernel that makes the tensor has loops inside: compute it at a loop"),
    "TR736": Reason("the kernel that makes the tensor sees it along other axes, or stores less than this one reads"),
    "TR737": Reason("no iteration passes all tests, or each of them does"),
    "TR738": Reason("the kernel reads no tensor of this name"),
    "TR739": Reason("a loop that runs ahead stages first, has local memory only, and no such loop inside"),
    "TR740": Reason("a loop that runs ahead has memory for two iterations or more"),
    "TR741": Reason("what a loop that runs ahead does has threads outside of all its own loops"),
    "TR742": Reason("there is no such instruction, or none that adds dot products to the lanes of a vector"),
    "TR743": Reason("the instruction has other lanes and terms"),
    "TR744": Reason("the loops do not just add products of two elements, of the dtypes of the instruction"),
    "TR745": Reason(
        "terms are to be neighbours in both factors, those of a lane behind the other's, and sums neighbours"
    ),
    "TR746": Reason("accesses do not tell groups of neighbours along the axis from places in them: split the loops"),
    "TR747": Reason("iterations that run twice would merge twice, or read what they wrote: guard or peel the tail"),
    "TR748": Reason("the loops do not stand beside each other with nothing between them"),
    "TR749": Reason("the loops have different sizes: cut or split them first"),
    "TR750": Reason("an iteration of one loop touches what another iteration of the other one writes"),
    "TR751": Reason("the body of the loop has no more statements and loops than the first part is to have"),
    "TR752": Reason("memory of this name has several shapes in the kernel: interleave it before its loops are moved"),
    "TR753": Reason(
        "an iteration does not fill the memory first, by a loop over rows some of which the one before it had"
    ),
    "TR754": Reason("a row is read after it has been overwritten: keep more rows"),
    "TR755": Reason(
        "more statements would be unrolled than anybody waits for: split the loop, and unroll the inner one"
    ),
    "TR756": Reason("a tile that is turned has as many rows as columns, a power of two from 2 on"),
    "TR757": Reason("nothing that is read alone lies along the outer loop, and far apart along the inner one"),
    "TR758": Reason("groups of the grid share no memory of the kernel: make it inside of the loop over groups"),
    "TR759": Reason("a vector has fewer lanes: split the loop, and bind the inner one"),
    "TR760": Reason("a name consists of letters, digits and underscores, and begins with no digit"),
    "TR761": Reason(
        "elements are written at places that are read, so that each iteration would need a table: accumulate into one"
    ),
    "TR762": Reason(
        "the copy needs an axis for each loop that moves the tensor, and uses of the tensor that are alike"
    ),
    "TR763": Reason("what is copied, and where it begins, are not whole vectors of so many neighbours of the tensor"),
    "TR764": Reason("loops that are padded read zeros behind the end of what is staged"),
    "TR765": Reason("iterations do not merge once into each element of the array, which must be cleared then"),
}

REASONS: Final[Mapping[str, Reason]] = MappingProxyType(
    {**_GENERAL, **_FORMS, **_LOOPS, **_VECTORS, **_GROUPS, **_TILES, **_ALGORITHMS, **_SCRIPTS}
)
"""All codes, with what they mean."""

UNFIT: Final = ("TR724", "TR725")
"""The codes of kernels that the pattern of a script is not for."""
