"""Kernels changed so that the processor's dot products are exact, before they are spelt."""
