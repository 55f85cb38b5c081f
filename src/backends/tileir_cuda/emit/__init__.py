"""Emission of kernels as LLVM IR for cards, and their PTX."""
