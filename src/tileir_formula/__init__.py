"""Formulas: computations as sequences of steps that people read, edit and craft into kernels."""
