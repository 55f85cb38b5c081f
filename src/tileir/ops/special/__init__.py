"""Special functions: gamma and its relatives, error functions, quantiles, Bessel functions, and polynomials."""
