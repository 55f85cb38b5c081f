"""Functions of elements, reductions, running sums, sums of products, and random numbers."""
