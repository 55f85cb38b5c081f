"""Kernels as LLVM IR for cards, and their PTX."""
