"""Emission of kernels as OpenCL C."""
