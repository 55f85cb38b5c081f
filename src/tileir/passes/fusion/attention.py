"""Attention as one kernel, in which groups of threads keep running maxima and sums of the softmax; its gradients."""

from __future__ import annotations

import math
from typing import ClassVar

import attrs

from tileir.core.text.names import NameScope
from tileir.passes.base import at_least, with_temporaries
from tileir.passes.fusion.attention_backward import Kernels, MatrixViews, backward_kernels
from tileir.passes.fusion.attention_gradients import gradients_of
from tileir.passes.fusion.attention_match import Attention, attentions
from tileir.passes.fusion.attention_parts import in_parts
from tileir.passes.fusion.attention_plans import Asked, band_of, planned, split
from tileir.passes.fusion.row_expressions import ALONG
from tileir.passes.kernels.expansion import called_block
from tileir.schedule.remarks import Refused, accepted, refused, refusing, remark
from tileir.stripe import ir as stripe
from tileir.stripe.attending import ATTEND


@attrs.frozen
class FuseAttention:
    """Compute attention in one kernel, where instructions multiply matrices: scores stay in registers, in f32.

    Its gradients become three more, which compute the scores again.

    Attributes:
        fragments: Names of instructions, as for ``matrix_contraction``.
        local_bytes: Memory that the threads of a group share.
        vector_bytes: Width of a copy of one thread.
        groups: So many groups keep the device busy: they have fewer queries where there are not so many.

    """

    name: ClassVar[str] = "fuse_attention"
    fragments: tuple[str, ...] = ()
    local_bytes: int = attrs.field(default=48 * 1024, validator=at_least(0))
    vector_bytes: int = attrs.field(default=16, validator=at_least(1))
    groups: int = attrs.field(default=1, validator=at_least(1))

    def __call__(self, program: stripe.Program) -> stripe.Program:
        """Return the program with such kernels."""
        kernels, outputs = program.main.blocks, frozenset(program.outputs)
        if not self.fragments or len(kernels) < 4:
            return program
        replaced: dict[int, tuple[stripe.Block, ...]] = {}
        added: list[stripe.Refinement] = []
        names = NameScope.of(each.name for each in program.memory)
        for gradients in gradients_of(kernels, outputs):
            backward = backward_kernels(self, gradients, names)
            _tell(kernels[gradients.number], backward, gradients.kernels, gradients.number)
            if not isinstance(backward, Refused):
                replaced |= dict.fromkeys(gradients.kernels, ())
                for number, blocks in backward.blocks.items():
                    replaced[number] = blocks
                added += backward.memory
        for number, found in attentions(kernels, outputs):
            if number in replaced:
                continue
            made = found if isinstance(found, Refused) else self._fused(found, names)
            _tell(kernels[number], made, () if isinstance(found, Refused) else found.kernels, number)
            if not isinstance(made, Refused) and not isinstance(found, Refused):
                replaced |= dict.fromkeys(found.kernels, ())
                replaced[found.kernels[-1]] = made.blocks[0]
                added += made.memory
        if not replaced:
            return program
        left = [block for number, kernel in enumerate(kernels) for block in replaced.get(number, (kernel,))]
        used = {view.source for kernel in left for view in kernel.refinements}
        kept = {*program.inputs, *program.outputs, *used}
        return with_temporaries(program, left, added, {r.name for r in program.memory if r.name not in kept})

    @refusing
    def _fused(self, found: Attention, taken: NameScope) -> Kernels | Refused:
        """Return the kernel for attention, or several; they take names for temporaries."""
        left = {found.rows, found.columns, ALONG, found.feature[0]}
        outer = tuple(i for i in found.kernel.indices if any(i.name in a.indices for a in found.results.access))
        outer = tuple(i.bound(stripe.Binding.GRID) for i in outer if i.name not in left)
        rows, columns = (found.kernel.index(name) for name in (found.rows, found.columns))
        sizes = {
            rows.name: rows.range,
            columns.name: columns.range,
            ALONG: found.length,
            found.feature[0]: found.feature[1],
        }
        wanted = (
            (found.queries, rows.name, found.feature[0]), (found.keys, ALONG, found.feature[0]),
            (found.values, ALONG, columns.name), (found.results, rows.name, columns.name),
        )  # fmt: skip
        views = MatrixViews(sizes, self.vector_bytes, frozenset(index.name for index in outer))
        whole = [views.of(*each) for each in wanted]
        band = band_of(found.scores, rows.name)
        if band is None:
            return refused("TR442")
        matrices = [view for view in whole if view is not None]
        if len(matrices) != len(whole) or min(sizes.values()) < 2:
            return refused("TR443")
        asked = Asked(
            tuple(view.shape.dtype for view in matrices), rows.range, found.length, (found.feature[1], columns.range),
            math.prod(i.range for i in outer), found.scores.scale, band, found.zeros, found.finite,
        )  # fmt: skip
        plan = split(self, asked, accepted(planned(self, asked)))
        if plan.parts is not None:
            return in_parts(found, plan, outer, matrices, taken)
        special = stripe.Special(ATTEND, tuple(v.name for v in matrices[:3]), (matrices[3].name,), plan.parameters())
        comments = tuple(dict.fromkeys(found.kernel.comments))
        block = stripe.Block(found.kernel.name, outer, (), tuple(matrices), (special,), comments)
        return Kernels({0: (block,)}, ())


def _tell(kernel: stripe.Block, made: object, members: tuple[int, ...], number: int) -> None:
    """Remark what became of a kernel and those that belong to it."""
    if isinstance(made, Refused):
        remark(called_block(kernel), made, number=number)
    else:
        remark(called_block(kernel), None, (("kernels", len(members)),), number=number)
