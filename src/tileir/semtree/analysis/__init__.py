"""Facts about kernels: effects, integer ranges, uniformity, order of elements."""
