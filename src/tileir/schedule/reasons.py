"""Stable codes of remarks about the effect or the refusal of a scheduling step, each with a sentence.

A code never changes its meaning. ``TR0`` are general, ``TR1`` the form of kernels, ``TR2`` what can be
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
        relevant: True where a user can act on it, as another program, size, dtype or option would have another
            outcome; False where the step does not apply to the kernel at all.
    """

    text: str
    relevant: bool = True


def _beside(text: str) -> Reason:
    return Reason(text, relevant=False)


_GENERAL: Final = {
    "TR001": Reason("the step changed the kernel"),
    "TR002": _beside("the step left the kernel unchanged without giving a reason"),
    "TR003": _beside("the step applies to kernels with other tags"),
    "TR004": Reason("the step failed and was skipped, which is a defect of tileir"),
}
_FORMS: Final = {
    "TR101": _beside("the kernel already uses lanes, threads or groups"),
    "TR102": Reason("an index of the kernel is not a loop: its values depend on other indices"),
    "TR103": Reason("the points of the kernel must run sequentially"),
    "TR104": Reason("an address in the kernel's own memory depends on data"),
    "TR105": Reason("a view of the kernel is reduced into the kernel's own memory, which other kernels see afterwards"),
    "TR106": Reason("a statement of the kernel works on whole views"),
    "TR107": Reason("a block of the kernel contains further blocks"),
    "TR108": Reason("a loop inside the kernel has the name of one of the kernel's indices"),
    "TR109": Reason("a block inside the kernel has memory of its own"),
    "TR110": Reason("a block inside the kernel sees a view with strides other than the kernel's"),
    "TR111": Reason("a statement uses a scalar that no earlier statement of the kernel defines"),
    "TR112": Reason("a scalar is used after the memory it was loaded from has been written"),
    "TR113": _beside("the kernel contains no loop, such as a reduction's"),
    "TR114": _beside("the kernel contains loops, such as a reduction's"),
    "TR115": Reason("the kernel has memory of its own"),
    "TR116": Reason("the kernel has several parts, or none"),
}
_LOOPS: Final = {
    "TR201": Reason("different values of an outer index are reduced into the same elements"),
    "TR202": Reason("an address in a view depends on data"),
    "TR203": Reason("a loop reads memory that the kernel writes"),
    "TR204": Reason("the kernel's own memory has more than one element"),
    "TR205": Reason("the kernel contains several loops, and the step schedules one"),
    "TR206": Reason("the kernel reduces into memory other than its own accumulators of one element"),
    "TR207": Reason("the kernel, or the loop inside it, stores nothing"),
    "TR208": Reason("the addresses of stores depend on data, so points may collide"),
    "TR211": Reason("no index of the kernel has several values that may run in parallel"),
}
_VECTORS: Final = {
    "TR301": Reason("the index to vectorise has too few values"),
    "TR302": Reason("no outer index has stride 1 in all outputs, which contiguous accesses need"),
    "TR303": _beside("no input is contiguous along an index other than the outputs'"),
    "TR304": Reason("a transposed input has fewer rows or columns than a tile"),
    "TR305": Reason("a transposed input holds bools"),
    "TR306": Reason("a constraint cuts the index to vectorise"),
    "TR307": Reason("lanes along the index would write one element of an output"),
    "TR308": Reason("a view is strided along the index and cannot be packed"),
    "TR309": Reason("a vector holds a single element"),
    "TR310": _beside("the index to vectorise counts strips of rows"),
    "TR312": Reason("no inner loop has stride 1 or 0 in all of its inputs"),
    "TR313": _beside("the kernel has no gathers"),
    "TR314": Reason("the index has a single value, or more values than a vector has lanes"),
    "TR315": Reason("the index moves a view by more than one element"),
    "TR316": Reason("the gathered addresses differ between values of the index"),
    "TR317": Reason("the index moves no gathered view"),
    "TR318": _beside("vectors have too few lanes for gathers at constant addresses"),
    "TR319": _beside("the program has no constant tensors"),
    "TR320": Reason("the last one or two indices do not cover an output without gaps"),
    "TR321": Reason("the addresses of a gather, or the values loaded with them, are not constant"),
    "TR322": Reason("the elements that a vector gathers are further apart than the vector has lanes"),
    "TR323": Reason("a gather reads a view other than rows of four-byte elements"),
}
_GROUPS: Final = {
    "TR401": _beside("many outputs reuse both inputs, so that tiles of the inputs are worth staging"),
    "TR402": _beside("no two inputs are reused by many outputs, so that tiles of them are not worth staging"),
    "TR403": Reason("no input is contiguous along an index of the reduction"),
    "TR404": Reason("the reduction is too short to be shared by the threads of a group"),
    "TR405": Reason("no input is contiguous along an index of the output"),
    "TR406": Reason("the data that a group shares exceed local memory"),
    "TR407": _beside("the kernel contains one loop, which stores no elements"),
    "TR408": Reason("a loop reduces into memory that is not an accumulator of one element"),
    "TR409": Reason("a loop overwrites an accumulator of the kernel"),
    "TR410": Reason("a statement reads the memory that its loop reduces into"),
    "TR411": Reason("a thread would read or overwrite memory that another thread of its group writes"),
    "TR420": _beside("the target has no instructions for matrix products"),
    "TR421": Reason("zeros in tiles cannot express a constraint of the product"),
    "TR422": Reason("a statement of the reduction is not a load, conversion, product or store"),
    "TR423": Reason("the reduction is not one product of two inputs accumulated into one sum"),
    "TR424": Reason("an operand of the product is not a loaded value, or both operands are one value"),
    "TR425": Reason("the product, or a conversion of an operand, has a dtype other than the sum's"),
    "TR426": Reason("the reduction stores something other than the product"),
    "TR427": Reason("the reduction is not a sum"),
    "TR429": Reason("the target has no instructions for products and sums of these dtypes"),
    "TR430": Reason("the product does not have one input that varies with rows and another that varies with columns"),
    "TR431": Reason("no index of the reduction moves both inputs"),
    "TR432": Reason("the output has fewer rows or columns than an instruction"),
    "TR433": Reason("the longest index of the reduction is shorter than an instruction's depth"),
    "TR435": Reason("no tile fits the threads of a group and their local memory"),
    "TR436": _beside(
        "the instruction reads local memory, and tiles of this product cannot be laid out there as it needs them"
    ),
    "TR441": Reason("attention scores, or values computed from them, have other users"),
    "TR442": Reason("scores are changed before the softmax by an operation other than a scale and a band mask"),
    "TR443": Reason("queries, keys, values or results are not rows of whole vectors"),
}
_TILES: Final = {
    "TR501": _beside("no constraint cuts an outer index, as at the edges of a picture"),
    "TR502": Reason(
        "one kernel with tests was predicted to be slower than separate kernels for the interior and the borders"
    ),
    "TR503": Reason("the kernel has a single output"),
    "TR504": Reason("an input that lanes read across memory is reused by too few points to be packed"),
    "TR505": Reason("an input that lanes read across memory cannot be packed as a whole"),
    "TR506": Reason("the sums of a tile do not fit the registers"),
}
_ALGORITHMS: Final = {
    "TR601": Reason("no outer index has rows that are contiguous, used once, and far apart along the reduction"),
    "TR602": Reason("the rows are no longer than the minimum stretch"),
    "TR611": Reason("the kernel has too few points or operations to pay for another kernel"),
    "TR612": Reason("the interior, where no test fails, is too small a share of an index"),
    "TR613": _beside("no block inside the kernel has a constraint that cuts an outer index"),
    "TR614": Reason("the step's options cut no index"),
    "TR615": _beside("the kernel computes no addresses from coordinates, such as those of clamped elements"),
    "TR616": _beside("constraints cut the kernel as a whole"),
    "TR620": _beside("the step is turned off by its options"),
    "TR621": _beside("enough outputs run in parallel without splitting the reduction, or the reduction is short"),
    "TR622": Reason("a constraint cuts an index of the output"),
    "TR623": _beside("no reduced index is free of constraints that cut it"),
    "TR624": Reason("the reduced index has one value and cannot be split"),
    "TR625": _beside("the kernel has several outputs, or none"),
    "TR626": _beside("the kernel reduces nothing"),
    "TR627": Reason("several indices move one axis of the output"),
    "TR628": _beside("the kernel is not a running sum, product, maximum or minimum"),
    "TR629": Reason("the running sum has few elements"),
    "TR630": Reason(
        "each term adds an unchanged operand, and adding the sums in this dtype would lose digits that cancel within"
        " a term: if nothing cancels, sum the other operand alone, and add this one times the number of terms"
    ),
    "TR631": _beside("no chain of kernels over the same rows ends with this one"),
    "TR632": Reason("the temporaries between the kernels of a chain fit the caches"),
    "TR633": Reason("the rows of a chain of kernels are too few, too long, or overlap too much for strips"),
    "TR641": _beside("nothing guarantees that the kernel reads neither infinities nor NaNs"),
    "TR642": _beside("no factor is known to be 0 wherever a comparison of coordinates fails"),
    "TR643": Reason("the comparisons bound no loop, several loops, or a loop of few steps"),
    "TR644": Reason("some outputs may have no step left"),
    "TR651": _beside("no earlier elementwise kernel computes a tensor that the reduction reads"),
    "TR652": Reason(
        "the reduction reads elements other than those an earlier point stores, or elements chosen by data"
    ),
    "TR653": Reason("the reduction would exceed its limit of statements"),
    "TR654": Reason("the reduction reads each element more often than it is stored"),
    "TR655": Reason("the tensor has other readers and is not cheap to recompute"),
    "TR656": Reason("an input of the elements is overwritten before they are read"),
    "TR657": Reason("longer live ranges would take more memory than the eliminated tensor"),
    "TR661": _beside("the kernel does something other than sort rows of several elements"),
    "TR662": _beside("the kernel is not a tuple reduction, or computes something else as well"),
    "TR663": Reason(
        "neither elements nor results are neighbours for a vector of states, and the reduction is not to be split"
    ),
    "TR664": _beside("the kernel reduces nothing into addresses chosen by data"),
    "TR665": Reason("no kernel right before this one clears the target"),
    "TR666": _beside("every index of the kernel moves the address of an update"),
    "TR667": Reason("there are too few updates for each element of a table, or enough outputs run in parallel"),
    "TR668": Reason("updates are combined by an operation other than a sum"),
    "TR669": _beside("the kernel does not traverse a few long rows that another kernel aggregates"),
    "TR670": _beside("no kernel along these rows uses their aggregates"),
    "TR671": _beside("the kernel aggregates over no window that moves along an index"),
    "TR672": Reason("the elements of the window are changed before they are aggregated"),
    "TR673": _beside("the window covers several rows"),
    "TR674": _beside("the step does not take windows of this width"),
    "TR675": Reason("the window has fewer outputs along its axis than the step requires"),
    "TR676": Reason("no factorisation into two windows saves enough reads"),
    "TR677": Reason("the bounds of the window do not move together, or change at too many coordinates"),
    "TR678": _beside("no small window of the kernel slides over a tensor"),
    "TR679": _beside("the row is too short for a group of threads to sort, or a group has too few threads"),
    "TR680": _beside("no blocks inside the kernel were joined"),
    "TR681": _beside("no earlier kernel computes or reads an input of this kernel"),
    "TR682": _beside("one of two kernels already has a schedule, or a place in the device"),
    "TR683": _beside("the step's options exclude kernels that contain blocks or constraints"),
    "TR684": Reason("two kernels together would contain more loops than the step joins"),
    "TR685": Reason("a matrix product has a schedule of its own and is joined with no other reduction"),
    "TR686": Reason("two kernels together would compute more, or touch more tensors, than the step joins"),
    "TR687": Reason("a kernel between two others has to stay between them"),
    "TR688": Reason("fusing two kernels would increase the live memory"),
    "TR689": Reason("two kernels do not access matching elements"),
    "TR690": Reason(
        "a reduction runs in more threads than the kernel that stores its results at addresses chosen by data"
    ),
    "TR691": _beside("a thread of another kernel counts the steps of a loop, so that kernel has no loop that does"),
    "TR692": _beside("the order of updates other than integer sums and extrema changes their results"),
    "TR693": Reason("the table is larger than a group's share of it, or has too few updates for each element"),
    "TR694": _beside("all threads already reduce into the table in parallel"),
    "TR695": Reason("no tensor has the addresses of updates, or those or the columns of rows have another order"),
    "TR696": _beside(
        "loops that depend on constants alone run once, and are not joined with loops that run at each call"
    ),
    "TR697": Reason("matrix products with many terms and no shared factor have larger tiles when they are apart"),
}

