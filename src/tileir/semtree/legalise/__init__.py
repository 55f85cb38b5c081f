"""Reduction of kernels to the operations that a back end has."""
