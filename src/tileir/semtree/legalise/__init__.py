"""Kernels in terms of the operations that a back end has, so that it only spells them."""
