"""Table of the kernels of a program under construction, in which kernels that differ only in names are merged.

Of equal kernels the first one stays, with the names of its first launch's memory.
"""

from __future__ import annotations

from collections.abc import Mapping

from tileir.core import attrs, rewritten
from tileir.stripe import blocks as stripe
from tileir.stripe.kernels import Kernel, Parameter
from tileir.stripe.lower.renaming import with_names
from tileir.stripe.tags import KERNEL
from tileir.stripe.works import Launch


@attrs.define(eq=False, repr=False)
class KernelTable:
    """Kernels, each once, with their numbers.

    Attributes:
        kernels: The kernels so far, by number.

    """

    kernels: list[Kernel] = attrs.field(factory=list)
    _given: list[Kernel] = attrs.field(factory=list, init=False)  # keeps the keys of what follows
    _numbers: dict[int, int] = attrs.field(factory=dict, init=False)
    _heads: dict[object, int] = attrs.field(factory=dict, init=False)
    _forms: dict[object, int] = attrs.field(factory=dict, init=False)

    def relaunch(self, kernel: Kernel, launch: Launch) -> Launch:
        """Return the launch in this program of a kernel from another program."""
        number = self._number(kernel, launch.arguments)
        return launch if number == launch.kernel else attrs.evolve(launch, kernel=number)

    def _number(self, kernel: Kernel, arguments: tuple[str, ...]) -> int:
        """Return the number of a kernel, which is added unless there is an equal one."""
        number = self._numbers.get(id(kernel))
        if number is None:
            following = len(self.kernels)
            first = number = self._heads.setdefault(kernel.head, following)
            if first != following:  # otherwise nothing equals it, and its form is not needed
                self._forms.setdefault(self.kernels[first].form, first)
                number = self._forms.setdefault(kernel.form, following)
            if number == len(self.kernels):
                self.kernels.append(_launched_on(kernel, arguments))
                self._given.append(kernel)
                self._numbers[id(kernel)] = number
        return number

    def launch(self, block: stripe.Block, memory: Mapping[str, stripe.Refinement]) -> Launch:
        """Return the launch of ``block``, whose views have names of ``memory`` as their sources."""
        kernel, arguments = taken_apart(block, memory)
        number = self._number(kernel, arguments)
        launch = Launch(number, arguments, block.name, block.comments, block.deps)
        if self.kernels[number] is kernel and kernel.block.tags is block.tags:
            kernel.launched[_said(launch)] = block
        return launch


def taken_apart(block: stripe.Block, memory: Mapping[str, stripe.Refinement]) -> tuple[Kernel, tuple[str, ...]]:
    """Return the kernel of a block, and the names of the memory that the block sees.

    For missing memory, the block's view counts; the verifier reports that.
    """
    seen: dict[str, stripe.Refinement] = {}
    for view in block.refinements:
        if view.direction is not stripe.Direction.NONE:
            seen.setdefault(view.source, view)
    parameters = tuple(_parameter(name, memory.get(name, view)) for name, view in seen.items())
    said = block.tags.remove(KERNEL)  # the position of a block is no tag of its kernel
    return Kernel(parameters, attrs.evolve(block, name="", comments=(), deps=(), tags=said)), tuple(seen)


def _parameter(name: str, memory: stripe.Refinement) -> Parameter:
    return Parameter(name, memory.shape, memory.location, memory.bank_dim)


def _launched_on(kernel: Kernel, arguments: tuple[str, ...]) -> Kernel:
    """Return a kernel with the names of the memory on which it is launched; itself if it has them."""
    names = {own.name: name for own, name in zip(kernel.parameters, arguments, strict=True) if own.name != name}
    if not names:
        return kernel
    parameters = tuple(attrs.evolve(each, name=names.get(each.name, each.name)) for each in kernel.parameters)
    return Kernel(parameters, with_names(attrs.evolve(kernel.block, refinements=_seeing(kernel.block, names)), names))


def _seeing(block: stripe.Block, names: Mapping[str, str]) -> tuple[stripe.Refinement, ...]:
    """Return the views of a kernel with other names of their sources."""
    views = block.refinements
    if not names:
        return views
    return rewritten(views, lambda r: (attrs.evolve(r, source=names[r.source]) if r.source in names else r,))


def is_laid_out(memory: stripe.Refinement, parameter: Parameter) -> bool:
    """Return whether memory matches a parameter."""
    return (memory.shape, memory.location, memory.bank_dim) == (
        parameter.shape,
        parameter.location,
        parameter.bank_dim,
    )


def launched(kernel: Kernel, launch: Launch) -> stripe.Block:
    """Return the block of ``main`` for a launch of ``kernel``; always the identical one."""
    said = _said(launch)
    known = kernel.launched.get(said)
    if known is None:
        known = kernel.launched[said] = _launched(kernel, launch)
    return known


def _said(launch: Launch) -> object:
    """Return the content of a launch, except the number of its kernel in one program."""
    return launch.arguments, launch.name, launch.comments, launch.deps


def _launched(kernel: Kernel, launch: Launch) -> stripe.Block:
    names = {own.name: name for own, name in zip(kernel.parameters, launch.arguments, strict=True) if own.name != name}
    views, said = _seeing(kernel.block, names), launch.comments
    return attrs.evolve(kernel.block, name=launch.name, comments=said, deps=launch.deps, refinements=views)
