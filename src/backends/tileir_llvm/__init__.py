"""The LLVM back end: kernels compiled in process for the host's CPU."""
