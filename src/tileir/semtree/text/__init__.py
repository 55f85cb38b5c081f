"""Text form of kernels and programs: printer and parser."""
