"""The same results by other algorithms: running windows, prefix sums, reductions in parts."""
