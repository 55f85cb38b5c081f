"""The stable diagnostic codes, each with what it means. A code is never used for something else."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_TEXT: Final = {
    "TIL101": "a character that the language does not know",
    "TIL102": "unexpected token",
    "TIL103": "nested too deeply",
    "TIL104": "a number that is out of range",
    "TIL105": "text too large",
}
_NAMES: Final = {
    "TIL201": "a name is used before it is defined",
    "TIL202": "a name is defined twice",
    "TIL203": "an index variable outside an index polynomial",
    "TIL204": "a tensor where a constant is needed",
    "TIL205": "a dimension where a tensor is needed",
    "TIL206": "a function that does not exist",
    "TIL207": "a function with the wrong number of arguments",
    "TIL208": "as many indices as sizes are needed",
    "TIL209": "as many indices as the tensor has dimensions are needed",
    "TIL210": "a combination with the wrong number of inputs",
    "TIL211": "a name that the text of a program cannot spell",
    "TIL212": "a number that the text of a program cannot spell",
    "TIL213": "a function without a result",
    "TIL214": "an expression that an index polynomial cannot hold",
    "TIL215": "a Python value that a program cannot hold",
    "TIL216": "an object of another builder, or of one that is finished",
    "TIL217": "an argument that an operation of the library cannot take",
    "TIL218": "a scan that does not go with its step",
    "TIL219": "a constant whose elements do not go with its type, or are not there",
    "TIL221": "an element or place that a formula does not have",
    "TIL222": "a step of a formula with the wrong number of sources",
    "TIL223": "a step of a formula reads what neither an input nor an earlier step makes",
    "TIL224": "a value that a parameter of a formula's function cannot take",
    "TIL225": "a condition that does not go with its step",
    "TIL226": "a description of a function of formulas that breaks a rule",
    "TIL227": "a formula that one text format cannot hold",
    "TIL228": "an edit after which a step would read something else than it did",
    "TIL231": "an input that no result depends on",
    "TIL232": "a statement that no result depends on",
    "TIL233": "an index that cancels out of a polynomial",
    "TIL234": "an attribute without a meaning",
}
_TYPES: Final = {
    "TIL301": "shapes cannot be broadcast together",
    "TIL302": "an operation that does not work on this dtype",
    "TIL303": "a literal that does not fit its dtype",
    "TIL304": "a dimension with two sizes",
    "TIL305": "a tensor of another rank than asked for",
    "TIL306": "a value that is not known when compiling",
    "TIL307": "a size that is not an integer from 0 on",
    "TIL308": "constant arithmetic without a result",
    "TIL309": "something else than a tensor where a tensor is needed",
    "TIL310": "a tensor of another shape than asked for",
    "TIL311": "an input without an argument, or an argument without an input",
    "TIL312": "an assertion that fails",
    "TIL313": "a width that no dtype has",
    "TIL314": "an axis or position that does not exist",
    "TIL315": "two types of storage that meet without a cast",
    "TIL321": "a derivative of something else than a float tensor",
    "TIL322": "a cotangent or tangent that does not go with its tensor",
    "TIL323": "an unknown way to treat ties",
    "TIL325": "forward mode through a gradient that is not linear in what arrives",
    "TIL326": "an upstream outside of the gradients of its override",
    "TIL328": "an override whose arguments do not come in pairs",
    "TIL329": "an override with a gradient of another shape than its tensor",
    "TIL331": "a scan whose sequences do not have as many elements as it has steps",
    "TIL332": "a carry that changes its dtype or shape",
    "TIL341": "a conversion that nobody wrote, to a dtype that does not hold all values",
    "TIL342": "a number that is rounded to the dtype that it adapts to",
}
_INDICES: Final = {
    "TIL401": "an index variable has no bounds",
    "TIL402": "an index polynomial is not affine",
    "TIL403": "an index variable stands only in constraints",
    "TIL404": "a constraint without index variables is false",
    "TIL405": "index numbers do not fit in 64 bits",
    "TIL406": "several values may meet in one element of an assignment",
    "TIL407": "an index polynomial that is never an integer",
    "TIL411": "a contraction without any valid point: an access is never inside of its tensor",
    "TIL412": "an access that is inside of its tensor for a part of its indices only: the rest counts as nothing",
    "TIL413": "an output that is too small for what is written to it, or an input that is read in part",
}
_REPRESENTATIONS: Final = {
    "TIL501": "a Stripe program breaks a rule",
    "TIL502": "a Stripe program is not scheduled for lowering",
    "TIL503": "a name in a Stripe program is malformed, unknown or defined twice",
    "TIL504": "a view of a Stripe block does not fit its source",
    "TIL505": "an index or affine of a Stripe block is not well-formed",
    "TIL506": "a Stripe block uses a view against its direction, or reads what was not written",
    "TIL507": "aggregations along a chain of Stripe views do not agree",
    "TIL508": "a scalar of a Stripe block is undefined or has the wrong dtype",
    "TIL509": "a dependency of a Stripe statement is not an earlier statement",
    "TIL510": "Stripe blocks are nested too deeply",
    "TIL511": "an access of a Stripe program is out of bounds",
    "TIL512": "a special of a Stripe block does not fit its views",
    "TIL513": "the dependencies of a Stripe block leave two statements unordered that must not run at once",
    "TIL514": "Stripe allocations that are in use at the same time are placed at the same bytes",
    "TIL531": "a typed function breaks a rule",
    "TIL532": "a typed operation that the Tile language cannot express",
    "TIL541": "a pass that does not exist",
    "TIL542": "an option that a pass does not have",
    "TIL543": "a value that an option of a pass cannot take",
    "TIL544": "a hardware model breaks a rule",
    "TIL545": "a unit that a hardware model does not have",
    "TIL546": "a template that cannot be filled in",
    "TIL547": "a target, or a parameter of one, that does not exist, is missing or has the wrong kind",
    "TIL548": "data that do not fit the memory for which they are scheduled",
    "TIL549": "a pass that returns something else than a program",
    "TIL551": "a semtree kernel breaks a rule",
    "TIL552": "an expression of a kernel has operands of wrong types",
    "TIL553": "a kernel reads or writes outside an array",
    "TIL554": "a kernel writes what it must not",
    "TIL555": "a barrier that not all threads of a group reach",
    "TIL556": "a launch does not fit its kernel",
    "TIL557": "a kernel reads elements that nothing has written",
    "TIL558": "two groups, or two threads of a group between barriers, touch one element, and one of them writes it",
    "TIL559": "a condition of a program that is not one bool, or that its loop never writes",
}
_JSON: Final = {
    "TIL601": "not JSON",
    "TIL602": "JSON of another shape than the format asks for",
}
_RUNNING: Final = {
    "TIL701": "an array does not fit its tensor",
    "TIL702": "something that is not an array was passed as one",
    "TIL703": "an output array cannot be written in place",
    "TIL704": "an output array overlaps another array",
    "TIL705": "a wrong number of arrays",
    "TIL706": "buffers that do not fit a kernel",
    "TIL707": "an argument of the wrong kind",
    "TIL708": "not enough memory",
    "TIL709": "an update that a step cannot make",
    "TIL710": "a derivative of or by something that the function does not have",
    "TIL711": "an input that cannot be bound",
    "TIL712": "a program of a stage that is not taken here",
    "TIL713": "types that a program does not have",
    "TIL714": "an array on another device, or one that would have to be copied unasked",
    "TIL715": "an array of a device whose memory was freed",
    "TIL721": "temporaries that take far more memory than inputs and outputs",
}
_BACKENDS: Final = {
    "TIL801": "no such device",
    "TIL802": "a back end cannot be loaded",
    "TIL803": "two distributions provide a back end of one name",
    "TIL804": "a kernel needs what the device lacks",
    "TIL805": "the compiler of a back end failed",
    "TIL806": "saved code that is not usable, or a form of code that does not exist",
    "TIL807": "an executor that was closed",
    "TIL808": "a device that failed while it worked",
    "TIL809": "a device that a forked child cannot use",
    "TIL811": "an extension of another distribution that cannot be loaded",
    "TIL812": "two distributions provide an extension of one kind and name",
}
_COMMANDS: Final = {
    "TIL901": "a file cannot be read or written",
    "TIL902": "an argument of the command line is wrong",
    "TIL903": "an optional package is missing",
    "TIL904": "an array is not a picture",
    "TIL905": "the cache on disk is turned off or cannot be used",
    "TIL911": "the studio stopped a request: it took too long, or its process ended",
    "TIL912": "a file that the studio does not take",
    "TIL913": "a request that the studio does not understand",
    "TIL914": "a defect of tileir that a request to the studio met",
}

CODES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **_TEXT,
        **_NAMES,
        **_TYPES,
        **_INDICES,
        **_REPRESENTATIONS,
        **_JSON,
        **_RUNNING,
        **_BACKENDS,
        **_COMMANDS,
    }
)

WARNINGS: Final = frozenset(
    {"TIL231", "TIL232", "TIL233", "TIL234", "TIL341", "TIL342", "TIL411", "TIL412", "TIL413", "TIL721"}
)
"""What is legal, and seldom meant: programs with these run, and nobody is told who does not ask."""