_SCRIPTS: Final = {
    "TR701": Reason("the kernel has no loop of this name"),
    "TR702": Reason("an expression names something other than a loop, a parameter or a fact of the target"),
    "TR703": Reason("an expression has no value"),
    "TR704": Reason("a size must be an integer of 1 or more"),
    "TR705": Reason("the kernel already uses this name"),
    "TR706": Reason("the size is not a multiple of the factor: let the split guard, mask or peel its tail"),
    "TR707": Reason("the loop is already bound: rearrange it before it is bound"),
    "TR708": Reason("a step over several loops must name one or more loops, each once"),
    "TR709": Reason("the loops are not perfectly nested"),
    "TR710": Reason("accesses along the two loops are not affine in one loop"),
    "TR711": Reason("uses of the tensor move along other loops in different ways"),
    "TR712": Reason("the kernel writes the tensor, so copies of it would become stale"),
    "TR713": Reason("no statement in the loop reads single elements of the tensor"),
    "TR714": Reason("axes are numbered from 0, and an order of them must name each axis of the tensor once"),
    "TR715": Reason("no statement in the loop reduces into the memory, or another statement reads or overwrites it"),
    "TR716": Reason("the kernel has no memory of this name"),
    "TR717": Reason(
        "a loop must be cut before its end, at increasing places, into one more loop than there are places"
    ),
    "TR718": Reason("iterations merge into the same elements, so they cannot run at the same time"),
    "TR719": Reason("loops bound to the grid must be outermost, with nothing beside them"),
    "TR720": Reason("a vectorised loop must contain statements only: jam it first"),
    "TR721": Reason(
        "the lanes do not write neighbours: bind another loop, or first jam this one, or rfactor its reduction"
    ),
    "TR722": Reason("a test cuts the lanes of a vector: let all splits that lead to it peel or mask their tails"),
    "TR724": _beside("the script is for another kernel"),
    "TR725": _beside("the script is for kernels with another number of loops or tensors"),
    "TR726": Reason("scripts bind loops to the grid, to threads or to lanes, or unroll them"),
    "TR727": Reason("loops bound to threads must be perfectly nested"),
    "TR728": Reason("the group has more threads than the target allows"),
    "TR729": Reason(
        "memory shared by the threads of a group must be made around loops over threads: make it there, or in registers"
    ),
    "TR730": Reason("memory in registers belongs to one thread: it needs an axis for each loop over threads"),
    "TR731": Reason("a thread would touch elements that another thread wrote in memory that is not local"),
    "TR732": Reason("the memory exceeds the local memory of the target"),
    "TR733": Reason(
        "no earlier kernel is the tensor's only producer, with all its inputs still unchanged when this kernel runs"
    ),
    "TR734": Reason("the kernel that computes the tensor does not store one element in order at each point"),
    "TR735": Reason("the kernel that computes the tensor contains loops: compute it at a loop"),
    "TR736": Reason("the kernel that computes the tensor sees it along other axes, or stores less than this one reads"),
    "TR737": Reason("no iteration passes all tests, or every iteration does"),
    "TR738": Reason("the kernel reads no tensor of this name"),
    "TR739": Reason("a pipelined loop must stage first, own local memory only, and contain no other pipelined loop"),
    "TR740": Reason("a pipelined loop needs memory for two iterations or more"),
    "TR741": Reason("threads of a pipelined loop must be bound outside of all its own loops"),
    "TR742": Reason(
        "the target has no instruction of this name, or none that adds dot products to the lanes of a vector"
    ),
    "TR743": Reason("the instruction has another number of lanes or terms"),
    "TR744": Reason("the loops do more than add products of two elements in the dtypes of the instruction"),
    "TR745": Reason(
        "terms must be neighbours in both factors, those of one lane after another's, and sums must be neighbours"
    ),
    "TR746": Reason(
        "accesses do not separate groups of neighbours along the axis from positions in a group: split the loops"
    ),
    "TR747": Reason("iterations that run twice would reduce twice, or read their own results: guard or peel the tail"),
    "TR748": Reason("the loops are not adjacent"),
    "TR749": Reason("the loops have different sizes: cut or split them first"),
    "TR750": Reason("an iteration of one loop touches elements that another iteration of the other loop writes"),
    "TR751": Reason("the body of the loop has no more statements and loops than the first part is to have"),
    "TR752": Reason("memory of this name has several shapes in the kernel: interleave it before its loops are moved"),
    "TR753": Reason(
        "an iteration does not first fill the memory by a loop over rows that the iteration before partly had"
    ),
    "TR754": Reason("a row is read after it has been overwritten: keep more rows"),
    "TR755": Reason(
        "more statements would be unrolled than can be compiled in reasonable time: split the loop, and unroll the"
        " inner one"
    ),
    "TR756": Reason("a transposed tile must have as many rows as columns, a power of two of at least 2"),
    "TR757": Reason("no array that is only read is contiguous along the outer loop and strided along the inner loop"),
    "TR758": Reason("groups of the grid cannot share memory of the kernel: make it inside the loop over groups"),
    "TR759": Reason("a vector has fewer lanes: split the loop, and bind the inner one"),
    "TR760": Reason("a name must consist of letters, digits and underscores, and not begin with a digit"),
    "TR761": Reason(
        "elements that are read are also written, so that each iteration would need a table: accumulate into one"
    ),
    "TR762": Reason(
        "the copy needs an axis for each loop that moves the tensor, and all uses of the tensor must be alike"
    ),
    "TR763": Reason("the copied elements and their start are not whole vectors of this many neighbours of the tensor"),
    "TR765": Reason("iterations do not reduce once into each element of the array, which must be cleared afterwards"),
}

REASONS: Final[Mapping[str, Reason]] = MappingProxyType(
    {**_GENERAL, **_FORMS, **_LOOPS, **_VECTORS, **_GROUPS, **_TILES, **_ALGORITHMS, **_SCRIPTS}
)
"""The meaning of each code."""

UNFIT: Final = ("TR724", "TR725")
"""Codes of kernels that the pattern of a script does not match."""
