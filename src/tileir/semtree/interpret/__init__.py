"""Reference semantics of kernels: the interpreter."""
