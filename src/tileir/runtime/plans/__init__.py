"""Executable programs of kernels: placement of temporaries, and order of launches."""
