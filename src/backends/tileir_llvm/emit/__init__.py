"""Emission of kernels as LLVM IR."""
